/* The life of a loader and of its modules. */
#include "cell/load_internal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BITS 12

cadre_loader *cadre_loader_new(cadre_error *error)
{
    cadre_loader *loader = calloc(1, sizeof *loader);
    if (!loader) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the loader");
        return NULL;
    }
    loader->epoch = 1;
    if (cadre_arena_reserve(loader, error) < 0) goto fail;
    loader->page_count = loader->arenas[ARENA_CODE].limit >> PAGE_BITS;
    /* Mapped, not allocated: only the pages in use cost memory. */
    loader->pages = mmap(NULL, loader->page_count * sizeof *loader->pages, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (loader->pages == MAP_FAILED) {
        loader->pages = NULL;
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the loader");
        goto fail;
    }
    return loader;
fail:
    cadre_loader_free(loader);
    return NULL;
}

void cadre_loader_free(cadre_loader *loader)
{
    if (!loader) return;
    for (cadre_module *module = loader->last, *previous; module; module = previous) {
        previous = module->previous;
        cadre_module_free(module);
    }
    cadre_names_free(loader);
    if (loader->pages) munmap(loader->pages, loader->page_count * sizeof *loader->pages);
    free(loader->library_ranges);
    cadre_arena_unreserve(loader);
    free(loader);
}

static cadre_module **page_of(const cadre_module *module)
{
    const struct arena *arena = &module->loader->arenas[ARENA_CODE];
    size_t offset = (size_t)(module->blocks[ARENA_CODE].address - arena->base);
    return &module->loader->pages[offset >> PAGE_BITS];
}

int cadre_module_index(cadre_module *module, cadre_error *error)
{
    (void)error;
    if (!module->blocks[ARENA_CODE].address) return 0;
    cadre_module **head = page_of(module);
    module->next_in_page = *head;
    __atomic_store_n(head, module, __ATOMIC_RELEASE);
    module->indexed = true;
    return 0;
}

void cadre_module_unindex(cadre_module *module)
{
    if (!module->indexed) return;
    cadre_module **link = page_of(module);
    while (*link != module)
        link = &(*link)->next_in_page;
    __atomic_store_n(link, module->next_in_page, __ATOMIC_RELEASE);
    module->indexed = false;
}

void cadre_module_undo(cadre_module *module)
{
    while (module->undo_count) {
        struct undo *undo = &module->undo[--module->undo_count];
        undo->name->current = undo->current;
        struct version *version = undo->version;
        if (!version) continue;
        version->kind = undo->kind;
        version->weak = undo->weak;
        version->address = undo->address;
        version->module = undo->module;
        version->part = undo->part;
    }
    module->loader->epoch++;
}

static void drop_fixups(cadre_module *module, struct version *version)
{
    struct fixup **link = &version->fixups;
    while (*link) {
        struct fixup *fixup = *link;
        if (fixup->module != module) {
            link = &fixup->next;
            continue;
        }
        *link = fixup->next;
        free(fixup);
    }
}

void cadre_module_free(cadre_module *module)
{
    cadre_loader *loader = module->loader;
    cadre_debug_withdraw(module);
    cadre_module_unindex(module);
    for (size_t i = 0; i < module->version_count; i++) {
        struct version *version = module->versions[i];
        drop_fixups(module, version);
        if (version->module == module) version->module = NULL;
        cadre_version_release(loader, version);
    }
    for (size_t i = 0; i < module->private_slot_count; i++)
        cadre_slot_free(loader, module->private_slots[i]);
    for (int i = 0; i < ARENA_COUNT; i++)
        cadre_arena_release(&module->blocks[i]);
    for (size_t i = 0; i < module->large_count; i++)
        cadre_arena_release(&module->large[i]);
    for (size_t i = 0; i < module->chosen_count; i++)
        cadre_slot_free(loader, module->chosen[i].slot);
    if (module->library) dlclose(module->library);
    free(module->chosen);
    free(module->thread_block);
    free(module->strings);
    free(module->large);
    free(module->functions);
    free(module->definitions);
    free(module->versions);
    free(module->private_slots);
    free(module->parts);
    free(module->references);
    free(module->initializers);
    free(module->finalizers);
    free(module->root_parts);
    free(module->frames);
    free(module->undo);
    free(module);
}

static void detach(cadre_loader *loader, cadre_module *module)
{
    if (module->previous)
        module->previous->next = module->next;
    else
        loader->first = module->next;
    if (module->next)
        module->next->previous = module->previous;
    else
        loader->last = module->previous;
}

