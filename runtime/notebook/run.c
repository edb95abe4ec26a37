/* Running a notebook: its kernel, its cells in order, the executed notebook. */
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "loop/run.h"
#include "notebook/document.h"
#include "notebook/notebook.h"
#include "notebook/outputs.h"
#include "notebook/worker_kernel.h"
#include "show/show.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_MS = 500 };
static const double IDLE_LIMIT = 10.0;       /* seconds from a reply to its idle */
static const double LAST_WORDS = 0.3;        /* for messages of a dead kernel on their way */
static const double SHORTEST_INTERVAL = 1.0; /* between two writings of the notebook */

typedef struct notebook_run {
    const char *path;
    const cadre_notebook_options *options;
    json_t *document, *parameters; /* parameters: of the notebook, with the options' over them */
    cadre_kernelspec spec;
    worker_kernel kernel;
    cadre_outputs outputs;
    cadre_progress *progress;
    double written; /* when the notebook was written last */
    size_t executed;
} notebook_run;

/* ---- before the start ---- */

static int read_parameters(notebook_run *run, cadre_error *error)
{
    json_error_t where = {0};
    const char *text = run->options->parameters;
    json_t *given = text ? json_loads(text, 0, &where) : json_object();
    if (!json_is_object(given)) {
        int status = given ? cadre_error_set(error, CADRE_EINPUT,
                                             "parameters must be a JSON object of names and values")
                           : cadre_error_set(error, CADRE_EINPUT,
                                             "parameters are not JSON: line %d, column %d: %s",
                                             where.line, where.column, where.text);
        json_decref(given);
        return status;
    }
    const json_t *own = cadre_document_parameters(run->document);
    run->parameters = own ? json_deep_copy(own) : json_object();
    json_object_update(run->parameters, given);
    json_decref(given);
    return run->parameters ? CADRE_OK : cadre_error_set(error, CADRE_EMEMORY, "no memory");
}

static int choose_kernel(notebook_run *run, cadre_error *error)
{
    const cadre_notebook_options *options = run->options;
    char *name = NULL;
    int status = CADRE_EMEMORY;
    if (options->kernel && options->environment)
        return cadre_error_set(error, CADRE_EINPUT,
                               "give a kernel (%s) or an environment (%s), not both",
                               options->kernel, options->environment);
    if (options->environment) {
        if (asprintf(&name, "cadre-%s", options->environment) < 0) name = NULL;
    } else {
        const char *chosen =
            options->kernel ? options->kernel : cadre_document_kernel(run->document);
        if (!chosen)
            return cadre_error_set_at(error, CADRE_EINPUT, run->path, 0, 0,
                                      "the notebook names no kernel; say which one to use");
        name = strdup(chosen);
    }
    if (name) status = cadre_kernelspec_find(name, &run->spec, error);
    if (status == CADRE_ENOTFOUND && options->environment)
        cadre_error_set(error, status,
                        "there is no environment '%s' (cadre env list shows them, cadre env add "
                        "makes one)",
                        options->environment);
    free(name);
    return status;
}

/* Makes the folder of the output and finds out now whether it can be written. */
static int prepare_output(const char *output, cadre_error *error)
{
    struct stat info;
    int status = CADRE_OK;
    char *copy = strdup(output);
    if (!copy) return cadre_error_set(error, CADRE_EMEMORY, "no memory for a file name");
    const char *folder = dirname(copy);
    cadre_error reason = {0};
    if (stat(output, &info) == 0 && !S_ISREG(info.st_mode))
        status = cadre_error_set_at(error, CADRE_EFILE, output, 0, 0, "is not a file");
    else if (cadre_folder_make(folder, &reason) < 0)
        status =
            cadre_error_set(error, reason.code, "%s cannot be written: %s", output, reason.message);
    else if (access(folder, W_OK) < 0)
        status = cadre_error_set_at(error, CADRE_EFILE, output, 0, 0,
                                    "its folder cannot be written: %s", strerror(errno));
    free(copy);
    return status;
}

static int call_check(notebook_run *run, cadre_error *error)
{
    const json_t *list = json_object_get(run->document, "cells");
    const char *language = json_string_value(json_object_get(run->spec.json, "language"));
    char **cells = calloc(json_array_size(list) + 1, sizeof *cells);
    size_t count = 0;
    int status = CADRE_OK;
    for (size_t i = 0; cells && i < json_array_size(list); i++) {
        const json_t *cell = json_array_get(list, i);
        if (!cadre_document_is_code(cell)) continue;
        cells[count] = cadre_document_source(cell);
        if (!cells[count++]) status = CADRE_EMEMORY;
    }
    if (!cells || status < 0)
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory for the notebook's cells");
    else
        status = run->options->check(run->options->user, language ? language : "",
                                     (const char *const *)cells, error);
    for (size_t i = 0; i < count; i++)
        free(cells[i]);
    free(cells);
    return status;
}

