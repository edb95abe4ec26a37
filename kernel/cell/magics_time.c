/* %time and %timeit: the statement stays where it is, with calls of the host's clock around it.
 *
 * There is no call-back: the loop of %timeit is part of the cell, and the host only says how often
 * it shall go round, so names, interrupts and errors are those of any statement. */
#include "cell/magics.h"

#include "cell/split.h"

#include <stdlib.h>
#include <string.h>

static void read_part(const magic_call *call, size_t first, size_t end, token_list *out)
{
    cell_source part = {.name = call->source->name, .length = end};
    part.text = cell_arena_copy(call->reading->arena, call->source->original, end);
    for (size_t i = 0; i < first; i++)
        if (part.text[i] != '\n') part.text[i] = ' ';
    cell_tokens_read(call->reading->arena, &part, call->at->source, false, out);
}

static bool is_end(const token *t)
{
    return cell_token_punctuator(t, ';') || cell_token_punctuator(t, '}');
}

static bool is_last(const magic_call *call)
{
    token_list after = {0};
    read_part(call, call->at->end, call->source->length, &after);
    return !after.count;
}

int magic_time(magic_call *call)
{
    static const char prototype[] = "void cadre_hook_time(int)";
    token_list tokens = {0};
    read_part(call, call->rest_offset, call->rest_end, &tokens);
    if (call->here) {
        int failed = magic_must_begin(call);
        if (failed) return failed;
    } else if (!tokens.count) {
        return cadre_error_set(call->error, CADRE_EINPUT,
                               "%%time wants a statement on its line; "
                               "%%%%time is for a whole cell");
    }
    magic_insert_call(call, prototype, call->here ? "cadre_hook_time(0)" : "cadre_hook_time(1)");
    if (!tokens.count) return 0;
    magic_insert_source(call, call->rest_offset, call->rest_end);
    bool open = !is_end(&tokens.items[tokens.count - 1]);
    /* The value of the cell is shown all the same: the clock stops when the cell ends. */
    if (open && is_last(call)) return 0;
    if (open) magic_insert(call, ";");
    if (!call->here) magic_insert_call(call, prototype, "cadre_hook_time(-1)");
    return 0;
}

/* --- %timeit -------------------------------------------------------------------------------- */

/* -n 100 -r5: counts; the rest of the line is what is left. */
static int take_options(magic_call *call, unsigned long *loops, unsigned long *runs)
{
    while (call->rest_length > 2 && call->rest[0] == '-' &&
           (call->rest[1] == 'n' || call->rest[1] == 'r')) {
        size_t at = 2 + strspn(call->rest + 2, " \t"),
               digits = strspn(call->rest + at, "0123456789");
        if (!digits || at + digits > call->rest_length) break;
        unsigned long value = strtoul(call->rest + at, NULL, 10);
        if (!value || value > 1000000000)
            return cadre_error_set(call->error, CADRE_EINPUT,
                                   "%%timeit -%c wants a number from 1 to 1000000000",
                                   call->rest[1]);
        *(call->rest[1] == 'n' ? loops : runs) = value;
        at += digits;
        at += strspn(call->rest + at, " \t");
        call->rest += at;
        call->rest_length -= at < call->rest_length ? at : call->rest_length;
        call->rest_offset += at;
    }
    return 0;
}

/* An expression of which the value can be kept, so that the compiler cannot leave it out. */
static bool has_value(const token_list *list, const cell_item *item)
{
    const token *first = &list->items[item->tokens.first];
    if (item->kind == ITEM_VALUE) return true;
    if (item->kind != ITEM_STATEMENT || item->tokens.end <= item->tokens.first + 1) return false;
    if (!cell_token_punctuator(&list->items[item->tokens.end - 1], ';')) return false;
    if (cell_token_punctuator(first, '{') || cell_token_punctuator(first + 1, ':')) return false;
    return first->kind != TOKEN_NAME || first->keyword == KEYWORD_NONE ||
           first->keyword == KEYWORD_SIZEOF || first->keyword == KEYWORD_OTHER;
}

