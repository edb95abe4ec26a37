/* Training one model per slice, in one process or in a pool of processes over one queue. */
#ifndef CADRE_LOOP_H
#define CADRE_LOOP_H

#include "../base/base.h"
#include "../data/data.h"
#include "../model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Trains the model of one slice. 0, or a negative status with *error filled. It may crash or be
 * killed: that slice is reported with its name and the others go on. */
typedef int (*cadre_train_function)(const cadre_slice *slice, cadre_model *model, void *user,
                                    cadre_error *error);

typedef struct cadre_loop_options {
    cadre_train_function train;
    void *user;
    bool is_multiple_processors; /* false: single-process multi-loop */
    int cpu_count;               /* processes when is_multiple_processors; from 1 to the vCPUs */
    const char *models;          /* folder for NAME.safetensors and manifest.json; NULL: none */
    int retries;                 /* of a slice whose worker was killed; 0 means 1 */
    bool quiet;                  /* no progress bar */
} cadre_loop_options;

typedef enum cadre_slice_state {
    CADRE_SLICE_TRAINED,
    CADRE_SLICE_REFUSED, /* train returned an error (too small ...): see message */
    CADRE_SLICE_CRASHED  /* its process died, every retry too */
} cadre_slice_state;

typedef struct cadre_report cadre_report;

/* Runs the loop; both modes give byte-equal models. New report, shown as text and HTML when it
 * is the value of a cell. An option that cannot be used (cpu_count 0, negative, above the vCPUs)
 * goes to the error handler, with both numbers. */
CADRE_API cadre_report *cadre_loop(const cadre_slices *slices, cadre_loop_options options);
CADRE_API void cadre_report_free(cadre_report *report);
CADRE_API size_t cadre_report_slices(const cadre_report *report);
CADRE_API size_t cadre_report_models(const cadre_report *report); /* trained ones */
CADRE_API double cadre_report_seconds(const cadre_report *report);
CADRE_API int cadre_report_processes(const cadre_report *report);
CADRE_API const char *cadre_report_name(const cadre_report *report, size_t index);
CADRE_API cadre_slice_state cadre_report_state(const cadre_report *report, size_t index);
CADRE_API const char *cadre_report_message(const cadre_report *report, size_t index);
/* Borrowed; NULL unless trained. */
CADRE_API const cadre_model *cadre_report_model(const cadre_report *report, size_t index);
/* SHA-256 over all encoded models in slice order, 64 hex digits: equal models, equal digest. */
CADRE_API const char *cadre_report_digest(const cadre_report *report);
/* Weighted by rows_test: root mean square error of all held-out rows together. */
CADRE_API double cadre_report_error(const cadre_report *report);
CADRE_API double cadre_report_error_mean(const cadre_report *report);
/* {"slices":35,"models":..,"seconds":..,"error":..,"error_mean":..,"digest":"..","refused":[{name,message}..]}
 * new text. */
CADRE_API char *cadre_report_json(const cadre_report *report);

#ifdef __cplusplus
}
#endif
#endif
