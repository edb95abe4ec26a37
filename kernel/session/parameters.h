/* Parameters that come from outside (docs: parameters), merged for each cell.
 *
 * Channel 2 is fixed at kernel start (kernelspec metadata, CADRE_PARAMETERS), channel 4 comes with
 * requests and stays until a later request says otherwise. The later channel wins. A value is
 * applied once and again when it changed; a new declaration of its name always gets it.
 */
#ifndef CADRE_SESSION_PARAMETERS_H
#define CADRE_SESSION_PARAMETERS_H

#include "base/base.h"

#include <jansson.h>

typedef struct parameters {
    json_t *fixed;     /* channel 2: name -> value */
    json_t *requested; /* channel 4: name -> value */
    json_t *before;    /* `requested` as it was before the last request */
    json_t *applied;   /* name -> [value, generation in which it took effect] */
    char *problem;     /* why channel 2 could not be read, told once; or NULL */
} parameters;

/* Reads kernelspec_dir/kernel.json (NULL: none) and `environment`, the text of CADRE_PARAMETERS
 * (NULL: none). What cannot be used is remembered in `problem`. */
int parameters_init(parameters *self, const char *kernelspec_dir, const char *environment);
void parameters_free(parameters *self);

/* Takes metadata.cadre.parameters of a request, if there is one. CADRE_EINPUT: it is not an
 * object of values. */
int parameters_request(parameters *self, const json_t *metadata, cadre_error *error);
/* What the request brought was refused: forgets it, so that it does not come back by itself. */
void parameters_refuse(parameters *self);
/* All values now, new object. */
json_t *parameters_merged(const parameters *self);
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
