/* The conditions of #if: integer expressions over macros. */
#include "cell/macros.h"

#include <stdlib.h>
#include <string.h>

typedef struct evaluator {
    const token *items;
    size_t count, at;
    int depth;
    bool failed;
} evaluator;

typedef struct number {
    uint64_t bits;
    bool is_unsigned;
} number;

static number signed_number(int64_t value)
{
    return (number){.bits = (uint64_t)value};
}

static bool accept(evaluator *e, uint32_t punctuator)
{
    if (e->at >= e->count || !cell_token_punctuator(&e->items[e->at], punctuator)) return false;
    e->at++;
    return true;
}

static number conditional(evaluator *e);

static number character(evaluator *e, const token *t)
{
    const char *text = memchr(t->text, '\'', t->length);
    const char *end = t->text + t->length - 1;
    if (!text || text + 1 >= end) e->failed = true;
    if (e->failed) return signed_number(0);
    text++;
    if (*text != '\\') return signed_number((signed char)*text);
    text++;
    static const char escapes[] = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"??";
    if (*text == 'x') return signed_number(strtol(text + 1, NULL, 16));
    if (*text >= '0' && *text <= '7') return signed_number(strtol(text, NULL, 8));
    for (const char *p = escapes; *p; p += 2)
        if (*p == *text) return signed_number(p[1]);
    return signed_number(*text);
}

static number primary(evaluator *e)
{
    if (e->at >= e->count || e->depth > 200) e->failed = true;
    if (e->failed) return signed_number(0);
    const token *t = &e->items[e->at++];
    if (t->kind == TOKEN_NUMBER) {
        char text[64], *end;
        if (t->length >= sizeof text) e->failed = true;
        size_t length = 0;
        for (size_t i = 0; i < t->length && length < sizeof text - 1; i++)
            if (t->text[i] != '\'') text[length++] = t->text[i];
        text[length] = 0;
        bool binary = text[0] == '0' && (text[1] | 32) == 'b';
        number n = {.bits = strtoull(binary ? text + 2 : text, &end, binary ? 2 : 0)};
        for (; *end; end++) {
            if ((*end | 32) == 'u')
                n.is_unsigned = true;
            else if ((*end | 32) != 'l')
                e->failed = true;
        }
        if (n.bits > INT64_MAX) n.is_unsigned = true;
        return n;
    }
    if (t->kind == TOKEN_CHARACTER) return character(e, t);
    if (t->kind == TOKEN_NAME) {
        /* What only the compiler knows: __has_include, __has_attribute, __has_builtin ... */
        if (t->length > 6 && !memcmp(t->text, "__has_", 6)) e->failed = true;
        return signed_number(0);
    }
    if (cell_token_punctuator(t, '(')) {
        e->depth++;
        number n = conditional(e);
        e->depth--;
        if (!accept(e, ')')) e->failed = true;
        return n;
    }
    e->failed = true;
    return signed_number(0);
}

static number unary(evaluator *e)
{
    if (++e->depth > 200) e->failed = true;
    number n;
    if (e->failed) {
        n = signed_number(0);
    } else if (accept(e, '!')) {
        n = signed_number(!unary(e).bits);
    } else if (accept(e, '-')) {
        n = unary(e);
        n.bits = -n.bits;
    } else if (accept(e, '+')) {
        n = unary(e);
    } else if (accept(e, '~')) {
        n = unary(e);
        n.bits = ~n.bits;
    } else {
        n = primary(e);
    }
    e->depth--;
    return n;
}

static const struct {
    uint32_t punctuator;
    int level;
} operators[] = {
    {'*', 10},
    {'/', 10},
    {'%', 10},
    {'+', 9},
    {'-', 9},
    {PUNCTUATOR('<', '<'), 8},
    {PUNCTUATOR('>', '>'), 8},
    {'<', 7},
    {'>', 7},
    {PUNCTUATOR('<', '='), 7},
    {PUNCTUATOR('>', '='), 7},
    {PUNCTUATOR('=', '='), 6},
    {PUNCTUATOR('!', '='), 6},
    {'&', 5},
    {'^', 4},
    {'|', 3},
    {PUNCTUATOR('&', '&'), 2},
    {PUNCTUATOR('|', '|'), 1},
};

static int level_at(const evaluator *e)
{
    if (e->at >= e->count || e->items[e->at].kind != TOKEN_PUNCTUATOR) return 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].punctuator == e->items[e->at].punctuator) return operators[i].level;
    return 0;
}

