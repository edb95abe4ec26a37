#include "data/dictionary.h"

#include <stdlib.h>

/* The `length` % 8 first bytes of a word (little-endian). */
static uint64_t tail(uint64_t word, size_t length)
{
    return length & 7 ? word & (((uint64_t)1 << 8 * (length & 7)) - 1) : 0;
}

static uint64_t hash_text(uint64_t seed, const char *text, size_t length)
{
    uint64_t hash = dictionary_hash(seed, dictionary_head(text, length), length);
    size_t at = 8;
    for (; at + 8 <= length; at += 8)
        hash = dictionary_hash(seed ^ hash, dictionary_load(text + at), length);
    if (at < length)
        hash = dictionary_hash(seed ^ hash, tail(dictionary_load(text + at), length), length);
    return hash;
}

static bool equal(const dictionary *d, int32_t level, const char *text, size_t length)
{
    const struct dictionary_level *one = &d->levels[level];
    if (one->length != length) return false;
    const char *mine = d->bytes + one->offset;
    size_t at = 0;
    for (; at + 8 <= length; at += 8)
        if (dictionary_load(mine + at) != dictionary_load(text + at)) return false;
    return !(length & 7) || dictionary_load(mine + at) == tail(dictionary_load(text + at), length);
}

static bool grow_slots(dictionary *d)
{
    size_t count = d->slot_count ? d->slot_count * 2 : 64;
    dictionary_slot *slots = malloc(count * sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < count; i++)
        slots[i] = (dictionary_slot){.level = -1};
    for (size_t i = 0; i < d->slot_count; i++) {
        if (d->slots[i].level < 0) continue;
        int32_t level = d->slots[i].level;
        const char *text = dictionary_text(d, level);
        size_t at = hash_text(d->seed, text, d->levels[level].length) & (count - 1);
        while (slots[at].level >= 0)
            at = (at + 1) & (count - 1);
        slots[at] = d->slots[i];
    }
    free(d->slots);
    d->slots = slots;
    d->slot_count = count;
    return true;
}

static bool reserve(dictionary *d, size_t length)
{
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? d->capacity * 2 : 32;
        void *levels = realloc(d->levels, capacity * sizeof *d->levels);
        if (!levels) return false;
        d->levels = levels;
        d->capacity = capacity;
    }
    size_t need = d->bytes_used + length + 16;
    if (need > d->bytes_capacity) {
        size_t capacity = d->bytes_capacity ? d->bytes_capacity * 2 : 256;
        if (capacity < need) capacity = need;
        void *bytes = realloc(d->bytes, capacity);
        if (!bytes) return false;
        d->bytes = bytes;
        d->bytes_capacity = capacity;
    }
    return true;
}

int32_t cadre_dictionary_add(dictionary *d, const char *text, size_t length, bool *is_new)
{
    *is_new = false;
    /* Sorted files repeat the text of the row before. */
    if (d->count && equal(d, d->last, text, length)) return d->last;
    if (2 * (d->count + 1) > d->slot_count && !grow_slots(d)) return DICTIONARY_NO_MEMORY;
    uint64_t head = dictionary_head(text, length);
    size_t at = hash_text(d->seed, text, length) & (d->slot_count - 1);
    for (; d->slots[at].level >= 0; at = (at + 1) & (d->slot_count - 1))
        if (d->slots[at].head == head && d->slots[at].length == length &&
            equal(d, d->slots[at].level, text, length))
            return d->last = d->slots[at].level;
    if (d->count == INT32_MAX) return DICTIONARY_FULL;
    if (!reserve(d, length)) return DICTIONARY_NO_MEMORY;
    int32_t level = (int32_t)d->count++;
    d->levels[level] = (struct dictionary_level){d->bytes_used, length};
    size_t padded = (length | 7) + 1;
    memcpy(d->bytes + d->bytes_used, text, length);
    memset(d->bytes + d->bytes_used + length, 0, padded - length);
    d->bytes_used += padded;
    d->slots[at] = (dictionary_slot){head, (uint32_t)length, level};
    *is_new = true;
    return d->last = level;
}

void cadre_dictionary_finish(dictionary *d)
{
    free(d->slots);
    d->slots = NULL;
    d->slot_count = 0;
}

void cadre_dictionary_free(dictionary *d)
{
    free(d->bytes);
    free(d->levels);
    free(d->slots);
    *d = (dictionary){0};
}
