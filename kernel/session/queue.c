/* execute_requests wait here, start here, and are answered here. */
#include "session/execution.h"

#include <stdlib.h>
#include <string.h>

enum { QUEUE_BYTES = 256 << 20, QUEUE_LENGTH = 100000 };

static bool flag_of(const json_t *content, const char *key, bool missing)
{
    const json_t *value = json_object_get(content, key);
    return json_is_boolean(value) ? json_is_true(value) : missing;
}

void execution_request_free(request *waiting)
{
    if (!waiting) return;
    cadre_message_free(waiting->message);
    free(waiting);
}

static void execution_free(execution *run)
{
    if (!run) return;
    outcome_forget(run);
    execution_request_free(run->request);
    json_decref(run->expressions);
    json_decref(run->payload);
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
    request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        front_log("no memory: an execute_request was dropped");
        cadre_message_free(message);
        return;
    }
    *waiting = (request){.message = message, .channel = channel};
    if (self->queue)
        self->queue_last->next = waiting;
    else
        self->queue = waiting;
    self->queue_last = waiting;
    self->queue_bytes += message->size;
    self->queue_length++;
}

/* ---- the end of a request */

static bool is_of_comm(const request *waiting)
{
    return strcmp(waiting->message->type, "execute_request") != 0;
}

