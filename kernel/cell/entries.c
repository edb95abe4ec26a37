#include "cell/entries.h"

#include <stdlib.h>
#include <string.h>

/* Longer initialisers, in tokens, are data and no setting. */
enum { SHOWN_INITIALISER = 64 };

/* Attributes that belong to a definition and must not be repeated by later declarations. */
static bool belongs_to_definition(const token *name)
{
    static const char *const names[] = {
        "alias",
        "always_inline",
        "cold",
        "constructor",
        "destructor",
        "flatten",
        "gnu_inline",
        "hot",
        "ifunc",
        "naked",
        "no_instrument_function",
        "noclone",
        "noinline",
        "noipa",
        "optimize",
        "section",
        "simd",
        "target",
        "target_clones",
        "unused",
        "used",
        "visibility",
        "weak",
        "weakref",
        "cleanup",
        "externally_visible",
        "retain",
        "artificial",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (name->length == n && !memcmp(name->text, names[i], n)) return true;
        if (name->length == n + 4 && !memcmp(name->text, "__", 2) &&
            !memcmp(name->text + 2, names[i], n))
            return true;
    }
    return false;
}

/* Copies __attribute__((...)) without what belongs to the definition. */
static size_t copy_attribute(cell_translator *t, const token *items, size_t at, size_t end,
                             token_list *out)
{
    size_t after = cell_skip_attributes(items, end, at);
    bool is_attribute = items[at].kind == TOKEN_NAME && items[at].keyword == KEYWORD_ATTRIBUTE;
    for (size_t i = at; is_attribute && i + 2 < after; i++)
        if (items[i].kind == TOKEN_NAME && belongs_to_definition(&items[i])) return after;
    for (size_t i = at; i < after; i++)
        CELL_PUSH(t->arena, out, items[i]);
    return after;
}

static token word(const char *text, const token *at)
{
    token t = *at;
    t.kind = TOKEN_NAME;
    t.keyword = KEYWORD_NONE;
    t.text = text;
    t.length = (uint32_t)strlen(text);
    t.hash = cell_hash(text, t.length);
    t.flags = TOKEN_SPACE_BEFORE;
    return t;
}

/* The specifiers without storage classes. The body of a type is left out when `body` is false; an
 * anonymous type gets `tag`. */
static void copy_specifiers(cell_translator *t, const declaration *d, bool body, const char *tag,
                            token_list *out)
{
    const token *items = t->reading->stream.items;
    const type_definition *type = &d->type;
    for (size_t i = d->specifiers.first; i < d->specifiers.end;) {
        const token *at = &items[i];
        size_t after = cell_skip_attributes(items, d->specifiers.end, i);
        if (after > i) {
            i = copy_attribute(t, items, i, d->specifiers.end, out);
            continue;
        }
        if (i == type->keyword) {
            CELL_PUSH(t->arena, out, *at);
            size_t name = cell_skip_attributes(items, d->specifiers.end, i + 1);
            for (size_t k = i + 1; body && k < name; k++)
                CELL_PUSH(t->arena, out, items[k]);
            if (type->tag != CELL_NOWHERE)
                CELL_PUSH(t->arena, out, items[type->tag]);
            else if (tag)
                CELL_PUSH(t->arena, out, word(tag, at));
            i = type->tag != CELL_NOWHERE ? type->tag + 1 : name;
            if (type->open != CELL_NOWHERE) {
                size_t end = cell_skip_attributes(items, d->specifiers.end, type->close + 1);
                for (size_t k = i; body && k < end; k++)
                    CELL_PUSH(t->arena, out, items[k]);
                i = end;
            }
            continue;
        }
        i++;
        if (at->kind == TOKEN_DIRECTIVE) continue;
        keyword k = at->kind == TOKEN_NAME ? (keyword)at->keyword : KEYWORD_NONE;
        bool storage = k == KEYWORD_STATIC || k == KEYWORD_INLINE || k == KEYWORD_REGISTER ||
                       k == KEYWORD_EXTERN || k == KEYWORD_TYPEDEF;
        if (storage) continue;
        CELL_PUSH(t->arena, out, *at);
        if (cell_token_punctuator(at, '(')) {
            size_t close = cell_tokens_match(items, d->specifiers.end, i - 1);
            for (; i <= close && i < d->specifiers.end; i++)
                CELL_PUSH(t->arena, out, items[i]);
        }
    }
}

