/* One execute_request from busy to idle, shared by queue.c, execute.c, input.c and outcome.c.
 *
 *     queue -> start -> PREPARING (engine) -> WAITING (host not up yet) -> RUNNING (host)
 *           -> FINISHING (engine: commit, value) -> the next user expression, or the reply
 *
 * A user expression is a small cell of its own that goes the same way; only what becomes of its
 * result and error differs.
 */
#ifndef CADRE_SESSION_EXECUTION_H
#define CADRE_SESSION_EXECUTION_H

#include "session/front.h"

struct request {
    cadre_message *message;
    cadre_channel channel;
    bool is_aborted;
    request *next;
};

typedef enum phase { PREPARING, WAITING, RUNNING, FINISHING } phase;

struct execution {
    request *request;
    uint64_t serial; /* jobs that come back too late carry another one */
    phase phase;
    bool is_comm; /* a message to a comm: runs like a cell, has no reply */
    bool silent, store_history, allow_stdin, stop_on_error, interrupted;
    int count;
    char started[CADRE_DATE_SIZE];

    /* The cell under way: the request's code, or the expression named here. */
    const char *expression;
    cadre_cell *cell; /* until the commit takes it */
    bool runs_main;
    json_t *merged, *used;
    cadre_array_report *arrays;
    size_t array_count;
    bool has_value;
    uint64_t value_address, value_size;
    char *bundle; /* MIME bundle of the value as JSON, or NULL */

    /* How the cell under way ended; error_name NULL: well. */
    char *error_name, *error_value, *traceback;

    void *next_expression; /* iterator over the request's user_expressions */
    json_t *expressions;   /* results */
    json_t *payload;       /* for the reply: array */

    bool asks_input;
    int64_t input_retry, input_end; /* the requester's stdin is not connected yet; 0: it is */
    char *prompt;
    bool password;
    char input_id[CADRE_ID_SIZE];
};

/* ---- queue.c: from the queue to a start, and from the last cell to the reply */
void execution_request_free(request *waiting);
bool execution_is_blank(const char *code, size_t length);
/* `error` (stolen) or NULL: the reply, then idle; the execution is gone. */
void execution_reply(front *self, json_t *error);

/* ---- execute.c: one cell */
void execution_prepare(front *self, const char *code, size_t length);
/* The cell under way has ended: on with the next user expression, or the reply. */
void execution_finish_cell(front *self);

/* ---- outcome.c: results and errors of the cell under way */
void outcome_fail(execution *run, const char *name, const char *value, const char *traceback);
void outcome_interrupted(execution *run);
/* {"ename", "evalue", "traceback"}, new. */
json_t *outcome_error(const execution *run);
/* {"data": {...}, "metadata": {}} of the value, new; NULL: nothing to show. */
json_t *outcome_result(const execution *run, const char *text);
/* Frees all of it, and the cell. */
void outcome_forget(execution *run);

/* ---- input.c */
void input_ask(front *self, cadre_host_event *event);
void input_end(execution *run);
int input_timeout(const execution *run, int64_t now);
void input_tick(front *self, int64_t now);

#endif
