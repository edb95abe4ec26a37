#include "data/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error_handler.h"

struct cadre_slices {
    const cadre_table *table;
    cadre_slice *slices;
    char **names;
    size_t count;
    uint32_t *rows; /* of all slices, one after the other */
    size_t row_count, skipped;
};

#define NO_GROUP UINT32_MAX

/* The values of a key column as numbers from 0 in the order in which slices shall come. */
typedef struct key_codes {
    uint32_t *codes; /* per row; NO_GROUP: missing */
    size_t count;    /* different values */
    uint32_t *level; /* of a text column: the level of a code */
    int64_t *whole;  /* of a column of whole numbers: the value of a code */
} key_codes;

static void codes_free(key_codes *key)
{
    free(key->codes);
    free(key->level);
    free(key->whole);
}

static int compare_levels(const void *a, const void *b, void *levels)
{
    const dictionary *d = levels;
    return strcmp(dictionary_text(d, (int32_t) * (const uint32_t *)a),
                  dictionary_text(d, (int32_t) * (const uint32_t *)b));
}

static int code_texts(const cadre_table *table, const table_column *column, key_codes *key)
{
    size_t count = column->levels.count;
    const int32_t *texts = column->values;
    key->level = malloc((count + 1) * sizeof *key->level);
    uint32_t *rank = malloc((count + 1) * sizeof *rank);
    if (!key->level || !rank) {
        free(rank);
        return CADRE_EMEMORY;
    }
    for (size_t i = 0; i < count; i++)
        key->level[i] = (uint32_t)i;
    qsort_r(key->level, count, sizeof *key->level, compare_levels, (void *)&column->levels);
    for (size_t i = 0; i < count; i++)
        rank[key->level[i]] = (uint32_t)i;
    for (size_t row = 0; row < table->rows; row++)
        key->codes[row] = texts[row] < 0 ? NO_GROUP : rank[texts[row]];
    key->count = count;
    free(rank);
    return 0;
}

