/* Magics about the session itself: its names, parameters, snapshots and code. */
#include "cell/magics.h"

#include "cell/split.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int magic_snapshot(magic_call *call)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3 && call->words.count == 1; i++) {
        if (strcmp(names[i], call->words.items[0]) != 0) continue;
        if (call->state) call->state->snapshot = i;
        call->only_here->snapshot = i;
        return 0;
    }
    return cadre_error_set(call->error, CADRE_EINPUT, "it is %%snapshot auto, always or never");
}

int magic_reset(magic_call *call)
{
    if (call->words.count > 1 || (call->words.count && strcmp(call->words.items[0], "-f") != 0))
        return cadre_error_set(call->error, CADRE_EINPUT,
                               "%%reset takes no names: it takes all "
                               "of them away");
    call->cell->resets = true;
    return 0;
}

/* --- listing names -------------------------------------------------------------------------- */

typedef struct known_name {
    const char *name, *kind, *shown;
    const char *initial; /* of variables: for %params */
    int cell;
    bool has_size, is_gone;
} known_name;

typedef struct name_list {
    known_name *items;
    size_t count, capacity;
    cell_arena *arena;
} name_list;

static void add_name(name_list *list, known_name one)
{
    for (size_t i = 0; i < list->count; i++) /* defined again in this cell */
        if (!strcmp(list->items[i].name, one.name) &&
            !strcmp(list->items[i].kind, "macro") == !strcmp(one.kind, "macro")) {
            list->items[i] = one;
            return;
        }
    CELL_PUSH(list->arena, list, one);
}

static const char *copy_text(const name_list *list, const char *text)
{
    return text ? cell_arena_copy(list->arena, text, strlen(text)) : "";
}

static void add_session(name_list *list, cadre_engine *engine)
{
    static const char *const kinds[] = {"variable",   "function", "type",
                                        "enumerator", "type",     "macro"};
    engine->names.round++;
    for (int space = 0; space < SPACE_SYMBOL; space++)
        for (size_t i = 0; i < engine->names.spaces[space].bucket_count; i++)
            for (cell_map_entry *e = engine->names.spaces[space].buckets[i]; e; e = e->next) {
                cell_entry *entry = e->value;
                /* The first under a name is the one that holds. */
                if (!entry || entry->is_hidden || strchr(entry->name, '$') ||
                    entry->kind == ENTRY_ENUMERATOR ||
                    cell_names_find(&engine->names, space, e->name, e->length) != entry)
                    continue;
                known_name one = {.name = copy_text(list, entry->name),
                                  .kind = kinds[entry->kind],
                                  .shown = copy_text(list, entry->shown),
                                  .initial = copy_text(list, entry->initial),
                                  .cell = entry->execution_count};
                one.is_gone = cell_entry_is_stale(&engine->names, entry, NULL);
                one.has_size = entry->kind == ENTRY_VARIABLE && entry->is_defined &&
                               !entry->bracket_count && !one.is_gone;
                add_name(list, one);
            }
}

static void add_declaration(name_list *list, magic_call *call, const token *items,
                            const declaration *d)
{
    cell_arena *arena = list->arena;
    for (size_t i = 0; i < d->declarator_count; i++) {
        const declarator *one = &d->declarators[i];
        if (one->name == CELL_NOWHERE) continue;
        known_name n = {.name = cell_tokens_text(arena, &items[one->name], 1),
                        .kind = d->is_typedef      ? "type"
                                : one->is_function ? "function"
                                                   : "variable",
                        .cell = call->request->execution_count};
        n.shown = cell_arena_printf(
            arena, "%s %s",
            cell_tokens_text(arena, items + d->specifiers.first,
                             d->specifiers.end - d->specifiers.first),
            cell_tokens_text(arena, items + one->whole.first, one->whole.end - one->whole.first));
        n.initial = cell_tokens_text(arena, items + one->initialiser.first,
                                     one->initialiser.end - one->initialiser.first);
        n.has_size = !d->is_typedef && !one->is_function && !d->is_extern;
        add_name(list, n);
    }
    if (d->type.open != CELL_NOWHERE && d->type.tag != CELL_NOWHERE) {
        known_name n = {.name = cell_tokens_text(arena, &items[d->type.tag], 1),
                        .kind = "type",
                        .initial = "",
                        .cell = call->request->execution_count};
        n.shown =
            cell_tokens_text(arena, items + d->type.keyword, d->type.close + 1 - d->type.keyword);
        add_name(list, n);
    }
}

