#include "cell/session.h"

#include <stdlib.h>
#include <string.h>

bool cell_words_add(cell_words *words, const char *text)
{
    char **grown = realloc(words->items, (words->count + 1) * sizeof *grown);
    if (!grown) return false;
    words->items = grown;
    grown[words->count] = strdup(text);
    return grown[words->count] && ++words->count;
}

bool cell_words_has(const cell_words *words, const char *text)
{
    for (size_t i = 0; i < words->count; i++)
        if (!strcmp(words->items[i], text)) return true;
    return false;
}

void cell_words_free(cell_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (cell_words){0};
}

static bool copy_words(cell_words *to, const cell_words *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!cell_words_add(to, from->items[i])) return false;
    return true;
}

cell_state *cell_state_new(const char *header_text)
{
    cell_state *state = calloc(1, sizeof *state);
    if (!state) return NULL;
    state->references = 1;
    state->header_text = strdup(header_text);
    state->applied = json_object();
    if (state->header_text && state->applied) return state;
    cell_state_release(state);
    return NULL;
}

cell_state *cell_state_copy(const cell_state *state)
{
    cell_state *copy = cell_state_new(state->header_text);
    if (!copy) return NULL;
    copy->headers = cell_headers_keep(state->headers);
    copy->snapshot = state->snapshot;
    if (copy_words(&copy->flags, &state->flags) && copy_words(&copy->link, &state->link) &&
        copy_words(&copy->libraries, &state->libraries) &&
        json_object_update(copy->applied, state->applied) == 0)
        return copy;
    cell_state_release(copy);
    return NULL;
}

cell_state *cell_state_keep(cell_state *state)
{
    if (state) state->references++;
    return state;
}

void cell_state_release(cell_state *state)
{
    if (!state || --state->references) return;
    cell_words_free(&state->flags);
    cell_words_free(&state->link);
    cell_words_free(&state->libraries);
    cell_headers_release(state->headers);
    json_decref(state->applied);
    free(state->header_text);
    free(state->folder);
    free(state);
}

uint32_t cell_murmur2(const void *bytes, size_t length, uint32_t seed)
{
    const uint32_t multiplier = 0x5bd1e995u;
    const unsigned char *at = bytes;
    uint32_t hash = seed ^ (uint32_t)length;
    for (; length >= 4; at += 4, length -= 4) {
        uint32_t word =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        word *= multiplier;
        hash = hash * multiplier ^ word;
    }
    if (length) {
        for (size_t i = length; i-- > 0;)
            hash ^= (uint32_t)at[i] << (8 * i);
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    return hash ^ hash >> 15;
}
