/* A thread that does jobs one after the other, and hands them back through a descriptor. */
#ifndef CADRE_SESSION_WORKER_H
#define CADRE_SESSION_WORKER_H

#include "base/base.h"

/* The first member of every job. `run` is called in the worker's thread. */
typedef struct job {
    void (*run)(struct job *job);
    void (*done)(void *context, struct job *job); /* in the front, by whoever takes it: owns it */
    struct job *next;
} job;

typedef struct worker worker;

worker *worker_start(cadre_error *error);
void worker_post(worker *self, job *work); /* stolen */
/* Readable when worker_take has something. */
int worker_fd(const worker *self);
job *worker_take(worker *self); /* NULL: nothing is finished */
/* Nothing is queued or running. */
bool worker_is_idle(worker *self);
/* Waits for the job that runs. Jobs not begun are run too, so that they free what they hold;
 * then finished ones can still be taken. */
void worker_stop(worker *self);
void worker_free(worker *self);

#endif
