#include "cell/diagnostics.h"

#include "cell/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOLD "\x1b[1m"
#define RED "\x1b[1;31m"
#define MAGENTA "\x1b[1;35m"
#define CYAN "\x1b[1;36m"
#define GREEN "\x1b[1;32m"
#define RESET "\x1b[0m"

enum { LINE_SHOWN = 300 };

static const char *colour_of(const char *kind)
{
    if (strstr(kind, "error")) return RED;
    return strstr(kind, "warning") ? MAGENTA : CYAN;
}

/* The place as people see it: `In[3]:5:10`. */
static char *place(const cell_diagnostics *d, uint16_t source, uint32_t line, uint32_t column)
{
    const char *name = source ? d->reading->sources.items[source].name : NULL;
    char *cell = name ? cell_arena_copy(d->reading->arena, name, strlen(name))
                      : cell_arena_printf(d->reading->arena, "In[%d]", d->execution_count);
    if (!line) return cell;
    return column ? cell_arena_printf(d->reading->arena, "%s:%u:%u", cell, line, column)
                  : cell_arena_printf(d->reading->arena, "%s:%u", cell, line);
}

static const char *find_line(const cell_source *source, uint32_t line, size_t *length)
{
    const char *text = source->original, *end = text + source->length;
    for (uint32_t n = 1; text && text < end; n++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        if (n == line) {
            *length = (size_t)(stop - text);
            return text;
        }
        text = stop + 1;
    }
    return NULL;
}

static bool is_continuation_byte(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Bytes to characters: what editors count. */
static uint32_t character_column(const char *text, size_t length, uint32_t column)
{
    uint32_t characters = 1;
    for (size_t i = 0; i + 1 < column && i < length; i++)
        characters += !is_continuation_byte(text[i]);
    return characters;
}

static void show_line(cadre_buffer *out, const char *text, size_t length, uint32_t line,
                      uint32_t column, const char *colour)
{
    size_t shown = length < LINE_SHOWN ? length : LINE_SHOWN;
    while (shown < length && shown && is_continuation_byte(text[shown]))
        shown--;
    cadre_buffer_printf(out, "%5u | %.*s\n", line, (int)shown, text);
    if (!column || column > shown + 1) return;
    cadre_buffer_puts(out, "      | ");
    for (size_t i = 0; i + 1 < column; i++)
        if (!is_continuation_byte(text[i])) cadre_buffer_puts(out, text[i] == '\t' ? "\t" : " ");
    cadre_buffer_printf(out, "%s^", colour);
    for (size_t i = column; i < shown; i++) { /* underline the word */
        char c = text[i], first = text[column - 1];
        bool word = c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        bool started = first == '_' || ((first | 32) >= 'a' && (first | 32) <= 'z') ||
                       (first >= '0' && first <= '9');
        if (!word || !started) break;
        cadre_buffer_puts(out, "~");
    }
    cadre_buffer_printf(out, "%s\n", *colour ? RESET : "");
}

/* Writes one message with its line to `out`. */
static void write_message(const cell_diagnostics *d, cadre_buffer *out, bool coloured,
                          const char *kind, const char *where, uint16_t source, uint32_t line,
                          uint32_t column, const char *message)
{
    const char *colour = coloured ? colour_of(kind) : "";
    cadre_buffer_printf(out, "%s%s:%s %s%s:%s %s\n", coloured ? BOLD : "", where,
                        coloured ? RESET : "", colour, kind, coloured ? RESET : "", message);
    size_t length;
    const char *text =
        source == UINT16_MAX ? NULL : find_line(&d->reading->sources.items[source], line, &length);
    if (text) show_line(out, text, length, line, column, colour);
}

static void record(cell_diagnostics *d, const char *kind, const char *where, uint16_t source,
                   uint32_t line, uint32_t column, const char *message)
{
    char *key = cell_arena_printf(d->reading->arena, "%s %s %s", where, kind, message);
    if (cell_map_get(&d->seen, key, strlen(key))) {
        if (strcmp(kind, "note")) d->notes_to = NULL; /* its notes came with the first one */
        return;
    }
    cell_map_put(d->reading->arena, &d->seen, key, strlen(key), key);
    bool is_note = !strcmp(kind, "note"), is_error = strstr(kind, "error") != NULL;
    if (is_note && !d->notes_to) return;
    if (is_error && !d->error_value) {
        char *value = cell_arena_printf(d->reading->arena, "%s: %s", where, message);
        d->error_value = strdup(value);
    }
    if (!is_note) d->notes_to = is_error ? &d->traceback : &d->warnings;
    write_message(d, &d->traceback, true, kind, where, source, line, column, message);
    if (d->notes_to == &d->warnings)
        write_message(d, &d->warnings, false, kind, where, source, line, column, message);
}

void cell_diagnostics_message(cell_diagnostics *d, const char *kind, uint16_t source, uint32_t line,
                              uint32_t column, const char *message)
{
    size_t length;
    const char *text = find_line(&d->reading->sources.items[source], line, &length);
    uint32_t shown = text ? character_column(text, length, column) : column;
    record(d, kind, place(d, source, line, shown), source, line, column, message);
}

/* --- the compiler's text -------------------------------------------------------------------- */

/* Names of ours in a message: `gamma$` is the user's gamma. */
static char *clean(const cell_diagnostics *d, const char *message)
{
    char *out = cell_arena_take(d->reading->arena, strlen(message) + 1);
    size_t used = 0;
    for (const char *p = message; *p; p++) {
        bool after_word = p > message && (p[-1] == '_' || (p[-1] >= '0' && p[-1] <= '9') ||
                                          ((p[-1] | 32) >= 'a' && (p[-1] | 32) <= 'z'));
        if (*p == '$' && after_word) {
            const char *q = p + 1;
            while (*q >= '0' && *q <= '9')
                q++;
            bool ends = !(*q == '_' || *q == '$' || ((*q | 32) >= 'a' && (*q | 32) <= 'z'));
            if (ends) {
                p = q - 1;
                continue;
            }
        }
        out[used++] = *p;
    }
    return out;
}

/* Is it about nothing but our own translation? */
static bool is_ours(const char *kind, const char *message)
{
    static const char *const names[] = {"cadre_initial", "__cadre_value", "cadre_bounds_",
                                        "cadre_at_",     "cadre_old_",    "cadre_cell_",
                                        "cadre_main",    "cadre_hook_"};
    if (strstr(message, "each undeclared identifier is reported only once")) return true;
    if (strstr(message, "always_inline function might not be inlinable")) return true;
    if (strstr(message, "__cadre_value") && strstr(message, " undeclared"))
        return true; /* only follows from an error in the value itself */
    if (strstr(kind, "error")) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(message, names[i])) return true;
    return false;
}

