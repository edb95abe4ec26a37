/* Forked workers over one queue: what parent and workers share. Private to loop/.
 *
 * Two mappings are MAP_SHARED: the queue (this header's slice_queue, one slot per slice) and, for
 * each worker, an arena for encoded models. A result larger than SMALL_RESULT, or one for which
 * the arena has no room, travels in a memfd over the worker's socket instead.
 */
#ifndef CADRE_LOOP_POOL_H
#define CADRE_LOOP_POOL_H

#include "loop/run.h"

#include <sys/types.h>

enum { SMALL_RESULT = 64 * 1024, ARENA_SIZE = 64 * 1024 * 1024 };

enum slot_state { SLOT_OPEN, SLOT_IN_ARENA, SLOT_SENT };

typedef struct queue_slot {
    /* Who trains this place of the queue: 0 nobody, else the number of a worker. Workers take a
     * place by compare-and-swap from 0, so that taking it and saying who has it is one step and a
     * death between the two cannot lose a slice. Only the parent writes it otherwise, and only
     * when the owner is dead. */
    _Atomic uint32_t owner;
    /* Written once by the owner, with release, after the fields below; read by the parent. */
    _Atomic uint32_t state;
    int slice_state;         /* cadre_slice_state */
    uint64_t offset, length; /* of the model, or of the message, in the owner's arena */
    double seconds;
    double metrics[METRIC_COUNT];
} queue_slot;

typedef struct slice_queue {
    /* The first place that may be free: a hint that saves scanning. Workers move it forward, in
     * races sometimes back, which only costs a scan; the parent sets it to 0 when it gives
     * places back. */
    _Atomic uint64_t first;
    uint64_t count;
    queue_slot slots[];
} slice_queue;

/* What a worker sends with a memfd (SCM_RIGHTS) when a result is SLOT_SENT. */
typedef struct sent_result {
    uint64_t place, length;
} sent_result;

typedef struct pool_worker {
    uint32_t number;      /* from 1, never used twice in one loop */
    pid_t pid;            /* 0: the place is empty */
    int pidfd;            /* -1 where the system has none */
    int socket;           /* the parent's end */
    unsigned char *arena; /* MAP_SHARED; NULL: there was no memory for one */
} pool_worker;

/* Runs in the forked child and does not return. `first`: a place that is already its own, or -1.
 * `socket` is the worker's end. */
_Noreturn void cadre_worker_main(const loop_run *run, slice_queue *queue, uint32_t number,
                                 unsigned char *arena, int socket, pid_t parent, long first);

/* threads.c: one thread for OpenBLAS and OpenMP, and back. */
typedef struct thread_counts {
    int blas, openmp;
} thread_counts;
thread_counts cadre_threads_set_one(void);
void cadre_threads_restore(thread_counts counts);
/* Parallel regions of libgomp hang in a forked child unless its threads are given up before. */
void cadre_threads_before_fork(void);

#endif
