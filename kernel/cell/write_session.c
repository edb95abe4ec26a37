/* Declares again what a unit uses of earlier cells. */
#include "cell/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
cell_entry *cell_write_earlier(const writer *w, int space, const char *name)
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

void cell_write_collect(writer *w)
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
void cell_write_sift(writer *w)
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

bool cell_write_header_has(const writer *w, const char *name)
{
    return w->t->headers && cell_map_get(&w->t->headers->names, name, strlen(name));
}

/* A later header declares a name that the session has: the C name is another one, the symbol
 * stays. */
static bool collides(const writer *w, const cell_entry *entry)
{
    return !entry->spelling && entry->label_at && cell_write_header_has(w, entry->name) &&
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

void cell_write_alias(writer *w, alias a)
{
    CELL_PUSH(w->t->arena, &w->aliases, a);
    cell_map_put(w->t->arena, &w->t->aliases, a.name, strlen(a.name), (void *)a.name);
    cell_emit_generated(&w->e, "#define %s %s\n", a.name, a.meaning);
}

/* What libgcc wants to know about a thread-local object. Each thread's copy is made when it is
 * first asked for, so no linker is needed and such cells are loaded like any other. */
void cell_write_threads(writer *w)
{
    if (w->knows_threads) return;
    w->knows_threads = true;
    cell_emit_generated(&w->e, "struct cadre_thread { unsigned long size, align; void *index, "
                               "*initial; };\nvoid *__emutls_get_address(void *);\n");
}

void cell_write_session(writer *w)
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
        cell_write_threads(w);
        cell_emit_generated(&w->e, "extern struct cadre_thread %s$tls;\n", entry->name);
        cell_write_alias(w,
                         (alias){.name = entry->name, .meaning = entry->place, .item = w->first});
    }
}
