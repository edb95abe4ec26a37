/* One execute_request from busy to idle.
 *
 *     queue -> start -> PREPARING (engine) -> WAITING (host not up yet) -> RUNNING (host)
 *           -> FINISHING (engine: commit, value) -> the next user expression, or the reply
 *
 * A user expression is a small cell of its own that goes the same way; only what becomes of its
 * result and error differs.
 */
#include "session/front.h"

#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_BYTES = 256 << 20, QUEUE_LENGTH = 100000 };

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

    bool asks_input;
    int64_t input_retry, input_end; /* the requester's stdin is not connected yet; 0: it is */
    char *prompt;
    bool password;
    char input_id[CADRE_ID_SIZE];
};

static void finish_cell(front *self);

static bool flag_of(const json_t *content, const char *key, bool missing)
{
    const json_t *value = json_object_get(content, key);
    return json_is_boolean(value) ? json_is_true(value) : missing;
}

static void request_free(request *waiting)
{
    if (!waiting) return;
    cadre_message_free(waiting->message);
    free(waiting);
}

/* What belongs to the cell under way, not to the request. */
static void forget_cell(execution *run)
{
    cadre_cell_free(run->cell);
    json_decref(run->merged);
    json_decref(run->used);
    free(run->arrays);
    free(run->bundle);
    free(run->error_name);
    free(run->error_value);
    free(run->traceback);
    run->cell = NULL;
    run->merged = run->used = NULL;
    run->arrays = NULL;
    run->array_count = 0;
    run->bundle = run->error_name = run->error_value = run->traceback = NULL;
    run->has_value = run->runs_main = false;
}

static void execution_free(execution *run)
{
    if (!run) return;
    forget_cell(run);
    request_free(run->request);
    json_decref(run->expressions);
    free(run->prompt);
    free(run);
}

bool execute_is_silent(const front *self)
{
    return self->current && self->current->silent;
}

bool execute_is_interrupted(const front *self)
{
    return self->current && self->current->interrupted;
}

bool execute_is_full(const front *self)
{
    return self->queue_bytes > QUEUE_BYTES || self->queue_length > QUEUE_LENGTH;
}

void execute_queue(front *self, cadre_channel channel, cadre_message *message)
{
    request *waiting = calloc(1, sizeof *waiting), **last = &self->queue;
    if (!waiting) {
        front_log("no memory: an execute_request was dropped");
        cadre_message_free(message);
        return;
    }
    *waiting = (request){.message = message, .channel = channel};
    while (*last)
        last = &(*last)->next;
    *last = waiting;
    self->queue_bytes += message->size;
    self->queue_length++;
}

/* ---- errors of the cell under way */

static void fail(execution *run, const char *name, const char *value, const char *traceback)
{
    free(run->error_name);
    free(run->error_value);
    free(run->traceback);
    run->error_name = strdup(name ? name : "Error");
    run->error_value = strdup(value ? value : "");
    run->traceback = traceback ? strdup(traceback) : NULL;
}

static void fail_interrupted(execution *run)
{
    fail(run, "KeyboardInterrupt", "the cell was interrupted", NULL);
}

/* A traceback's lines as the protocol wants them: at least one, each a string. */
static json_t *traceback_lines(const execution *run)
{
    json_t *lines = json_array();
    const char *text = run->traceback;
    if (!text || !*text) {
        cadre_buffer line = {0};
        cadre_buffer_printf(&line, "\033[0;31m%s\033[0m: %s", run->error_name, run->error_value);
        json_array_append_new(lines, cadre_json_string(line.data ? line.data : "", line.length));
        cadre_buffer_free(&line);
        return lines;
    }
    for (;;) {
        size_t length = strcspn(text, "\n");
        if (text[length] || length > 0)
            json_array_append_new(lines, cadre_json_string(text, length));
        if (!text[length]) return lines;
        text += length + 1;
    }
}

