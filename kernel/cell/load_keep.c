/* What outlives the object: functions for describing an address, constructors. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

static bool has_prefix(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

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
        if (!module->strings || !module->functions || size > UINT32_MAX)
            return cadre_build_no_memory(build);
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
    int status = list ? 0 : cadre_build_no_memory(build);
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
        status = cadre_build_no_memory(build);
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

int cadre_build_keep(struct build *build, const char *label)
{
    int status = check_frames(build);
    if (status == 0) status = keep_functions(build, label);
    if (status == 0) status = keep_initializers(build, false);
    if (status == 0) status = keep_initializers(build, true);
    find_stack_note(build);
    return status;
}
