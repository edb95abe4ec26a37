#include "session/streams.h"

#include "wire/wire.h"

#include <string.h>

void streams_init(streams *self, streams_publish publish, void *context)
{
    *self = (streams){.publish = publish, .context = context, .published = INT64_MIN / 2};
}

void streams_free(streams *self)
{
    cadre_buffer_free(&self->text);
}

void streams_flush(streams *self, int64_t now)
{
    self->text.failed = false; /* without memory the piece is cut, the next one has its chance */
    if (self->text.length == 0) return;
    self->publish(self->context, self->current, self->text.data, self->text.length);
    cadre_buffer_clear(&self->text);
    self->published = now;
}

static void choose(streams *self, stream_name name, int64_t now)
{
    if (self->current != name) streams_flush(self, now);
    self->current = name;
}

/* At most STREAMS_LIMIT bytes. */
static void add_piece(streams *self, stream_name name, const char *bytes, size_t length,
                      int64_t now)
{
    size_t begun = self->begun_length[name];
    choose(self, name, now);
    if (begun > 0 && length > 0) {
        /* Four bytes always decide about a begun sequence, and what is taken of them holds at
         * least what had come before. */
        char joined[4];
        size_t more = length < 4 - begun ? length : 4 - begun;
        memcpy(joined, self->begun[name], begun);
        memcpy(joined + begun, bytes, more);
        size_t used = cadre_json_escape(&self->text, joined, begun + more, false);
        if (used == 0) {
            memcpy(self->begun[name], joined, begun + more);
            self->begun_length[name] = begun + more;
            return;
        }
        bytes += used - begun;
        length -= used - begun;
        self->begun_length[name] = 0;
    }
    size_t taken = cadre_json_escape(&self->text, bytes, length, false);
    if (taken < length) {
        self->begun_length[name] = length - taken;
        memcpy(self->begun[name], bytes + taken, length - taken);
    }
    if (self->text.length >= STREAMS_LIMIT || now - self->published >= STREAMS_INTERVAL)
        streams_flush(self, now);
}

void streams_add(streams *self, stream_name name, const char *bytes, size_t length, int64_t now)
{
    while (length > 0) {
        size_t piece = length < STREAMS_LIMIT ? length : STREAMS_LIMIT;
        add_piece(self, name, bytes, piece, now);
        bytes += piece;
        length -= piece;
    }
}

int streams_timeout(const streams *self, int64_t now)
{
    if (self->text.length == 0) return -1;
    int64_t left = self->published + STREAMS_INTERVAL - now;
    return left < 0 ? 0 : left > STREAMS_INTERVAL ? STREAMS_INTERVAL : (int)left;
}

void streams_tick(streams *self, int64_t now)
{
    if (streams_timeout(self, now) == 0) streams_flush(self, now);
}

void streams_finish(streams *self, int64_t now)
{
    for (int i = 0; i < 2; i++) {
        stream_name name = (stream_name)i;
        if (self->begun_length[name] == 0) continue;
        choose(self, name, now);
        cadre_json_escape(&self->text, self->begun[name], self->begun_length[name], true);
        self->begun_length[name] = 0;
    }
    streams_flush(self, now);
}
