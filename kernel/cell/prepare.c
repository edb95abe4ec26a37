/* From a cell's text to compiled segments: one pass over all the parts of the engine. */
#include "cell/magics.h"
#include "cell/preparation.h"

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

/* --- hooks of the reader -------------------------------------------------------------------- */

static void fail_here(preparation *p, const char *name, const token *at, const char *message)
{
    if (p->cell->failed) return;
    cell_diagnostics_message(&p->diagnostics, "error", at->source, at->line, at->column, message);
    cell_fail(p->cell, name, message);
}

static void on_magic(void *context, const token *at, cell_insert *insert)
{
    preparation *p = context;
    bool flags_changed = false;
    cadre_error error = {0};
    if (p->cell->failed) return;
    magic_call call = {.at = at,
                       .source = &p->reading.sources.items[at->source],
                       .engine = p->engine,
                       .request = p->request,
                       .cell = p->cell,
                       .reading = &p->reading,
                       .state = p->state,
                       .only_here = p->only_here,
                       .flags_changed = &flags_changed,
                       .insert = insert,
                       .error = &error};
    if (cell_magic_apply(&call) < 0) fail_here(p, "MagicError", at, error.message);
    if (call.changes_state) p->state_changed = true;
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

/* In the folder where %cd went. */
static char *read_file(preparation *p, const char *name, size_t *length)
{
    cell_arena *arena = &p->arena;
    const char *path = name;
    if (name[0] != '/' && p->only_here->folder)
        path = cell_arena_printf(arena, "%s/%s", p->only_here->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
        char *text = read_file(p, beside, length);
        if (text) {
            *path = beside;
            return text;
        }
    }
    *path = cell_arena_copy(&p->arena, name, strlen(name));
    return read_file(p, name, length);
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
    char current[PATH_MAX];
    const char *folder = p->only_here->folder;
    if (!folder) folder = getcwd(current, sizeof current);
    if (!folder) return;
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
    mine->code = strndup(p->request->code, p->request->length);
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
    if (!cell->failed && cell->resets && p->items.count)
        cell_fail(cell, "MagicError", "%reset stands alone in its cell: it takes all names away");
    if (cell->failed) return;
    translate_cell(p);
    if (cell->failed) return;
    cell_prepare_compile(p);
    if (!cell->failed && p->translator.segments[p->translator.segment_count - 1].has_value &&
        !cell->has_value && !p->translator.promote_value) {
        translate_again(p);
        cell_prepare_compile(p);
    }
    if (cell->failed) {
        cell_diagnostics_explain_stale(&p->diagnostics, &p->engine->names);
        return;
    }
    find_value_text(p);
    cell->runs_main = p->translator.runs_main;
    cell->snapshot = p->only_here->snapshot;
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
    if (request->folder && !(p->only_here->folder = strdup(request->folder))) goto out;
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

char *cell_prepare_unit(cadre_engine *engine, const char *code, char **entry, bool *has_main,
                        cadre_error *error)
{
    /* As the first cell of a session of its own that has the same headers and flags. */
    cadre_engine_options options = {
        .cache_dir = "", .include_dir = engine->include_dir, .compiler = engine->program};
    cadre_engine *fresh = cadre_engine_new(&options, error);
    cadre_cell_request request = {.code = code, .length = strlen(code), .execution_count = 1};
    cadre_cell *cell = calloc(1, sizeof *cell);
    preparation *volatile p = calloc(1, sizeof *p);
    char *volatile text = NULL;
    *entry = NULL;
    if (!fresh || !cell || !p) goto out;
    cell_state_release(fresh->state);
    fresh->state = cell_state_copy(engine->state);
    p->engine = fresh;
    p->request = &request;
    p->cell = cell;
    p->state = fresh->state ? cell_state_copy(fresh->state) : NULL;
    p->only_here = p->state ? cell_state_copy(fresh->state) : NULL;
    if (!p->only_here) goto out;
    if (setjmp(p->arena.recover) || setjmp(fresh->names.arena.recover)) goto out;
    name_cell(p);
    read_cell(p);
    if (!cell->failed) split_cell(p);
    if (!cell->failed) translate_cell(p);
    if (!cell->failed && p->translator.segment_count == 1) cell_prepare_compile(p);
    const cell_translator *t = &p->translator;
    if (cell->failed) {
        cadre_error_set(error, CADRE_EINPUT, "%s", cell->error_value ? cell->error_value : "");
    } else if (t->segment_count > 1) {
        cadre_error_set(error, CADRE_EINPUT,
                        "a name is used and then defined anew; as one file of C that needs two "
                        "names");
    } else {
        text = cadre_buffer_steal(&t->segments[0].source);
        if (t->segments[0].entry) *entry = strdup(t->segments[0].entry);
        *has_main = t->runs_main;
    }
out:
    if (p) {
        for (size_t i = 0; i < p->translator.created.count; i++)
            cell_entry_release(p->translator.created.items[i]);
        free_sources(p);
        cadre_types_free(p->types);
        cell_diagnostics_free(&p->diagnostics);
        cadre_buffer_free(&p->new_includes);
        cell_state_release(p->state);
        cell_state_release(p->only_here);
        cell_arena_free(&p->arena);
    }
    free(p);
    cadre_cell_free(cell);
    cadre_engine_free(fresh);
    if (!text && error && !error->code) cadre_error_set(error, CADRE_EMEMORY, "no memory");
    return text;
}
