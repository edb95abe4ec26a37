/* Writes the translation units of a planned cell. */
#include "cell/translate.h"

#include "cell/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name that is spelled as a macro inside this unit: an array with run-time bounds, or the old
 * meaning of a name that the cell defines anew further down. */
typedef struct alias {
    const char *name, *meaning;
    size_t item; /* from here on */
} alias;

typedef struct writer {
    cell_translator *t;
    size_t segment, first, end; /* items */
    cell_segment_text *out;
    emitter e;
    const token *items;           /* the stream */
    cell_map words;               /* names that the unit may use */
    cell_map before[SPACE_COUNT]; /* what they meant before this segment */
    struct {
        const char **items;
        size_t count, capacity;
    } queue;
    cell_entry_list needed;
    struct {
        alias *items;
        size_t count, capacity;
    } aliases;
    bool in_entry, knows_threads;
} writer;

/* --- earlier names -------------------------------------------------------------------------- */

static void want(writer *w, const char *name, size_t length)
{
    if (cell_map_get(&w->words, name, length)) return;
    char *copy = cell_arena_copy(w->t->arena, name, length);
    cell_map_put(w->t->arena, &w->words, copy, length, copy);
    CELL_PUSH(w->t->arena, &w->queue, copy);
}

static void want_directive(writer *w, const token *directive)
{
    token_list names = {0};
    cell_tokens_read_line(w->t->arena, directive->text, directive->length, directive, &names);
    for (size_t i = 2; i < names.count; i++)
        if (names.items[i].kind == TOKEN_NAME) want(w, names.items[i].text, names.items[i].length);
}

/* The entry that held before this segment's own. */
static cell_entry *earlier(const writer *w, int space, const char *name)
{
    return cell_map_get(&w->before[space], name, strlen(name));
}

static void need(writer *w, cell_entry *entry)
{
    if (entry->provider && entry->kind == ENTRY_ENUMERATOR) entry = entry->provider;
    if (entry->wanted == w->t->stamp) return;
    entry->wanted = w->t->stamp;
    CELL_PUSH(w->t->arena, &w->needed, entry);
    for (char **word = entry->words; word && *word; word++)
        want(w, *word, strlen(*word));
    if (entry->provider) need(w, entry->provider);
}

