/* One cell through engine and host. */
#include "session/execution.h"

#include "cell/library_search.h"
#include "cpu/cpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- preparing */

void execution_prepare(front *self, const char *code, size_t length)
{
    execution *run = self->current;
    prepare_job *work = engine_prepare(self, code, length, run->count);
    if (!work) {
        outcome_fail(run, "MemoryError", "no memory", NULL);
        execution_finish_cell(self);
        return;
    }
    if (!run->expression) {
        parameters_inline_hide(work->code, work->length);
        work->parameters = parameters_merged(&self->parameters);
        work->channels = parameters_channels(&self->parameters);
        work->applied = parameters_unchanged(&self->parameters, work->parameters);
    }
    work->serial = run->serial;
    work->folder = hosting_folder(self);
    run->phase = PREPARING;
    engine_post(self, &work->job, engine_run_prepare, execute_prepared);
}

static void run_in_host(front *self)
{
    execution *run = self->current;
    cadre_error error = {0};
    if (!self->host && hosting_start(self, &error) < 0) {
        outcome_fail(run, "HostError", error.message, NULL);
        execution_finish_cell(self);
        return;
    }
    if (!self->host_is_ready) {
        run->phase = WAITING;
        return;
    }
    cadre_host_run_request wanted = {.cell = run->cell,
                                     .generation = self->generation,
                                     .allow_stdin = run->allow_stdin,
                                     .snapshot = (cadre_snapshot_policy)run->cell->snapshot};
    run->phase = RUNNING;
    if (cadre_host_run(self->host, &wanted, &error) < 0) {
        outcome_fail(run, "HostError", error.message, NULL);
        execution_finish_cell(self);
    }
}

static void commit(front *self)
{
    execution *run = self->current;
    commit_job *work = calloc(1, sizeof *work);
    if (!work) {
        outcome_fail(run, "MemoryError", "no memory", NULL);
        execution_finish_cell(self);
        return;
    }
    work->front = self;
    work->serial = run->serial;
    work->cell = run->cell;
    work->arrays = run->arrays;
    work->array_count = run->array_count;
    /* Read before anything else runs in the host. The host is asked, so it is done here. */
    if ((run->has_value || run->cell->value_text) && !run->bundle && !run->error_name &&
        !run->silent)
        work->value = run->cell->value_text
                          ? strdup(run->cell->value_text)
                          : cadre_cell_value(run->cell, run->value_address, run->value_size,
                                             cadre_host_read, self->host);
    run->cell = NULL;
    run->arrays = NULL;
    run->phase = FINISHING;
    engine_post(self, &work->job, engine_run_commit, execute_committed);
}

/* What was lost between this cell and the one before, where the user looks now. */
static void tell_loss(front *self)
{
    if (!self->loss || self->current->silent) return;
    front_note(self, self->loss);
    free(self->loss);
    self->loss = NULL;
}