static json_t *error_of(const execution *run)
{
    return json_pack("{sososo}", "ename",
                     cadre_json_string(run->error_name, strlen(run->error_name)), "evalue",
                     cadre_json_string(run->error_value, strlen(run->error_value)), "traceback",
                     traceback_lines(run));
}

/* ---- the end of a request */

static void abort_queued(front *self)
{
    /* What has arrived counts as queued, read or not; what comes later runs. */
    enum { AT_MOST = 10000 };
    for (int i = 0; i < AT_MOST && !execute_is_full(self); i++) {
        cadre_error problem = {0};
        cadre_message *message = cadre_server_receive(self->server, CADRE_SHELL, &problem);
        if (message)
            front_handle(self, CADRE_SHELL, message);
        else if (problem.code)
            front_log("a message on shell was dropped: %s", problem.message);
        else
            break;
    }
    for (request *waiting = self->queue; waiting; waiting = waiting->next)
        waiting->is_aborted = true;
}

static void reply(front *self, json_t *content)
{
    execution *run = self->current;
    json_t *metadata = json_pack("{ss}", "started", run->started);
    json_object_set_new(content, "execution_count", json_integer(run->count));
    front_reply(self, run->request->channel, run->request->message, "execute_reply", content,
                metadata);
    json_decref(metadata);
}

/* `error` (stolen) or NULL: the reply, then idle, and the next one may start. */
static void finish_request(front *self, json_t *error)
{
    execution *run = self->current;
    streams_finish(&self->streams, front_now());
    json_t *content = error;
    if (error) {
        if (!run->silent) front_publish(self, NULL, "error", json_incref(error));
        content = json_pack("{sss[]s{}}", "status", "error", "payload", "user_expressions");
        json_object_update_missing(content, error);
        json_decref(error);
        if (run->stop_on_error && !run->silent) abort_queued(self);
    } else {
        content =
            json_pack("{sss[]sO}", "status", "ok", "payload", "user_expressions", run->expressions);
    }
    reply(self, content);
    front_status(self, NULL, "idle");
    if (run->store_history) self->execution_count = run->count + 1;
    self->current = NULL;
    execution_free(run);
}

/* ---- preparing */

static void prepare(front *self, const char *code, size_t length)
{
    execution *run = self->current;
    prepare_job *work = engine_prepare(self, code, length, run->count);
    if (!work) {
        fail(run, "MemoryError", "no memory", NULL);
        finish_cell(self);
        return;
    }
    if (!run->expression) {
        work->parameters = parameters_merged(&self->parameters);
        work->applied = parameters_unchanged(&self->parameters, work->parameters);
    }
    work->serial = run->serial;
    run->phase = PREPARING;
    engine_post(self, &work->job, engine_run_prepare, execute_prepared);
}

static const char *code_of(const execution *run, size_t *length)
{
    const json_t *code = json_object_get(run->request->message->content, "code");
    *length = json_string_length(code);
    return json_string_value(code);
}

static bool is_blank(const char *code, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r\n\f\v", code[i]) || !code[i]) return false;
    return true;
}

static void answer_aborted(front *self, request *waiting)
{
    json_t *content =
        json_pack("{sssi}", "status", "aborted", "execution_count", self->execution_count - 1);
    front_status(self, waiting->message, "busy");
    front_reply(self, waiting->channel, waiting->message, "execute_reply", content, NULL);
    front_status(self, waiting->message, "idle");
    request_free(waiting);
}

static void remember_parent(front *self, const cadre_message *message)
{
    char *parent = malloc(message->header_bytes.length + 1);
    if (!parent) return;
    memcpy(parent, message->header_bytes.data, message->header_bytes.length);
    free(self->parent);
    self->parent = parent;
    self->parent_length = message->header_bytes.length;
}

/* Parameters before anything of the cell: true when they can be used. */
static bool take_parameters(front *self)
{
    execution *run = self->current;
    cadre_error error = {0};
    if (self->parameters.problem) {
        fail(run, "ParameterError", self->parameters.problem, NULL);
        free(self->parameters.problem);
        self->parameters.problem = NULL;
        return false;
    }
    if (parameters_request(&self->parameters, run->request->message->metadata, &error) == 0)
        return true;
    fail(run, "ParameterError", error.message, NULL);
    return false;
}