static int compare_order(const void *a, const void *b)
{
    const cell_entry *x = *(cell_entry *const *)a, *y = *(cell_entry *const *)b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void collect(writer *w)
{
    cell_translator *t = w->t;
    for (size_t i = w->first; i < w->end; i++) {
        const range r = t->plan[i].item->tokens;
        for (size_t k = r.first; k < r.end; k++) {
            const token *at = &w->items[k];
            if (at->kind == TOKEN_NAME && at->keyword == KEYWORD_NONE)
                want(w, at->text, at->length);
            if (at->kind == TOKEN_DIRECTIVE) want_directive(w, at);
        }
    }
    for (size_t i = 0; i < t->raw_names->bucket_count; i++)
        for (cell_map_entry *e = t->raw_names->buckets[i]; e; e = e->next)
            want(w, e->name, e->length);
    if (w->segment == 0)
        for (size_t i = 0; i < t->first_names.bucket_count; i++)
            for (cell_map_entry *e = t->first_names.buckets[i]; e; e = e->next)
                want(w, e->name, e->length);
    if (t->runs_main && w->segment + 1 == t->segment_count) want(w, "main", 4);
    for (size_t i = 0; i < w->queue.count; i++)
        for (int space = 0; space < SPACE_SYMBOL; space++) {
            const char *name = w->queue.items[i];
            cell_entry *entry = cell_names_find(t->names, space, name, strlen(name));
            if (!entry) continue;
            cell_map_put(t->arena, &w->before[space], name, strlen(name), entry);
            need(w, entry);
        }
}

/* Of what was there before, drops what this segment's own definitions replace or make stale. */
static void sift(writer *w)
{
    cell_translator *t = w->t;
    size_t kept = 0;
    t->names->round++;
    for (size_t i = 0; i < w->needed.count; i++) {
        cell_entry *entry = w->needed.items[i];
        cell_entry *now =
            cell_names_find(t->names, cell_entry_space(entry), entry->name, strlen(entry->name));
        bool is_object = entry->kind == ENTRY_VARIABLE || entry->kind == ENTRY_FUNCTION;
        if (now != entry && entry->kind != ENTRY_MACRO &&
            !(is_object && now && now->kind == entry->kind && !strcmp(now->text, entry->text)))
            continue;
        if (now != entry && entry->spelling && strchr(entry->spelling, '$')[1])
            continue; /* of an earlier segment, under a name of its own */
        if (cell_entry_is_stale(t->names, entry, NULL)) {
            CELL_PUSH(t->arena, &t->stale, entry);
            continue;
        }
        w->needed.items[kept++] = entry;
    }
    w->needed.count = kept;
    if (kept) qsort(w->needed.items, kept, sizeof *w->needed.items, compare_order);
}

static bool header_has(const writer *w, const char *name)
{
    return w->t->headers && cell_map_get(&w->t->headers->names, name, strlen(name));
}

/* A later header declares a name that the session has: the C name is another one, the symbol
 * stays. */
static bool collides(const writer *w, const cell_entry *entry)
{
    return !entry->spelling && entry->label_at && header_has(w, entry->name) &&
           (entry->is_defined || entry->kind == ENTRY_TYPEDEF);
}

/* struct or union, NULL for an enum; the text may begin with _Pragma. */
static const char *tag_keyword(const cell_entry *entry)
{
    const char *text = entry->text;
    if (!strncmp(text, "_Pragma", 7)) text = strchr(text, ')') + 2;
    while (*text == ' ' || *text == ')')
        text++;
    return !strncmp(text, "struct", 6) ? "struct" : !strncmp(text, "union", 5) ? "union" : NULL;
}

static void add_alias(writer *w, alias a)
{
    CELL_PUSH(w->t->arena, &w->aliases, a);
    cell_map_put(w->t->arena, &w->t->aliases, a.name, strlen(a.name), (void *)a.name);
    cell_emit_generated(&w->e, "#define %s %s\n", a.name, a.meaning);
}

/* What libgcc wants to know about a thread-local object. Each thread's copy is made when it is
 * first asked for, so no linker is needed and such cells are loaded like any other. */
static void declare_threads(writer *w)
{
    if (w->knows_threads) return;
    w->knows_threads = true;
    cell_emit_generated(&w->e, "struct cadre_thread { unsigned long size, align; void *index, "
                               "*initial; };\nvoid *__emutls_get_address(void *);\n");
}

static void write_session(writer *w)
{
    cell_translator *t = w->t;
    cell_segment_text *out = w->out;
    out->session = cell_arena_take(t->arena, (2 * w->needed.count + 4) * sizeof *out->session);
    for (size_t i = 0; i < w->needed.count; i++) {
        cell_entry *entry = w->needed.items[i];
        if (entry->spelling || collides(w, entry))
            cell_map_put(t->arena, &t->aliases, entry->name, strlen(entry->name), entry->name);
        if (entry->spelling)
            cell_emit_generated(&w->e, "#define %s %s\n", entry->name, entry->spelling);
        else if (entry->kind != ENTRY_MACRO && collides(w, entry))
            cell_emit_generated(&w->e, "#define %s %s$\n", entry->name, entry->name);
    }
    cadre_buffer_puts(&out->source, "#line 1 \"" CELL_FILE_SESSION "\"\n");
    w->e.in_place = true; /* in a file that no token is in: the next text names its own */
    w->e.line = UINT32_MAX;
    for (size_t i = 0; i < w->needed.count; i++)
        if (w->needed.items[i]->kind == ENTRY_TAG && tag_keyword(w->needed.items[i]))
            cadre_buffer_printf(&out->source, "%s %s; ", tag_keyword(w->needed.items[i]),
                                w->needed.items[i]->name);
    cadre_buffer_puts(&out->source, "\n");
    size_t line = 2;
    for (int macros = 0; macros < 2; macros++)
        for (size_t i = 0; i < w->needed.count; i++) {
            cell_entry *entry = w->needed.items[i];
            if ((entry->kind == ENTRY_MACRO) != macros || !entry->text[0]) continue;
            if (entry->place) continue;
            if (macros && !entry->is_hidden) {
                cadre_buffer_printf(&out->source, "#undef %s\n", entry->name);
                out->session[line++] = NULL;
            }
            if (collides(w, entry) && entry->kind != ENTRY_TYPEDEF)
                cadre_buffer_printf(&out->source, "%.*s __asm__(\"%s\")%s\n", (int)entry->label_at,
                                    entry->text, entry->name, entry->text + entry->label_at);
            else
                cadre_buffer_printf(&out->source, "%s\n", entry->text);
            out->session[line++] = entry;
        }
    out->session_count = line;
    for (size_t i = 0; i < w->needed.count; i++) {
        const cell_entry *entry = w->needed.items[i];
        if (!entry->place) continue;
        declare_threads(w);
        cell_emit_generated(&w->e, "extern struct cadre_thread %s$tls;\n", entry->name);
        add_alias(w, (alias){.name = entry->name, .meaning = entry->place, .item = w->first});
    }
}

/* --- pieces of declarations ----------------------------------------------------------------- */

typedef struct specifier_style {
    bool no_body, no_const, local;
    const char *tag;
} specifier_style;

static void emit(writer *w, size_t first, size_t end)
{
    if (end > first) cell_emit_tokens(&w->e, first, end);
}

static bool in_type(const declaration *d, size_t i)
{
    return d->type.keyword != CELL_NOWHERE && i >= d->type.keyword &&
           (d->type.open != CELL_NOWHERE ? i <= d->type.close : i == d->type.keyword);
}

/* always_inline and the like contradict late binding: a function that can be replaced is called. */
static bool forces_inlining(const writer *w, size_t first, size_t after)
{
    for (size_t i = first; i < after; i++) {
        const token *t = &w->items[i];
        if (t->kind != TOKEN_NAME) continue;
        if (cell_token_is(t, "always_inline") || cell_token_is(t, "__always_inline__") ||
            cell_token_is(t, "gnu_inline") || cell_token_is(t, "__gnu_inline__") ||
            cell_token_is(t, "artificial") || cell_token_is(t, "__artificial__"))
            return true;
    }
    return false;
}

/* The specifiers, without what file scope or a local must not repeat. */
static void emit_specifiers(writer *w, const declaration *d, specifier_style style)
{
    const type_definition *type = &d->type;
    size_t start = d->specifiers.first;
    bool any = false;
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        const token *t = &w->items[i];
        if (i == type->keyword && type->open != CELL_NOWHERE) {
            size_t tag_at = cell_skip_attributes(w->items, d->specifiers.end, i + 1);
            emit(w, start, type->tag == CELL_NOWHERE ? tag_at : type->tag + 1);
            if (type->tag == CELL_NOWHERE && style.tag) {
                cell_emit_words(&w->e, " ");
                cell_emit_words(&w->e, style.tag);
                cell_emit_words(&w->e, " ");
            }
            size_t after = cell_skip_attributes(w->items, d->specifiers.end, type->close + 1);
            if (!style.no_body) emit(w, type->open, after);
            i = after - 1;
            start = after;
            any = true;
            continue;
        }
        keyword k = t->kind == TOKEN_NAME ? (keyword)t->keyword : KEYWORD_NONE;
        bool drop = k == KEYWORD_STATIC || k == KEYWORD_INLINE || k == KEYWORD_REGISTER ||
                    (style.no_const && k == KEYWORD_CONST && !in_type(d, i)) ||
                    (style.local && (k == KEYWORD_EXTERN || k == KEYWORD_THREAD));
        if (drop) {
            emit(w, start, i);
            start = i + 1;
            continue;
        }
        size_t after = cell_skip_attributes(w->items, d->specifiers.end, i);
        if (after > i && forces_inlining(w, i, after)) {
            emit(w, start, i);
            start = after;
            i = after - 1;
            continue;
        }
        any = true;
        if (after > i) i = after - 1;
        if (cell_token_punctuator(t, '(')) i = cell_tokens_match(w->items, d->specifiers.end, i);
    }
    emit(w, start, d->specifiers.end);
    if (!any) cell_emit_words(&w->e, "int ");
}

