/* Training one model per slice, in one process or in a pool of processes over one queue.
 *
 *     int train(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
 *     {
 *         return cadre_ridge_fit(slice, &options, model, error);
 *     }
 *     cadre_report *report = cadre_loop(slices, (cadre_loop_options){
 *         .train = train, .is_multiple_processors = true, .cpu_count = 2, .models = "models"});
 *
 * Single-process multi-loop: the slices are trained one after the other in the calling process.
 * A crash in train is then a crash of that process (in a notebook: of the cell).
 *
 * Multi-process multi-loop: cpu_count forked workers take slices from one queue in shared memory,
 * those with most rows first. Tables are shared, not copied; what train changes in memory stays in
 * its worker. A worker that dies loses nothing that was finished: the slice it was at is done once
 * more (`retries`) in a new worker and then reported as crashed, while the others go on. Workers
 * end with the loop, with an interrupt and with the process that called it. When no process can be
 * started, the loop runs in the calling one and cadre_report_remark says so.
 *
 * In both modes OpenBLAS and OpenMP have one thread while the loop runs: more processes are faster
 * than more threads, and sums of the same numbers then have the same bits. An error that a
 * function of the runtime raises in train (a file that is not there) ends that slice only.
 *
 * An interrupt (base/interrupt.h) ends the loop at once with CADRE_EINTERRUPT; models that were
 * saved before stay, and the manifest lists them.
 */
#ifndef CADRE_LOOP_H
#define CADRE_LOOP_H

#include "../base/base.h"
#include "../data/data.h"
#include "../model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Trains the model of one slice. 0, or another status with *error filled (the slice is refused
 * and reported with that message). In multi-process mode it may crash or be killed. stdout and
 * stderr are flushed after each call. */
typedef int (*cadre_train_function)(const cadre_slice *slice, cadre_model *model, void *user,
                                    cadre_error *error);

typedef struct cadre_loop_options {
    cadre_train_function train;
    void *user;
    bool is_multiple_processors; /* false: single-process multi-loop */
    int cpu_count;               /* processes when is_multiple_processors; from 1 to the vCPUs */
    const char *models;          /* folder for NAME.safetensors and manifest.json; NULL: none */
    int retries;                 /* of a slice whose worker was killed; 0 means 1, negative none */
    bool quiet;                  /* no progress bar */
} cadre_loop_options;

/* The folder is made when it is missing, with the folders above it. In NAME every byte but
 * letters, digits, '.', '_' and '-' is written as %XX ("UA/EWR" is UA%2FEWR.safetensors), a name
 * too long for a file is cut and gets a hash. manifest.json lists name, file and SHA-256 of each
 * model in slice order, its metrics, and the slices without one and why. */

typedef enum cadre_slice_state {
    CADRE_SLICE_TRAINED,
    CADRE_SLICE_REFUSED, /* train returned an error (too small ...): see message */
    CADRE_SLICE_CRASHED  /* its process died, every retry too */
} cadre_slice_state;

typedef struct cadre_report cadre_report;

/* Runs the loop; both modes give byte-equal models. New report, shown as text and HTML when it
 * is the value of a cell. An option that cannot be used (cpu_count 0, negative, above the vCPUs)
 * goes to the error handler, with both numbers; NULL when that returns. */
CADRE_API cadre_report *cadre_loop(const cadre_slices *slices, cadre_loop_options options);
CADRE_API void cadre_report_free(cadre_report *report);
CADRE_API size_t cadre_report_slices(const cadre_report *report);
CADRE_API size_t cadre_report_models(const cadre_report *report); /* trained ones */
CADRE_API double cadre_report_seconds(const cadre_report *report);
CADRE_API int cadre_report_processes(const cadre_report *report); /* that trained at one time */
/* "" or what else should be known, such as fewer processes than asked for. Borrowed. */
CADRE_API const char *cadre_report_remark(const cadre_report *report);

/* Of one slice, 0 to cadre_report_slices - 1, in the order of the slices. */
CADRE_API const char *cadre_report_name(const cadre_report *report, size_t index);
CADRE_API cadre_slice_state cadre_report_state(const cadre_report *report, size_t index);
/* Why it has no model: the error of train, or "killed by SIGSEGV"; "" when trained. Borrowed. */
CADRE_API const char *cadre_report_message(const cadre_report *report, size_t index);
CADRE_API size_t cadre_report_rows(const cadre_report *report, size_t index);
CADRE_API double cadre_report_slice_seconds(const cadre_report *report, size_t index);
/* "error", "error_mean", "rows_train", "rows_test" of the model; NaN: none. */
CADRE_API double cadre_report_metric(const cadre_report *report, size_t index, const char *name);
/* Borrowed, decoded at the first call; NULL unless trained. */
CADRE_API const cadre_model *cadre_report_model(const cadre_report *report, size_t index);

/* SHA-256 over all encoded models in slice order, 64 hex digits: equal models, equal digest. */
CADRE_API const char *cadre_report_digest(const cadre_report *report);
/* Weighted by rows_test: root mean square error of all held-out rows together, and that of always
 * predicting the mean of the slice. NaN: no model has them. */
CADRE_API double cadre_report_error(const cadre_report *report);
CADRE_API double cadre_report_error_mean(const cadre_report *report);
/* {"slices":35, "models":.., "processes":.., "seconds":.., "error":.., "error_mean":..,
 * "digest":"..", "remark":"", "refused":[{"name":.., "state":"refused"|"crashed",
 * "message":..}..]}; new text. */
CADRE_API char *cadre_report_json(const cadre_report *report);

#ifdef __cplusplus
}
#endif
#endif
