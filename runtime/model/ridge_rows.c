#include "model/ridge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t list_length(const char *const *names)
{
    size_t count = 0;
    while (names && names[count])
        count++;
    return count;
}

static int find_numeric(const cadre_table *table, const char *name, const table_column **column,
                        cadre_error *error)
{
    long index = cadre_table_require(table, name, error);
    if (index < 0) return (int)index;
    *column = &table->columns[index];
    cadre_column_prefetch(&table->columns[index], table->rows);
    if ((*column)->type != CADRE_TEXT) return CADRE_OK;
    return cadre_error_set(error, CADRE_EINPUT,
                           "column '%s' holds text; a numeric feature or target needs numbers "
                           "(text can be a categorical feature)",
                           name);
}

static int find_categorical(const cadre_table *table, const char *name, const table_column **column,
                            cadre_error *error)
{
    long index = cadre_table_require(table, name, error);
    if (index < 0) return (int)index;
    *column = &table->columns[index];
    cadre_column_prefetch(&table->columns[index], table->rows);
    if ((*column)->type != CADRE_DOUBLE) return CADRE_OK;
    return cadre_error_set(error, CADRE_EINPUT,
                           "column '%s' holds numbers with fractions; a categorical feature needs "
                           "text or whole numbers",
                           name);
}

static int find_columns(const cadre_table *table, const cadre_ridge_options *options,
                        ridge_rows *rows, cadre_error *error)
{
    int status = find_numeric(table, options->target, &rows->target, error);
    for (size_t i = 0; status == CADRE_OK && i < rows->numeric; i++)
        status = find_numeric(table, options->numeric[i], &rows->columns[i], error);
    for (size_t i = 0; status == CADRE_OK && i < rows->categorical; i++)
        status = find_categorical(table, options->categorical[i], &rows->levels[i].column, error);
    return status;
}

static inline double number_at(const table_column *column, uint32_t row)
{
    if (column->type == CADRE_DOUBLE) return ((const double *)column->values)[row];
    int64_t value = ((const int64_t *)column->values)[row];
    return value == CADRE_INT64_MISSING ? (double)NAN : (double)value;
}

static inline bool has_category(const table_column *column, uint32_t row)
{
    if (column->type == CADRE_TEXT) return ((const int32_t *)column->values)[row] >= 0;
    return ((const int64_t *)column->values)[row] != CADRE_INT64_MISSING;
}

static inline int64_t category_at(const table_column *column, uint32_t row)
{
    if (column->type == CADRE_TEXT) return ((const int32_t *)column->values)[row];
    return ((const int64_t *)column->values)[row];
}

static bool is_complete(const ridge_rows *rows, uint32_t row)
{
    bool complete = !isnan(number_at(rows->target, row));
    for (size_t i = 0; complete && i < rows->numeric; i++)
        complete = !isnan(number_at(rows->columns[i], row));
    for (size_t i = 0; complete && i < rows->categorical; i++)
        complete = has_category(rows->levels[i].column, row);
    return complete;
}

static int not_finite(const cadre_slice *slice, const table_column *column, uint32_t row,
                      cadre_error *error)
{
    return cadre_error_set(error, CADRE_ENUMERIC,
                           "slice '%s': column '%s' is infinite in row %zu of the table",
                           slice->name, column->name, (size_t)row + 1);
}

/* Which rows, held out or not: training rows grow from the front of rows->row, the others from
 * its end; then these are brought behind, in order. */
static void choose_rows(const cadre_slice *slice, const cadre_ridge_options *options,
                        ridge_rows *rows)
{
    size_t end = slice->row_count;
    for (size_t i = 0; i < slice->row_count; i++) {
        uint32_t row = slice->rows[i];
        if (!is_complete(rows, row)) continue;
        if (options->holdout && options->holdout(slice->table, row, options->user))
            rows->row[--end] = row;
        else
            rows->row[rows->train++] = row;
    }
    rows->test = slice->row_count - end;
    memmove(rows->row + rows->train, rows->row + end, rows->test * sizeof *rows->row);
    for (size_t a = rows->train, b = rows->train + rows->test; a + 1 < b; a++) {
        uint32_t other = rows->row[--b];
        rows->row[b] = rows->row[a];
        rows->row[a] = other;
    }
}

