/* Loading one object: lay out its sections, bind its names, relocate, publish nothing yet. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

int cadre_build_no_memory(const struct build *build)
{
    return cadre_error_set(build->error, CADRE_EMEMORY, "no memory for loading the cell");
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
    if (!build->sections || !build->symbols) return cadre_build_no_memory(build);
    status = cadre_build_classify(build);
    if (status == 0) status = cadre_build_scan(build);
    if (status == 0) status = cadre_build_lay_out(build);
    if (status < 0) return status;
    module->parts = calloc(module->part_count + 1, sizeof *module->parts);
    if (!module->parts) return cadre_build_no_memory(build);
    status = cadre_build_bind(build);
    if (status == 0) status = cadre_build_relocate(build);
    if (status == 0) status = cadre_build_keep(build, label);
    if (status == 0) cadre_build_symfile(build);
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
