#include "cell/declare.h"

typedef struct parser {
    cell_arena *arena;
    const cell_oracle *oracle;
    const token *items;
    size_t count;
} parser;

static bool is(const parser *p, size_t at, uint32_t punctuator)
{
    return at < p->count && cell_token_punctuator(&p->items[at], punctuator);
}

static keyword keyword_at(const parser *p, size_t at)
{
    return at < p->count && p->items[at].kind == TOKEN_NAME ? p->items[at].keyword : KEYWORD_NONE;
}

static bool is_plain_name(const parser *p, size_t at)
{
    return at < p->count && p->items[at].kind == TOKEN_NAME && p->items[at].keyword == KEYWORD_NONE;
}

static size_t after_bracket(const parser *p, size_t open)
{
    size_t close = cell_tokens_match(p->items, p->count, open);
    return close < p->count ? close + 1 : p->count;
}

static size_t skip_directives(const parser *p, size_t at)
{
    while (at < p->count && p->items[at].kind == TOKEN_DIRECTIVE)
        at++;
    return at;
}

size_t cell_skip_attributes(const token *items, size_t count, size_t at)
{
    parser p = {.items = items, .count = count};
    for (;;) {
        keyword k = keyword_at(&p, at);
        if ((k == KEYWORD_ATTRIBUTE || k == KEYWORD_ALIGNAS) && is(&p, at + 1, '('))
            at = after_bracket(&p, at + 1);
        else if (is(&p, at, '[') && is(&p, at + 1, '['))
            at = after_bracket(&p, at);
        else
            return at;
    }
}

static bool starts_specifier(keyword k)
{
    return k >= KEYWORD_TYPE && k <= KEYWORD_ASSERT && k != KEYWORD_EXTENSION;
}

/* Would `name ( ... )` at `at` be a definition without a type, as in `main() {`, or one with
 * old-style parameter declarations? */
static bool is_untyped_definition(const parser *p, size_t at)
{
    if (!is_plain_name(p, at) || !is(p, at + 1, '(')) return false;
    size_t after = after_bracket(p, at + 1);
    if (is(p, after, '{')) return true;
    if (after >= p->count || after == at + 3) return false;
    for (size_t i = at + 2; i + 1 < after; i++) /* only names and commas */
        if (!((i - at) % 2 ? is(p, i, ',') : is_plain_name(p, i))) return false;
    keyword k = keyword_at(p, after);
    if (k == KEYWORD_TYPE || k == KEYWORD_STRUCT || k == KEYWORD_ENUM || k == KEYWORD_CONST ||
        k == KEYWORD_REGISTER)
        return true;
    return is_plain_name(p, after) &&
           p->oracle->kind(p->oracle->context, &p->items[after]) == NAME_TYPE;
}

bool cell_declaration_begins(const cell_oracle *oracle, const token *items, size_t count, size_t at)
{
    parser p = {.oracle = oracle, .items = items, .count = count};
    while (keyword_at(&p, at) == KEYWORD_EXTENSION)
        at++;
    if (is(&p, at, '[') && is(&p, at + 1, '[')) at = cell_skip_attributes(items, count, at);
    if (at >= count) return false;
    keyword k = keyword_at(&p, at);
    if (k == KEYWORD_ATTRIBUTE) { /* __attribute__((fallthrough)); is a statement */
        size_t after = cell_skip_attributes(items, count, at);
        return !is(&p, after, ';');
    }
    if (starts_specifier(k)) return true;
    if (!is_plain_name(&p, at)) return false;
    if (is(&p, at + 1, ':')) return false; /* a label */
    name_kind kind = oracle->kind(oracle->context, &items[at]);
    keyword next = keyword_at(&p, at + 1);
    if (kind == NAME_TYPE) {
        if (is_plain_name(&p, at + 1) || is(&p, at + 1, '*') || is(&p, at + 1, '(')) return true;
        return starts_specifier(next) || is(&p, at + 1, ';');
    }
    if (is_untyped_definition(&p, at)) return true;
    if (kind != NAME_UNKNOWN) return false;
    /* An unknown name in a type's place: the compiler shall call it an unknown type. */
    if (is_plain_name(&p, at + 1) && items[at + 1].line == items[at].line)
        return is(&p, at + 2, ';') || is(&p, at + 2, '=') || is(&p, at + 2, '[') ||
               is(&p, at + 2, ',') || is(&p, at + 2, '(');
    return is(&p, at + 1, '*') && is_plain_name(&p, at + 2) &&
           (is(&p, at + 3, '=') || (is(&p, at + 3, '(') && is(&p, after_bracket(&p, at + 3), '{')));
}