/* The end of what matters to a local copy: no asm label, no attributes after the suffixes. */
static size_t plain_end(const writer *w, const declarator *one)
{
    for (size_t i = one->name; i < one->whole.end; i++) {
        keyword k = w->items[i].kind == TOKEN_NAME ? (keyword)w->items[i].keyword : KEYWORD_NONE;
        if (k == KEYWORD_ATTRIBUTE || k == KEYWORD_ASM) return i;
        if (cell_token_punctuator(&w->items[i], '('))
            i = cell_tokens_match(w->items, one->whole.end, i);
    }
    return one->whole.end;
}

/* The declarator with another name in its place; `no_const`: the object itself is not const. */
static void emit_declarator(writer *w, const declarator *one, const char *name, bool no_const,
                            size_t end)
{
    size_t start = one->whole.first;
    for (size_t i = start; i < end; i++) {
        bool is_const = w->items[i].kind == TOKEN_NAME && w->items[i].keyword == KEYWORD_CONST;
        bool drop = no_const && is_const && one->object_star != CELL_NOWHERE &&
                    i > one->object_star && i < one->name;
        size_t after = cell_skip_attributes(w->items, end, i);
        if (after > i && forces_inlining(w, i, after)) {
            emit(w, start, i);
            start = after;
            i = after - 1;
            continue;
        }
        if (!drop && !(i == one->name && name)) continue;
        emit(w, start, i);
        start = i + 1;
        if (drop) continue;
        cell_emit_words(&w->e, " ");
        cell_emit_words(&w->e, name);
    }
    emit(w, start, end);
}

/* --- variables ------------------------------------------------------------------------------ */

static const char *c_name(const writer *w, const declarator *one)
{
    const token *name = &w->items[one->name];
    return cell_arena_printf(w->t->arena, "%.*s", (int)name->length, name->text);
}

static const char *symbol_of(const writer *w, const planned_variable *v)
{
    return v->entry->spelling ? v->entry->spelling : c_name(w, v->declarator);
}

/* Specifiers and declarator as text, bounds replaced: for casts and sizeof. */
static const char *type_text(const writer *w, const declaration *d, const declarator *one,
                             const char *name, const char *bounds)
{
    cell_arena *arena = w->t->arena;
    token_list list = {0};
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        keyword k = w->items[i].kind == TOKEN_NAME ? (keyword)w->items[i].keyword : KEYWORD_NONE;
        if (k == KEYWORD_STATIC || k == KEYWORD_REGISTER || k == KEYWORD_EXTERN ||
            k == KEYWORD_INLINE || k == KEYWORD_THREAD)
            continue;
        if (d->type.open != CELL_NOWHERE && i >= d->type.open && i <= d->type.close) continue;
        CELL_PUSH(arena, &list, w->items[i]);
    }
    size_t end = plain_end(w, one);
    for (size_t i = one->whole.first; i < end; i++) {
        token t = w->items[i];
        size_t bracket = one->bracket_count;
        for (size_t b = 0; b < one->bracket_count; b++)
            if (i + 1 == one->brackets[b].first) bracket = b;
        if (bracket < one->bracket_count) {
            if (bounds && !*bounds) { /* as they are written */
                for (; i < one->brackets[bracket].end; i++)
                    CELL_PUSH(arena, &list, w->items[i]);
                i--;
                continue;
            }
            if (bounds) {
                CELL_PUSH(arena, &list, t);
                t.kind = TOKEN_NAME;
                t.text = cell_arena_printf(arena, "%s[%zu]", bounds, bracket);
                t.length = (uint32_t)strlen(t.text);
                CELL_PUSH(arena, &list, t);
            }
            i = one->brackets[bracket].end - (bounds ? 1 : 0);
            continue;
        }
        if (i == one->name) {
            if (!*name) continue;
            t.text = name;
            t.length = (uint32_t)strlen(name);
        }
        CELL_PUSH(arena, &list, t);
    }
    return cell_tokens_text(arena, list.items, list.count);
}

