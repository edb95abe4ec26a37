/* One cell on its way through the engine, shared by prepare.c and prepare_compile.c. Private to
 * kernel/cell. */
#ifndef CADRE_CELL_PREPARATION_H
#define CADRE_CELL_PREPARATION_H

#include "cell/diagnostics.h"
#include "cell/engine_internal.h"
#include "cell/parameters.h"

typedef struct preparation {
    cadre_engine *engine;
    const cadre_cell_request *request;
    cadre_cell *cell;
    cell_arena arena;
    macro_table macros;
    cell_reading reading;
    cell_state *state;     /* a copy that the cell may change; the session's at commit */
    cell_state *only_here; /* flags that count for this cell: the session's and %% ones */
    bool state_changed, learn;
    cadre_buffer new_includes; /* for placing their errors: with #line */
    cell_items items;
    cell_problem problem;
    cell_translator translator;
    cell_oracle oracle;
    cell_parameters parameters;
    cell_diagnostics diagnostics;
    cell_map raw_names;
    char hash[16];
    cadre_types *types;
} preparation;

/* Compiles every segment; cell->failed says when one was refused. Returns early, without a value,
 * when the value turns out to be a bit-field: the cell must be translated again. */
void cell_prepare_compile(preparation *p);

#endif
