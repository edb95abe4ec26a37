/* Which names does a piece of C use that it does not declare itself? Private to kernel/cell.
 *
 * Scopes are followed: parameters, locals, members, labels and designators are not reported.
 * Where the walk is unsure it reports a name too many, never one too few. */
#ifndef CADRE_CELL_USES_H
#define CADRE_CELL_USES_H

#include "cell/declare.h"

typedef struct cell_use {
    const token *name;
    bool is_tag; /* after struct, union or enum */
} cell_use;

typedef struct cell_use_list {
    cell_use *items;
    size_t count, capacity;
} cell_use_list;

/* Uses in one top-level declaration (its own names and parameters are no uses). */
void cell_uses_of_declaration(cell_arena *arena, const cell_oracle *oracle, const token *items,
                              size_t count, const declaration *d, cell_use_list *out);
/* Uses in statements or an expression items[first..end). */
void cell_uses_of_statements(cell_arena *arena, const cell_oracle *oracle, const token *items,
                             size_t first, size_t end, cell_use_list *out);

#endif
