/* Could running a cell reach a name that nobody defines? */
#include "cell/load_internal.h"

#include <stdlib.h>
#include <string.h>

struct node {
    cadre_module *module;
    uint32_t part;
};

#define MISSING_LIMIT 8

struct walk {
    cadre_loader *loader;
    struct node *nodes; /* visited, in order; those from `next` on are still to be followed */
    size_t count, next, capacity;
    struct {
        const struct version *version;
        struct node user;
        bool call;
    } missing[MISSING_LIMIT];
    size_t missing_count;
    bool no_memory;
};

static void visit(struct walk *walk, cadre_module *module, uint32_t index)
{
    if (!module || index >= module->part_count) return;
    struct part *part = &module->parts[index];
    if (part->visited == walk->loader->visit_mark || part->complete == walk->loader->epoch) return;
    if (walk->count == walk->capacity) {
        size_t capacity = walk->capacity ? walk->capacity * 2 : 64;
        struct node *grown = realloc(walk->nodes, capacity * sizeof *grown);
        if (!grown) {
            walk->no_memory = true;
            return;
        }
        walk->nodes = grown;
        walk->capacity = capacity;
    }
    part->visited = walk->loader->visit_mark;
    walk->nodes[walk->count++] = (struct node){module, index};
}

static void follow(struct walk *walk, struct node node)
{
    const cadre_module *module = node.module;
    uint32_t end = module->parts[node.part + 1].first_reference;
    for (uint32_t i = module->parts[node.part].first_reference; i < end; i++) {
        uint32_t reference = module->references[i], index = reference & REFERENCE_INDEX;
        if (!(reference & REFERENCE_VERSION)) {
            visit(walk, node.module, index);
            continue;
        }
        struct version *version = module->versions[index];
        if (version->kind == VERSION_CELL) {
            visit(walk, version->module, version->part);
        } else if (version->kind == VERSION_UNDEFINED && !(reference & REFERENCE_WEAK) &&
                   !cadre_version_resolve(walk->loader, version)) {
            size_t k = 0;
            while (k < walk->missing_count && walk->missing[k].version != version)
                k++;
            if (k < walk->missing_count || k == MISSING_LIMIT) continue;
            walk->missing[k].version = version;
            walk->missing[k].user = node;
            walk->missing[k].call = (reference & REFERENCE_CALL) != 0;
            walk->missing_count++;
        }
    }
}

/* What the user calls a part: a function or variable; NULL for the cell's own statements. */
static const char *name_of(struct node node, const char *entry)
{
    const cadre_module *module = node.module;
    const char *name = NULL;
    for (size_t i = 0; i < module->function_count; i++) {
        if (module->functions[i].part == node.part)
            name = module->strings + module->functions[i].name;
    }
    for (size_t i = 0; !name && i < module->definition_count; i++) {
        if (module->definitions[i].part == node.part)
            name = module->definitions[i].version->name->text;
    }
    return name && entry && !strcmp(name, entry) ? NULL : name;
}

static int report(const struct walk *walk, const char *entry, cadre_error *error)
{
    cadre_buffer text = {0};
    for (size_t i = 0; i < walk->missing_count; i++) {
        const char *user = name_of(walk->missing[i].user, entry);
        const char *verb = walk->missing[i].call ? "calls" : "uses";
        cadre_buffer_printf(&text, "%s%s is declared and not defined (", i ? "; " : "",
                            walk->missing[i].version->name->text);
        if (user)
            cadre_buffer_printf(&text, "%s %s it)", user, verb);
        else
            cadre_buffer_printf(&text, "this cell %s it)", verb);
    }
    if (walk->missing_count == MISSING_LIMIT) cadre_buffer_puts(&text, "; ...");
    int code = cadre_error_set(error, CADRE_ENOTFOUND, "%s",
                               text.data ? text.data : "a name is declared and not defined");
    cadre_buffer_free(&text);
    return code;
}

int cadre_loader_check(cadre_loader *loader, cadre_module *module, const char *entry,
                       cadre_error *error)
{
    struct walk walk = {.loader = loader};
    loader->visit_mark++;
    for (size_t i = 0; i < module->root_part_count; i++)
        visit(&walk, module, module->root_parts[i]);
    bool found = !entry || module->library;
    for (size_t i = 0; i < module->definition_count && entry; i++) {
        if (strcmp(module->definitions[i].version->name->text, entry) != 0) continue;
        found = true;
        visit(&walk, module, module->definitions[i].part);
    }
    while (walk.next < walk.count) {
        struct node node = walk.nodes[walk.next++];
        follow(&walk, node);
    }
    int status = 0;
    if (walk.no_memory) {
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory for checking the cell");
    } else if (!found) {
        status = cadre_error_set(error, CADRE_ENOTFOUND, "the cell has no function %s", entry);
    } else if (walk.missing_count) {
        status = report(&walk, entry, error);
    } else {
        /* A definition is never taken away, so this stays true until one is replaced. */
        for (size_t i = 0; i < walk.count; i++)
            walk.nodes[i].module->parts[walk.nodes[i].part].complete = loader->epoch;
    }
    free(walk.nodes);
    return status;
}