static int copy_numbers(const cadre_slice *slice, ridge_rows *rows, cadre_error *error)
{
    size_t count = rows->train + rows->test, width = rows->numeric;
    for (size_t i = 0; i < count; i++) {
        rows->targets[i] = number_at(rows->target, rows->row[i]);
        if (isinf(rows->targets[i])) return not_finite(slice, rows->target, rows->row[i], error);
    }
    for (size_t j = 0; j < width; j++) {
        for (size_t i = 0; i < count; i++) {
            double value = number_at(rows->columns[j], rows->row[i]);
            if (isinf(value)) return not_finite(slice, rows->columns[j], rows->row[i], error);
            rows->features[i * width + j] = value;
        }
    }
    return CADRE_OK;
}

static int compare_texts(const void *a, const void *b, void *levels)
{
    const dictionary *d = levels;
    return strcmp(dictionary_text(d, (int32_t) * (const int64_t *)a),
                  dictionary_text(d, (int32_t) * (const int64_t *)b));
}

static int compare_wholes(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int32_t find_level(const int64_t *values, size_t count, int64_t value)
{
    size_t low = 0;
    if (!count) return -1;
    while (count > 1) {
        size_t half = count / 2;
        if (values[low + half] <= value) low += half;
        count -= half;
    }
    return values[low] == value ? (int32_t)low : -1;
}

/* Texts: a table over the dictionary, one more than the level, so that 0 (what calloc gives, page
 * by page as needed) means not seen. */
static int code_texts(ridge_levels *levels, const ridge_rows *rows)
{
    const dictionary *d = &levels->column->levels;
    uint32_t *level = calloc(d->count + 1, sizeof *level);
    if (!level) return CADRE_EMEMORY;
    for (size_t i = 0; i < rows->train; i++) {
        int64_t value = category_at(levels->column, rows->row[i]);
        if (!level[value]) levels->values[levels->count++] = value;
        level[value] = 1;
    }
    qsort_r(levels->values, levels->count, sizeof *levels->values, compare_texts, (void *)d);
    for (size_t i = 0; i < levels->count; i++)
        level[levels->values[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < rows->train + rows->test; i++)
        levels->codes[i] = (int32_t)level[category_at(levels->column, rows->row[i])] - 1;
    free(level);
    return CADRE_OK;
}

static void code_wholes(ridge_levels *levels, const ridge_rows *rows)
{
    for (size_t i = 0; i < rows->train; i++)
        levels->values[i] = category_at(levels->column, rows->row[i]);
    qsort(levels->values, rows->train, sizeof *levels->values, compare_wholes);
    for (size_t i = 0; i < rows->train; i++)
        if (!levels->count || levels->values[levels->count - 1] != levels->values[i])
            levels->values[levels->count++] = levels->values[i];
    for (size_t i = 0; i < rows->train + rows->test; i++)
        levels->codes[i] =
            find_level(levels->values, levels->count, category_at(levels->column, rows->row[i]));
}

static int allocate(ridge_rows *rows, size_t count)
{
    size_t wide = rows->numeric ? rows->numeric : 1;
    if (count > SIZE_MAX / 16 / wide) return CADRE_EMEMORY;
    rows->row = calloc(count + 1, sizeof *rows->row);
    rows->features = malloc((count + 1) * wide * sizeof *rows->features);
    rows->targets = malloc((count + 1) * sizeof *rows->targets);
    rows->mean = calloc(wide, sizeof *rows->mean);
    rows->deviation = calloc(wide, sizeof *rows->deviation);
    bool all = rows->row && rows->features && rows->targets && rows->mean && rows->deviation;
    for (size_t i = 0; all && i < rows->categorical; i++) {
        rows->levels[i].values = malloc((count + 1) * sizeof *rows->levels[i].values);
        rows->levels[i].codes = malloc((count + 1) * sizeof *rows->levels[i].codes);
        all = rows->levels[i].values && rows->levels[i].codes;
    }
    return all ? CADRE_OK : CADRE_EMEMORY;
}

int cadre_ridge_gather(const cadre_slice *slice, const cadre_ridge_options *options,
                       ridge_rows *rows, cadre_error *error)
{
    *rows = (ridge_rows){.numeric = list_length(options->numeric),
                         .categorical = list_length(options->categorical)};
    if (rows->numeric + rows->categorical > RIDGE_COLUMN_LIMIT)
        return cadre_error_set(error, CADRE_EINPUT, "more than %d feature columns",
                               RIDGE_COLUMN_LIMIT);
    rows->columns = calloc(rows->numeric + 1, sizeof *rows->columns);
    rows->levels = calloc(rows->categorical + 1, sizeof *rows->levels);
    if (!rows->columns || !rows->levels) goto no_memory;
    int status = find_columns(slice->table, options, rows, error);
    if (status < 0) return status;
    if (allocate(rows, slice->row_count) < 0) goto no_memory;
    choose_rows(slice, options, rows);
    status = copy_numbers(slice, rows, error);
    if (status < 0) return status;
    for (size_t i = 0; i < rows->categorical; i++) {
        ridge_levels *levels = &rows->levels[i];
        if (levels->column->type != CADRE_TEXT)
            code_wholes(levels, rows);
        else if (code_texts(levels, rows) < 0)
            goto no_memory;
        rows->level_count += levels->count;
    }
    return CADRE_OK;
no_memory:
    return cadre_error_set(error, CADRE_EMEMORY, "no memory to fit slice '%s' with %zu rows",
                           slice->name, slice->row_count);
}

/* The mean of every stride-th value, corrected by what is left of the sum around it. */
static double mean_of(const double *values, size_t count, size_t stride)
{
    double sum = 0, rest = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i * stride];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        rest += values[i * stride] - mean;
    return mean + rest / (double)count;
}

/* Population deviation. Exactly 0 for a constant column, whatever its mean was rounded to; scaled
 * when squares would overflow or vanish. */
static double deviation_of(const double *values, size_t count, size_t stride, double mean)
{
    double largest = 0, sum = 0, scale = 1;
    bool constant = true;
    for (size_t i = 0; i < count; i++) {
        double distance = fabs(values[i * stride] - mean);
        if (distance > largest) largest = distance;
        constant = constant && values[i * stride] == values[0];
    }
    if (constant || largest == 0) return 0;
    if (largest > 1e140 || largest < 1e-140) scale = largest;
    for (size_t i = 0; i < count; i++) {
        double part = (values[i * stride] - mean) / scale;
        sum += part * part;
    }
    return scale * sqrt(sum / (double)count);
}

int cadre_ridge_standardise(ridge_rows *rows, cadre_error *error)
{
    size_t width = rows->numeric, count = rows->train + rows->test;
    rows->target_mean = mean_of(rows->targets, rows->train, 1);
    if (!isfinite(rows->target_mean))
        return cadre_error_set(error, CADRE_ENUMERIC, "column '%s' has values too large for a mean",
                               rows->target->name);
    for (size_t j = 0; j < width; j++) {
        double *first = rows->features + j;
        double mean = mean_of(first, rows->train, width);
        double deviation = deviation_of(first, rows->train, width, mean);
        if (!isfinite(mean) || !isfinite(deviation))
            return cadre_error_set(error, CADRE_ENUMERIC,
                                   "column '%s' has values too large to be standardised",
                                   rows->columns[j]->name);
        if (deviation == 0 && rows->train) mean = first[0];
        rows->mean[j] = mean;
        rows->deviation[j] = deviation;
        for (size_t i = 0; i < count; i++)
            first[i * width] = deviation > 0 ? (first[i * width] - mean) / deviation : 0;
    }
    return CADRE_OK;
}

void cadre_ridge_rows_free(ridge_rows *rows)
{
    for (size_t i = 0; rows->levels && i < rows->categorical; i++) {
        free(rows->levels[i].values);
        free(rows->levels[i].codes);
    }
    free(rows->levels);
    free(rows->columns);
    free(rows->row);
    free(rows->features);
    free(rows->targets);
    free(rows->mean);
    free(rows->deviation);
    *rows = (ridge_rows){0};
}
