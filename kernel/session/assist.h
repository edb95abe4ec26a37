/* One completion or inspection under way. Private to kernel/session. */
#ifndef CADRE_SESSION_ASSIST_H
#define CADRE_SESSION_ASSIST_H

#include "session/front.h"

struct question {
    question *next;
    cadre_channel channel;
    cadre_message *message; /* NULL: it is a cell that asks (`name?`), see assist_page */
    json_t *content;        /* of the message: code, cursor_pos, detail_level */
    uint64_t serial;        /* of the cell that asks */
    uint64_t id;
    bool is_inspect, is_asked; /* is_asked: libclang's answer is awaited, not the engine's */
    int64_t deadline;          /* for the engine; then for the answer */
    size_t start, end;         /* bytes of the name in the cell's text */
    bool is_known;             /* facts are filled in */
    cadre_name_facts facts;
    json_t *given; /* names to complete with: the session's and the cell's, name -> [kind, shown] */
};

/* The content of a complete_reply as JSON text, new, NULL: no memory; `answer` as
 * kernel/assist/protocol.h has it, NULL: there is none and the names that are declared and C's
 * keywords serve. */
char *assist_completion(const front *self, const question *asked, const json_t *answer);
/* The same for `%cfl` at the start of a line; NULL: no magic begins so. */
json_t *assist_complete_magic(const char *code, size_t cursor);
/* In `#include <sys/ty` the name is what follows the bracket or the last slash. False: this is no
 * #include. */
bool assist_include_start(const char *code, size_t cursor, size_t *start);

/* The content of an inspect_reply; `answer` as kernel/assist/protocol.h has it, NULL: there is
 * none and only what the session knows is shown. */
json_t *assist_inspection(front *self, const question *asked, const json_t *answer);

#endif
