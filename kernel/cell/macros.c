#include "cell/macros.h"

#include <string.h>

enum { EXPANSION_DEPTH = 200, EXPANSION_TOKENS = 2000000 };

static macro *find_here(const macro_table *table, const char *name, size_t length, uint32_t hash)
{
    if (!table->bucket_count) return NULL;
    macro *m = table->buckets[hash & (table->bucket_count - 1)];
    for (; m; m = m->next)
        if (m->hash == hash && m->length == length && !memcmp(m->name, name, length)) return m;
    return NULL;
}

static void insert(macro_table *table, macro *m)
{
    if (table->count >= table->bucket_count) {
        size_t wider = table->bucket_count ? table->bucket_count * 2 : 64;
        macro **buckets = cell_arena_take(table->arena, wider * sizeof *buckets);
        for (size_t i = 0; i < table->bucket_count; i++) {
            /* Moved oldest first, so that the newest of a name stays in front. */
            macro *reversed = NULL;
            for (macro *at = table->buckets[i], *next; at; at = next)
                next = at->next, at->next = reversed, reversed = at;
            for (macro *at = reversed, *next; at; at = next) {
                next = at->next;
                macro **bucket = &buckets[at->hash & (wider - 1)];
                at->next = *bucket, *bucket = at;
            }
        }
        table->buckets = buckets;
        table->bucket_count = wider;
    }
    macro **bucket = &table->buckets[m->hash & (table->bucket_count - 1)];
    m->next = *bucket;
    *bucket = m;
    table->count++;
}

/* Names of the parameters; the variable part counts as one, `__VA_ARGS__` or as named. Returns
 * the index of the body's first token, 0 when the list does not end. */
static size_t read_parameters(cell_arena *arena, macro *m, const token_list *all)
{
    static const char rest[] = "__VA_ARGS__";
    size_t close = cell_tokens_match(all->items, all->count, 1);
    if (close == all->count) return 0;
    token *names = cell_arena_take(arena, close * sizeof *names);
    for (size_t i = 2; i < close; i++) {
        const token *t = &all->items[i];
        if (t->kind == TOKEN_NAME) names[m->parameter_count++] = *t;
        if (!cell_token_punctuator(t, PUNCTUATOR3('.', '.', '.'))) continue;
        m->variadic = true;
        if (all->items[i - 1].kind != TOKEN_NAME)
            names[m->parameter_count++] = (token){.kind = TOKEN_NAME,
                                                  .text = rest,
                                                  .length = sizeof rest - 1,
                                                  .hash = cell_hash(rest, sizeof rest - 1)};
    }
    m->parameters = names;
    return close + 1;
}

static macro *parse(cell_arena *arena, const char *text, size_t length)
{
    token_list all = {0};
    cell_tokens_read_line(arena, text, length, NULL, &all);
    if (!all.count || all.items[0].kind != TOKEN_NAME) return NULL;
    macro *m = cell_arena_take(arena, sizeof *m);
    m->name = all.items[0].text;
    m->length = all.items[0].length;
    m->hash = all.items[0].hash;
    m->text = cell_tokens_text(arena, all.items, all.count);
    size_t body = 1;
    if (all.count > 1 && cell_token_punctuator(&all.items[1], '(') &&
        !(all.items[1].flags & TOKEN_SPACE_BEFORE)) {
        body = read_parameters(arena, m, &all);
        if (!body) return NULL;
        m->function_like = true;
    }
    m->body.items = all.items + body;
    m->body.count = all.count - body;
    m->body_read = true;
    return m;
}

/* Only the name is read at once: headers define thousands of macros and few are ever used. */
static macro *parse_lazily(cell_arena *arena, const char *text, size_t length)
{
    size_t name = 0;
    while (name < length && (text[name] == ' ' || text[name] == '\t'))
        text++, length--;
    while (name < length &&
           (text[name] == '_' || text[name] == '$' || (unsigned char)text[name] >= 0x80 ||
            (text[name] >= '0' && text[name] <= '9') ||
            ((text[name] | 32) >= 'a' && (text[name] | 32) <= 'z')))
        name++;
    if (!name || (text[0] >= '0' && text[0] <= '9')) return NULL;
    macro *m = cell_arena_take(arena, sizeof *m);
    m->name = text;
    m->length = (uint32_t)name;
    m->hash = cell_hash(text, name);
    m->function_like = name < length && text[name] == '(';
    m->text = text;
    m->arena = arena;
    m->body.count = length; /* until it is read */
    return m;
}

