/* Running notebooks from C: a controller runs worker notebooks with parameters.
 *
 *     cadre_notebook_result *result = cadre_notebook_run("worker.ipynb", (cadre_notebook_options){
 *         .parameters = "{\"cpu_count\": 2}", .output = "results/worker.ipynb"});
 *     puts(result->value);   // what the worker gave to cadre_notebook_return
 *
 * The notebook's kernel (of any kernelspec, Python's too) is started as a child process in the
 * notebook's folder and gets the code cells in order. It is ended afterwards, whatever happened:
 * asked to by a message, then by SIGTERM, then by SIGKILL. An interrupt (base/interrupt.h) ends
 * the run with CADRE_EINTERRUPT.
 */
#ifndef CADRE_NOTEBOOK_H
#define CADRE_NOTEBOOK_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Output of a cell as it comes: kind is "stdout", "stderr", "display" (its plain text, values of
 * cells too; not what cadre_notebook_return gave) or "error" (the traceback). */
typedef void (*cadre_notebook_output)(void *user, const char *kind, const char *text);

/* Called once before anything is started: `language` is the kernelspec's ("c", "python", "" when
 * it names none), `cells` the text of all code cells, NULL-terminated. A negative status with
 * *error filled refuses the run. */
typedef int (*cadre_notebook_check)(void *user, const char *language, const char *const *cells,
                                    cadre_error *error);

typedef struct cadre_notebook_options {
    const char *parameters;  /* JSON object text: {"cpu_count": 2}; NULL: none */
    const char *environment; /* name of an environment ("six-cpu"); NULL: the notebook's kernel */
    const char *kernel;      /* kernelspec to use instead of the notebook's; NULL */
    const char *output;      /* where the executed notebook goes; NULL: not written */
    double cell_timeout;     /* seconds per cell; 0: none */
    bool quiet;              /* no progress display */
    cadre_notebook_output on_output; /* called while cells run; NULL: nobody */
    cadre_notebook_check check;      /* NULL: none */
    void *user;                      /* for on_output and check */
} cadre_notebook_options;

typedef struct cadre_notebook_result {
    bool ok;
    char *error;  /* "In[3] CompileError: ..." when not ok */
    char *value;  /* JSON the worker gave to cadre_notebook_return, NULL: none */
    char *output; /* path of the executed notebook, NULL: none */
    double seconds;
    size_t cells; /* executed */
} cadre_notebook_result;

/* Runs all code cells of the notebook at `path` in a new kernel. New result; on failure the error
 * handler is called, and if it returns, ok is false and the notebook written so far is at
 * `output`.
 *
 * Parameters travel in metadata.cadre.parameters of every execute_request: the notebook's own
 * metadata.cadre.parameters, over them those of the cell's metadata, over them options.parameters.
 * An environment NAME is the kernelspec cadre-NAME. Empty cells and cells tagged skip-execution
 * are not sent; an error of a cell tagged raises-exception does not stop the run.
 *
 * `output` is written as nbformat 4.5, whole under another name and then renamed: during the run
 * at most once a second, at its end and at a failure; old outputs of the notebook are not kept.
 * Its folder is made when it is missing. It may be `path` itself. Nothing is started when the
 * notebook is not JSON, not nbformat 4, its kernel is not installed, or output cannot be written.
 */
CADRE_API cadre_notebook_result *cadre_notebook_run(const char *path,
                                                    cadre_notebook_options options);
CADRE_API void cadre_notebook_result_free(cadre_notebook_result *result);

/* In a worker: gives a JSON value to whoever runs the notebook (the last call counts). Text that
 * is not JSON goes to the error handler. By hand it is shown as a display. Other kernels give a
 * value by displaying the MIME type application/vnd.cadre.return+json. */
CADRE_API int cadre_notebook_return(const char *json);

#ifdef __cplusplus
}
#endif
#endif
