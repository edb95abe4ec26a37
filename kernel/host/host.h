/* kernel/host, as the front sees it: the process that runs cells, and its snapshots.
 *
 * The front never blocks on it: it polls cadre_host_fd and takes events. All user state lives in
 * the host process (program cadre-host, executed, in its own process group). Before a cell runs a
 * copy of the host is made that waits (a sibling); if the host dies the copy takes over and the
 * event ROLLED_BACK says so.
 *
 *     cadre_host *host = cadre_host_start(&options, &error);
 *     cadre_host_run(host, &run, &error);
 *     for (;;) { poll(cadre_host_fd(host));
 *         while (cadre_host_next(host, &event)) { ...; cadre_host_event_free(&event); } }
 *
 * A host that is lost (it died and there was no copy) is started anew: LOST, then READY.
 * An interrupt ends the cell within some milliseconds; a cell that is still inside a library after
 * 2 s is ended by going back to the snapshot (ROLLED_BACK, error_name KeyboardInterrupt), when
 * there is one. The programs that the cell has started get SIGINT, as from a terminal.
 *
 * The host links libc, libm, pthread, OpenBLAS and libcadre; it knows nothing of messages.
 */
#ifndef CADRE_HOST_H
#define CADRE_HOST_H

#include "base/base.h"
#include "cell/cell.h"

typedef struct cadre_host cadre_host;

typedef enum cadre_snapshot_policy {
    CADRE_SNAPSHOT_AUTO,
    CADRE_SNAPSHOT_ALWAYS,
    CADRE_SNAPSHOT_NEVER
} cadre_snapshot_policy;

typedef struct cadre_host_options {
    const char *program;      /* NULL: libexecdir/cadre-host */
    char *const *environment; /* NULL: the front's own */
} cadre_host_options;

typedef struct cadre_host_run_request {
    const cadre_cell *cell; /* borrowed until CADRE_HOST_DONE or CADRE_HOST_ROLLED_BACK */
    uint64_t generation;    /* of the engine before this cell: what a roll-back returns to */
    bool allow_stdin;
    cadre_snapshot_policy snapshot;
} cadre_host_run_request;

typedef enum cadre_host_event_kind {
    CADRE_HOST_READY,       /* the host is up (once at start, once after a restart) */
    CADRE_HOST_STREAM,      /* name = "stdout" | "stderr", text/length: raw bytes, any size */
    CADRE_HOST_DISPLAY,     /* text: JSON of a rich display, as in runtime/show/show.h */
    CADRE_HOST_RETURN,      /* text: the JSON value given to cadre_notebook_return */
    CADRE_HOST_INPUT,       /* text: prompt, password: flag; answer with cadre_host_input */
    CADRE_HOST_NOTE,        /* text: a remark for the user ("no memory for a snapshot") */
    CADRE_HOST_ARRAY,       /* array: run-time bounds of a declared array */
    CADRE_HOST_VALUE,       /* address, size: the cell's last value, valid until the next
                               run; text: its MIME bundle as JSON, or "" */
    CADRE_HOST_LINK_ERROR,  /* text: nothing ran; which symbol is missing and who needs it */
    CADRE_HOST_DONE,        /* the cell ended and memory is as it left it: see outcome */
    CADRE_HOST_ROLLED_BACK, /* the host died; memory is that of `generation`. error_name such
                               as SIGSEGV, text: what happened, traceback: coloured lines. It
                               may come when no cell runs, too */
    CADRE_HOST_LOST         /* host and copy are gone: state is lost, text says why */
} cadre_host_event_kind;

typedef enum cadre_host_outcome {
    CADRE_OUTCOME_OK,
    CADRE_OUTCOME_EXIT, /* exit(status), or main returned status */
    CADRE_OUTCOME_INTERRUPTED,
    CADRE_OUTCOME_ERROR /* a runtime error ended the cell: error_name, text */
} cadre_host_outcome;

typedef struct cadre_host_event {
    cadre_host_event_kind kind;
    const char *name; /* borrowed */
    char *text;       /* owned; NUL-terminated, may hold NULs before its end (length) */
    size_t length;
    char *error_name, *traceback; /* owned, or NULL */
    bool password;
    cadre_host_outcome outcome;
    int status;
    uint64_t address, size, generation;
    cadre_array_report array;
} cadre_host_event;

/* Starts the host; returns at once (READY follows). For a thread that lives as long as the host:
 * the system tells the host's processes when the thread that started them ends. */
cadre_host *cadre_host_start(const cadre_host_options *options, cadre_error *error);
/* Kills host, snapshot and the children they started; frees. */
void cadre_host_stop(cadre_host *host);
/* Level-triggered (epoll): readable when cadre_host_next may have something. */
int cadre_host_fd(const cadre_host *host);
/* Milliseconds until cadre_host_next wants to be called without fd activity; -1: never. */
int cadre_host_timeout(const cadre_host *host);
/* False: nothing now. Events of one cell end with DONE, LINK_ERROR, ROLLED_BACK or LOST; all
 * output that the cell's own process wrote comes before. */
bool cadre_host_next(cadre_host *host, cadre_host_event *event);
void cadre_host_event_free(cadre_host_event *event);
/* Stop taking output (a client reads slowly): the cell waits, nothing is lost. */
void cadre_host_pause_output(cadre_host *host, bool pause);

int cadre_host_run(cadre_host *host, const cadre_host_run_request *request, cadre_error *error);
void cadre_host_interrupt(cadre_host *host);
/* NULL: end of input. */
void cadre_host_input(cadre_host *host, const char *line);
bool cadre_host_read(void *host, uint64_t address, void *into, size_t length);
/* The address of a variable as cells see it now; 0: there is none, or a cell runs (only an idle
 * host can tell). Waits for the host, 100 ms at most. */
uint64_t cadre_host_symbol(cadre_host *host, const char *name);
/* While its display is handled: whoever sent it gets this text (kind "comm", action "take"). */
void cadre_host_answer(cadre_host *host, const char *text, size_t length);
/* While its display is handled: the value at `address` of process `pid` as text, by the type of
 * the static variable `variable` in the cell with file name `label`; new; NULL: not known. */
char *cadre_host_format(cadre_host *host, pid_t pid, const char *label, const char *variable,
                        uint64_t address, size_t size);
/* How many processes this machine has killed for want of memory so far, and the least limit that
 * holds for this process in bytes, 0: none below the machine's memory. */
void cadre_host_memory(uint64_t *kills, uint64_t *limit);
pid_t cadre_host_pid(const cadre_host *host);
/* The copy that waits now; 0: there is none. */
pid_t cadre_host_snapshot_pid(const cadre_host *host);
/* Milliseconds that the last copy took to make. */
double cadre_host_snapshot_ms(const cadre_host *host);

#endif
