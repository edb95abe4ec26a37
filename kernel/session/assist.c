/* Completion and inspection: the engine writes a translation unit, cadre-assist (a process with
 * libclang) looks at it, and complete.c or inspect.c make the reply. */
#include "session/assist.h"

#include "assist/assist.h"

#include <stdlib.h>
#include <string.h>

enum { ENGINE_PATIENCE = 300, PATIENCE = 950, PAGE_PATIENCE = 5000, QUESTIONS_AT_ONCE = 32 };

/* ---- what the engine's thread finds out */

typedef struct assist_job {
    job job;
    front *front;
    uint64_t id;
    char *code;
    char *prefix;                /* for completion */
    size_t length, cursor, word; /* word: bytes of the name at the cursor, for inspection */
    bool is_inspect, wants_names;
    json_t *names;
    cadre_assist_unit unit;
    int status;
    bool is_known;
    cadre_name_facts facts;
} assist_job;

static void visit(void *context, const char *name, const char *kind, const char *declaration,
                  int execution_count)
{
    json_array_append_new(context, json_pack("[sssi]", name, kind ? kind : "",
                                             declaration ? declaration : "", execution_count));
}

static void run_job(job *base)
{
    assist_job *work = (assist_job *)base;
    cadre_engine *engine = work->front->engine;
    work->status = CADRE_ENOTFOUND;
    if (!engine) return;
    if (work->wants_names && (work->names = json_array()))
        cadre_engine_names(engine, visit, work->names);
    work->status = cadre_engine_assist_unit(engine, work->code, work->length, work->cursor,
                                            work->prefix, &work->unit);
    if (work->is_inspect)
        work->is_known =
            cadre_engine_describe(engine, work->code + work->cursor, work->word, &work->facts);
}