/* An array with run-time bounds is spelled as a macro: nobody wants to know. */
static bool is_alias_note(const cell_diagnostics *d, const char *message)
{
    const char *start = strstr(message, "in expansion of macro ");
    if (!start || !d->translator) return false;
    start += strlen("in expansion of macro ");
    const char *quote = strchr(start, '\'');
    const char *name = !strncmp(start, "‘", 3) ? start + 3 : quote ? quote + 1 : start;
    size_t length = strcspn(name, "\xe2'");
    const cell_translator *t = d->translator;
    if (cell_map_get(&t->aliases, name, length)) return true;
    return false;
}

static bool parse_number(const char **text, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(*text, &end, 10);
    if (end == *text || *end != ':' || value > UINT32_MAX) return false;
    *number = (uint32_t)value;
    *text = end + 1;
    return true;
}

/* Which source is FILE in `FILE:...`? UINT16_MAX: none of ours. *rest: after the colon. */
static uint16_t find_source(const cell_diagnostics *d, const char *line, const char **rest)
{
    for (size_t i = 0; i < d->reading->sources.count; i++) {
        const char *name = d->reading->sources.items[i].name;
        size_t length = strlen(name);
        if (!strncmp(line, name, length) && line[length] == ':') {
            *rest = line + length + 1;
            return (uint16_t)i;
        }
    }
    return UINT16_MAX;
}

static const char *after_prefix(const char *line, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(line, prefix, length) ? NULL : line + length;
}

static void add_located(cell_diagnostics *d, const char *line, uint16_t source, const char *rest)
{
    uint32_t at = 0, column = 0;
    if (!parse_number(&rest, &at)) {
        const char *in = strstr(rest, "In function ");
        if (in && !strstr(in, "cadre_cell_")) { /* `In function ‘f’:` before its messages */
            char *heading = cell_arena_printf(d->reading->arena, "%s: %s\n", place(d, source, 0, 0),
                                              clean(d, in));
            cadre_buffer_puts(&d->traceback, heading);
        }
        (void)line;
        return;
    }
    parse_number(&rest, &column);
    while (*rest == ' ')
        rest++;
    const char *colon = strstr(rest, ": ");
    if (!colon || colon - rest > 20) return;
    char *kind = cell_arena_copy(d->reading->arena, rest, (size_t)(colon - rest));
    kind[0] |= 32; /* the assembler writes `Error` */
    char *message = clean(d, colon + 2);
    if (is_ours(kind, message) || is_alias_note(d, message)) {
        if (strcmp(kind, "note")) d->notes_to = NULL;
        return;
    }
    cell_diagnostics_message(d, kind, source, at, column, message);
}

static void add_generated(cell_diagnostics *d, const char *rest)
{
    const char *error = strstr(rest, "error: ");
    if (!error) {
        if (strstr(rest, "warning: ")) d->notes_to = NULL;
        return;
    }
    record(d, "error", place(d, 0, 0, 0), UINT16_MAX, 0, 0, clean(d, error + 7));
}

