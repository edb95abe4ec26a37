/* The parent of the workers: starts them, watches for their deaths, collects results. It waits for
 * the processes it started and for no others: a cell may have children of its own. */
#include "loop/pool.h"
#include "base/interrupt.h"
#include "show/show.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Workers may die one after the other before they take a slice, so that no slice's tries count:
 * after so many rounds of all of them the loop is given up. */
enum { TICK_MS = 50, BARREN_ROUNDS = 3 };

typedef struct worker_pool {
    loop_run *run;
    slice_queue *queue;
    size_t queue_size;
    pool_worker *workers;
    size_t size; /* places for workers */
    size_t alive;
    uint32_t last_number;
    unsigned char *tries; /* per place: how often a worker died at it */
    int fork_errno;       /* of the last refusal */
    size_t barren;        /* deaths in a row of workers that never had a slice */
    char barren_why[200]; /* how the last of them ended */
    struct pollfd *items; /* two per worker */
} worker_pool;

static slice_result *result_of(worker_pool *pool, uint64_t place)
{
    return &pool->run->results[pool->run->order[place]];
}

/* ---- results ---- */

static void accept_result(worker_pool *pool, uint64_t place, const void *bytes)
{
    queue_slot *slot = &pool->queue->slots[place];
    slice_result *result = result_of(pool, place);
    if (result->done) return;
    size_t length = slot->length;
    char *copy = malloc(length + 1);
    result->done = true;
    pool->run->done++;
    result->state = (cadre_slice_state)slot->slice_state;
    result->seconds = slot->seconds;
    memcpy(result->metrics, slot->metrics, sizeof result->metrics);
    if (!copy) {
        result->state = CADRE_SLICE_REFUSED;
        result->message = strdup("no memory to keep the model");
        return;
    }
    if (length) memcpy(copy, bytes, length);
    copy[length] = 0;
    if (result->state == CADRE_SLICE_TRAINED) {
        result->bytes = (unsigned char *)copy;
        result->length = length;
    } else {
        result->message = copy;
    }
}

/* Takes what the worker left in its arena. */
static void collect_arena(worker_pool *pool, const pool_worker *worker)
{
    for (uint64_t place = 0; place < pool->queue->count; place++) {
        queue_slot *slot = &pool->queue->slots[place];
        if (atomic_load_explicit(&slot->owner, memory_order_relaxed) != worker->number) continue;
        if (atomic_load_explicit(&slot->state, memory_order_acquire) != SLOT_IN_ARENA) continue;
        accept_result(pool, place, worker->arena + slot->offset);
    }
}

/* The sender sets the slot's state after it has sent, so state is not looked at here; all other
 * fields were written before and the message orders them. */
static void accept_memfd(worker_pool *pool, const sent_result *head, int fd)
{
    void *bytes = NULL;
    if (head->place >= pool->queue->count) return;
    if (head->length) {
        bytes = mmap(NULL, head->length, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) return;
    }
    accept_result(pool, head->place, bytes);
    if (bytes) munmap(bytes, head->length);
}

static void drain_socket(worker_pool *pool, pool_worker *worker)
{
    while (worker->socket >= 0) {
        union {
            struct cmsghdr header;
            char space[CMSG_SPACE(sizeof(int))];
        } control;
        sent_result head;
        struct iovec part = {&head, sizeof head};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.space,
                                 .msg_controllen = sizeof control.space};
        ssize_t got = recvmsg(worker->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            /* The worker is on its way out; an open end would wake the parent without pause. */
            if (worker->socket >= 0) close(worker->socket);
            worker->socket = -1;
            return;
        }
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        if (got != sizeof head || !rights || rights->cmsg_type != SCM_RIGHTS) continue;
        int fd;
        memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        accept_memfd(pool, &head, fd);
        close(fd);
    }
}

/* ---- workers ---- */

static void worker_release(pool_worker *worker)
{
    if (worker->socket >= 0) close(worker->socket);
    if (worker->pidfd >= 0) close(worker->pidfd);
    if (worker->arena) munmap(worker->arena, ARENA_SIZE);
    *worker = (struct pool_worker){.pidfd = -1, .socket = -1};
}

