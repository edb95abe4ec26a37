/* From a cell's text to compiled segments: one pass over all the parts of the engine. */
#include "cell/diagnostics.h"
#include "cell/engine_internal.h"
#include "cell/entries.h"
#include "cell/load.h"
#include "cell/parameters.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCAL_HEADER_LIMIT = 64 << 20, MURMUR_SEED = 0xc70f6907 };

typedef struct preparation {
    cadre_engine *engine;
    const cadre_cell_request *request;
    cadre_cell *cell;
    cell_arena arena;
    macro_table macros;
    cell_reading reading;
    cell_state *state;     /* a copy that the cell may change; the session's at commit */
    cell_state *only_here; /* flags that count for this cell: the session's and %% ones */
    bool state_changed, learn;
    cadre_buffer new_includes; /* for placing their errors: with #line */
    cell_items items;
    cell_problem problem;
    cell_translator translator;
    cell_oracle oracle;
    cell_parameters parameters;
    cell_diagnostics diagnostics;
    cell_map raw_names;
    char hash[16];
    cadre_types *types;
} preparation;

/* --- hooks of the reader -------------------------------------------------------------------- */

static void fail_here(preparation *p, const char *name, const token *at, const char *message)
{
    if (p->cell->failed) return;
    cell_diagnostics_message(&p->diagnostics, "error", at->source, at->line, at->column, message);
    cell_fail(p->cell, name, message);
}

static void on_magic(void *context, const token *at)
{
    preparation *p = context;
    bool flags_changed = false;
    cadre_error error = {0};
    if (p->cell->failed) return;
    if (cell_magic_apply(at->text, at->length, p->engine->program, p->state, p->only_here,
                         &flags_changed, &error) < 0)
        fail_here(p, "MagicError", at, error.message);
    p->state_changed = true;
    if (flags_changed) {
        p->learn = true;
        p->reading.stale = true;
    }
}

static bool is_included(const char *headers, const char *line)
{
    const char *found = strstr(headers, line);
    return found && (found == headers || found[-1] == '\n');
}

static void on_include(void *context, const token *at, const char *name, const token *before,
                       size_t before_count)
{
    preparation *p = context;
    char *line = cell_arena_printf(&p->arena, "#include %s\n", name);
    bool again = !strcmp(name, "<assert.h>") && before_count;
    if (is_included(p->state->header_text, line) && !again) return;
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, p->state->header_text);
    for (size_t i = 0; i < before_count; i++) {
        cadre_buffer_append(&text, before[i].text, before[i].length);
        cadre_buffer_puts(&text, "\n");
    }
    cadre_buffer_puts(&text, line);
    for (size_t i = before_count; i-- > 0;) {
        const char *word, *rest;
        size_t word_length, length;
        cell_directive_split(&before[i], &word, &word_length, &rest, &length);
        size_t n = strcspn(rest, " \t(\n");
        cadre_buffer_printf(&text, "#undef %.*s\n", (int)(n < length ? n : length), rest);
    }
    cadre_buffer_printf(&p->new_includes, "#line %u \"%s\"\n%s", at->line,
                        p->reading.sources.items[at->source].name, line);
    char *whole = cadre_buffer_steal(&text);
    if (!whole) longjmp(p->arena.recover, 1);
    free(p->state->header_text);
    p->state->header_text = whole;
    p->state_changed = p->learn = true;
}

static char *read_file(cell_arena *arena, const char *path, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0) return NULL;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > LOCAL_HEADER_LIMIT) {
        close(fd);
        return NULL;
    }
    char *text = cell_arena_take(arena, (size_t)status.st_size + 1);
    size_t used = 0;
    while (used < (size_t)status.st_size) {
        ssize_t n = read(fd, text + used, (size_t)status.st_size - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
    }
    close(fd);
    *length = used;
    return text;
}

static char *on_open_local(void *context, const char *name, const char *includer, const char **path,
                           size_t *length)
{
    preparation *p = context;
    const char *slash = includer ? strrchr(includer, '/') : NULL;
    if (slash && name[0] != '/') {
        char *beside =
            cell_arena_printf(&p->arena, "%.*s/%s", (int)(slash - includer), includer, name);
        char *text = read_file(&p->arena, beside, length);
        if (text) {
            *path = beside;
            return text;
        }
    }
    *path = cell_arena_copy(&p->arena, name, strlen(name));
    return read_file(&p->arena, name, length);
}