static void start(front *self, request *waiting)
{
    const json_t *content = waiting->message->content;
    execution *run = calloc(1, sizeof *run);
    size_t length;
    if (!run) {
        request_free(waiting);
        return;
    }
    run->request = waiting;
    run->serial = ++self->serial;
    run->silent = flag_of(content, "silent", false);
    run->store_history = !run->silent && flag_of(content, "store_history", true);
    run->allow_stdin = flag_of(content, "allow_stdin", false);
    run->stop_on_error = flag_of(content, "stop_on_error", true);
    run->count = self->execution_count;
    run->expressions = json_object();
    run->next_expression = json_object_iter(json_object_get(content, "user_expressions"));
    cadre_date_now(run->started);
    /* What came since the last cell, of threads and children that it left, is still its own. */
    streams_finish(&self->streams, front_now());
    self->current = run;
    remember_parent(self, waiting->message);
    front_status(self, NULL, "busy");

    const char *code = code_of(run, &length);
    if (waiting->message->damage || !code) {
        run->store_history = false;
        fail(run, "MessageError",
             waiting->message->damage ? waiting->message->damage : "code must be a string", NULL);
        finish_cell(self);
        return;
    }
    if (is_blank(code, length)) {
        run->store_history = false;
        finish_cell(self);
        return;
    }
    if (run->store_history) history_add(self->history, run->count, code, length);
    if (!run->silent)
        front_publish(self, NULL, "execute_input",
                      json_pack("{sosi}", "code", cadre_json_string(code, length),
                                "execution_count", run->count));
    if (take_parameters(self))
        prepare(self, code, length);
    else
        finish_cell(self);
}

void execute_advance(front *self)
{
    while (!self->current && self->queue && !self->ending) {
        request *waiting = self->queue;
        self->queue = waiting->next;
        self->queue_bytes -= waiting->message->size;
        self->queue_length--;
        if (waiting->is_aborted)
            answer_aborted(self, waiting);
        else
            start(self, waiting);
    }
}

static void run_in_host(front *self)
{
    execution *run = self->current;
    cadre_error error = {0};
    if (!self->host && hosting_start(self, &error) < 0) {
        fail(run, "HostError", error.message, NULL);
        finish_cell(self);
        return;
    }
    if (!self->host_is_ready) {
        run->phase = WAITING;
        return;
    }
    cadre_host_run_request wanted = {.cell = run->cell,
                                     .generation = self->generation,
                                     .allow_stdin = run->allow_stdin,
                                     .snapshot = CADRE_SNAPSHOT_AUTO};
    run->phase = RUNNING;
    if (cadre_host_run(self->host, &wanted, &error) < 0) {
        fail(run, "HostError", error.message, NULL);
        finish_cell(self);
    }
}

static void commit(front *self)
{
    execution *run = self->current;
    commit_job *work = calloc(1, sizeof *work);
    if (!work) {
        fail(run, "MemoryError", "no memory", NULL);
        finish_cell(self);
        return;
    }
    work->front = self;
    work->serial = run->serial;
    work->host_pid = self->host ? cadre_host_pid(self->host) : -1;
    work->cell = run->cell;
    work->arrays = run->arrays;
    work->array_count = run->array_count;
    work->has_value = run->has_value && !run->bundle && !run->error_name && !run->silent;
    work->address = run->value_address;
    work->size = run->value_size;
    run->cell = NULL;
    run->arrays = NULL;
    run->phase = FINISHING;
    engine_post(self, &work->job, engine_run_commit, execute_committed);
}