/* `place`: one that becomes the new worker's own before it runs, or -1. */
static bool worker_start(worker_pool *pool, pool_worker *worker, long place)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        pool->fork_errno = errno;
        return false;
    }
    uint32_t number = ++pool->last_number;
    unsigned char *arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *worker = (struct pool_worker){.number = number,
                                   .pidfd = -1,
                                   .socket = pair[0],
                                   .arena = arena == MAP_FAILED ? NULL : arena};
    if (place >= 0) atomic_store(&pool->queue->slots[place].owner, number);
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < pool->size; i++)
            if (pool->workers[i].socket >= 0) close(pool->workers[i].socket);
        cadre_worker_main(pool->run, pool->queue, number, worker->arena, pair[1], parent, place);
    }
    close(pair[1]);
    if (pid < 0) {
        pool->fork_errno = errno;
        if (place >= 0) atomic_store(&pool->queue->slots[place].owner, 0);
        worker_release(worker);
        return false;
    }
    worker->pid = pid;
    worker->pidfd = pidfd_open(pid, 0);
    pool->alive++;
    return true;
}

static void say_how_it_ended(const siginfo_t *info, bool known, char *text, size_t size)
{
    if (!known) {
        snprintf(text, size, "its process ended");
    } else if (info->si_code == CLD_EXITED) {
        snprintf(text, size, "its process ended with exit status %d", info->si_status);
    } else {
        const char *name = sigabbrev_np(info->si_status);
        const char *what = sigdescr_np(info->si_status);
        snprintf(text, size, "killed by SIG%s (%s%s)", name ? name : "?", what ? what : "?",
                 info->si_status == SIGKILL ? "; out of memory?" : "");
    }
}

static bool has_had_a_slice(const worker_pool *pool, uint32_t number)
{
    for (uint64_t place = 0; place < pool->queue->count; place++)
        if (atomic_load(&pool->queue->slots[place].owner) == number) return true;
    return false;
}

/* The worker is dead and reaped: what it had is finished, tried again or given up. */
static void bury(worker_pool *pool, pool_worker *worker, const siginfo_t *info, bool known)
{
    loop_run *run = pool->run;
    drain_socket(pool, worker);
    collect_arena(pool, worker);
    uint32_t number = worker->number;
    worker_release(worker);
    pool->alive--;

    bool ended_well = known && info->si_code == CLD_EXITED && info->si_status == 0;
    if (has_had_a_slice(pool, number) || ended_well) {
        pool->barren = 0;
    } else {
        pool->barren++;
        say_how_it_ended(info, known, pool->barren_why, sizeof pool->barren_why);
    }

    int retries = run->options->retries;
    retries = retries == 0 ? 1 : retries < 0 ? 0 : retries > 100 ? 100 : retries;
    for (uint64_t place = 0; place < pool->queue->count; place++) {
        queue_slot *slot = &pool->queue->slots[place];
        slice_result *result = result_of(pool, place);
        if (result->done || atomic_load(&slot->owner) != number) continue;
        if (pool->tries[place]++ < retries) {
            atomic_store(&slot->state, SLOT_OPEN);
            if (worker->pid == 0 && worker_start(pool, worker, (long)place)) continue;
            atomic_store(&slot->owner, 0); /* nobody could be started: for those who live */
            atomic_store(&pool->queue->first, 0);
            continue;
        }
        char why[200];
        say_how_it_ended(info, known, why, sizeof why);
        result->done = true;
        result->state = CADRE_SLICE_CRASHED;
        if (asprintf(&result->message, "%s%s", why, pool->tries[place] > 1 ? ", tried again" : "") <
            0)
            result->message = NULL;
        run->done++;
    }
}

static void reap_dead(worker_pool *pool)
{
    for (size_t i = 0; i < pool->size; i++) {
        pool_worker *worker = &pool->workers[i];
        siginfo_t info = {0};
        if (worker->pid == 0) continue;
        int status = waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOHANG);
        if (status < 0 && errno == EINTR) continue;
        if (status == 0 && info.si_pid == 0) continue;
        /* ECHILD: the program ignores SIGCHLD, so the system reaped it without a word. */
        bury(pool, worker, &info, status == 0);
    }
}

static void kill_all(worker_pool *pool)
{
    for (size_t i = 0; i < pool->size; i++)
        if (pool->workers[i].pid > 0) kill(pool->workers[i].pid, SIGKILL);
    for (size_t i = 0; i < pool->size; i++) {
        pool_worker *worker = &pool->workers[i];
        if (worker->pid == 0) continue;
        siginfo_t info;
        while (waitid(P_PID, (id_t)worker->pid, &info, WEXITED) < 0 && errno == EINTR)
            ;
        drain_socket(pool, worker);
        collect_arena(pool, worker);
        worker_release(worker);
        pool->alive--;
    }
}

