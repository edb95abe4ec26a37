/* One translation unit for a C front end that completes and inspects: see cell.h. */
#include "cell/engine_internal.h"
#include "cell/translate.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct unit_writer {
    cadre_engine *engine;
    cell_arena arena;
    macro_table macros;
    cell_reading reading;
    cell_translator translator; /* for the oracle only */
    cell_oracle oracle;
    cell_items items;
    cell_problem problem;
    cell_words flags; /* magics of the cell count too */
    cadre_buffer includes, out;
    size_t head;        /* bytes of `out` before what may not be precompiled */
    const char *prefix; /* of the names to offer; NULL: none */
    json_t *names;
    cell_map raw_names, wanted; /* wanted: by the entry's address */
    cell_entry_list entries;    /* what is declared again */
    size_t cursor;              /* in the normalised text */
    const token *at;            /* the directive that the cursor is in, or NULL */
    size_t *starts;             /* of the items' text, each begins where the one before ends */
    cell_map own[SPACE_COUNT];  /* what the cell declares itself */
    unsigned line, column;
} unit_writer;

/* --- reading -------------------------------------------------------------------------------- */

static void on_include(void *context, const token *at, const char *name, const token *before,
                       size_t before_count)
{
    unit_writer *w = context;
    (void)at;
    (void)before;
    (void)before_count;
    cadre_buffer_printf(&w->includes, "#include %s\n", name);
}

static const char *session_macro(void *context, const char *name, size_t length)
{
    const cell_entry *entry = cell_names_find(context, SPACE_MACRO, name, length);
    if (!entry) return NULL;
    return entry->is_hidden ? "" : entry->text + strlen("#define ");
}

static void read_cell(unit_writer *w, const char *code, size_t length)
{
    const cell_headers *headers = w->engine->state->headers;
    w->macros = (macro_table){.arena = &w->arena,
                              .parent = headers ? &headers->macros : NULL,
                              .lookup = session_macro,
                              .lookup_context = &w->engine->names};
    w->reading = (cell_reading){.arena = &w->arena,
                                .macros = &w->macros,
                                .include = on_include,
                                .context = w,
                                .oracle = &w->oracle};
    w->translator = (cell_translator){.arena = &w->arena,
                                      .names = &w->engine->names,
                                      .headers = headers,
                                      .reading = &w->reading,
                                      .items = &w->items};
    cell_translator_oracle(&w->translator, &w->oracle);
    w->reading.raw_names = &w->raw_names;
    cell_read(&w->reading, "cell", code, length);
    cell_split(&w->arena, &w->oracle, &w->reading.stream, false, &w->items, &w->problem);
}

/* The directive that holds the cursor: an unfinished one is read by nobody. */
static void find_directive(unit_writer *w, char *text, size_t length)
{
    cell_source source = {.name = "cell", .text = text, .length = length};
    token_list tokens = {0};
    cell_tokens_read(&w->arena, &source, 0, true, &tokens);
    for (size_t i = 0; i < tokens.count; i++) {
        const token *t = &tokens.items[i];
        if (t->kind == TOKEN_DIRECTIVE && t->offset < w->cursor && w->cursor <= t->end) w->at = t;
    }
}

/* --- where the items' text is --------------------------------------------------------------- */

/* After the comment that follows on the same line: it belongs to what stands before it. */
static size_t line_rest(const char *text, size_t length, size_t at)
{
    size_t end = at;
    while (end < length && (text[end] == ' ' || text[end] == '\t'))
        end++;
    if (end + 1 >= length || text[end] != '/') return at;
    if (text[end + 1] == '/') {
        const char *newline = memchr(text + end, '\n', length - end);
        return newline ? (size_t)(newline - text) : length;
    }
    return at;
}

static void place_items(unit_writer *w)
{
    const cell_source *cell = &w->reading.sources.items[0];
    size_t at = 0;
    w->starts = cell_arena_take(&w->arena, (w->items.count + 1) * sizeof *w->starts);
    for (size_t i = 0; i < w->items.count; i++) {
        const cell_item *item = &w->items.items[i];
        size_t end = at;
        w->starts[i] = at;
        for (size_t k = item->tokens.first; k < item->tokens.end; k++) {
            const token *t = &w->reading.stream.items[k];
            if (t->source == 0 && t->end > end) end = t->end;
        }
        at = line_rest(cell->text, cell->length, end < cell->length ? end : cell->length);
    }
    w->starts[w->items.count] = at;
}