/* A cell of nested functions builds trampolines on its stack; the system's own loader makes
 * stacks executable for such a program too. Here it is done when the first such cell is
 * committed, for the stack that the caller is on. */
static void allow_code_on_stack(void)
{
    char line[256];
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || here < start || here >= end) continue;
        int grows = strstr(line, "[stack]") ? PROT_GROWSDOWN : 0;
        (void)!mprotect((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC | grows);
        break;
    }
    fclose(maps);
}

/* The loader's own reference to storage that this module's definitions replaced ends here. */
static void forget_undo(cadre_module *module)
{
    for (size_t i = 0; i < module->undo_count; i++) {
        struct version *stored = module->undo[i].version;
        bool was_storage = stored && module->undo[i].kind == VERSION_STORAGE;
        if (!stored) {
            stored = module->undo[i].current;
            was_storage = stored && stored->kind == VERSION_STORAGE;
        }
        if (was_storage) cadre_version_release(module->loader, stored);
    }
    free(module->undo);
    module->undo = NULL;
    module->undo_count = 0;
}

void cadre_loader_commit_until(cadre_loader *loader, cadre_module *last)
{
    cadre_module *module = loader->pending;
    for (; module; module = module->next) {
        for (size_t i = 0; i < module->definition_count; i++) {
            const struct definition *definition = &module->definitions[i];
            if (definition->published)
                cadre_version_publish(definition->version, definition->address);
        }
        forget_undo(module);
        if (module->wants_executable_stack && !loader->stack_is_executable) {
            allow_code_on_stack();
            loader->stack_is_executable = true;
        }
        cadre_debug_announce(module);
        if (module == last) {
            module = module->next;
            break;
        }
    }
    loader->pending = module;
}

void cadre_loader_commit(cadre_loader *loader)
{
    cadre_loader_commit_until(loader, NULL);
}

void cadre_loader_discard(cadre_loader *loader)
{
    cadre_module *first = loader->pending;
    while (first && loader->last) {
        cadre_module *module = loader->last;
        bool done = module == first;
        cadre_module_undo(module);
        detach(loader, module);
        cadre_module_free(module);
        if (done) break;
    }
    loader->pending = NULL;
}

static void call_plainly(cadre_constructor *function, int count, char **arguments,
                         char **environment)
{
    function(count, arguments, environment);
}

static void call_all(const struct initializer *initializers, size_t count,
                     cadre_constructor_caller *call)
{
    static char name[] = "cell";
    static char *arguments[] = {name, NULL};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < initializers[i].count; k++) {
            void *function = initializers[i].backwards
                                 ? initializers[i].place[initializers[i].count - 1 - k]
                                 : initializers[i].place[k];
            if (!function || function == (void *)-1) continue;
            call((cadre_constructor *)function, 1, arguments, environ);
        }
    }
}

void cadre_loader_construct(cadre_module *module)
{
    cadre_loader_construct_by(module, call_plainly);
}

void cadre_loader_construct_by(cadre_module *module, cadre_constructor_caller *call)
{
    if (module->constructed) return;
    module->constructed = true;
    for (size_t i = 0; i < module->chosen_count; i++) {
        struct slot *slot = module->chosen[i].slot;
        slot->address = slot->call = module->chosen[i].resolver();
    }
    call_all(module->initializers, module->initializer_count, call);
}

void cadre_loader_destruct(cadre_loader *loader)
{
    for (cadre_module *module = loader->last; module; module = module->previous) {
        if (!module->constructed) continue;
        module->constructed = false;
        for (size_t i = module->finalizer_count; i-- > 0;) {
            struct initializer last = module->finalizers[i];
            last.backwards = !last.backwards;
            call_all(&last, 1, call_plainly);
        }
    }
}

void cadre_loader_release_statements(cadre_loader *loader, cadre_module *module)
{
    if (!module || module->library || module->code_taken || module->large_count ||
        module->finalizer_count || module->thread_block || module->chosen_count)
        return;
    for (const cadre_module *m = loader->pending; m; m = m->next) {
        if (m == module) return;
    }
    for (size_t i = 0; i < module->definition_count; i++) {
        if (module->definitions[i].version->references > 1) return;
    }
    /* What a pointer may still point to stays, and nobody needs to know of it any more. */
    struct block *constant = &module->blocks[ARENA_CONSTANT];
    size_t kept = (module->escaping_size + 15) & ~(size_t)15;
    if (kept && constant->address) {
        if (kept >= constant->size)
            *constant = (struct block){0};
        else {
            constant->address += kept;
            constant->size -= kept;
        }
    }
    module->blocks[ARENA_DATA] = (struct block){0};
    detach(loader, module);
    cadre_module_free(module);
}

