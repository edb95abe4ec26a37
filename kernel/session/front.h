/* The front's state, shared by the files of kernel/session. Everything here belongs to the main
 * thread; the engine belongs to its worker and is reached by jobs only. */
#ifndef CADRE_SESSION_FRONT_H
#define CADRE_SESSION_FRONT_H

#include "cell/cell.h"
#include "host/host.h"
#include "session/comms.h"
#include "session/parameters.h"
#include "session/rest.h"
#include "session/session.h"
#include "session/streams.h"
#include "session/worker.h"
#include "wire/wire.h"

typedef struct request request; /* an execute_request that waits */
typedef struct execution execution;
typedef struct question question; /* a completion or an inspection under way */
typedef struct usage_sample usage_sample;
typedef struct recorder recorder;

typedef struct front {
    const cadre_session_options *options;
    cadre_connection connection;
    cadre_wire_server *server;

    worker *engine_worker, *usage_worker; /* usage_worker: NULL until it is asked for */
    cadre_engine *engine; /* made by the worker's first job; afterwards only cancel from here */
    char *engine_problem; /* written by that job, read by later ones */
    json_t *names;        /* what is declared: [[name, kind, declaration, count]...] */
    bool names_are_old;
    question *questions;
    struct cadre_assist *assist; /* NULL until it is asked for */
    uint64_t assist_serial;
    json_t *addresses; /* of variables: what the idle host said in this generation */
    uint64_t addresses_generation;
    usage_sample *usage;

    cadre_host *host; /* NULL: could not be started, tried again with the next cell */
    bool host_is_ready, output_is_paused, is_dropping;
    uint64_t generation;    /* of the engine */
    int *generation_counts; /* execution count of each generation, from 1 */
    size_t generation_capacity;

    request *queue, *queue_last; /* oldest first; last: only while there is one */
    size_t queue_bytes, queue_length;
    execution *current;
    uint64_t serial;     /* of the last execution */
    int execution_count; /* of the next cell that counts */
    recorder *recorder;
    parameters parameters;
    comms comms;
    streams streams;
    char *parent; /* header of the last cell: parent of output that comes late */
    size_t parent_length;

    int signal_fd;
    long parent_pid, first_parent;
    int64_t parent_check;
    rest_state rest;
    bool is_launched; /* engine and host */
    int64_t launch_at;
    bool ending, restarting;
    char *info;     /* content of a kernel_info_reply, made at the first request */
    char *lifeline; /* path of the mark that says that this kernel runs; NULL: none */
    char *loss; /* why the host was started anew, until a cell has told it; NULL: nothing to tell */
} front;

/* ---- front.c */
void front_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t front_clock(void); /* monotonic, ms */
/* An iopub message; content is stolen. parent NULL: the cell that runs, or the last one. */
void front_publish(front *self, const cadre_message *parent, const char *type, json_t *content);
/* An iopub message with metadata or buffers; all borrowed. The parent is the cell that runs. */
void front_publish_message(front *self, const cadre_outgoing *message);
void front_status(front *self, const cadre_message *parent, const char *state);
/* A reply to a request; content is stolen, metadata borrowed or NULL. */
void front_reply(front *self, cadre_channel channel, const cadre_message *to, const char *type,
                 json_t *content, const json_t *metadata);
/* The same with content that is JSON text. */
void front_reply_text(front *self, cadre_channel channel, const cadre_message *to, const char *type,
                      const char *content);
void front_interrupt(front *self);
/* Output for the user that comes from the kernel itself, on stderr; a newline is added. */
void front_note(front *self, const char *text);

/* ---- requests.c */
void front_handle(front *self, cadre_channel channel, cadre_message *message); /* stolen */
/* {"status": "error", ...} with a traceback of one line. */
json_t *front_error_content(const char *name, const char *value);