/* `cadre-session:12:5: note: previous declaration`: what that line declares stands in a cell. */
static void add_session(cell_diagnostics *d, const char *rest)
{
    uint32_t line = 0, column = 0;
    if (!parse_number(&rest, &line)) return;
    parse_number(&rest, &column);
    while (*rest == ' ')
        rest++;
    const char *colon = strstr(rest, ": ");
    const cell_segment_text *s = d->segment;
    if (!colon) return;
    if (!s || line >= s->session_count || !s->session[line]) {
        add_generated(d, rest); /* a directive of the cell that stands before its first line */
        return;
    }
    const cell_entry *entry = s->session[line];
    char *kind = cell_arena_copy(d->reading->arena, rest, (size_t)(colon - rest));
    char *where = cell_arena_printf(d->reading->arena, "In[%d]:%u:%u", entry->execution_count,
                                    entry->line, entry->column);
    record(d, kind, where, UINT16_MAX, 0, 0, clean(d, colon + 2));
}

/* What the assembler says about an asm outside of functions has a line of its own input only. */
static bool add_assembler(cell_diagnostics *d, const char *line)
{
    static const struct {
        const char *mark, *kind;
    } kinds[] = {{": Error: ", "error"}, {": Fatal error: ", "error"}, {": Warning: ", "warning"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *at = strstr(line, kinds[i].mark);
        if (!at) continue;
        record(d, kinds[i].kind, place(d, 0, 0, 0), UINT16_MAX, 0, 0,
               clean(d, at + strlen(kinds[i].mark)));
        return true;
    }
    return false;
}

/* A message about a header of the system, or without a place. */
static void add_foreign(cell_diagnostics *d, const char *line, bool *context)
{
    const char *error = strstr(line, "error: "), *warning = strstr(line, "warning: ");
    if (!strncmp(line, "In file included", 16) || !strncmp(line, "        ", 8) ||
        strstr(line, "compilation terminated") ||
        strstr(line, "warnings being treated as errors")) {
        *context = false;
        return;
    }
    bool temporary = strstr(line, "/tmp/") || strstr(line, "/proc/") || strstr(line, "memfd:");
    if (!error && !warning && strncmp(line, "cc1", 3) && !strstr(line, "note: ")) return;
    *context = !temporary;
    const char *message = temporary ? error ? error + 7 : warning ? warning + 9 : NULL : line;
    if (!message) return;
    const char *kind = error ? "error" : warning ? "warning" : "note";
    if (temporary || !strncmp(line, "cc1", 3)) {
        record(d, kind, place(d, 0, 0, 0), UINT16_MAX, 0, 0, clean(d, message));
    } else {
        const char *at = strstr(line, error ? ": error: " : warning ? ": warning: " : ": note: ");
        if (!at) return;
        char *where = cell_arena_copy(d->reading->arena, line, (size_t)(at - line));
        record(d, kind, where, UINT16_MAX, 0, 0, clean(d, strstr(at + 2, ": ") + 2));
    }
}

static bool is_context(const char *line)
{
    const char *p = line;
    while (*p == ' ' || (*p >= '0' && *p <= '9'))
        p++;
    return p > line && *p == '|' && line[0] == ' ';
}

void cell_diagnostics_add(cell_diagnostics *d, const char *text)
{
    bool context = false; /* keep the compiler's own source lines (headers of the system) */
    while (*text) {
        size_t length = strcspn(text, "\n");
        char *line = cell_arena_copy(d->reading->arena, text, length);
        text += length + (text[length] == '\n');
        const char *rest;
        uint16_t source = find_source(d, line, &rest);
        if (source != UINT16_MAX) {
            context = false;
            add_located(d, line, source, rest);
        } else if ((rest = after_prefix(line, CELL_FILE_SESSION ":"))) {
            context = false;
            add_session(d, rest);
        } else if ((rest = after_prefix(line, CELL_FILE_GENERATED ":"))) {
            context = false;
            add_generated(d, rest);
        } else if (is_context(line)) {
            if (context) cadre_buffer_printf(&d->traceback, "%s\n", line);
        } else if (add_assembler(d, line)) {
            context = false;
        } else {
            add_foreign(d, line, &context);
        }
    }
}

void cell_diagnostics_explain_stale(cell_diagnostics *d, cell_names *names)
{
    const cell_translator *t = d->translator;
    for (size_t i = 0; t && i < t->stale.count; i++) {
        cell_entry *entry = t->stale.items[i], *changed = NULL;
        char *quoted = cell_arena_printf(d->reading->arena, "‘%s’", entry->name);
        char *plain = cell_arena_printf(d->reading->arena, "'%s'", entry->name);
        if (!d->traceback.data ||
            (!strstr(d->traceback.data, quoted) && !strstr(d->traceback.data, plain)))
            continue;
        names->round++;
        cell_entry_is_stale(names, entry, &changed);
        const char *type = changed ? changed->name : "a type";
        char *message = cell_arena_printf(
            d->reading->arena,
            "‘%s’ was declared in In[%d] with an older ‘%s’, which has changed since: run In[%d] "
            "again",
            entry->name, entry->execution_count, type, entry->execution_count);
        d->notes_to = &d->traceback;
        record(d, "note", place(d, 0, 0, 0), UINT16_MAX, 0, 0, message);
    }
}

void cell_diagnostics_free(cell_diagnostics *d)
{
    cadre_buffer_free(&d->traceback);
    cadre_buffer_free(&d->warnings);
    free(d->error_value);
    d->error_value = NULL;
}