/* The body lives as long as the macro: one of a header outlives the cell that asks first. */
static bool read_body(macro *m)
{
    if (m->body_read) return true;
    macro *whole = parse(m->arena, m->text, m->body.count);
    m->body_read = true;
    m->body = (token_list){0};
    if (!whole) return false;
    m->function_like = whole->function_like;
    m->variadic = whole->variadic;
    m->parameters = whole->parameters;
    m->parameter_count = whole->parameter_count;
    m->body = whole->body;
    m->text = whole->text;
    return true;
}

const token_list *cell_macro_body(macro *m)
{
    read_body(m);
    return &m->body;
}

bool cell_macro_define(macro_table *table, const char *text, size_t length)
{
    macro *m = parse_lazily(table->arena, cell_arena_copy(table->arena, text, length), length);
    if (m) insert(table, m);
    return m != NULL;
}

bool cell_macro_undefine(macro_table *table, const char *name, size_t length)
{
    macro *m = cell_arena_take(table->arena, sizeof *m);
    m->name = cell_arena_copy(table->arena, name, length);
    m->length = (uint32_t)length;
    m->hash = cell_hash(name, length);
    m->undefined = m->body_read = true;
    insert(table, m);
    return true;
}

macro *cell_macro_find(const macro_table *table, const token *name)
{
    for (; table; table = table->parent) {
        macro *m = find_here(table, name->text, name->length, name->hash);
        if (m) return m->undefined ? NULL : m;
        if (!table->lookup) continue;
        const char *text = table->lookup(table->lookup_context, name->text, name->length);
        if (!text) continue;
        if (!*text) return NULL;
        macro *found = parse_lazily(table->arena, text, strlen(text));
        if (found) insert((macro_table *)table, found); /* kept: a cache of the lookup */
        return found;
    }
    return NULL;
}

/* --- expansion ------------------------------------------------------------------------------ */

/* A frame of macros that are being replaced: their names are not replaced again inside. */
typedef struct active {
    const macro *m;
    const struct active *outer;
    int depth;
} active;

typedef struct expander {
    const macro_table *table;
    cell_arena *arena;
    size_t made; /* tokens so far: a bound on macros that grow without end */
} expander;

static bool is_active(const active *frames, const macro *m)
{
    for (; frames; frames = frames->outer)
        if (frames->m->length == m->length && !memcmp(frames->m->name, m->name, m->length))
            return true;
    return false;
}

static void expand(expander *e, const active *frames, const token *items, size_t count,
                   token_list *out);

/* The arguments between open and close: each a range. An empty list is one empty argument. */
typedef struct argument {
    const token *items;
    size_t count;
    token_list expanded;
    bool is_expanded;
} argument;

static argument *split_arguments(expander *e, const macro *m, const token *items, size_t open,
                                 size_t close)
{
    argument *arguments = cell_arena_take(e->arena, (m->parameter_count + 1) * sizeof *arguments);
    size_t n = 0, start = open + 1, depth = 0;
    for (size_t i = open + 1; i <= close; i++) {
        uint32_t p = items[i].kind == TOKEN_PUNCTUATOR ? items[i].punctuator : 0;
        bool rest = m->variadic && n + 1 >= m->parameter_count;
        if (i == close || (p == ',' && !depth && !rest)) {
            if (n < m->parameter_count)
                arguments[n] = (argument){.items = items + start, .count = i - start};
            n++;
            start = i + 1;
        } else if (p == '(' || p == '[' || p == '{') {
            depth++;
        } else if ((p == ')' || p == ']' || p == '}') && depth) {
            depth--;
        }
    }
    return arguments;
}

static size_t parameter_index(const macro *m, const token *t)
{
    if (t->kind != TOKEN_NAME) return SIZE_MAX;
    for (size_t i = 0; i < m->parameter_count; i++)
        if (m->parameters[i].hash == t->hash && cell_tokens_equal(&m->parameters[i], t)) return i;
    return SIZE_MAX;
}