/* The initialiser's braces with nothing but zeros in them: as many elements, no code. */
static void emit_zeros(writer *w, const declaration *d, const declarator *one)
{
    size_t first = one->initialiser.first, end = one->initialiser.end, depth = 0;
    bool is_struct = d->type.keyword != CELL_NOWHERE && !one->is_pointer &&
                     w->items[d->type.keyword].keyword == KEYWORD_STRUCT;
    bool leaf = false;
    for (size_t i = first; i < end; i++) {
        const token *t = &w->items[i];
        uint32_t p = t->kind == TOKEN_PUNCTUATOR ? t->punctuator : 0;
        bool designator = !leaf && (p == '[' || p == '.');
        if (designator) {
            size_t stop = p == '[' ? cell_tokens_match(w->items, end, i) : i + 1;
            for (size_t k = i; k <= stop && k < end; k++) {
                cell_emit_words(&w->e, " ");
                cell_emit_words(&w->e, cell_tokens_text(w->t->arena, &w->items[k], 1));
            }
            i = stop;
            continue;
        }
        if (!leaf && p == '=') {
            cell_emit_words(&w->e, " =");
        } else if (!leaf && p == '{') {
            cell_emit_words(&w->e, "{");
            depth++;
        } else if (p == '}') {
            cell_emit_words(&w->e, "}");
            depth--;
            leaf = depth > 0;
        } else if (p == ',') {
            cell_emit_words(&w->e, ",");
            leaf = false;
        } else {
            if (!leaf) cell_emit_words(&w->e, is_struct && depth == 1 ? "{0}" : "0");
            leaf = true;
            if (p == '(' || p == '[' || p == '{') i = cell_tokens_match(w->items, end, i);
        }
    }
}

static void emit_array_storage(writer *w, const declaration *d, const planned_variable *v,
                               size_t item)
{
    const char *name = c_name(w, v->declarator);
    const char *bounds = cell_arena_printf(w->t->arena, "cadre_bounds_%s", name);
    cell_emit_generated(&w->e,
                        "static unsigned long cadre_bounds_%s[%zu]; static void *cadre_at_%s;\n",
                        name, v->declarator->bracket_count, name);
    alias a = {.name = name, .item = item};
    a.meaning = cell_arena_printf(w->t->arena, "(*(%s)cadre_at_%s)",
                                  type_text(w, d, v->declarator, "(*)", bounds), name);
    add_alias(w, a);
}

/* The value that each thread begins with, and the object that finds a thread's own. */
static void emit_thread(writer *w, const declaration *d, const planned_variable *v,
                        const planned_item *plan)
{
    const declarator *one = v->declarator;
    const char *name = c_name(w, one);
    char *place = NULL;
    declare_threads(w);
    cell_emit_generated(&w->e, "static ");
    emit_specifiers(w, d,
                    (specifier_style){.no_body = d->type.open != CELL_NOWHERE,
                                      .local = true,
                                      .no_const = !one->is_pointer,
                                      .tag = plan->tag});
    emit_declarator(w, one, cell_arena_printf(w->t->arena, "cadre_first_%s", name), true,
                    plain_end(w, one));
    if (v->override || (one->initialiser.end > one->initialiser.first && !v->at_run_time)) {
        cell_emit_words(&w->e, " = ");
        if (v->override)
            cell_emit_words(&w->e, v->override);
        else
            emit(w, one->initialiser.first, one->initialiser.end);
    }
    cell_emit_words(&w->e, ";");
    cell_emit_generated(&w->e,
                        "struct cadre_thread %s$tls = {sizeof cadre_first_%s, "
                        "__alignof__(cadre_first_%s), 0, &cadre_first_%s};\n",
                        name, name, name, name);
    if (asprintf(&place, "(*(%s)__emutls_get_address(&%s$tls))", type_text(w, d, one, "(*)", ""),
                 name) < 0)
        longjmp(w->t->arena->recover, 1);
    free(v->entry->place);
    v->entry->place = place;
    add_alias(w, (alias){.name = name, .meaning = place, .item = w->first});
}

static void emit_definition(writer *w, const declaration *d, const planned_variable *v,
                            const planned_item *plan)
{
    const declarator *one = v->declarator;
    size_t item = (size_t)(plan - w->t->plan);
    if (v->is_variable_length) {
        emit_array_storage(w, d, v, item);
        return;
    }
    if (v->is_thread) {
        emit_thread(w, d, v, plan);
        return;
    }
    bool initialise = one->initialiser.end > one->initialiser.first;
    bool writable = v->at_run_time;
    if (d->is_auto_type) {
        cell_emit_words(&w->e, "__typeof__(((void)0, (");
        emit(w, one->initialiser.first, one->initialiser.end);
        cell_emit_words(&w->e, ")))");
    } else {
        emit_specifiers(w, d,
                        (specifier_style){.no_body = d->type.open != CELL_NOWHERE,
                                          .no_const = writable && !one->is_pointer,
                                          .tag = plan->tag});
    }
    emit_declarator(w, one, NULL, writable, one->whole.end);
    if (one->unsized && v->at_run_time && initialise) {
        cell_emit_words(&w->e, " = ");
        emit_zeros(w, d, one);
    } else if (v->override) {
        cell_emit_words(&w->e, " = ");
        cell_emit_words(&w->e, v->override);
    } else if (initialise && !v->at_run_time) {
        cell_emit_words(&w->e, " = ");
        emit(w, one->initialiser.first, one->initialiser.end);
    }
    cell_emit_words(&w->e, ";");
}