static bool is_file_scope(const unit_writer *w, size_t index)
{
    const cell_item *item = &w->items.items[index];
    if (item->kind == ITEM_DIRECTIVE || item->kind == ITEM_ASSEMBLY) return true;
    if (item->kind != ITEM_DECLARATION) return false;
    /* The last one, unfinished: only a function's body must not be inside of another. */
    return item->declaration.complete || item->declaration.is_definition;
}

/* A bracket that closes nothing would end the function that statements are put in. */
static bool is_stray(const unit_writer *w, const cell_item *item)
{
    const token *t = &w->reading.stream.items[item->tokens.first];
    return cell_token_punctuator(t, '}') || cell_token_punctuator(t, ')') ||
           cell_token_punctuator(t, ']');
}

/* --- the cell's own names ------------------------------------------------------------------- */

static void add_name(unit_writer *w, int space, const token *name, const char *kind,
                     const char *shown)
{
    char *text = cell_arena_copy(&w->arena, name->text, name->length);
    cell_map_put(&w->arena, &w->own[space], text, name->length, text);
    if (w->prefix && !strncmp(text, w->prefix, strlen(w->prefix)))
        json_object_set_new(w->names, text, json_pack("[ss]", kind, shown));
}

static void add_enumerator(void *context, const token *name)
{
    add_name(context, SPACE_ORDINARY, name, "enumerator", "");
}

static const char *tag_kind(const char *text)
{
    if (!strncmp(text, "_Pragma", 7)) text = strchr(text, ')') + 2;
    text += strspn(text, " )");
    return text[0] == 's' ? "struct" : text[0] == 'u' ? "union" : "enum";
}

/* `double f(double x)`: specifiers and declarator, without a type's body. */
static const char *declared_text(unit_writer *w, const declaration *d, const declarator *one)
{
    const token *stream = w->reading.stream.items;
    token_list text = {0};
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        if (d->type.open != CELL_NOWHERE && i >= d->type.open && i <= d->type.close) continue;
        CELL_PUSH(&w->arena, &text, stream[i]);
    }
    for (size_t i = one->whole.first; i < one->whole.end; i++)
        CELL_PUSH(&w->arena, &text, stream[i]);
    return cell_tokens_text(&w->arena, text.items, text.count);
}

static void collect_own(unit_writer *w)
{
    const token *stream = w->reading.stream.items;
    for (size_t i = 0; i < w->items.count; i++) {
        const cell_item *item = &w->items.items[i];
        const declaration *d = &item->declaration;
        if (item->kind == ITEM_DIRECTIVE) {
            const char *word, *rest;
            size_t word_length, length;
            token_list tokens = {0};
            const token *t = &stream[item->tokens.first];
            if (!cell_directive_is(t, "define") ||
                !cell_directive_split(t, &word, &word_length, &rest, &length))
                continue;
            cell_tokens_read_line(&w->arena, rest, length, t, &tokens);
            if (tokens.count && tokens.items[0].kind == TOKEN_NAME)
                add_name(w, SPACE_MACRO, &tokens.items[0], "macro",
                         cell_arena_printf(&w->arena, "#define %.*s", (int)length, rest));
        }
        if (item->kind != ITEM_DECLARATION) continue;
        if (d->type.keyword != CELL_NOWHERE && d->type.open != CELL_NOWHERE) {
            if (d->type.tag != CELL_NOWHERE) {
                const char *kind =
                    tag_kind(cell_tokens_text(&w->arena, &stream[d->type.keyword], 1));
                add_name(w, SPACE_TAG, &stream[d->type.tag], kind, kind);
            }
            if (stream[d->type.keyword].keyword == KEYWORD_ENUM)
                cell_enumerators(stream, d->type.open, d->type.close, add_enumerator, w);
        }
        for (size_t k = 0; k < d->declarator_count; k++)
            if (d->declarators[k].name != CELL_NOWHERE)
                add_name(w, SPACE_ORDINARY, &stream[d->declarators[k].name],
                         d->is_typedef                   ? "type"
                         : d->declarators[k].is_function ? "function"
                                                         : "variable",
                         declared_text(w, d, &d->declarators[k]));
    }
}

/* --- the session ---------------------------------------------------------------------------- */

