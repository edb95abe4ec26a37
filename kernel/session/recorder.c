/* The history's thread: cells and answers never wait for the disk, or for another kernel that
 * writes. Inputs that come while a write is under way go into the next one together. */
#include "session/front.h"
#include "session/history.h"

#include <stdlib.h>
#include <string.h>

/* Inputs that wait, when the disk stands still; what comes above is not remembered. */
#define PENDING_LIMIT ((size_t)64 << 20)

struct recorder {
    history *store; /* used by the worker's jobs, one at a time */
    worker *worker; /* NULL until it is needed */
    history_item *pending, **end;
    size_t pending_bytes;
    bool is_writing;
};

typedef struct record_job {
    job job;
    history *store;
    history_item *items;
    cadre_error error;
    /* A question: */
    cadre_channel channel;
    cadre_message *message;
    json_t *content;
} record_job;

recorder *recorder_new(void)
{
    recorder *self = calloc(1, sizeof *self);
    char *path = history_default_path();
    if (self) {
        self->end = &self->pending;
        self->store = path ? history_new(path) : NULL;
    }
    free(path);
    if (self && self->store) return self;
    free(self);
    return NULL;
}

worker *recorder_worker(const recorder *self)
{
    return self ? self->worker : NULL;
}

static void free_items(history_item *items)
{
    while (items) {
        history_item *next = items->next;
        free(items->text);
        free(items);
        items = next;
    }
}

static void free_job(record_job *work)
{
    free_items(work->items);
    cadre_message_free(work->message);
    json_decref(work->content);
    free(work);
}

static void run_write(job *base)
{
    record_job *work = (record_job *)base;
    history_write(work->store, work->items, &work->error);
}

static void write_pending(front *self);

static void write_done(void *context, job *base)
{
    front *self = context;
    record_job *work = (record_job *)base;
    if (work->error.code) front_log("%s", work->error.message);
    free_job(work);
    self->recorder->is_writing = false;
    if (!self->ending) write_pending(self);
}

static record_job *new_job(front *self)
{
    recorder *mine = self->recorder;
    cadre_error error = {0};
    if (!mine->worker && !(mine->worker = worker_start(&error))) {
        front_log("no history: %s", error.message);
        return NULL;
    }
    record_job *work = calloc(1, sizeof *work);
    if (work) work->store = mine->store;
    return work;
}

static void write_pending(front *self)
{
    recorder *mine = self->recorder;
    record_job *work = mine->pending ? new_job(self) : NULL;
    if (!work) return;
    work->items = mine->pending;
    mine->pending = NULL;
    mine->end = &mine->pending;
    mine->pending_bytes = 0;
    mine->is_writing = true;
    work->job = (job){.run = run_write, .done = write_done};
    worker_post(mine->worker, &work->job);
}

static void add(front *self, int line, bool is_output, const char *text, size_t length)
{
    recorder *mine = self->recorder;
    history_item *item = NULL;
    if (mine->pending_bytes + length > PENDING_LIMIT || !(item = calloc(1, sizeof *item)) ||
        !(item->text = malloc(length + 1))) {
        front_log("In[%d] is not in the history: too much waits to be written", line);
        free(item);
        return;
    }
    memcpy(item->text, text, length);
    item->text[length] = 0;
    item->length = length;
    item->line = line;
    item->is_output = is_output;
    *mine->end = item;
    mine->end = &item->next;
    mine->pending_bytes += length;
    if (!mine->is_writing) write_pending(self);
}

void recorder_input(front *self, int line, const char *text, size_t length)
{
    add(self, line, false, text, length);
}

void recorder_output(front *self, int line, const char *text)
{
    add(self, line, true, text, strlen(text));
}

static void run_ask(job *base)
{
    record_job *work = (record_job *)base;
    work->content = history_answer(work->store, work->message->content, &work->error);
}

static void ask_done(void *context, job *base)
{
    front *self = context;
    record_job *work = (record_job *)base;
    if (work->error.code) front_log("%s", work->error.message);
    if (!self->ending) {
        front_reply(self, work->channel, work->message, "history_reply", work->content, NULL);
        work->content = NULL;
        front_status(self, work->message, "idle");
    }
    free_job(work);
}

void recorder_ask(front *self, cadre_channel channel, cadre_message *message)
{
    record_job *work = message->damage ? NULL : new_job(self);
    if (!work) {
        const char *problem = message->damage ? message->damage : "no history";
        front_reply(self, channel, message, "history_reply",
                    front_error_content("MessageError", problem), NULL);
        front_status(self, message, "idle");
        cadre_message_free(message);
        return;
    }
    write_pending(self); /* the answer knows what came before the question */
    work->channel = channel;
    work->message = message;
    work->job = (job){.run = run_ask, .done = ask_done};
    worker_post(self->recorder->worker, &work->job);
}

void recorder_free(front *self)
{
    recorder *mine = self->recorder;
    if (!mine) return;
    history_hurry(mine->store);
    write_pending(self);
    if (mine->worker) {
        worker_stop(mine->worker);
        for (job *work; (work = worker_take(mine->worker));)
            work->done(self, work);
        worker_free(mine->worker);
    }
    free_items(mine->pending);
    history_free(mine->store);
    free(mine);
    self->recorder = NULL;
}
