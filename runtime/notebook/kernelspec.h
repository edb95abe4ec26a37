/* Installed kernelspecs, and the command line that one makes. Private to notebook/. */
#ifndef CADRE_NOTEBOOK_KERNELSPEC_H
#define CADRE_NOTEBOOK_KERNELSPEC_H

#include "base/base.h"

#include <jansson.h>

typedef struct cadre_kernelspec {
    char *name;   /* as the folder is called */
    char *folder; /* resource_dir */
    char *prefix; /* what {prefix} means: the folder above share/jupyter/kernels, or ours */
    json_t *json; /* kernel.json */
} cadre_kernelspec;

/* Looks where Jupyter looks: JUPYTER_PATH, JUPYTER_DATA_DIR or the user's data folder, the active
 * Python environment, Cadre's own prefix, /usr/local/share, /usr/share; the first one counts and
 * upper and lower case are equal. CADRE_ENOTFOUND lists what is installed. */
int cadre_kernelspec_find(const char *name, cadre_kernelspec *spec, cadre_error *error);
void cadre_kernelspec_clear(cadre_kernelspec *spec);

/* argv with its templates filled in: new, NULL-terminated; cadre_words_free. NULL: CADRE_EFORMAT
 * (no argv) or no memory. A bare "python" is the one of the spec's prefix when that has one. */
char **cadre_kernelspec_argv(const cadre_kernelspec *spec, const char *connection_file,
                             cadre_error *error);
/* This process's environment with the spec's env (${NAME} filled in) and `more`
 * ("NAME=value", NULL-terminated) over it; without_name (may be NULL) is left out. */
char **cadre_kernelspec_environment(const cadre_kernelspec *spec, const char *const *more,
                                    const char *without_name);
void cadre_words_free(char **words);

/* $JUPYTER_DATA_DIR, $XDG_DATA_HOME/jupyter or ~/.local/share/jupyter; new, NULL: no home. */
char *cadre_jupyter_data_folder(void);

#endif