static int compare_order(const void *left, const void *right)
{
    const cell_entry *a = *(cell_entry *const *)left, *b = *(cell_entry *const *)right;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_own(const unit_writer *w, const cell_entry *entry)
{
    int space = cell_entry_space(entry);
    return cell_map_get(&w->own[space], entry->name, strlen(entry->name)) != NULL;
}

/* For completion: the session's names that begin as they must. */
static void offer_session(unit_writer *w)
{
    static const char *const kinds[] = {"variable", "function", "type", "enumerator", "", "macro"};
    const cell_names *names = &w->engine->names;
    size_t length = w->prefix ? strlen(w->prefix) : 0;
    for (int space = 0; w->prefix && space < SPACE_SYMBOL; space++)
        for (size_t i = 0; i < names->spaces[space].bucket_count; i++)
            for (cell_map_entry *e = names->spaces[space].buckets[i]; e; e = e->next) {
                const cell_entry *entry = e->value;
                if (!entry || entry->is_hidden || strncmp(entry->name, w->prefix, length) ||
                    !entry->name[0] || strchr(entry->name, '$') || is_own(w, entry))
                    continue;
                const char *kind =
                    entry->kind == ENTRY_TAG ? tag_kind(entry->text) : kinds[entry->kind];
                json_object_set_new(w->names, entry->name,
                                    json_pack("[ss]", kind, entry->shown ? entry->shown : ""));
            }
}

static void want_entry(unit_writer *w, cell_entry *entry)
{
    char key[40];
    if (!entry || is_own(w, entry)) return;
    int length = snprintf(key, sizeof key, "%p", (void *)entry);
    if (cell_map_get(&w->wanted, key, (size_t)length)) return;
    cell_map_put(&w->arena, &w->wanted, cell_arena_copy(&w->arena, key, (size_t)length),
                 (size_t)length, entry);
    CELL_PUSH(&w->arena, &w->entries, entry);
}

static void want_name(unit_writer *w, const char *name, size_t length)
{
    for (int space = 0; space < SPACE_SYMBOL; space++)
        want_entry(w, cell_names_find(&w->engine->names, space, name, length));
}

/* What the cell's text names, and what the declarations of that name in turn. */
static void find_entries(unit_writer *w)
{
    for (size_t i = 0; i < w->raw_names.bucket_count; i++)
        for (cell_map_entry *e = w->raw_names.buckets[i]; e; e = e->next)
            want_name(w, e->name, e->length);
    if (w->at) { /* a directive's names are not read */
        token_list tokens = {0};
        cell_tokens_read_line(&w->arena, w->at->text, w->at->length, w->at, &tokens);
        for (size_t i = 0; i < tokens.count; i++)
            if (tokens.items[i].kind == TOKEN_NAME)
                want_name(w, tokens.items[i].text, tokens.items[i].length);
    }
    for (size_t i = 0; i < w->reading.stream.count; i++) {
        const token *t = &w->reading.stream.items[i];
        token_list tokens = {0};
        if (t->kind != TOKEN_DIRECTIVE) continue;
        cell_tokens_read_line(&w->arena, t->text, t->length, t, &tokens);
        for (size_t k = 0; k < tokens.count; k++)
            if (tokens.items[k].kind == TOKEN_NAME)
                want_name(w, tokens.items[k].text, tokens.items[k].length);
    }
    for (size_t i = 0; i < w->entries.count; i++) {
        cell_entry *entry = w->entries.items[i];
        for (char **word = entry->words; word && *word; word++)
            want_name(w, *word, strlen(*word));
        cell_entry *provider = entry->provider;
        if (provider && cell_names_find(&w->engine->names, cell_entry_space(provider),
                                        provider->name, strlen(provider->name)) == provider)
            want_entry(w, provider);
    }
    size_t kept = 0;
    for (size_t i = 0; i < w->entries.count; i++)
        if (w->entries.items[i]->text && w->entries.items[i]->text[0])
            w->entries.items[kept++] = w->entries.items[i];
    w->entries.count = kept;
    if (kept) qsort(w->entries.items, kept, sizeof *w->entries.items, compare_order);
}

/* A name that a header has as well: the session's goes by another one. */
static void write_alias(unit_writer *w, const cell_entry *entry)
{
    const cell_headers *headers = w->engine->state->headers;
    if (entry->kind == ENTRY_MACRO) return;
    if (entry->spelling)
        cadre_buffer_printf(&w->out, "#define %s %s\n", entry->name, entry->spelling);
    else if (headers && entry->label_at && (entry->is_defined || entry->kind == ENTRY_TYPEDEF) &&
             cell_map_get(&headers->names, entry->name, strlen(entry->name)))
        cadre_buffer_printf(&w->out, "#define %s %s$\n", entry->name, entry->name);
}

static void write_entry(unit_writer *w, const cell_entry *entry)
{
    unsigned lines = 1;
    for (const char *c = entry->comment; c && *c; c++)
        lines += *c == '\n';
    if (!entry->comment) lines = 0;
    cadre_buffer_printf(&w->out, "#line %u \"In[%d]\"\n",
                        entry->line > lines ? entry->line - lines : 1, entry->execution_count);
    if (entry->comment) cadre_buffer_printf(&w->out, "%s\n", entry->comment);
    if (entry->kind == ENTRY_MACRO && !entry->is_hidden)
        cadre_buffer_printf(&w->out, "#undef %s\n#line %u\n", entry->name,
                            entry->line ? entry->line : 1);
    cadre_buffer_printf(&w->out, "%s\n", entry->text);
}

static void write_session(unit_writer *w)
{
    offer_session(w);
    find_entries(w);
    cell_entry **entries = w->entries.items;
    size_t count = w->entries.count;
    for (size_t i = 0; i < count; i++)
        write_alias(w, entries[i]);
    for (size_t i = 0; i < count; i++) {
        const char *text = entries[i]->text;
        if (entries[i]->kind != ENTRY_TAG) continue;
        if (!strncmp(text, "struct ", 7) || !strncmp(text, "union ", 6))
            cadre_buffer_printf(&w->out, "%.6s %s;\n", text[0] == 's' ? "struct" : "union ",
                                entries[i]->name);
    }
    for (int macros = 0; macros < 2; macros++)
        for (size_t i = 0; i < count; i++)
            if ((entries[i]->kind == ENTRY_MACRO) == macros) write_entry(w, entries[i]);
}

/* --- the cell ------------------------------------------------------------------------------- */

static void note_place(unit_writer *w, size_t offset)
{
    const char *text = w->out.data, *line = text;
    w->line = 1;
    for (const char *c = text; c < text + offset; c++)
        if (*c == '\n') {
            w->line++;
            line = c + 1;
        }
    w->column = (unsigned)(text + offset - line) + 1;
}

/* text[from, to) of the cell; notes the cursor when it is in it, or at its end. */
static void write_text(unit_writer *w, size_t from, size_t to, bool or_end)
{
    const cell_source *cell = &w->reading.sources.items[0];
    size_t before = w->out.length;
    if (to > cell->length) to = cell->length;
    if (from < to) cadre_buffer_append(&w->out, cell->text + from, to - from);
    if (!w->line && w->out.data && w->cursor >= from &&
        (w->cursor < to || (or_end && w->cursor == to)))
        note_place(w, before + (w->cursor - from));
}

/* Closes what the last item leaves open, so that the text after it is read as what it is. */
static void write_closing(unit_writer *w, const cell_item *item)
{
    struct {
        char *items;
        size_t count, capacity;
    } open = {0};
    const token *last = NULL;
    for (size_t i = item->tokens.first; i < item->tokens.end; i++) {
        const token *t = &w->reading.stream.items[i];
        uint32_t c = t->kind == TOKEN_PUNCTUATOR ? t->punctuator : 0;
        last = t;
        if (c == '(' || c == '[' || c == '{')
            CELL_PUSH(&w->arena, &open, (char)(c == '(' ? ')' : c == '[' ? ']' : '}'));
        else if (open.count && c == (uint32_t)open.items[open.count - 1])
            open.count--;
    }
    cadre_buffer_puts(&w->out, "\n");
    while (open.count) {
        char c = open.items[--open.count];
        if (c == '}' && item->kind != ITEM_DECLARATION) cadre_buffer_puts(&w->out, ";");
        cadre_buffer_append(&w->out, &c, 1);
    }
    bool is_function = item->kind == ITEM_DECLARATION && item->declaration.is_definition;
    /* `struct s` alone would declare another type in the function. */
    if (item->kind == ITEM_DECLARATION && !item->declaration.declarator_count &&
        item->declaration.type.keyword != CELL_NOWHERE &&
        item->declaration.type.open == CELL_NOWHERE && !is_function)
        cadre_buffer_puts(&w->out, " *cadre_assist_pointer");
    if (last && !cell_token_punctuator(last, ';') && !is_function) cadre_buffer_puts(&w->out, ";");
    cadre_buffer_puts(&w->out, "\n");
}

/* `open`: the text ends at the cursor, in what may be an unfinished item. */
static void write_cell(unit_writer *w, bool open)
{
    const cell_source *cell = &w->reading.sources.items[0];
    size_t count = w->items.count;
    cadre_buffer_puts(&w->out, "#line 1 \"In[ ]\"\n");
    bool last_is_outside = count && w->items.items[count - 1].kind == ITEM_DECLARATION &&
                           !w->items.items[count - 1].declaration.complete &&
                           is_file_scope(w, count - 1);
    for (size_t i = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        if (!is_file_scope(w, i)) continue;
        if (is_last && last_is_outside && open) continue;
        write_text(w, w->starts[i], w->starts[i + 1], false);
        if (is_last && last_is_outside)
            write_closing(w, &w->items.items[i]);
        else
            cadre_buffer_puts(&w->out, "\n");
    }
    if (last_is_outside && open) { /* the body being typed; statements would only follow */
        write_text(w, w->starts[count - 1], cell->length, true);
        return;
    }
    cadre_buffer_puts(&w->out, "void cadre_cell(void) {\n");
    for (size_t i = 0; i < count; i++) {
        if (is_file_scope(w, i) || is_stray(w, &w->items.items[i])) continue;
        write_text(w, w->starts[i], w->starts[i + 1], open && i + 1 == count);
        bool is_value = w->items.items[i].kind == ITEM_VALUE;
        if (i + 1 == count && !open)
            write_closing(w, &w->items.items[i]);
        else if (i + 1 < count)
            cadre_buffer_puts(&w->out, is_value ? ";\n" : "\n");
    }
}

/* The cursor is after the last item or in a directive. */
static void write_end(unit_writer *w, const char *text, size_t length, bool open_end)
{
    if (w->line) {
        if (!open_end) cadre_buffer_puts(&w->out, ";}\n");
        return;
    }
    if (w->at && open_end) {
        cadre_buffer_puts(&w->out, "}\n");
        cadre_buffer_append(&w->out, text + w->at->offset, w->cursor - w->at->offset);
        note_place(w, w->out.length);
        return;
    }
    size_t before, word = w->cursor;
    if (!open_end) { /* only the name is left to look at */
        while (word < length && (text[word] == '_' || (text[word] >= '0' && text[word] <= '9') ||
                                 (text[word] >= 'a' && text[word] <= 'z') ||
                                 (text[word] >= 'A' && text[word] <= 'Z')))
            word++;
        cadre_buffer_puts(&w->out, "\n");
        before = w->out.length;
        cadre_buffer_append(&w->out, text + w->cursor, word - w->cursor);
        if (w->out.data) note_place(w, before);
        cadre_buffer_puts(&w->out, ";}\n");
        return;
    }
    write_text(w, w->starts[w->items.count], w->cursor, true);
    if (!w->line && w->out.data) note_place(w, w->out.length);
}

static bool add_argument(cell_words *words, const char *text)
{
    return cell_words_add(words, text);
}

/* Flags that clang would not take are left out. */
static bool write_arguments(const unit_writer *w, cell_words *words)
{
    static const char *const ours[] = {"-x",
                                       "c",
                                       "-std=gnu17",
                                       "-fparse-all-comments",
                                       "-fno-spell-checking",
                                       "-w",
                                       "-ferror-limit=0",
                                       "-fdollars-in-identifiers",
                                       "-D_GNU_SOURCE",
                                       "-I"};
    char folder[PATH_MAX];
    const cell_words *flags = &w->engine->state->flags;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!add_argument(words, ours[i])) return false;
    if (!add_argument(words, w->engine->include_dir)) return false;
    if (getcwd(folder, sizeof folder) &&
        (!add_argument(words, "-iquote") || !add_argument(words, folder)))
        return false;
    for (size_t i = 0; i < flags->count && words->count < 60; i++) {
        const char *flag = flags->items[i];
        bool pair = (!strcmp(flag, "-I") || !strcmp(flag, "-D") || !strcmp(flag, "-U") ||
                     !strcmp(flag, "-isystem") || !strcmp(flag, "-iquote")) &&
                    i + 1 < flags->count;
        bool known = !strncmp(flag, "-I", 2) || !strncmp(flag, "-D", 2) ||
                     !strncmp(flag, "-U", 2) || !strncmp(flag, "-std=", 5);
        if ((pair || known) && !add_argument(words, flag)) return false;
        if (pair && !add_argument(words, flags->items[++i])) return false;
    }
    return true;
}

