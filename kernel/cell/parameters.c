#include "cell/parameters.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_MAX = 8, TYPEDEF_DEPTH = 16 };

typedef enum base_kind { BASE_OTHER, BASE_BOOL, BASE_INTEGER, BASE_FLOAT, BASE_ENUM } base_kind;

typedef struct type {
    base_kind base;
    int bits;
    bool is_signed, is_char, is_const, is_unknown;
    int pointers;
    size_t rank, dimensions[RANK_MAX]; /* 0: unsized */
    bool has_odd_shape;                /* a function, a pointer to an array ... */
} type;

static void apply_declarator(cell_parameters *p, const token *items, const declarator *one,
                             type *out);
static void resolve(cell_parameters *p, const token *items, const declaration *d, int depth,
                    type *out);

static void resolve_typedef(cell_parameters *p, const token *name, int depth, type *out)
{
    cell_translator *t = p->translator;
    cell_entry *entry = cell_names_find(t->names, SPACE_ORDINARY, name->text, name->length);
    const header_name *known = cell_headers_find(t->headers, name);
    const char *text = entry && entry->kind == ENTRY_TYPEDEF ? entry->text
                       : known                               ? known->definition
                                                             : NULL;
    out->is_unknown = true;
    if (!text || depth > TYPEDEF_DEPTH) return;
    token_list tokens = {0};
    cell_oracle oracle;
    cell_translator_oracle(t, &oracle);
    const char *line =
        strncmp(text, "typedef", 7) ? cell_arena_printf(t->arena, "typedef %s;", text) : text;
    cell_tokens_read_line(t->arena, line, strlen(line), name, &tokens);
    declaration d;
    cell_declaration_parse(t->arena, &oracle, tokens.items, tokens.count, 0, &d);
    if (d.declarator_count != 1) return;
    out->is_unknown = false;
    resolve(p, tokens.items, &d, depth + 1, out);
    apply_declarator(p, tokens.items, &d.declarators[0], out);
}

/* The specifiers' own type. */
static void resolve(cell_parameters *p, const token *items, const declaration *d, int depth,
                    type *out)
{
    int longs = 0;
    bool is_unsigned = false, is_short = false, any = false;
    out->is_signed = true;
    out->base = BASE_INTEGER;
    out->bits = 32;
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        const token *t = &items[i];
        if (t->kind != TOKEN_NAME) {
            out->is_unknown = true; /* an attribute, _Atomic(...), typeof(...) */
            return;
        }
        switch ((keyword)t->keyword) {
        case KEYWORD_CONST: out->is_const = true; continue;
        case KEYWORD_TYPE: break;
        case KEYWORD_STRUCT: out->base = BASE_OTHER; return;
        case KEYWORD_ENUM: out->base = BASE_ENUM; return;
        case KEYWORD_NONE:
            if (!any) resolve_typedef(p, t, depth, out);
            return;
        case KEYWORD_TYPEOF:
        case KEYWORD_AUTO_TYPE:
        case KEYWORD_ATTRIBUTE: out->is_unknown = true; return;
        default: continue;
        }
        any = true;
        if (cell_token_is(t, "_Bool")) {
            out->base = BASE_BOOL;
        } else if (cell_token_is(t, "char")) {
            out->is_char = true;
            out->bits = 8;
        } else if (cell_token_is(t, "float") || cell_token_is(t, "double")) {
            out->base = BASE_FLOAT;
            out->bits = cell_token_is(t, "float") ? 32 : 64;
        } else if (cell_token_is(t, "unsigned")) {
            is_unsigned = true;
        } else if (cell_token_is(t, "short")) {
            is_short = true;
        } else if (cell_token_is(t, "long")) {
            longs++;
        } else if (cell_token_is(t, "void") || cell_token_is(t, "_Complex") ||
                   cell_token_is(t, "__complex__") || cell_token_is(t, "__int128")) {
            out->base = BASE_OTHER;
            return;
        } else if (!cell_token_is(t, "int") && !cell_token_is(t, "signed") &&
                   !cell_token_is(t, "__signed__")) {
            out->is_unknown = true;
        }
    }
    if (out->base != BASE_INTEGER) return;
    out->is_signed = !is_unsigned;
    if (is_short) out->bits = 16;
    if (longs) out->bits = 64;
}