void execute_prepared(void *context, job *base)
{
    front *self = context;
    prepare_job *work = (prepare_job *)base;
    execution *run = self->current;
    cadre_error error = {0};
    if (!run || run->serial != work->serial) {
        prepare_job_free(work);
        return;
    }
    run->cell = work->cell;
    work->cell = NULL;
    run->merged = json_incref(work->parameters);
    run->used = json_incref(work->used);
    if (!run->cell) {
        fail(run, "EngineError", work->problem ? work->problem : "no memory", NULL);
    } else if (run->cell->failed) {
        fail(run, run->cell->error_name, run->cell->error_value, run->cell->traceback);
        if (strcmp(run->error_name, "ParameterError") == 0) parameters_refuse(&self->parameters);
    } else if (run->interrupted) {
        fail_interrupted(run);
    } else if (json_object_get(run->used, "cpu_count") &&
               parameters_check_cpus(run->merged, run->used, cadre_cpu_count(), &error) < 0) {
        fail(run, "ParameterError", error.message, NULL);
        parameters_refuse(&self->parameters);
    }
    prepare_job_free(work);
    if (run->error_name) {
        finish_cell(self);
        return;
    }
    if (run->cell->warnings && *run->cell->warnings) front_note(self, run->cell->warnings);
    if (run->cell->notes && *run->cell->notes) front_note(self, run->cell->notes);
    run->runs_main = run->cell->runs_main;
    if (run->cell->segment_count == 0)
        commit(self);
    else
        run_in_host(self);
}

/* ---- running */

static void add_array(execution *run, const cadre_array_report *array)
{
    cadre_array_report *arrays = realloc(run->arrays, (run->array_count + 1) * sizeof *run->arrays);
    if (!arrays) return;
    run->arrays = arrays;
    run->arrays[run->array_count++] = *array;
}

static void send_input_request(front *self, int64_t now)
{
    execution *run = self->current;
    cadre_error error = {0};
    json_t *content = json_pack(
        "{sosb}", "prompt",
        cadre_json_string(run->prompt ? run->prompt : "", run->prompt ? strlen(run->prompt) : 0),
        "password", run->password);
    cadre_outgoing ask = {.type = "input_request",
                          .request = run->request->message,
                          .content = content,
                          .id = run->input_id};
    int status = cadre_server_send(self->server, CADRE_STDIN, &ask, &error);
    json_decref(content);
    run->input_retry = 0;
    if (status == 0) return;
    if (status == CADRE_ENOTFOUND && now < run->input_end) {
        run->input_retry = now + 50; /* its stdin may be connecting still */
        return;
    }
    front_note(self, "The cell reads standard input, and its client takes no input requests: end "
                     "of input.");
    run->asks_input = false;
    cadre_host_input(self->host, NULL);
}

static void ask_input(front *self, cadre_host_event *event)
{
    enum { PATIENCE = 2000 };
    execution *run = self->current;
    int64_t now = front_now();
    streams_finish(&self->streams, now);
    if (!run->allow_stdin) {
        cadre_host_input(self->host, NULL);
        return;
    }
    free(run->prompt);
    run->prompt = event->text ? strdup(event->text) : NULL;
    run->password = event->password;
    run->asks_input = true;
    run->input_end = now + PATIENCE;
    send_input_request(self, now);
}

void execute_input_reply(front *self, cadre_message *message)
{
    execution *run = self->current;
    const cadre_message *asked = run ? run->request->message : NULL;
    const json_t *value = json_object_get(message->content, "value");
    bool fits = run && run->asks_input && strcmp(message->type, "input_reply") == 0 &&
                (!*message->parent_id || strcmp(message->parent_id, run->input_id) == 0 ||
                 strcmp(message->parent_id, asked->id) == 0) &&
                message->identity_count == asked->identity_count;
    for (size_t i = 0; fits && i < asked->identity_count; i++)
        fits = message->identities[i].length == asked->identities[i].length &&
               memcmp(message->identities[i].data, asked->identities[i].data,
                      asked->identities[i].length) == 0;
    if (fits) {
        const char *line = json_string_value(value);
        run->asks_input = false;
        run->input_retry = 0;
        cadre_host_input(self->host, line && strcmp(line, "\x04") != 0 ? line : NULL);
    } else {
        front_log("a message on stdin was dropped: nobody asked for it");
    }
    cadre_message_free(message);
}