static token stringize(expander *e, const argument *a, const token *at)
{
    const char *text = cell_tokens_text(e->arena, a->items, a->count);
    char *quoted = cell_arena_take(e->arena, 2 * strlen(text) + 3);
    size_t used = 0;
    quoted[used++] = '"';
    bool in_string = false;
    for (; *text; text++) {
        if (*text == '"') in_string = !in_string;
        if (*text == '"' || (*text == '\\' && in_string)) quoted[used++] = '\\';
        quoted[used++] = *text;
    }
    quoted[used++] = '"';
    token t = *at;
    t.kind = TOKEN_STRING;
    t.text = quoted;
    t.length = (uint32_t)used;
    return t;
}

/* a ## b: read again as one token (or as two, when they do not paste). */
static void paste(expander *e, token_list *out, const token *right)
{
    token *left = &out->items[out->count - 1];
    char *text = cell_arena_take(e->arena, left->length + right->length + 1);
    memcpy(text, left->text, left->length);
    memcpy(text + left->length, right->text, right->length);
    token at = *left;
    out->count--;
    size_t before = out->count;
    cell_tokens_read_line(e->arena, text, left->length + right->length, &at, out);
    for (size_t i = before; i < out->count; i++)
        out->items[i].flags = TOKEN_EXPANDED;
    if (out->count > before) out->items[before].flags |= at.flags & TOKEN_SPACE_BEFORE;
}

static void append(expander *e, token_list *out, const token *t, const token *at)
{
    /* Ten macros of ten times the one before are ten thousand million tokens. What is cut off here
     * is only not classified; the compiler reads the text itself and has limits of its own. */
    if (e->made > EXPANSION_TOKENS) return;
    token copy = *t;
    copy.line = at->line, copy.column = at->column;
    copy.offset = at->offset, copy.end = at->end, copy.source = at->source;
    copy.flags = (uint8_t)((t->flags & ~TOKEN_FIRST) | TOKEN_EXPANDED);
    e->made++;
    CELL_PUSH(e->arena, out, copy);
}

static void substitute(expander *e, const active *frames, macro *m, argument *arguments,
                       const token *at, token_list *out)
{
    const token_list *body = &m->body;
    bool pasting = false;
    for (size_t i = 0; i < body->count; i++) {
        const token *t = &body->items[i];
        bool paste_next =
            i + 1 < body->count && cell_token_punctuator(&body->items[i + 1], PUNCTUATOR('#', '#'));
        if (cell_token_punctuator(t, PUNCTUATOR('#', '#')) && i) {
            pasting = true;
            continue;
        }
        size_t before = out->count;
        size_t p = m->function_like ? parameter_index(m, t) : SIZE_MAX;
        if (m->function_like && cell_token_punctuator(t, '#') && i + 1 < body->count &&
            parameter_index(m, &body->items[i + 1]) != SIZE_MAX) {
            token string = stringize(e, &arguments[parameter_index(m, &body->items[++i])], at);
            append(e, out, &string, at);
        } else if (m->variadic && cell_token_is(t, "__VA_OPT__") && i + 1 < body->count) {
            size_t close = cell_tokens_match(body->items, body->count, i + 1);
            if (close < body->count && arguments && arguments[m->parameter_count - 1].count) {
                macro part = *m;
                part.body.items = body->items + i + 2;
                part.body.count = close - i - 2;
                substitute(e, frames, &part, arguments, at, out);
            }
            i = close;
        } else if (p == SIZE_MAX) {
            if (pasting && out->count && before) {
                paste(e, out, t);
                pasting = false;
                continue;
            }
            append(e, out, t, at);
        } else if (pasting || paste_next) {
            const argument *a = &arguments[p];
            size_t k = 0;
            /* GNU: `, ## __VA_ARGS__` drops the comma when nothing is passed. */
            if (pasting && out->count && cell_token_punctuator(&out->items[out->count - 1], ',') &&
                m->variadic && p == m->parameter_count - 1) {
                if (!a->count) out->count--;
            } else if (pasting && out->count && a->count) {
                paste(e, out, &a->items[k++]);
            }
            for (; k < a->count; k++)
                append(e, out, &a->items[k], at);
        } else {
            argument *a = &arguments[p];
            if (!a->is_expanded) {
                expand(e, frames, a->items, a->count, &a->expanded);
                a->is_expanded = true;
            }
            for (size_t k = 0; k < a->expanded.count; k++)
                append(e, out, &a->expanded.items[k], at);
        }
        if (out->count > before && (t->flags & TOKEN_SPACE_BEFORE))
            out->items[before].flags |= TOKEN_SPACE_BEFORE;
        pasting = false;
    }
}