static void apply_declarator(cell_parameters *p, const token *items, const declarator *one,
                             type *out)
{
    cell_translator *t = p->translator;
    int stars = 0;
    for (size_t i = one->whole.first; i < one->name; i++) {
        if (cell_token_punctuator(&items[i], '*')) stars++;
        if (cell_token_punctuator(&items[i], '(')) out->has_odd_shape = true;
        if (stars && items[i].kind == TOKEN_NAME && items[i].keyword == KEYWORD_CONST)
            out->is_const = true;
        else if (stars && cell_token_punctuator(&items[i], '*'))
            out->is_const = false; /* what it points to may be const, it may not */
    }
    out->pointers += stars;
    if (one->is_function) out->has_odd_shape = true;
    size_t outer = one->bracket_count;
    if (out->rank + outer > RANK_MAX || (outer && out->rank && stars)) {
        out->has_odd_shape = true;
        return;
    }
    memmove(out->dimensions + outer, out->dimensions, out->rank * sizeof *out->dimensions);
    for (size_t b = 0; b < outer; b++) {
        /* 0 stands for [] and for a bound that is not a plain number. */
        range r = one->brackets[b];
        token_list expanded = {0};
        cell_macro_expand(t->reading->macros, t->arena, items + r.first, r.end - r.first,
                          &expanded);
        out->dimensions[b] = 0;
        if (expanded.count == 1 && expanded.items[0].kind == TOKEN_NUMBER)
            out->dimensions[b] =
                strtoul(cell_arena_copy(t->arena, expanded.items[0].text, expanded.items[0].length),
                        NULL, 0);
    }
    out->rank += outer;
}

/* --- values --------------------------------------------------------------------------------- */

/* What the type takes, for the message. */
static const char *wanted(const type *t, char *buffer, size_t size)
{
    const char *one;
    char bounds[120];
    if (t->base == BASE_OTHER || t->is_unknown || t->has_odd_shape || t->pointers > 1 ||
        (t->pointers == 1 && !t->is_char))
        return "a parameter can be a truth value, a number, text, an enum or an array of these";
    if (t->pointers == 1 || (t->is_char && t->rank)) {
        one = "text";
    } else if (t->base == BASE_BOOL) {
        one = "true or false";
    } else if (t->base == BASE_FLOAT) {
        one = "a number";
    } else if (t->base == BASE_ENUM) {
        one = "the name of one of its constants";
    } else {
        if (t->is_signed)
            snprintf(bounds, sizeof bounds, "a whole number from %lld to %lld",
                     (long long)(-1 - (long long)((1ULL << (t->bits - 1)) - 1)),
                     (long long)((1ULL << (t->bits - 1)) - 1));
        else
            snprintf(bounds, sizeof bounds, "a whole number from 0 to %llu",
                     t->bits == 64 ? ~0ULL : (1ULL << t->bits) - 1);
        one = bounds;
    }
    size_t rank = t->rank - (t->is_char && !t->pointers && t->rank);
    if (rank && t->dimensions[0])
        snprintf(buffer, size, "give a list of %zu, each %s", t->dimensions[0], one);
    else if (rank)
        snprintf(buffer, size, "give a list, each %s", one);
    else if (t->is_char && t->rank && t->dimensions[t->rank - 1])
        snprintf(buffer, size, "give text of at most %zu bytes", t->dimensions[t->rank - 1] - 1);
    else
        snprintf(buffer, size, "give %s", one);
    return buffer;
}

