#include "data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void cadre_table_free(cadre_table *table)
{
    if (!table) return;
    cadre_storage_release(&table->storage);
    for (size_t i = 0; i < table->column_count; i++) {
        free(table->columns[i].name);
        cadre_dictionary_free(&table->columns[i].levels);
    }
    free(table->columns);
    free(table->source);
    free(table);
}

size_t cadre_table_rows(const cadre_table *table)
{
    return table ? table->rows : 0;
}

size_t cadre_table_columns(const cadre_table *table)
{
    return table ? table->column_count : 0;
}

long cadre_table_find(const cadre_table *table, const char *name)
{
    for (size_t i = 0; table && name && i < table->column_count; i++)
        if (!strcmp(table->columns[i].name, name)) return (long)i;
    return CADRE_ENOTFOUND;
}

static const table_column *column_at(const cadre_table *table, size_t column)
{
    return table && column < table->column_count ? &table->columns[column] : NULL;
}

const char *cadre_table_name(const cadre_table *table, size_t column)
{
    const table_column *one = column_at(table, column);
    return one ? one->name : NULL;
}

cadre_column_type cadre_table_type(const cadre_table *table, size_t column)
{
    const table_column *one = column_at(table, column);
    return one ? one->type : CADRE_DOUBLE;
}

static const void *values_of(const cadre_table *table, size_t column, cadre_column_type type)
{
    const table_column *one = column_at(table, column);
    return one && one->type == type ? one->values : NULL;
}

const double *cadre_table_doubles(const cadre_table *table, size_t column)
{
    return values_of(table, column, CADRE_DOUBLE);
}

const int64_t *cadre_table_int64s(const cadre_table *table, size_t column)
{
    return values_of(table, column, CADRE_INT64);
}

const int32_t *cadre_table_texts(const cadre_table *table, size_t column)
{
    return values_of(table, column, CADRE_TEXT);
}

size_t cadre_table_levels(const cadre_table *table, size_t column)
{
    const table_column *one = column_at(table, column);
    return one ? one->levels.count : 0;
}

const char *cadre_table_level(const cadre_table *table, size_t column, int32_t index)
{
    const table_column *one = column_at(table, column);
    if (!one || index < 0 || (size_t)index >= one->levels.count) return NULL;
    return dictionary_text(&one->levels, index);
}

double cadre_table_number(const cadre_table *table, size_t column, size_t row)
{
    const table_column *one = column_at(table, column);
    if (!one || row >= table->rows) return (double)NAN;
    if (one->type == CADRE_DOUBLE) return ((const double *)one->values)[row];
    if (one->type != CADRE_INT64) return (double)NAN;
    int64_t value = ((const int64_t *)one->values)[row];
    return value == CADRE_INT64_MISSING ? (double)NAN : (double)value;
}

void cadre_column_prefetch(table_column *column, size_t rows)
{
    enum { FEW = 256 << 10, MANY = 64 << 20, PAGE = 4096 };
    int self = (int)getpid();
    if (atomic_load_explicit(&column->mapped_in, memory_order_relaxed) == self) return;
    atomic_store_explicit(&column->mapped_in, self, memory_order_relaxed);
    size_t length = rows * (column->type == CADRE_TEXT ? sizeof(int32_t) : sizeof(int64_t));
    if (length < FEW || length > MANY) return;
#ifdef MADV_POPULATE_READ
    uintptr_t start = (uintptr_t)column->values & ~(uintptr_t)(PAGE - 1);
    /* A system that does not know the advice maps the pages when they are read. */
    (void)madvise((void *)start, (uintptr_t)column->values + length - start, MADV_POPULATE_READ);
#endif
}

const char *cadre_column_type_name(cadre_column_type type)
{
    static const char *const names[] = {"double", "int64", "text"};
    return (unsigned)type < 3 ? names[type] : "unknown";
}

void cadre_table_list_columns(const cadre_table *table, cadre_buffer *out)
{
    size_t start = out->length, i = 0;
    for (; i < table->column_count && out->length - start < 500; i++)
        cadre_buffer_printf(out, "%s%s", i ? ", " : "", table->columns[i].name);
    if (i < table->column_count) cadre_buffer_printf(out, " and %zu more", table->column_count - i);
}

long cadre_table_require(const cadre_table *table, const char *name, cadre_error *error)
{
    if (!table) return cadre_error_set(error, CADRE_EINPUT, "there is no table");
    if (!name) return cadre_error_set(error, CADRE_EINPUT, "a column was given without a name");
    long column = cadre_table_find(table, name);
    if (column >= 0) return column;
    cadre_buffer list = {0};
    cadre_table_list_columns(table, &list);
    cadre_error_set(error, CADRE_ENOTFOUND, "there is no column '%s'; the columns of %s are %s",
                    name, table->source, list.data ? list.data : "");
    cadre_buffer_free(&list);
    return CADRE_ENOTFOUND;
}
