#include "session/rest.h"

#include "assist/assist.h"
#include "session/front.h"

#include <stdlib.h>

enum { DEFAULT_SECONDS = 60, LARGEST_SECONDS = 1000000, ASSIST_TIMES = 10 };

typedef struct rest_job {
    job job;
    front *front;
} rest_job;

static void run_rest(job *work)
{
    cadre_engine *engine = ((rest_job *)work)->front->engine;
    if (engine) cadre_engine_rest(engine);
}

static void run_wake(job *work)
{
    cadre_engine *engine = ((rest_job *)work)->front->engine;
    if (engine) cadre_engine_warm(engine);
}

static void done(void *context, job *work)
{
    (void)context;
    free(work);
}

static void post(front *self, void (*run)(job *))
{
    rest_job *work = calloc(1, sizeof *work);
    if (!work) return; /* then it stays as it is; a cell starts what it needs */
    work->front = self;
    engine_post(self, &work->job, run, done);
}

void rest_init(front *self)
{
    const char *text = getenv("CADRE_REST_SECONDS");
    char *end;
    long seconds = text ? strtol(text, &end, 10) : DEFAULT_SECONDS;
    if (text && (end == text || *end || seconds < 0 || seconds > LARGEST_SECONDS)) {
        front_log("CADRE_REST_SECONDS is '%s'; it must be a whole number of seconds, 0 for never",
                  text);
        seconds = DEFAULT_SECONDS;
    }
    self->rest = (rest_state){.patience = seconds * 1000, .at = front_clock() + seconds * 1000};
}

void rest_end(front *self)
{
    rest_state *rest = &self->rest;
    if (rest->compiler_rests) post(self, run_wake);
    rest->compiler_rests = rest->assist_rests = false;
    rest->at = front_clock() + rest->patience;
}

static bool is_busy(const front *self)
{
    return !self->is_launched || self->current || self->queue || self->questions;
}

/* When the next thing goes to rest; -1: nothing is left. */
static int64_t next_rest(const front *self)
{
    const rest_state *rest = &self->rest;
    if (rest->patience == 0) return -1;
    if (!rest->compiler_rests) return rest->at;
    if (self->assist && !rest->assist_rests) return rest->at + (ASSIST_TIMES - 1) * rest->patience;
    return -1;
}

int rest_timeout(const front *self, int64_t now)
{
    int64_t at = next_rest(self);
    if (at < 0 || is_busy(self)) return -1;
    return at > now ? (int)(at - now) : 0;
}

void rest_tick(front *self, int64_t now)
{
    rest_state *rest = &self->rest;
    if (is_busy(self)) rest->at = now + rest->patience;
    int64_t at = next_rest(self);
    if (at < 0 || now < at) return;
    if (!rest->compiler_rests) {
        rest->compiler_rests = true;
        post(self, run_rest);
    } else {
        rest->assist_rests = true;
        cadre_assist_free(self->assist);
        self->assist = NULL;
    }
}
