/* The host's side of the front: starting it, taking its events, keeping unread output bounded. */
#include "session/front.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a cell that waits goes on. */
#define UNREAD_LOW ((size_t)24 << 20)

int hosting_start(front *self, cadre_error *error)
{
    cadre_host_options options = {0};
    self->host_is_ready = false;
    self->output_is_paused = false;
    self->host = cadre_host_start(&options, error);
    return self->host ? 0 : CADRE_ECHILD;
}

void hosting_stop(front *self)
{
    if (self->host) cadre_host_stop(self->host);
    self->host = NULL;
    self->host_is_ready = false;
}

void hosting_pause(front *self)
{
    size_t unread = cadre_wire_server_unsent(self->server);
    /* An interrupted cell must reach its end even when nobody reads. */
    bool pause = unread > (self->output_is_paused ? UNREAD_LOW : HOSTING_UNREAD) &&
                 !execute_is_interrupted(self);
    if (!self->host || pause == self->output_is_paused) return;
    cadre_host_pause_output(self->host, pause);
    self->output_is_paused = pause;
}

void hosting_generation(front *self, uint64_t generation, int execution_count)
{
    if (generation >= self->generation_capacity) {
        size_t capacity = generation < 64 ? 128 : (size_t)generation * 2;
        int *counts = realloc(self->generation_counts, capacity * sizeof *counts);
        if (!counts) return;
        memset(counts + self->generation_capacity, 0,
               (capacity - self->generation_capacity) * sizeof *counts);
        self->generation_counts = counts;
        self->generation_capacity = capacity;
    }
    self->generation_counts[generation] = execution_count;
    self->generation = generation;
    self->names_are_old = true;
}

int hosting_rewind(front *self, uint64_t generation)
{
    int first_lost = 0;
    comms_rewind(self, generation); /* also those of the cell that was not committed */
    if (generation >= self->generation) return 0;
    if (generation + 1 < self->generation_capacity)
        first_lost = self->generation_counts[generation + 1];
    self->generation = generation;
    self->names_are_old = true;
    parameters_rewind(&self->parameters, generation);
    engine_rewind(self, generation);
    return first_lost;
}

static void forget_all(front *self)
{
    self->generation = 0;
    self->names_are_old = true;
    parameters_rewind(&self->parameters, 0);
    comms_rewind(self, 0);
    engine_rewind(self, 0);
    self->host_is_ready = false;
}

char *hosting_folder(const front *self)
{
    char link[64], folder[PATH_MAX];
    if (!self->host || cadre_host_pid(self->host) <= 0) return NULL;
    snprintf(link, sizeof link, "/proc/%ld/cwd", (long)cadre_host_pid(self->host));
    ssize_t length = readlink(link, folder, sizeof folder);
    return length > 0 && (size_t)length < sizeof folder ? strndup(folder, (size_t)length) : NULL;
}

void hosting_reset(front *self)
{
    cadre_error error = {0};
    hosting_stop(self);
    forget_all(self);
    /* If it does not come up, the next cell tries again and says why. */
    (void)hosting_start(self, &error);
}

void hosting_lost(front *self)
{
    forget_all(self);
    /* It has started itself anew (READY follows), unless it never came up: then the next cell
     * tries again. */
    if (cadre_host_pid(self->host) <= 0) hosting_stop(self);
}

/* Without a cell: the host died between cells, or background work still prints. */
static void handle_idle_event(front *self, cadre_host_event *event)
{
    char text[2000];
    switch (event->kind) {
    case CADRE_HOST_ROLLED_BACK:
        hosting_rewind(self, event->generation);
        snprintf(text, sizeof text, "%.200s between two cells: %.1500s",
                 event->error_name ? event->error_name : "The host ended",
                 event->text ? event->text : "");
        journal_loss(self, text);
        front_note(self, text);
        break;
    case CADRE_HOST_LOST:
        snprintf(text, sizeof text, "The state of this session is lost: %.1800s",
                 event->text ? event->text : "the host process ended");
        journal_loss(self, text);
        front_note(self, text);
        hosting_lost(self);
        break;
    case CADRE_HOST_INPUT: cadre_host_input(self->host, NULL); break;
    default: break;
    }
}