static void abort_queued(front *self)
{
    /* What has arrived counts as queued, read or not; what comes later runs. */
    enum { AT_MOST = 10000 };
    for (int i = 0; i < AT_MOST && !execute_is_full(self); i++) {
        cadre_error problem = {0};
        cadre_message *message = cadre_wire_server_receive(self->server, CADRE_SHELL, &problem);
        if (message)
            front_handle(self, CADRE_SHELL, message);
        else if (problem.code)
            front_log("a message on shell was dropped: %s", problem.message);
        else
            break;
    }
    for (request *waiting = self->queue; waiting; waiting = waiting->next)
        waiting->is_aborted = !is_of_comm(waiting);
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
void execution_reply(front *self, json_t *error)
{
    execution *run = self->current;
    streams_finish(&self->streams, front_clock());
    json_t *content = error;
    if (error) {
        if (!run->silent) front_publish(self, NULL, "error", json_incref(error));
        content = json_pack("{sss[]s{}}", "status", "error", "payload", "user_expressions");
        json_object_update_missing(content, error);
        json_decref(error);
        if (run->stop_on_error && !run->silent) abort_queued(self);
    } else {
        content = json_pack("{sssOsO}", "status", "ok", "payload", run->payload, "user_expressions",
                            run->expressions);
    }
    if (run->is_comm)
        json_decref(content);
    else
        reply(self, content);
    front_status(self, NULL, "idle");
    if (run->store_history) self->execution_count = run->count + 1;
    if (run->is_comm) comms_handed_over(self, run->request->message);
    self->current = NULL;
    execution_free(run);
}

static const char *code_of(const execution *run, size_t *length)
{
    const json_t *code = json_object_get(run->request->message->content, "code");
    *length = json_string_length(code);
    return json_string_value(code);
}

bool execution_is_blank(const char *code, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r\n\f\v", code[i]) || !code[i]) return false;
    return true;
}

static void answer_aborted(front *self, request *waiting)
{
    /* No execution_count, as with ipykernel: front-ends show it, and the cell would look as if it
     * had run. */
    json_t *content = json_pack("{ss}", "status", "aborted");
    front_status(self, waiting->message, "busy");
    front_reply(self, waiting->channel, waiting->message, "execute_reply", content, NULL);
    front_status(self, waiting->message, "idle");
    execution_request_free(waiting);
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
static bool take_parameters(front *self, const char *code, size_t length)
{
    execution *run = self->current;
    cadre_error error = {0};
    if (self->parameters.problem) {
        outcome_fail(run, "ParameterError", self->parameters.problem, NULL);
        free(self->parameters.problem);
        self->parameters.problem = NULL;
        return false;
    }
    if (parameters_request(&self->parameters, run->request->message->metadata, &error) == 0) {
        if (parameters_inline(&self->parameters, code, length, &error) == 0) return true;
        parameters_refuse(&self->parameters);
    }
    outcome_fail(run, "ParameterError", error.message, NULL);
    return false;
}

/* A message to a comm has no reply, no number and no text to show. */
static void start_comm(front *self)
{
    execution *run = self->current;
    const char *cell = comms_cell();
    run->is_comm = true;
    run->silent = run->allow_stdin = false;
    run->store_history = false;
    run->stop_on_error = false;
    run->next_expression = NULL;
    execution_prepare(self, cell, strlen(cell));
}

static void add_page(execution *run, json_t *data)
{
    json_array_append_new(run->payload,
                          json_pack("{sssosi}", "source", "page", "data", data, "start", 0));
}

void execute_page(front *self, uint64_t serial, const json_t *content)
{
    execution *run = self->current;
    size_t start, end, length;
    if (!run || run->serial != serial) return;
    const char *code = code_of(run, &length);
    if (run->interrupted) {
        outcome_interrupted(run);
    } else if (json_is_true(json_object_get(content, "found"))) {
        add_page(run, json_incref(json_object_get(content, "data")));
    } else {
        char text[300];
        (void)cadre_cell_question(code, length, &start, &end);
        snprintf(text, sizeof text, "nothing is known of %.*s",
                 (int)(end - start < 200 ? end - start : 200), code + start);
        outcome_fail(run, "NameError", text, NULL);
    }
    execution_finish_cell(self);
}

/* `%timeit?` */
static bool page_of_magic(execution *run, const char *name)
{
    const char *help, *magic, *plain = name + strspn(name, "%");
    for (size_t i = 0; (magic = cadre_magic_name(i, &help)); i++) {
        if (strcmp(magic, plain) != 0) continue;
        cadre_buffer text = {0};
        cadre_buffer_printf(&text, "%%%s: %s", magic, help);
        add_page(run, json_pack("{so}", "text/plain",
                                cadre_json_string(text.data ? text.data : "", text.length)));
        cadre_buffer_free(&text);
        return true;
    }
    return false;
}

/* Is the cell a question about a name? Then it is answered with a page, not run. */
static bool start_question(front *self, const char *code, size_t length)
{
    execution *run = self->current;
    size_t start, end;
    int detail = cadre_cell_question(code, length, &start, &end);
    if (detail < 0) return false;
    char *name = strndup(code + start, end - start);
    run->phase = PREPARING;
    if (name && *name == '%') {
        if (!page_of_magic(run, name))
            outcome_fail(run, "NameError", "there is no such magic; %help lists them", NULL);
        execution_finish_cell(self);
    } else if (!name || !assist_page(self, run->serial, name, detail)) {
        outcome_fail(run, "MemoryError", "no memory", NULL);
        execution_finish_cell(self);
    }
    free(name);
    return true;
}

static void start(front *self, request *waiting)
{
    const json_t *content = waiting->message->content;
    execution *run = calloc(1, sizeof *run);
    size_t length;
    if (!run) {
        execution_request_free(waiting);
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
    run->payload = json_array();
    run->next_expression = json_object_iter(json_object_get(content, "user_expressions"));
    cadre_date_now(run->started);
    /* What came since the last cell, of threads and children that it left, is still its own. */
    streams_finish(&self->streams, front_clock());
    self->current = run;
    remember_parent(self, waiting->message);
    if (is_of_comm(waiting)) { /* busy was told when it came */
        start_comm(self);
        return;
    }
    front_status(self, NULL, "busy");

    const char *code = code_of(run, &length);
    if (waiting->message->damage || !code) {
        run->store_history = false;
        outcome_fail(run, "MessageError",
                     waiting->message->damage ? waiting->message->damage : "code must be a string",
                     NULL);
        execution_finish_cell(self);
        return;
    }
    if (execution_is_blank(code, length)) {
        run->store_history = false;
        execution_finish_cell(self);
        return;
    }
    if (run->store_history) recorder_input(self, run->count, code, length);
    if (!run->silent)
        front_publish(self, NULL, "execute_input",
                      json_pack("{sosi}", "code", cadre_json_string(code, length),
                                "execution_count", run->count));
    if (start_question(self, code, length)) return;
    if (take_parameters(self, code, length))
        execution_prepare(self, code, length);
    else
        execution_finish_cell(self);
}

bool execute_waits_for_readers(const front *self)
{
    return !self->current && self->queue && !self->queue->is_aborted &&
           cadre_wire_server_unsent(self->server) > HOSTING_UNREAD;
}

void execute_advance(front *self)
{
    while (!self->current && self->queue && !self->ending && !execute_waits_for_readers(self)) {
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

void execute_free_all(front *self)
{
    execution_free(self->current);
    self->current = NULL;
    while (self->queue) {
        request *waiting = self->queue;
        self->queue = waiting->next;
        execution_request_free(waiting);
    }
}
