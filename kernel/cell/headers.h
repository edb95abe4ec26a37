/* What a set of headers declares: macros, typedefs, tags, functions, variables, enumerators.
 * Learned once per set from the compiler's own preprocessor. Private to kernel/cell. */
#ifndef CADRE_CELL_HEADERS_H
#define CADRE_CELL_HEADERS_H

#include "cell/declare.h"
#include "cell/macros.h"
#include "cell/map.h"

typedef struct header_name {
    name_kind kind;
    const char *definition; /* a typedef's text without `typedef`: `unsigned long size_t` */
} header_name;

typedef struct cell_headers {
    int references;
    char *text; /* the directives of the set */
    cell_arena arena;
    macro_table macros;
    cell_map names, tags;
} cell_headers;

/* Learns from `preprocessed`, the output of -E -dD for `text`. NULL: no memory. */
cell_headers *cell_headers_learn(const char *text, const char *preprocessed);
cell_headers *cell_headers_keep(cell_headers *headers); /* one more owner */
void cell_headers_release(cell_headers *headers);       /* accepts NULL */

const header_name *cell_headers_find(const cell_headers *headers, const token *name);

#endif
