/* The loader's memory: one reservation that holds the slot table and three arenas.
 *
 * Everything lies within 2 GB, so that 32-bit displacements reach from code to any slot or datum.
 * Code and constants are written through /proc/self/mem, which changes pages that are mapped
 * read-only or executable: nothing is ever writable and executable at once, threads that run
 * older cells in the same page are not disturbed, and the memory stays private, so that a
 * snapshot (a fork) copies it. The file is opened for each write: an open descriptor would mean
 * the memory of the parent after a fork.
 */
#include "cell/load_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define CHUNK MEGABYTE

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) & ~(to - 1);
}

int cadre_arena_reserve(cadre_loader *loader, cadre_error *error)
{
    /* Under a limit of address space less is taken: the parts shrink together. */
    for (size_t share = 1; share <= 32; share *= 2) {
        size_t slots = 32 * MEGABYTE / share, code = 384 * MEGABYTE / share;
        size_t constant = 384 * MEGABYTE / share, data = 1024 * MEGABYTE / share;
        size_t total = round_up(slots, ARENA_ALIGNMENT) + round_up(code, ARENA_ALIGNMENT) +
                       round_up(constant, ARENA_ALIGNMENT) + round_up(data, ARENA_ALIGNMENT);
        unsigned char *start = mmap(NULL, total + ARENA_ALIGNMENT, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) continue;
        loader->reservation = start;
        loader->reservation_size = total + ARENA_ALIGNMENT;
        unsigned char *next = (unsigned char *)round_up((uintptr_t)start, ARENA_ALIGNMENT);
        loader->slots = (struct slot *)next;
        loader->slot_limit = slots / sizeof(struct slot);
        next += round_up(slots, ARENA_ALIGNMENT);
        const size_t sizes[ARENA_COUNT] = {code, constant, data};
        const int protections[ARENA_COUNT] = {PROT_READ | PROT_EXEC, PROT_READ,
                                              PROT_READ | PROT_WRITE};
        for (int i = 0; i < ARENA_COUNT; i++) {
            loader->arenas[i] =
                (struct arena){.base = next, .limit = sizes[i], .protection = protections[i]};
            next += round_up(sizes[i], ARENA_ALIGNMENT);
        }
        return 0;
    }
    return cadre_error_set(error, CADRE_EMEMORY,
                           "no address space for loading cells (%s); raise `ulimit -v`",
                           strerror(errno));
}

void cadre_arena_unreserve(cadre_loader *loader)
{
    for (int i = 0; i < ARENA_COUNT; i++)
        free(loader->arenas[i].free_ranges);
    free(loader->free_slots);
    if (loader->reservation) munmap(loader->reservation, loader->reservation_size);
}

static int grow(struct arena *arena, size_t needed, cadre_error *error)
{
    if (needed <= arena->ready) return 0;
    size_t ready = round_up(needed, CHUNK);
    if (ready > arena->limit) ready = arena->limit;
    if (mprotect(arena->base + arena->ready, ready - arena->ready, arena->protection) < 0) {
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for loading the cell (%s)",
                               strerror(errno));
    }
    arena->ready = ready;
    return 0;
}

