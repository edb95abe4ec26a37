#include "cell/engine_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char prelude[] = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                              "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n"
                              "#include <stddef.h>\n";

static char *default_prefix(void)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char *prefix = NULL;
    if (!runtime || runtime[0] != '/') runtime = "/tmp";
    return asprintf(&prefix, "%s/cadre-%ld/", runtime, (long)getuid()) < 0 ? NULL : prefix;
}

static char *default_include_dir(const char *given)
{
    char *path = NULL;
    if (given) return strdup(given);
    return asprintf(&path, "%s/cadre", CADRE_INCLUDEDIR) < 0 ? NULL : path;
}

static bool has_cadre_header(const cadre_engine *engine)
{
    char *path = NULL;
    if (asprintf(&path, "%s/cadre.h", engine->include_dir) < 0) return false;
    bool there = access(path, R_OK) == 0;
    free(path);
    return there;
}

cadre_engine *cadre_engine_new(const cadre_engine_options *options, cadre_error *error)
{
    static const cadre_engine_options none;
    if (!options) options = &none;
    cadre_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the cell engine");
        return NULL;
    }
    engine->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->program = strdup(options->compiler ? options->compiler : "gcc");
    engine->include_dir = default_include_dir(options->include_dir);
    engine->prefix = default_prefix();
    if (engine->cancel_fd < 0 || !engine->program || !engine->include_dir || !engine->prefix) {
        cadre_error_set(error, CADRE_ESYSTEM, "the cell engine cannot start: %s", strerror(errno));
        goto failed;
    }
    char headers[sizeof prelude + 64];
    snprintf(headers, sizeof headers, "%s%s", prelude,
             has_cadre_header(engine) ? "#include <cadre.h>\n" : "");
    engine->state = cell_state_new(headers);
    if (!engine->state) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the cell engine");
        goto failed;
    }
    engine->compiler = cadre_compiler_new(options->compiler, options->cache_dir, error);
    if (!engine->compiler) goto failed;
    return engine;

failed:
    cadre_engine_free(engine);
    return NULL;
}

static void drop_cells(cadre_engine *engine, uint64_t generation);

void cadre_engine_free(cadre_engine *engine)
{
    if (!engine) return;
    cadre_compiler_free(engine->compiler);
    drop_cells(engine, 0);
    free(engine->cells.items);
    cell_names_free(&engine->names);
    for (size_t i = 0; i < engine->log.count; i++)
        cell_state_release(engine->log.items[i].before);
    free(engine->log.items);
    cell_state_release(engine->state);
    if (engine->cancel_fd >= 0) close(engine->cancel_fd);
    free(engine->program);
    free(engine->include_dir);
    free(engine->prefix);
    free(engine);
}

const char **cell_engine_flags(const cadre_engine *engine, const cell_words *flags, size_t *count)
{
    /* A call of an undeclared function is a slip of the pen in a notebook: an error, not a
     * warning and a missing symbol. `main() {}` is old and no slip; gcc 14 made it an error.
     * "-I", dir would be two words: the folder is given so. */
    static const char *const ours[] = {"-D_GNU_SOURCE", "-Werror=implicit-function-declaration",
                                       "-Wno-error=implicit-int", "-I"};
    size_t n = sizeof ours / sizeof *ours;
    const char **all = calloc(n + 2 + flags->count, sizeof *all);
    if (!all) return NULL;
    memcpy(all, ours, sizeof ours);
    all[n++] = engine->include_dir;
    for (size_t i = 0; i < flags->count; i++)
        all[n++] = flags->items[i];
    *count = n;
    return all;
}

int cell_engine_learn(cadre_engine *engine, cell_state *state, const cell_words *flags,
                      cadre_error *error)
{
    size_t count = 0;
    const char **all = cell_engine_flags(engine, flags, &count);
    if (!all) return cadre_error_set(error, CADRE_EMEMORY, "no memory");
    cadre_compile_request request = {.headers = state->header_text,
                                     .source = "",
                                     .flags = all,
                                     .flag_count = count,
                                     .cancel_fd = engine->cancel_fd};
    char *text = cadre_preprocess(engine->compiler, &request, true, false, error);
    free(all);
    if (!text) return error && error->code ? error->code : CADRE_EINPUT;
    cell_headers *headers = cell_headers_learn(state->header_text, text);
    free(text);
    if (!headers) return cadre_error_set(error, CADRE_EMEMORY, "no memory for the headers' names");
    cell_headers_release(state->headers);
    state->headers = headers;
    return 0;
}

void cadre_engine_warm(cadre_engine *engine)
{
    size_t count = 0;
    const char **flags = cell_engine_flags(engine, &engine->state->flags, &count);
    if (!flags) return;
    cadre_compiler_warm(engine->compiler, engine->state->header_text, flags, count);
    free(flags);
    cadre_error error = {0};
    if (!engine->state->headers)
        cell_engine_learn(engine, engine->state, &engine->state->flags, &error);
}