static void write_unit(unit_writer *w, const char *code, size_t length, size_t cursor)
{
    size_t text_length;
    if (cursor > length) cursor = length;
    cell_text_normalise(&w->arena, code, cursor, &w->cursor);
    char *text = cell_text_normalise(&w->arena, code, length, &text_length);
    bool open_end = w->cursor >= text_length;
    find_directive(w, text, text_length);
    read_cell(w, text, w->at ? w->at->offset : text_length);
    place_items(w);
    collect_own(w);
    cadre_buffer_puts(&w->out, w->engine->state->header_text);
    if (w->includes.data) cadre_buffer_puts(&w->out, w->includes.data);
    w->head = w->out.length;
    cadre_buffer_puts(&w->out, ";\n");
    write_session(w);
    write_cell(w, open_end && !w->at);
    write_end(w, text, text_length, open_end);
}

int cadre_engine_assist_unit(cadre_engine *engine, const char *code, size_t length, size_t cursor,
                             const char *prefix, cadre_assist_unit *unit)
{
    unit_writer *volatile w = calloc(1, sizeof *w);
    volatile int status = CADRE_EMEMORY;
    cell_words words = {0};
    *unit = (cadre_assist_unit){0};
    if (!w) return CADRE_EMEMORY;
    w->engine = engine;
    w->prefix = prefix;
    w->names = json_object();
    if (!w->names || setjmp(w->arena.recover)) goto out;
    write_unit(w, code, length, cursor);
    if (w->out.failed || w->includes.failed || !write_arguments(w, &words)) goto out;
    char **arguments = realloc(words.items, (words.count + 1) * sizeof *arguments);
    if (!arguments) goto out;
    words.items = arguments;
    arguments[words.count] = NULL;
    unit->source = cadre_buffer_steal(&w->out);
    if (!unit->source) goto out;
    unit->arguments = arguments;
    words = (cell_words){0};
    unit->line = w->line;
    unit->column = w->column;
    unit->head = w->head;
    unit->names = json_incref(w->names);
    status = 0;
out:
    cell_words_free(&words);
    cadre_buffer_free(&w->out);
    cadre_buffer_free(&w->includes);
    json_decref(w->names);
    cell_arena_free(&w->arena);
    free(w);
    return status;
}

