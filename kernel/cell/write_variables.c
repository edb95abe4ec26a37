/* Variables: storage at file scope, values where the entry function passes. */
#include "cell/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cell_write_range(writer *w, size_t first, size_t end)
{
    if (end > first) cell_emit_tokens(&w->e, first, end);
}

static bool in_type(const declaration *d, size_t i)
{
    return d->type.keyword != CELL_NOWHERE && i >= d->type.keyword &&
           (d->type.open != CELL_NOWHERE ? i <= d->type.close : i == d->type.keyword);
}

/* always_inline and the like contradict late binding: a function that can be replaced is called. */
bool cell_write_forces_inlining(const writer *w, size_t first, size_t after)
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
void cell_write_specifiers(writer *w, const declaration *d, specifier_style style)
{
    const type_definition *type = &d->type;
    size_t start = d->specifiers.first;
    bool any = false;
    for (size_t i = d->specifiers.first; i < d->specifiers.end; i++) {
        const token *t = &w->items[i];
        if (i == type->keyword && type->open != CELL_NOWHERE) {
            size_t tag_at = cell_skip_attributes(w->items, d->specifiers.end, i + 1);
            cell_write_range(w, start, type->tag == CELL_NOWHERE ? tag_at : type->tag + 1);
            if (type->tag == CELL_NOWHERE && style.tag) {
                cell_emit_words(&w->e, " ");
                cell_emit_words(&w->e, style.tag);
                cell_emit_words(&w->e, " ");
            }
            size_t after = cell_skip_attributes(w->items, d->specifiers.end, type->close + 1);
            if (!style.no_body) cell_write_range(w, type->open, after);
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
            cell_write_range(w, start, i);
            start = i + 1;
            continue;
        }
        size_t after = cell_skip_attributes(w->items, d->specifiers.end, i);
        if (after > i && cell_write_forces_inlining(w, i, after)) {
            cell_write_range(w, start, i);
            start = after;
            i = after - 1;
            continue;
        }
        any = true;
        if (after > i) i = after - 1;
        if (cell_token_punctuator(t, '(')) i = cell_tokens_match(w->items, d->specifiers.end, i);
    }
    cell_write_range(w, start, d->specifiers.end);
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
void cell_write_declarator(writer *w, const declarator *one, const char *name, bool no_const,
                           size_t end)
{
    size_t start = one->whole.first;
    for (size_t i = start; i < end; i++) {
        bool is_const = w->items[i].kind == TOKEN_NAME && w->items[i].keyword == KEYWORD_CONST;
        bool drop = no_const && is_const && one->object_star != CELL_NOWHERE &&
                    i > one->object_star && i < one->name;
        size_t after = cell_skip_attributes(w->items, end, i);
        if (after > i && cell_write_forces_inlining(w, i, after)) {
            cell_write_range(w, start, i);
            start = after;
            i = after - 1;
            continue;
        }
        if (!drop && !(i == one->name && name)) continue;
        cell_write_range(w, start, i);
        start = i + 1;
        if (drop) continue;
        cell_emit_words(&w->e, " ");
        cell_emit_words(&w->e, name);
    }
    cell_write_range(w, start, end);
}

/* --- variables ------------------------------------------------------------------------------ */

const char *cell_write_name(const writer *w, const declarator *one)
{
    const token *name = &w->items[one->name];
    return cell_arena_printf(w->t->arena, "%.*s", (int)name->length, name->text);
}

static const char *symbol_of(const writer *w, const planned_variable *v)
{
    return v->entry->spelling ? v->entry->spelling : cell_write_name(w, v->declarator);
}

/* Specifiers and declarator as text, bounds replaced: for casts and sizeof. */
const char *cell_write_type(const writer *w, const declaration *d, const declarator *one,
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
    const char *name = cell_write_name(w, v->declarator);
    const char *bounds = cell_arena_printf(w->t->arena, "cadre_bounds_%s", name);
    cell_emit_generated(&w->e,
                        "static unsigned long cadre_bounds_%s[%zu]; static void *cadre_at_%s;\n",
                        name, v->declarator->bracket_count, name);
    alias a = {.name = name, .item = item};
    a.meaning = cell_arena_printf(w->t->arena, "(*(%s)cadre_at_%s)",
                                  cell_write_type(w, d, v->declarator, "(*)", bounds), name);
    cell_write_alias(w, a);
}

/* The value that each thread begins with, and the object that finds a thread's own. */
static void emit_thread(writer *w, const declaration *d, const planned_variable *v,
                        const planned_item *plan)
{
    const declarator *one = v->declarator;
    const char *name = cell_write_name(w, one);
    char *place = NULL;
    cell_write_threads(w);
    cell_emit_generated(&w->e, "static ");
    cell_write_specifiers(w, d,
                          (specifier_style){.no_body = d->type.open != CELL_NOWHERE,
                                            .local = true,
                                            .no_const = !one->is_pointer,
                                            .tag = plan->tag});
    cell_write_declarator(w, one, cell_arena_printf(w->t->arena, "cadre_first_%s", name), true,
                          plain_end(w, one));
    if (v->override || (one->initialiser.end > one->initialiser.first && !v->at_run_time)) {
        cell_emit_words(&w->e, " = ");
        if (v->override)
            cell_emit_words(&w->e, v->override);
        else
            cell_write_range(w, one->initialiser.first, one->initialiser.end);
    }
    cell_emit_words(&w->e, ";");
    cell_emit_generated(&w->e,
                        "struct cadre_thread %s$tls = {sizeof cadre_first_%s, "
                        "__alignof__(cadre_first_%s), 0, &cadre_first_%s};\n",
                        name, name, name, name);
    if (asprintf(&place, "(*(%s)__emutls_get_address(&%s$tls))",
                 cell_write_type(w, d, one, "(*)", ""), name) < 0)
        longjmp(w->t->arena->recover, 1);
    free(v->entry->place);
    v->entry->place = place;
    cell_write_alias(w, (alias){.name = name, .meaning = place, .item = w->first});
}

void cell_write_definition(writer *w, const declaration *d, const planned_variable *v,
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
        cell_write_range(w, one->initialiser.first, one->initialiser.end);
        cell_emit_words(&w->e, ")))");
    } else {
        cell_write_specifiers(w, d,
                              (specifier_style){.no_body = d->type.open != CELL_NOWHERE,
                                                .no_const = writable && !one->is_pointer,
                                                .tag = plan->tag});
    }
    cell_write_declarator(w, one, NULL, writable, one->whole.end);
    if (one->unsized && v->at_run_time && initialise) {
        cell_emit_words(&w->e, " = ");
        emit_zeros(w, d, one);
    } else if (v->override) {
        cell_emit_words(&w->e, " = ");
        cell_emit_words(&w->e, v->override);
    } else if (initialise && !v->at_run_time) {
        cell_emit_words(&w->e, " = ");
        cell_write_range(w, one->initialiser.first, one->initialiser.end);
    }
    cell_emit_words(&w->e, ";");
}

