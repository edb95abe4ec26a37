/* Private to runtime/data: the memory that holds a table's values.
 *
 * One mapping, a part of the same size for every column. While it is filled it belongs to the
 * reader; sealed, nobody can write to it, and forked workers and snapshots share its pages. It is
 * made of huge pages where the system grants them: a fork then copies an entry for each 2 MB, and
 * neither a worker's first pass nor its end costs a fault or a step for each 4 KB. Where there are
 * none the mapping is a shared one, whose page tables a fork does not copy at all.
 */
#ifndef CADRE_DATA_STORAGE_H
#define CADRE_DATA_STORAGE_H

#include "base/base.h"

typedef struct table_storage {
    char *start;  /* NULL: none */
    size_t size;  /* of the mapping */
    size_t apart; /* bytes from one column's values to the next one's */
} table_storage;

/* Room for `rows` values of 8 bytes in each of `columns` columns, all of it zero; nothing is taken
 * from the system before it is written. `source` is for the message. */
int cadre_storage_reserve(table_storage *storage, size_t columns, size_t rows, const char *source,
                          cadre_error *error);

/* Gives back what lies behind the first `used` bytes of a column. */
void cadre_storage_trim(const table_storage *storage, size_t column, size_t used);

/* From now on a write is a crash. */
int cadre_storage_seal(const table_storage *storage, cadre_error *error);

void cadre_storage_release(table_storage *storage);

static inline void *cadre_storage_column(const table_storage *storage, size_t column)
{
    return storage->start + column * storage->apart;
}

#endif