static number apply(evaluator *e, uint32_t p, number a, number b)
{
    bool u = a.is_unsigned || b.is_unsigned;
    int64_t sa = (int64_t)a.bits, sb = (int64_t)b.bits;
    number n = {.is_unsigned = u};
    switch (p) {
    case '*': n.bits = a.bits * b.bits; return n;
    case '+': n.bits = a.bits + b.bits; return n;
    case '-': n.bits = a.bits - b.bits; return n;
    case '&': n.bits = a.bits & b.bits; return n;
    case '|': n.bits = a.bits | b.bits; return n;
    case '^': n.bits = a.bits ^ b.bits; return n;
    case '/':
    case '%':
        if (!b.bits || (!u && sb == -1 && sa == INT64_MIN)) {
            n.bits = 0; /* in a part that is not evaluated this is no error */
            return n;
        }
        if (u)
            n.bits = p == '/' ? a.bits / b.bits : a.bits % b.bits;
        else
            n.bits = (uint64_t)(p == '/' ? sa / sb : sa % sb);
        return n;
    case PUNCTUATOR('<', '<'): n.bits = b.bits < 64 ? a.bits << b.bits : 0; return n;
    case PUNCTUATOR('>', '>'):
        if (u)
            n.bits = b.bits < 64 ? a.bits >> b.bits : 0;
        else
            n.bits = (uint64_t)(sa >> (b.bits < 63 ? b.bits : 63));
        return n;
    case '<': return signed_number(u ? a.bits < b.bits : sa < sb);
    case '>': return signed_number(u ? a.bits > b.bits : sa > sb);
    case PUNCTUATOR('<', '='): return signed_number(u ? a.bits <= b.bits : sa <= sb);
    case PUNCTUATOR('>', '='): return signed_number(u ? a.bits >= b.bits : sa >= sb);
    case PUNCTUATOR('=', '='): return signed_number(a.bits == b.bits);
    case PUNCTUATOR('!', '='): return signed_number(a.bits != b.bits);
    case PUNCTUATOR('&', '&'): return signed_number(a.bits && b.bits);
    case PUNCTUATOR('|', '|'): return signed_number(a.bits || b.bits);
    default: e->failed = true; return n;
    }
}

static number binary_operation(evaluator *e, int lowest)
{
    number left = unary(e);
    for (int level; !e->failed && (level = level_at(e)) >= lowest && level;) {
        uint32_t p = e->items[e->at++].punctuator;
        number right = binary_operation(e, level + 1);
        left = apply(e, p, left, right);
    }
    return left;
}

static number conditional(evaluator *e)
{
    number condition = binary_operation(e, 1);
    if (!accept(e, '?')) return condition;
    if (++e->depth > 200) e->failed = true;
    number yes = e->failed ? condition : conditional(e);
    if (!accept(e, ':')) e->failed = true;
    number no = e->failed ? condition : conditional(e);
    e->depth--;
    return condition.bits ? yes : no;
}

/* defined X and defined(X) are answered before anything is expanded. */
static void answer_defined(const macro_table *table, cell_arena *arena, const token_list *in,
                           token_list *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const token *t = &in->items[i];
        if (t->kind != TOKEN_NAME || !cell_token_is(t, "defined")) {
            CELL_PUSH(arena, out, *t);
            continue;
        }
        bool bracket = i + 1 < in->count && cell_token_punctuator(&in->items[i + 1], '(');
        size_t name = i + 1 + bracket;
        if (name >= in->count || in->items[name].kind != TOKEN_NAME) continue;
        token answer = *t;
        answer.kind = TOKEN_NUMBER;
        bool known = cell_macro_find(table, &in->items[name]) ||
                     cell_token_is(&in->items[name], "__has_include") ||
                     cell_token_is(&in->items[name], "__has_attribute") ||
                     cell_token_is(&in->items[name], "__has_builtin");
        answer.text = known ? "1" : "0";
        answer.length = 1;
        CELL_PUSH(arena, out, answer);
        i = name + bracket;
    }
}

int cell_macro_condition(const macro_table *table, cell_arena *arena, const char *text,
                         size_t length)
{
    token_list raw = {0}, answered = {0}, expanded = {0};
    cell_tokens_read_line(arena, text, length, NULL, &raw);
    answer_defined(table, arena, &raw, &answered);
    cell_macro_expand(table, arena, answered.items, answered.count, &expanded);
    evaluator e = {.items = expanded.items, .count = expanded.count};
    number value = conditional(&e);
    return e.failed || e.at != e.count ? -1 : value.bits != 0;
}