/* Where the entry function passes a declaration: storage with run-time bounds, values. */
static void emit_initialisation(writer *w, const declaration *d, const planned_variable *v,
                                const char *tag)
{
    const declarator *one = v->declarator;
    const char *name = c_name(w, one);
    bool initialise = one->initialiser.end > one->initialiser.first;
    if (v->is_variable_length) {
        cell_emit_words(&w->e, "{ ");
        for (size_t i = 0; i < one->bracket_count; i++) {
            cell_emit_words(&w->e,
                            cell_arena_printf(w->t->arena,
                                              " cadre_bounds_%s[%zu] = (unsigned long)(", name, i));
            emit(w, one->brackets[i].first, one->brackets[i].end);
            cell_emit_words(&w->e, ");");
        }
        cadre_buffer fresh = {0};
        cell_entry *before = earlier(w, SPACE_ORDINARY, name);
        if (!before || !before->is_defined) {
            cadre_buffer_puts(&fresh, "0");
        } else if (before->is_runtime && !strcmp(before->shown, v->entry->shown) &&
                   before->dimension_count == one->bracket_count) {
            cadre_buffer_puts(&fresh, "!(1");
            for (size_t i = 0; i < one->bracket_count; i++)
                cadre_buffer_printf(&fresh, " && cadre_bounds_%s[%zu] == %zuul", name, i,
                                    before->dimensions[i]);
            cadre_buffer_puts(&fresh, ")");
        } else {
            cadre_buffer_puts(&fresh, "1");
        }
        cell_emit_words(
            &w->e,
            cell_arena_printf(
                w->t->arena,
                " cadre_at_%s = cadre_hook_array(\"%s\", %s, sizeof(%s), %zu, cadre_bounds_%s); ",
                name, symbol_of(w, v), fresh.data ? fresh.data : "1",
                one->is_array ? type_text(w, d, one, "", NULL) : "void *", one->bracket_count,
                name));
        cadre_buffer_free(&fresh);
        cell_emit_words(&w->e, "} ");
        if (initialise) {
            cell_emit_words(&w->e, cell_arena_printf(w->t->arena, "%s = (", name));
            emit(w, one->initialiser.first, one->initialiser.end);
            cell_emit_words(&w->e, ");");
        }
        return;
    }
    if (!initialise && !v->override) {
        cell_emit_generated(&w->e, "__builtin_memset((void *)&%s, 0, sizeof %s);\n", name, name);
        return;
    }
    cell_emit_words(&w->e, "{ ");
    if (d->is_auto_type)
        cell_emit_words(&w->e, "__auto_type");
    else
        emit_specifiers(
            w, d,
            (specifier_style){.no_body = d->type.open != CELL_NOWHERE, .local = true, .tag = tag});
    emit_declarator(w, one, "cadre_initial", false, plain_end(w, one));
    cell_emit_words(&w->e, " = ");
    if (v->override)
        cell_emit_words(&w->e, v->override);
    else
        emit(w, one->initialiser.first, one->initialiser.end);
    cell_emit_words(&w->e,
                    cell_arena_printf(w->t->arena,
                                      "; __builtin_memcpy((void *)&%s, (void *)&cadre_initial,"
                                      " sizeof cadre_initial); }",
                                      name));
}

/* --- aliases -------------------------------------------------------------------------------- */

static bool uses_name(const cell_item *item, const char *name)
{
    for (size_t i = 0; i < item->uses.count; i++)
        if (!item->uses.items[i].is_tag && cell_token_is(item->uses.items[i].name, name))
            return true;
    return false;
}

/* Emits tokens in which an alias's name may also be a member's or a local's: there the macro
 * must be away. */
static void emit_aliased(writer *w, size_t index, size_t first, size_t end)
{
    const cell_item *item = w->t->plan[index].item;
    struct {
        const alias **items;
        size_t count, capacity;
    } hidden = {0};
    size_t start = first;
    for (size_t k = 0; k < w->aliases.count; k++) {
        const alias *a = &w->aliases.items[k];
        if (a->item > index) continue;
        bool present = false;
        for (size_t i = first; i < end && !present; i++)
            present = w->items[i].kind == TOKEN_NAME && cell_token_is(&w->items[i], a->name);
        if (present && !uses_name(item, a->name)) {
            cell_emit_generated(&w->e, "#undef %s\n", a->name);
            CELL_PUSH(w->t->arena, &hidden, a);
        }
    }
    for (size_t i = first + 1; i < end && w->aliases.count; i++) {
        const token *t = &w->items[i], *before = &w->items[i - 1];
        if (t->kind != TOKEN_NAME || (t->flags & TOKEN_EXPANDED) ||
            !(cell_token_punctuator(before, '.') ||
              cell_token_punctuator(before, PUNCTUATOR('-', '>'))))
            continue;
        for (size_t k = 0; k < w->aliases.count; k++) {
            const alias *a = &w->aliases.items[k];
            if (a->item > index || !cell_token_is(t, a->name) || !uses_name(item, a->name))
                continue;
            emit(w, start, i);
            cell_emit_generated(&w->e, "#undef %s\n", a->name);
            emit(w, i, i + 1);
            cell_emit_generated(&w->e, "#define %s %s\n", a->name, a->meaning);
            start = i + 1;
        }
    }
    emit(w, start, end);
    for (size_t k = 0; k < hidden.count; k++)
        cell_emit_generated(&w->e, "#define %s %s\n", hidden.items[k]->name,
                            hidden.items[k]->meaning);
}

/* --- items ---------------------------------------------------------------------------------- */

bool cell_is_statement_pragma(const token *directive)
{
    if (!cell_directive_is(directive, "pragma")) return false;
    const char *name, *rest;
    size_t name_length, length;
    cell_directive_split(directive, &name, &name_length, &rest, &length);
    char text[64] = "";
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1),
             rest);
    if (!strncmp(text, "omp ", 4))
        return strncmp(text + 4, "declare", 7) && strncmp(text + 4, "threadprivate", 13) &&
               strncmp(text + 4, "requires", 8) && strncmp(text + 4, "end declare", 11);
    return !strncmp(text, "acc ", 4) || !strncmp(text, "GCC ivdep", 9) ||
           !strncmp(text, "GCC unroll", 10) || !strncmp(text, "GCC novector", 12);
}