void cadre_assist_unit_free(cadre_assist_unit *unit)
{
    free(unit->source);
    for (char **argument = unit->arguments; argument && *argument; argument++)
        free(*argument);
    free(unit->arguments);
    json_decref(unit->names);
    *unit = (cadre_assist_unit){0};
}

/* --- one name ------------------------------------------------------------------------------- */

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

bool cadre_engine_describe(cadre_engine *engine, const char *name, size_t length,
                           cadre_name_facts *facts)
{
    static const char *const kinds[] = {"variable",   "function", "type",
                                        "enumerator", "type",     "macro"};
    static const int order[] = {SPACE_MACRO, SPACE_ORDINARY, SPACE_TAG};
    const cell_entry *entry = NULL;
    *facts = (cadre_name_facts){0};
    for (size_t i = 0; i < 3 && !entry; i++)
        entry = cell_names_find(&engine->names, order[i], name, length);
    if (!entry || entry->is_hidden) return false;
    const cell_entry *origin = entry->provider && !entry->source ? entry->provider : entry;
    facts->execution_count = entry->execution_count;
    facts->kind = copy(kinds[entry->kind]);
    facts->declaration = copy(entry->shown);
    facts->comment = copy(origin->comment);
    facts->source = copy(origin->source);
    if (!entry->object || !entry->is_defined) return true;
    char buffer[300];
    facts->symbol = copy(cell_entry_symbol(entry, buffer, sizeof buffer));
    facts->object = malloc(entry->object->length);
    if (!facts->object) return true;
    memcpy(facts->object, entry->object->bytes, entry->object->length);
    facts->object_length = entry->object->length;
    return true;
}

char *cadre_name_value(const cadre_name_facts *facts, uint64_t address, cadre_memory_reader read,
                       void *context)
{
    if (!facts->object || !facts->symbol) return NULL;
    cadre_error error = {0};
    cadre_types *types = cadre_types_open(facts->object, facts->object_length, &error);
    char *value =
        types ? cadre_types_format_variable(types, facts->symbol, address, read, context, NULL)
              : NULL;
    cadre_types_free(types);
    return value;
}

void cadre_name_facts_free(cadre_name_facts *facts)
{
    free(facts->kind);
    free(facts->declaration);
    free(facts->comment);
    free(facts->source);
    free(facts->symbol);
    free(facts->object);
    *facts = (cadre_name_facts){0};
}
