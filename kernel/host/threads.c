/* Threads of cells: each gets an alternate stack, so that the overflow of its own can be
 * reported, and is counted, because a copy of the process does not have it. */
#include "host/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <threads.h>
#include <unistd.h>

#define ALTERNATE_STACK ((size_t)64 << 10)

struct start {
    void *(*function)(void *);
    int (*c11_function)(void *);
    void *argument;
};

static _Atomic int alive;

int threads_alive(void)
{
    return atomic_load(&alive);
}

void threads_start_process(void)
{
    atomic_store(&alive, 0);
}

static void thread_ends(void *stack)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    if (stack != MAP_FAILED) munmap(stack, ALTERNATE_STACK);
    atomic_fetch_sub(&alive, 1);
}

static void *run_thread(void *argument)
{
    struct start start = *(struct start *)argument;
    void *result;
    free(argument);
    void *memory = mmap(NULL, ALTERNATE_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory != MAP_FAILED) {
        stack_t stack = {.ss_sp = memory, .ss_size = ALTERNATE_STACK};
        sigaltstack(&stack, NULL);
    }
    pthread_cleanup_push(thread_ends, memory);
    result = start.function ? start.function(start.argument)
                            : (void *)(intptr_t)start.c11_function(start.argument);
    pthread_cleanup_pop(1);
    return result;
}

/* The main thread has a cell above it and the host below: cancelled by itself it ends the cell, and
 * no other thread can cancel it. */
static int cell_pthread_cancel(pthread_t thread)
{
    if (cell_host.is_child || !pthread_equal(thread, cell_host.main_thread))
        return pthread_cancel(thread);
    if (on_main_thread()) process_end_thread(__builtin_frame_address(0), PTHREAD_CANCELED);
    return EPERM;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, struct start start)
{
    struct start *copy = malloc(sizeof *copy);
    if (!copy) return EAGAIN;
    *copy = start;
    /* Counted from here on, not when it first runs: the cell may have ended by then. */
    atomic_fetch_add(&alive, 1);
    int status = pthread_create(thread, attributes, run_thread, copy);
    if (status == 0) return 0;
    atomic_fetch_sub(&alive, 1);
    free(copy);
    return status;
}

static int cell_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*function)(void *), void *argument)
{
    return create(thread, attributes, (struct start){.function = function, .argument = argument});
}

static int cell_thrd_create(thrd_t *thread, thrd_start_t function, void *argument)
{
    int status =
        create(thread, NULL, (struct start){.c11_function = function, .argument = argument});
    return status == 0 ? thrd_success : status == ENOMEM ? thrd_nomem : thrd_error;
}

void threads_install(void)
{
    host_override("pthread_create", (void *)cell_pthread_create);
    host_override("pthread_cancel", (void *)cell_pthread_cancel);
    host_override("thrd_create", (void *)cell_thrd_create);
}