static cell_entry *new_entry(cell_translator *t, entry_kind kind, const char *name, size_t length,
                             const token *at)
{
    cell_entry *entry = cell_entry_new(kind, name, length);
    if (!entry) longjmp(t->arena->recover, 1);
    CELL_PUSH(t->arena, &t->created, entry);
    entry->execution_count = t->execution_count;
    entry->line = at->line;
    entry->column = at->column;
    return entry;
}

/* The comment that ends before `at`: a block, or lines of // that stand on their own. */
static const char *comment_before(const char *text, const char *at)
{
    const char *end = at;
    size_t lines = 0;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n'))
        lines += *--end == '\n';
    if (end == text || lines > 1) return NULL;
    if (end - text >= 4 && end[-1] == '/' && end[-2] == '*') {
        for (const char *c = end - 4; c >= text; c--)
            if (c[0] == '/' && c[1] == '*') return c;
        return NULL;
    }
    const char *first = NULL;
    for (const char *line = end; line >= text;) {
        const char *start = line;
        while (start > text && start[-1] != '\n')
            start--;
        const char *word = start;
        while (*word == ' ' || *word == '\t')
            word++;
        if (word[0] != '/' || word[1] != '/') break;
        first = word;
        line = start - 1;
    }
    return first;
}

/* What inspection shows beside the declaration: the comment before it and its own text. */
static void note_origin(cell_translator *t, cell_entry *entry, const token *first,
                        const token *last)
{
    enum { COMMENT_LIMIT = 4 << 10, SOURCE_LIMIT = 16 << 10 };
    const cell_source *source = &t->reading->sources.items[first->source];
    const char *text = source->original ? source->original : source->text;
    if (first->offset > source->length) return;
    const char *at = text + first->offset, *comment = comment_before(text, at);
    if (comment && at - comment < COMMENT_LIMIT) {
        size_t length = (size_t)(at - comment);
        while (length && (comment[length - 1] == ' ' || comment[length - 1] == '\n' ||
                          comment[length - 1] == '\t'))
            length--;
        entry->comment = strndup(comment, length);
    }
    if (last->source == first->source && last->end >= first->offset &&
        last->end <= source->length && last->end - first->offset < SOURCE_LIMIT)
        entry->source = strndup(at, last->end - first->offset);
}

static void set_text(cell_translator *t, cell_entry *entry, const char *text)
{
    entry->text = strdup(text);
    if (!entry->text) longjmp(t->arena->recover, 1);
}

static bool add_word(cell_entry *entry, size_t *count, const token *name)
{
    for (size_t i = 0; i < *count; i++)
        if (strlen(entry->words[i]) == name->length &&
            !memcmp(entry->words[i], name->text, name->length))
            return true;
    char **grown = realloc(entry->words, (*count + 2) * sizeof *grown);
    if (!grown) return false;
    entry->words = grown;
    grown[*count] = strndup(name->text, name->length);
    if (!grown[*count]) return false;
    grown[++*count] = NULL;
    return true;
}

static bool add_need(cell_entry *entry, cell_entry *need)
{
    for (size_t i = 0; i < entry->need_count; i++)
        if (entry->needs[i] == need) return true;
    cell_entry **grown = realloc(entry->needs, (entry->need_count + 1) * sizeof *grown);
    if (!grown) return false;
    entry->needs = grown;
    grown[entry->need_count++] = cell_entry_keep(need);
    return true;
}

