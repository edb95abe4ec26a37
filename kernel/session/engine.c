/* The engine in its thread: the compiler takes its time, the front does not wait. */
#include "base/user_folder.h"
#include "session/front.h"

#include <stdlib.h>
#include <string.h>

typedef struct plain_job {
    job job;
    front *front;
    uint64_t generation;
} plain_job;

static void free_plain(void *context, job *work)
{
    (void)context;
    free(work);
}

static void run_open(job *work)
{
    front *self = ((plain_job *)work)->front;
    cadre_error error = {0};
    cadre_buffer folder = {0};
    /* Where compiled cells are kept; nowhere without a home. */
    bool has_cache = cadre_user_path(&folder, "XDG_CACHE_HOME", ".cache", "cadre");
    cadre_engine_options options = {.cache_dir = has_cache ? folder.data : ""};
    cadre_engine *engine = cadre_engine_new(&options, &error);
    cadre_buffer_free(&folder);
    if (!engine) {
        self->engine_problem = strdup(error.message);
        return;
    }
    __atomic_store_n(&self->engine, engine, __ATOMIC_RELEASE);
    cadre_engine_warm(engine);
}

static void run_rewind(job *work)
{
    plain_job *rewind = (plain_job *)work;
    if (rewind->front->engine) cadre_engine_rewind(rewind->front->engine, rewind->generation);
}

void engine_post(front *self, job *work, void (*run)(job *), void (*done)(void *, job *))
{
    work->run = run;
    work->done = done;
    worker_post(self->engine_worker, work);
}

void engine_open(front *self)
{
    plain_job *open = calloc(1, sizeof *open);
    if (!open) return; /* each cell then says that there is no engine */
    open->front = self;
    engine_post(self, &open->job, run_open, free_plain);
}

void engine_cancel(front *self)
{
    /* The engine's thread writes the pointer once; cancel may be called from any thread. */
    cadre_engine *engine = __atomic_load_n(&self->engine, __ATOMIC_ACQUIRE);
    if (engine) cadre_engine_cancel(engine);
}

void engine_stop(front *self)
{
    if (!self->engine_worker) return;
    engine_cancel(self);
    worker_stop(self->engine_worker);
    for (job *work; (work = worker_take(self->engine_worker));)
        work->done(self, work);
    worker_free(self->engine_worker);
    self->engine_worker = NULL;
    cadre_engine_free(self->engine);
    self->engine = NULL;
    free(self->engine_problem);
}

prepare_job *engine_prepare(front *self, const char *code, size_t length, int execution_count)
{
    prepare_job *work = calloc(1, sizeof *work);
    if (!work) return NULL;
    work->front = self;
    work->code = malloc(length + 1);
    work->length = length;
    work->execution_count = execution_count;
    work->used = json_object();
    if (!work->code || !work->used) {
        prepare_job_free(work);
        return NULL;
    }
    memcpy(work->code, code, length);
    work->code[length] = 0;
    return work;
}

void prepare_job_free(prepare_job *work)
{
    if (!work) return;
    free(work->code);
    free(work->problem);
    free(work->folder);
    json_decref(work->parameters);
    json_decref(work->channels);
    json_decref(work->applied);
    json_decref(work->used);
    cadre_cell_free(work->cell);
    free(work);
}

void engine_run_prepare(job *base)
{
    prepare_job *work = (prepare_job *)base;
    front *self = work->front;
    if (!self->engine) {
        work->problem = strdup(self->engine_problem ? self->engine_problem : "no memory");
        return;
    }
    cadre_cell_request wanted = {.code = work->code,
                                 .length = work->length,
                                 .execution_count = work->execution_count,
                                 .parameters = work->parameters,
                                 .folder = work->folder,
                                 .channels = work->channels,
                                 .applied = work->applied,
                                 .used = work->used};
    work->cell = cadre_engine_prepare(self->engine, &wanted);
}

void engine_run_commit(job *base)
{
    commit_job *work = (commit_job *)base;
    front *self = work->front;
    work->generation =
        cadre_engine_commit(self->engine, work->cell, work->arrays, work->array_count);
    cadre_cell_free(work->cell);
    work->cell = NULL;
}

void engine_rewind(front *self, uint64_t generation)
{
    plain_job *rewind = calloc(1, sizeof *rewind);
    if (!rewind) return;
    rewind->front = self;
    rewind->generation = generation;
    engine_post(self, &rewind->job, run_rewind, free_plain);
}
