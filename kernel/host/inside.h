/* The program cadre-host from inside: what its files share. Private to kernel/host.
 *
 * One process runs cells on its main thread. Beside it lives one thread of ours, the ticker, that
 * writes out what cells have printed; all other threads belong to cells and libraries. The state
 * is one object, because signal handlers and the functions that replace libc's have no other way
 * to reach it.
 *
 *   main.c       start, the loop over requests
 *   run.c        one cell from RUN to DONE, and every way to leave it
 *   hooks.c      what compiled cells call: values, arrays, main; hooks_magics.c: for magics
 *   snapshot.c   the copy that waits, and its taking over
 *   crash.c      the handler of fatal signals
 *   interrupt.c  leaving a cell from a signal handler
 *   streams.c    stdout and stderr; input.c: stdin
 *   process.c, waits.c, signals.c, threads.c: functions that cells get instead of libc's
 *   libraries.c  OpenBLAS, OpenMP and libcadre, as far as they are loaded
 */
#ifndef CADRE_HOST_INSIDE_H
#define CADRE_HOST_INSIDE_H

#include "cell/load.h"
#include "host/host.h"
#include "host/protocol.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

enum leave_reason { LEAVE_NOTHING, LEAVE_INTERRUPT, LEAVE_EXIT, LEAVE_ERROR };

struct cell_host {
    struct shared *shared;
    pid_t front, self;
    int control, display;          /* sockets to the front */
    int saved_output, saved_error; /* the pipes, wherever fd 1 and 2 point */
    int pidfd;                     /* of this process: copies inherit it and wait for its end */
    int own_files[16];             /* descriptors that cells must not close */
    size_t own_file_count;
    bool is_child; /* set in a forked child of a cell */

    cadre_loader *loader;
    uint64_t generation;          /* of the session's names that this memory belongs to */
    cadre_snapshot_policy policy; /* of the last cell */

    /* The cell that runs. Main thread and its signal handlers write; other threads read. */
    pthread_t main_thread;
    pid_t main_tid;
    _Atomic uint64_t run;          /* id of the RUN; 0: none */
    volatile sig_atomic_t in_cell; /* between the call of an entry and its end */
    volatile sig_atomic_t interrupt_seen;
    sigjmp_buf leave;
    void *volatile entry_frame; /* frame of the function that called the entry */
    bool allow_stdin, told_stdin;
    /* Why the cell ends, when it does not return. Another thread that calls exit() or raises an
     * error fills these and then sets `ending`; main reads them after it saw `ending`. */
    _Atomic int ending;
    int exit_status;
    char error_text[1000];
    bool main_returned;
    int main_status;

    /* kept until the next cell runs */
    void *value;

    FILE *out, *err, *in;
    int interrupt_signal, parent_death_signal;
};

extern struct cell_host cell_host;

static inline bool on_main_thread(void)
{
    return pthread_equal(pthread_self(), cell_host.main_thread);
}

/* The user has asked for the end of this cell. */
static inline bool interrupt_wanted(void)
{
    uint64_t run = atomic_load_explicit(&cell_host.run, memory_order_relaxed);
    return run &&
           atomic_load_explicit(&cell_host.shared->interrupt_run, memory_order_relaxed) == run;
}

/* A request to end the cell is open: from the user, or from a thread of the cell. */
static inline bool end_wanted(void)
{
    return interrupt_wanted() ||
           (atomic_load_explicit(&cell_host.run, memory_order_relaxed) &&
            atomic_load_explicit(&cell_host.ending, memory_order_acquire) != LEAVE_NOTHING);
}

/* ---- main.c */
int host_protect_file(int file); /* moves it out of reach of cells; returns the new number */
void host_close_file(int file);
bool host_is_own_file(int file);
/* Ends the process, with the reason for the front, when a cell has closed or replaced the socket to
 * the front past our functions. */
void host_check_control(void);
void host_send(enum message message, const int64_t *numbers, size_t number_count,
               const cadre_buffer *payload);
void host_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void host_serve_read(struct packet *packet);

/* ---- run.c */
/* True: this process is a copy that has just taken over. */
bool run_cell(struct packet *request, const int *files, size_t file_count);
/* Leaves the running cell; only on the main thread with in_cell set. */
void run_leave(enum leave_reason reason) __attribute__((noreturn));
/* From any thread of the cell: end the cell so, soon. Does not return. */
void run_end_from_anywhere(enum leave_reason reason, int status, const char *text)
    __attribute__((noreturn));

