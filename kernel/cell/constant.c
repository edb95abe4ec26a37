/* Is an initialiser or an array bound a constant that the compiler accepts at file scope? In
 * doubt it is not: then it is computed where the cell passes, which is always right. */
#include "cell/translate.h"

#include <string.h>

static bool is_constant_builtin(const token *t)
{
    static const char *const names[] = {
        "__builtin_inf",
        "__builtin_inff",
        "__builtin_infl",
        "__builtin_nan",
        "__builtin_nanf",
        "__builtin_nanl",
        "__builtin_huge_val",
        "__builtin_huge_valf",
        "__builtin_huge_vall",
        "__builtin_offsetof",
        "__builtin_types_compatible_p",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cell_token_is(t, names[i])) return true;
    return false;
}

/* A name that stands for an address: a function, or what & is taken of. */
static bool is_address(const cell_translator *t, const token *name, bool after_and)
{
    cell_entry *entry = cell_names_find(t->names, SPACE_ORDINARY, name->text, name->length);
    if (entry) {
        if (entry->is_thread || entry->place || entry->is_runtime) return false;
        return entry->kind == ENTRY_FUNCTION || (after_and && entry->kind == ENTRY_VARIABLE);
    }
    const header_name *known = cell_headers_find(t->headers, name);
    return known && (known->kind == NAME_FUNCTION || (after_and && known->kind == NAME_VARIABLE));
}

static name_kind meaning(const cell_translator *t, const token *name)
{
    cell_oracle oracle;
    cell_translator_oracle((cell_translator *)t, &oracle);
    return oracle.kind(oracle.context, name);
}

static bool is_zero(const token *t)
{
    if (t->kind != TOKEN_NUMBER) return false;
    for (size_t i = 0; i < t->length; i++)
        if (!strchr("0xXuUlL", t->text[i])) return false;
    return true;
}

bool cell_is_constant(const cell_translator *t, const token *items, size_t first, size_t end,
                      bool integer)
{
    for (size_t i = first; i < end; i++) {
        const token *at = &items[i];
        uint32_t before =
            i > first && items[i - 1].kind == TOKEN_PUNCTUATOR ? items[i - 1].punctuator : 0;
        if (at->kind == TOKEN_PUNCTUATOR) {
            uint32_t p = at->punctuator;
            if (p == '{' && before == '(') return false; /* a statement expression */
            if (p == PUNCTUATOR('&', '&') &&
                (i == first || before == ',' || before == '{' || before == '('))
                return false; /* the address of a label */
            if ((p == '/' || p == '%') && i + 1 < end && is_zero(&items[i + 1])) return false;
            if (p == PUNCTUATOR('+', '+') || p == PUNCTUATOR('-', '-')) return false;
            continue;
        }
        if (at->kind == TOKEN_DIRECTIVE || at->kind == TOKEN_OTHER) return false;
        if (at->kind == TOKEN_STRING && integer) return false;
        if (at->kind != TOKEN_NAME) continue;
        if (before == '.' && !(i >= 2 + first && items[i - 2].kind == TOKEN_NAME)) continue;
        if (before == '.' || before == PUNCTUATOR('-', '>')) {
            /* a member: constant only as part of an address, &x.y */
            size_t k = i;
            while (k > first &&
                   (items[k - 1].kind == TOKEN_NAME || cell_token_punctuator(&items[k - 1], '.')))
                k--;
            if (before != '.' || k == first || !cell_token_punctuator(&items[k - 1], '&'))
                return false;
            continue;
        }
        switch ((keyword)at->keyword) {
        case KEYWORD_SIZEOF: /* its operand is not evaluated; arrays with run-time bounds are */
            for (i++; i < end && items[i].kind == TOKEN_PUNCTUATOR && items[i].punctuator == '*';)
                i++;
            if (i < end && cell_token_punctuator(&items[i], '(')) {
                size_t close = cell_tokens_match(items, end, i);
                for (size_t k = i; k < close; k++)
                    if (items[k].kind == TOKEN_NAME) {
                        cell_entry *e = cell_names_find(t->names, SPACE_ORDINARY, items[k].text,
                                                        items[k].length);
                        if (e && e->is_runtime) return false;
                    }
                i = close;
            } else if (i < end && items[i].kind == TOKEN_NAME) {
                cell_entry *e =
                    cell_names_find(t->names, SPACE_ORDINARY, items[i].text, items[i].length);
                if (e && e->is_runtime) return false;
                while (i + 1 < end && (cell_token_punctuator(&items[i + 1], '[') ||
                                       cell_token_punctuator(&items[i + 1], '.')))
                    i = cell_token_punctuator(&items[i + 1], '[')
                            ? cell_tokens_match(items, end, i + 1)
                            : i + 2;
            }
            break;
        case KEYWORD_NONE: {
            if (is_constant_builtin(at)) {
                if (i + 1 < end && cell_token_punctuator(&items[i + 1], '('))
                    i = cell_tokens_match(items, end, i + 1);
                break;
            }
            name_kind kind = meaning(t, at);
            if (i && items[i - 1].kind == TOKEN_NAME &&
                (items[i - 1].keyword == KEYWORD_STRUCT || items[i - 1].keyword == KEYWORD_ENUM))
                break;
            if (kind == NAME_ENUMERATOR || kind == NAME_TYPE) break;
            if (integer) return kind == NAME_UNKNOWN && end == first + 1;
            bool called = i + 1 < end && cell_token_punctuator(&items[i + 1], '(');
            bool after_and = before == '&' &&
                             (i < first + 2 || items[i - 2].kind == TOKEN_PUNCTUATOR) &&
                             (i < first + 2 || !strchr(")]", (int)(items[i - 2].punctuator & 127)));
            bool arrow = i + 1 < end && cell_token_punctuator(&items[i + 1], PUNCTUATOR('-', '>'));
            if (called || arrow || !is_address(t, at, after_and)) return false;
            break;
        }
        case KEYWORD_OTHER:
        case KEYWORD_ASM: return false;
        default: break;
        }
    }
    return true;
}
