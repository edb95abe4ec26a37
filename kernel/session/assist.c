/* Completion and inspection by the names that are declared now, and C's keywords. */
#include "session/front.h"

#include <stdlib.h>
#include <string.h>

struct question {
    cadre_channel channel;
    cadre_message *message;
    question *next;
};

static const char *const keywords[] = {
    "_Alignas",      "_Alignof", "_Atomic",   "_Bool",
    "_Complex",      "_Generic", "_Noreturn", "_Static_assert",
    "_Thread_local", "auto",     "bool",      "break",
    "case",          "char",     "const",     "continue",
    "default",       "do",       "double",    "else",
    "enum",          "extern",   "false",     "float",
    "for",           "goto",     "if",        "inline",
    "int",           "long",     "register",  "restrict",
    "return",        "short",    "signed",    "sizeof",
    "static",        "struct",   "switch",    "true",
    "typedef",       "union",    "unsigned",  "void",
    "volatile",      "while",
};

/* ---- the list of names, fetched by the engine's thread */

typedef struct names_job {
    job job;
    front *front;
    json_t *names;
} names_job;

static void visit(void *context, const char *name, const char *kind, const char *declaration,
                  int execution_count)
{
    json_array_append_new(context, json_pack("[sssi]", name, kind ? kind : "",
                                             declaration ? declaration : "", execution_count));
}

static void run_names(job *base)
{
    names_job *work = (names_job *)base;
    work->names = json_array();
    if (work->front->engine && work->names)
        cadre_engine_names(work->front->engine, visit, work->names);
}

/* ---- answers */

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Bytes before the code point number `position` of UTF-8 text; its length when there are fewer. */
static size_t byte_of(const char *code, size_t length, long long position)
{
    size_t at = 0;
    while (at < length && position > 0) {
        at++;
        while (at < length && ((unsigned char)code[at] & 0xc0) == 0x80)
            at++;
        position--;
    }
    return at;
}

static long long code_points(const char *code, size_t bytes)
{
    long long count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)code[i] & 0xc0) != 0x80;
    return count;
}

/* The text of the request and where the cursor is in it; NULL: the request cannot be used. */
static const char *code_and_cursor(const cadre_message *message, size_t *length, size_t *cursor)
{
    const json_t *code = json_object_get(message->content, "code");
    const json_t *position = json_object_get(message->content, "cursor_pos");
    if (!json_is_string(code)) return NULL;
    *length = json_string_length(code);
    *cursor = json_is_integer(position)
                  ? byte_of(json_string_value(code), *length, json_integer_value(position))
                  : *length;
    return json_string_value(code);
}

static void offer(json_t *matches, json_t *types, const char *name, const char *kind,
                  const char *prefix, size_t prefix_length, long long start, long long end)
{
    const json_t *known;
    size_t i;
    if (strncmp(name, prefix, prefix_length) != 0) return;
    json_array_foreach(matches, i, known) if (!strcmp(json_string_value(known), name)) return;
    json_array_append_new(matches, json_string(name));
    json_array_append_new(types, json_pack("{sssssIsI}", "text", name, "type", kind, "start",
                                           (json_int_t)start, "end", (json_int_t)end));
}

static json_t *complete(const front *self, const cadre_message *message)
{
    size_t length, cursor, index;
    const char *code = code_and_cursor(message, &length, &cursor);
    if (!code) return front_error_content("MessageError", "code must be a string");
    size_t begin = cursor;
    while (begin > 0 && is_name_character(code[begin - 1]))
        begin--;
    /* Members need types, which are not known here; numbers have no completions. */
    bool is_member = begin > 0 && (code[begin - 1] == '.' ||
                                   (begin > 1 && code[begin - 1] == '>' && code[begin - 2] == '-'));
    bool is_number = begin < cursor && code[begin] >= '0' && code[begin] <= '9';
    long long end = code_points(code, cursor), start = code_points(code, begin);
    json_t *matches = json_array(), *types = json_array(), *name;
    if (!is_member && !is_number && begin < cursor) {
        json_array_foreach(self->names, index, name)
        {
            offer(matches, types, json_string_value(json_array_get(name, 0)),
                  json_string_value(json_array_get(name, 1)), code + begin, cursor - begin, start,
                  end);
        }
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            offer(matches, types, keywords[i], "keyword", code + begin, cursor - begin, start, end);
    }
    return json_pack("{ss so sI sI s{so}}", "status", "ok", "matches", matches, "cursor_start",
                     (json_int_t)start, "cursor_end", (json_int_t)end, "metadata",
                     "_jupyter_types_experimental", types);
}

