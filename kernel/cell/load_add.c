/* Loading one object: lay out its sections, bind its names, relocate, publish nothing yet. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)1 << 20)

static int no_memory(const struct build *build)
{
    return cadre_error_set(build->error, CADRE_EMEMORY, "no memory for loading the cell");
}

static bool has_prefix(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) & ~(to - 1);
}

/* ---- sections ----------------------------------------------------------------------------------
 */

static int classify(struct build *build)
{
    const struct object *object = &build->object;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        struct section_state *section = &build->sections[i];
        section->part = NO_PART;
        if (header->sh_type == SHT_RELA || header->sh_type == SHT_REL) {
            struct section_state *target = &build->sections[header->sh_info];
            if (target->relocations && (object->sections[header->sh_info].sh_flags & SHF_ALLOC)) {
                return cadre_error_set(build->error, CADRE_EFORMAT,
                                       "the object relocates a section twice");
            }
            target->relocations = i;
        }
        if (!(header->sh_flags & SHF_ALLOC) || header->sh_type == SHT_NOTE) continue;
        const char *name = cadre_object_section_name(object, i);
        if (header->sh_flags & SHF_TLS) {
            return cadre_error_set(build->error, CADRE_ENEEDS_DLOPEN,
                                   "the cell has thread-local variables: link a shared library");
        }
        section->loaded = true;
        section->is_frames = !strcmp(name, ".eh_frame");
        section->arena = header->sh_flags & SHF_EXECINSTR ? ARENA_CODE
                         : (header->sh_flags & SHF_WRITE) && !has_prefix(name, ".data.rel.ro")
                             ? ARENA_DATA
                             : ARENA_CONSTANT;
        /* Numbers that code loads, as opposed to what it may take the address of. */
        section->may_escape =
            section->arena == ARENA_CONSTANT && !section->is_frames &&
            !((header->sh_flags & SHF_MERGE) && !(header->sh_flags & SHF_STRINGS));
        if (!section->is_frames) section->part = (uint32_t)build->module->part_count++;
        if (section->arena == ARENA_CODE && (header->sh_flags & SHF_WRITE)) {
            return cadre_error_set(build->error, CADRE_EFORMAT,
                                   "section %s is writable and executable", name);
        }
        if (header->sh_type == SHT_NOBITS && section->arena != ARENA_DATA && header->sh_size) {
            return cadre_error_set(build->error, CADRE_EFORMAT, "section %s has no content", name);
        }
    }
    return 0;
}

/* Reserves room in the block of an arena. */
static size_t place(struct build *build, int arena, size_t size, size_t alignment)
{
    if (alignment < 1) alignment = 1;
    if (alignment > build->alignments[arena]) build->alignments[arena] = alignment;
    size_t offset = round_up(build->sizes[arena], alignment);
    build->sizes[arena] = offset + size;
    return offset;
}

static int place_sections(struct build *build, bool escaping)
{
    const struct object *object = &build->object;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        struct section_state *section = &build->sections[i];
        if (!section->loaded || section->may_escape != escaping) continue;
        if (header->sh_type == SHT_NOBITS && header->sh_size >= LARGE) {
            struct block *block = &build->module->large[build->module->large_count];
            if (cadre_arena_allocate_large(&build->loader->arenas[ARENA_DATA], header->sh_size,
                                           header->sh_addralign, block, build->error) < 0)
                return CADRE_EMEMORY;
            build->module->large_count++;
            section->large = block;
            continue;
        }
        /* The unwinder's table ends with a zero word. */
        size_t size = header->sh_size + (section->is_frames ? 4 : 0);
        section->offset = place(build, section->arena, size, header->sh_addralign);
    }
    return 0;
}