/* Where the entry function passes a declaration: storage with run-time bounds, values. */
void cell_write_initialisation(writer *w, const declaration *d, const planned_variable *v,
                               const char *tag)
{
    const declarator *one = v->declarator;
    const char *name = cell_write_name(w, one);
    bool initialise = one->initialiser.end > one->initialiser.first;
    if (v->is_variable_length) {
        cell_emit_words(&w->e, "{ ");
        for (size_t i = 0; i < one->bracket_count; i++) {
            cell_emit_words(&w->e,
                            cell_arena_printf(w->t->arena,
                                              " cadre_bounds_%s[%zu] = (unsigned long)(", name, i));
            cell_write_range(w, one->brackets[i].first, one->brackets[i].end);
            cell_emit_words(&w->e, ");");
        }
        cadre_buffer fresh = {0};
        cell_entry *before = cell_write_earlier(w, SPACE_ORDINARY, name);
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
                one->is_array ? cell_write_type(w, d, one, "", NULL) : "void *", one->bracket_count,
                name));
        cadre_buffer_free(&fresh);
        cell_emit_words(&w->e, "} ");
        if (initialise) {
            cell_emit_words(&w->e, cell_arena_printf(w->t->arena, "%s = (", name));
            cell_write_range(w, one->initialiser.first, one->initialiser.end);
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
        cell_write_specifiers(
            w, d,
            (specifier_style){.no_body = d->type.open != CELL_NOWHERE, .local = true, .tag = tag});
    cell_write_declarator(w, one, "cadre_initial", false, plain_end(w, one));
    cell_emit_words(&w->e, " = ");
    if (v->override)
        cell_emit_words(&w->e, v->override);
    else
        cell_write_range(w, one->initialiser.first, one->initialiser.end);
    cell_emit_words(&w->e,
                    cell_arena_printf(w->t->arena,
                                      "; __builtin_memcpy((void *)&%s, (void *)&cadre_initial,"
                                      " sizeof cadre_initial); }",
                                      name));
}