/* What stands above the magic in this cell. */
static void add_own(name_list *list, magic_call *call)
{
    cell_items items = {0};
    cell_problem problem = {0};
    const token_list *stream = &call->reading->stream;
    cell_split(list->arena, call->reading->oracle, stream, false, &items, &problem);
    for (size_t i = 0; i < items.count; i++) {
        const cell_item *item = &items.items[i];
        const token *first = &stream->items[item->tokens.first];
        if (item->kind == ITEM_DECLARATION) {
            add_declaration(list, call, stream->items, &item->declaration);
        } else if (item->kind == ITEM_DIRECTIVE && cell_directive_is(first, "define")) {
            token_list words = {0};
            cell_tokens_read_line(list->arena, first->text, first->length, first, &words);
            if (words.count < 3) continue;
            add_name(list,
                     (known_name){.name = cell_tokens_text(list->arena, &words.items[2], 1),
                                  .kind = "macro",
                                  .initial = "",
                                  .shown = cell_arena_copy(list->arena, first->text, first->length),
                                  .cell = call->request->execution_count});
        }
    }
}

static int compare_names(const void *a, const void *b)
{
    const known_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->kind, y->kind);
}

static name_list list_names(magic_call *call)
{
    name_list list = {.arena = call->reading->arena};
    add_session(&list, call->engine);
    add_own(&list, call);
    if (list.count) qsort(list.items, list.count, sizeof *list.items, compare_names);
    return list;
}

/* At most `limit` bytes on one line. */
static const char *shorten(const name_list *list, const char *text, size_t limit)
{
    size_t length = strlen(text);
    if (length <= limit) return text;
    while (limit && ((unsigned char)text[limit] & 0xc0) == 0x80)
        limit--;
    return cell_arena_printf(list->arena, "%.*s...", (int)limit, text);
}

/* The compiler says how large things are: the sizes are arguments of printf. */
int magic_who(magic_call *call)
{
    name_list list = list_names(call);
    cadre_buffer text = {0};
    size_t width = 4;
    for (size_t i = 0; i < list.count; i++)
        if (strlen(list.items[i].name) > width) width = strlen(list.items[i].name);
    if (width > 40) width = 40;
    cadre_buffer_printf(&text, "{ extern int printf(const char *, ...);\n");
    if (!list.count) cadre_buffer_puts(&text, "printf(\"the session has no names\\n\");");
    for (size_t i = 0; i < list.count; i++) {
        const known_name *one = &list.items[i];
        const char *shown = shorten(&list, one->shown, 100);
        if (!i)
            cadre_buffer_printf(&text,
                                "printf(\"%%-%zus  %%-8s  %%10s  %%-7s %%s\\n\", \"name\", "
                                "\"kind\", \"bytes\", \"cell\", \"declaration\");\n",
                                width);
        cadre_buffer_printf(&text, "printf(\"%%-%zus  %%-8s  ", width);
        cadre_buffer_puts(&text, one->has_size ? "%10lu" : "%10s");
        cadre_buffer_printf(&text, "  In[%d]%*s %%s%s\\n\", \"%s\", \"%s\", ", one->cell,
                            one->cell < 10    ? 2
                            : one->cell < 100 ? 1
                                              : 0,
                            "", one->is_gone ? "  (of a type that was defined anew)" : "",
                            one->name, one->kind);
        if (one->has_size)
            cadre_buffer_printf(&text, "(unsigned long)sizeof(%s)", one->name);
        else
            cadre_buffer_puts(&text, "\"\"");
        cadre_buffer_printf(&text, ", %s);\n", magic_literal(call, shown, strlen(shown)));
    }
    cadre_buffer_puts(&text, "}\n");
    char *whole = cadre_buffer_steal(&text);
    if (!whole) return magic_no_memory(call);
    magic_insert(call, cell_arena_copy(list.arena, whole, strlen(whole)));
    free(whole);
    return 0;
}

/* --- parameters ----------------------------------------------------------------------------- */

/* `3`, `-1.5e3`, `"text"`, `{1, 2}`, `true`: something that a person would call a setting. */
static bool is_setting(const known_name *one)
{
    if (strcmp(one->kind, "variable") != 0 || !*one->initial || one->is_gone) return false;
    for (const char *at = one->initial; *at;) {
        if (*at == '(') return false;
        if (*at == '"' || *at == '\'') {
            char quote = *at++;
            while (*at && *at != quote)
                at += *at == '\\' && at[1] ? 2 : 1;
            at += *at != 0;
        } else if (isalpha((unsigned char)*at) || *at == '_') {
            size_t n =
                strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
            if (!(n == 4 && (!memcmp(at, "true", 4) || !memcmp(at, "NULL", 4))) &&
                !(n == 5 && !memcmp(at, "false", 5)))
                return false;
            at += n;
        } else if (isdigit((unsigned char)*at)) {
            at += strspn(at, "0123456789abcdefABCDEFxXuUlL.pP+-'");
        } else {
            at++;
        }
    }
    return true;
}

static const known_name *find_name(const name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name) && !strcmp(list->items[i].kind, "variable"))
            return &list->items[i];
    return NULL;
}