static void end_exit(execution *run, int status)
{
    char text[100];
    if (status == 0) return;
    snprintf(text, sizeof text, run->runs_main ? "main returned %d" : "the cell called exit(%d)",
             status);
    fail(run, "SystemExit", text, NULL);
}

static void end_done(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    switch (event->outcome) {
    case CADRE_OUTCOME_OK: break;
    case CADRE_OUTCOME_EXIT: end_exit(run, event->status); break;
    case CADRE_OUTCOME_INTERRUPTED:
        fail(run, "KeyboardInterrupt",
             event->text && *event->text ? event->text : "the cell was interrupted",
             event->traceback);
        break;
    case CADRE_OUTCOME_ERROR:
        fail(run, event->error_name ? event->error_name : "CadreError", event->text,
             event->traceback);
        break;
    }
    commit(self);
}

static void end_rolled_back(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    int first_lost = hosting_rewind(self, event->generation);
    fail(run, event->error_name ? event->error_name : "HostError", event->text, event->traceback);
    if (first_lost > 0 && run->traceback) {
        cadre_buffer text = {0};
        cadre_buffer_printf(&text, "%s\nThe state is that before In[%d].", run->traceback,
                            first_lost);
        char *longer = cadre_buffer_steal(&text);
        if (longer) {
            free(run->traceback);
            run->traceback = longer;
        }
    }
    finish_cell(self);
}

static void end_lost(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    cadre_buffer text = {0};
    cadre_buffer_printf(&text, "%s; all variables are lost, the kernel goes on with none",
                        event->text ? event->text : "the host process ended");
    fail(run, event->error_name ? event->error_name : "StateLost",
         text.data ? text.data : "all variables are lost", event->traceback);
    cadre_buffer_free(&text);
    hosting_lost(self);
    finish_cell(self);
}

void execute_host_event(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    if (run->phase != RUNNING && event->kind != CADRE_HOST_LOST &&
        event->kind != CADRE_HOST_ROLLED_BACK) {
        if (event->kind == CADRE_HOST_INPUT) cadre_host_input(self->host, NULL);
        return;
    }
    if (event->kind >= CADRE_HOST_LINK_ERROR) {
        run->asks_input = false;
        run->input_retry = 0;
    }
    switch (event->kind) {
    case CADRE_HOST_INPUT: ask_input(self, event); break;
    case CADRE_HOST_ARRAY: add_array(run, &event->array); break;
    case CADRE_HOST_VALUE:
        run->has_value = true;
        run->value_address = event->address;
        run->value_size = event->size;
        free(run->bundle);
        run->bundle = event->text;
        event->text = NULL;
        break;
    case CADRE_HOST_LINK_ERROR:
        fail(run, "LinkError", event->text, event->traceback);
        finish_cell(self);
        break;
    case CADRE_HOST_DONE: end_done(self, event); break;
    case CADRE_HOST_ROLLED_BACK:
        if (run->phase == RUNNING) {
            end_rolled_back(self, event);
        } else {
            /* Between two steps of a cell: the cell goes on with what is there. */
            hosting_rewind(self, event->generation);
            front_note(self, event->text ? event->text : "The host process ended.");
        }
        break;
    case CADRE_HOST_LOST: end_lost(self, event); break;
    default: break;
    }
}

/* ---- results */

/* {"data": {...}, "metadata": {}} of the value, new; NULL: nothing to show. */
static json_t *result_of(const execution *run, const char *text)
{
    json_t *data = NULL;
    if (run->bundle) data = cadre_json_parse(run->bundle, strlen(run->bundle), NULL);
    if (!json_is_object(data)) {
        json_decref(data);
        data = text ? json_pack("{so}", "text/plain", cadre_json_string(text, strlen(text))) : NULL;
    }
    return data ? json_pack("{sos{}}", "data", data, "metadata") : NULL;
}

