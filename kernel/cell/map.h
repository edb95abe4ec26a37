/* A map from names to pointers, in an arena; the last one put under a name is found. Private to
 * kernel/cell. */
#ifndef CADRE_CELL_MAP_H
#define CADRE_CELL_MAP_H

#include "cell/tokens.h"

typedef struct cell_map_entry {
    struct cell_map_entry *next;
    const char *name; /* borrowed: must live as long as the map */
    uint32_t length, hash;
    void *value;
} cell_map_entry;

typedef struct cell_map {
    cell_map_entry **buckets;
    size_t bucket_count, count;
} cell_map;

void cell_map_put(cell_arena *arena, cell_map *map, const char *name, size_t length, void *value);
/* NULL: not there. */
void *cell_map_get(const cell_map *map, const char *name, size_t length);
void *cell_map_get_token(const cell_map *map, const token *name);

#endif