/* ---- queue.c, execute.c, input.c */
void execute_queue(front *self, cadre_channel channel, cadre_message *message); /* stolen */
void execute_advance(front *self); /* starts the next cell when it is time */
void execute_interrupt(front *self);
void execute_input_reply(front *self, cadre_message *message); /* stolen */
void execute_host_event(front *self, cadre_host_event *event);
/* What a cell that asks (`name?`) is answered with; content is borrowed. */
void execute_page(front *self, uint64_t serial, const json_t *content);
/* The next cell does not start before a client has read more of what is published. */
bool execute_waits_for_readers(const front *self);
int execute_timeout(const front *self, int64_t now); /* ms until execute_tick; -1: never */
void execute_tick(front *self, int64_t now);
void execute_free_all(front *self);
bool execute_is_silent(const front *self);      /* the running cell shows nothing */
bool execute_is_interrupted(const front *self); /* and is about to end */
bool execute_is_full(const front *self);        /* too much waits: take no more from shell */

/* Output that no client has taken: above this the cell waits. */
#define HOSTING_UNREAD ((size_t)48 << 20)

/* ---- hosting.c */
int hosting_start(front *self, cadre_error *error);
void hosting_events(front *self);
void hosting_stop(front *self);
void hosting_pause(front *self);
/* Memory is that of `generation` again: the engine and the parameters follow. The execution
 * count of the first cell that is lost, 0: none. */
int hosting_rewind(front *self, uint64_t generation);
/* The host and its copies are gone: everything starts anew, with no names. */
void hosting_lost(front *self);
/* %reset: the same because the user wants it. */
void hosting_reset(front *self);
/* The folder that the host is in, new; NULL: not known, as at the start. */
char *hosting_folder(const front *self);
/* A cell was committed. */
void hosting_generation(front *self, uint64_t generation, int execution_count);

/* ---- engine.c: jobs for the engine */
/* The first job: makes the engine and warms its compiler. */
void engine_open(front *self);
void engine_stop(front *self);

typedef struct prepare_job {
    job job;
    front *front;
    uint64_t serial; /* of the execution that waits for it */
    char *code;
    size_t length;
    int execution_count;
    char *folder; /* that the host is in, or NULL */
    json_t *channels;
    json_t *parameters, *applied, *used; /* used by this job alone until it is done */
    cadre_cell *cell;                    /* NULL: no memory, or see problem */
    char *problem;
} prepare_job;
/* execute.c */
void execute_prepared(void *context, job *job);

typedef struct commit_job {
    job job;
    front *front;
    uint64_t serial;
    cadre_cell *cell; /* freed by the job */
    cadre_array_report *arrays;
    size_t array_count;
    char *value; /* the cell's value as text, or NULL */
    uint64_t generation;
} commit_job;
void execute_committed(void *context, job *job);

prepare_job *engine_prepare(front *self, const char *code, size_t length, int execution_count);
void prepare_job_free(prepare_job *work);
void engine_post(front *self, job *work, void (*run)(job *), void (*done)(void *, job *));
void engine_run_prepare(job *work);
void engine_run_commit(job *work);
void engine_rewind(front *self, uint64_t generation);
void engine_cancel(front *self);

/* ---- assist.c: completion, inspection, is_complete */
void assist_ask(front *self, cadre_channel channel, cadre_message *message); /* stolen */
/* `name?` in a cell: execute_page gets the content of an inspect_reply. False: no memory. */
bool assist_page(front *self, uint64_t serial, const char *name, int detail);
void assist_answers(front *self); /* takes what has come, ends what waits too long */
int assist_fd(const front *self); /* to poll for reading, or -1 */
int assist_timeout(const front *self, int64_t now);
void assist_free_all(front *self);
json_t *assist_is_complete(const cadre_message *message);

/* ---- recorder.c: the history, written and read in a thread of its own */
recorder *recorder_new(void); /* NULL: no memory */
void recorder_input(front *self, int line, const char *text, size_t length);
void recorder_output(front *self, int line, const char *text);
void recorder_ask(front *self, cadre_channel channel, cadre_message *message); /* stolen */
worker *recorder_worker(const recorder *self); /* NULL: not started */
/* What is left is written; waits a moment when another kernel holds the file. */
void recorder_free(front *self);

/* ---- journal.c: a loss of state goes into a log; self->loss is the text and names the log. */
void journal_loss(front *self, const char *text);

/* ---- usage.c */
void usage_ask(front *self, cadre_channel channel, cadre_message *message); /* stolen */
void usage_free(front *self);

#endif
