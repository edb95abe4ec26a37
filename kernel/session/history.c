#include "session/history.h"

#include "wire/wire.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SESSION = 1, LIMIT = 64 << 20 };

typedef struct entry {
    int line;
    size_t length;
    char *input, *output; /* output: NULL when there was no value */
} entry;

struct history {
    entry *entries;
    size_t count, capacity, bytes;
};

history *history_new(void)
{
    return calloc(1, sizeof(history));
}

static void drop_first(history *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        self->bytes -= self->entries[i].length;
        free(self->entries[i].input);
        free(self->entries[i].output);
    }
    self->count -= count;
    memmove(self->entries, self->entries + count, self->count * sizeof *self->entries);
}

void history_free(history *self)
{
    if (!self) return;
    drop_first(self, self->count);
    free(self->entries);
    free(self);
}

void history_add(history *self, int line, const char *input, size_t length)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 64;
        entry *entries = realloc(self->entries, capacity * sizeof *entries);
        if (!entries) return;
        self->entries = entries;
        self->capacity = capacity;
    }
    char *copy = malloc(length + 1);
    if (!copy) return;
    memcpy(copy, input, length);
    copy[length] = 0;
    self->entries[self->count++] = (entry){line, length, copy, NULL};
    self->bytes += length;
    /* Half at a time, so that a long session does not move the whole list for each cell. */
    while (self->bytes > LIMIT && self->count > 1)
        drop_first(self, self->count / 2);
}

void history_set_output(history *self, int line, const char *output)
{
    if (self->count == 0 || self->entries[self->count - 1].line != line) return;
    entry *last = &self->entries[self->count - 1];
    free(last->output);
    last->output = strdup(output);
}

bool history_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || (*pattern == *text && *pattern)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static json_t *tuple(const entry *e, bool with_output)
{
    json_t *input = cadre_json_string(e->input, e->length);
    if (!with_output) return json_pack("[iio]", SESSION, e->line, input);
    json_t *output = e->output ? cadre_json_string(e->output, strlen(e->output)) : json_null();
    return json_pack("[ii[oo]]", SESSION, e->line, input, output);
}

/* An integer of the request, or `missing`. */
static long long number(const json_t *request, const char *key, long long missing)
{
    const json_t *value = json_object_get(request, key);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

static bool is_repeated(const history *self, size_t at)
{
    for (size_t i = at + 1; i < self->count; i++)
        if (strcmp(self->entries[i].input, self->entries[at].input) == 0) return true;
    return false;
}

json_t *history_answer(const history *self, const json_t *request)
{
    const char *type = json_string_value(json_object_get(request, "hist_access_type"));
    const char *pattern = json_string_value(json_object_get(request, "pattern"));
    bool with_output = json_is_true(json_object_get(request, "output"));
    bool unique = json_is_true(json_object_get(request, "unique"));
    bool is_range = type && strcmp(type, "range") == 0, is_search = type && !strcmp(type, "search");
    long long n = number(request, "n", is_range ? LLONG_MAX : is_search ? LLONG_MAX : 10);
    long long session = number(request, "session", 0);
    long long start = number(request, "start", 1), stop = number(request, "stop", LLONG_MAX);
    json_t *list = json_array();
    size_t *chosen = calloc(self->count + 1, sizeof *chosen), count = 0;
    if (!type || (!is_range && !is_search && strcmp(type, "tail") != 0) || n < 0) n = 0;
    if (is_range && session != 0 && session != SESSION) n = 0;
    /* From the newest back: the last n are wanted, oldest first. */
    for (size_t i = self->count; chosen && i-- > 0 && n > 0;) {
        const entry *e = &self->entries[i];
        if (is_range && (e->line < start || e->line >= stop)) continue;
        if (is_search && !history_matches(pattern ? pattern : "*", e->input)) continue;
        if (is_search && unique && is_repeated(self, i)) continue;
        chosen[count++] = i;
        n--;
    }
    while (count > 0)
        json_array_append_new(list, tuple(&self->entries[chosen[--count]], with_output));
    free(chosen);
    return json_pack("{ssso}", "status", "ok", "history", list);
}