static int compare_wholes(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t find_whole(const int64_t *values, size_t count, int64_t value)
{
    size_t low = 0;
    while (count > 1) {
        size_t half = count / 2;
        if (values[low + half] <= value) low += half;
        count -= half;
    }
    return values[low] == value ? (uint32_t)low : NO_GROUP;
}

/* The different values, sorted: a chunk at a time, so that a long column of few values needs
 * little memory. */
static int collect_wholes(const int64_t *values, size_t rows, key_codes *key)
{
    size_t capacity = 0, used = 0, limit = 4096;
    for (size_t row = 0; row <= rows; row++) {
        if (row == rows || used == capacity) {
            qsort(key->whole, used, sizeof *key->whole, compare_wholes);
            size_t kept = 0;
            for (size_t i = 0; i < used; i++)
                if (!kept || key->whole[kept - 1] != key->whole[i])
                    key->whole[kept++] = key->whole[i];
            used = kept;
            if (row == rows) break;
            while (limit < 2 * used)
                limit *= 2;
            if (limit > capacity) {
                void *more = realloc(key->whole, limit * sizeof *key->whole);
                if (!more) return CADRE_EMEMORY;
                key->whole = more;
                capacity = limit;
            }
        }
        if (values[row] != CADRE_INT64_MISSING && (!used || key->whole[used - 1] != values[row]))
            key->whole[used++] = values[row];
    }
    key->count = used;
    return 0;
}

static int code_wholes(const cadre_table *table, const table_column *column, key_codes *key)
{
    const int64_t *values = column->values;
    /* qsort takes no NULL: there is room for one at least. */
    key->whole = malloc(sizeof *key->whole);
    if (!key->whole || collect_wholes(values, table->rows, key) < 0) return CADRE_EMEMORY;
    if (!key->count) {
        for (size_t row = 0; row < table->rows; row++)
            key->codes[row] = NO_GROUP;
        return 0;
    }
    /* Values close together, as days or store numbers are, are looked up in a table. */
    uint64_t span = (uint64_t)key->whole[key->count - 1] - (uint64_t)key->whole[0];
    uint32_t *direct = span < (uint64_t)4 << 20 ? malloc((span + 1) * sizeof *direct) : NULL;
    for (size_t i = 0; direct && i < key->count; i++)
        direct[key->whole[i] - key->whole[0]] = (uint32_t)i;
    for (size_t row = 0; row < table->rows; row++)
        key->codes[row] = values[row] == CADRE_INT64_MISSING ? NO_GROUP
                          : direct                           ? direct[values[row] - key->whole[0]]
                                   : find_whole(key->whole, key->count, values[row]);
    free(direct);
    return 0;
}

static int code_column(const cadre_table *table, const char *name, key_codes *key,
                       cadre_error *error)
{
    long index = cadre_table_require(table, name, error);
    if (index < 0) return (int)index;
    const table_column *column = &table->columns[index];
    int status = CADRE_EMEMORY;
    if (column->type == CADRE_DOUBLE)
        return cadre_error_set(error, CADRE_EINPUT,
                               "column '%s' holds numbers with fractions; slices need a column of "
                               "text or whole numbers",
                               name);
    key->codes = malloc((table->rows + 1) * sizeof *key->codes);
    if (key->codes && column->type == CADRE_TEXT) status = code_texts(table, column, key);
    if (key->codes && column->type == CADRE_INT64) status = code_wholes(table, column, key);
    if (status < 0) cadre_error_set(error, status, "no memory for slices by column '%s'", name);
    return status;
}

/* Pairs (group so far, code) to new groups, numbered as they come: a small hash table. */
typedef struct pair_table {
    uint64_t *pairs;
    uint32_t *groups;
    size_t size, count;
} pair_table;

static bool pair_table_grow(pair_table *pairs)
{
    pair_table fresh = {.size = pairs->size ? 2 * pairs->size : 256, .count = pairs->count};
    fresh.pairs = calloc(fresh.size, sizeof *fresh.pairs);
    fresh.groups = malloc(fresh.size * sizeof *fresh.groups);
    if (!fresh.pairs || !fresh.groups) {
        free(fresh.pairs);
        free(fresh.groups);
        return false;
    }
    memset(fresh.groups, 0xFF, fresh.size * sizeof *fresh.groups);
    for (size_t i = 0; i < pairs->size; i++) {
        if (pairs->groups[i] == NO_GROUP) continue;
        size_t at = dictionary_hash(1, pairs->pairs[i], 8) & (fresh.size - 1);
        while (fresh.groups[at] != NO_GROUP)
            at = (at + 1) & (fresh.size - 1);
        fresh.pairs[at] = pairs->pairs[i];
        fresh.groups[at] = pairs->groups[i];
    }
    free(pairs->pairs);
    free(pairs->groups);
    *pairs = fresh;
    return true;
}

static uint32_t pair_table_add(pair_table *pairs, uint64_t pair)
{
    if (2 * (pairs->count + 1) > pairs->size && !pair_table_grow(pairs)) return NO_GROUP;
    size_t at = dictionary_hash(1, pair, 8) & (pairs->size - 1);
    for (; pairs->groups[at] != NO_GROUP; at = (at + 1) & (pairs->size - 1))
        if (pairs->pairs[at] == pair) return pairs->groups[at];
    pairs->pairs[at] = pair;
    return pairs->groups[at] = (uint32_t)pairs->count++;
}

/* Refines the groups of rows by one more key. */
static int refine(uint32_t *groups, size_t rows, const key_codes *key, size_t *group_count)
{
    pair_table pairs = {0};
    bool failed = false;
    for (size_t row = 0; row < rows && !failed; row++) {
        if (groups[row] == NO_GROUP) continue;
        if (key->codes[row] == NO_GROUP) {
            groups[row] = NO_GROUP;
            continue;
        }
        groups[row] = pair_table_add(&pairs, (uint64_t)groups[row] << 32 | key->codes[row]);
        failed = groups[row] == NO_GROUP;
    }
    *group_count = pairs.count;
    free(pairs.pairs);
    free(pairs.groups);
    return failed ? CADRE_EMEMORY : 0;
}

/* A key value in a name: '/' separates, so one inside is written %2F, and % itself %25. */
static void append_escaped(cadre_buffer *name, const char *text)
{
    for (; *text; text++) {
        if (*text == '/')
            cadre_buffer_puts(name, "%2F");
        else if (*text == '%')
            cadre_buffer_puts(name, "%25");
        else
            cadre_buffer_append(name, text, 1);
    }
}

static char *name_of(const cadre_table *table, const long *columns, const key_codes *keys,
                     size_t key_count, uint32_t row)
{
    cadre_buffer name = {0};
    for (size_t i = 0; i < key_count; i++) {
        uint32_t code = keys[i].codes[row];
        if (i) cadre_buffer_puts(&name, "/");
        if (keys[i].whole)
            cadre_buffer_printf(&name, "%" PRId64, keys[i].whole[code]);
        else
            append_escaped(&name, dictionary_text(&table->columns[columns[i]].levels,
                                                  (int32_t)keys[i].level[code]));
    }
    return cadre_buffer_steal(&name);
}

typedef struct group_order {
    const key_codes *keys;
    size_t key_count;
    const uint32_t *first_row; /* of each group */
} group_order;

static int compare_groups(const void *a, const void *b, void *order_pointer)
{
    const group_order *order = order_pointer;
    uint32_t x = order->first_row[*(const uint32_t *)a], y = order->first_row[*(const uint32_t *)b];
    for (size_t i = 0; i < order->key_count; i++) {
        uint32_t p = order->keys[i].codes[x], q = order->keys[i].codes[y];
        if (p != q) return p < q ? -1 : 1;
    }
    return 0;
}

static cadre_slices *slices_new(const cadre_table *table, size_t count, size_t rows)
{
    cadre_slices *slices = calloc(1, sizeof *slices);
    if (!slices) return NULL;
    slices->table = table;
    slices->slices = calloc(count + 1, sizeof *slices->slices);
    slices->names = calloc(count + 1, sizeof *slices->names);
    slices->rows = malloc((rows + 1) * sizeof *slices->rows);
    if (slices->slices && slices->names && slices->rows) return slices;
    cadre_slices_free(slices);
    return NULL;
}

void cadre_slices_free(cadre_slices *slices)
{
    if (!slices) return;
    for (size_t i = 0; i < slices->count; i++)
        free(slices->names[i]);
    free(slices->slices);
    free(slices->names);
    free(slices->rows);
    free(slices);
}

/* Adds the next slice; its rows are those at the end of slices->rows that are not taken yet. */
static void append_slice(cadre_slices *slices, char *name, size_t row_count)
{
    size_t index = slices->count++;
    slices->names[index] = name;
    slices->slices[index] = (cadre_slice){.table = slices->table,
                                          .name = name,
                                          .index = index,
                                          .rows = slices->rows + slices->row_count,
                                          .row_count = row_count};
    slices->row_count += row_count;
}

/* Groups of rows, numbered as they come, to slices in the order of their keys. */
static cadre_slices *arrange(const cadre_table *table, const long *columns, const key_codes *keys,
                             size_t key_count, const uint32_t *groups, size_t group_count)
{
    cadre_slices *slices = slices_new(table, group_count, table->rows);
    uint32_t *first_row = malloc((group_count + 1) * sizeof *first_row);
    uint32_t *order = malloc((group_count + 1) * sizeof *order);
    uint32_t *place = calloc(group_count + 1, sizeof *place); /* rows, then where the next goes */
    bool done = false;
    if (!slices || !first_row || !order || !place) goto end;
    for (uint32_t row = 0; row < table->rows; row++) {
        if (groups[row] == NO_GROUP)
            slices->skipped++;
        else if (!place[groups[row]]++)
            first_row[groups[row]] = row;
    }
    for (size_t i = 0; i < group_count; i++)
        order[i] = (uint32_t)i;
    group_order by_key = {keys, key_count, first_row};
    qsort_r(order, group_count, sizeof *order, compare_groups, &by_key);
    for (size_t i = 0; i < group_count; i++) {
        uint32_t group = order[i], rows = place[group];
        char *name = name_of(table, columns, keys, key_count, first_row[group]);
        if (!name) goto end;
        place[group] = (uint32_t)slices->row_count;
        append_slice(slices, name, rows);
    }
    for (uint32_t row = 0; row < table->rows; row++)
        if (groups[row] != NO_GROUP) slices->rows[place[groups[row]]++] = row;
    done = true;
end:
    free(first_row);
    free(order);
    free(place);
    if (done) return slices;
    cadre_slices_free(slices);
    return NULL;
}

cadre_slices *cadre_slices_by_columns_with(const cadre_table *table, const char *const *names,
                                           cadre_error *error)
{
    enum { KEY_LIMIT = 16 };
    key_codes keys[KEY_LIMIT] = {0};
    long columns[KEY_LIMIT];
    size_t key_count = 0, group_count = 1;
    cadre_slices *slices = NULL;
    uint32_t *groups = NULL;
    cadre_error own;
    if (!error) error = &own;
    *error = (cadre_error){0};
    for (; names && names[key_count]; key_count++) {
        if (key_count == KEY_LIMIT) {
            cadre_error_set(error, CADRE_EINPUT, "slices by more than %d columns", KEY_LIMIT);
            goto done;
        }
        columns[key_count] = cadre_table_find(table, names[key_count]);
        if (code_column(table, names[key_count], &keys[key_count], error) < 0) {
            key_count++;
            goto done;
        }
    }
    if (!key_count) {
        cadre_error_set(error, CADRE_EINPUT, "slices by no column; name one at least");
        goto done;
    }
    groups = calloc(table->rows + 1, sizeof *groups);
    bool fits = groups;
    for (size_t i = 0; fits && i < key_count; i++)
        fits = refine(groups, table->rows, &keys[i], &group_count) == 0;
    if (fits) slices = arrange(table, columns, keys, key_count, groups, group_count);
    if (!slices) cadre_error_set(error, CADRE_EMEMORY, "no memory for the slices");
done:
    free(groups);
    for (size_t i = 0; i < key_count && i < KEY_LIMIT; i++)
        codes_free(&keys[i]);
    return slices;
}

cadre_slices *cadre_slices_by_columns(const cadre_table *table, const char *const *columns)
{
    cadre_error error;
    cadre_slices *slices = cadre_slices_by_columns_with(table, columns, &error);
    if (!slices) cadre_raise(&error);
    return slices;
}

size_t cadre_slices_count(const cadre_slices *slices)
{
    return slices ? slices->count : 0;
}

size_t cadre_slices_skipped(const cadre_slices *slices)
{
    return slices ? slices->skipped : 0;
}

const cadre_slice *cadre_slices_get(const cadre_slices *slices, size_t index)
{
    return slices && index < slices->count ? &slices->slices[index] : NULL;
}

/* Whole key values only: "U" does not select UA/EWR. */
static bool selects(const char *wanted, const char *name)
{
    size_t length = strlen(wanted);
    if (!length || !strcmp(wanted, "all")) return true;
    if (strncmp(name, wanted, length)) return false;
    return !name[length] || name[length] == '/' || wanted[length - 1] == '/';
}

cadre_slices *cadre_slices_select_with(const cadre_slices *slices, const char *name,
                                       cadre_error *error)
{
    if (!slices || !name) {
        cadre_error_set(error, CADRE_EINPUT, "there are no slices, or no name, to select");
        return NULL;
    }
    size_t count = 0, rows = 0;
    for (size_t i = 0; i < slices->count; i++)
        if (selects(name, slices->names[i])) count++, rows += slices->slices[i].row_count;
    if (!count && *name && strcmp(name, "all")) {
        cadre_buffer list = {0};
        size_t shown = 0;
        for (; shown < slices->count && list.length < 500; shown++)
            cadre_buffer_printf(&list, "%s%s", shown ? ", " : "", slices->names[shown]);
        if (shown < slices->count)
            cadre_buffer_printf(&list, " and %zu more", slices->count - shown);
        cadre_error_set(error, CADRE_ENOTFOUND, "there is no slice '%s'; the slices are %s", name,
                        list.data ? list.data : "");
        cadre_buffer_free(&list);
        return NULL;
    }
    cadre_slices *chosen = slices_new(slices->table, count, rows);
    if (!chosen) goto no_memory;
    chosen->skipped = slices->skipped;
    for (size_t i = 0; i < slices->count; i++) {
        const cadre_slice *slice = &slices->slices[i];
        if (!selects(name, slice->name)) continue;
        char *copy = strdup(slice->name);
        if (!copy) goto no_memory;
        memcpy(chosen->rows + chosen->row_count, slice->rows, slice->row_count * sizeof(uint32_t));
        append_slice(chosen, copy, slice->row_count);
    }
    return chosen;
no_memory:
    cadre_slices_free(chosen);
    cadre_error_set(error, CADRE_EMEMORY, "no memory for the slices");
    return NULL;
}

cadre_slices *cadre_slices_select(const cadre_slices *slices, const char *name)
{
    cadre_error error = {0};
    cadre_slices *chosen = cadre_slices_select_with(slices, name, &error);
    if (!chosen) cadre_raise(&error);
    return chosen;
}
