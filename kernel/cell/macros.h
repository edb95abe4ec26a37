/* Macros: a table of definitions, expansion, and the conditions of #if. Private to kernel/cell.
 *
 * Tables are chained: the cell's own definitions stand before the session's and the headers'.
 * The expander exists to classify text (is this a declaration? which names does it make?); the
 * compiler still expands for itself whatever is handed on verbatim.
 */
#ifndef CADRE_CELL_MACROS_H
#define CADRE_CELL_MACROS_H

#include "cell/tokens.h"

typedef struct macro {
    struct macro *next; /* in its bucket; the newest first */
    const char *name;
    uint32_t length, hash;
    bool undefined; /* #undef: hides the definitions behind it */
    bool function_like, variadic;
    const token *parameters;
    size_t parameter_count;
    const char *text; /* from the name on: `SQUARE(v) ((v) * (v))`, on one line */
    token_list body;  /* read when first asked for */
    bool body_read;
    cell_arena *arena; /* owns the body */
} macro;

typedef struct macro_table {
    cell_arena *arena;
    macro **buckets;
    size_t bucket_count, count;
    const struct macro_table *parent;
    /* Asked after this table and before the parent; returns the text from the name on, or NULL,
     * or "" when the name is hidden. May be NULL. */
    const char *(*lookup)(void *context, const char *name, size_t length);
    void *lookup_context;
} macro_table;

/* `text`: what follows #define or #undef, comments and line continuations allowed. */
bool cell_macro_define(macro_table *table, const char *text, size_t length);
bool cell_macro_undefine(macro_table *table, const char *name, size_t length);
/* The definition that holds now, or NULL. */
macro *cell_macro_find(const macro_table *table, const token *name);
/* The body's tokens. */
const token_list *cell_macro_body(macro *m);

/* Appends to `out` items[0..count) with every macro replaced. */
void cell_macro_expand(const macro_table *table, cell_arena *arena, const token *items,
                       size_t count, token_list *out);
/* Appends the replacement of the one macro use at items[0]; returns how many tokens it takes up,
 * 0 when items[0] is no use of a macro. */
size_t cell_macro_expand_one(const macro_table *table, cell_arena *arena, const token *items,
                             size_t count, token_list *out);

/* Value of an #if condition: 0 or 1, or -1 when only the compiler can tell (__has_include). */
int cell_macro_condition(const macro_table *table, cell_arena *arena, const char *text,
                         size_t length);

#endif