/* --- specifiers ----------------------------------------------------------------------------- */

static size_t parse_tagged(const parser *p, size_t at, declaration *d)
{
    type_definition type = {
        .keyword = at, .tag = CELL_NOWHERE, .open = CELL_NOWHERE, .close = CELL_NOWHERE};
    at = cell_skip_attributes(p->items, p->count, at + 1);
    if (is_plain_name(p, at)) type.tag = at++;
    if (keyword_at(p, type.keyword) == KEYWORD_ENUM && is(p, at, ':')) { /* enum E : int */
        at++;
        while (at < p->count && (keyword_at(p, at) != KEYWORD_NONE || is_plain_name(p, at)))
            at++;
    }
    if (is(p, at, '{')) {
        type.open = at;
        at = after_bracket(p, at);
        type.close = at - 1;
        at = cell_skip_attributes(p->items, p->count, at);
    }
    d->type = type;
    return at;
}

static void note_storage(declaration *d, keyword k)
{
    switch (k) {
    case KEYWORD_TYPEDEF: d->is_typedef = true; break;
    case KEYWORD_EXTERN: d->is_extern = true; break;
    case KEYWORD_STATIC: d->is_static = true; break;
    case KEYWORD_INLINE: d->is_inline = true; break;
    case KEYWORD_THREAD: d->is_thread = true; break;
    default: break;
    }
}

/* Is the name at `at` the type, or already the declared name of an implicit int? */
static bool name_is_type(const parser *p, size_t at)
{
    if (p->oracle->kind(p->oracle->context, &p->items[at]) == NAME_TYPE) return true;
    size_t next = skip_directives(p, at + 1);
    return is_plain_name(p, next) || is(p, next, '*') || starts_specifier(keyword_at(p, next));
}

static size_t parse_specifiers(const parser *p, size_t at, declaration *d)
{
    bool has_type = false;
    d->specifiers.first = at;
    d->type.keyword = d->type.tag = d->type.open = d->type.close = CELL_NOWHERE;
    while (at < p->count) {
        at = skip_directives(p, at);
        keyword k = keyword_at(p, at);
        size_t after = cell_skip_attributes(p->items, p->count, at);
        if (after > at) {
            at = after;
        } else if (k == KEYWORD_STRUCT || k == KEYWORD_ENUM) {
            at = parse_tagged(p, at, d);
            has_type = true;
        } else if (k == KEYWORD_TYPEOF || (k == KEYWORD_ATOMIC && is(p, at + 1, '('))) {
            d->has_typeof |= k == KEYWORD_TYPEOF;
            at = is(p, at + 1, '(') ? after_bracket(p, at + 1) : at + 1;
            has_type = true;
        } else if (k == KEYWORD_TYPE || k == KEYWORD_AUTO_TYPE) {
            d->is_auto_type |= k == KEYWORD_AUTO_TYPE;
            has_type = true;
            at++;
        } else if (k >= KEYWORD_QUALIFIER && k <= KEYWORD_THREAD) {
            note_storage(d, k);
            at++;
        } else if (k == KEYWORD_NONE && !has_type && is_plain_name(p, at) && name_is_type(p, at)) {
            has_type = true;
            at++;
        } else {
            break;
        }
    }
    d->specifiers.end = at;
    return at;
}

/* --- declarators ---------------------------------------------------------------------------- */

/* The bounds of every [ ] in the declarator that are not inside a parameter list. A '(' opens a
 * parameter list unless it groups a declarator (it comes before the name). */
static void find_brackets(const parser *p, declarator *d, size_t end)
{
    struct {
        range *items;
        size_t count, capacity;
    } list = {0};
    for (size_t i = d->whole.first; i < end; i++) {
        if (is(p, i, '(') && i > d->name) {
            i = after_bracket(p, i) - 1;
        } else if (keyword_at(p, i) == KEYWORD_ATTRIBUTE || keyword_at(p, i) == KEYWORD_ASM) {
            if (is(p, i + 1, '(')) i = after_bracket(p, i + 1) - 1;
        } else if (is(p, i, '[') && i > d->name) {
            size_t close = after_bracket(p, i) - 1;
            CELL_PUSH(p->arena, &list, (range){i + 1, close});
            i = close;
        }
    }
    d->brackets = list.items;
    d->bracket_count = list.count;
}

