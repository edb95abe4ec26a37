#include "cell/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_LIMIT = 100000 };

struct undo {
    uint64_t generation;
    int space;
    char *name;
    cell_entry *before;
};

cell_object *cell_object_new(const unsigned char *bytes, size_t length)
{
    cell_object *object = malloc(sizeof *object + length);
    if (!object) return NULL;
    object->references = 1;
    object->length = length;
    memcpy(object->bytes, bytes, length);
    return object;
}

cell_object *cell_object_keep(cell_object *object)
{
    if (object) object->references++;
    return object;
}

void cell_object_release(cell_object *object)
{
    if (object && --object->references == 0) free(object);
}

cell_entry *cell_entry_new(entry_kind kind, const char *name, size_t length)
{
    cell_entry *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->references = 1;
    entry->kind = kind;
    entry->name = strndup(name, length);
    if (!entry->name) {
        free(entry);
        return NULL;
    }
    return entry;
}

const char *cell_entry_symbol(const cell_entry *entry, char *buffer, size_t size)
{
    if (entry->label) return entry->label;
    if (!entry->place) return entry->spelling ? entry->spelling : entry->name;
    snprintf(buffer, size, "%s$tls", entry->name);
    return buffer;
}

cell_entry *cell_entry_keep(cell_entry *entry)
{
    if (entry) entry->references++;
    return entry;
}

void cell_entry_release(cell_entry *entry)
{
    if (!entry || --entry->references) return;
    for (size_t i = 0; i < entry->need_count; i++)
        cell_entry_release(entry->needs[i]);
    for (char **word = entry->words; word && *word; word++)
        free(*word);
    cell_entry_release(entry->provider);
    free(entry->needs);
    free(entry->words);
    free(entry->name);
    free(entry->text);
    free(entry->shown);
    free(entry->initial);
    free(entry->spelling);
    free(entry->label);
    free(entry->place);
    free(entry->signature);
    free(entry->comment);
    free(entry->source);
    cell_object_release(entry->object);
    free(entry->dimension_at);
    free(entry);
}

int cell_entry_space(const cell_entry *entry)
{
    return entry->kind == ENTRY_MACRO ? SPACE_MACRO
           : entry->kind == ENTRY_TAG ? SPACE_TAG
                                      : SPACE_ORDINARY;
}

cell_entry *cell_names_find(const cell_names *names, int space, const char *name, size_t length)
{
    return cell_map_get(&names->spaces[space], name, length);
}

static void forget_oldest(cell_names *names)
{
    size_t drop = names->log.count / 2;
    for (size_t i = 0; i < drop; i++) {
        free(names->log.items[i].name);
        cell_entry_release(names->log.items[i].before);
    }
    names->log.count -= drop;
    memmove(names->log.items, names->log.items + drop, names->log.count * sizeof *names->log.items);
}

static void set(cell_names *names, int space, const char *name, cell_entry *entry)
{
    cell_map *map = &names->spaces[space];
    size_t length = strlen(name);
    cell_entry *before = cell_map_get(map, name, length);
    const char *key = before ? name : cell_arena_copy(&names->arena, name, length);
    cell_map_put(&names->arena, map, key, length, cell_entry_keep(entry));
    cell_entry_release(before);
}

bool cell_names_put(cell_names *names, int space, const char *name, cell_entry *entry)
{
    if (names->log.count >= LOG_LIMIT) forget_oldest(names);
    if (names->log.count == names->log.capacity) {
        size_t capacity = names->log.capacity ? names->log.capacity * 2 : 64;
        struct undo *grown = realloc(names->log.items, capacity * sizeof *grown);
        if (!grown) return false;
        names->log.items = grown;
        names->log.capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy) return false;
    cell_entry *before = cell_names_find(names, space, name, strlen(name));
    names->log.items[names->log.count++] =
        (struct undo){names->generation, space, copy, cell_entry_keep(before)};
    set(names, space, name, entry);
    return true;
}

void cell_names_rewind(cell_names *names, uint64_t generation)
{
    while (names->log.count && names->log.items[names->log.count - 1].generation > generation) {
        struct undo *undo = &names->log.items[--names->log.count];
        set(names, undo->space, undo->name, undo->before);
        cell_entry_release(undo->before);
        free(undo->name);
    }
    if (names->generation > generation) names->generation = generation;
}

void cell_names_free(cell_names *names)
{
    for (size_t i = 0; i < names->log.count; i++) {
        free(names->log.items[i].name);
        cell_entry_release(names->log.items[i].before);
    }
    free(names->log.items);
    for (int space = 0; space < SPACE_COUNT; space++)
        for (size_t i = 0; i < names->spaces[space].bucket_count; i++)
            for (cell_map_entry *e = names->spaces[space].buckets[i]; e; e = e->next)
                cell_entry_release(e->value);
    cell_arena_free(&names->arena);
}

bool cell_entry_is_stale(cell_names *names, cell_entry *entry, cell_entry **changed)
{
    if (entry->checked != names->round) {
        entry->checked = names->round;
        entry->stale = false; /* also ends a cycle, which cannot be */
        for (size_t i = 0; i < entry->need_count && !entry->stale; i++) {
            cell_entry *need = entry->needs[i];
            entry->stale = cell_names_find(names, cell_entry_space(need), need->name,
                                           strlen(need->name)) != need ||
                           cell_entry_is_stale(names, need, NULL);
        }
        if (!entry->stale && entry->provider)
            entry->stale = cell_entry_is_stale(names, entry->provider, NULL);
    }
    if (entry->stale && changed) {
        *changed = entry;
        for (bool deeper = true; deeper;) {
            deeper = false;
            for (size_t i = 0; i < (*changed)->need_count && !deeper; i++) {
                cell_entry *need = (*changed)->needs[i];
                bool current = cell_names_find(names, cell_entry_space(need), need->name,
                                               strlen(need->name)) == need;
                if (!current || need->stale) {
                    *changed = need;
                    deeper = current;
                    if (!current) return true;
                }
            }
        }
    }
    return entry->stale;
}