static void insert_tokens(magic_call *call, const token_list *list, size_t first, size_t end)
{
    if (end > first) magic_insert_source(call, list->items[first].offset, list->items[end - 1].end);
}

static void insert_value(magic_call *call, const token_list *list, range r)
{
    if (cell_token_punctuator(&list->items[r.end - 1], ';')) r.end--;
    magic_insert(call, "{ __auto_type __cadre_kept = __builtin_choose_expr("
                       "__builtin_types_compatible_p(__typeof__(({");
    insert_tokens(call, list, r.first, r.end);
    magic_insert(call, "; })), void), ({");
    insert_tokens(call, list, r.first, r.end);
    magic_insert(call, "; 0; }), ({");
    insert_tokens(call, list, r.first, r.end);
    magic_insert(call, "; })); __asm__ volatile(\"\" : : \"m\"(__cadre_kept) : \"memory\"); }");
}

static void insert_body(magic_call *call, const token_list *list)
{
    cell_arena *arena = call->reading->arena;
    cell_items items = {0};
    cell_problem problem = {0};
    cell_split(arena, call->reading->oracle, list, false, &items, &problem);
    const cell_item *last = items.count ? &items.items[items.count - 1] : NULL;
    if (last && has_value(list, last)) {
        insert_tokens(call, list, 0, last->tokens.first);
        insert_value(call, list, last->tokens);
    } else {
        insert_tokens(call, list, 0, list->count);
        magic_insert(call, ";");
    }
    /* What is computed into the loop's own variables counts as used. */
    cadre_buffer kept = {0};
    for (size_t i = 0; i < items.count; i++) {
        const declaration *d = &items.items[i].declaration;
        if (items.items[i].kind != ITEM_DECLARATION || d->is_typedef || d->is_definition) continue;
        for (size_t k = 0; k < d->declarator_count; k++) {
            const token *name = &list->items[d->declarators[k].name];
            if (d->declarators[k].is_function) continue;
            cadre_buffer_printf(&kept, "__asm__ volatile(\"\" : : \"m\"(%.*s) : \"memory\"); ",
                                (int)name->length, name->text);
        }
    }
    if (kept.length) magic_insert(call, cell_arena_copy(arena, kept.data, kept.length));
    cadre_buffer_free(&kept);
}

int magic_timeit(magic_call *call)
{
    unsigned long loops = 0, runs = 7;
    token_list line = {0}, body = {0};
    int failed = take_options(call, &loops, &runs);
    if (!failed && call->here) failed = magic_must_begin(call);
    if (failed) return failed;
    read_part(call, call->rest_offset, call->rest_end, &line);
    if (call->here)
        read_part(call, call->at->end, call->source->length, &body);
    else
        body = line;
    if (!body.count)
        return cadre_error_set(call->error, CADRE_EINPUT,
                               call->here ? "%%%%timeit wants statements below it"
                                          : "%%timeit wants a statement on its line; %%%%timeit is "
                                            "for a whole cell");
    if (call->here && line.count) { /* runs once, and its names stay */
        magic_insert_source(call, call->rest_offset, call->rest_end);
        magic_insert(call, ";");
    }
    magic_insert(call, cell_arena_printf(call->reading->arena,
                                         "{ extern unsigned long cadre_hook_timeit(unsigned long, "
                                         "unsigned long); unsigned long cadre_left; "
                                         "while ((cadre_left = cadre_hook_timeit(%luul, %luul))) "
                                         "for (; cadre_left; cadre_left--) {\n",
                                         loops, runs));
    insert_body(call, &body);
    magic_insert(call, "__asm__ volatile(\"\" : : : \"memory\"); } }\n");
    if (call->here) call->insert->skip_to = call->source->length;
    return 0;
}