/* `static const int x[3]` -> `const int [3]`. */
static const char *type_of(const name_list *list, const known_name *one)
{
    const char *text = one->shown, *words[] = {"static ", "extern ", "register "};
    for (size_t i = 0; i < 3; i++)
        if (!strncmp(text, words[i], strlen(words[i]))) text += strlen(words[i]);
    const char *at = text;
    size_t length = strlen(one->name);
    while ((at = strstr(at, one->name)) &&
           (isalnum((unsigned char)at[length]) || at[length] == '_' ||
            (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))))
        at++;
    if (!at) return text;
    size_t before = (size_t)(at - text);
    while (before && text[before - 1] == ' ' && !at[length])
        before--;
    return cell_arena_printf(list->arena, "%.*s%s", (int)before, text, at + length);
}

static void add_row(magic_call *call, cadre_buffer *text, const char *name, const char *type,
                    const char *initial, const char *value, const char *channel)
{
    cadre_buffer_printf(text, "{ char *cadre_text = %s; extern void free(void *); ", value);
    cadre_buffer_printf(text,
                        "printf(\"%%-24s %%-16s %%-12s %%-12s %%s\\n\", \"%s\", %s, %s, "
                        "cadre_text ? cadre_text : \"\", %s); free(cadre_text); }\n",
                        name, magic_literal(call, type, strlen(type)),
                        magic_literal(call, initial, strlen(initial)),
                        magic_literal(call, channel, strlen(channel)));
}

int magic_params(magic_call *call)
{
    name_list list = list_names(call);
    const json_t *given = call->request->parameters;
    cadre_buffer text = {0};
    const char *name;
    json_t *value;
    size_t rows = 0;
    cadre_buffer_puts(&text, "{ extern int printf(const char *, ...); extern char *strdup(const "
                             "char *); printf(\"%-24s %-16s %-12s %-12s %s\\n\", \"name\", "
                             "\"type\", \"default\", \"value\", \"channel\");\n");
    for (size_t i = 0; i < list.count; i++) {
        const known_name *one = &list.items[i];
        bool is_given = json_object_get(given, one->name) != NULL;
        if (strcmp(one->kind, "variable") != 0 || (!is_given && !is_setting(one))) continue;
        const char *initial = shorten(&list, one->initial, 60), *channel = "default";
        if (is_given) {
            const char *from =
                json_string_value(json_object_get(call->request->channels, one->name));
            channel = from ? from : "given";
        }
        const char *type = type_of(&list, one);
        if (!strcmp(type, "_Bool")) { /* as it was written: bool and true are macros */
            type = "bool";
            initial = !strcmp(initial, "1") ? "true" : !strcmp(initial, "0") ? "false" : initial;
        }
        bool is_list = strchr(one->shown, '[') || strchr(one->initial, '{');
        char *json = is_list && is_given
                         ? json_dumps(json_object_get(given, one->name), JSON_ENCODE_ANY)
                         : NULL;
        const char *shown =
            is_list ? cell_arena_printf(
                          list.arena, "strdup(%s)",
                          magic_literal(call, json ? json : initial, strlen(json ? json : initial)))
                    : cell_arena_printf(list.arena,
                                        "cadre_value_text(&%s, sizeof %s, CADRE_KIND_OF(%s))",
                                        one->name, one->name, one->name);
        add_row(call, &text, one->name, type, initial, shown, channel);
        free(json);
        rows++;
    }
    json_object_foreach((json_t *)given, name, value)
    {
        if (find_name(&list, name)) continue;
        const char *from = json_string_value(json_object_get(call->request->channels, name));
        char *json = json_dumps(value, JSON_ENCODE_ANY);
        const char *shown = json ? json : "";
        char *literal = magic_literal(call, name, strlen(name));
        literal[strlen(literal) - 1] = 0; /* the row quotes it */
        add_row(
            call, &text, literal + 1, "(not declared)", "",
            cell_arena_printf(list.arena, "strdup(%s)", magic_literal(call, shown, strlen(shown))),
            from ? from : "given");
        free(json);
        rows++;
    }
    cadre_buffer_puts(&text, "}\n");
    char *whole = cadre_buffer_steal(&text);
    if (!whole) return magic_no_memory(call);
    magic_insert(call, rows ? cell_arena_copy(list.arena, whole, strlen(whole))
                            : "{ extern int printf(const char *, ...); printf(\"there are no "
                              "parameters\\n\"); }\n");
    free(whole);
    return 0;
}

/* --- machine code --------------------------------------------------------------------------- */

int magic_asm(magic_call *call)
{
    if (call->words.count != 1)
        return cadre_error_set(call->error, CADRE_EINPUT, "it is %%asm FUNCTION");
    magic_insert(call, cell_arena_printf(call->reading->arena,
                                         "{ extern void cadre_hook_asm(const char *, const void "
                                         "*); cadre_hook_asm(%s, (const void *)",
                                         magic_literal(call, call->words.items[0],
                                                       strlen(call->words.items[0]))));
    /* The name as it stands there: an error is told in its place. */
    magic_insert_source(call, call->rest_offset, call->rest_end);
    magic_insert(call, "); }\n");
    return 0;
}
