#include "cell/uses.h"

#include "cell/map.h"
#include "cell/read.h"

#include <string.h>

enum { WALK_DEPTH = 150, FILTER = 1024 };

typedef struct local {
    const token *name;
    bool is_type, is_tag;
} local;

typedef struct walker {
    cell_arena *arena;
    const cell_oracle *outer;
    cell_oracle oracle; /* locals first, then outer */
    const token *items;
    struct {
        local *items;
        size_t count, capacity;
    } locals;
    uint16_t filter[FILTER]; /* how many locals have this hash: most lookups end here */
    cell_map seen[2];        /* reported already: names, tags */
    cell_use_list *out;
    int depth;
} walker;

static const local *find_local(const walker *w, const token *name, bool is_tag)
{
    if (!w->filter[name->hash % FILTER]) return NULL;
    for (size_t i = w->locals.count; i-- > 0;) {
        const local *l = &w->locals.items[i];
        if (l->is_tag == is_tag && l->name->hash == name->hash && cell_tokens_equal(l->name, name))
            return l;
    }
    return NULL;
}

static name_kind local_kind(void *context, const token *name)
{
    walker *w = context;
    const local *l = find_local(w, name, false);
    if (l) return l->is_type ? NAME_TYPE : NAME_VARIABLE;
    return w->outer->kind(w->outer->context, name);
}

static void add_local(walker *w, const token *name, bool is_type, bool is_tag)
{
    CELL_PUSH(w->arena, &w->locals, (local){name, is_type, is_tag});
    if (w->filter[name->hash % FILTER] < UINT16_MAX) w->filter[name->hash % FILTER]++;
}

static void leave_scope(walker *w, size_t mark)
{
    while (w->locals.count > mark) {
        const token *name = w->locals.items[--w->locals.count].name;
        if (w->filter[name->hash % FILTER] < UINT16_MAX) w->filter[name->hash % FILTER]--;
    }
}

static void report(walker *w, const token *name, bool is_tag)
{
    if (find_local(w, name, is_tag) || cell_map_get_token(&w->seen[is_tag], name)) return;
    cell_map_put(w->arena, &w->seen[is_tag], name->text, name->length, (void *)name);
    CELL_PUSH(w->arena, w->out, (cell_use){name, is_tag});
}

static void add_enumerator(void *context, const token *name)
{
    add_local(context, name, false, false);
}

static void walk(walker *w, size_t first, size_t end, bool statements);
static void walk_declaration(walker *w, const declaration *d, bool is_local, size_t limit);

static void walk_members(walker *w, size_t open, size_t close)
{
    for (size_t i = open + 1; i < close;) {
        if (w->items[i].kind == TOKEN_DIRECTIVE || cell_token_punctuator(&w->items[i], ';')) {
            i++;
            continue;
        }
        declaration d;
        cell_declaration_parse(w->arena, &w->oracle, w->items, close, i, &d);
        size_t mark = w->locals.count;
        walk_declaration(w, &d, true, close);
        leave_scope(w, mark);
        i = d.end > i ? d.end : i + 1;
    }
}

static void walk_type(walker *w, const type_definition *type, bool is_local)
{
    bool is_enum = w->items[type->keyword].keyword == KEYWORD_ENUM;
    if (type->tag != CELL_NOWHERE) {
        if (type->open == CELL_NOWHERE)
            report(w, &w->items[type->tag], true);
        else
            add_local(w, &w->items[type->tag], false, true); /* it may point to itself */
    }
    if (type->open == CELL_NOWHERE) return;
    if (!is_enum) {
        walk_members(w, type->open, type->close);
        return;
    }
    size_t mark = w->locals.count;
    cell_enumerators(w->items, type->open, type->close, add_enumerator, w);
    walk(w, type->open + 1, type->close, false);
    if (!is_local) leave_scope(w, mark);
}

