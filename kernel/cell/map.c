#include "cell/map.h"

#include <string.h>

static void widen(cell_arena *arena, cell_map *map)
{
    size_t wider = map->bucket_count ? map->bucket_count * 2 : 32;
    cell_map_entry **buckets = cell_arena_take(arena, wider * sizeof *buckets);
    for (size_t i = 0; i < map->bucket_count; i++)
        for (cell_map_entry *at = map->buckets[i], *next; at; at = next) {
            next = at->next;
            cell_map_entry **bucket = &buckets[at->hash & (wider - 1)];
            at->next = *bucket;
            *bucket = at;
        }
    map->buckets = buckets;
    map->bucket_count = wider;
}

static cell_map_entry *find(const cell_map *map, const char *name, size_t length, uint32_t hash)
{
    if (!map->bucket_count) return NULL;
    cell_map_entry *e = map->buckets[hash & (map->bucket_count - 1)];
    for (; e; e = e->next)
        if (e->hash == hash && e->length == length && !memcmp(e->name, name, length)) return e;
    return NULL;
}

void cell_map_put(cell_arena *arena, cell_map *map, const char *name, size_t length, void *value)
{
    uint32_t hash = cell_hash(name, length);
    cell_map_entry *e = find(map, name, length, hash);
    if (!e) {
        if (map->count >= map->bucket_count) widen(arena, map);
        e = cell_arena_take(arena, sizeof *e);
        e->name = name;
        e->length = (uint32_t)length;
        e->hash = hash;
        cell_map_entry **bucket = &map->buckets[hash & (map->bucket_count - 1)];
        e->next = *bucket;
        *bucket = e;
        map->count++;
    }
    e->value = value;
}

void *cell_map_get(const cell_map *map, const char *name, size_t length)
{
    cell_map_entry *e = find(map, name, length, cell_hash(name, length));
    return e ? e->value : NULL;
}

void *cell_map_get_token(const cell_map *map, const token *name)
{
    cell_map_entry *e = find(map, name->text, name->length, name->hash);
    return e ? e->value : NULL;
}