/* Position in the sorted array of the first free range that starts after `start`. */
static size_t range_after(const struct arena *arena, size_t start)
{
    size_t low = 0, high = arena->free_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (arena->free_ranges[middle].start > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void remove_range(struct arena *arena, size_t at)
{
    memmove(arena->free_ranges + at, arena->free_ranges + at + 1,
            (arena->free_count - at - 1) * sizeof *arena->free_ranges);
    arena->free_count--;
}

static void add_range(struct arena *arena, size_t start, size_t size)
{
    if (!size) return;
    size_t at = range_after(arena, start);
    if (at > 0 && arena->free_ranges[at - 1].start + arena->free_ranges[at - 1].size == start) {
        struct range *before = &arena->free_ranges[--at];
        start = before->start;
        size += before->size;
        remove_range(arena, at);
    }
    if (at < arena->free_count && start + size == arena->free_ranges[at].start) {
        size += arena->free_ranges[at].size;
        remove_range(arena, at);
    }
    if (start + size == arena->top) {
        arena->top = start;
        return;
    }
    if (arena->free_count == arena->free_capacity) {
        size_t capacity = arena->free_capacity ? arena->free_capacity * 2 : 16;
        struct range *grown = realloc(arena->free_ranges, capacity * sizeof *grown);
        if (!grown) return; /* this piece is lost until the end of the process */
        arena->free_ranges = grown;
        arena->free_capacity = capacity;
    }
    memmove(arena->free_ranges + at + 1, arena->free_ranges + at,
            (arena->free_count - at) * sizeof *arena->free_ranges);
    arena->free_ranges[at] = (struct range){start, size};
    arena->free_count++;
}

int cadre_arena_allocate(struct arena *arena, size_t size, size_t alignment, struct block *block,
                         cadre_error *error)
{
    if (alignment < 16) alignment = 16;
    if (size > arena->limit) size = arena->limit + 1;
    size = round_up(size, 16);
    for (size_t i = 0; i < arena->free_count; i++) {
        struct range range = arena->free_ranges[i];
        size_t start = round_up(range.start, alignment);
        if (start + size > range.start + range.size) continue;
        remove_range(arena, i);
        add_range(arena, range.start, start - range.start);
        add_range(arena, start + size, range.start + range.size - start - size);
        *block = (struct block){arena, arena->base + start, size};
        return 0;
    }
    size_t start = round_up(arena->top, alignment);
    if (start > arena->limit || size > arena->limit - start) {
        return cadre_error_set(error, CADRE_EMEMORY,
                               "the session's %zu MB for loaded cells are full; restart the "
                               "kernel",
                               arena->limit / MEGABYTE);
    }
    if (grow(arena, start + size, error) < 0) return CADRE_EMEMORY;
    size_t gap = arena->top;
    arena->top = start + size;
    add_range(arena, gap, start - gap);
    *block = (struct block){arena, arena->base + start, size};
    return 0;
}

int cadre_arena_allocate_large(struct arena *arena, size_t size, size_t alignment,
                               struct block *block, cadre_error *error)
{
    if (alignment < PAGE) alignment = PAGE;
    /* Within the arena, static arrays can be reached by 32-bit displacements. */
    if (size < arena->limit / 2 &&
        cadre_arena_allocate(arena, round_up(size, PAGE), alignment, block, NULL) == 0) {
        madvise(block->address, block->size, MADV_DONTNEED);
        return 0;
    }
    if (size > SIZE_MAX / 4 || alignment > PAGE) goto refuse;
    void *own = mmap(NULL, round_up(size, PAGE), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) goto refuse;
    *block = (struct block){NULL, own, round_up(size, PAGE)};
    return 0;
refuse:
    return cadre_error_set(error, CADRE_EMEMORY, "no memory for a variable of %zu MB",
                           size / MEGABYTE);
}

void cadre_arena_release(struct block *block)
{
    if (!block->address) return;
    if (!block->arena) {
        munmap(block->address, block->size);
    } else {
        unsigned char *first = (unsigned char *)round_up((uintptr_t)block->address, PAGE);
        unsigned char *end =
            (unsigned char *)((uintptr_t)(block->address + block->size) & ~(uintptr_t)(PAGE - 1));
        if (end > first && (size_t)(end - first) >= 16 * PAGE) {
            madvise(first, (size_t)(end - first), MADV_DONTNEED);
        }
        add_range(block->arena, (size_t)(block->address - block->arena->base), block->size);
    }
    *block = (struct block){0};
}

/* Where /proc is missing or its mem file refuses (hardened kernels): the pages are writable for
 * a moment. They stay executable meanwhile, because other threads may be running in them. */
static int write_unprotected(struct arena *arena, unsigned char *address, const void *bytes,
                             size_t length, cadre_error *error)
{
    unsigned char *first = (unsigned char *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));
    size_t size = round_up((size_t)(address + length - first), PAGE);
    if (mprotect(first, size, arena->protection | PROT_WRITE) < 0 &&
        mprotect(first, size, PROT_READ | PROT_WRITE) < 0) {
        return cadre_error_set(error, CADRE_ESYSTEM, "cannot write loaded code: %s",
                               strerror(errno));
    }
    memcpy(address, bytes, length);
    if (mprotect(first, size, arena->protection) < 0) {
        return cadre_error_set(error, CADRE_ESYSTEM, "cannot protect loaded code: %s",
                               strerror(errno));
    }
    return 0;
}

int cadre_arena_write(struct arena *arena, void *address, const void *bytes, size_t length,
                      cadre_error *error)
{
    if (!length) return 0;
    if (!arena || (arena->protection & PROT_WRITE)) {
        memcpy(address, bytes, length);
        return 0;
    }
    size_t done = 0;
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && done < length) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, length - done,
                           (off_t)((uintptr_t)address + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (fd >= 0) close(fd);
    if (done == length) return 0;
    return write_unprotected(arena, (unsigned char *)address + done, (const char *)bytes + done,
                             length - done, error);
}

struct slot *cadre_slot_new(cadre_loader *loader, cadre_error *error)
{
    if (loader->free_slot_count) {
        return &loader->slots[loader->free_slots[--loader->free_slot_count]];
    }
    if (loader->slot_top == loader->slot_ready) {
        size_t more = CHUNK / 16 / sizeof(struct slot);
        if (loader->slot_ready + more > loader->slot_limit ||
            mprotect(loader->slots + loader->slot_ready, more * sizeof(struct slot),
                     PROT_READ | PROT_WRITE) < 0) {
            cadre_error_set(error, CADRE_EMEMORY, "no memory for another name");
            return NULL;
        }
        loader->slot_ready += more;
    }
    return &loader->slots[loader->slot_top++];
}

void cadre_slot_free(cadre_loader *loader, struct slot *slot)
{
    if (!slot) return;
    *slot = (struct slot){0};
    if (loader->free_slot_count == loader->free_slot_capacity) {
        size_t capacity = loader->free_slot_capacity ? loader->free_slot_capacity * 2 : 64;
        uint32_t *grown = realloc(loader->free_slots, capacity * sizeof *grown);
        if (!grown) return; /* sixteen bytes lost */
        loader->free_slots = grown;
        loader->free_slot_capacity = capacity;
    }
    loader->free_slots[loader->free_slot_count++] = (uint32_t)(slot - loader->slots);
}
