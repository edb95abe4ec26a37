/* Writes the translation units of a planned cell. */
#include "cell/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            cell_write_range(w, start, i);
            cell_emit_generated(&w->e, "#undef %s\n", a->name);
            cell_write_range(w, i, i + 1);
            cell_emit_generated(&w->e, "#define %s %s\n", a->name, a->meaning);
            start = i + 1;
        }
    }
    cell_write_range(w, start, end);
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
        cell_write_forces_inlining(w, d->specifiers.first,
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
        cell_write_specifiers(w, d,
                              (specifier_style){.no_body = plan->drop_type, .tag = plan->tag});
        emit_aliased(w, index, d->specifiers.end, whole.end);
        return;
    }
    if (d->type.open != CELL_NOWHERE && !plan->drop_type) {
        cell_write_range(w, d->type.keyword,
                         d->type.tag == CELL_NOWHERE ? d->type.open : d->type.tag + 1);
        if (plan->tag) cell_emit_words(&w->e, cell_arena_printf(w->t->arena, " %s ", plan->tag));
        cell_write_range(w, d->type.open,
                         cell_skip_attributes(w->items, d->specifiers.end, d->type.close + 1));
        cell_emit_words(&w->e, ";");
    }
    for (size_t i = 0; i < d->declarator_count; i++) {
        const planned_variable *v = &plan->variables[i];
        if (v->is_definition && !v->declarator->is_function) {
            cell_write_definition(w, d, v, plan);
            continue;
        }
        if (d->is_typedef && !v->entry) continue;
        cell_write_specifiers(
            w, d, (specifier_style){.no_body = d->type.open != CELL_NOWHERE, .tag = plan->tag});
        cell_write_declarator(w, v->declarator, NULL, false, v->declarator->whole.end);
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
            const char *name = cell_write_name(w, v->declarator);
            cell_emit_generated(
                &w->e,
                "{ static __typeof__(%s) *__cadre_value_type __attribute__((used)); "
                "struct { void *at; unsigned long bounds[%zu]; } __cadre_value = "
                "{cadre_at_%s, {0}}; __builtin_memcpy(__cadre_value.bounds, "
                "cadre_bounds_%s, sizeof cadre_bounds_%s); "
                "cadre_hook_value(&__cadre_value, sizeof __cadre_value, 0); }\n",
                cell_write_type(w, d, v->declarator, "", NULL), v->declarator->bracket_count, name,
                name, name);
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
    cell_emit_words(&w->e,
                    " *__cadre_value_type __attribute__((used)); __auto_type __cadre_value = "
                    "__builtin_choose_expr(__builtin_types_compatible_p("
                    "__typeof__(__cadre_value_type), void *), ({ (void)(");
    emit_aliased(w, index, r.first, r.end);
    cell_emit_words(&w->e, "); 0; }), ");
    cell_emit_words(&w->e, open);
    emit_aliased(w, index, r.first, r.end);
    cell_emit_words(&w->e, close);
    cell_emit_words(&w->e, "); cadre_hook_value(&__cadre_value, sizeof __cadre_value, ");
    cell_emit_words(&w->e, has_bundles ? "CADRE_BUNDLE_OF(__cadre_value)" : "0");
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
        cell_entry *before = cell_write_earlier(w, SPACE_MACRO, name);
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
                cell_write_initialisation(w, &item->declaration, &plan->variables[k], plan->tag);
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
                cell_write_alias(w, a);
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
                    : cell_write_header_has(w, own->name);
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
    cell_write_collect(&w);
    for (size_t i = first; i < end; i++) {
        if (!cell_plan_put(t, &t->plan[i])) longjmp(t->arena->recover, 1);
        for (size_t k = 0; k < t->plan[i].entries.count; k++)
            w.out->is_thread |= t->plan[i].entries.items[k]->is_thread;
    }
    cell_write_sift(&w);
    for (size_t i = 0; i < w.needed.count; i++)
        w.out->is_thread |= w.needed.items[i]->is_thread;
    rename_own(&w);
    cell_write_session(&w);
    keep_old_meanings(&w);
    for (size_t i = first; i < end; i++) {
        const cell_item *item = t->plan[i].item;
        if (item->kind == ITEM_DECLARATION)
            emit_declaration(&w, i);
        else if (item->kind == ITEM_DIRECTIVE)
            emit_directive(&w, &w.items[item->tokens.first]);
        else if (item->kind == ITEM_ASSEMBLY)
            cell_write_range(&w, item->tokens.first, item->tokens.end);
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