void *cadre_module_symbol(const cadre_module *module, const char *name)
{
    for (size_t i = 0; i < module->definition_count; i++) {
        const struct definition *definition = &module->definitions[i];
        if (strcmp(definition->version->name->text, name) != 0) continue;
        return definition->version->thread_local ? cadre_thread_address(definition->address)
                                                 : definition->address;
    }
    return NULL;
}

/* ---- safe in signal handlers ---- */

bool cadre_loader_is_cell_code(const cadre_loader *loader, const void *pc)
{
    const struct arena *code = &loader->arenas[ARENA_CODE];
    const unsigned char *at = pc;
    if (at >= code->base && at < code->base + code->top) return true;
    for (size_t i = 0; i < loader->library_range_count; i++) {
        if (at >= loader->library_ranges[i].start && at < loader->library_ranges[i].end)
            return true;
    }
    return false;
}

void cadre_loader_divert_calls(cadre_loader *loader, void *stub)
{
    for (size_t i = 0; i < loader->slot_top; i++) {
        struct slot *slot = &loader->slots[i];
        void *target = __atomic_load_n(&slot->address, __ATOMIC_ACQUIRE);
        if (target && !cadre_loader_is_cell_code(loader, target))
            __atomic_store_n(&slot->call, stub, __ATOMIC_RELEASE);
    }
}

void cadre_loader_restore_calls(cadre_loader *loader)
{
    for (size_t i = 0; i < loader->slot_top; i++) {
        struct slot *slot = &loader->slots[i];
        void *target = __atomic_load_n(&slot->address, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&slot->call, __ATOMIC_ACQUIRE) != target)
            __atomic_store_n(&slot->call, target, __ATOMIC_RELEASE);
    }
}

static const cadre_module *module_at(const cadre_loader *loader, const unsigned char *at)
{
    const struct arena *code = &loader->arenas[ARENA_CODE];
    if (at < code->base || at >= code->base + code->top) return NULL;
    size_t page = (size_t)(at - code->base) >> PAGE_BITS;
    for (;; page--) {
        const cadre_module *best = NULL;
        const cadre_module *module = __atomic_load_n(&loader->pages[page], __ATOMIC_ACQUIRE);
        for (; module; module = module->next_in_page) {
            const unsigned char *start = module->blocks[ARENA_CODE].address;
            if (start <= at && (!best || start > best->blocks[ARENA_CODE].address)) best = module;
        }
        if (best) {
            const struct block *block = &best->blocks[ARENA_CODE];
            return at < block->address + block->size ? best : NULL;
        }
        if (page == 0) return NULL;
    }
}

/* The last function that begins at `offset` or before; NULL: none. */
static const struct function *function_at(const cadre_module *module, uint64_t offset)
{
    size_t low = 0, high = module->function_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (module->functions[middle].offset > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low ? &module->functions[low - 1] : NULL;
}

bool cadre_loader_describe(const cadre_loader *loader, const void *pc, const char **label,
                           const char **function, uint64_t *offset_in_function)
{
    const cadre_module *module = module_at(loader, pc);
    if (!module) return false;
    uint64_t offset = (uint64_t)((const unsigned char *)pc - module->blocks[ARENA_CODE].address);
    const struct function *found = function_at(module, offset);
    if (!found) return false;
    if (label) *label = module->label;
    if (function) *function = module->strings + found->name;
    if (offset_in_function) *offset_in_function = offset - found->offset;
    return true;
}

bool cadre_loader_extent(const cadre_loader *loader, const void *pc, const void **start,
                         size_t *size)
{
    const cadre_module *module = module_at(loader, pc);
    if (!module) return false;
    const struct block *block = &module->blocks[ARENA_CODE];
    const struct function *found =
        function_at(module, (uint64_t)((const unsigned char *)pc - block->address));
    if (!found) return false;
    *start = block->address + found->offset;
    *size = found->size;
    return true;
}

bool cadre_loader_is_slot(const cadre_loader *loader, const void *address)
{
    uintptr_t first = (uintptr_t)loader->slots, at = (uintptr_t)address;
    return at >= first && at < first + loader->slot_top * sizeof *loader->slots;
}
