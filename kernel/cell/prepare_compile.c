/* Compiles the segments of a prepared cell and learns from their objects. */
#include "cell/entries.h"
#include "cell/load.h"
#include "cell/preparation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int make_memfd(const unsigned char *bytes, size_t length)
{
    int fd = memfd_create("cadre-cell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    for (size_t done = 0; done < length;) {
        ssize_t n = write(fd, bytes + done, length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
}

/* The compiler could not give a verdict. */
static void fail_compiler(preparation *p, const cadre_error *error)
{
    if (error->code == CADRE_EINTERRUPT)
        cell_fail(p->cell, "KeyboardInterrupt", "the cell was interrupted while it was compiled");
    else if (error->code == CADRE_ETIMEOUT)
        cell_fail(p->cell, "CompileTimeout", error->message);
    else
        cell_fail(p->cell, "CompilerError", error->message);
}

static bool compile_segment(preparation *p, size_t index, bool *retry)
{
    cell_segment_text *text = &p->translator.segments[index];
    cadre_segment *segment = &p->cell->segments[index];
    size_t count = 0;
    const char **flags = cell_engine_flags(p->engine, &p->only_here->flags, &count);
    if (!flags) longjmp(p->arena.recover, 1);
    cadre_compile_request request = {
        .headers = p->state->header_text,
        .source = text->source.data ? text->source.data : "",
        .length = text->source.length,
        .flags = flags,
        .flag_count = count,
        .link_flags = (const char *const *)p->only_here->link.items,
        .link_flag_count = p->only_here->link.count,
        .cancel_fd = p->engine->cancel_fd,
    };
    cadre_compile_result result = {0};
    cadre_error error = {0};
    bool good = false;
    if (cadre_compile(p->engine->compiler, &request, &result, &error) < 0) {
        fail_compiler(p, &error);
        goto out;
    }
    if (!result.ok && strstr(result.diagnostics, "bit-field") && !p->translator.promote_value &&
        p->translator.segments[p->translator.segment_count - 1].has_value) {
        *retry = true;
        goto out;
    }
    p->diagnostics.segment = text;
    cell_diagnostics_add(&p->diagnostics, result.diagnostics ? result.diagnostics : "");
    if (!result.ok) {
        if (!p->diagnostics.error_value)
            cell_diagnostics_message(&p->diagnostics, "error", 0, 1, 1,
                                     "the compiler refused the cell without saying why");
        goto out;
    }
    segment->object = result.object;
    segment->object_length = result.object_length;
    result.object = NULL;
    segment->use_dlopen =
        text->is_thread || cadre_object_needs_dlopen(segment->object, segment->object_length);
    if (segment->use_dlopen) {
        cadre_compile_result_free(&result);
        request.make_shared = true;
        if (cadre_compile(p->engine->compiler, &request, &result, &error) < 0) {
            fail_compiler(p, &error);
            goto out;
        }
        if (!result.ok || !result.library_path) {
            cell_diagnostics_add(&p->diagnostics, result.diagnostics ? result.diagnostics : "");
            cell_fail(p->cell, "LinkError",
                      p->diagnostics.error_value ? p->diagnostics.error_value
                                                 : "the cell cannot be linked as a library");
            goto out;
        }
        segment->library_path = result.library_path;
        result.library_path = NULL;
    } else {
        segment->object_fd = make_memfd(segment->object, segment->object_length);
        if (segment->object_fd < 0) {
            cadre_error_set(&error, CADRE_ESYSTEM, "no memory file for the object: %s",
                            strerror(errno));
            fail_compiler(p, &error);
            goto out;
        }
    }
    good = true;
out:
    free(flags);
    cadre_compile_result_free(&result);
    return good;
}

/* The first bound of a type as C writes it: `double [3]` -> 3. */
static bool first_bound(const char *type, size_t *bound)
{
    const char *open = strchr(type, '[');
    char *end;
    if (!open) return false;
    *bound = strtoul(open + 1, &end, 10);
    return end > open + 1 && *end == ']';
}

/* What only the compiler knows about a definition: its type's signature, an array's length, the
 * type behind __auto_type and typeof. */
static bool learn_from_object(preparation *p, cadre_types *types, cell_entry *entry)
{
    const char *symbol = entry->spelling ? entry->spelling : entry->name;
    free(entry->signature);
    /* Behind a thread-local name is always the same small object: the text tells its type. */
    entry->signature = entry->place ? strdup(entry->text) : cadre_types_signature(types, symbol);
    if (entry->place) return true;
    if (entry->kind != ENTRY_VARIABLE || entry->is_runtime) return true;
    bool derived = strstr(entry->text, "typeof") || strstr(entry->text, "__auto_type");
    if (!entry->bracket_count && !derived) return true;
    char *type = cadre_types_name(types, symbol);
    char *text = NULL;
    size_t bound;
    if (type && derived && !strchr(type, '{')) {
        if (asprintf(&text, "extern __typeof__(%s) %s;", type, entry->name) < 0) text = NULL;
        if (text) {
            free(entry->shown);
            if (asprintf(&entry->shown, "__typeof__(%s) %s", type, entry->name) < 0)
                entry->shown = NULL;
            entry->label_at = strlen(text) - 1;
        }
    } else if (type && entry->bracket_count == 1 && first_bound(type, &bound)) {
        size_t at = entry->dimension_at[0], length = strlen(entry->text);
        if (asprintf(&text, "%.*s%zu%s", (int)at, entry->text, bound, entry->text + at) < 0)
            text = NULL;
        else if (entry->label_at > at)
            entry->label_at += strlen(text) - length;
    }
    free(type);
    if (!text) return true;
    free(entry->text);
    entry->text = text;
    entry->bracket_count = 0;
    for (size_t i = 0; i < entry->need_count; i++)
        cell_entry_release(entry->needs[i]);
    entry->need_count = 0;
    return cell_entry_resolve(&p->engine->names, entry, false);
}

static bool add_fresh(cadre_segment *segment, const char *name)
{
    char **grown = realloc(segment->fresh_names, (segment->fresh_count + 1) * sizeof *grown);
    if (!grown) return false;
    segment->fresh_names = grown;
    grown[segment->fresh_count] = strdup(name);
    return grown[segment->fresh_count] && ++segment->fresh_count;
}

/* Of a larger object no variable is shown by inspection. */
enum { OBJECT_LIMIT = 1 << 20 };

/* Reads the object's types: signatures of what it defines, and which differ from before. */
static bool study_segment(preparation *p, size_t index)
{
    cell_segment_text *text = &p->translator.segments[index];
    cadre_segment *segment = &p->cell->segments[index];
    if (!text->defined.count && !text->has_value) return true;
    cadre_error error = {0};
    /* Without types (-g0 in %cflags) nothing is known and every definition is taken as new. */
    cadre_types *types = cadre_types_open(segment->object, segment->object_length, &error);
    bool good = true;
    cell_object *object = NULL; /* kept for the variables' values when somebody asks */
    for (size_t i = 0; i < text->defined.count && good; i++) {
        cell_entry *entry = text->defined.items[i];
        bool shows = types && entry->kind == ENTRY_VARIABLE && !entry->is_runtime &&
                     !entry->place && segment->object_length <= OBJECT_LIMIT;
        if (shows && !object) object = cell_object_new(segment->object, segment->object_length);
        if (shows && !entry->object) entry->object = cell_object_keep(object);
        char buffer[300];
        const char *symbol = cell_entry_symbol(entry, buffer, sizeof buffer);
        const cell_entry *before =
            cell_names_find(&p->engine->names, SPACE_SYMBOL, symbol, strlen(symbol));
        if (types) good = learn_from_object(p, types, entry);
        if (before && !entry->is_runtime &&
            (!before->signature || !entry->signature ||
             strcmp(before->signature, entry->signature)))
            good = good && add_fresh(segment, symbol);
    }
    cell_object_release(object);
    if (text->has_value)
        p->types = types;
    else
        cadre_types_free(types);
    return good;
}

void cell_prepare_compile(preparation *p)
{
    cadre_cell *cell = p->cell;
    size_t count = p->translator.segment_count;
    cell->segments = calloc(count ? count : 1, sizeof *cell->segments);
    if (!cell->segments) longjmp(p->arena.recover, 1);
    cell->segment_count = count;
    for (size_t i = 0; i < count; i++)
        cell->segments[i].object_fd = -1;
    for (size_t i = 0; i < count && !cell->failed; i++) {
        bool retry = false;
        cell_segment_text *text = &p->translator.segments[i];
        if (text->entry && !(cell->segments[i].entry = strdup(text->entry)))
            longjmp(p->arena.recover, 1);
        bool good = compile_segment(p, i, &retry);
        if (retry) return;
        if (!good && !cell->failed) cell_fail(cell, "CompileError", p->diagnostics.error_value);
        if (good && !study_segment(p, i)) longjmp(p->arena.recover, 1);
        cell->has_value |= text->has_value;
    }
}
