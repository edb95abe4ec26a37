/* Private to the runtime: the distinct texts of a column, numbered from 0 as they come. */
#ifndef CADRE_DATA_DICTIONARY_H
#define CADRE_DATA_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What callers must be able to read after a text that they look up: texts are hashed and compared
 * in words of eight bytes. */
#define DICTIONARY_PADDING 8

/* The first eight bytes and the length lie in the slot: for a short text one line of memory says
 * whether it is the right one. */
typedef struct dictionary_slot {
    uint64_t head;
    uint32_t length; /* that of a text longer than 4 GB is never needed: rows are limited */
    int32_t level;   /* -1: free */
} dictionary_slot;

typedef struct dictionary {
    /* The texts, each NUL-terminated, starting at a multiple of 8 and filled up with NULs. */
    char *bytes;
    size_t bytes_used, bytes_capacity;
    struct dictionary_level {
        size_t offset, length;
    } * levels;
    size_t count, capacity;
    dictionary_slot *slots; /* a power of two of them, at most half full */
    size_t slot_count;
    uint64_t seed;
    int32_t last; /* the level found last: sorted files repeat it */
} dictionary;

enum { DICTIONARY_NO_MEMORY = -2, DICTIONARY_FULL = -3 };

static inline uint64_t dictionary_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The first eight bytes of a text, NULs behind a shorter one. */
static inline uint64_t dictionary_head(const char *text, size_t length)
{
    uint64_t word = dictionary_load(text);
    return length >= 8 ? word : word & (((uint64_t)1 << 8 * length) - 1);
}

static inline uint64_t dictionary_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A multiply-and-fold hash. The seed differs per table, so that no file can be made whose texts
 * all meet in one slot. */
static inline uint64_t dictionary_hash(uint64_t seed, uint64_t head, size_t length)
{
    return dictionary_mix(head ^ seed, (0x9E3779B97F4A7C15u ^ seed) + 2 * length);
}

/* The level of a text of at most eight bytes that lies in its first slot, else -1: look closer
 * with cadre_dictionary_add. */
static inline int32_t dictionary_find_short(const dictionary *d, const char *text, size_t length)
{
    if (length > 8 || !d->slot_count) return -1;
    uint64_t head = dictionary_head(text, length);
    const dictionary_slot *slot =
        &d->slots[dictionary_hash(d->seed, head, length) & (d->slot_count - 1)];
    return slot->head == head && slot->length == length ? slot->level : -1;
}

/* `{0}` with a seed is an empty one. The level of the text, added when it is new (*is_new), or a
 * negative reason. DICTIONARY_PADDING bytes after the text must be readable. */
int32_t cadre_dictionary_add(dictionary *dictionary, const char *text, size_t length, bool *is_new);
/* Gives back what only adding needs. */
void cadre_dictionary_finish(dictionary *dictionary);
void cadre_dictionary_free(dictionary *dictionary);

static inline const char *dictionary_text(const dictionary *d, int32_t level)
{
    return d->bytes + d->levels[level].offset;
}

#endif