void cadre_engine_rest(cadre_engine *engine)
{
    cadre_compiler_rest(engine->compiler);
}

void cadre_engine_cancel(cadre_engine *engine)
{
    uint64_t one = 1;
    while (write(engine->cancel_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void cell_fail(cadre_cell *cell, const char *name, const char *value)
{
    if (cell->failed) return;
    cell->failed = true;
    cell->error_name = strdup(name);
    cell->error_value = strdup(value);
}

static void free_strings(char **items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(items);
}

void cadre_cell_free(cadre_cell *cell)
{
    if (!cell) return;
    for (size_t i = 0; i < cell->segment_count; i++) {
        cadre_segment *segment = &cell->segments[i];
        if (segment->object_fd >= 0) close(segment->object_fd);
        free(segment->library_path);
        free(segment->entry);
        free_strings(segment->fresh_names, segment->fresh_count);
        free(segment->object);
    }
    free(cell->segments);
    free_strings(cell->libraries, cell->library_count);
    struct cadre_cell_private *mine = cell->private_data;
    if (mine) {
        for (size_t i = 0; i < mine->entry_count; i++)
            cell_entry_release(mine->entries[i]);
        free(mine->entries);
        free(mine->vanish);
        free(mine->code);
        cell_state_release(mine->state);
        cadre_types_free(mine->types);
        free(mine);
    }
    free(cell->file_name);
    free(cell->error_name);
    free(cell->error_value);
    free(cell->traceback);
    free(cell->warnings);
    free(cell->notes);
    free(cell->value_text);
    json_decref(cell->payload);
    free(cell);
}

cadre_cell *cadre_engine_prepare(cadre_engine *engine, const cadre_cell_request *request)
{
    cadre_cell *cell = calloc(1, sizeof *cell);
    if (!cell) return NULL;
    cell->execution_count = request->execution_count;
    uint64_t generation = engine->names.generation;
    if (!cell_prepare(engine, request, cell)) {
        cell_names_rewind(&engine->names, generation);
        cell_fail(cell, "MemoryError", "no memory is left to compile the cell");
    }
    if (!cell->warnings) cell->warnings = strdup("");
    if (!cell->notes) cell->notes = strdup("");
    if (cell->failed && !cell->traceback) {
        if (asprintf(&cell->traceback, "\x1b[1;31m%s\x1b[0m: %s",
                     cell->error_name ? cell->error_name : "Error",
                     cell->error_value ? cell->error_value : "") < 0)
            cell->traceback = NULL;
    }
    bool whole = cell->warnings && cell->notes &&
                 (!cell->failed || (cell->error_name && cell->error_value && cell->traceback));
    if (whole) return cell;
    cadre_cell_free(cell);
    return NULL;
}

/* --- commit and rewind ---------------------------------------------------------------------- */

/* Puts bounds into the text: `extern double grid[];` and 4 -> `extern double grid[4];`. */
static bool fill_bounds(cell_entry *entry, const size_t *dimensions, size_t count)
{
    if (count < entry->bracket_count) return false;
    cadre_buffer text = {0};
    size_t from = 0;
    for (size_t i = 0; i < entry->bracket_count; i++) {
        cadre_buffer_append(&text, entry->text + from, entry->dimension_at[i] - from);
        cadre_buffer_printf(&text, "%zu", dimensions[i]);
        from = entry->dimension_at[i];
    }
    cadre_buffer_puts(&text, entry->text + from);
    char *filled = cadre_buffer_steal(&text);
    if (!filled) return false;
    if (entry->label_at >= from && entry->label_at)
        entry->label_at += strlen(filled) - strlen(entry->text);
    free(entry->text);
    entry->text = filled;
    entry->bracket_count = 0;
    return true;
}

static bool commit_entry(cadre_engine *engine, cell_entry *entry, bool vanish,
                         const cadre_array_report *arrays, size_t array_count)
{
    if (entry->is_runtime && entry->bracket_count) {
        const char *symbol = entry->spelling ? entry->spelling : entry->name;
        const cadre_array_report *report = NULL;
        for (size_t i = 0; i < array_count; i++)
            if (!strcmp(arrays[i].name, symbol)) report = &arrays[i];
        if (!report) return true; /* the cell ended before its declaration: no storage */
        entry->dimension_count = report->dimension_count < 8 ? report->dimension_count : 8;
        memcpy(entry->dimensions, report->dimensions, sizeof entry->dimensions);
        if (!fill_bounds(entry, entry->dimensions, entry->dimension_count)) return true;
    }
    if (entry->order != UINT64_MAX && entry->order > engine->names.next_order)
        engine->names.next_order = entry->order;
    char buffer[300];
    const char *symbol = cell_entry_symbol(entry, buffer, sizeof buffer);
    if (entry->is_defined && !cell_names_put(&engine->names, SPACE_SYMBOL, symbol, entry))
        return false;
    return cell_names_put(&engine->names, cell_entry_space(entry), entry->name,
                          vanish ? NULL : entry);
}

static void keep_cell(cadre_engine *engine, struct cadre_cell_private *mine)
{
    if (!mine->code) return;
    if (engine->cells.count == engine->cells.capacity) {
        size_t capacity = engine->cells.capacity ? engine->cells.capacity * 2 : 64;
        struct engine_cell *grown = realloc(engine->cells.items, capacity * sizeof *grown);
        if (!grown) return;
        engine->cells.items = grown;
        engine->cells.capacity = capacity;
    }
    struct engine_cell one = {.generation = engine->generation, .code = mine->code};
    mine->code = NULL;
    one.entries = calloc(mine->entry_count + 1, sizeof *one.entries);
    for (size_t i = 0; one.entries && i < mine->entry_count; i++)
        if (!mine->vanish[i]) one.entries[one.entry_count++] = cell_entry_keep(mine->entries[i]);
    engine->cells.items[engine->cells.count++] = one;
}

static void drop_cells(cadre_engine *engine, uint64_t generation)
{
    while (engine->cells.count &&
           engine->cells.items[engine->cells.count - 1].generation > generation) {
        struct engine_cell *last = &engine->cells.items[--engine->cells.count];
        for (size_t i = 0; i < last->entry_count; i++)
            cell_entry_release(last->entries[i]);
        free(last->entries);
        free(last->code);
    }
}

uint64_t cadre_engine_commit(cadre_engine *engine, cadre_cell *cell,
                             const cadre_array_report *arrays, size_t array_count)
{
    struct cadre_cell_private *mine = cell->private_data;
    engine->generation++;
    engine->names.generation = engine->generation;
    if (!mine || setjmp(engine->names.arena.recover)) return engine->generation;
    for (size_t i = 0; i < mine->entry_count; i++)
        commit_entry(engine, mine->entries[i], mine->vanish[i], arrays, array_count);
    keep_cell(engine, mine);
    if (mine->state && mine->state != engine->state) {
        if (engine->log.count == engine->log.capacity) {
            size_t capacity = engine->log.capacity ? engine->log.capacity * 2 : 16;
            struct engine_undo *grown = realloc(engine->log.items, capacity * sizeof *grown);
            if (!grown) return engine->generation;
            engine->log.items = grown;
            engine->log.capacity = capacity;
        }
        engine->log.items[engine->log.count++] =
            (struct engine_undo){engine->generation, engine->state};
        engine->state = cell_state_keep(mine->state);
    }
    return engine->generation;
}

void cadre_engine_rewind(cadre_engine *engine, uint64_t generation)
{
    if (setjmp(engine->names.arena.recover)) return;
    cell_names_rewind(&engine->names, generation);
    drop_cells(engine, generation);
    while (engine->log.count && engine->log.items[engine->log.count - 1].generation > generation) {
        cell_state_release(engine->state);
        engine->state = engine->log.items[--engine->log.count].before;
    }
    if (engine->generation > generation) engine->generation = generation;
    engine->names.generation = engine->generation;
}

/* --- questions ------------------------------------------------------------------------------ */

char *cadre_cell_value(const cadre_cell *cell, uint64_t address, size_t size,
                       cadre_memory_reader read, void *context)
{
    if (cell->value_text) return strdup(cell->value_text);
    const struct cadre_cell_private *mine = cell->private_data;
    if (!cell->has_value || !mine || !mine->types) return NULL;
    if (mine->value_bounds) { /* its address, then its bounds */
        uint64_t words[9] = {0};
        size_t count = mine->value_bounds < 8 ? mine->value_bounds : 8;
        size_t dimensions[8];
        if (!read(context, address, words, (count + 1) * sizeof *words)) return NULL;
        for (size_t i = 0; i < count; i++)
            dimensions[i] = words[i + 1];
        return cadre_types_format_array(mine->types, "__cadre_value_type", words[0], dimensions,
                                        count, read, context, NULL);
    }
    return cadre_types_format(mine->types, "__cadre_value_type", address, size, read, context,
                              NULL);
}

void cadre_engine_names(cadre_engine *engine, cadre_name_visitor visit, void *context)
{
    static const char *const kinds[] = {"variable",   "function", "type",
                                        "enumerator", "type",     "macro"};
    for (int space = 0; space < SPACE_SYMBOL; space++)
        for (size_t i = 0; i < engine->names.spaces[space].bucket_count; i++)
            for (cell_map_entry *e = engine->names.spaces[space].buckets[i]; e; e = e->next) {
                const cell_entry *entry = e->value;
                if (!entry || entry->is_hidden || strchr(entry->name, '$')) continue;
                visit(context, entry->name, kinds[entry->kind], entry->shown ? entry->shown : "",
                      entry->execution_count);
            }
}