/* ---- hooks.c */
void hooks_install(void);
void hooks_start_cell(void);
/* ---- hooks_magics.c */
void hooks_magics_install(void);
void hooks_magics_start_cell(void);
void hooks_store_install(void);
void hooks_end_cell(void); /* prints the times that %time has not printed yet */

/* ---- snapshot.c */
enum snapshot_result { SNAPSHOT_MADE, SNAPSHOT_NONE, SNAPSHOT_TOOK_OVER };
void snapshot_prepare(void); /* once, at the start */
bool snapshot_exists(void);
bool snapshot_main_thread_ended(void);    /* while the process goes on; from any thread */
enum snapshot_result snapshot_take(void); /* by cell_host.policy */
void snapshot_drop(void);
void snapshot_cell_started(void);
/* After a cell has ended: renews the copy when the policy says so. */
enum snapshot_result snapshot_after_cell(cadre_snapshot_policy policy);
void snapshot_forget_in_child(void);

/* ---- crash.c */
void crash_install(void);
void crash_install_stack(void); /* this thread's alternate stack */
bool crash_is_fatal_signal(int number);
void crash_default(int number); /* installs our handler: what SIG_DFL means to a cell */
bool crash_is_ours(int number, const struct sigaction *action);

/* ---- interrupt.c */
void interrupt_install(void);
void interrupt_start_process(void); /* timer of this process (after a takeover, too) */
void interrupt_stop(void);          /* no more ticks; call slots are restored */
void interrupt_main_thread(void);
/* In a function that replaces one of libc: leaves the cell if the user wants that and every frame
 * above the caller's is cell code. `frame` is __builtin_frame_address(0) of that function. */
void interrupt_check(void *frame);
/* Until it is called with NULL: libc waits for the function with this frame, holds nothing and has
 * no end of its own for the wait, so the signal's handler may leave it in the middle. */
void interrupt_may_leave_wait(void *frame);
/* Is all above the function with this frame cell code up to the entry? */
bool interrupt_can_leave(void *frame);
#define LEAVE_IF_WANTED()                                                                          \
    do {                                                                                           \
        if (__builtin_expect(end_wanted(), 0)) interrupt_check(__builtin_frame_address(0));        \
    } while (0)
/* The function whose frame ends every walk; see run.c. */
bool run_is_entry_caller(const void *pc);

/* ---- streams.c */
int streams_install(void);
void streams_start_process(void); /* the ticker */
void streams_cell(bool running);
void streams_flush(void); /* bounded; never hangs on a lock that a thread holds */
void streams_flush_from_crash(void);
void streams_flush_files(void); /* every FILE of the process, as far as its lock is free */
bool streams_lock(void);        /* ticker at rest, FILE list locked: for a copy */
void streams_unlock(void);
void streams_before_raw_write(int file);
void streams_in_child(void);
void streams_finish_child(void);
/* ---- input.c */
int input_install(void);
void input_start_cell(void);
void input_start_process(void);
ssize_t input_read(void *into, size_t size, const char *prompt, bool password);

/* ---- replaced functions */
void process_install(void);
/* The calling thread is asked to go by pthread_cancel or by itself. */
void process_end_thread(void *frame, void *result) __attribute__((noreturn));
void process_start_cell(void);
void process_run_atexit(void);
void process_leave_child(int status) __attribute__((noreturn));
void waits_install(void);
void signals_install(void);
/* limits.c: soft limits of the cells, in force while one runs. */
void limits_for_host(void);
void limits_for_cell(void);

void threads_install(void);
void threads_start_process(void);
int threads_alive(void); /* threads that cells started */

/* ---- libraries.c */
void libraries_install(void);
void libraries_start_cell(void);
void libraries_interrupt(void); /* async-signal-safe */
void libraries_before_copy(void);
void libraries_after_takeover(void);
/* Innermost place of the runtime to which a user's function may be left, or NULL. */
bool libraries_is_runtime(const void *pc);
bool libraries_boundary(const void **stack, sigjmp_buf **jump);

static inline void host_override(const char *name, void *function)
{
    (void)cadre_loader_override(cell_host.loader, name, function);
}

#endif