static void walk_parameters(walker *w, range list, bool keep_names)
{
    size_t count, mark = w->locals.count;
    range *parts = cell_parameters_split(w->arena, w->items, list, &count);
    for (size_t i = 0; i < count; i++) {
        declaration d;
        if (!cell_declaration_begins(&w->oracle, w->items, parts[i].end, parts[i].first)) {
            if (keep_names && w->items[parts[i].first].kind == TOKEN_NAME) /* old style */
                add_local(w, &w->items[parts[i].first], false, false);
            continue;
        }
        cell_declaration_parse(w->arena, &w->oracle, w->items, parts[i].end, parts[i].first, &d);
        walk_declaration(w, &d, true, parts[i].end);
    }
    if (!keep_names) leave_scope(w, mark);
}

static void walk_declarator(walker *w, const declarator *d)
{
    for (size_t i = 0; i < d->bracket_count; i++)
        walk(w, d->brackets[i].first, d->brackets[i].end, false);
    for (size_t i = d->whole.first; i < d->whole.end; i++) {
        const token *t = &w->items[i];
        if (t->kind != TOKEN_NAME && !cell_token_punctuator(t, '(')) continue;
        size_t after = cell_skip_attributes(w->items, d->whole.end, i);
        if (after > i || t->keyword == KEYWORD_ASM) { /* alias("f"), cleanup(f): report names */
            size_t until = after > i ? after : d->whole.end;
            for (size_t k = i + 1; k < until; k++)
                if (w->items[k].kind == TOKEN_NAME && w->items[k].keyword == KEYWORD_NONE)
                    report(w, &w->items[k], false);
            i = until - 1;
        } else if (cell_token_punctuator(t, '(') && i > d->name) {
            size_t close = cell_tokens_match(w->items, d->whole.end, i);
            walk_parameters(w, (range){i + 1, close}, false);
            i = close;
        }
    }
}

static void walk_declaration(walker *w, const declaration *d, bool is_local, size_t limit)
{
    if (++w->depth > WALK_DEPTH || d->is_assert || d->is_asm) {
        walk(w, d->specifiers.first, d->end < limit ? d->end : limit, false);
        w->depth--;
        return;
    }
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        if (i == d->type.keyword) {
            walk_type(w, &d->type, is_local);
            i = d->type.open != CELL_NOWHERE  ? d->type.close
                : d->type.tag != CELL_NOWHERE ? d->type.tag
                                              : i;
            continue;
        }
        const token *t = &w->items[i];
        if (t->kind == TOKEN_NAME && t->keyword == KEYWORD_NONE) report(w, t, false);
        if (cell_token_punctuator(t, '(')) {
            size_t close = cell_tokens_match(w->items, d->specifiers.end, i);
            walk(w, i + 1, close, false);
            i = close;
        }
    }
    for (size_t i = 0; i < d->declarator_count; i++) {
        const declarator *one = &d->declarators[i];
        walk_declarator(w, one);
        if (is_local) add_local(w, &w->items[one->name], d->is_typedef, false);
        if (one->initialiser.end > one->initialiser.first)
            walk(w, one->initialiser.first, one->initialiser.end, false);
    }
    if (d->is_definition) {
        size_t mark = w->locals.count;
        walk_parameters(w, d->declarators[0].parameters, true);
        for (size_t i = d->declarators[0].whole.end; i < d->body.first;) { /* old style */
            declaration old;
            cell_declaration_parse(w->arena, &w->oracle, w->items, d->body.first, i, &old);
            walk_declaration(w, &old, true, d->body.first);
            i = old.end > i ? old.end : i + 1;
        }
        walk(w, d->body.first, d->body.end, true);
        leave_scope(w, mark);
    }
    w->depth--;
}

static void report_pragma(walker *w, const token *directive)
{
    token_list names = {0};
    cell_tokens_read_line(w->arena, directive->text, directive->length, directive, &names);
    for (size_t i = 3; i < names.count; i++)
        if (names.items[i].kind == TOKEN_NAME && names.items[i].keyword == KEYWORD_NONE)
            report(w, &names.items[i], false);
}