bool cell_entry_resolve(cell_names *names, cell_entry *entry, bool all_names)
{
    cell_arena arena = {0};
    token_list tokens = {0};
    volatile bool done = false;
    for (char **old = entry->words; old && *old; old++)
        free(*old);
    free(entry->words);
    entry->words = NULL;
    if (setjmp(arena.recover)) goto out;
    cell_tokens_read_line(&arena, entry->text, strlen(entry->text), NULL, &tokens);
    size_t count = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const token *at = &tokens.items[i];
        if (at->kind != TOKEN_NAME || at->keyword != KEYWORD_NONE) continue;
        if (!add_word(entry, &count, at)) goto out;
        if (entry->kind == ENTRY_MACRO) continue;
        bool is_tag = i && tokens.items[i - 1].kind == TOKEN_NAME &&
                      (tokens.items[i - 1].keyword == KEYWORD_STRUCT ||
                       tokens.items[i - 1].keyword == KEYWORD_ENUM);
        bool is_member = i && (cell_token_punctuator(&tokens.items[i - 1], '.') ||
                               cell_token_punctuator(&tokens.items[i - 1], PUNCTUATOR('-', '>')));
        if (is_member) continue;
        cell_entry *need =
            cell_names_find(names, is_tag ? SPACE_TAG : SPACE_ORDINARY, at->text, at->length);
        if (need && need->kind == ENTRY_ENUMERATOR) need = need->provider;
        if (!need || need == entry || need->is_forward) continue;
        bool is_type = need->kind == ENTRY_TYPEDEF || need->kind == ENTRY_TAG;
        /* Its own name stands in its text too; a member may be named like a type. */
        bool own =
            !strcmp(need->name, entry->name) && cell_entry_space(need) == cell_entry_space(entry);
        if (own || (!is_type && !all_names)) continue;
        if (!add_need(entry, need)) goto out;
    }
    done = true;
out:
    cell_arena_free(&arena);
    return done;
}

/* A type that was defined under #pragma pack is so whenever it is declared again. */
static const char *with_pack(cell_translator *t, const char *text)
{
    if (!t->pack) return text;
    return cell_arena_printf(t->arena, "_Pragma(\"pack(push, %s)\") %s _Pragma(\"pack(pop)\")",
                             t->pack, text);
}

static void resolve(cell_translator *t, cell_entry *entry, bool all_names)
{
    if (!cell_entry_resolve(t->names, entry, all_names)) longjmp(t->arena->recover, 1);
}

cell_entry *cell_entry_for_tag(cell_translator *t, const declaration *d, const char *tag)
{
    const token *items = t->reading->stream.items;
    const type_definition *type = &d->type;
    const token *at = &items[type->keyword];
    token_list text = {0};
    /* Only the type itself: `struct p { ... } __attribute__((packed))`. */
    size_t end = cell_skip_attributes(items, d->specifiers.end, type->close + 1);
    CELL_PUSH(t->arena, &text, *at);
    size_t name = cell_skip_attributes(items, d->specifiers.end, type->keyword + 1);
    for (size_t k = type->keyword + 1; k < name; k++)
        CELL_PUSH(t->arena, &text, items[k]);
    bool is_enum = at->keyword == KEYWORD_ENUM;
    char *given = NULL;
    if (type->tag == CELL_NOWHERE) {
        if (!tag && is_enum && type->close > type->open + 1)
            given = cell_arena_printf(t->arena, "%.*s$enum", (int)items[type->open + 1].length,
                                      items[type->open + 1].text);
        if (tag || given) CELL_PUSH(t->arena, &text, word(tag ? tag : given, at));
    }
    for (size_t k = name; k < end; k++)
        if (items[k].kind != TOKEN_DIRECTIVE) CELL_PUSH(t->arena, &text, items[k]);
    cell_entry *entry;
    if (type->tag != CELL_NOWHERE)
        entry = new_entry(t, ENTRY_TAG, items[type->tag].text, items[type->tag].length,
                          &items[type->tag]);
    else
        entry = new_entry(t, ENTRY_TAG,
                          tag     ? tag
                          : given ? given
                                  : "",
                          tag     ? strlen(tag)
                          : given ? strlen(given)
                                  : 0,
                          at);
    const char *line = cell_tokens_text(t->arena, text.items, text.count);
    entry->shown = strdup(line);
    set_text(t, entry, with_pack(t, cell_arena_printf(t->arena, "%s;", line)));
    resolve(t, entry, false);
    note_origin(t, entry, &items[d->specifiers.first], &items[d->end - 1]);
    return entry;
}