static void learn(preparation *p)
{
    cadre_error error = {0};
    if (!p->learn || p->cell->failed) return;
    p->learn = false;
    if (cell_engine_learn(p->engine, p->state, &p->only_here->flags, &error) == 0) {
        p->macros.parent = &p->state->headers->macros;
        p->translator.headers = p->state->headers;
        return;
    }
    if (error.code == CADRE_EINTERRUPT) {
        cell_fail(p->cell, "KeyboardInterrupt", "the cell was interrupted while it was compiled");
        return;
    }
    if (p->new_includes.length) { /* once more, in the cell's coordinates */
        cell_state *placed = cell_state_new(p->engine->state->header_text);
        if (!placed) longjmp(p->arena.recover, 1);
        cadre_buffer text = {0};
        cadre_buffer_printf(&text, "%s%s", placed->header_text, p->new_includes.data);
        free(placed->header_text);
        placed->header_text = cadre_buffer_steal(&text);
        if (placed->header_text) cell_engine_learn(p->engine, placed, &p->only_here->flags, &error);
        cell_state_release(placed);
    }
    cell_diagnostics_add(&p->diagnostics, error.message);
    cell_fail(p->cell, "CompileError",
              p->diagnostics.error_value ? p->diagnostics.error_value : error.message);
}

static void on_refresh(void *context)
{
    learn(context);
}

static int on_condition(void *context, const char *text, size_t length)
{
    preparation *p = context;
    if (p->cell->failed) return -1;
    size_t count = 0;
    const char **flags = cell_engine_flags(p->engine, &p->only_here->flags, &count);
    if (!flags) longjmp(p->arena.recover, 1);
    char *source = cell_arena_printf(&p->arena, "#if %.*s\ncadre_yes\n#endif\n", (int)length, text);
    cadre_error error = {0};
    cadre_compile_request request = {.headers = p->state->header_text,
                                     .source = source,
                                     .length = strlen(source),
                                     .flags = flags,
                                     .flag_count = count,
                                     .cancel_fd = p->engine->cancel_fd};
    char *answer = cadre_preprocess(p->engine->compiler, &request, false, false, &error);
    free(flags);
    int value = answer ? strstr(answer, "\ncadre_yes") != NULL : -1;
    free(answer);
    return value;
}

static const char *session_macro(void *context, const char *name, size_t length)
{
    const cell_entry *entry = cell_names_find(context, SPACE_MACRO, name, length);
    if (!entry) return NULL;
    return entry->is_hidden ? "" : entry->text + strlen("#define ");
}

/* --- steps ---------------------------------------------------------------------------------- */

static void name_cell(preparation *p)
{
    uint32_t hash = cell_murmur2(p->request->code, p->request->length, MURMUR_SEED);
    snprintf(p->hash, sizeof p->hash, "%u", hash);
    if (asprintf(&p->cell->file_name, "%s%s.c", p->engine->prefix, p->hash) < 0) {
        p->cell->file_name = NULL;
        longjmp(p->arena.recover, 1);
    }
}

/* For #include "numbers" in the middle of a list, which the compiler does itself. */
static void on_nested_include(void *context)
{
    preparation *p = context;
    char folder[PATH_MAX];
    if (!getcwd(folder, sizeof folder)) return;
    if (cell_words_has(&p->only_here->flags, "-iquote")) return;
    if (!cell_words_add(&p->only_here->flags, "-iquote") ||
        !cell_words_add(&p->only_here->flags, folder))
        longjmp(p->arena.recover, 1);
}

static void read_cell(preparation *p)
{
    p->macros = (macro_table){
        .arena = &p->arena, .lookup = session_macro, .lookup_context = &p->engine->names};
    if (p->state->headers) p->macros.parent = &p->state->headers->macros;
    p->reading = (cell_reading){.arena = &p->arena,
                                .macros = &p->macros,
                                .magic = on_magic,
                                .include = on_include,
                                .open_local = on_open_local,
                                .refresh = on_refresh,
                                .condition = on_condition,
                                .nested_include = on_nested_include,
                                .context = p};
    p->reading.raw_names = &p->raw_names;
    p->translator = (cell_translator){.arena = &p->arena,
                                      .names = &p->engine->names,
                                      .headers = p->state->headers,
                                      .reading = &p->reading,
                                      .items = &p->items,
                                      .raw_names = &p->raw_names,
                                      .hash = p->hash,
                                      .execution_count = p->request->execution_count};
    p->diagnostics.translator = &p->translator;
    cell_translator_oracle(&p->translator, &p->oracle);
    p->reading.oracle = &p->oracle;
    p->diagnostics.reading = &p->reading;
    if (!p->state->headers) {
        p->learn = true;
        p->reading.stale = true;
    }
    cell_read(&p->reading, p->cell->file_name, p->request->code, p->request->length);
    p->problem = p->reading.problem;
}

