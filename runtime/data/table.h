/* Private to the runtime: how a table is laid out. */
#ifndef CADRE_DATA_TABLE_H
#define CADRE_DATA_TABLE_H

#include "data/data.h"
#include "data/dictionary.h"
#include "data/storage.h"

#include <stdatomic.h>

typedef struct table_column {
    char *name;
    cadre_column_type type;
    const void *values; /* rows values of the type, inside the table's storage */
    dictionary levels;  /* of a text column; empty for the others */
    /* The process that asked for the column's pages last; see cadre_column_prefetch. Any thread
     * may write it, and asking twice does no harm. */
    atomic_int mapped_in;
} table_column;

struct cadre_table {
    char *source; /* where it came from, for messages */
    size_t rows, column_count;
    table_column *columns;
    table_storage storage; /* of all values; sealed */
};

/* For whoever is about to read much of a column. A forked worker has none of the shared pages in
 * its page tables: one call for all of them takes a third of the time of the faults that reading
 * would cause. Does something once in a process, nothing for very small and very large columns. */
void cadre_column_prefetch(table_column *column, size_t rows);

/* The index of a column that must exist: CADRE_ENOTFOUND with the names there are. */
long cadre_table_require(const cadre_table *table, const char *name, cadre_error *error);
/* Appends `names`, comma-separated and cut after some, to a message. */
void cadre_table_list_columns(const cadre_table *table, cadre_buffer *out);
const char *cadre_column_type_name(cadre_column_type type);

#endif
