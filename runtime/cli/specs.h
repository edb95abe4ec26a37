/* Kernelspecs on disk: where Jupyter looks for them, and writing them whole or not at all.
 *
 *     cadre_spec_place place = {0};
 *     int taken = cadre_spec_place_parse(&place, argc, argv, &error);   // --user, --prefix DIR,
 * ... cadre_spec_write(&place, "cadre", json, &error);
 *
 * A kernelspec is a folder <place>/<name> with kernel.json and the logos. The installed one
 * (DATADIR/jupyter/kernels/cadre, from kernelspec/kernel.json.in) is the pattern for all others.
 * Private to runtime/cli.
 */
#ifndef CADRE_CLI_SPECS_H
#define CADRE_CLI_SPECS_H

#include "base/base.h"

#include <jansson.h>

#define CADRE_SPEC_PATH 4096

typedef struct cadre_spec_place {
    char folder[CADRE_SPEC_PATH]; /* ".../jupyter/kernels", or "" while none was chosen */
} cadre_spec_place;

/* Looks at argv[0] (of argc): --user, --sys-prefix, --prefix DIR or --prefix=DIR. Returns how
 * many words it used (0: none of these), or a negative code. --sys-prefix is the active Python
 * environment (VIRTUAL_ENV or CONDA_PREFIX). */
int cadre_spec_place_parse(cadre_spec_place *place, int argc, char **argv, cadre_error *error);

/* The user's own: JUPYTER_DATA_DIR, or XDG_DATA_HOME/jupyter, or ~/.local/share/jupyter. */
int cadre_spec_place_user(cadre_spec_place *place, cadre_error *error);

/* All folders in which Jupyter looks, first found first used: JUPYTER_PATH, the user's, the
 * active Python environment's, the one Cadre is installed in, /usr/local/share, /usr/share.
 * Calls `visit` for each that exists, once; stops when it returns other than 0 and returns that. */
int cadre_spec_places(int (*visit)(const char *folder, void *context), void *context);

/* New: the installed kernel.json as a JSON object with argv[0] set to this installation's
 * cadre-kernel; NULL when it is not installed or not JSON. */
json_t *cadre_spec_pattern(cadre_error *error);

/* New: the kernel.json of a kernelspec, or NULL when there is none or it is no JSON object. */
json_t *cadre_spec_read(const char *folder, const char *name);

/* True when this kernelspec starts Cadre's kernel: what remove may remove. */
bool cadre_spec_is_ours(const json_t *spec);

/* Writes logos and then kernel.json, each under a new name first, so that a reader sees the old
 * one or the new one. Missing folders are made. */
int cadre_spec_write(const cadre_spec_place *place, const char *name, const json_t *spec,
                     cadre_error *error);

/* Removes a kernelspec that is ours; files that Cadre did not put there stay and are an error. */
int cadre_spec_remove(const char *folder, const char *name, cadre_error *error);

/* Path of a program of this installation: beside the running `cadre`, else in BINDIR. */
void cadre_spec_program(char *path, size_t size, const char *name);

#endif