static int start(notebook_run *run, cadre_error *error)
{
    char *full = realpath(run->path, NULL), *copy = full ? strdup(full) : NULL;
    int status = CADRE_EMEMORY;
    if (copy)
        status = cadre_worker_kernel_start(&run->kernel, &run->spec, dirname(copy), full, error);
    else
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a file name");
    free(full);
    free(copy);
    if (status < 0) return status;

    json_t *metadata = json_object_get(run->document, "metadata");
    json_t *language = json_object_get(run->kernel.info, "language_info");
    json_t *display = json_object_get(run->spec.json, "display_name");
    json_t *spec_language = json_object_get(run->spec.json, "language");
    json_t *kernelspec =
        json_pack("{s:s, s:s}", "name", run->spec.name, "display_name",
                  json_is_string(display) ? json_string_value(display) : run->spec.name);
    if (json_is_string(spec_language)) json_object_set(kernelspec, "language", spec_language);
    json_object_set_new(metadata, "kernelspec", kernelspec);
    if (json_is_string(json_object_get(language, "name")))
        json_object_set(metadata, "language_info", language);
    return CADRE_OK;
}

/* ---- one cell ---- */

typedef struct cell_run {
    json_t *cell;
    size_t number; /* of the code cell, from 1: for messages before it has a count */
    char id[CADRE_ID_SIZE];
    bool replied, idle;
    char status[16];                  /* of the reply */
    json_t *reply_name, *reply_value; /* ename and evalue of it */
    long count;                       /* execution_count, 0: none yet */
} cell_run;

static void note_time(cell_run *cell, const char *key, const cadre_message *message)
{
    json_t *metadata = json_object_get(cell->cell, "metadata");
    json_t *execution = json_object_get(metadata, "execution");
    json_t *date = json_object_get(message->header, "date");
    if (!execution) {
        execution = json_object();
        json_object_set_new(metadata, "execution", execution);
    }
    if (json_is_string(date)) json_object_set(execution, key, date);
}

static void note_count(cell_run *cell, const cadre_message *message)
{
    json_t *count = json_object_get(message->content, "execution_count");
    if (!json_is_integer(count)) return;
    cell->count = (long)json_integer_value(count);
    json_object_set(cell->cell, "execution_count", count);
}

static void take_iopub(notebook_run *run, cell_run *cell, const cadre_message *message)
{
    if (strcmp(message->parent_id, cell->id) != 0) {
        /* A display may be replaced by a thread that an earlier cell left. */
        if (strcmp(message->type, "update_display_data") == 0)
            cadre_outputs_take(&run->outputs, message);
        return;
    }
    if (strcmp(message->type, "status") == 0) {
        const char *state = json_string_value(json_object_get(message->content, "execution_state"));
        if (state && strcmp(state, "busy") == 0) note_time(cell, "iopub.status.busy", message);
        if (state && strcmp(state, "idle") == 0) {
            note_time(cell, "iopub.status.idle", message);
            cell->idle = true;
        }
    } else if (strcmp(message->type, "execute_input") == 0) {
        note_time(cell, "iopub.execute_input", message);
        note_count(cell, message);
    } else {
        cadre_outputs_take(&run->outputs, message);
    }
}

static void take_reply(cell_run *cell, const cadre_message *message)
{
    if (strcmp(message->parent_id, cell->id) != 0 || strcmp(message->type, "execute_reply") != 0)
        return;
    const char *status = json_string_value(json_object_get(message->content, "status"));
    snprintf(cell->status, sizeof cell->status, "%s", status ? status : "error");
    cell->reply_name = json_incref(json_object_get(message->content, "ename"));
    cell->reply_value = json_incref(json_object_get(message->content, "evalue"));
    note_time(cell, "shell.execute_reply", message);
    note_count(cell, message);
    cell->replied = true;
}

