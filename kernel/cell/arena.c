#include "cell/arena.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cell that needed more leaves the allocator with memory that nobody asks for again. */
enum { MUCH = 16 << 20 };

struct cell_arena_block {
    struct cell_arena_block *next;
    _Alignas(16) char bytes[];
};

void *cell_arena_take(cell_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4) longjmp(arena->recover, 1);
    size = (size + 15) & ~(size_t)15;
    if (size > (size_t)(arena->limit - arena->next)) {
        size_t room = size > 32768 ? size : 65536;
        struct cell_arena_block *block = malloc(sizeof *block + room);
        if (!block) longjmp(arena->recover, 1);
        block->next = arena->blocks;
        arena->blocks = block;
        arena->held += room;
        if (room == size) { /* a large one gets its own block; the current one goes on */
            memset(block->bytes, 0, size);
            return block->bytes;
        }
        arena->next = block->bytes;
        arena->limit = block->bytes + room;
    }
    void *memory = arena->next;
    arena->next += size;
    return memset(memory, 0, size);
}

char *cell_arena_copy(cell_arena *arena, const char *text, size_t length)
{
    char *copy = cell_arena_take(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *cell_arena_printf(cell_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = cell_arena_take(arena, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *cell_arena_grow(cell_arena *arena, void *items, size_t count, size_t *capacity, size_t size)
{
    size_t more = *capacity ? *capacity * 2 : 8;
    char *grown = cell_arena_take(arena, more * size);
    if (count) memcpy(grown, items, count * size);
    *capacity = more;
    return grown;
}

void cell_arena_free(cell_arena *arena)
{
    for (struct cell_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    if (arena->held > MUCH) malloc_trim(0);
    arena->blocks = NULL;
    arena->next = arena->limit = NULL;
    arena->held = 0;
}
