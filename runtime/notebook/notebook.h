/* Running notebooks from C: a controller runs worker notebooks with parameters. */
#ifndef CADRE_NOTEBOOK_H
#define CADRE_NOTEBOOK_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_notebook_options {
    const char *parameters;  /* JSON object text: {"cpu_count": 2}; NULL: none */
    const char *environment; /* name of an environment ("six-cpu"); NULL: the notebook's kernel */
    const char *kernel;      /* kernelspec to use instead of the notebook's; NULL */
    const char *output;      /* where the executed notebook goes; NULL: not written */
    double cell_timeout;     /* seconds per cell; 0: none */
    bool quiet;              /* no progress display */
} cadre_notebook_options;

typedef struct cadre_notebook_result {
    bool ok;
    char *error;        /* "In[3] CompileError: ..." when not ok */
    char *value;        /* JSON the worker gave to cadre_notebook_return, NULL: none */
    char *output;       /* path of the executed notebook, NULL: none */
    double seconds;
    size_t cells;       /* executed */
} cadre_notebook_result;

/* Runs all code cells of the notebook at `path` in a new kernel of any kernelspec, with the
 * parameters in the metadata of every execute_request (metadata.cadre.parameters). New result; on
 * failure the error handler is called, and if it returns, ok is false and the notebook written
 * so far is at `output`. */
CADRE_API cadre_notebook_result *cadre_notebook_run(const char *path,
                                                    cadre_notebook_options options);
CADRE_API void cadre_notebook_result_free(cadre_notebook_result *result);

/* In a worker: gives a JSON value to whoever runs the notebook (the last call counts). Text that
 * is not JSON goes to the error handler. By hand it is shown as a display. */
CADRE_API int cadre_notebook_return(const char *json);

#ifdef __cplusplus
}
#endif
#endif
