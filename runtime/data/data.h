/* Tables with typed columns, and slices of them.
 *
 *     cadre_table *flights = cadre_read_csv("flights.csv");
 *     long column = cadre_table_find(flights, "distance");
 *     const int64_t *distance = cadre_table_int64s(flights, (size_t)column);
 *     cadre_slices *slices = cadre_slices_by(flights, "carrier", "origin");
 *     const cadre_slice *first = cadre_slices_get(slices, 0);
 *     printf("%s: %zu flights\n", first->name, first->row_count);
 *
 * A table is read once, lives in read-only memory that forked processes share and is not copied
 * into worker processes. Columns are plain C arrays. Nothing here changes a table once it is made,
 * so any number of threads and forked processes may read it.
 *
 * CSV as in RFC 4180: UTF-8 (a byte order mark is skipped); lines end in LF or CRLF, the last one
 * may lack it; a field in double quotes may hold delimiters, newlines and doubled quotes. The
 * first line names the columns; one without a name is called column_N, two with one name are an
 * error. Lines without anything on them are skipped. Numbers are decimal with an optional sign,
 * fraction and exponent, or inf; they are rounded correctly, whatever the locale. Spaces around
 * a number do not matter; quotes neither, so that a column of codes such as "00501" must be named
 * in text_columns to keep its zeros. A column of whole numbers with one beyond int64 is one of
 * doubles; a number beyond double is an error. A column without any value is one of doubles.
 * Limits: 65,536 columns, 2^32 - 2 rows, 64 MB in one row.
 */
#ifndef CADRE_DATA_H
#define CADRE_DATA_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_table cadre_table;
typedef enum cadre_column_type {
    CADRE_DOUBLE, /* double, missing is NaN */
    CADRE_INT64,  /* int64_t, missing is CADRE_INT64_MISSING */
    CADRE_TEXT    /* int32_t index into the column's dictionary, missing is -1 */
} cadre_column_type;
#define CADRE_INT64_MISSING INT64_MIN

typedef struct cadre_csv_options {
    char delimiter; /* 0: ',' */
    /* Lists end in NULL; a list that is NULL is the usual one or none. */
    const char *const *missing; /* texts of a missing value; NULL: "", "NA", "NaN", "nan", "null",
                            "NULL" */
    const char *const *text_columns;   /* columns to keep as text whatever they hold */
    const char *const *number_columns; /* columns that must hold numbers: anything else is an
                                          error at its place, not a text column */
} cadre_csv_options;

/* New table; NULL after the error handler returned. Types are found from all rows: whole numbers
 * int64, numbers double, else text. Errors name file, line and column. */
CADRE_API cadre_table *cadre_read_csv(const char *path);
/* The same with options (NULL: none) and the error as a value: NULL with *error filled. */
CADRE_API cadre_table *cadre_read_csv_with(const char *path, const cadre_csv_options *options,
                                           cadre_error *error);
CADRE_API void cadre_table_free(cadre_table *table);
CADRE_API size_t cadre_table_rows(const cadre_table *table);
CADRE_API size_t cadre_table_columns(const cadre_table *table);
/* Index of the column, or CADRE_ENOTFOUND (negative). */
CADRE_API long cadre_table_find(const cadre_table *table, const char *name);
CADRE_API const char *cadre_table_name(const cadre_table *table, size_t column);
CADRE_API cadre_column_type cadre_table_type(const cadre_table *table, size_t column);
/* Borrowed arrays of cadre_table_rows values; NULL when the column has another type. */
CADRE_API const double *cadre_table_doubles(const cadre_table *table, size_t column);
CADRE_API const int64_t *cadre_table_int64s(const cadre_table *table, size_t column);
CADRE_API const int32_t *cadre_table_texts(const cadre_table *table, size_t column);
/* The dictionary of a text column: its distinct texts in order of appearance, borrowed. */
CADRE_API size_t cadre_table_levels(const cadre_table *table, size_t column);
CADRE_API const char *cadre_table_level(const cadre_table *table, size_t column, int32_t index);
/* One value as a double (int64 converted, missing NaN, text NaN). */
CADRE_API double cadre_table_number(const cadre_table *table, size_t column, size_t row);

/* Rows of a table that belong together: one store, one carrier and origin. */
typedef struct cadre_slices cadre_slices;
typedef struct cadre_slice {
    const cadre_table *table;
    const char *name;     /* "UA/EWR": the key values joined by '/' */
    size_t index;         /* position among the slices */
    const uint32_t *rows; /* ascending row numbers */
    size_t row_count;
} cadre_slice;

/* cadre_slices_by(table, "carrier", "origin"): one slice per combination present of up to 16
 * columns of text or whole numbers, ordered by the first key, then the second and so on: texts in
 * byte order, whole numbers by size. Rows with a missing key form no slice and are counted in
 * cadre_slices_skipped. The table must outlive them. An unknown column is an error that lists
 * those there are. */
#define cadre_slices_by(table, ...)                                                                \
    cadre_slices_by_columns((table), (const char *const[]){__VA_ARGS__, 0})
CADRE_API cadre_slices *cadre_slices_by_columns(const cadre_table *table,
                                                const char *const *columns);
/* The same with the error as a value. */
CADRE_API cadre_slices *cadre_slices_by_columns_with(const cadre_table *table,
                                                     const char *const *columns,
                                                     cadre_error *error);
CADRE_API void cadre_slices_free(cadre_slices *slices);
CADRE_API size_t cadre_slices_count(const cadre_slices *slices);
CADRE_API size_t cadre_slices_skipped(const cadre_slices *slices); /* rows with a missing key */
/* Borrowed; NULL beyond the last. */
CADRE_API const cadre_slice *cadre_slices_get(const cadre_slices *slices, size_t index);
/* Only the slices whose name is `name` or whose first key values are (not a part of one: "UA" ->
 * UA/EWR, UA/JFK, UA/LGA; "U" -> none); "all" and "" keep all. New; the slices given may be freed
 * before it. An unknown name is an error that lists names. */
CADRE_API cadre_slices *cadre_slices_select(const cadre_slices *slices, const char *name);
CADRE_API cadre_slices *cadre_slices_select_with(const cadre_slices *slices, const char *name,
                                                 cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif
