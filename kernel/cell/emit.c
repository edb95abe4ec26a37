#include "cell/emit.h"

#include <string.h>

enum { NEAR_LINES = 8 };

static bool at_line_start(const emitter *e)
{
    return !e->out->length || e->out->data[e->out->length - 1] == '\n';
}

static void end_line(emitter *e)
{
    if (!at_line_start(e)) cadre_buffer_puts(e->out, "\n");
}

static void pad(emitter *e, uint32_t columns)
{
    static const char blanks[] = "                                                                ";
    while (columns) {
        uint32_t n = columns < sizeof blanks - 1 ? columns : (uint32_t)sizeof blanks - 1;
        cadre_buffer_append(e->out, blanks, n);
        columns -= n;
    }
}

/* Brings the output to the place of a token. */
static void go_to(emitter *e, uint16_t source, uint32_t line, uint32_t column)
{
    bool near = e->in_place && e->source == source && e->line <= line &&
                line - e->line <= NEAR_LINES && (e->line < line || e->column <= column);
    if (near) {
        for (; e->line < line; e->line++, e->column = 1)
            cadre_buffer_puts(e->out, "\n");
    } else {
        end_line(e);
        cadre_buffer_printf(e->out, "#line %u \"", line);
        for (const char *name = e->reading->sources.items[source].name; *name; name++) {
            if (*name == '"' || *name == '\\') cadre_buffer_puts(e->out, "\\");
            cadre_buffer_append(e->out, name, 1);
        }
        cadre_buffer_puts(e->out, "\"\n");
        e->column = 1;
    }
    pad(e, column - e->column);
    e->in_place = true;
    e->source = source;
    e->line = line;
    e->column = column;
}

void cell_emit_generated(emitter *e, const char *format, ...)
{
    end_line(e);
    if (e->in_place || !e->out->length)
        cadre_buffer_puts(e->out, "#line 1 \"" CELL_FILE_GENERATED "\"\n");
    e->in_place = false;
    va_list arguments;
    va_start(arguments, format);
    cadre_buffer_vprintf(e->out, format, arguments);
    va_end(arguments);
}

void cell_emit_words(emitter *e, const char *text)
{
    cadre_buffer_puts(e->out, text);
    e->column += (uint32_t)strlen(text);
    if (strchr(text, '\n')) e->in_place = false;
}

void cell_emit_directive(emitter *e, const token *t)
{
    end_line(e);
    if (e->in_place) e->line++, e->column = 1;
    go_to(e, t->source, t->line, 1);
    cadre_buffer_append(e->out, t->text, t->length);
    cadre_buffer_puts(e->out, "\n");
    e->in_place = false; /* a continued directive took several lines of the source */
}

/* Text of the source between two places, with the position carried along. */
static void copy(emitter *e, const token *from, size_t end)
{
    const cell_source *source = &e->reading->sources.items[from->source];
    go_to(e, from->source, from->line, from->column);
    const char *text = source->text + from->offset;
    size_t length = end - from->offset;
    cadre_buffer_append(e->out, text, length);
    for (const char *p = text, *next; (next = memchr(p, '\n', (size_t)(text + length - p)));) {
        e->line++;
        e->column = 1;
        p = next + 1;
        if (!memchr(p, '\n', (size_t)(text + length - p)))
            e->column = (uint32_t)(text + length - p) + 1;
    }
    if (!memchr(text, '\n', length)) e->column = from->column + (uint32_t)length;
}

static bool same_use(const token *a, const token *b)
{
    return (a->flags & b->flags & TOKEN_EXPANDED) && a->source == b->source &&
           a->offset == b->offset;
}

static void emit_one(emitter *e, const token *t)
{
    if (t->kind == TOKEN_DIRECTIVE) {
        cell_emit_directive(e, t);
        return;
    }
    if (!e->in_place || e->source != t->source || e->line != t->line)
        go_to(e, t->source, t->line, t->column);
    cadre_buffer_puts(e->out, " ");
    cadre_buffer_append(e->out, t->text, t->length);
    e->column += t->length + 1;
}

void cell_emit_tokens(emitter *e, size_t first, size_t end)
{
    const token *items = e->reading->stream.items;
    size_t count = e->reading->stream.count;
    for (size_t i = first; i < end;) {
        /* A macro's use that began before cannot be copied: its tokens one by one. */
        if (i && same_use(&items[i], &items[i - 1])) {
            size_t use = i - 1;
            while (i < end && same_use(&items[i], &items[use]))
                emit_one(e, &items[i++]);
            continue;
        }
        size_t last = i;
        while (last < end && items[last].source == items[i].source &&
               (last == i || items[last].offset >= items[last - 1].offset))
            last++;
        /* Nor one that goes on after the end. */
        size_t whole = last;
        if (last == end && last < count)
            while (whole > i && same_use(&items[whole - 1], &items[last]))
                whole--;
        if (whole > i) {
            const token *final = &items[whole - 1];
            if (items[i].kind == TOKEN_DIRECTIVE) end_line(e);
            copy(e, &items[i], final->end);
            if (final->kind == TOKEN_DIRECTIVE) {
                cadre_buffer_puts(e->out, "\n");
                e->line++;
                e->column = 1;
            }
        }
        for (; whole < last; whole++)
            emit_one(e, &items[whole]);
        i = last;
    }
}