/* What is the name itself? Look at what follows it, then at the stars before it, innermost
 * parentheses first. */
static void find_nature(const parser *p, declarator *d)
{
    size_t left = d->name, right = d->name + 1;
    d->object_star = CELL_NOWHERE;
    for (;;) {
        if (is(p, right, '(')) {
            if (!d->is_array) {
                d->is_function = true;
                d->parameters = (range){right + 1, after_bracket(p, right) - 1};
            }
            return;
        }
        while (is(p, right, '[')) {
            size_t after = after_bracket(p, right);
            if (!d->is_array) d->unsized = after == right + 2;
            d->is_array = true;
            right = after;
        }
        for (; left > d->whole.first && !is(p, left - 1, '('); left--) {
            if (!is(p, left - 1, '*')) continue;
            d->object_star = left - 1;
            d->is_pointer = true;
            return;
        }
        if (left == d->whole.first || !is(p, right, ')')) return;
        left--;
        right++;
    }
}

static size_t parse_declarator(const parser *p, size_t at, declarator *d)
{
    *d = (declarator){.whole.first = at, .name = CELL_NOWHERE, .object_star = CELL_NOWHERE};
    size_t depth = 0;
    for (; at < p->count; at++) { /* to the name */
        size_t after = cell_skip_attributes(p->items, p->count, at);
        if (after > at) {
            at = after - 1;
            continue;
        }
        keyword k = keyword_at(p, at);
        if (is_plain_name(p, at)) {
            d->name = at++;
            break;
        }
        if (is(p, at, '('))
            depth++;
        else if (!is(p, at, '*') && k != KEYWORD_CONST && k != KEYWORD_QUALIFIER &&
                 k != KEYWORD_ATOMIC)
            break;
    }
    while (at < p->count) { /* suffixes, closing parentheses */
        if (is(p, at, '(') || is(p, at, '['))
            at = after_bracket(p, at);
        else if (is(p, at, ')') && depth)
            depth--, at++;
        else
            break;
    }
    size_t suffix_end = at;
    for (;;) { /* asm label, attributes */
        size_t after = cell_skip_attributes(p->items, p->count, at);
        if (keyword_at(p, at) == KEYWORD_ASM && is(p, at + 1, '('))
            at = after_bracket(p, at + 1);
        else if (after > at)
            at = after;
        else
            break;
    }
    d->whole.end = at;
    if (d->name != CELL_NOWHERE) {
        find_nature(p, d);
        find_brackets(p, d, suffix_end);
    }
    return at;
}

static size_t skip_initialiser(const parser *p, size_t at)
{
    while (at < p->count && !is(p, at, ',') && !is(p, at, ';')) {
        if (is(p, at, ')') || is(p, at, ']') || is(p, at, '}')) break;
        at = is(p, at, '(') || is(p, at, '[') || is(p, at, '{') ? after_bracket(p, at) : at + 1;
    }
    return at;
}

/* The body's brace of a definition whose first declarator ends at `at`, or CELL_NOWHERE. Between
 * them old-style parameter declarations may stand. */
static size_t find_body(const parser *p, size_t at, const declarator *d)
{
    if (!d->is_function) return CELL_NOWHERE;
    at = skip_directives(p, at);
    if (is(p, at, '{')) return at;
    if (is(p, at, ';') || is(p, at, ',') || is(p, at, '=') || at >= p->count) return CELL_NOWHERE;
    bool is_list = d->parameters.end > d->parameters.first;
    for (size_t i = d->parameters.first; i < d->parameters.end; i++)
        is_list &= is_plain_name(p, i) || is(p, i, ',');
    if (!is_list || !(is_plain_name(p, at) || starts_specifier(keyword_at(p, at))))
        return CELL_NOWHERE;
    for (; at < p->count; at++) {
        if (is(p, at, '{')) {
            keyword before = keyword_at(p, at - 1), tag = keyword_at(p, at - 2);
            if (before != KEYWORD_STRUCT && tag != KEYWORD_STRUCT && before != KEYWORD_ENUM)
                return at;
            at = after_bracket(p, at) - 1;
        } else if (is(p, at, '(') || is(p, at, '[')) {
            at = after_bracket(p, at) - 1;
        } else if (is(p, at, '}') || is(p, at, '=')) {
            break;
        }
    }
    return CELL_NOWHERE;
}