static void publish_result(front *self, json_t *result)
{
    execution *run = self->current;
    const char *plain =
        json_string_value(json_object_get(json_object_get(result, "data"), "text/plain"));
    if (plain && run->store_history) history_set_output(self->history, run->count, plain);
    json_object_set_new(result, "execution_count", json_integer(run->count));
    streams_finish(&self->streams, front_now());
    front_publish(self, NULL, "execute_result", result);
}

void execute_committed(void *context, job *base)
{
    front *self = context;
    commit_job *work = (commit_job *)base;
    execution *run = self->current;
    if (run && run->serial == work->serial) {
        hosting_generation(self, work->generation, run->count);
        if (run->used) parameters_used(&self->parameters, run->merged, run->used, work->generation);
        json_t *result = run->error_name ? NULL : result_of(run, work->value);
        if (run->expression && !run->error_name)
            json_object_set_new(run->expressions, run->expression,
                                result
                                    ? json_pack("{sssOsO}", "status", "ok", "data",
                                                json_object_get(result, "data"), "metadata",
                                                json_object_get(result, "metadata"))
                                    : json_pack("{sss{}s{}}", "status", "ok", "data", "metadata"));
        else if (result && !run->silent)
            publish_result(self, json_incref(result));
        json_decref(result);
        finish_cell(self);
    }
    cadre_cell_free(work->cell);
    free(work->arrays);
    free(work->value);
    free(work);
}

/* The cell under way has ended: on with the next user expression, or the reply. */
static void finish_cell(front *self)
{
    execution *run = self->current;
    json_t *error = run->error_name ? error_of(run) : NULL;
    json_t *asked = json_object_get(run->request->message->content, "user_expressions");
    if (!run->expression && error) {
        forget_cell(run);
        finish_request(self, error);
        return;
    }
    if (error) {
        json_object_set_new(error, "status", json_string("error"));
        json_object_set_new(run->expressions, run->expression, error);
    }
    forget_cell(run);
    while (run->next_expression && !run->interrupted) {
        const char *name = json_object_iter_key(run->next_expression);
        json_t *code = json_object_iter_value(run->next_expression);
        run->next_expression = json_object_iter_next(asked, run->next_expression);
        if (json_is_string(code) && !is_blank(json_string_value(code), json_string_length(code))) {
            run->expression = name;
            prepare(self, json_string_value(code), json_string_length(code));
            return;
        }
        json_t *refused = front_error_content("ValueError", "not an expression");
        json_object_set_new(run->expressions, name, refused);
    }
    finish_request(self, NULL);
}

/* ---- from outside */

void execute_interrupt(front *self)
{
    execution *run = self->current;
    if (!run) return;
    switch (run->phase) {
    case PREPARING:
        run->interrupted = true;
        engine_cancel(self);
        break;
    case WAITING:
        run->interrupted = true;
        fail_interrupted(run);
        finish_cell(self);
        break;
    case RUNNING:
        run->interrupted = true;
        run->asks_input = false;
        run->input_retry = 0;
        hosting_pause(self);
        cadre_host_interrupt(self->host);
        break;
    case FINISHING: break; /* it has run; what is left takes a moment */
    }
}

int execute_timeout(const front *self, int64_t now)
{
    const execution *run = self->current;
    if (!run || !run->input_retry) return -1;
    return run->input_retry > now ? (int)(run->input_retry - now) : 0;
}

void execute_tick(front *self, int64_t now)
{
    execution *run = self->current;
    if (!run) return;
    if (run->phase == WAITING && (self->host_is_ready || !self->host)) run_in_host(self);
    if (self->current == run && run->input_retry && run->input_retry <= now)
        send_input_request(self, now);
}

void execute_free_all(front *self)
{
    execution_free(self->current);
    self->current = NULL;
    while (self->queue) {
        request *waiting = self->queue;
        self->queue = waiting->next;
        request_free(waiting);
    }
}
