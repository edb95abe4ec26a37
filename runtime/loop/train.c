/* Training one slice: the only place where the user's function is called. */
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "loop/run.h"
#include "store/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const cadre_loop_metrics[METRIC_COUNT] = {"error", "error_mean", "rows_train",
                                                      "rows_test"};

double cadre_loop_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum { LEFT_BY_ERROR = 1000 };

/* The handler outside of any loop. Written by the thread that runs a loop, read by
 * threads of the user that raise an error meanwhile. */
static _Atomic(cadre_error_handler) outside;

/* While train runs: an error of the runtime ends the slice, not the cell or the process. */
static void leave_train(const cadre_error *error)
{
    cadre_interrupt_boundary *boundary = cadre_interrupt_innermost();
    if (boundary) siglongjmp(boundary->jump, LEFT_BY_ERROR);
    /* Raised in a thread of the user's own: for whoever is responsible outside. */
    cadre_error_handler handler = atomic_load(&outside);
    if (handler) {
        handler(error);
        return;
    }
    fprintf(stderr, "cadre: %s\n", error->message);
    exit(EXIT_FAILURE);
}

static int call_train(const loop_run *run, const cadre_slice *slice, cadre_model *model,
                      cadre_error *error)
{
    cadre_interrupt_boundary boundary = {.stack = __builtin_frame_address(0)};
    pid_t process = getpid();
    int status, left = sigsetjmp(boundary.jump, 1);
    if (left == 0) {
        cadre_interrupt_enter(&boundary);
        status = run->options->train(slice, model, run->options->user, error);
        /* A child that train forked and let return must not go on with the loop. */
        if (getpid() != process) _exit(0);
    } else if (left == LEFT_BY_ERROR) {
        *error = *cadre_last_error();
        status = error->code;
    } else {
        status = cadre_error_set(error, CADRE_EINTERRUPT, "interrupted");
    }
    cadre_interrupt_leave(&boundary);
    return status;
}

static int save(const loop_run *run, const char *name, const slice_result *result,
                cadre_error *error)
{
    char *path = NULL, *file = cadre_folder_file_name(name);
    int status = CADRE_EMEMORY;
    if (file && asprintf(&path, "%s/%s", run->options->models, file) >= 0)
        status = cadre_write_file(path, result->bytes, result->length, error);
    else
        cadre_error_set(error, CADRE_EMEMORY, "no memory to save the model");
    free(path);
    free(file);
    return status;
}

void cadre_loop_train(const loop_run *run, size_t index, slice_result *result)
{
    const cadre_slice *slice = cadre_slices_get(run->slices, index);
    cadre_error error = {0};
    double start = cadre_loop_now();
    int status = CADRE_EMEMORY;
    cadre_model *model = cadre_model_new(slice->name);
    if (model) {
        cadre_error_handler before = cadre_set_error_handler(leave_train);
        if (before != leave_train) atomic_store(&outside, before);
        status = call_train(run, slice, model, &error);
        cadre_set_error_handler(before);
    }
    if (status == CADRE_OK) {
        for (size_t i = 0; i < METRIC_COUNT; i++)
            result->metrics[i] = cadre_model_metric(model, cadre_loop_metrics[i]);
        result->bytes = cadre_model_encode(model, &result->length, &error);
        if (!result->bytes) status = error.code ? error.code : CADRE_EMEMORY;
    }
    if (status == CADRE_OK && run->options->models) status = save(run, slice->name, result, &error);
    cadre_model_free(model);
    /* What train printed belongs before what the next slice prints, in every process. */
    fflush(stdout);
    fflush(stderr);

    result->state = status == CADRE_OK ? CADRE_SLICE_TRAINED : CADRE_SLICE_REFUSED;
    result->seconds = cadre_loop_now() - start;
    if (status == CADRE_OK) return;
    free(result->bytes);
    result->bytes = NULL;
    result->length = 0;
    if (error.message[0])
        result->message = strdup(error.message);
    else if (!model)
        result->message = strdup("no memory for a model");
    else if (asprintf(&result->message, "train returned %d without a message", status) < 0)
        result->message = NULL;
}

void cadre_loop_result_clear(slice_result *result)
{
    free(result->message);
    free(result->bytes);
    *result = (slice_result){0};
}
