/* What holds for all later cells besides their names: flags, libraries, headers, parameters that
 * were applied. Private to kernel/cell.
 *
 * A state is never changed once a cell was committed with it: a magic or an include makes a copy,
 * which becomes the session's when the cell is committed, and is dropped when it fails. */
#ifndef CADRE_CELL_SESSION_H
#define CADRE_CELL_SESSION_H

#include "base/base.h"
#include "cell/headers.h"

#include <jansson.h>

typedef struct cell_words {
    char **items; /* owned */
    size_t count;
} cell_words;

/* As cadre_cell.snapshot: what %snapshot said. */
enum { CELL_SNAPSHOT_AUTO, CELL_SNAPSHOT_ALWAYS, CELL_SNAPSHOT_NEVER };

typedef struct cell_state {
    int references;
    cell_words flags;      /* for the compiler, as the user gave them */
    cell_words link;       /* for the linker: -L, -l, -Wl,... */
    cell_words libraries;  /* to dlopen: paths */
    char *header_text;     /* the directives of the header set */
    cell_headers *headers; /* what they declare; NULL: not learned yet */
    json_t *applied;       /* parameters applied so far */
    char *folder;          /* of the host now, for this cell alone; NULL: as the front's */
    int snapshot;          /* cell_snapshot */
} cell_state;

cell_state *cell_state_new(const char *header_text);
cell_state *cell_state_copy(const cell_state *state);
cell_state *cell_state_keep(cell_state *state);
void cell_state_release(cell_state *state);

bool cell_words_add(cell_words *words, const char *text); /* copied */
bool cell_words_has(const cell_words *words, const char *text);
void cell_words_free(cell_words *words);

/* Murmur2, 32 bits, by Austin Appleby's description: what debuggers of Jupyter name cells by. */
uint32_t cell_murmur2(const void *bytes, size_t length, uint32_t seed);

#endif
