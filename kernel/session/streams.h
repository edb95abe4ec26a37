/* Output on its way to iopub: bytes of stdout and stderr become few `stream` messages of valid
 * UTF-8, in the order in which the bytes came. Pure: time is an argument. */
#ifndef CADRE_SESSION_STREAMS_H
#define CADRE_SESSION_STREAMS_H

#include "base/base.h"

typedef enum stream_name { STREAM_STDOUT, STREAM_STDERR } stream_name;

/* text: the inside of a JSON string. */
typedef void (*streams_publish)(void *context, stream_name name, const char *text, size_t length);

typedef struct streams {
    streams_publish publish;
    void *context;
    cadre_buffer text; /* escaped, of `current`, not published yet */
    stream_name current;
    char begun[2][4]; /* an UTF-8 sequence of which the rest has not come */
    size_t begun_length[2];
    int64_t published; /* when, in ms; the first bytes after a pause go out at once */
} streams;

enum { STREAMS_INTERVAL = 20, STREAMS_LIMIT = 256 * 1024 };

void streams_init(streams *self, streams_publish publish, void *context);
void streams_free(streams *self);
void streams_add(streams *self, stream_name name, const char *bytes, size_t length, int64_t now);
/* Milliseconds until streams_tick has something to publish; -1: nothing waits. */
int streams_timeout(const streams *self, int64_t now);
void streams_tick(streams *self, int64_t now);
/* Publishes what waits; a sequence that is only begun stays. */
void streams_flush(streams *self, int64_t now);
/* Publishes everything; what is only begun ends as U+FFFD. */
void streams_finish(streams *self, int64_t now);

#endif