void cell_declaration_parse(cell_arena *arena, const cell_oracle *oracle, const token *items,
                            size_t count, size_t at, declaration *out)
{
    parser p = {.arena = arena, .oracle = oracle, .items = items, .count = count};
    struct {
        declarator *items;
        size_t count, capacity;
    } list = {0};
    *out = (declaration){.complete = true};
    keyword first = keyword_at(&p, at);
    if (first == KEYWORD_ASSERT || first == KEYWORD_ASM) {
        out->is_assert = first == KEYWORD_ASSERT;
        out->is_asm = first == KEYWORD_ASM;
        out->type.keyword = out->type.tag = out->type.open = CELL_NOWHERE;
        while (at < count && !is(&p, at, ';'))
            at = is(&p, at, '(') ? after_bracket(&p, at) : at + 1;
        out->complete = at < count;
        out->end = at < count ? at + 1 : count;
        return;
    }
    at = parse_specifiers(&p, at, out);
    while (at < count && !is(&p, at, ';')) {
        declarator d;
        size_t before = at;
        at = parse_declarator(&p, at, &d);
        if (!list.count) {
            size_t open = find_body(&p, at, &d);
            if (open != CELL_NOWHERE) {
                CELL_PUSH(arena, &list, d);
                out->is_definition = true;
                out->body = (range){open, after_bracket(&p, open)};
                out->end = out->body.end;
                out->complete = is(&p, out->end - 1, '}');
                out->declarators = list.items;
                out->declarator_count = list.count;
                return;
            }
        }
        at = skip_directives(&p, at);
        if (is(&p, at, '=')) {
            d.initialiser.first = at + 1;
            at = d.initialiser.end = skip_initialiser(&p, at + 1);
        }
        if (d.name != CELL_NOWHERE) CELL_PUSH(arena, &list, d);
        if (is(&p, at, ',')) {
            at++;
        } else if (!is(&p, at, ';')) {
            /* No C: go to the next semicolon, so that the rest can be read. */
            while (at < count && !is(&p, at, ';')) {
                if (is(&p, at, '}') || is(&p, at, ')') || is(&p, at, ']')) break;
                at = is(&p, at, '(') || is(&p, at, '[') || is(&p, at, '{') ? after_bracket(&p, at)
                                                                           : at + 1;
            }
            if (at < count && !is(&p, at, ';')) at = at > before ? at : at + 1;
            if (at < count && !is(&p, at, ';')) break;
        }
    }
    out->complete = is(&p, at, ';');
    out->end = at < count ? at + 1 : count;
    out->declarators = list.items;
    out->declarator_count = list.count;
}

void cell_enumerators(const token *items, size_t open, size_t close, cell_name_sink sink,
                      void *context)
{
    parser p = {.items = items, .count = close};
    bool expect = true;
    for (size_t i = open + 1; i < close; i++) {
        if (expect && is_plain_name(&p, i)) {
            sink(context, &items[i]);
            expect = false;
        } else if (is(&p, i, '(') || is(&p, i, '[') || is(&p, i, '{')) {
            i = after_bracket(&p, i) - 1;
        } else if (is(&p, i, ',')) {
            expect = true;
        }
    }
}

range *cell_parameters_split(cell_arena *arena, const token *items, range list, size_t *count)
{
    struct {
        range *items;
        size_t count, capacity;
    } parts = {0};
    parser p = {.items = items, .count = list.end};
    size_t start = list.first;
    for (size_t i = list.first; i <= list.end; i++) {
        if (i == list.end || is(&p, i, ',')) {
            if (i > start) CELL_PUSH(arena, &parts, (range){start, i});
            start = i + 1;
        } else if (is(&p, i, '(') || is(&p, i, '[') || is(&p, i, '{')) {
            i = after_bracket(&p, i) - 1;
        }
    }
    *count = parts.count;
    return parts.items;
}
