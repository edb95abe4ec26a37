/* Channel 5: parameters that stand in the text of a cell. */
#include "session/parameters.h"

#include "cell/cell.h"
#include "wire/wire.h"

#include <string.h>

typedef enum place { CODE, LINE_COMMENT, BLOCK_COMMENT, STRING, CHARACTER } place;

static size_t skip_blanks(const char *code, size_t length, size_t at)
{
    while (at < length && (code[at] == ' ' || code[at] == '\t'))
        at++;
    return at;
}

/* Where the values begin when a line of parameters begins at `at`, else 0. */
static size_t values_of(const char *code, size_t length, size_t at)
{
    static const char name[] = "parameters";
    at = skip_blanks(code, length, at);
    if (length - at >= 3 && memcmp(code + at, "//%", 3) == 0)
        at = skip_blanks(code, length, at + 3);
    else if (at < length && code[at] == '%')
        at++;
    else
        return 0;
    if (length - at < sizeof name - 1 || memcmp(code + at, name, sizeof name - 1) != 0) return 0;
    at += sizeof name - 1;
    if (at < length && !strchr(" \t\r\n{", code[at])) return 0;
    return at;
}

/* What the text is in after code[at]; *at moves over escapes and two-byte marks. */
static place follow(const char *code, size_t length, size_t *at, place now)
{
    char c = code[*at], next = *at + 1 < length ? code[*at + 1] : 0;
    switch (now) {
    case CODE:
        if (c == '"') return STRING;
        if (c == '\'') return CHARACTER;
        if (c == '/' && next == '/') return LINE_COMMENT;
        if (c != '/' || next != '*') return CODE;
        ++*at;
        return BLOCK_COMMENT;
    case BLOCK_COMMENT:
        if (c != '*' || next != '/') return BLOCK_COMMENT;
        ++*at;
        return CODE;
    case LINE_COMMENT:
        if (c == '\\' && next == '\n') ++*at;
        return c == '\n' ? CODE : LINE_COMMENT;
    default:
        if (c == '\\') ++*at;
        /* A literal that is not closed ends with its line, as it does for the compiler. */
        return c == '\n' || c == (now == STRING ? '"' : '\'') ? CODE : now;
    }
}

bool parameters_inline_next(const char *code, size_t length, parameters_line *line)
{
    place now = CODE;
    bool begins = true; /* a line begins here, outside of comments and literals */
    if (!line->end && cadre_cell_is_raw(code, length)) return false; /* text of a file or script */
    for (size_t at = line->end; at < length; at++) {
        size_t values = begins && now == CODE ? values_of(code, length, at) : 0;
        if (values) {
            const char *end = memchr(code + values, '\n', length - values);
            *line = (parameters_line){at, values, end ? (size_t)(end - code) : length};
            return true;
        }
        now = follow(code, length, &at, now);
        begins = at < length && code[at] == '\n';
    }
    return false;
}

int parameters_inline(parameters *self, const char *code, size_t length, cadre_error *error)
{
    parameters_line line = {0};
    json_object_clear(self->inlined_before);
    json_object_update(self->inlined_before, self->inlined);
    while (parameters_inline_next(code, length, &line)) {
        cadre_error why = {0};
        json_t *values = cadre_json_parse(code + line.values, line.end - line.values, &why);
        if (!json_is_object(values)) {
            json_decref(values);
            return cadre_error_set(error, CADRE_EINPUT,
                                   "%%parameters must be followed by a JSON object of names and "
                                   "values on one line, such as {\"cpu_count\": 2}%s%.200s",
                                   why.message[0] ? ": " : "", why.message);
        }
        json_object_update(self->inlined, values);
        json_decref(values);
    }
    return 0;
}

void parameters_inline_hide(char *code, size_t length)
{
    parameters_line line = {0};
    while (parameters_inline_next(code, length, &line))
        for (size_t at = line.begin; at < line.end; at++)
            if (code[at] != '\r') code[at] = ' ';
}
