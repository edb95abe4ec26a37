#include "cell/headers.h"

#include "cell/read.h"

#include <stdlib.h>
#include <string.h>

enum { DEFINITION_LENGTH = 300 };

typedef struct learner {
    cell_headers *headers;
    cell_arena *scratch;
    const token *items;
} learner;

static name_kind kind_of(void *context, const token *name)
{
    const header_name *known = cell_map_get_token(&((learner *)context)->headers->names, name);
    return known ? known->kind : NAME_UNKNOWN;
}

static void learn(learner *l, const token *name, name_kind kind, const char *definition)
{
    cell_arena *arena = &l->headers->arena;
    header_name *known = cell_arena_take(arena, sizeof *known);
    known->kind = kind;
    if (definition) known->definition = cell_arena_copy(arena, definition, strlen(definition));
    cell_map_put(arena, &l->headers->names, cell_arena_copy(arena, name->text, name->length),
                 name->length, known);
}

static void learn_enumerator(void *context, const token *name)
{
    learn(context, name, NAME_ENUMERATOR, NULL);
}

static void learn_declaration(learner *l, const declaration *d)
{
    cell_arena *arena = &l->headers->arena;
    const type_definition *type = &d->type;
    if (type->keyword != CELL_NOWHERE && type->tag != CELL_NOWHERE && type->open != CELL_NOWHERE) {
        const token *tag = &l->items[type->tag];
        cell_map_put(arena, &l->headers->tags, cell_arena_copy(arena, tag->text, tag->length),
                     tag->length, l->headers);
    }
    if (type->open != CELL_NOWHERE && l->items[type->keyword].keyword == KEYWORD_ENUM)
        cell_enumerators(l->items, type->open, type->close, learn_enumerator, l);
    for (size_t i = 0; i < d->declarator_count; i++) {
        const declarator *one = &d->declarators[i];
        const char *definition = NULL;
        if (d->is_typedef && one->whole.end - d->specifiers.first < DEFINITION_LENGTH / 4) {
            /* `typedef unsigned long size_t`: what stands between, one declarator only. */
            token_list text = {0};
            for (size_t k = d->specifiers.first; k < d->specifiers.end; k++)
                if (l->items[k].keyword != KEYWORD_TYPEDEF)
                    CELL_PUSH(l->scratch, &text, l->items[k]);
            for (size_t k = one->whole.first; k < one->whole.end; k++)
                CELL_PUSH(l->scratch, &text, l->items[k]);
            definition = cell_tokens_text(l->scratch, text.items, text.count);
        }
        learn(l, &l->items[one->name],
              d->is_typedef      ? NAME_TYPE
              : one->is_function ? NAME_FUNCTION
                                 : NAME_VARIABLE,
              definition);
    }
}

static void learn_all(cell_headers *headers, cell_arena *scratch, const char *preprocessed)
{
    learner l = {.headers = headers, .scratch = scratch};
    cell_oracle oracle = {.kind = kind_of, .context = &l};
    cell_source source = {.name = "headers", .length = strlen(preprocessed)};
    source.text = cell_arena_copy(scratch, preprocessed, source.length);
    token_list all = {0}, text = {0};
    cell_tokens_read(scratch, &source, 0, false, &all);
    for (size_t i = 0; i < all.count; i++) {
        const token *t = &all.items[i];
        const char *name, *rest;
        size_t name_length, rest_length;
        if (t->kind != TOKEN_DIRECTIVE) {
            CELL_PUSH(scratch, &text, *t);
        } else if (cell_directive_split(t, &name, &name_length, &rest, &rest_length)) {
            if (name_length == 6 && !memcmp(name, "define", 6))
                cell_macro_define(&headers->macros, rest, rest_length);
            else if (name_length == 5 && !memcmp(name, "undef", 5))
                cell_macro_undefine(&headers->macros, rest, rest_length);
        }
    }
    l.items = text.items;
    for (size_t at = 0; at < text.count;) {
        declaration d;
        cell_declaration_parse(scratch, &oracle, text.items, text.count, at, &d);
        learn_declaration(&l, &d);
        at = d.end > at ? d.end : at + 1;
    }
}

cell_headers *cell_headers_learn(const char *text, const char *preprocessed)
{
    cell_headers *volatile headers = calloc(1, sizeof *headers);
    cell_arena *volatile scratch = calloc(1, sizeof *scratch);
    if (!headers || !scratch) goto failed;
    if (setjmp(headers->arena.recover) || setjmp(scratch->recover)) goto failed;
    headers->references = 1;
    headers->macros.arena = &headers->arena;
    headers->text = cell_arena_copy(&headers->arena, text, strlen(text));
    learn_all(headers, scratch, preprocessed);
    cell_arena_free(scratch);
    free(scratch);
    return headers;

failed:
    if (scratch) cell_arena_free(scratch);
    free(scratch);
    if (headers) cell_arena_free(&headers->arena);
    free(headers);
    return NULL;
}

cell_headers *cell_headers_keep(cell_headers *headers)
{
    if (headers) headers->references++;
    return headers;
}

void cell_headers_release(cell_headers *headers)
{
    if (!headers || --headers->references) return;
    cell_arena_free(&headers->arena);
    free(headers);
}

const header_name *cell_headers_find(const cell_headers *headers, const token *name)
{
    return headers ? cell_map_get_token(&headers->names, name) : NULL;
}
