/* Memory that dies together: everything that preparing one cell needs. Private to kernel/cell.
 *
 *     cell_arena arena = {0};
 *     if (setjmp(arena.recover)) { cell_arena_free(&arena); return NULL; }   // memory is gone
 *     char *copy = cell_arena_copy(&arena, text, length);
 *     cell_arena_free(&arena);
 *
 * An allocation never returns NULL: when memory is gone it jumps to `recover`, which the owner
 * must have set. Nothing but arena memory may be held by code between the two.
 */
#ifndef CADRE_CELL_ARENA_H
#define CADRE_CELL_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

typedef struct cell_arena {
    struct cell_arena_block *blocks;
    char *next, *limit;
    size_t held; /* bytes of all blocks */
    jmp_buf recover;
} cell_arena;

void *cell_arena_take(cell_arena *arena, size_t size); /* zeroed, aligned to 16 bytes */
char *cell_arena_copy(cell_arena *arena, const char *text, size_t length); /* with a final NUL */
char *cell_arena_printf(cell_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cell_arena_free(cell_arena *arena);

/* A list that grows in an arena: declare `struct { T *items; size_t count, capacity; } list`. */
#define CELL_PUSH(arena, list, ...)                                                                \
    (((list)->count == (list)->capacity                                                            \
          ? (void)((list)->items = cell_arena_grow((arena), (list)->items, (list)->count,          \
                                                   &(list)->capacity, sizeof *(list)->items))      \
          : (void)0),                                                                              \
     (list)->items[(list)->count++] = (__VA_ARGS__))
void *cell_arena_grow(cell_arena *arena, void *items, size_t count, size_t *capacity, size_t size);

#endif
