#include "cell/split.h"

#include <string.h>

typedef struct splitter {
    cell_arena *arena;
    const cell_oracle *outer;
    cell_oracle oracle;
    const token *items;
    size_t count;
    cell_map kinds; /* what the cell's own names are: (void *)(name_kind + 1) */
    cell_problem *problem;
} splitter;

static name_kind kind_of(void *context, const token *name)
{
    splitter *s = context;
    uintptr_t own = (uintptr_t)cell_map_get_token(&s->kinds, name);
    return own ? (name_kind)(own - 1) : s->outer->kind(s->outer->context, name);
}

static void learn(splitter *s, const token *name, name_kind kind)
{
    cell_map_put(s->arena, &s->kinds, name->text, name->length, (void *)(uintptr_t)(kind + 1));
}

static void learn_enumerator(void *context, const token *name)
{
    learn(context, name, NAME_ENUMERATOR);
}

static void learn_declaration(splitter *s, const declaration *d)
{
    if (d->type.keyword != CELL_NOWHERE && d->type.open != CELL_NOWHERE &&
        s->items[d->type.keyword].keyword == KEYWORD_ENUM)
        cell_enumerators(s->items, d->type.open, d->type.close, learn_enumerator, s);
    for (size_t i = 0; i < d->declarator_count; i++) {
        const declarator *one = &d->declarators[i];
        learn(s, &s->items[one->name],
              d->is_typedef      ? NAME_TYPE
              : one->is_function ? NAME_FUNCTION
                                 : NAME_VARIABLE);
    }
}

static bool is(const splitter *s, size_t at, uint32_t punctuator)
{
    return at < s->count && cell_token_punctuator(&s->items[at], punctuator);
}

static keyword keyword_at(const splitter *s, size_t at)
{
    return at < s->count && s->items[at].kind == TOKEN_NAME ? s->items[at].keyword : KEYWORD_NONE;
}

static size_t after_bracket(const splitter *s, size_t open)
{
    size_t close = cell_tokens_match(s->items, s->count, open);
    return close < s->count ? close + 1 : s->count;
}

static size_t skip_directives(const splitter *s, size_t at)
{
    while (at < s->count && s->items[at].kind == TOKEN_DIRECTIVE)
        at++;
    return at;
}

/* --- statements ----------------------------------------------------------------------------- */

typedef enum construct { IN_LOOP, IN_IF, IN_ELSE, IN_DO } construct;

typedef struct statement {
    size_t end;
    bool complete;   /* its last `;` or `}` is there */
    bool expression; /* nothing but an expression */
} statement;

static size_t skip_labels(const splitter *s, size_t at)
{
    for (;;) {
        at = skip_directives(s, at);
        keyword k = keyword_at(s, at);
        if (k == KEYWORD_CASE || k == KEYWORD_DEFAULT) {
            size_t questions = 0;
            for (at++; at < s->count && !is(s, at, ';') && !is(s, at, '{'); at++) {
                if (is(s, at, '(')) at = after_bracket(s, at) - 1;
                if (is(s, at, '?')) questions++;
                if (is(s, at, ':') && questions-- == 0) break;
            }
            at += is(s, at, ':');
        } else if (at < s->count && s->items[at].kind == TOKEN_NAME && k == KEYWORD_NONE &&
                   is(s, at + 1, ':')) {
            at = cell_skip_attributes(s->items, s->count, at + 2);
        } else {
            return at;
        }
    }
}

/* End of an expression statement: after its `;`, or where the text ends. */
static statement parse_expression(const splitter *s, size_t at)
{
    size_t first = at;
    while (at < s->count && !is(s, at, ';')) {
        if (is(s, at, '}') || is(s, at, ')') || is(s, at, ']')) {
            at += at == first;
            return (statement){.end = at, .complete = false, .expression = true};
        }
        at = is(s, at, '(') || is(s, at, '[') || is(s, at, '{') ? after_bracket(s, at) : at + 1;
    }
    bool ended = at < s->count;
    return (statement){.end = at + ended, .complete = ended, .expression = true};
}

static statement parse_statement(const splitter *s, size_t at)
{
    struct {
        construct *items;
        size_t count, capacity;
    } open = {0};
    for (;;) {
        size_t start = at;
        at = skip_labels(s, at);
        keyword k = keyword_at(s, at);
        statement now = {.complete = true};
        if (at >= s->count) { /* if (x) with nothing after it, a label at the end */
            return (statement){.end = s->count, .complete = false};
        } else if (is(s, at, '{')) {
            now.end = after_bracket(s, at);
        } else if (k == KEYWORD_IF || k == KEYWORD_FOR) {
            if (is(s, at + 1, '(')) {
                at = after_bracket(s, at + 1);
                CELL_PUSH(s->arena, &open, k == KEYWORD_IF ? IN_IF : IN_LOOP);
                continue;
            }
            now = parse_expression(s, at);
        } else if (k == KEYWORD_DO) {
            at++;
            CELL_PUSH(s->arena, &open, IN_DO);
            continue;
        } else {
            now = parse_expression(s, at);
            if (k != KEYWORD_NONE || start != at || open.count)
                now.expression = now.expression && !open.count && start == at &&
                                 (k == KEYWORD_NONE || k == KEYWORD_SIZEOF || k == KEYWORD_OTHER ||
                                  k == KEYWORD_EXTENSION);
        }
        /* One statement is read: close the constructs that end with it. */
        bool again = false;
        while (open.count && now.complete && !again) {
            construct top = open.items[open.count - 1];
            size_t next = skip_directives(s, now.end);
            if (top == IN_IF && keyword_at(s, next) == KEYWORD_ELSE) {
                open.items[open.count - 1] = IN_ELSE;
                at = next + 1;
                again = true;
            } else if (top == IN_DO) {
                open.count--;
                if (next < s->count && cell_token_is(&s->items[next], "while") &&
                    is(s, next + 1, '(')) {
                    size_t end = after_bracket(s, next + 1);
                    now.complete = is(s, end, ';');
                    now.end = end + now.complete;
                } else {
                    now.complete = next < s->count;
                }
            } else {
                open.count--;
            }
        }
        if (again) continue;
        if (open.count) now.expression = false;
        return now;
    }
}