static int lay_out(struct build *build)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    size_t large = 0, frames = 0;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        if (!build->sections[i].loaded) continue;
        if (header->sh_type == SHT_NOBITS && header->sh_size >= LARGE) large++;
        if (build->sections[i].is_frames) frames++;
    }
    if (large && !(module->large = calloc(large, sizeof *module->large))) return no_memory(build);
    if (frames && !(module->frames = calloc(frames, sizeof *module->frames)))
        return no_memory(build);
    int status = place_sections(build, true);
    build->escaping_size = build->sizes[ARENA_CONSTANT];
    if (status == 0) status = place_sections(build, false);
    if (status < 0) return status;
    for (size_t i = 1; i < object->symbol_count; i++) {
        const Elf64_Sym *symbol = &object->symbols[i];
        if (symbol->st_shndx != SHN_COMMON) continue;
        build->symbols[i].address = place(build, ARENA_DATA, symbol->st_size, symbol->st_value);
    }
    if (build->stub_count) build->stub_start = place(build, ARENA_CODE, build->stub_count * 8, 8);
    for (int i = 0; i < ARENA_COUNT; i++) {
        if (!build->sizes[i]) continue;
        /* Parts that are trimmed later are whole allocation units. */
        if (cadre_arena_allocate(&build->loader->arenas[i], build->sizes[i], build->alignments[i],
                                 &module->blocks[i], build->error) < 0)
            return CADRE_EMEMORY;
        if (i == ARENA_DATA) {
            memset(module->blocks[i].address, 0, module->blocks[i].size);
            continue;
        }
        build->staging[i] = malloc(module->blocks[i].size);
        if (!build->staging[i]) return no_memory(build);
        memset(build->staging[i], i == ARENA_CODE ? 0xcc : 0, module->blocks[i].size);
    }
    return 0;
}

static void fill_sections(struct build *build)
{
    const struct object *object = &build->object;
    cadre_module *module = build->module;
    for (size_t i = 1; i < object->section_count; i++) {
        struct section_state *section = &build->sections[i];
        if (!section->loaded) continue;
        unsigned char *start =
            section->large ? section->large->address : module->blocks[section->arena].address;
        /* An empty section may come before anything that takes room. */
        if (!start) start = build->loader->arenas[section->arena].base;
        section->address = (uint64_t)(uintptr_t)start + section->offset;
        section->bytes = section->arena == ARENA_DATA ? start + section->offset
                         : build->staging[section->arena]
                             ? build->staging[section->arena] + section->offset
                             : NULL;
        const Elf64_Shdr *header = &object->sections[i];
        if (header->sh_type != SHT_NOBITS && header->sh_size)
            memcpy(section->bytes, object->bytes + header->sh_offset, header->sh_size);
        if (section->is_frames && header->sh_size)
            module->frames[module->frame_count++] = (void *)(uintptr_t)section->address;
    }
}

/* ---- names -------------------------------------------------------------------------------------
 */

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
    bool fresh = is_fresh(build, text);
    struct name *name = cadre_name_intern(build->loader, text);
    if (!name) return no_memory(build);
    struct version *version = fresh ? NULL : name->current;
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
    bool fresh = is_fresh(build, text);
    if (fresh) {
        struct name *name = cadre_name_intern(build->loader, text);
        if (!name) return no_memory(build);
        remember(module, name, NULL);
    }
    symbol->version = cadre_version_import(build->loader, text, fresh, build->error);
    if (!symbol->version) {
        if (fresh) module->undo_count--; /* the name may be gone */
        return CADRE_EMEMORY;
    }
    symbol->version_index = (uint32_t)module->version_count;
    module->versions[module->version_count++] = symbol->version;
    return 0;
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
    if (type == STT_GNU_IFUNC || type == STT_TLS) {
        return cadre_error_set(build->error, CADRE_ENEEDS_DLOPEN, "%s is %s: link a shared library",
                               text,
                               type == STT_TLS ? "thread-local" : "chosen at load time (ifunc)");
    }
    bool global = cadre_symbol_is_global(elf);
    if (section) {
        const struct section_state *state = &build->sections[section];
        if (!state->loaded) return 0;
        symbol->address = state->address + elf->st_value;
        symbol->part = state->part;
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

static int bind_symbols(struct build *build)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    size_t globals = 0, privates = 0;
    for (size_t i = 1; i < object->symbol_count; i++) {
        build->symbols[i].part = NO_PART;
        if (cadre_symbol_is_global(&object->symbols[i]))
            globals++;
        else if (build->symbols[i].needs & NEEDS_SLOT)
            privates++;
    }
    module->versions = calloc(globals + 1, sizeof *module->versions);
    module->definitions = calloc(globals + 1, sizeof *module->definitions);
    module->undo = calloc(globals + 1, sizeof *module->undo);
    module->private_slots = privates ? calloc(privates, sizeof *module->private_slots) : NULL;
    if (!module->versions || !module->definitions || !module->undo ||
        (privates && !module->private_slots))
        return no_memory(build);
    for (size_t i = 1; i < object->symbol_count; i++) {
        struct symbol_state *symbol = &build->symbols[i];
        int status = bind_symbol(build, i);
        if (status < 0) return status;
        if (symbol->version) {
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
    return 0;
}

/* ---- what is kept of the object ----------------------------------------------------------------
 */

static int compare_functions(const void *left, const void *right)
{
    const struct function *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* Symbol tables hold local names first: of two names for one place the last, a global one, is
 * found by cadre_loader_describe. */
static int keep_functions(struct build *build, const char *label)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    size_t count = 0, size = strlen(label) + 1;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 1; i < object->symbol_count; i++) {
            const Elf64_Sym *symbol = &object->symbols[i];
            size_t section = cadre_object_symbol_section(object, i);
            if (!section || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
                !build->sections[section].loaded || build->sections[section].arena != ARENA_CODE)
                continue;
            const char *name = cadre_object_symbol_name(object, i);
            size_t length = strlen(name) + 1;
            if (pass) {
                memcpy(module->strings + size, name, length);
                module->functions[module->function_count++] = (struct function){
                    .offset = (uint32_t)(build->sections[section].offset + symbol->st_value),
                    .size = (uint32_t)symbol->st_size,
                    .part = build->sections[section].part,
                    .name = (uint32_t)size};
            }
            size += length;
            count++;
        }
        if (pass) break;
        module->strings = malloc(size);
        module->functions = calloc(count + 1, sizeof *module->functions);
        if (!module->strings || !module->functions || size > UINT32_MAX) return no_memory(build);
        size = strlen(label) + 1;
        memcpy(module->strings, label, size);
        module->label = module->strings;
    }
    qsort(module->functions, module->function_count, sizeof *module->functions, compare_functions);
    return 0;
}