static void refuse(cell_parameters *p, const char *name, const char *declared, const type *t,
                   const json_t *value)
{
    if (p->failed) return;
    p->failed = true;
    char buffer[300];
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *kind = json_is_string(value)    ? " (text)"
                       : json_is_boolean(value) ? " (a truth value)"
                       : json_is_array(value)   ? " (a list)"
                                                : "";
    snprintf(p->error, sizeof p->error,
             "parameter %.100s is declared as `%.120s`; the value %.120s%s "
             "does not fit: %s",
             name, declared, text ? text : "?", kind, wanted(t, buffer, sizeof buffer));
    free(text);
}

static char *quote(cell_arena *arena, const char *text, size_t length)
{
    char *out = cell_arena_take(arena, 4 * length + 3);
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 32 || c >= 127 || c == '"' || c == '\\' || c == '?') {
            out[used++] = '\\';
            out[used++] = (char)('0' + (c >> 6));
            out[used++] = (char)('0' + (c >> 3 & 7));
            out[used++] = (char)('0' + (c & 7));
        } else {
            out[used++] = (char)c;
        }
    }
    out[used++] = '"';
    return out;
}

static bool is_whole(const json_t *value, long long *number)
{
    if (json_is_integer(value)) {
        *number = json_integer_value(value);
        return true;
    }
    double real = json_is_real(value) ? json_real_value(value) : NAN;
    if (!(fabs(real) < 9007199254740992.0) || real != floor(real)) return false;
    *number = (long long)real;
    return true;
}

static bool enum_has(cell_parameters *p, const char *name)
{
    cell_translator *t = p->translator;
    cell_entry *entry = cell_names_find(t->names, SPACE_ORDINARY, name, strlen(name));
    if (entry) return entry->kind == ENTRY_ENUMERATOR;
    /* One that this cell declares is not in the session yet: look at the cell's enums. */
    for (size_t i = 0; i < t->items->count; i++) {
        const declaration *d = &t->items->items[i].declaration;
        if (t->items->items[i].kind != ITEM_DECLARATION || d->type.open == CELL_NOWHERE ||
            d->type.keyword == CELL_NOWHERE)
            continue;
        for (size_t k = d->type.open; k < d->type.close; k++)
            if (cell_token_is(&t->reading->stream.items[k], name)) return true;
    }
    return false;
}

/* One value that is no array, as C text; NULL: it does not fit. */
static const char *scalar(cell_parameters *p, const type *t, const json_t *value)
{
    cell_arena *arena = p->translator->arena;
    long long whole;
    if (t->pointers) {
        size_t length = json_is_string(value) ? json_string_length(value) : 0;
        if (!json_is_string(value) || memchr(json_string_value(value), 0, length)) return NULL;
        return quote(arena, json_string_value(value), length);
    }
    switch (t->base) {
    case BASE_BOOL: return json_is_boolean(value) ? json_is_true(value) ? "1" : "0" : NULL;
    case BASE_ENUM:
        if (json_is_string(value))
            return enum_has(p, json_string_value(value))
                       ? cell_arena_copy(arena, json_string_value(value), json_string_length(value))
                       : NULL;
        return is_whole(value, &whole) && whole == (int)whole
                   ? cell_arena_printf(arena, "(%lld)", whole)
                   : NULL;
    case BASE_FLOAT: {
        if (!json_is_number(value)) return NULL;
        double real = json_number_value(value);
        if (json_is_integer(value) && (double)json_integer_value(value) == real &&
            (long long)real != json_integer_value(value))
            return NULL;
        if (t->bits == 32 && fabs(real) > FLT_MAX) return NULL;
        char *text = cell_arena_printf(arena, "%.17g", real);
        return strpbrk(text, ".en") ? text : cell_arena_printf(arena, "%s.0", text);
    }
    case BASE_INTEGER:
        if (t->is_char && json_is_string(value) && json_string_length(value) == 1 &&
            (unsigned char)json_string_value(value)[0] < 128)
            return cell_arena_printf(arena, "%d", json_string_value(value)[0]);
        if (!is_whole(value, &whole)) return NULL;
        if (t->is_signed && t->bits < 64) {
            long long limit = 1LL << (t->bits - 1);
            if (whole < -limit || whole >= limit) return NULL;
        }
        if (!t->is_signed && (whole < 0 || (t->bits < 64 && whole >> t->bits))) return NULL;
        if (whole == INT64_MIN) return "(-9223372036854775807LL - 1)";
        return cell_arena_printf(arena, t->bits == 64 ? "%lldLL" : "%lld", whole);
    default: return NULL;
    }
}

