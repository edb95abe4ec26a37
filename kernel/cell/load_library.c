/* A cell that only the system's dynamic linker can load. */
#include "cell/load_internal.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

struct dynamic {
    const Elf64_Sym *symbols;
    const char *names;
    size_t symbol_count;
};

/* The loader tells how many symbols there are only through its hash tables. */
static size_t count_symbols(const uint32_t *hash, const uint32_t *gnu_hash)
{
    if (hash) return hash[1];
    if (!gnu_hash) return 0;
    uint32_t bucket_count = gnu_hash[0], first = gnu_hash[1], bloom_words = gnu_hash[2];
    const uint32_t *buckets = gnu_hash + 4 + (size_t)bloom_words * 2;
    const uint32_t *chain = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        if (buckets[i] > last) last = buckets[i];
    }
    if (last < first) return first;
    while (!(chain[last - first] & 1))
        last++;
    return (size_t)last + 1;
}

static void read_dynamic(const struct link_map *map, struct dynamic *dynamic)
{
    const uint32_t *hash = NULL, *gnu_hash = NULL;
    for (const Elf64_Dyn *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        void *pointer = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB) dynamic->symbols = pointer;
        if (entry->d_tag == DT_STRTAB) dynamic->names = pointer;
        if (entry->d_tag == DT_HASH) hash = pointer;
        if (entry->d_tag == DT_GNU_HASH) gnu_hash = pointer;
    }
    if (dynamic->symbols && dynamic->names) dynamic->symbol_count = count_symbols(hash, gnu_hash);
}

static int add_code_range(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    void **request = data;
    cadre_loader *loader = request[0];
    const struct link_map *map = request[1];
    if (info->dlpi_addr != map->l_addr || strcmp(info->dlpi_name, map->l_name) != 0) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        if (loader->library_range_count == loader->library_range_capacity) {
            /* Signal handlers read the array: the old one is left to them. */
            size_t capacity = loader->library_range_capacity * 2 + 8;
            struct code_range *grown = calloc(capacity, sizeof *grown);
            if (!grown) return 1;
            if (loader->library_range_count)
                memcpy(grown, loader->library_ranges, loader->library_range_count * sizeof *grown);
            loader->library_ranges = grown;
            loader->library_range_capacity = capacity;
        }
        const unsigned char *start = (const unsigned char *)(info->dlpi_addr + header->p_vaddr);
        loader->library_ranges[loader->library_range_count++] =
            (struct code_range){start, start + header->p_memsz};
    }
    return 1;
}

static int define_all(cadre_module *module, const struct dynamic *dynamic, cadre_error *error)
{
    cadre_loader *loader = module->loader;
    size_t room = dynamic->symbol_count + 1;
    module->versions = calloc(room, sizeof *module->versions);
    module->definitions = calloc(room, sizeof *module->definitions);
    module->undo = calloc(room, sizeof *module->undo);
    if (!module->versions || !module->definitions || !module->undo)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for the names of the library");
    for (size_t i = 1; i < dynamic->symbol_count; i++) {
        const Elf64_Sym *symbol = &dynamic->symbols[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL ||
            (type != STT_FUNC && type != STT_OBJECT && type != STT_GNU_IFUNC))
            continue;
        const char *text = dynamic->names + symbol->st_name;
        if (text[0] == '_' && (!strcmp(text, "_init") || !strcmp(text, "_fini"))) continue;
        void *address = dlsym(module->library, text);
        struct name *name = address ? cadre_name_intern(loader, text) : NULL;
        if (!name) continue;
        struct version *version = name->current;
        struct undo *undo = &module->undo[module->undo_count];
        *undo = (struct undo){.name = name, .current = version, .version = version};
        if (version) {
            undo->kind = version->kind;
            undo->weak = version->weak;
            undo->address = version->address;
            undo->module = version->module;
            undo->part = version->part;
            if (version->kind == VERSION_CELL) loader->epoch++;
        } else {
            version = cadre_version_new(loader, name, error);
            if (!version) return CADRE_EMEMORY;
            name->current = version;
        }
        module->undo_count++;
        version->kind = VERSION_CELL;
        version->weak = false;
        version->address = address;
        version->module = module;
        version->part = UINT32_MAX;
        version->references++;
        module->versions[module->version_count++] = version;
        module->definitions[module->definition_count++] = (struct definition){
            .version = version, .address = address, .part = UINT32_MAX, .published = true};
    }
    return 0;
}

cadre_module *cadre_loader_add_library(cadre_loader *loader, const char *label, const char *path,
                                       cadre_error *error)
{
    struct link_map *map = NULL;
    struct dynamic dynamic = {0};
    cadre_module *module = calloc(1, sizeof *module);
    if (!module || !(module->strings = strdup(label))) {
        free(module);
        cadre_error_set(error, CADRE_EMEMORY, "no memory for loading the cell");
        return NULL;
    }
    module->loader = loader;
    module->label = module->strings;
    module->library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    if (!module->library) {
        const char *reason = dlerror();
        cadre_error_set(error, CADRE_ENOTFOUND, "%s", reason ? reason : "dlopen failed");
        goto fail;
    }
    if (dlinfo(module->library, RTLD_DI_LINKMAP, &map) != 0 || !map) {
        cadre_error_set(error, CADRE_ESYSTEM, "the library %s cannot be inspected", path);
        goto fail;
    }
    read_dynamic(map, &dynamic);
    if (define_all(module, &dynamic, error) < 0) goto fail;
    dl_iterate_phdr(add_code_range, (void *[]){loader, map});
    module->previous = loader->last;
    if (loader->last)
        loader->last->next = module;
    else
        loader->first = module;
    loader->last = module;
    if (!loader->pending) loader->pending = module;
    return module;
fail:
    cadre_module_undo(module);
    cadre_module_free(module);
    return NULL;
}