struct ordered {
    long priority;
    size_t section;
    bool backwards;
};

static int compare_ordered(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->priority != b->priority) return a->priority < b->priority ? -1 : 1;
    return a->section < b->section ? -1 : a->section > b->section;
}

/* `.init_array.00101` runs before `.init_array`; `.ctors.65434` is the same priority counted the
 * other way, and its entries run from the last to the first. */
static bool initializer_priority(const char *name, const char *array, const char *old,
                                 struct ordered *ordered)
{
    const char *found = has_prefix(name, array) ? array : has_prefix(name, old) ? old : NULL;
    if (!found) return false;
    const char *suffix = name + strlen(found);
    if (*suffix && *suffix != '.') return false;
    ordered->backwards = found == old;
    ordered->priority = 65536;
    if (*suffix == '.') {
        long number = strtol(suffix + 1, NULL, 10);
        ordered->priority = found == old ? 65535 - number : number;
    }
    return true;
}

static int keep_initializers(struct build *build, bool final)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    struct ordered *list = calloc(object->section_count, sizeof *list);
    struct initializer *initializers = NULL;
    size_t count = 0;
    int status = list ? 0 : no_memory(build);
    for (size_t i = 1; status == 0 && i < object->section_count; i++) {
        const char *name = cadre_object_section_name(object, i);
        struct ordered ordered = {.section = i, .priority = -1};
        if (!build->sections[i].loaded || build->sections[i].arena != ARENA_DATA) continue;
        if (object->sections[i].sh_type == SHT_NOBITS) continue;
        bool first = !final && has_prefix(name, ".preinit_array");
        if (first || initializer_priority(name, final ? ".fini_array" : ".init_array",
                                          final ? ".dtors" : ".ctors", &ordered))
            list[count++] = ordered;
    }
    if (status < 0 || !count) goto done;
    qsort(list, count, sizeof *list, compare_ordered);
    initializers = calloc(count, sizeof *initializers);
    if (!initializers ||
        (!final && !(module->root_parts = calloc(count, sizeof *module->root_parts)))) {
        free(initializers);
        status = no_memory(build);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        const struct section_state *section = &build->sections[list[i].section];
        initializers[i] = (struct initializer){.place = (void **)(uintptr_t)section->address,
                                               .count = object->sections[list[i].section].sh_size /
                                                        sizeof(void *),
                                               .backwards = list[i].backwards};
        if (section->address % 8) initializers[i].count = 0;
        if (!final) module->root_parts[module->root_part_count++] = section->part;
    }
    if (final) {
        module->finalizers = initializers;
        module->finalizer_count = count;
    } else {
        module->initializers = initializers;
        module->initializer_count = count;
    }