/* Pragmas that count on both sides of the cut between file scope and the entry function. */
static bool is_both_ways(const token *directive)
{
    return strstr(directive->text, "diagnostic") || strstr(directive->text, "_macro");
}

static bool is_macro_directive(const token *t)
{
    return cell_directive_is(t, "define") || cell_directive_is(t, "undef");
}

static const char *macro_name(const writer *w, const token *directive)
{
    const char *name, *rest;
    size_t name_length, length;
    cell_directive_split(directive, &name, &name_length, &rest, &length);
    token_list tokens = {0};
    cell_tokens_read_line(w->t->arena, rest, length, directive, &tokens);
    if (!tokens.count || tokens.items[0].kind != TOKEN_NAME) return NULL;
    return cell_arena_copy(w->t->arena, tokens.items[0].text, tokens.items[0].length);
}

static void emit_macro(writer *w, const token *directive)
{
    const char *name = macro_name(w, directive);
    if (name && cell_directive_is(directive, "define"))
        cell_emit_generated(&w->e, "#undef %s\n", name);
    cell_emit_directive(&w->e, directive);
}

static void emit_directive(writer *w, const token *t)
{
    if (is_macro_directive(t))
        emit_macro(w, t);
    else if (cell_directive_is(t, "pragma")) {
        if (is_both_ways(t) || cell_is_statement_pragma(t) == w->in_entry)
            cell_emit_directive(&w->e, t);
    } else if (!w->in_entry)
        cell_emit_directive(&w->e, t);
}

/* May the declaration be handed on as it was written? */
static bool is_verbatim(const writer *w, const planned_item *plan)
{
    const declaration *d = &plan->item->declaration;
    if (d->is_assert || d->is_typedef) return !plan->drop_type && !plan->tag;
    if (plan->drop_type || plan->tag || d->is_auto_type || d->is_static || d->is_inline)
        return false;
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++)
        if (w->items[i].kind == TOKEN_NAME && w->items[i].keyword == KEYWORD_REGISTER) return false;
    if (d->declarator_count && d->declarators[0].is_function &&
        forces_inlining(w, d->specifiers.first,
                        d->is_definition ? d->body.first : plan->item->tokens.end))
        return false;
    for (size_t i = 0; i < d->declarator_count; i++)
        if (plan->variables[i].at_run_time || plan->variables[i].override ||
            plan->variables[i].is_thread)
            return false;
    return true;
}

static void emit_declaration(writer *w, size_t index)
{
    const planned_item *plan = &w->t->plan[index];
    const declaration *d = &plan->item->declaration;
    range whole = plan->item->tokens;
    bool typedefs_identical = d->is_typedef && d->declarator_count > 0;
    for (size_t i = 0; i < d->declarator_count; i++)
        typedefs_identical &= plan->variables[i].entry == NULL;
    if (d->is_typedef && typedefs_identical && (plan->drop_type || !plan->entries.count)) return;
    if (is_verbatim(w, plan)) {
        emit_aliased(w, index, whole.first, whole.end);
        return;
    }
    if (d->is_definition) {
        emit_specifiers(w, d, (specifier_style){.no_body = plan->drop_type, .tag = plan->tag});
        emit_aliased(w, index, d->specifiers.end, whole.end);
        return;
    }
    if (d->type.open != CELL_NOWHERE && !plan->drop_type) {
        emit(w, d->type.keyword, d->type.tag == CELL_NOWHERE ? d->type.open : d->type.tag + 1);
        if (plan->tag) cell_emit_words(&w->e, cell_arena_printf(w->t->arena, " %s ", plan->tag));
        emit(w, d->type.open, cell_skip_attributes(w->items, d->specifiers.end, d->type.close + 1));
        cell_emit_words(&w->e, ";");
    }
    for (size_t i = 0; i < d->declarator_count; i++) {
        const planned_variable *v = &plan->variables[i];
        if (v->is_definition && !v->declarator->is_function) {
            emit_definition(w, d, v, plan);
            continue;
        }
        if (d->is_typedef && !v->entry) continue;
        emit_specifiers(
            w, d, (specifier_style){.no_body = d->type.open != CELL_NOWHERE, .tag = plan->tag});
        emit_declarator(w, v->declarator, NULL, false, v->declarator->whole.end);
        cell_emit_words(&w->e, ";");
    }
}

/* `grid` alone as the value, and grid's bounds are this cell's run-time ones: no static type says
 * how large it is. Its address and its elements' type are handed out instead. */
static bool emit_array_value(writer *w, size_t index)
{
    range r = w->t->plan[index].item->tokens;
    if (r.end != r.first + 1) return false;
    for (size_t i = w->first; i < index; i++) {
        const planned_item *plan = &w->t->plan[i];
        if (plan->item->kind != ITEM_DECLARATION || !plan->variables) continue;
        const declaration *d = &plan->item->declaration;
        for (size_t k = 0; k < d->declarator_count; k++) {
            const planned_variable *v = &plan->variables[k];
            if (!v->is_variable_length || !v->declarator->is_array ||
                !cell_tokens_equal(&w->items[v->declarator->name], &w->items[r.first]))
                continue;
            const char *name = c_name(w, v->declarator);
            cell_emit_generated(&w->e,
                                "{ static __typeof__(%s) *cadre_value_type __attribute__((used)); "
                                "struct { void *at; unsigned long bounds[%zu]; } cadre_value = "
                                "{cadre_at_%s, {0}}; __builtin_memcpy(cadre_value.bounds, "
                                "cadre_bounds_%s, sizeof cadre_bounds_%s); "
                                "cadre_hook_value(&cadre_value, sizeof cadre_value, 0); }\n",
                                type_text(w, d, v->declarator, "", NULL),
                                v->declarator->bracket_count, name, name, name);
            w->t->value_bounds = v->declarator->bracket_count;
            w->out->has_value = true;
            return true;
        }
    }
    return false;
}

