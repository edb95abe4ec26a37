/* Definitions and imports of an object meet the names of the session. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

static bool is_fresh(const struct build *build, const char *name)
{
    for (size_t i = 0; i < build->fresh_count; i++) {
        if (!strcmp(build->fresh[i], name)) return true;
    }
    return false;
}

static void remember(cadre_module *module, struct name *name, struct version *version)
{
    struct undo *undo = &module->undo[module->undo_count++];
    *undo = (struct undo){.name = name, .current = name->current, .version = version};
    if (!version) return;
    undo->kind = version->kind;
    undo->weak = version->weak;
    undo->address = version->address;
    undo->module = version->module;
    undo->part = version->part;
}

static int define(struct build *build, size_t index)
{
    cadre_module *module = build->module;
    struct symbol_state *symbol = &build->symbols[index];
    const char *text = cadre_object_symbol_name(&build->object, index);
    bool weak = ELF64_ST_BIND(build->object.symbols[index].st_info) == STB_WEAK;
    bool thread_local = symbol->place != NULL;
    bool fresh = is_fresh(build, text);
    struct name *name = cadre_name_intern(build->loader, text);
    if (!name) return cadre_build_no_memory(build);
    struct version *version = fresh ? NULL : name->current;
    /* Code reaches the two kinds of variables in ways that do not mix. */
    if (version && version->thread_local != thread_local &&
        (version->kind == VERSION_CELL || version->kind == VERSION_STORAGE || version->imported))
        version = NULL;
    if (version && version->module == module && version->kind == VERSION_CELL) {
        return cadre_error_set(build->error, CADRE_EFORMAT, "the object defines %s twice", text);
    }
    symbol->hidden_weak = version && weak && !version->weak &&
                          (version->kind == VERSION_CELL || version->kind == VERSION_STORAGE);
    if (!version) {
        version = cadre_version_new(build->loader, name, build->error);
        if (!version) {
            cadre_name_release(build->loader, name);
            return CADRE_EMEMORY;
        }
        remember(module, name, NULL);
        name->current = version;
    } else if (!symbol->hidden_weak) {
        remember(module, name, version);
        if (version->kind == VERSION_CELL) build->loader->epoch++;
    }
    if (!symbol->hidden_weak) {
        version->kind = VERSION_CELL;
        version->weak = weak;
        version->address = (void *)(uintptr_t)symbol->address;
        version->module = module;
        version->part = symbol->part;
    }
    version->thread_local = thread_local;
    version->references++;
    symbol->version = version;
    symbol->version_index = (uint32_t)module->version_count;
    module->versions[module->version_count++] = version;
    module->definitions[module->definition_count++] =
        (struct definition){.version = version,
                            .address = (void *)(uintptr_t)symbol->address,
                            .part = symbol->part,
                            .published = !symbol->hidden_weak};
    return 0;
}

static int import(struct build *build, size_t index)
{
    cadre_module *module = build->module;
    struct symbol_state *symbol = &build->symbols[index];
    const char *text = cadre_object_symbol_name(&build->object, index);
    if (!strcmp(text, "_GLOBAL_OFFSET_TABLE_")) {
        symbol->address = (uint64_t)(uintptr_t)build->loader->slots;
        return 0;
    }
    bool thread_local = symbol->needs & NEEDS_PAIR;
    bool fresh = is_fresh(build, text);
    const struct name *known = cadre_name_find(build->loader, text);
    if (known && known->current && known->current->thread_local != thread_local &&
        known->current->imported)
        fresh = true;
    if (fresh) {
        struct name *name = cadre_name_intern(build->loader, text);
        if (!name) return cadre_build_no_memory(build);
        remember(module, name, NULL);
    }
    symbol->version = cadre_version_import(build->loader, text, fresh, build->error);
    if (!symbol->version) {
        if (fresh) module->undo_count--; /* the name may be gone */
        return CADRE_EMEMORY;
    }
    symbol->version->thread_local = thread_local;
    symbol->version_index = (uint32_t)module->version_count;
    module->versions[module->version_count++] = symbol->version;
    return 0;
}

/* An ifunc is known by a stub that jumps to what its resolver chose. */
static int bind_chosen(struct build *build, struct symbol_state *symbol)
{
    cadre_module *module = build->module;
    struct chosen *chosen = &module->chosen[module->chosen_count];
    chosen->slot = cadre_slot_new(build->loader, build->error);
    if (!chosen->slot) return CADRE_EMEMORY;
    chosen->resolver = (void *(*)(void))(uintptr_t)symbol->address;
    module->chosen_count++;
    symbol->resolver = symbol->address;
    symbol->chosen_slot = chosen->slot;
    symbol->address = (uint64_t)(uintptr_t)module->blocks[ARENA_CODE].address + build->stub_start +
                      (uint64_t)symbol->resolver_stub * 8;
    return 0;
}

/* The symbol's place in the module's thread block, and what names it to __tls_get_addr. */
static void bind_thread_local(struct build *build, const struct section_state *section,
                              struct symbol_state *symbol, uint64_t value)
{
    cadre_module *module = build->module;
    struct thread_place *place =
        (struct thread_place *)(module->blocks[ARENA_DATA].address + build->place_start) +
        build->places_used++;
    *place = (struct thread_place){module->thread_block, section->thread_offset + value};
    symbol->place = place;
    symbol->address = (uint64_t)(uintptr_t)place;
}