/* What the launcher of an environment could not give (cadre env exec), once, where it is seen. */
static void tell_environment(front *self)
{
    const char *note = getenv("CADRE_ENVIRONMENT_NOTE");
    if (!note || !*note || self->current->silent) return;
    front_note(self, note);
    unsetenv("CADRE_ENVIRONMENT_NOTE");
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
    tell_loss(self); /* first: it may be why the cell fails */
    run->cell = work->cell;
    work->cell = NULL;
    run->merged = json_incref(work->parameters);
    run->used = json_incref(work->used);
    if (!run->cell) {
        outcome_fail(run, "EngineError", work->problem ? work->problem : "no memory", NULL);
    } else if (run->cell->failed) {
        outcome_fail(run, run->cell->error_name, run->cell->error_value, run->cell->traceback);
        if (strcmp(run->error_name, "ParameterError") == 0) parameters_refuse(&self->parameters);
    } else if (run->interrupted) {
        outcome_interrupted(run);
    } else if (json_object_get(run->used, "cpu_count") &&
               parameters_check_cpus(run->merged, run->used, cadre_cpu_count(), &error) < 0) {
        outcome_fail(run, "ParameterError", error.message, NULL);
        parameters_refuse(&self->parameters);
    }
    prepare_job_free(work);
    if (run->error_name) {
        execution_finish_cell(self);
        return;
    }
    tell_environment(self);
    if (run->cell->warnings && *run->cell->warnings) front_note(self, run->cell->warnings);
    if (run->cell->notes && *run->cell->notes) front_note(self, run->cell->notes);
    run->runs_main = run->cell->runs_main;
    if (run->cell->payload) json_array_extend(run->payload, run->cell->payload);
    if (run->cell->resets) {
        hosting_reset(self);
        execution_finish_cell(self);
    } else if (run->cell->segment_count == 0)
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

static void end_exit(execution *run, int status)
{
    char text[100];
    if (status == 0) return;
    snprintf(text, sizeof text, run->runs_main ? "main returned %d" : "the cell called exit(%d)",
             status);
    outcome_fail(run, "SystemExit", text, NULL);
}

static void end_done(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    switch (event->outcome) {
    case CADRE_OUTCOME_OK: break;
    case CADRE_OUTCOME_EXIT: end_exit(run, event->status); break;
    case CADRE_OUTCOME_INTERRUPTED:
        outcome_fail(run, "KeyboardInterrupt",
                     event->text && *event->text ? event->text : "the cell was interrupted",
                     event->traceback);
        break;
    case CADRE_OUTCOME_ERROR:
        outcome_fail(run, event->error_name ? event->error_name : "CadreError", event->text,
                     event->traceback);
        break;
    }
    commit(self);
}

/* The reply of this cell tells `text` and where it is written. */
static void name_log(front *self, const char *text)
{
    execution *run = self->current;
    journal_loss(self, text);
    if (!self->loss) return;
    const char *log = strstr(self->loss, "(log: ");
    if (run->traceback && log) {
        cadre_buffer longer = {0};
        cadre_buffer_printf(&longer, "%s\n%s", run->traceback, log);
        free(run->traceback);
        run->traceback = cadre_buffer_steal(&longer);
    }
    free(run->error_value);
    run->error_value = self->loss;
    self->loss = NULL;
}

static void end_rolled_back(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    int first_lost = hosting_rewind(self, event->generation);
    outcome_fail(run, event->error_name ? event->error_name : "HostError", event->text,
                 event->traceback);
    /* A crash is the cell's own; a kill came from outside. */
    if (event->status == SIGKILL && event->text) name_log(self, event->text);
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
    execution_finish_cell(self);
}

static void end_lost(front *self, cadre_host_event *event)
{
    execution *run = self->current;
    cadre_buffer text = {0};
    cadre_buffer_printf(&text, "%s; all variables are lost, the kernel goes on with none",
                        event->text ? event->text : "the host process ended");
    outcome_fail(run, event->error_name ? event->error_name : "StateLost",
                 text.data ? text.data : "all variables are lost", event->traceback);
    if (text.data) name_log(self, text.data);
    cadre_buffer_free(&text);
    hosting_lost(self);
    execution_finish_cell(self);
}

/* "f is declared and not defined (...)": with the library that has it, if there is one. */
static void name_library(cadre_host_event *event)
{
    size_t length = event->text ? strcspn(event->text, " ") : 0;
    char *symbol = length ? strndup(event->text, length) : NULL;
    char *library = symbol ? cadre_library_with(symbol) : NULL;
    cadre_buffer text = {0};
    if (library)
        cadre_buffer_printf(&text, "%s; a library has it: %%ldflags %s", event->text, library);
    if (text.length && !text.failed) {
        free(event->text);
        event->length = text.length;
        event->text = cadre_buffer_steal(&text);
    }
    cadre_buffer_free(&text);
    free(library);
    free(symbol);
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
        input_end(run);
    }
    switch (event->kind) {
    case CADRE_HOST_INPUT: input_ask(self, event); break;
    case CADRE_HOST_ARRAY: add_array(run, &event->array); break;
    case CADRE_HOST_VALUE:
        run->has_value = true;
        run->value_address = event->address;
        run->value_size = event->size;
        free(run->bundle);
        run->bundle = event->length ? event->text : NULL;
        if (run->bundle) event->text = NULL;
        break;
    case CADRE_HOST_LINK_ERROR:
        name_library(event);
        outcome_fail(run, "LinkError", event->text, event->traceback);
        execution_finish_cell(self);
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

static void publish_result(front *self, json_t *result)
{
    execution *run = self->current;
    const char *plain =
        json_string_value(json_object_get(json_object_get(result, "data"), "text/plain"));
    if (plain && run->store_history) recorder_output(self, run->count, plain);
    json_object_set_new(result, "execution_count", json_integer(run->count));
    streams_finish(&self->streams, front_clock());
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
        json_t *result = run->error_name ? NULL : outcome_result(run, work->value);
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
        execution_finish_cell(self);
    }
    cadre_cell_free(work->cell);
    free(work->arrays);
    free(work->value);
    free(work);
}

/* The cell under way has ended: on with the next user expression, or the reply. */
void execution_finish_cell(front *self)
{
    execution *run = self->current;
    json_t *error = run->error_name ? outcome_error(run) : NULL;
    json_t *asked = json_object_get(run->request->message->content, "user_expressions");
    if (!run->expression && error) {
        outcome_forget(run);
        execution_reply(self, error);
        return;
    }
    if (error) {
        json_object_set_new(error, "status", json_string("error"));
        json_object_set_new(run->expressions, run->expression, error);
    }
    outcome_forget(run);
    while (run->next_expression && !run->interrupted) {
        const char *name = json_object_iter_key(run->next_expression);
        json_t *code = json_object_iter_value(run->next_expression);
        run->next_expression = json_object_iter_next(asked, run->next_expression);
        if (json_is_string(code) &&
            !execution_is_blank(json_string_value(code), json_string_length(code))) {
            run->expression = name;
            execution_prepare(self, json_string_value(code), json_string_length(code));
            return;
        }
        json_t *refused = front_error_content("ValueError", "not an expression");
        json_object_set_new(run->expressions, name, refused);
    }
    execution_reply(self, NULL);
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
        outcome_interrupted(run);
        execution_finish_cell(self);
        break;
    case RUNNING:
        run->interrupted = true;
        input_end(run);
        hosting_pause(self);
        cadre_host_interrupt(self->host);
        break;
    case FINISHING: break; /* it has run; what is left takes a moment */
    }
}

int execute_timeout(const front *self, int64_t now)
{
    return self->current ? input_timeout(self->current, now) : -1;
}

void execute_tick(front *self, int64_t now)
{
    execution *run = self->current;
    if (!run) return;
    if (run->phase == WAITING && (self->host_is_ready || !self->host)) run_in_host(self);
    if (self->current) input_tick(self, now);
}
