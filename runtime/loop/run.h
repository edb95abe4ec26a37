/* What the files of loop/ share. Private. */
#ifndef CADRE_LOOP_RUN_H
#define CADRE_LOOP_RUN_H

#include "loop/loop.h"

#include <stdatomic.h>

enum { METRIC_COUNT = 4 };
extern const char *const cadre_loop_metrics[METRIC_COUNT];

/* What came of one slice. */
typedef struct slice_result {
    bool done;
    cadre_slice_state state;
    char *message;        /* owned; NULL when trained */
    unsigned char *bytes; /* owned; the encoded model when trained */
    size_t length;
    double seconds;
    double metrics[METRIC_COUNT];
} slice_result;

typedef struct loop_run {
    const cadre_slices *slices;
    const cadre_loop_options *options;
    size_t count;
    size_t *order;         /* slice numbers, most rows first */
    slice_result *results; /* in slice order */
    size_t done;
    int processes; /* that trained at one time */
    char remark[400];
    struct cadre_progress *progress;
} loop_run;

double cadre_loop_now(void);

/* train.c: one slice, in whatever process this is; saves the model when a folder was given. The
 * result is whole but for `done`. */
void cadre_loop_train(const loop_run *run, size_t index, slice_result *result);
void cadre_loop_result_clear(slice_result *result);

/* pool.c: trains what is not done yet with forked workers. CADRE_OK: all done, or (nothing could
 * be started) the remark says why and the rest is left. CADRE_EINTERRUPT, CADRE_EMEMORY. */
int cadre_loop_pool(loop_run *run, cadre_error *error);

/* folder.c */
int cadre_folder_make(const char *path, cadre_error *error); /* with the folders above it */
char *cadre_folder_file_name(const char *slice_name);        /* new */
int cadre_folder_write_manifest(const loop_run *run, const char *digest, cadre_error *error);

/* report.c; steals the results and the names it needs. */
cadre_report *cadre_report_new(loop_run *run, double seconds, const char *digest);
/* digest: 65 bytes */
void cadre_loop_digest(const slice_result *results, size_t count, char *digest);

#endif