static void emit_value(writer *w, size_t index)
{
    if (emit_array_value(w, index)) return;
    range r = w->t->plan[index].item->tokens;
    const char *open = w->t->promote_value ? "(+(" : "(";
    const char *close = w->t->promote_value ? "))" : ")";
    token bundle = {.kind = TOKEN_NAME,
                    .text = "CADRE_BUNDLE_OF",
                    .length = 15,
                    .hash = cell_hash("CADRE_BUNDLE_OF", 15)};
    bool has_bundles = w->t->headers && cell_macro_find(&w->t->headers->macros, &bundle);
    cell_emit_words(&w->e, "{ static __typeof__");
    cell_emit_words(&w->e, open);
    emit_aliased(w, index, r.first, r.end);
    cell_emit_words(&w->e, close);
    cell_emit_words(&w->e, " *cadre_value_type __attribute__((used)); __auto_type cadre_value = "
                           "__builtin_choose_expr(__builtin_types_compatible_p("
                           "__typeof__(cadre_value_type), void *), ({ (void)(");
    emit_aliased(w, index, r.first, r.end);
    cell_emit_words(&w->e, "); 0; }), ");
    cell_emit_words(&w->e, open);
    emit_aliased(w, index, r.first, r.end);
    cell_emit_words(&w->e, close);
    cell_emit_words(&w->e, "); cadre_hook_value(&cadre_value, sizeof cadre_value, ");
    cell_emit_words(&w->e, has_bundles ? "CADRE_BUNDLE_OF(cadre_value)" : "0");
    cell_emit_words(&w->e, "); }");
    w->out->has_value = true;
}

static bool has_run_time_work(const writer *w)
{
    if (w->segment == 0 && w->t->first_statements) return true;
    if (w->t->runs_main && w->segment + 1 == w->t->segment_count) return true;
    for (size_t i = w->first; i < w->end; i++) {
        const planned_item *plan = &w->t->plan[i];
        if (plan->item->kind == ITEM_VALUE) return true;
        if (plan->item->kind == ITEM_STATEMENT &&
            (plan->item->tokens.end > plan->item->tokens.first + 1 ||
             !cell_token_punctuator(&w->items[plan->item->tokens.first], ';')))
            return true;
        if (plan->item->kind != ITEM_DECLARATION) continue;
        for (size_t k = 0; k < plan->item->declaration.declarator_count; k++)
            if (plan->variables && plan->variables[k].at_run_time) return true;
    }
    return false;
}

static void emit_main(writer *w)
{
    cell_emit_generated(&w->e,
                        "{ static char cadre_name[] = \"cell\"; "
                        "static char *cadre_arguments[] = {cadre_name, 0};\n"
                        "int (*volatile cadre_main)() = (int (*)())main;\n"
                        "%scadre_main(1, cadre_arguments, cadre_arguments + 1)%s; }\n",
                        w->t->main_is_void ? "" : "cadre_hook_main(",
                        w->t->main_is_void ? ", cadre_hook_main(0)" : ")");
}

/* Macros are as they were where the segment began, and change again on the way. */
static void reset_macros(writer *w)
{
    for (size_t i = w->first; i < w->end; i++) {
        const cell_item *item = w->t->plan[i].item;
        if (item->kind != ITEM_DIRECTIVE) continue;
        const token *t = &w->items[item->tokens.first];
        const char *name = is_macro_directive(t) ? macro_name(w, t) : NULL;
        if (!name) continue;
        cell_emit_generated(&w->e, "#undef %s\n", name);
        cell_entry *before = earlier(w, SPACE_MACRO, name);
        for (size_t k = 0; before && !before->is_hidden && k < w->needed.count; k++)
            if (w->needed.items[k] == before) cell_emit_generated(&w->e, "%s\n", before->text);
    }
    for (size_t k = 0; k < w->aliases.count; k++)
        if (w->aliases.items[k].item > w->first)
            cell_emit_generated(&w->e, "#undef %s\n", w->aliases.items[k].name);
}

static void write_entry(writer *w)
{
    cell_translator *t = w->t;
    cell_segment_text *out = w->out;
    out->entry = cell_arena_printf(t->arena, "cadre_cell_%s_%zu", t->hash, w->segment);
    w->in_entry = true;
    cell_emit_generated(
        &w->e,
        "void cadre_hook_value(const void *, unsigned long, char *(*)(const void *));\n"
        "void *cadre_hook_array(const char *, int, unsigned long, unsigned long, const unsigned "
        "long *);\nvoid cadre_hook_main(int);\n");
    reset_macros(w);
    cell_emit_generated(&w->e, "void %s(void);\nvoid %s(void)\n{\n", out->entry, out->entry);
    if (w->segment == 0 && t->first_statements)
        cell_emit_generated(&w->e, "%s\n", t->first_statements);
    for (size_t i = w->first; i < w->end; i++) {
        const planned_item *plan = &t->plan[i];
        const cell_item *item = plan->item;
        if (item->kind == ITEM_DIRECTIVE) {
            emit_directive(w, &w->items[item->tokens.first]);
        } else if (item->kind == ITEM_STATEMENT) {
            emit_aliased(w, i, item->tokens.first, item->tokens.end);
        } else if (item->kind == ITEM_VALUE) {
            emit_value(w, i);
        } else if (item->kind == ITEM_DECLARATION) {
            for (size_t k = 0; k < item->declaration.declarator_count; k++) {
                if (!plan->variables || !plan->variables[k].at_run_time) continue;
                if (plan->variables[k].is_variable_length)
                    for (size_t a = 0; a < w->aliases.count; a++)
                        if (w->aliases.items[a].item == i)
                            cell_emit_generated(&w->e, "#undef %s\n#define %s %s\n",
                                                w->aliases.items[a].name, w->aliases.items[a].name,
                                                w->aliases.items[a].meaning);
                emit_initialisation(w, &item->declaration, &plan->variables[k], plan->tag);
            }
        }
    }
    if (t->runs_main && w->segment + 1 == t->segment_count) emit_main(w);
    cell_emit_generated(&w->e, ";\n}\n");
}

