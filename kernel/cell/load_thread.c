/* Thread-local variables of cells.
 *
 * Position-independent code finds such a variable by calling __tls_get_addr with the address of
 * two words that the linker filled in. The system's own answer knows only libraries, so cells get
 * this one: the words name a version (whose newest definition counts, as for any other name) or
 * a place, and each thread makes its copy of a module's block when it first touches it.
 */
#include "cell/load_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One per thread, seen by that thread alone. */
struct thread_table {
    size_t count;
    void *blocks[];
};

static _Thread_local struct thread_table *table;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_table(void *data)
{
    struct thread_table *old = data;
    table = NULL;
    for (size_t i = 0; i < old->count; i++)
        free(old->blocks[i]);
    free(old);
}

static void make_key(void)
{
    (void)!pthread_key_create(&at_exit, free_table);
}

/* The copy of this thread, made now. Without memory there is no way to go on: the system's own
 * function ends the process then, too. */
static void *make_block(const struct thread_block *block)
{
    if (!table || block->id >= table->count) {
        size_t before = table ? table->count : 0, count = block->id + 16;
        struct thread_table *grown = realloc(table, sizeof *grown + count * sizeof(void *));
        if (!grown) __builtin_trap();
        memset(grown->blocks + before, 0, (count - before) * sizeof(void *));
        grown->count = count;
        table = grown;
        pthread_once(&once, make_key);
        pthread_setspecific(at_exit, table);
    }
    size_t alignment = block->alignment < 16 ? 16 : block->alignment;
    size_t size = (block->size + alignment - 1) & ~(alignment - 1);
    unsigned char *copy = aligned_alloc(alignment, size ? size : alignment);
    if (!copy) __builtin_trap();
    memset(copy, 0, size);
    if (block->image_size) memcpy(copy, block->image, block->image_size);
    table->blocks[block->id] = copy;
    return copy;
}

void *cadre_thread_address(const struct thread_place *place)
{
    const struct thread_block *block = place->block;
    unsigned char *copy = table && block->id < table->count ? table->blocks[block->id] : NULL;
    if (!copy) copy = make_block(block);
    return copy + place->offset;
}

void *cadre_thread_get_address(const struct thread_pair *pair)
{
    const struct version *version = pair->version;
    if (!version) return cadre_thread_address(pair->place);
    if (version->kind == VERSION_LIBRARY) return dlsym(RTLD_DEFAULT, version->name->text);
    const struct thread_place *place = __atomic_load_n(&version->slot->address, __ATOMIC_ACQUIRE);
    return place ? cadre_thread_address(place) : NULL;
}