/* Appends the whole replacement of the use at items[0]; 0: it is none. */
static size_t expand_use(expander *e, const active *frames, const token *items, size_t count,
                         token_list *out)
{
    const token *name = &items[0];
    if (name->kind != TOKEN_NAME || (name->flags & TOKEN_PAINTED)) return 0;
    macro *m = cell_macro_find(e->table, name);
    if (!m || e->made > EXPANSION_TOKENS || (frames && frames->depth > EXPANSION_DEPTH)) return 0;
    if (m->function_like && !(count > 1 && cell_token_punctuator(&items[1], '('))) return 0;
    if (is_active(frames, m) || !read_body(m)) return 0;
    size_t used = 1;
    argument *arguments = NULL;
    token at = *name;
    if (m->function_like) {
        size_t close = cell_tokens_match(items, count, 1);
        if (close == count) return 0;
        arguments = split_arguments(e, m, items, 1, close);
        used = close + 1;
        if (!(at.flags & TOKEN_EXPANDED)) at.end = items[close].end;
    }
    token_list replaced = {0};
    substitute(e, frames, m, arguments, &at, &replaced);
    active frame = {.m = m, .outer = frames, .depth = frames ? frames->depth + 1 : 0};
    for (size_t i = 0; i < replaced.count; i++) /* painted: a macro's own name stays a name */
        if (replaced.items[i].kind == TOKEN_NAME && replaced.items[i].length == m->length &&
            !memcmp(replaced.items[i].text, m->name, m->length))
            replaced.items[i].flags |= TOKEN_PAINTED;
    size_t before = out->count;
    expand(e, &frame, replaced.items, replaced.count, out);
    if (out->count > before) {
        out->items[before].flags &= (uint8_t)~TOKEN_SPACE_BEFORE;
        out->items[before].flags |= name->flags & (TOKEN_SPACE_BEFORE | TOKEN_FIRST);
    }
    return used;
}

static void expand(expander *e, const active *frames, const token *items, size_t count,
                   token_list *out)
{
    for (size_t i = 0; i < count;) {
        size_t before = out->count;
        size_t used = expand_use(e, frames, items + i, count - i, out);
        if (!used) {
            CELL_PUSH(e->arena, out, items[i]);
            i++;
            continue;
        }
        i += used;
        /* A replacement that ends in a function-like macro's name takes its arguments here. */
        if (i < count && out->count > before && cell_token_punctuator(&items[i], '(') &&
            out->items[out->count - 1].kind == TOKEN_NAME) {
            size_t close = cell_tokens_match(items + i, count - i, 0);
            if (close == count - i) continue;
            token_list again = {0};
            CELL_PUSH(e->arena, &again, out->items[out->count - 1]);
            for (size_t k = 0; k <= close; k++)
                CELL_PUSH(e->arena, &again, items[i + k]);
            token_list result = {0};
            active guard = {.m = &(macro){.name = "", .length = 0},
                            .outer = frames,
                            .depth = frames ? frames->depth + 1 : 0};
            if (!expand_use(e, &guard, again.items, again.count, &result)) continue;
            out->count--;
            for (size_t k = 0; k < result.count; k++)
                CELL_PUSH(e->arena, out, result.items[k]);
            i += close + 1;
        }
    }
}

void cell_macro_expand(const macro_table *table, cell_arena *arena, const token *items,
                       size_t count, token_list *out)
{
    expander e = {.table = table, .arena = arena};
    expand(&e, NULL, items, count, out);
}

size_t cell_macro_expand_one(const macro_table *table, cell_arena *arena, const token *items,
                             size_t count, token_list *out)
{
    expander e = {.table = table, .arena = arena};
    return count ? expand_use(&e, NULL, items, count, out) : 0;
}
