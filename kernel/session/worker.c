#include "session/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct worker {
    pthread_t thread;
    /* Guards everything below it; both threads read and write it. */
    pthread_mutex_t lock;
    pthread_cond_t change;
    job *queue, *finished; /* oldest first */
    bool running, stopping, joined;
    int event_fd;
    bool is_told; /* event_fd was written since it was read; under the lock */
};

static void append(job **list, job *work)
{
    while (*list)
        list = &(*list)->next;
    work->next = NULL;
    *list = work;
}

static void *run(void *argument)
{
    worker *self = argument;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (!self->queue && !self->stopping)
            pthread_cond_wait(&self->change, &self->lock);
        if (!self->queue) break;
        job *work = self->queue;
        self->queue = work->next;
        self->running = true;
        pthread_mutex_unlock(&self->lock);
        work->run(work);
        pthread_mutex_lock(&self->lock);
        self->running = false;
        append(&self->finished, work);
        uint64_t one = 1;
        self->is_told = true;
        ssize_t written = write(self->event_fd, &one, sizeof one);
        (void)written; /* only a full counter fails, and then the descriptor is readable */
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

worker *worker_start(cadre_error *error)
{
    worker *self = calloc(1, sizeof *self);
    if (!self) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return NULL;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->change, NULL);
    self->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = self->event_fd < 0 ? errno : pthread_create(&self->thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem == 0) return self;
    cadre_error_set(error, CADRE_ESYSTEM, "no thread: %s", strerror(problem));
    self->joined = true;
    worker_free(self);
    return NULL;
}

void worker_post(worker *self, job *work)
{
    pthread_mutex_lock(&self->lock);
    append(&self->queue, work);
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
}

int worker_fd(const worker *self)
{
    return self->event_fd;
}

job *worker_take(worker *self)
{
    uint64_t count;
    pthread_mutex_lock(&self->lock);
    job *work = self->finished;
    if (work) {
        self->finished = work->next;
    } else if (self->is_told) {
        self->is_told = false;
        ssize_t got = read(self->event_fd, &count, sizeof count);
        (void)got;
    }
    pthread_mutex_unlock(&self->lock);
    return work;
}

bool worker_is_idle(worker *self)
{
    pthread_mutex_lock(&self->lock);
    bool idle = !self->queue && !self->running;
    pthread_mutex_unlock(&self->lock);
    return idle;
}

void worker_stop(worker *self)
{
    if (!self || self->joined) return;
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    self->joined = true;
}

void worker_free(worker *self)
{
    if (!self) return;
    worker_stop(self);
    if (self->event_fd >= 0) close(self->event_fd);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->change);
    free(self);
}