/* --- items ---------------------------------------------------------------------------------- */

/* asm("...") without operands that holds a label or a directive of the assembler defines
 * symbols; any other asm is a statement. */
static bool is_file_scope_assembly(const splitter *s, size_t at)
{
    if (keyword_at(s, at) != KEYWORD_ASM || !is(s, at + 1, '(')) return false;
    size_t close = after_bracket(s, at + 1) - 1;
    bool defines = false;
    for (size_t i = at + 2; i < close; i++) {
        if (s->items[i].kind != TOKEN_STRING) return false;
        defines |= memchr(s->items[i].text, ':', s->items[i].length) != NULL ||
                   (s->items[i].length > 1 && s->items[i].text[1] == '.');
    }
    return defines;
}

static void note_jumps(const splitter *s, cell_item *item)
{
    for (size_t i = item->tokens.first; i < item->tokens.end; i++) {
        const token *t = &s->items[i];
        if (t->kind != TOKEN_NAME) continue;
        item->has_return |= t->keyword == KEYWORD_RETURN;
        if (t->keyword == KEYWORD_NONE && is(s, i + 1, ':') && !is(s, i - 1, '?') &&
            (i == item->tokens.first || is(s, i - 1, ';') || is(s, i - 1, '{') ||
             is(s, i - 1, '}') || is(s, i - 1, ':') || is(s, i - 1, ')')))
            item->has_label = true;
    }
}

static size_t take_declaration(splitter *s, size_t at, cell_item *item)
{
    item->kind = ITEM_DECLARATION;
    declaration *d = &item->declaration;
    cell_declaration_parse(s->arena, &s->oracle, s->items, s->count, at, d);
    if (!d->complete) {
        token last = s->items[d->end - 1];
        bool at_end = d->end >= s->count;
        last.column += last.flags & TOKEN_EXPANDED ? 0 : last.length;
        if (at_end) cell_problem_set(s->problem, &last, true, "expected ‘;’ at end of declaration");
    }
    return d->end;
}

void cell_split(cell_arena *arena, const cell_oracle *oracle, const token_list *stream,
                bool with_uses, cell_items *out, cell_problem *problem)
{
    splitter s = {.arena = arena,
                  .outer = oracle,
                  .items = stream->items,
                  .count = stream->count,
                  .problem = problem};
    s.oracle = (cell_oracle){.kind = kind_of, .context = &s};
    for (size_t at = 0; at < s.count;) {
        const token *t = &s.items[at];
        cell_item item = {.tokens.first = at};
        if (t->kind == TOKEN_DIRECTIVE) {
            item.kind = ITEM_DIRECTIVE;
            at++;
        } else if (is_file_scope_assembly(&s, at)) {
            item.kind = ITEM_ASSEMBLY;
            at = parse_expression(&s, at).end;
        } else if (cell_declaration_begins(&s.oracle, s.items, s.count, at)) {
            at = take_declaration(&s, at, &item);
        } else {
            statement st = parse_statement(&s, at);
            item.kind = ITEM_STATEMENT;
            if (!st.complete) {
                size_t end = st.end;
                while (end > at && s.items[end - 1].kind == TOKEN_DIRECTIVE)
                    end--; /* `x` and then #undef: the directive is its own item */
                if (st.expression && st.end >= s.count && end > at) {
                    item.kind = ITEM_VALUE;
                    st.end = end;
                } else if (st.end >= s.count) {
                    token last = s.items[s.count - 1];
                    last.column += last.length;
                    cell_problem_set(problem, &last, true,
                                     st.expression ? "expected ‘;’ at end of input"
                                                   : "expected a statement at end of input");
                }
            }
            at = st.end > at ? st.end : at + 1;
        }
        item.tokens.end = at < s.count ? at : s.count;
        if (item.kind == ITEM_STATEMENT || item.kind == ITEM_VALUE) note_jumps(&s, &item);
        if (with_uses && item.kind == ITEM_DECLARATION)
            cell_uses_of_declaration(arena, &s.oracle, s.items, s.count, &item.declaration,
                                     &item.uses);
        else if (with_uses && item.kind != ITEM_DIRECTIVE)
            cell_uses_of_statements(arena, &s.oracle, s.items, item.tokens.first, item.tokens.end,
                                    &item.uses);
        if (item.kind == ITEM_DECLARATION) learn_declaration(&s, &item.declaration);
        CELL_PUSH(arena, out, item);
    }
}