static void split_cell(preparation *p)
{
    p->translator.headers = p->state->headers;
    cell_split(&p->arena, &p->oracle, &p->reading.stream, true, &p->items, &p->problem);
    if (!p->problem.message) return;
    cell_diagnostics_message(&p->diagnostics, "error", p->problem.source, p->problem.line,
                             p->problem.column, p->problem.message);
    if (p->problem.note)
        cell_diagnostics_message(&p->diagnostics, "note", p->problem.source, p->problem.note_line,
                                 p->problem.note_column, p->problem.note);
    cell_fail(p->cell, "CompileError", p->diagnostics.error_value);
}

static void translate_cell(preparation *p)
{
    cell_translator *t = &p->translator;
    p->parameters = (cell_parameters){.translator = t,
                                      .given = p->request->parameters,
                                      .applied = p->engine->state->applied,
                                      .used = p->request->used};
    if (p->request->parameters) {
        t->parameters = (cell_parameter_source){cell_parameters_declared, &p->parameters};
        cell_parameters_assign(&p->parameters);
    }
    if (!p->parameters.failed) cell_translate(t);
    if (p->parameters.failed) cell_fail(p->cell, "ParameterError", p->parameters.error);
    for (size_t i = 0; i < t->segment_count && t->segments; i++)
        if (t->segments[i].source.failed) longjmp(p->arena.recover, 1);
}

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
    for (size_t i = 0; i < text->defined.count && good; i++) {
        cell_entry *entry = text->defined.items[i];
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
    if (text->has_value)
        p->types = types;
    else
        cadre_types_free(types);
    return good;
}

static void compile_cell(preparation *p)
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

static void drop_segments(preparation *p)
{
    for (size_t i = 0; i < p->cell->segment_count; i++) {
        cadre_segment *segment = &p->cell->segments[i];
        if (segment->object_fd >= 0) close(segment->object_fd);
        for (size_t k = 0; k < segment->fresh_count; k++)
            free(segment->fresh_names[k]);
        free(segment->fresh_names);
        free(segment->library_path);
        free(segment->entry);
        free(segment->object);
    }
    free(p->cell->segments);
    p->cell->segments = NULL;
    p->cell->segment_count = 0;
    p->cell->has_value = false;
}

static void free_sources(preparation *p)
{
    for (size_t i = 0; i < p->translator.segment_count && p->translator.segments; i++)
        cadre_buffer_free(&p->translator.segments[i].source);
    p->translator.segments = NULL;
}

/* A bit-field has no typeof: its value is shown promoted. Everything else stays as planned. */
static void translate_again(preparation *p)
{
    cell_translator old = p->translator;
    drop_segments(p);
    free_sources(p);
    cadre_types_free(p->types);
    p->types = NULL;
    p->translator = (cell_translator){.arena = old.arena,
                                      .names = old.names,
                                      .headers = old.headers,
                                      .reading = old.reading,
                                      .items = old.items,
                                      .raw_names = old.raw_names,
                                      .hash = old.hash,
                                      .execution_count = old.execution_count,
                                      .parameters = old.parameters,
                                      .first_statements = old.first_statements,
                                      .first_names = old.first_names,
                                      .created = old.created,
                                      .promote_value = true};
    cell_translate(&p->translator);
}

static void remember(preparation *p)
{
    cell_translator *t = &p->translator;
    struct cadre_cell_private *mine = calloc(1, sizeof *mine);
    if (!mine) longjmp(p->arena.recover, 1);
    p->cell->private_data = mine;
    size_t count = 0;
    for (size_t i = 0; i < t->items->count; i++)
        count += t->plan[i].entries.count;
    mine->entries = calloc(count + 1, sizeof *mine->entries);
    mine->vanish = calloc(count + 1, sizeof *mine->vanish);
    if (!mine->entries || !mine->vanish) longjmp(p->arena.recover, 1);
    for (size_t i = 0; i < t->items->count; i++)
        for (size_t k = 0; k < t->plan[i].entries.count; k++) {
            cell_entry *entry = t->plan[i].entries.items[k];
            mine->vanish[mine->entry_count] = entry->order == UINT64_MAX;
            mine->entries[mine->entry_count++] = cell_entry_keep(entry);
        }
    if (p->parameters.now) {
        json_object_update(p->state->applied, p->parameters.now);
        p->state_changed = true;
    }
    if (p->state_changed || p->state->headers != p->engine->state->headers)
        mine->state = cell_state_keep(p->state);
    mine->types = p->types;
    mine->value_bounds = t->value_bounds;
    p->types = NULL;
}