/* Names that the cell gives another meaning in a later segment: statements here mean the old
 * one. Its address is taken when the unit is loaded, before the new one exists. */
static void keep_old_meanings(writer *w)
{
    cell_translator *t = w->t;
    for (size_t i = w->end; i < t->items->count; i++)
        for (size_t k = 0; k < t->plan[i].entries.count; k++) {
            const cell_entry *later = t->plan[i].entries.items[k];
            if (!later->is_defined) continue;
            for (size_t n = 0; n < w->needed.count; n++) {
                const cell_entry *old = w->needed.items[n];
                if (!old->is_defined || old->kind == ENTRY_MACRO || old->is_thread || old->place ||
                    strcmp(old->name, later->name))
                    continue;
                const char *name = old->name;
                cell_emit_generated(&w->e,
                                    "static __typeof__(%s) *volatile cadre_old_%s "
                                    "__attribute__((used)) = &%s;\n",
                                    name, name, name);
                alias a = {.name = name, .item = w->first};
                a.meaning = cell_arena_printf(t->arena, "(*cadre_old_%s)", name);
                add_alias(w, a);
            }
        }
}

/* Names that this unit must spell differently: a header has them, or a later segment defines
 * them again and both must exist. */
static void rename_own(writer *w)
{
    cell_translator *t = w->t;
    for (size_t i = w->first; i < w->end; i++)
        for (size_t k = 0; k < t->plan[i].entries.count; k++) {
            cell_entry *own = t->plan[i].entries.items[k];
            if (own->kind == ENTRY_MACRO || own->is_forward) continue;
            bool object = own->kind == ENTRY_VARIABLE || own->kind == ENTRY_FUNCTION;
            bool taken =
                own->kind == ENTRY_TAG
                    ? t->headers && cell_map_get(&t->headers->tags, own->name, strlen(own->name))
                    : header_has(w, own->name);
            bool rename = taken && (!object || own->is_defined) && !own->place;
            bool again = false;
            for (size_t j = w->end; j < t->items->count && object && own->is_defined; j++)
                for (size_t m = 0; m < t->plan[j].entries.count; m++)
                    again |= t->plan[j].entries.items[m]->is_defined &&
                             !strcmp(t->plan[j].entries.items[m]->name, own->name);
            if (!own->spelling && (again || rename)) {
                own->spelling =
                    strdup(again ? cell_arena_printf(t->arena, "%s$%zu", own->name, w->segment + 1)
                                 : cell_arena_printf(t->arena, "%s$", own->name));
                if (!own->spelling) longjmp(t->arena->recover, 1);
            }
            if (own->spelling) {
                cell_map_put(t->arena, &t->aliases, own->name, strlen(own->name), own->name);
                cell_emit_generated(&w->e, "#undef %s\n#define %s %s\n", own->name, own->name,
                                    own->spelling);
            }
            if (object && own->is_defined && !again) CELL_PUSH(t->arena, &w->out->defined, own);
        }
}

static void write_segment(cell_translator *t, size_t segment, size_t first, size_t end)
{
    writer w = {.t = t,
                .segment = segment,
                .first = first,
                .end = end,
                .out = &t->segments[segment],
                .items = t->reading->stream.items};
    w.e = (emitter){.out = &w.out->source, .reading = t->reading};
    t->stamp = ++t->names->stamp;
    collect(&w);
    for (size_t i = first; i < end; i++) {
        if (!cell_plan_put(t, &t->plan[i])) longjmp(t->arena->recover, 1);
        for (size_t k = 0; k < t->plan[i].entries.count; k++)
            w.out->is_thread |= t->plan[i].entries.items[k]->is_thread;
    }
    sift(&w);
    for (size_t i = 0; i < w.needed.count; i++)
        w.out->is_thread |= w.needed.items[i]->is_thread;
    rename_own(&w);
    write_session(&w);
    keep_old_meanings(&w);
    for (size_t i = first; i < end; i++) {
        const cell_item *item = t->plan[i].item;
        if (item->kind == ITEM_DECLARATION)
            emit_declaration(&w, i);
        else if (item->kind == ITEM_DIRECTIVE)
            emit_directive(&w, &w.items[item->tokens.first]);
        else if (item->kind == ITEM_ASSEMBLY)
            emit(&w, item->tokens.first, item->tokens.end);
    }
    if (has_run_time_work(&w)) write_entry(&w);
    cadre_buffer_puts(&w.out->source, "\n");
}

void cell_translate(cell_translator *t)
{
    uint64_t generation = t->names->generation;
    cell_plan(t);
    t->segments = cell_arena_take(t->arena, t->segment_count * sizeof *t->segments);
    t->names->generation++;
    size_t first = 0;
    for (size_t segment = 0; segment < t->segment_count; segment++) {
        size_t end = first;
        while (end < t->items->count && t->plan[end].segment == segment)
            end++;
        write_segment(t, segment, first, end);
        first = end;
    }
    cell_names_rewind(t->names, generation);
}
