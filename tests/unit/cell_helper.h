/* Runs cells in the test's own process: the engine, the loader and the hooks that the host has. */
#ifndef CELL_HELPER_H
#define CELL_HELPER_H

#include "cell/cell.h"
#include "cell/load.h"

#include <jansson.h>

typedef struct cell_outcome {
    char *error_name; /* NULL: it ran */
    char *message;    /* error value and traceback without colours */
    char *result;     /* NULL: nothing to show */
    char *output;     /* what it printed */
    char *warnings, *notes;
    size_t segments;
} cell_outcome;

typedef struct cell_session cell_session;

cell_session *cell_session_new(void);
void cell_session_free(cell_session *session);
cell_outcome cell_session_run(cell_session *session, const char *code, const json_t *parameters);
void cell_outcome_free(cell_outcome *outcome);
cadre_engine *cell_session_engine(cell_session *session);

/* One case of a .cells file. */
typedef struct cell_case {
    char *name;
    char *text; /* its lines after the name */
} cell_case;

/* Cases of tests/cases/FILE; terminated by a NULL name. */
cell_case *cell_cases_read(const char *file);
/* Runs a case and fails the test at its first expectation that is not met. */
void cell_case_run(const cell_case *one);

#endif