/* The whole value as an initialiser; NULL: it does not fit. */
static const char *initialiser(cell_parameters *p, const type *t, size_t level, const json_t *value)
{
    cell_arena *arena = p->translator->arena;
    if (t->is_unknown || t->has_odd_shape || t->base == BASE_OTHER || t->pointers > 1) return NULL;
    if (t->pointers == 1 && !t->is_char) return NULL;
    if (level == t->rank) return scalar(p, t, value);
    size_t bound = t->dimensions[level];
    if (t->is_char && !t->pointers && level + 1 == t->rank && json_is_string(value)) {
        size_t length = json_string_length(value);
        if (memchr(json_string_value(value), 0, length) || (bound && length >= bound)) return NULL;
        return quote(arena, json_string_value(value), length);
    }
    size_t count = json_array_size(value);
    if (!json_is_array(value) || !count || (bound && count != bound)) return NULL;
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, "{");
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++) {
        const char *one = initialiser(p, t, level + 1, json_array_get(value, i));
        fits = one != NULL;
        if (fits) cadre_buffer_printf(&text, "%s%s", i ? ", " : "", one);
    }
    cadre_buffer_puts(&text, "}");
    if (!fits || text.failed) {
        cadre_buffer_free(&text);
        return NULL;
    }
    char *copy = cell_arena_copy(arena, text.data, text.length);
    cadre_buffer_free(&text);
    return copy;
}

static void note(cell_parameters *p, const char *name, const json_t *value)
{
    if (!p->now) p->now = json_object();
    if (json_object_get(p->now, name)) return;
    json_object_set(p->now, name, (json_t *)value);
    if (p->used) json_object_set_new(p->used, name, json_true());
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    cadre_buffer_printf(&p->notes, "%s%s = %s", p->notes.length ? ", " : "", name,
                        text ? text : "?");
    free(text);
}

/* More CPUs than the kernel has, or none at all, are refused by name. */
static void check_cpu_count(cell_parameters *p, const char *name, const json_t *value)
{
    if (strcmp(name, "cpu_count") || !json_is_integer(value) || p->failed) return;
    long long asked = json_integer_value(value);
    const char *text = getenv("CADRE_VCPUS");
    double available = text ? ceil(strtod(text, NULL)) : 0;
    if (asked < 1) {
        p->failed = true;
        snprintf(p->error, sizeof p->error, "parameter cpu_count is %lld: give 1 or more", asked);
    } else if (available >= 1 && (double)asked > available) {
        p->failed = true;
        snprintf(p->error, sizeof p->error,
                 "parameter cpu_count is %lld, but this kernel has %.0f vCPU%s: ask for at most "
                 "%.0f or choose a larger environment",
                 asked, available, available == 1 ? "" : "s", available);
    }
}

const char *cell_parameters_declared(void *context, const token *stream, const declaration *d,
                                     const declarator *one)
{
    cell_parameters *p = context;
    cell_arena *arena = p->translator->arena;
    const token *name = &stream[one->name];
    char *key = cell_arena_copy(arena, name->text, name->length);
    const json_t *value = p->given ? json_object_get(p->given, key) : NULL;
    if (!value || p->failed) return NULL;
    type t = {0};
    resolve(p, stream, d, 0, &t);
    apply_declarator(p, stream, one, &t);
    const char *text = initialiser(p, &t, 0, value);
    if (!text) {
        const char *declared = cell_arena_printf(
            arena, "%s %s",
            cell_tokens_text(arena, stream + d->specifiers.first,
                             d->specifiers.end - d->specifiers.first),
            cell_tokens_text(arena, stream + one->whole.first, one->whole.end - one->whole.first));
        refuse(p, key, declared, &t, value);
        return NULL;
    }
    check_cpu_count(p, key, value);
    if (p->failed) return NULL;
    note(p, key, value);
    return text;
}

