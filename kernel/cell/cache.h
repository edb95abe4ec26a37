/* A folder of results by name, shared by any number of processes. Private to kernel/cell.
 *
 *     cadre_cache *cache = cadre_cache_open(folder, 0);      NULL: there is no cache, which is fine
 *     unsigned char *bytes = cadre_cache_load(cache, name, &length);
 *     if (!bytes) cadre_cache_store(cache, name, parts, 2);  best effort
 *
 * A name is the hash of everything the result depends on, so an entry is never changed, only
 * replaced by one rename. An entry carries a checksum over name and content: one that is damaged
 * is as good as none. The least recently used entries go when the folder is above its limit.
 * Entries are code that will run, so the folder must be our own and closed to others (0700);
 * a folder that is not, or that cannot be made or written, only means no cache.
 */
#ifndef CADRE_CELL_CACHE_H
#define CADRE_CELL_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { CADRE_CACHE_NAME = 32 };

typedef struct cadre_cache cadre_cache;

typedef struct cadre_cache_part {
    const void *bytes;
    size_t length;
} cadre_cache_part;

/* Uses (and makes) `folder`/cells; limit in bytes, 0: 512 MB. New, or NULL. */
cadre_cache *cadre_cache_open(const char *folder, uint64_t limit);
void cadre_cache_close(cadre_cache *cache);

/* The content, new (free()), or NULL when there is none. `cache` may be NULL. */
unsigned char *cadre_cache_load(cadre_cache *cache, const unsigned char name[CADRE_CACHE_NAME],
                                size_t *length);
/* Keeps the parts, one after the other. Failing (a full disk) is silent. */
void cadre_cache_store(cadre_cache *cache, const unsigned char name[CADRE_CACHE_NAME],
                       const cadre_cache_part *parts, size_t count);

#endif