static json_t *inspect(const front *self, const cadre_message *message)
{
    size_t length, cursor, index;
    const char *code = code_and_cursor(message, &length, &cursor);
    json_t *name, *data = json_object();
    if (!code) {
        json_decref(data);
        return front_error_content("MessageError", "code must be a string");
    }
    size_t begin = cursor, end = cursor;
    while (begin > 0 && is_name_character(code[begin - 1]))
        begin--;
    while (end < length && is_name_character(code[end]))
        end++;
    json_array_foreach(self->names, index, name)
    {
        const char *text = json_string_value(json_array_get(name, 0));
        const char *declaration = json_string_value(json_array_get(name, 2));
        if (strlen(text) != end - begin || memcmp(text, code + begin, end - begin) != 0) continue;
        char where[40] = "";
        int count = (int)json_integer_value(json_array_get(name, 3));
        if (count > 0) snprintf(where, sizeof where, "\n\nIn[%d]", count);
        json_object_set_new(data, "text/plain", json_sprintf("%s%s", declaration, where));
    }
    bool found = json_object_size(data) > 0;
    return json_pack("{ss sb so s{}}", "status", "ok", "found", found, "data", data, "metadata");
}

static void answer(front *self, cadre_channel channel, cadre_message *message)
{
    bool is_complete = strcmp(message->type, "complete_request") == 0;
    front_reply(self, channel, message, is_complete ? "complete_reply" : "inspect_reply",
                is_complete ? complete(self, message) : inspect(self, message), NULL);
    front_status(self, message, "idle");
    cadre_message_free(message);
}

static void answer_all(front *self)
{
    while (self->questions) {
        question *first = self->questions;
        self->questions = first->next;
        answer(self, first->channel, first->message);
        free(first);
    }
}

static void names_done(void *context, job *base)
{
    front *self = context;
    names_job *work = (names_job *)base;
    if (work->names) {
        json_decref(self->names);
        self->names = work->names;
    }
    free(work);
    if (!self->ending) answer_all(self);
}

void assist_ask(front *self, cadre_channel channel, cadre_message *message)
{
    question **last = &self->questions;
    /* A compiler at work is not waited for: the names of a moment ago serve. */
    if (!self->questions && (!self->names_are_old || !worker_is_idle(self->engine_worker))) {
        answer(self, channel, message);
        return;
    }
    question *asked = calloc(1, sizeof *asked);
    names_job *work = self->questions ? NULL : calloc(1, sizeof *work);
    if (!asked || (!self->questions && !work)) {
        free(asked);
        free(work);
        answer(self, channel, message);
        return;
    }
    *asked = (question){.channel = channel, .message = message};
    while (*last)
        last = &(*last)->next;
    *last = asked;
    if (!work) return;
    work->front = self;
    self->names_are_old = false;
    engine_post(self, &work->job, run_names, names_done);
}

void assist_free_all(front *self)
{
    while (self->questions) {
        question *first = self->questions;
        self->questions = first->next;
        cadre_message_free(first->message);
        free(first);
    }
    json_decref(self->names);
    self->names = NULL;
}

json_t *assist_is_complete(const cadre_message *message)
{
    const json_t *code = json_object_get(message->content, "code");
    char indent[64] = "";
    if (!json_is_string(code)) return front_error_content("MessageError", "code must be a string");
    const char *status =
        cadre_cell_is_complete(json_string_value(code), json_string_length(code), indent);
    if (strcmp(status, "incomplete") == 0)
        return json_pack("{ssss}", "status", status, "indent", indent);
    return json_pack("{ss}", "status", status);
}
