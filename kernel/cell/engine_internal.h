/* The engine's insides, shared by engine.c and prepare.c. Private to kernel/cell. */
#ifndef CADRE_CELL_ENGINE_INTERNAL_H
#define CADRE_CELL_ENGINE_INTERNAL_H

#include "cell/cell.h"
#include "cell/compile.h"
#include "cell/names.h"
#include "cell/session.h"
#include "cell/types.h"

struct cadre_engine {
    cadre_compiler *compiler;
    char *program;     /* the compiler */
    char *include_dir; /* where <cadre.h> is */
    char *prefix;      /* of file names of cells */
    int cancel_fd;     /* an eventfd: readable when the prepare under way shall end */
    cell_names names;
    cell_state *state;
    uint64_t generation;
    struct {
        struct engine_cell { /* texts of the cells so far, for %save */
            uint64_t generation;
            char *code;
            cell_entry **entries; /* what it defined; references */
            size_t entry_count;
        } * items;
        size_t count, capacity;
    } cells;
    struct {
        struct engine_undo {
            uint64_t generation;
            cell_state *before;
        } * items;
        size_t count, capacity;
    } log;
};

/* What a prepared cell will add to the session. */
struct cadre_cell_private {
    cell_entry **entries; /* in the order of definition, owned references */
    bool *vanish;         /* the name is taken away instead */
    size_t entry_count;
    char *code;          /* the cell\'s text */
    cell_state *state;   /* the session's from then on */
    cadre_types *types;  /* of the segment that has the value, or NULL */
    size_t value_bounds; /* the value is an array with so many run-time bounds, or 0 */
};

/* Fills cell->...; never fails but by setting cell->failed. false: memory is gone. */
bool cell_prepare(cadre_engine *engine, const cadre_cell_request *request, cadre_cell *cell);

/* The text as one unit of C, for %save: new; NULL with *error. *entry gets the name of the function
 * with its statements, new (NULL: there are none), *has_main whether it defines main. */
char *cell_prepare_unit(cadre_engine *engine, const char *code, char **entry, bool *has_main,
                        cadre_error *error);

/* What the headers of `state` declare; 0, or a negative code with the compiler's text. */
int cell_engine_learn(cadre_engine *engine, cell_state *state, const cell_words *flags,
                      cadre_error *error);
/* Flags for a compile: ours, then `flags`. NULL-terminated, new array, borrowed strings except
 * those in *owned (free each). */
const char **cell_engine_flags(const cadre_engine *engine, const cell_words *flags, size_t *count);

void cell_fail(cadre_cell *cell, const char *name, const char *value);

#endif
