/* Cuts a cell's stream of tokens into top-level items. Private to kernel/cell.
 *
 *     int n = 3;                     -> DECLARATION
 *     double f(double x) { ... }     -> DECLARATION (of a function, with its body)
 *     #define N 3                    -> DIRECTIVE
 *     for (int i = 0; ...) { ... }   -> STATEMENT
 *     f(n)                           -> VALUE (the last expression, without a semicolon)
 */
#ifndef CADRE_CELL_SPLIT_H
#define CADRE_CELL_SPLIT_H

#include "cell/map.h"
#include "cell/read.h"
#include "cell/uses.h"

typedef enum item_kind {
    ITEM_DIRECTIVE,
    ITEM_DECLARATION,
    ITEM_STATEMENT,
    ITEM_VALUE,
    ITEM_ASSEMBLY /* asm(...) that defines symbols, at file scope */
} item_kind;

typedef struct cell_item {
    item_kind kind;
    range tokens;            /* in the stream; the `;` of a statement is included */
    declaration declaration; /* ITEM_DECLARATION */
    cell_use_list uses;      /* free names; not for directives */
    bool has_label, has_return;
} cell_item;

typedef struct cell_items {
    cell_item *items;
    size_t count, capacity;
} cell_items;

/* `oracle` knows the names of before; those that the cell declares itself are added here.
 * `problem` gets what is no C for certain and what more text could mend. */
void cell_split(cell_arena *arena, const cell_oracle *oracle, const token_list *stream,
                bool with_uses, cell_items *out, cell_problem *problem);

#endif