cell_entry *cell_entry_for_forward(cell_translator *t, const declaration *d)
{
    const token *items = t->reading->stream.items;
    const token *tag = &items[d->type.tag], *kind = &items[d->type.keyword];
    cell_entry *entry = new_entry(t, ENTRY_TAG, tag->text, tag->length, tag);
    entry->is_forward = true;
    set_text(t, entry,
             cell_arena_printf(t->arena, "%.*s %.*s;", (int)kind->length, kind->text,
                               (int)tag->length, tag->text));
    entry->shown = strdup(entry->text);
    return entry;
}

cell_entry *cell_entry_for_enumerator(cell_translator *t, const token *name, cell_entry *provider)
{
    cell_entry *entry = new_entry(t, ENTRY_ENUMERATOR, name->text, name->length, name);
    entry->provider = cell_entry_keep(provider);
    set_text(t, entry, "");
    entry->shown = strndup(name->text, name->length);
    return entry;
}

/* Where bounds are put later (arrays whose size the text does not tell). */
static void note_bound(cell_translator *t, cell_entry *entry, size_t offset)
{
    size_t *grown = realloc(entry->dimension_at, (entry->bracket_count + 1) * sizeof *grown);
    if (!grown) longjmp(t->arena->recover, 1);
    entry->dimension_at = grown;
    grown[entry->bracket_count++] = offset;
}

/* The declarator as later declarations need it. `hollow`: all its bounds are left empty. */
static void copy_declarator(cell_translator *t, const declarator *one, bool hollow, token_list *out,
                            size_t *label_after)
{
    const token *items = t->reading->stream.items;
    bool is_list = one->is_function && one->parameters.end > one->parameters.first;
    size_t count;
    range *parts = cell_parameters_split(t->arena, items, one->parameters, &count);
    cell_oracle oracle;
    cell_translator_oracle(t, &oracle);
    for (size_t k = 0; is_list && k < count; k++) /* old style: names without types */
        if (parts[k].end - parts[k].first != 1 || items[parts[k].first].keyword != KEYWORD_NONE ||
            items[parts[k].first].kind != TOKEN_NAME ||
            oracle.kind(oracle.context, &items[parts[k].first]) == NAME_TYPE)
            is_list = false;
    for (size_t i = one->whole.first; i < one->whole.end;) {
        size_t after = cell_skip_attributes(items, one->whole.end, i);
        if (after > i) {
            i = copy_attribute(t, items, i, one->whole.end, out);
            continue;
        }
        if (items[i].kind == TOKEN_NAME && items[i].keyword == KEYWORD_ASM)
            *label_after = CELL_NOWHERE;
        bool skip = is_list && i >= one->parameters.first && i < one->parameters.end;
        for (size_t b = 0; hollow && b < one->bracket_count; b++)
            skip |= i >= one->brackets[b].first && i < one->brackets[b].end;
        if (!skip && items[i].kind != TOKEN_DIRECTIVE) CELL_PUSH(t->arena, out, items[i]);
        i++;
        if (*label_after != CELL_NOWHERE) *label_after = out->count;
    }
}

static size_t text_length(cell_translator *t, const token_list *list, size_t count)
{
    return strlen(cell_tokens_text(t->arena, list->items, count));
}