static struct thread_pair *next_pair(struct build *build, size_t *offset)
{
    *offset = build->pair_start + build->pairs_used++ * sizeof(struct thread_pair);
    return (struct thread_pair *)(build->module->blocks[ARENA_DATA].address + *offset);
}

static int bind_symbol(struct build *build, size_t index)
{
    const Elf64_Sym *elf = &build->object.symbols[index];
    struct symbol_state *symbol = &build->symbols[index];
    const char *text = cadre_object_symbol_name(&build->object, index);
    unsigned type = ELF64_ST_TYPE(elf->st_info);
    size_t section = cadre_object_symbol_section(&build->object, index);
    if (!strcmp(text, "__gnu_lto_slim")) {
        return cadre_error_set(build->error, CADRE_EFORMAT,
                               "the object was compiled with -flto and holds no code");
    }
    bool global = cadre_symbol_is_global(elf);
    if (section) {
        const struct section_state *state = &build->sections[section];
        if (!state->loaded) return 0;
        symbol->address = state->address + elf->st_value;
        symbol->part = state->part;
        if (state->is_thread_local != (type == STT_TLS) && type != STT_SECTION) {
            return cadre_error_set(build->error, CADRE_EFORMAT, "%s is in the wrong section", text);
        }
        if (type == STT_TLS) bind_thread_local(build, state, symbol, elf->st_value);
        if (type == STT_GNU_IFUNC) {
            if (state->arena != ARENA_CODE || bind_chosen(build, symbol) < 0)
                return cadre_error_set(build->error, CADRE_EFORMAT, "%s has no resolver", text);
        }
    } else if (elf->st_shndx == SHN_ABS) {
        symbol->address = elf->st_value;
    } else if (elf->st_shndx == SHN_COMMON) {
        symbol->address += (uint64_t)(uintptr_t)build->module->blocks[ARENA_DATA].address;
    } else if (global) {
        return symbol->needs ? import(build, index) : 0;
    }
    if (!global || type == STT_FILE || type == STT_SECTION) return 0;
    if (!*text) {
        return cadre_error_set(build->error, CADRE_EFORMAT, "a global symbol has no name");
    }
    return define(build, index);
}

int cadre_build_bind(struct build *build)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    size_t globals = 0, privates = 0, chosen = 0;
    for (size_t i = 1; i < object->symbol_count; i++) {
        build->symbols[i].part = NO_PART;
        if (cadre_symbol_type(&object->symbols[i]) == STT_GNU_IFUNC) chosen++;
        if (cadre_symbol_is_global(&object->symbols[i]))
            globals++;
        else if (build->symbols[i].needs & NEEDS_SLOT)
            privates++;
    }
    module->versions = calloc(globals + 1, sizeof *module->versions);
    module->definitions = calloc(globals + 1, sizeof *module->definitions);
    module->undo = calloc(globals + 1, sizeof *module->undo);
    module->chosen = chosen ? calloc(chosen, sizeof *module->chosen) : NULL;
    module->private_slots = privates ? calloc(privates, sizeof *module->private_slots) : NULL;
    if (!module->versions || !module->definitions || !module->undo ||
        (privates && !module->private_slots) || (chosen && !module->chosen))
        return cadre_build_no_memory(build);
    for (size_t i = 1; i < object->symbol_count; i++) {
        struct symbol_state *symbol = &build->symbols[i];
        int status = bind_symbol(build, i);
        if (status < 0) return status;
        if (symbol->needs & NEEDS_PAIR) {
            if (!symbol->version && !symbol->place) {
                return cadre_error_set(build->error, CADRE_EFORMAT, "%s is not thread-local",
                                       cadre_object_symbol_name(object, i));
            }
            *next_pair(build, &symbol->pair) = (struct thread_pair){symbol->version, symbol->place};
        }
        if (symbol->version) {
            symbol->version->imported = true;
            symbol->slot = symbol->version->slot;
        } else if (symbol->needs & (NEEDS_SLOT | NEEDS_STUB)) {
            if (!(symbol->needs & NEEDS_SLOT) || cadre_symbol_is_global(&object->symbols[i])) {
                return cadre_error_set(build->error, CADRE_EFORMAT,
                                       "%s cannot be reached through the offset table",
                                       cadre_object_symbol_name(object, i));
            }
            symbol->slot = cadre_slot_new(build->loader, build->error);
            if (!symbol->slot) return CADRE_EMEMORY;
            module->private_slots[module->private_slot_count++] = symbol->slot;
            symbol->slot->address = symbol->slot->call = (void *)(uintptr_t)symbol->address;
        }
    }
    if (build->needs_base_pair) {
        struct thread_place *base =
            (struct thread_place *)(module->blocks[ARENA_DATA].address + build->place_start) +
            build->places_used++;
        *base = (struct thread_place){module->thread_block, 0};
        *next_pair(build, &build->base_pair) = (struct thread_pair){NULL, base};
    }
    return 0;
}