static void free_job(assist_job *work)
{
    json_decref(work->names);
    cadre_assist_unit_free(&work->unit);
    cadre_name_facts_free(&work->facts);
    free(work->code);
    free(work->prefix);
    free(work);
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

/* The text of the request and where the cursor is in it; NULL: the request cannot be used. */
static const char *code_and_cursor(const json_t *content, size_t *length, size_t *cursor)
{
    const json_t *code = json_object_get(content, "code");
    const json_t *position = json_object_get(content, "cursor_pos");
    if (!json_is_string(code)) return NULL;
    *length = json_string_length(code);
    *cursor = json_is_integer(position)
                  ? byte_of(json_string_value(code), *length, json_integer_value(position))
                  : *length;
    return json_string_value(code);
}

/* Where the name that ends at `cursor` begins. */
static size_t word_start(const char *code, size_t cursor)
{
    while (cursor > 0 && is_name_character(code[cursor - 1]))
        cursor--;
    return cursor;
}

/* The name to inspect: at the cursor, or of the function in whose call the cursor is. */
static size_t inspected_word(const char *code, size_t length, size_t cursor, size_t *end)
{
    enum { FAR = 2000 };
    size_t start = word_start(code, cursor), at = cursor;
    long depth = 0;
    for (*end = cursor; *end < length && is_name_character(code[*end]);)
        ++*end;
    if (*end > start && !(code[start] >= '0' && code[start] <= '9')) return start;
    while (at > 0 && cursor - at < FAR) {
        char c = code[--at];
        if (c == ';' || c == '{' || c == '}') break;
        if (c == ')') depth++;
        if (c != '(' || depth-- > 0) continue;
        while (at > 0 && (code[at - 1] == ' ' || code[at - 1] == '\t'))
            at--;
        *end = at;
        return word_start(code, at);
    }
    return *end = start;
}

/* ---- questions */

static void free_question(question *asked)
{
    cadre_name_facts_free(&asked->facts);
    json_decref(asked->given);
    json_decref(asked->content);
    cadre_message_free(asked->message);
    free(asked);
}

static void send(front *self, cadre_channel channel, const cadre_message *message, json_t *content)
{
    bool is_inspect = strcmp(message->type, "inspect_request") == 0;
    front_reply(self, channel, message, is_inspect ? "inspect_reply" : "complete_reply", content,
                NULL);
    front_status(self, message, "idle");
}

static void send_completion(front *self, const question *asked, const json_t *answer)
{
    char *text = assist_completion(self, asked, answer);
    if (text)
        front_reply_text(self, asked->channel, asked->message, "complete_reply", text);
    else
        front_log("no memory: a complete_reply was not sent");
    front_status(self, asked->message, "idle");
    free(text);
}

/* Answers and forgets. `answer`: libclang's, or NULL. */
static void finish(front *self, question *asked, const json_t *answer)
{
    json_t *content = asked->is_inspect ? assist_inspection(self, asked, answer) : NULL;
    for (question **at = &self->questions; *at; at = &(*at)->next)
        if (*at == asked) {
            *at = asked->next;
            break;
        }
    if (!asked->is_inspect) {
        send_completion(self, asked, answer);
    } else if (asked->message) {
        send(self, asked->channel, asked->message, content);
    } else {
        execute_page(self, asked->serial, content);
        json_decref(content);
    }
    free_question(asked);
}

static question *find(const front *self, uint64_t id)
{
    question *asked = self->questions;
    while (asked && asked->id != id)
        asked = asked->next;
    return asked;
}

/* Hands the unit to cadre-assist. False: it cannot be had. */
static bool ask_clang(front *self, const question *asked, const assist_job *work)
{
    if (work->status < 0) return false;
    if (!self->assist) self->assist = cadre_assist_new(NULL);
    if (!self->assist) return false;
    cadre_assist_question wanted = {.source = work->unit.source,
                                    .line = work->unit.line,
                                    .column = work->unit.column,
                                    .prefix = work->prefix,
                                    .arguments = (const char *const *)work->unit.arguments,
                                    .head = work->unit.head};
    int status =
        cadre_assist_ask(self->assist, asked->id,
                         asked->is_inspect ? CADRE_ASSIST_INSPECT : CADRE_ASSIST_COMPLETE, &wanted);
    return status == 0;
}

static void job_done(void *context, job *base)
{
    front *self = context;
    assist_job *work = (assist_job *)base;
    question *asked = find(self, work->id);
    if (work->names) {
        json_decref(self->names);
        self->names = work->names;
        work->names = NULL;
    } else if (work->wants_names) {
        self->names_are_old = true;
    }
    if (asked && !self->ending) {
        asked->is_known = work->is_known;
        asked->facts = work->facts;
        work->facts = (cadre_name_facts){0};
        if (!asked->is_inspect) asked->given = json_incref(work->unit.names);
        asked->is_asked = ask_clang(self, asked, work);
        /* A person who typed `name?` waits for libclang to start; an editor does not. */
        asked->deadline += asked->message ? PATIENCE - ENGINE_PATIENCE : PAGE_PATIENCE;
        if (!asked->is_asked) finish(self, asked, NULL);
    }
    free_job(work);
}

static bool post(front *self, const question *asked, const char *code, size_t length)
{
    assist_job *work = calloc(1, sizeof *work);
    if (!work) return false;
    /* A text that is completed ends where the name to complete begins. */
    work->length = asked->is_inspect ? length : asked->start;
    work->code = malloc(work->length + 1);
    if (!asked->is_inspect) work->prefix = strndup(code + asked->start, asked->end - asked->start);
    if (!work->code || (!asked->is_inspect && !work->prefix)) {
        free_job(work);
        return false;
    }
    memcpy(work->code, code, work->length);
    work->code[work->length] = 0;
    work->front = self;
    work->id = asked->id;
    work->cursor = asked->start;
    work->word = asked->end - asked->start;
    work->is_inspect = asked->is_inspect;
    work->wants_names = self->names_are_old;
    self->names_are_old = false;
    engine_post(self, &work->job, run_job, job_done);
    return true;
}

/* Puts the question among the open ones and asks, or answers at once. */
static void ask(front *self, question *asked)
{
    size_t length, cursor, open = 0;
    question **last = &self->questions;
    const char *code = code_and_cursor(asked->content, &length, &cursor);
    asked->id = ++self->assist_serial;
    asked->start = word_start(code, cursor);
    asked->end = cursor;
    asked->deadline = front_clock() + ENGINE_PATIENCE;
    if (asked->is_inspect)
        asked->start = inspected_word(code, length, cursor, &asked->end);
    else
        (void)assist_include_start(code, cursor, &asked->start);
    for (; *last; last = &(*last)->next)
        open++;
    *last = asked;
    bool is_number = asked->start < asked->end && code[asked->start] >= '0' &&
                     code[asked->start] <= '9' &&
                     !assist_include_start(code, cursor, &asked->start);
    bool is_nothing = is_number || (asked->is_inspect && asked->start == asked->end);
    if (is_number && !asked->is_inspect) asked->start = asked->end;
    if (is_nothing || open >= QUESTIONS_AT_ONCE || !self->is_launched ||
        !post(self, asked, code, length))
        finish(self, asked, NULL);
}

void assist_ask(front *self, cadre_channel channel, cadre_message *message)
{
    size_t length, cursor;
    const char *code = code_and_cursor(message->content, &length, &cursor);
    bool is_inspect = strcmp(message->type, "inspect_request") == 0;
    json_t *magic = code && !is_inspect ? assist_complete_magic(code, cursor) : NULL;
    if (!code || magic) {
        send(self, channel, message,
             code ? magic : front_error_content("MessageError", "code must be a string"));
        cadre_message_free(message);
        return;
    }
    question *asked = calloc(1, sizeof *asked);
    if (!asked) {
        send(self, channel, message, front_error_content("MemoryError", "no memory"));
        cadre_message_free(message);
        return;
    }
    *asked = (question){.channel = channel,
                        .message = message,
                        .content = json_incref(message->content),
                        .is_inspect = is_inspect};
    ask(self, asked);
}

bool assist_page(front *self, uint64_t serial, const char *name, int detail)
{
    question *asked = calloc(1, sizeof *asked);
    json_t *content = json_pack("{ss si si}", "code", name, "cursor_pos", (int)strlen(name),
                                "detail_level", detail);
    if (!asked || !content) {
        free(asked);
        json_decref(content);
        return false;
    }
    *asked = (question){.content = content, .serial = serial, .is_inspect = true};
    ask(self, asked);
    return true;
}

void assist_answers(front *self)
{
    if (!self->assist) return;
    for (json_t *answer; (answer = cadre_assist_next(self->assist));) {
        question *asked = find(self, (uint64_t)json_integer_value(json_object_get(answer, "id")));
        if (asked) finish(self, asked, answer);
        json_decref(answer);
    }
    /* Nothing rather than late. */
    int64_t now = front_clock();
    for (question *asked = self->questions, *next; asked; asked = next) {
        next = asked->next;
        if (asked->deadline <= now) finish(self, asked, NULL);
    }
}

int assist_fd(const front *self)
{
    return self->assist ? cadre_assist_fd(self->assist) : -1;
}

int assist_timeout(const front *self, int64_t now)
{
    int timeout = self->assist ? cadre_assist_timeout(self->assist) : -1;
    for (const question *asked = self->questions; asked; asked = asked->next) {
        int left = asked->deadline > now ? (int)(asked->deadline - now) : 0;
        if (timeout < 0 || left < timeout) timeout = left;
    }
    return timeout;
}

void assist_free_all(front *self)
{
    while (self->questions) {
        question *first = self->questions;
        self->questions = first->next;
        free_question(first);
    }
    cadre_assist_free(self->assist);
    self->assist = NULL;
    json_decref(self->names);
    json_decref(self->addresses);
    self->names = self->addresses = NULL;
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