cell_entry *cell_entry_for_declarator(cell_translator *t, const declaration *d,
                                      const declarator *one, cell_entry *type, const char *tag)
{
    const token *items = t->reading->stream.items;
    const token *name = &items[one->name];
    entry_kind kind = d->is_typedef      ? ENTRY_TYPEDEF
                      : one->is_function ? ENTRY_FUNCTION
                                         : ENTRY_VARIABLE;
    bool hollow = false;
    if (kind == ENTRY_VARIABLE)
        for (size_t b = 0; b < one->bracket_count; b++)
            hollow |=
                !cell_is_constant(t, items, one->brackets[b].first, one->brackets[b].end, true);
    cell_entry *entry = new_entry(t, kind, name->text, name->length, name);
    entry->is_runtime = hollow;
    entry->is_thread = d->is_thread && d->is_extern;
    token_list text = {0};
    bool named_type = type && (type->kind == ENTRY_TAG) && (tag || d->type.tag != CELL_NOWHERE);
    copy_specifiers(t, d, !named_type, tag, &text);
    if (!text.count && kind != ENTRY_TYPEDEF) CELL_PUSH(t->arena, &text, word("int", name));
    size_t specifiers = text.count, label_after = 0;
    copy_declarator(t, one, hollow, &text, &label_after);
    static const char *const starts[] = {"extern ", "", "typedef "};
    const char *start = starts[kind == ENTRY_VARIABLE ? 0 : kind == ENTRY_FUNCTION ? 1 : 2];
    const char *line = cell_tokens_text(t->arena, text.items, text.count);
    entry->shown = strdup(line);
    if (kind == ENTRY_VARIABLE && one->initialiser.end > one->initialiser.first &&
        one->initialiser.end - one->initialiser.first <= SHOWN_INITIALISER)
        entry->initial = strdup(cell_tokens_text(t->arena, items + one->initialiser.first,
                                                 one->initialiser.end - one->initialiser.first));
    for (size_t i = one->name; label_after == CELL_NOWHERE && i + 2 < one->whole.end; i++)
        if (items[i].keyword == KEYWORD_ASM && items[i].kind == TOKEN_NAME &&
            items[i + 2].kind == TOKEN_STRING && items[i + 2].length > 2)
            entry->label = strndup(items[i + 2].text + 1, items[i + 2].length - 2);
    if (label_after != CELL_NOWHERE && kind != ENTRY_TYPEDEF)
        entry->label_at = strlen(start) + text_length(t, &text, label_after);
    if (hollow || (one->unsized && kind == ENTRY_VARIABLE))
        for (size_t i = specifiers; i + 1 < text.count; i++)
            if (cell_token_punctuator(&text.items[i], '[') &&
                cell_token_punctuator(&text.items[i + 1], ']'))
                note_bound(t, entry, strlen(start) + text_length(t, &text, i + 1));
    const char *whole = cell_arena_printf(t->arena, "%s%s;", start, line);
    bool has_body = d->type.open != CELL_NOWHERE && !named_type;
    set_text(t, entry, has_body && kind == ENTRY_TYPEDEF ? with_pack(t, whole) : whole);
    resolve(t, entry, d->has_typeof || d->is_auto_type);
    if (type && !named_type && type->kind != ENTRY_TAG) entry->provider = cell_entry_keep(type);
    note_origin(t, entry, &items[d->specifiers.first], &items[d->end - 1]);
    return entry;
}

void cell_entry_carry_label(cell_translator *t, cell_entry *entry, const cell_entry *before)
{
    if (!before || !before->label || entry->label || !entry->label_at ||
        before->kind != entry->kind)
        return;
    char *text = cell_arena_printf(t->arena, "%.*s __asm__(\"%s\")%s", (int)entry->label_at,
                                   entry->text, before->label, entry->text + entry->label_at);
    free(entry->text);
    set_text(t, entry, text);
    entry->label_at = 0;
    entry->label = strdup(before->label);
    if (!entry->label) longjmp(t->arena->recover, 1);
}

cell_entry *cell_entry_for_macro(cell_translator *t, const token *directive)
{
    const char *name, *rest;
    size_t name_length, rest_length;
    cell_directive_split(directive, &name, &name_length, &rest, &rest_length);
    token_list tokens = {0};
    cell_tokens_read_line(t->arena, rest, rest_length, directive, &tokens);
    if (!tokens.count || tokens.items[0].kind != TOKEN_NAME) return NULL;
    tokens.items[0].flags = 0;
    cell_entry *entry =
        new_entry(t, ENTRY_MACRO, tokens.items[0].text, tokens.items[0].length, directive);
    char *line = cell_tokens_text(t->arena, tokens.items, tokens.count);
    set_text(t, entry, cell_arena_printf(t->arena, "#define %s", line));
    entry->shown = strdup(entry->text);
    resolve(t, entry, false);
    note_origin(t, entry, directive, directive);
    return entry;
}

cell_entry *cell_entry_for_undef(cell_translator *t, const char *name, size_t length,
                                 const token *at)
{
    cell_entry *entry = new_entry(t, ENTRY_MACRO, name, length, at);
    entry->is_hidden = true;
    set_text(t, entry, cell_arena_printf(t->arena, "#undef %s", entry->name));
    entry->shown = strdup(entry->text);
    return entry;
}
