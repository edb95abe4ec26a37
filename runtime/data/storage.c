#include "data/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define CACHE_LINE ((size_t)64)

/* Does the system give huge pages to those who ask? */
static bool has_huge_pages(void)
{
    char text[64] = "";
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 && !strstr(text, "[never]");
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* A mapping that starts and ends with a huge page: one more is taken, the ends are given back. */
static char *map_huge(size_t size)
{
    size_t larger = size + HUGE_PAGE;
    char *start = mmap(NULL, larger, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    size_t before = round_up((uintptr_t)start, HUGE_PAGE) - (uintptr_t)start;
    if (before) munmap(start, before);
    if (before < HUGE_PAGE) munmap(start + before + size, HUGE_PAGE - before);
    (void)madvise(start + before, size, MADV_HUGEPAGE);
    return start + before;
}

int cadre_storage_reserve(table_storage *storage, size_t columns, size_t rows, const char *source,
                          cadre_error *error)
{
    *storage = (table_storage){0};
    /* Odd numbers of cache lines: columns a power of two apart would compete for the same few
     * lines of the caches when a row is read. */
    size_t apart = round_up(rows * sizeof(int64_t) + 1, CACHE_LINE) | CACHE_LINE;
    size_t size = 0;
    if (rows > SIZE_MAX / 32 || __builtin_mul_overflow(columns, apart, &size) ||
        size > SIZE_MAX / 4) {
        errno = ENOMEM;
    } else if (size >= 2 * HUGE_PAGE && has_huge_pages()) {
        size = round_up(size, HUGE_PAGE);
        storage->start = map_huge(size);
    } else {
        storage->start = mmap(NULL, size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (storage->start == MAP_FAILED) storage->start = NULL;
    }
    if (!storage->start)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for the table of %s: %s", source,
                               strerror(errno));
    storage->size = size;
    storage->apart = apart;
    return CADRE_OK;
}

void cadre_storage_trim(const table_storage *storage, size_t column, size_t used)
{
    uintptr_t start = (uintptr_t)cadre_storage_column(storage, column);
    uintptr_t from = round_up(start + used, HUGE_PAGE);
    uintptr_t to = (start + storage->apart) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (from >= to) return;
    /* The second is for a shared mapping, where the first frees nothing. */
    if (madvise((void *)from, to - from, MADV_DONTNEED) == 0)
        (void)madvise((void *)from, to - from, MADV_REMOVE);
}

int cadre_storage_seal(const table_storage *storage, cadre_error *error)
{
    if (mprotect(storage->start, storage->size, PROT_READ) == 0) return CADRE_OK;
    return cadre_error_set(error, CADRE_ESYSTEM, "the table cannot be sealed: %s", strerror(errno));
}

void cadre_storage_release(table_storage *storage)
{
    if (storage->start) munmap(storage->start, storage->size);
    *storage = (table_storage){0};
}