static int send_cell(notebook_run *run, cell_run *cell, const char *source, cadre_error *error)
{
    bool tolerant = cadre_document_has_tag(cell->cell, "raises-exception");
    json_t *content =
        json_pack("{s:o, s:b, s:b, s:{}, s:b, s:b}", "code",
                  cadre_json_string(source, strlen(source)), "silent", 0, "store_history", 1,
                  "user_expressions", "allow_stdin", 0, "stop_on_error", !tolerant);
    /* As JupyterLab does: the cell's own metadata and its id; then the parameters over them. */
    json_t *metadata = json_deep_copy(json_object_get(cell->cell, "metadata"));
    json_t *cadre = json_object_get(metadata, "cadre");
    json_t *parameters = json_deep_copy(run->parameters);
    const json_t *own = cadre_document_parameters(cell->cell);
    if (own) {
        /* notebook < cell < options: the cell's come in where the caller gave nothing. */
        json_t *given =
            run->options->parameters ? json_loads(run->options->parameters, 0, NULL) : NULL;
        json_object_update(parameters, (json_t *)own);
        if (given) json_object_update(parameters, given);
        json_decref(given);
    }
    if (!json_is_object(cadre)) {
        cadre = json_object();
        json_object_set_new(metadata, "cadre", cadre);
    }
    json_object_set_new(cadre, "parameters", parameters);
    json_object_set(metadata, "cellId", json_object_get(cell->cell, "id"));
    run->kernel.log_length = 0; /* what it wrote before does not explain its death in this cell */
    int status = cadre_client_send(run->kernel.client, CADRE_SHELL, "execute_request", content,
                                   metadata, cell->id, error);
    json_decref(content);
    json_decref(metadata);
    return status;
}

static int kernel_died(notebook_run *run, const cell_run *cell, cadre_error *error)
{
    char how[800];
    cadre_worker_kernel_death(&run->kernel, how, sizeof how);
    return cadre_error_set(error, CADRE_ECHILD, "In[%ld] the kernel died: %s",
                           cell->count ? cell->count : (long)cell->number, how);
}

/* Receives until the reply and the idle of the cell are there. */
static int follow_cell(notebook_run *run, cell_run *cell, cadre_error *error)
{
    double timeout = run->options->cell_timeout;
    double start = cadre_loop_now(), replied = 0, dead = 0;
    for (;;) {
        double now = cadre_loop_now();
        if (cell->replied && cell->idle) return CADRE_OK;
        if (cadre_interrupt_requested())
            return cadre_error_set(error, CADRE_EINTERRUPT, "interrupted in In[%ld]",
                                   cell->count ? cell->count : (long)cell->number);
        if (cell->replied && replied == 0) replied = now;
        /* Output may be lost, the result is not: go on. */
        if (replied > 0 && now - replied > IDLE_LIMIT) return CADRE_OK;
        if (timeout > 0 && !cell->replied && now - start > timeout)
            return cadre_error_set(error, CADRE_ETIMEOUT, "In[%ld] did not end within %g s",
                                   cell->count ? cell->count : (long)cell->number, timeout);
        if (dead > 0 && now - dead > LAST_WORDS) return kernel_died(run, cell, error);

        double left = timeout > 0 && !cell->replied ? (start + timeout - now) * 1000 + 1 : STEP_MS;
        int wait = dead > 0 ? 20 : left < STEP_MS ? (int)left : STEP_MS;
        cadre_channel channel;
        cadre_error reason = {0};
        cadre_message *message = cadre_client_receive(
            run->kernel.client, wait, dead > 0 ? -1 : run->kernel.wake, &channel, &reason);
        if (message) {
            if (channel == CADRE_IOPUB) take_iopub(run, cell, message);
            if (channel == CADRE_SHELL) take_reply(cell, message);
            cadre_message_free(message);
            continue;
        }
        if (reason.code != CADRE_ETIMEOUT && reason.code != CADRE_EINTERRUPT) {
            *error = reason;
            return reason.code;
        }
        if (dead == 0 && !cadre_worker_kernel_is_alive(&run->kernel)) dead = now;
    }
}

static int judge_cell(notebook_run *run, cell_run *cell, cadre_error *error)
{
    const char *name = run->outputs.error_name, *value = run->outputs.error_value;
    bool failed = strcmp(cell->status, "ok") != 0 || name;
    if (!failed || cadre_document_has_tag(cell->cell, "raises-exception")) return CADRE_OK;
    if (!name) name = json_string_value(cell->reply_name);
    if (!value) value = json_string_value(cell->reply_value);
    return cadre_error_set(error, CADRE_ECHILD, "In[%ld] %s: %s",
                           cell->count ? cell->count : (long)cell->number,
                           name && *name ? name : cell->status, value ? value : "");
}