typedef struct brace {
    size_t close, mark;
    bool is_head; /* not a brace but the head of if, for, while, switch */
} brace;

static void walk(walker *w, size_t first, size_t end, bool statements)
{
    struct {
        brace *items;
        size_t count, capacity;
    } open = {0};
    bool starts = statements, in_case = false;
    if (++w->depth > WALK_DEPTH) starts = false;
    for (size_t i = first; i < end; i++) {
        const token *t = &w->items[i];
        if (open.count && i == open.items[open.count - 1].close) {
            brace b = open.items[--open.count];
            if (!b.is_head) leave_scope(w, b.mark);
            starts = true;
            continue;
        }
        if (t->kind == TOKEN_DIRECTIVE) {
            if (cell_directive_is(t, "pragma")) report_pragma(w, t);
            continue;
        }
        uint32_t p = t->kind == TOKEN_PUNCTUATOR ? t->punctuator : 0;
        uint32_t before =
            i > first && w->items[i - 1].kind == TOKEN_PUNCTUATOR ? w->items[i - 1].punctuator : 0;
        if (starts && w->depth < WALK_DEPTH &&
            cell_declaration_begins(&w->oracle, w->items, end, i)) {
            declaration d;
            cell_declaration_parse(w->arena, &w->oracle, w->items, end, i, &d);
            walk_declaration(w, &d, true, end);
            if (d.end > i) {
                i = d.end - 1;
                continue;
            }
        }
        if (p == '{' && (starts || before == '(')) {
            size_t close = cell_tokens_match(w->items, end, i);
            CELL_PUSH(w->arena, &open, (brace){close, w->locals.count, false});
            starts = true;
            continue;
        }
        if (p == ';' || (p == ':' && in_case)) {
            starts = true;
            in_case = false;
            continue;
        }
        bool at_start = starts;
        starts = false;
        if (t->kind != TOKEN_NAME) continue;
        keyword k = t->keyword;
        if ((k == KEYWORD_FOR || k == KEYWORD_IF) && i + 1 < end &&
            cell_token_punctuator(&w->items[i + 1], '(')) {
            size_t close = cell_tokens_match(w->items, end, i + 1);
            CELL_PUSH(w->arena, &open, (brace){close, 0, true});
            starts = cell_token_is(t, "for");
            i++;
        } else if (k == KEYWORD_ELSE || k == KEYWORD_DO) {
            starts = true;
        } else if (k == KEYWORD_CASE || k == KEYWORD_DEFAULT) {
            in_case = true;
        } else if (k == KEYWORD_GOTO) {
            i++;
        } else if (k == KEYWORD_STRUCT || k == KEYWORD_ENUM) {
            if (i + 1 < end && w->items[i + 1].kind == TOKEN_NAME) report(w, &w->items[++i], true);
        } else if (k == KEYWORD_NONE && before != '.' && before != PUNCTUATOR('-', '>')) {
            if (at_start && i + 1 < end && cell_token_punctuator(&w->items[i + 1], ':')) {
                i++; /* a label */
                starts = true;
            } else {
                report(w, t, false);
            }
        }
    }
    w->depth--;
}

static void prepare(walker *w, cell_arena *arena, const cell_oracle *oracle, const token *items,
                    cell_use_list *out)
{
    memset(w, 0, sizeof *w);
    w->arena = arena;
    w->outer = oracle;
    w->oracle = (cell_oracle){.kind = local_kind, .context = w};
    w->items = items;
    w->out = out;
}

void cell_uses_of_declaration(cell_arena *arena, const cell_oracle *oracle, const token *items,
                              size_t count, const declaration *d, cell_use_list *out)
{
    walker w;
    prepare(&w, arena, oracle, items, out);
    walk_declaration(&w, d, false, count);
}

void cell_uses_of_statements(cell_arena *arena, const cell_oracle *oracle, const token *items,
                             size_t first, size_t end, cell_use_list *out)
{
    walker w;
    prepare(&w, arena, oracle, items, out);
    walk(&w, first, end, true);
}
