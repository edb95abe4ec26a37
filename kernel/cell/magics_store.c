/* %store: values that outlive the kernel. */
#include "cell/magics.h"
#include "cell/stored.h"
#include "cell/types.h"

#include <stdlib.h>
#include <string.h>

static const char put[] = "void cadre_hook_store(const char *, const char *, const char *, const "
                          "volatile void *, unsigned long)",
                  get[] = "void cadre_hook_restore(const char *, const char *, volatile void *, "
                          "unsigned long)";

/* The canonical text of a variable's type, new; NULL with an error. */
static char *layout_of(magic_call *call, const char *name, const cadre_name_facts *facts)
{
    cadre_types *types =
        facts->symbol ? cadre_types_open(facts->object, facts->object_length, call->error) : NULL;
    char *layout = types ? cadre_types_signature(types, facts->symbol) : NULL;
    cadre_types_free(types);
    if (!layout)
        cadre_error_set(call->error, CADRE_EINPUT,
                        "%%store: the type of %s is not known before the cell runs (run-time "
                        "bounds, for example); copy it to a variable of a plain type",
                        name);
    return layout;
}

static bool has_pointer(const char *layout)
{
    return strchr(layout, '*') || strchr(layout, '(');
}

/* Does the type say const, of the whole or of an array's elements? */
static bool is_constant(const char *layout)
{
    while (*layout == 'A') {
        layout = strrchr(layout, ']') ? strchr(layout, ']') + 1 : layout + 1;
        while (*layout == '[')
            layout += strcspn(layout, "]") + 1;
    }
    return *layout == 'k';
}

static char *quoted(magic_call *call, const char *text)
{
    return magic_literal(call, text, strlen(text));
}

static int store_one(magic_call *call, const char *name)
{
    cadre_name_facts facts;
    int status = CADRE_OK;
    if (!cadre_engine_describe(call->engine, name, strlen(name), &facts))
        return cadre_error_set(call->error, CADRE_ENOTFOUND,
                               "%%store: no variable %s was declared before this cell", name);
    char *layout = NULL;
    if (!facts.kind || strcmp(facts.kind, "variable") != 0)
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "%%store: %s is a %s; only variables have a value to store", name,
                                 facts.kind ? facts.kind : "name");
    else if (!(layout = layout_of(call, name, &facts)))
        status = call->error->code;
    else if (has_pointer(layout))
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "%%store: %s holds pointers, which mean nothing in another "
                                 "process; copy what they point to into an array and store that",
                                 name);
    else
        magic_insert_call(
            call, put,
            cell_arena_printf(call->reading->arena, "cadre_hook_store(%s, %s, %s, &%s, sizeof %s)",
                              quoted(call, name),
                              quoted(call, facts.declaration ? facts.declaration : ""),
                              quoted(call, layout), name, name));
    free(layout);
    cadre_name_facts_free(&facts);
    return status;
}

/* The variable is there, or a declaration of it is put before. */
static int restore_one(magic_call *call, const char *name)
{
    cadre_name_facts facts = {0};
    cell_stored stored;
    int status = cell_stored_read(name, &stored, call->error);
    if (status < 0) return status;
    char *layout = NULL;
    bool is_declared = cadre_engine_describe(call->engine, name, strlen(name), &facts);
    if (is_declared && !(layout = layout_of(call, name, &facts))) {
        status = call->error->code;
    } else if (is_declared && strcmp(layout, stored.layout) != 0) {
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "%%store: %s was stored as `%s`, which has another type or layout "
                                 "than the %s of now",
                                 name, stored.declaration, name);
    } else if (is_constant(stored.layout)) {
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "%%store: %s was stored as `%s`; a constant cannot be restored",
                                 name, stored.declaration);
    } else if (!is_declared && strpbrk(stored.layout, "{E")) {
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "%%store: %s was stored as `%s`; define that type and declare the "
                                 "variable in a cell before, so that the layout can be compared",
                                 name, stored.declaration);
    } else {
        if (!is_declared)
            magic_insert(call,
                         cell_arena_printf(call->reading->arena, "%s;\n", stored.declaration));
        magic_insert_call(
            call, get,
            cell_arena_printf(call->reading->arena, "cadre_hook_restore(%s, %s, &%s, sizeof %s)",
                              quoted(call, name), quoted(call, stored.layout), name, name));
    }
    free(layout);
    cadre_name_facts_free(&facts);
    cell_stored_free(&stored);
    return status;
}

static int restore_all(magic_call *call)
{
    char **names = cell_stored_names();
    int status = names ? CADRE_OK : magic_no_memory(call);
    for (size_t i = 0; names && names[i]; i++) {
        if (status == CADRE_OK) status = restore_one(call, names[i]);
        free(names[i]);
    }
    free(names);
    return status;
}

int magic_store(magic_call *call)
{
    char *const *words = call->words.items;
    size_t count = call->words.count;
    const char *option = count && words[0][0] == '-' ? words[0] : "";
    int status = CADRE_OK;
    if (!count) {
        magic_insert_call(call, "void cadre_hook_stored(void)", "cadre_hook_stored()");
    } else if (!strcmp(option, "-r")) {
        if (count == 1) return restore_all(call);
        for (size_t i = 1; i < count && status == CADRE_OK; i++)
            status = restore_one(call, words[i]);
    } else if (!strcmp(option, "-d") && count > 1) {
        for (size_t i = 1; i < count; i++)
            magic_insert_call(call, "void cadre_hook_unstore(const char *)",
                              cell_arena_printf(call->reading->arena, "cadre_hook_unstore(%s)",
                                                quoted(call, words[i])));
    } else if (*option) {
        status = cadre_error_set(call->error, CADRE_EINPUT,
                                 "it is %%store NAMES, %%store -r [NAMES], %%store -d NAMES or "
                                 "%%store alone");
    } else {
        for (size_t i = 0; i < count && status == CADRE_OK; i++)
            status = store_one(call, words[i]);
    }
    return status;
}
