/* Questions about a text that need no session: is it complete, which variables does it declare? */
#include "cell/cell.h"
#include "cell/split.h"

#include <stdlib.h>
#include <string.h>

typedef struct question {
    cell_arena arena;
    macro_table macros;
    cell_reading reading;
    cell_items items;
    cell_problem problem;
} question;

/* Nothing is known: a name followed by another one is a type. */
static name_kind unknown(void *context, const token *name)
{
    (void)context;
    static const char *const usual[] = {"size_t", "FILE", "bool", "uint8_t", "int64_t", "time_t"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (cell_token_is(name, usual[i])) return NAME_TYPE;
    bool ends_in_t = name->length > 2 && !memcmp(name->text + name->length - 2, "_t", 2);
    return ends_in_t ? NAME_TYPE : NAME_UNKNOWN;
}

static void ask(question *q, const char *code, size_t length)
{
    cell_oracle oracle = {.kind = unknown};
    q->macros.arena = &q->arena;
    q->reading.arena = &q->arena;
    q->reading.macros = &q->macros;
    cell_read(&q->reading, "cell", code, length);
    q->problem = q->reading.problem;
    cell_split(&q->arena, &oracle, &q->reading.stream, false, &q->items, &q->problem);
}

/* `int x = );` and the like: what no C can begin or go on with. */
static bool is_invalid(const question *q)
{
    const token_list *s = &q->reading.stream;
    for (size_t i = 0; i + 1 < s->count; i++) {
        if (s->items[i].kind != TOKEN_PUNCTUATOR || s->items[i + 1].kind != TOKEN_PUNCTUATOR)
            continue;
        uint32_t a = s->items[i].punctuator, b = s->items[i + 1].punctuator;
        bool wants_operand = a == '=' || a == '/' || a == '%' || a == '^' || a == '|' || a == '<' ||
                             a == PUNCTUATOR('&', '&') || a == PUNCTUATOR('|', '|');
        if (wants_operand && (b == ')' || b == ']' || b == '}' || b == ';' || b == ','))
            return true;
    }
    return false;
}

static void set_indent(const question *q, const char *code, size_t length, char *indent)
{
    size_t start = length;
    while (start && code[start - 1] == '\n')
        start--;
    while (start && code[start - 1] != '\n')
        start--;
    size_t n = 0;
    while (start + n < length && n < 24 && (code[start + n] == ' ' || code[start + n] == '\t'))
        n++;
    memcpy(indent, code + start, n);
    const token_list *s = &q->reading.stream;
    const token *last = s->count ? &s->items[s->count - 1] : NULL;
    bool deeper = last && last->kind == TOKEN_PUNCTUATOR &&
                  (last->punctuator == '{' || last->punctuator == ')');
    if (deeper && n + 4 < 31) {
        memcpy(indent + n, "    ", 4);
        n += 4;
    }
    indent[n] = 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int cadre_cell_question(const char *code, size_t length, size_t *start, size_t *end)
{
    size_t first = 0, last = length, marks = 0;
    while (first < last && is_space(code[first]))
        first++;
    while (last > first && is_space(code[last - 1]))
        last--;
    for (; first < last && code[first] == '?'; marks++)
        first++;
    bool is_before = marks > 0;
    for (; last > first && code[last - 1] == '?'; marks++) {
        if (is_before) return -1;
        last--;
    }
    *start = first;
    *end = last;
    if (marks < 1 || marks > 2 || first == last) return -1;
    for (int i = 0; i < 2 && first < last && code[first] == '%'; i++)
        first++;
    if (first == last || (code[first] >= '0' && code[first] <= '9')) return -1;
    for (size_t at = first; at < last; at++) {
        char c = code[at];
        bool is_name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || (first > *start && c == '-');
        if (!is_name) return -1;
    }
    return (int)marks - 1;
}

const char *cadre_cell_is_complete(const char *code, size_t length, char *indent)
{
    question *volatile q = calloc(1, sizeof *q);
    const char *volatile answer = "unknown";
    size_t start, end;
    if (indent) indent[0] = 0;
    if (!q) return answer;
    if (cadre_cell_question(code, length, &start, &end) >= 0) {
        free(q);
        return "complete";
    }
    if (!setjmp(q->arena.recover)) {
        ask(q, code, length);
        answer = "complete";
        if (is_invalid(q) || (q->problem.message && !q->problem.incomplete))
            answer = "invalid";
        else if (q->problem.message)
            answer = "incomplete";
        if (!strcmp(answer, "incomplete") && indent) set_indent(q, code, length, indent);
    }
    cell_arena_free(&q->arena);
    free(q);
    return answer;
}

bool cadre_cell_is_raw(const char *code, size_t length)
{
    return cell_raw_body(code, length) > 0;
}

char **cadre_cell_declared_names(const char *code, size_t length)
{
    question *volatile q = calloc(1, sizeof *q);
    char **volatile names = calloc(1, sizeof *names);
    volatile size_t count = 0;
    if (!q || !names) goto out;
    if (setjmp(q->arena.recover)) goto out;
    ask(q, code, length);
    for (size_t i = 0; i < q->items.count; i++) {
        const declaration *d = &q->items.items[i].declaration;
        if (q->items.items[i].kind != ITEM_DECLARATION || d->is_typedef) continue;
        for (size_t k = 0; k < d->declarator_count; k++) {
            const declarator *one = &d->declarators[k];
            if (one->is_function ||
                (d->is_extern && one->initialiser.end <= one->initialiser.first))
                continue;
            const token *name = &q->reading.stream.items[one->name];
            char **grown = realloc(names, (count + 2) * sizeof *grown);
            if (!grown) goto out;
            names = grown;
            grown[count] = strndup(name->text, name->length);
            grown[count + 1] = NULL;
            if (!grown[count]) goto out;
            count++;
        }
    }
out:
    if (q) cell_arena_free(&q->arena);
    free(q);
    return names;
}
