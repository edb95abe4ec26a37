/* Values kept over sessions (%store): one file per name in a private folder. Pure files: the engine
 * reads what a name was declared as, the host writes and reads the value.
 *
 * $XDG_DATA_HOME/cadre/store, or ~/.local/share/cadre/store, holds NAME.value: six lines (format,
 * name, declaration, layout, bytes, date), the bytes, and a BLAKE2b hash of all of it. Files are
 * written under another name and renamed. Nothing that is read is trusted.
 */
#ifndef CADRE_CELL_STORED_H
#define CADRE_CELL_STORED_H

#include "base/base.h"

typedef struct cell_stored {
    char *name, *declaration; /* `double weights[3]` */
    char *layout;             /* canonical text of the type, members included */
    char *date;               /* when it was stored, UTC */
    unsigned char *bytes;
    size_t size;
} cell_stored;

/* Bytes and texts are borrowed; the date is now. */
int cell_stored_write(const cell_stored *value, cadre_error *error);
/* CADRE_ENOTFOUND: nothing is stored under the name; CADRE_EFORMAT: the file is damaged. */
int cell_stored_read(const char *name, cell_stored *out, cadre_error *error);
void cell_stored_free(cell_stored *value);
/* CADRE_ENOTFOUND: nothing was stored under the name. */
int cell_stored_remove(const char *name, cadre_error *error);
/* Names in order, new, NULL-terminated; free each and the array. NULL: no memory. */
char **cell_stored_names(void);

#endif