static size_t finished(const worker_pool *pool)
{
    size_t count = 0;
    for (uint64_t place = 0; place < pool->queue->count; place++) {
        const queue_slot *slot = &pool->queue->slots[place];
        count += atomic_load_explicit(&slot->state, memory_order_relaxed) != SLOT_OPEN ||
                 pool->run->results[pool->run->order[place]].done;
    }
    return count;
}

static void wait_for_news(worker_pool *pool)
{
    for (size_t i = 0; i < pool->size; i++) {
        pool->items[2 * i] = (struct pollfd){.fd = pool->workers[i].pidfd, .events = POLLIN};
        pool->items[2 * i + 1] = (struct pollfd){.fd = pool->workers[i].socket, .events = POLLIN};
    }
    poll(pool->items, 2 * pool->size, TICK_MS);
    for (size_t i = 0; i < pool->size; i++)
        if (pool->items[2 * i + 1].revents) drain_socket(pool, &pool->workers[i]);
}

/* Starts workers for places nobody has. False: none runs and none can be started. */
static bool fill(worker_pool *pool)
{
    size_t open = pool->run->count - pool->run->done;
    for (size_t i = 0; i < pool->size && pool->alive < open; i++) {
        if (pool->workers[i].pid) continue;
        if (!worker_start(pool, &pool->workers[i], -1)) break;
    }
    return pool->alive > 0;
}

static int run_pool(worker_pool *pool, cadre_error *error)
{
    loop_run *run = pool->run;
    bool started = fill(pool);
    run->processes = (int)pool->alive;
    if (started && pool->alive < pool->size)
        snprintf(run->remark, sizeof run->remark, "only %zu of %zu processes could be started: %s",
                 pool->alive, pool->size, strerror(pool->fork_errno));
    while (run->done < run->count || pool->alive > 0) {
        if (cadre_interrupt_requested()) {
            kill_all(pool);
            return cadre_error_set(error, CADRE_EINTERRUPT, "interrupted");
        }
        if (pool->barren >= BARREN_ROUNDS * pool->size) {
            kill_all(pool);
            return cadre_error_set(error, CADRE_ESYSTEM,
                                   "%zu worker processes in a row ended before they began a slice "
                                   "(%s); %zu of %zu slices are done",
                                   pool->barren, pool->barren_why, run->done, run->count);
        }
        if (pool->alive == 0) {
            /* All went, places are left: a death took one between two steps, or a new worker
             * was refused. */
            atomic_store(&pool->queue->first, 0);
            if (!fill(pool)) {
                snprintf(run->remark, sizeof run->remark,
                         "no process could be started (%s); trained in the calling process",
                         strerror(pool->fork_errno));
                return CADRE_OK;
            }
        }
        wait_for_news(pool);
        reap_dead(pool);
        cadre_progress_set(run->progress, finished(pool), NULL);
    }
    return CADRE_OK;
}

int cadre_loop_pool(loop_run *run, cadre_error *error)
{
    worker_pool pool = {.run = run};
    int status = CADRE_EMEMORY;
    pool.size = (size_t)run->options->cpu_count;
    if (pool.size > run->count) pool.size = run->count;
    pool.queue_size = sizeof(slice_queue) + run->count * sizeof(queue_slot);
    pool.queue =
        mmap(NULL, pool.queue_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pool.workers = calloc(pool.size, sizeof *pool.workers);
    pool.items = calloc(2 * pool.size, sizeof *pool.items);
    pool.tries = calloc(run->count, 1);
    if (pool.queue == MAP_FAILED || !pool.workers || !pool.items || !pool.tries) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a queue of %zu slices", run->count);
        goto done;
    }
    pool.queue->count = run->count;
    for (size_t i = 0; i < pool.size; i++)
        pool.workers[i].pidfd = pool.workers[i].socket = -1;
    cadre_threads_before_fork();
    status = run_pool(&pool, error);
done:
    if (pool.queue != MAP_FAILED) munmap(pool.queue, pool.queue_size);
    free(pool.workers);
    free(pool.items);
    free(pool.tries);
    return status;
}
