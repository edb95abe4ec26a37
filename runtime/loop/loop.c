#include "loop/loop.h"
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "cpu/cpu.h"
#include "loop/pool.h"
#include "show/show.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_options(const cadre_slices *slices, const cadre_loop_options *options,
                         cadre_error *error)
{
    if (!slices) return cadre_error_set(error, CADRE_EINPUT, "cadre_loop needs slices, not NULL");
    if (!options->train)
        return cadre_error_set(error, CADRE_EINPUT, "cadre_loop needs a function: .train = ...");
    if (!options->is_multiple_processors) return CADRE_OK;
    int limit = cadre_cpu_count();
    if (options->cpu_count < 1)
        return cadre_error_set(error, CADRE_EINPUT,
                               "cpu_count is %d; with several processes it must be from 1 to %d",
                               options->cpu_count, limit);
    if (options->cpu_count > limit)
        return cadre_error_set(
            error, CADRE_EINPUT, "cpu_count is %d, but this environment has %d vCPU%s (%s)",
            options->cpu_count, limit, limit == 1 ? "" : "s", cadre_cpu_describe());
    return CADRE_OK;
}

typedef struct place {
    size_t index, rows;
} place;

static int longest_first(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->rows != b->rows) return a->rows < b->rows ? 1 : -1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int prepare(loop_run *run, cadre_error *error)
{
    size_t count = run->count;
    place *places = calloc(count + 1, sizeof *places);
    run->order = calloc(count + 1, sizeof *run->order);
    run->results = calloc(count + 1, sizeof *run->results);
    if (!places || !run->order || !run->results) {
        free(places);
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for a loop over %zu slices", count);
    }
    for (size_t i = 0; i < count; i++)
        places[i] = (place){i, cadre_slices_get(run->slices, i)->row_count};
    qsort(places, count, sizeof *places, longest_first);
    for (size_t i = 0; i < count; i++)
        run->order[i] = places[i].index;
    free(places);
    return CADRE_OK;
}

/* Trains in this process what is not done yet. */
static int run_here(loop_run *run, cadre_error *error)
{
    for (size_t i = 0; i < run->count; i++) {
        slice_result *result = &run->results[i];
        if (result->done) continue;
        if (!cadre_interrupt_requested()) cadre_loop_train(run, i, result);
        if (cadre_interrupt_requested()) {
            if (result->state != CADRE_SLICE_TRAINED || !result->bytes)
                cadre_loop_result_clear(result);
            result->done = result->bytes != NULL;
            run->done += result->done;
            return cadre_error_set(error, CADRE_EINTERRUPT, "interrupted");
        }
        result->done = true;
        run->done++;
        cadre_progress_set(run->progress, run->done, NULL);
    }
    return CADRE_OK;
}

static int run_slices(loop_run *run, cadre_error *error)
{
    int status = CADRE_OK;
    thread_counts threads = cadre_threads_set_one();
    if (run->options->is_multiple_processors && run->count > 0)
        status = cadre_loop_pool(run, error);
    if (status == CADRE_OK && run->done < run->count) {
        status = run_here(run, error);
        if (run->processes == 0) run->processes = 1;
    }
    cadre_threads_restore(threads);
    return status;
}

static void release(loop_run *run)
{
    if (run->results)
        for (size_t i = 0; i < run->count; i++)
            cadre_loop_result_clear(&run->results[i]);
    free(run->results);
    free(run->order);
    cadre_progress_free(run->progress);
    *run = (loop_run){0};
}

cadre_report *cadre_loop(const cadre_slices *slices, cadre_loop_options options)
{
    cadre_error error = {0};
    cadre_report *report = NULL;
    char digest[65];
    loop_run run = {.slices = slices, .options = &options};
    double start = cadre_loop_now();
    int status = check_options(slices, &options, &error);
    if (status < 0) goto done;
    run.count = cadre_slices_count(slices);
    if ((status = prepare(&run, &error)) < 0) goto done;
    if (options.models && (status = cadre_folder_make(options.models, &error)) < 0) goto done;
    if (!options.quiet) run.progress = cadre_progress_new("models", run.count);

    status = run_slices(&run, &error);
    cadre_loop_digest(run.results, run.count, digest);
    if (options.models) {
        cadre_error folder = {0};
        if (cadre_folder_write_manifest(&run, digest, &folder) < 0 && status == CADRE_OK) {
            status = folder.code;
            error = folder;
        }
    }
    if (status == CADRE_EINTERRUPT) {
        cadre_error_set(&error, status, "interrupted: %zu of %zu slices were finished%s%s",
                        run.done, run.count, options.models ? ", their models are in " : "",
                        options.models ? options.models : "");
    }
    if (status < 0) goto done;
    cadre_progress_set(run.progress, run.done, NULL);
    double seconds = cadre_loop_now() - start;
    report = cadre_report_new(&run, seconds, digest);
    if (!report) status = cadre_error_set(&error, CADRE_EMEMORY, "no memory for the report");
done:
    release(&run);
    if (status < 0) cadre_raise(&error);
    return report;
}