/* --- variables of earlier cells ------------------------------------------------------------- */

static bool is_declared_here(const cell_parameters *p, const char *name)
{
    const cell_translator *t = p->translator;
    for (size_t i = 0; i < t->items->count; i++) {
        const cell_item *item = &t->items->items[i];
        if (item->kind != ITEM_DECLARATION || item->declaration.is_typedef) continue;
        for (size_t k = 0; k < item->declaration.declarator_count; k++) {
            const declarator *one = &item->declaration.declarators[k];
            if (cell_token_is(&t->reading->stream.items[one->name], name) &&
                (!item->declaration.is_extern || one->initialiser.end > one->initialiser.first))
                return true;
        }
    }
    return false;
}

static void assign(cell_parameters *p, const type *t, size_t level, const char *place,
                   const json_t *value, cadre_buffer *out)
{
    cell_arena *arena = p->translator->arena;
    if (level == t->rank) {
        cadre_buffer_printf(out, "%s = %s; ", place, scalar(p, t, value));
    } else if (json_is_string(value)) {
        cadre_buffer_printf(
            out, "__builtin_memset(%s, 0, sizeof %s); __builtin_memcpy(%s, %s, %zu); ", place,
            place, place, quote(arena, json_string_value(value), json_string_length(value)),
            json_string_length(value) + 1);
    } else {
        for (size_t i = 0; i < json_array_size(value); i++)
            assign(p, t, level + 1, cell_arena_printf(arena, "%s[%zu]", place, i),
                   json_array_get(value, i), out);
    }
}

void cell_parameters_assign(cell_parameters *p)
{
    cell_translator *tr = p->translator;
    cadre_buffer statements = {0};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)p->given, name, value)
    {
        cell_entry *entry = cell_names_find(tr->names, SPACE_ORDINARY, name, strlen(name));
        const json_t *last = p->applied ? json_object_get(p->applied, name) : NULL;
        if (!entry || entry->kind != ENTRY_VARIABLE || is_declared_here(p, name)) continue;
        if (last && json_equal(last, value)) continue;
        token_list tokens = {0};
        cell_oracle oracle;
        cell_translator_oracle(tr, &oracle);
        cell_tokens_read_line(tr->arena, entry->text, strlen(entry->text), NULL, &tokens);
        declaration d;
        cell_declaration_parse(tr->arena, &oracle, tokens.items, tokens.count, 0, &d);
        if (d.declarator_count != 1) continue;
        type t = {0};
        resolve(p, tokens.items, &d, 0, &t);
        apply_declarator(p, tokens.items, &d.declarators[0], &t);
        if (!initialiser(p, &t, 0, value)) {
            refuse(p, name, entry->shown, &t, value);
            break;
        }
        if (t.is_const) {
            p->failed = true;
            snprintf(p->error, sizeof p->error,
                     "parameter %.200s is const (In[%d]) and has its value already: run In[%d] "
                     "again with the new one",
                     name, entry->execution_count, entry->execution_count);
            break;
        }
        check_cpu_count(p, name, value);
        if (p->failed) break;
        assign(p, &t, 0, name, value, &statements);
        note(p, name, value);
        char *key = cell_arena_copy(tr->arena, name, strlen(name));
        cell_map_put(tr->arena, &tr->first_names, key, strlen(key), key);
    }
    if (statements.length)
        tr->first_statements = cell_arena_copy(tr->arena, statements.data, statements.length);
    cadre_buffer_free(&statements);
}