static bool copy_libraries(preparation *p)
{
    const cell_words *from = &p->only_here->libraries;
    if (!from->count) return true;
    p->cell->libraries = calloc(from->count, sizeof *p->cell->libraries);
    if (!p->cell->libraries) return false;
    for (size_t i = 0; i < from->count; i++) {
        p->cell->libraries[i] = strdup(from->items[i]);
        if (!p->cell->libraries[i]) return false;
        p->cell->library_count++;
    }
    return true;
}

static void find_value_text(preparation *p)
{
    const cell_item *last = p->items.count ? &p->items.items[p->items.count - 1] : NULL;
    if (!last || last->kind != ITEM_VALUE || last->tokens.end != last->tokens.first + 1) return;
    const token *t = &p->reading.stream.items[last->tokens.first];
    if (t->kind == TOKEN_CHARACTER) p->cell->value_text = strndup(t->text, t->length);
}

static void prepare(preparation *p)
{
    cadre_cell *cell = p->cell;
    name_cell(p);
    read_cell(p);
    if (cell->failed) return;
    split_cell(p);
    if (cell->failed) return;
    translate_cell(p);
    if (cell->failed) return;
    compile_cell(p);
    if (!cell->failed && p->translator.segments[p->translator.segment_count - 1].has_value &&
        !cell->has_value && !p->translator.promote_value) {
        translate_again(p);
        compile_cell(p);
    }
    if (cell->failed) {
        cell_diagnostics_explain_stale(&p->diagnostics, &p->engine->names);
        return;
    }
    find_value_text(p);
    cell->runs_main = p->translator.runs_main;
    if (!copy_libraries(p)) longjmp(p->arena.recover, 1);
    remember(p);
}

/* Messages and notes leave with the cell. */
static void hand_over(preparation *p)
{
    cadre_cell *cell = p->cell;
    if (cell->failed && p->diagnostics.traceback.length)
        cell->traceback = cadre_buffer_steal(&p->diagnostics.traceback);
    if (!cell->failed && p->diagnostics.warnings.length)
        cell->warnings = cadre_buffer_steal(&p->diagnostics.warnings);
    if (!cell->failed && p->parameters.notes.length) {
        cadre_buffer text = {0};
        cadre_buffer_printf(&text, "parameters: %s\n", p->parameters.notes.data);
        cell->notes = cadre_buffer_steal(&text);
    }
    if (cell->failed && p->request->used) json_object_clear(p->request->used);
}

bool cell_prepare(cadre_engine *engine, const cadre_cell_request *request, cadre_cell *cell)
{
    uint64_t drained;
    while (read(engine->cancel_fd, &drained, sizeof drained) > 0)
        ;
    preparation *volatile p = calloc(1, sizeof *p);
    volatile bool done = false;
    if (!p) return false;
    p->engine = engine;
    p->request = request;
    p->cell = cell;
    p->diagnostics.execution_count = request->execution_count;
    p->state = cell_state_copy(engine->state);
    p->only_here = cell_state_copy(engine->state);
    if (!p->state || !p->only_here) goto out;
    if (setjmp(p->arena.recover) || setjmp(engine->names.arena.recover)) goto out;
    prepare(p);
    hand_over(p);
    /* What the headers of a first, failed cell declare is true all the same. */
    if (!engine->state->headers && p->state->headers &&
        !strcmp(engine->state->header_text, p->state->header_text) && !p->state->flags.count)
        engine->state->headers = cell_headers_keep(p->state->headers);
    done = true;
out:
    for (size_t i = 0; i < p->translator.created.count; i++)
        cell_entry_release(p->translator.created.items[i]);
    free_sources(p);
    cadre_types_free(p->types);
    cell_diagnostics_free(&p->diagnostics);
    cadre_buffer_free(&p->new_includes);
    cadre_buffer_free(&p->parameters.notes);
    json_decref(p->parameters.now);
    cell_state_release(p->state);
    cell_state_release(p->only_here);
    cell_arena_free(&p->arena);
    free(p);
    return done;
}
