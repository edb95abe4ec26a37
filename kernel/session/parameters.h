/* Parameters that come from outside (docs: parameters), merged for each cell.
 *
 * Channel 2 is fixed at kernel start (kernelspec metadata, CADRE_PARAMETERS), channel 4 comes with
 * requests and stays until a later request says otherwise; channel 5 is a line in a cell,
 * `%parameters {"cpu_count": 2}` or `//% parameters {"cpu_count": 2}`, as papermill's injected cell
 * has it. The later channel wins. A value is applied once and again when it changed; a new
 * declaration of its name always gets it.
 */
#ifndef CADRE_SESSION_PARAMETERS_H
#define CADRE_SESSION_PARAMETERS_H

#include "base/base.h"

#include <jansson.h>

typedef struct parameters {
    json_t *fixed;     /* channel 2: name -> value */
    json_t *requested; /* channel 4: name -> value */
    json_t *before;    /* `requested` as it was before the last request */
    json_t *inlined;   /* channel 5: name -> value */
    json_t *inlined_before;
    json_t *applied; /* name -> [value, generation in which it took effect] */
    char *problem;   /* why channel 2 could not be read, told once; or NULL */
} parameters;

/* Reads kernelspec_dir/kernel.json (NULL: none) and `environment`, the text of CADRE_PARAMETERS
 * (NULL: none). What cannot be used is remembered in `problem`. */
int parameters_init(parameters *self, const char *kernelspec_dir, const char *environment);
void parameters_free(parameters *self);

/* Takes metadata.cadre.parameters of a request, if there is one. CADRE_EINPUT: it is not an
 * object of values. */
int parameters_request(parameters *self, const json_t *metadata, cadre_error *error);
/* Takes what the lines of a cell say. CADRE_EINPUT: one is no JSON object. */
int parameters_inline(parameters *self, const char *code, size_t length, cadre_error *error);
/* Overwrites those lines with blanks, so that the compiler sees plain C on the same lines. */
void parameters_inline_hide(char *code, size_t length);
/* One such line: offsets of its begin, of its JSON and of its end (the newline is not part). */
typedef struct parameters_line {
    size_t begin, values, end;
} parameters_line;
/* The next one after *line ({0} at first), outside of comments and literals; false: no more. */
bool parameters_inline_next(const char *code, size_t length, parameters_line *line);
/* What the request brought was refused: forgets it, so that it does not come back by itself. */
void parameters_refuse(parameters *self);
/* All values now, new object. */
json_t *parameters_merged(const parameters *self);
/* Which channel each of them comes from, as %params shows it: name -> text; new object. */
json_t *parameters_channels(const parameters *self);
/* Names of `merged` whose value was applied before and is the same, each `true`; new object. */
json_t *parameters_unchanged(const parameters *self, const json_t *merged);
/* The names in `used` have taken their values of `merged` in a cell committed as `generation`. */
void parameters_used(parameters *self, const json_t *merged, const json_t *used,
                     uint64_t generation);
/* Memory is that of `generation` again. */
void parameters_rewind(parameters *self, uint64_t generation);

/* cpu_count may not be above the vCPUs: 0, or CADRE_EINPUT with both numbers. */
int parameters_check_cpus(const json_t *merged, const json_t *used, int vcpus, cadre_error *error);

#endif
