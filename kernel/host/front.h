/* The front's end from inside. Private to kernel/host. One thread uses a cadre_host. */
#ifndef CADRE_HOST_FRONT_H
#define CADRE_HOST_FRONT_H

#include "host/host.h"
#include "host/memory.h"
#include "host/protocol.h"

struct child {
    pid_t pid;
    int pidfd;
};

struct queued_event {
    cadre_host_event event;
    int acknowledge; /* socket on which somebody waits until the event is published; -1 */
    struct queued_event *next;
};

/* Objects of a cell that defined functions, for the lines of later tracebacks. */
struct kept_cell {
    char *label;
    int execution_count;
    size_t count;
    unsigned char **objects;
    size_t *lengths;
};

enum host_state { HOST_STOPPED, HOST_RUNS, HOST_DEAD /* and its copy has not spoken yet */ };

struct cadre_host {
    char *program;
    char **environment; /* borrowed or NULL */
    enum host_state state;
    struct child host, copy;
    struct child ending[32]; /* copies that were told to end, to be reaped */
    size_t ending_count;
    double snapshot_ms;
    int control, output, error, display, epoll, kick;
    struct shared *shared;
    int dead_status; /* as of waitid: si_code, si_status */
    int dead_code;
    bool killed_for_interrupt, ready_once;
    memory_state memory;                            /* when the host was started, or last killed */
    uint64_t takeover_deadline, interrupt_deadline; /* ms, monotonic; 0: none */
    pid_t takeover_pid;                             /* spoke before its host was seen dead */
    int64_t takeover_generation;

    uint64_t run, last_run; /* 0: no cell runs */
    const cadre_cell *cell;
    uint64_t generation;
    cadre_snapshot_policy policy;
    bool paused, drain_anyway, told_stuck;

    struct queued_event *first, *last;
    int acknowledge; /* of the event that was handed out last */
    struct kept_cell *kept;
    size_t kept_count, kept_capacity, kept_bytes;

    /* answer to READ */
    bool memory_answered, memory_ok;
    void *memory_into;
    size_t memory_length;
};

/* front.c */
uint64_t front_now(void);
int front_spawn(cadre_host *host, cadre_error *error);
void front_close(cadre_host *host);
void front_watch(cadre_host *host, int file, bool watched);
void front_reap(cadre_host *host, bool wait);
void front_remember_group(cadre_host *host, pid_t group);
/* front_events.c */
int front_pump(cadre_host *host); /* how many descriptors had something */
void front_deadlines(cadre_host *host);
struct queued_event *front_event(cadre_host *host, cadre_host_event_kind kind);
void front_event_text(struct queued_event *event, const char *text, size_t length);
void front_drain(cadre_host *host);
/* front_trace.c: fills error_name, text and traceback of a ROLLED_BACK or LOST event. */
void front_explain_death(cadre_host *host, cadre_host_event *event, uint64_t back_to);
void front_keep_cell(cadre_host *host, const cadre_cell *cell);
void front_forget_cells(cadre_host *host);
/* Does the object define any global name but `entry`? */
bool front_defines(const unsigned char *object, size_t length, const char *entry);

#endif