static int run_cell(notebook_run *run, json_t *json, size_t number, cadre_error *error)
{
    char *source = cadre_document_source(json);
    if (!source) return cadre_error_set(error, CADRE_EMEMORY, "no memory for a cell");
    if (source[strspn(source, " \t\r\n")] == 0 || cadre_document_has_tag(json, "skip-execution")) {
        free(source);
        return CADRE_OK;
    }
    cell_run cell = {.cell = json, .number = number};
    cadre_outputs_begin(&run->outputs, json_object_get(json, "outputs"));
    int status = send_cell(run, &cell, source, error);
    if (status == CADRE_OK) {
        run->executed++;
        status = follow_cell(run, &cell, error);
    }
    cadre_outputs_flush(&run->outputs);
    if (status == CADRE_OK) status = judge_cell(run, &cell, error);
    json_decref(cell.reply_name);
    json_decref(cell.reply_value);
    free(source);
    return status;
}

/* ---- the whole ---- */

static int write_output(notebook_run *run, bool now, cadre_error *error)
{
    if (!run->options->output) return CADRE_OK;
    double time = cadre_loop_now();
    if (!now && time - run->written < SHORTEST_INTERVAL) return CADRE_OK;
    int status = cadre_document_write(run->document, run->options->output, error);
    if (status == CADRE_OK) run->written = time;
    return status;
}

static int run_cells(notebook_run *run, cadre_error *error)
{
    json_t *cells = json_object_get(run->document, "cells");
    size_t number = 0, total = 0;
    for (size_t i = 0; i < json_array_size(cells); i++)
        total += cadre_document_is_code(json_array_get(cells, i));
    if (!run->options->quiet) {
        char *copy = strdup(run->path);
        run->progress = cadre_progress_new(copy ? basename(copy) : run->path, total);
        free(copy);
    }
    for (size_t i = 0; i < json_array_size(cells); i++) {
        json_t *cell = json_array_get(cells, i);
        if (!cadre_document_is_code(cell)) continue;
        int status = run_cell(run, cell, ++number, error);
        if (status < 0) {
            cadre_progress_set(run->progress, number - 1, "failed");
            return status;
        }
        if ((status = write_output(run, false, error)) < 0) return status;
        cadre_progress_set(run->progress, number, NULL);
    }
    return CADRE_OK;
}

static int run_notebook(notebook_run *run, cadre_error *error)
{
    int status = CADRE_OK;
    run->document = cadre_document_read(run->path, error);
    if (!run->document) return error->code;
    if ((status = read_parameters(run, error)) < 0) return status;
    if ((status = choose_kernel(run, error)) < 0) return status;
    if (run->options->check && (status = call_check(run, error)) < 0) return status;
    if (run->options->output && (status = prepare_output(run->options->output, error)) < 0)
        return status;
    if ((status = start(run, error)) < 0) return status;
    status = run_cells(run, error);
    cadre_error later = {0};
    if (write_output(run, true, &later) < 0 && status == CADRE_OK) {
        *error = later;
        status = later.code;
    }
    /* A kernel in the middle of a cell would not hear a request to end. */
    bool busy = status == CADRE_EINTERRUPT || status == CADRE_ETIMEOUT;
    cadre_worker_kernel_stop(&run->kernel, busy);
    return status;
}

static void release(notebook_run *run)
{
    cadre_progress_free(run->progress);
    cadre_outputs_clear(&run->outputs);
    cadre_kernelspec_clear(&run->spec);
    json_decref(run->parameters);
    json_decref(run->document);
}

cadre_notebook_result *cadre_notebook_run(const char *path, cadre_notebook_options options)
{
    cadre_error error = {0};
    cadre_notebook_result *result = calloc(1, sizeof *result);
    if (!result || !path) {
        free(result);
        cadre_error_set(&error, result ? CADRE_EINPUT : CADRE_EMEMORY,
                        result ? "cadre_notebook_run needs a path" : "no memory");
        cadre_raise(&error);
        return NULL;
    }
    notebook_run run = {.path = path,
                        .options = &options,
                        .outputs = {.on_output = options.on_output, .user = options.user}};
    double start_time = cadre_loop_now();
    int status = run_notebook(&run, &error);
    result->ok = status == CADRE_OK;
    result->seconds = cadre_loop_now() - start_time;
    result->cells = run.executed;
    if (run.outputs.returned)
        result->value = json_dumps(run.outputs.returned,
                                   JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (run.written > 0) result->output = strdup(options.output);
    if (!result->ok) result->error = strdup(error.message);
    release(&run);
    if (result->ok) return result;
    if (result->output) {
        size_t used = strlen(error.message);
        snprintf(error.message + used, sizeof error.message - used, " (see %s)", result->output);
    }
    cadre_raise(&error);
    return result;
}

void cadre_notebook_result_free(cadre_notebook_result *result)
{
    if (!result) return;
    free(result->error);
    free(result->value);
    free(result->output);
    free(result);
}