/* cadre_show: what the kernel knows of the value's type makes a better text. */
static void format_shown(front *self, json_t *display)
{
    const char *label = json_string_value(json_object_get(display, "label"));
    const char *variable = json_string_value(json_object_get(display, "variable"));
    const char *address = json_string_value(json_object_get(display, "address"));
    json_int_t size = json_integer_value(json_object_get(display, "size"));
    json_int_t pid = json_integer_value(json_object_get(display, "pid"));
    if (!label || !variable || !address || size <= 0 || !self->host) return;
    char *text = cadre_host_format(self->host, (pid_t)pid, label, variable,
                                   strtoull(address, NULL, 16), (size_t)size);
    if (text)
        json_object_set_new(json_object_get(display, "data"), "text/plain",
                            cadre_json_string(text, strlen(text)));
    free(text);
}

static void handle_display(front *self, const cadre_host_event *event)
{
    json_t *display = cadre_json_parse(event->text ? event->text : "", event->length, NULL);
    const char *kind = json_string_value(json_object_get(display, "kind"));
    const char *id = json_string_value(json_object_get(display, "display_id"));
    json_t *data = json_object_get(display, "data"),
           *metadata = json_object_get(display, "metadata");
    bool is_update = kind && strcmp(kind, "update") == 0;
    streams_flush(&self->streams, front_clock());
    if (kind && strcmp(kind, "value") == 0) format_shown(self, display);
    if (kind && strcmp(kind, "comm") == 0) {
        comms_packet(self, display);
    } else if (execute_is_silent(self)) {
        /* Nothing that is only for the eye. */
    } else if (kind && strcmp(kind, "clear") == 0) {
        front_publish(self, NULL, "clear_output",
                      json_pack("{sb}", "wait", json_is_true(json_object_get(display, "wait"))));
    } else if (json_is_object(data) && (!is_update || id)) {
        json_t *content = json_pack("{sO}", "data", data);
        json_t *transient = id ? json_pack("{ss}", "display_id", id) : json_object();
        json_object_set_new(content, "metadata",
                            json_is_object(metadata) ? json_incref(metadata) : json_object());
        json_object_set_new(content, "transient", transient);
        front_publish(self, NULL, is_update ? "update_display_data" : "display_data", content);
    } else {
        front_log("a display that cannot be read was dropped");
    }
    json_decref(display);
}

static void handle_return(front *self, const cadre_host_event *event)
{
    json_t *value = json_loadb(event->text ? event->text : "", event->length,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value) value = cadre_json_string(event->text ? event->text : "", event->length);
    streams_flush(&self->streams, front_clock());
    front_publish(
        self, NULL, "display_data",
        json_pack("{s{soso}s{}}", "data", "application/vnd.cadre.return+json", value, "text/plain",
                  cadre_json_string(event->text ? event->text : "", event->length), "metadata"));
}

static void handle_event(front *self, cadre_host_event *event)
{
    switch (event->kind) {
    case CADRE_HOST_READY: self->host_is_ready = true; break;
    case CADRE_HOST_STREAM:
        streams_add(&self->streams,
                    event->name && strcmp(event->name, "stderr") == 0 ? STREAM_STDERR
                                                                      : STREAM_STDOUT,
                    event->text, event->length, front_clock());
        break;
    case CADRE_HOST_DISPLAY: handle_display(self, event); break;
    case CADRE_HOST_RETURN:
        if (!execute_is_silent(self)) handle_return(self, event);
        break;
    case CADRE_HOST_NOTE:
        if (event->text) front_note(self, event->text);
        break;
    default:
        if (self->current)
            execute_host_event(self, event);
        else
            handle_idle_event(self, event);
    }
}

void hosting_events(front *self)
{
    /* Not for ever: sockets are looked at in between, and unread output is bounded. */
    enum { AT_A_TIME = 64 };
    cadre_host_event event = {0};
    for (int i = 0; i < AT_A_TIME && self->host && !self->ending; i++) {
        if (!cadre_host_next(self->host, &event)) break;
        handle_event(self, &event);
        cadre_host_event_free(&event);
        hosting_pause(self);
    }
}