done:
    free(list);
    return status;
}

static void find_stack_note(struct build *build)
{
    for (size_t i = 1; i < build->object.section_count; i++) {
        if (!strcmp(cadre_object_section_name(&build->object, i), ".note.GNU-stack") &&
            (build->object.sections[i].sh_flags & SHF_EXECINSTR))
            build->module->wants_executable_stack = true;
    }
}

static int check_frames(struct build *build)
{
    for (size_t i = 1; i < build->object.section_count; i++) {
        const struct section_state *section = &build->sections[i];
        if (section->loaded && section->is_frames && section->bytes &&
            !cadre_frames_valid(section->bytes, build->object.sections[i].sh_size)) {
            return cadre_error_set(build->error, CADRE_EFORMAT,
                                   "the object's unwind information is damaged");
        }
    }
    return 0;
}

static void shrink(void *pointer_to_array, size_t count, size_t size)
{
    void **array = pointer_to_array;
    void *smaller = count ? realloc(*array, count * size) : NULL;
    if (smaller) *array = smaller;
}

static int finish(struct build *build)
{
    cadre_module *module = build->module;
    for (int i = 0; i < ARENA_DATA; i++) {
        if (!build->staging[i]) continue;
        if (cadre_arena_write(module->blocks[i].arena, module->blocks[i].address, build->staging[i],
                              module->blocks[i].size, build->error) < 0)
            return CADRE_ESYSTEM;
    }
    module->escaping_size = build->escaping_size;
    module->references = build->references;
    build->references = NULL;
    shrink(&module->references, build->reference_count, sizeof *module->references);
    shrink(&module->versions, module->version_count, sizeof *module->versions);
    shrink(&module->definitions, module->definition_count, sizeof *module->definitions);
    return cadre_module_index(module, build->error);
}

static int add(struct build *build, const char *label, const void *bytes, size_t length)
{
    cadre_module *module = build->module;
    int status = cadre_object_open(&build->object, bytes, length, build->error);
    if (status < 0) return status;
    build->sections = calloc(build->object.section_count, sizeof *build->sections);
    build->symbols = calloc(build->object.symbol_count + 1, sizeof *build->symbols);
    if (!build->sections || !build->symbols) return no_memory(build);
    status = classify(build);
    if (status == 0) status = cadre_build_scan(build);
    if (status == 0) status = lay_out(build);
    if (status < 0) return status;
    fill_sections(build);
    module->parts = calloc(module->part_count + 1, sizeof *module->parts);
    if (!module->parts) return no_memory(build);
    status = bind_symbols(build);
    if (status == 0) status = cadre_build_relocate(build);
    if (status == 0) status = check_frames(build);
    if (status == 0) status = keep_functions(build, label);
    if (status == 0) status = keep_initializers(build, false);
    if (status == 0) status = keep_initializers(build, true);
    find_stack_note(build);
    return status == 0 ? finish(build) : status;
}

cadre_module *cadre_loader_add(cadre_loader *loader, const char *label, const void *object,
                               size_t length, const char *const *fresh, size_t fresh_count,
                               cadre_error *error)
{
    cadre_module *module = calloc(1, sizeof *module);
    if (!module) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for loading the cell");
        return NULL;
    }
    module->loader = loader;
    struct build build = {.loader = loader,
                          .module = module,
                          .fresh = fresh,
                          .fresh_count = fresh_count,
                          .error = error};
    int status = add(&build, label, object, length);
    free(build.sections);
    free(build.symbols);
    free(build.references);
    for (int i = 0; i < ARENA_DATA; i++)
        free(build.staging[i]);
    if (status < 0) {
        cadre_module_undo(module);
        cadre_module_free(module);
        return NULL;
    }
    module->previous = loader->last;
    if (loader->last)
        loader->last->next = module;
    else
        loader->first = module;
    loader->last = module;
    if (!loader->pending) loader->pending = module;
    return module;
}
