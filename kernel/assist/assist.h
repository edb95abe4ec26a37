/* kernel/assist: completion and inspection by libclang, in a process of its own.
 *
 * The front asks and polls; the process (cadre-assist) is started by the first question, and
 * killed when it takes longer than a second or dies (of a gigabyte of memory, say): then every open
 * question is answered empty and the next one starts it anew. A half-typed cell never takes the
 * kernel down, and an answer is never late.
 *
 *     cadre_assist *assist = cadre_assist_new(NULL);
 *     cadre_assist_ask(assist, id, CADRE_ASSIST_COMPLETE, &context);
 *     poll(cadre_assist_fd(assist), cadre_assist_timeout(assist));
 *     while ((answer = cadre_assist_next(assist))) { ...; json_decref(answer); }
 */
#ifndef CADRE_ASSIST_H
#define CADRE_ASSIST_H

#include "base/base.h"

#include <jansson.h>

typedef struct cadre_assist cadre_assist;

typedef enum cadre_assist_kind { CADRE_ASSIST_COMPLETE, CADRE_ASSIST_INSPECT } cadre_assist_kind;

/* What a question is about: one translation unit and a place in it. All borrowed. */
typedef struct cadre_assist_question {
    const char *source;
    unsigned line, column;        /* from 1, column in bytes */
    const char *prefix;           /* of the name being completed */
    const char *const *arguments; /* NULL-terminated, as for clang: "-std=gnu17", "-I..." */
    size_t head;                  /* bytes of the source that are #include lines */
} cadre_assist_question;

/* program NULL: the installed cadre-assist. Starts nothing. NULL: no memory. */
cadre_assist *cadre_assist_new(const char *program);
/* Ends the process; its files go with it. */
void cadre_assist_free(cadre_assist *assist);

/* 0, or negative: there is no assist (not installed) or the question is too large; then no answer
 * follows. `id` comes back in the answer. */
int cadre_assist_ask(cadre_assist *assist, uint64_t id, cadre_assist_kind kind,
                     const cadre_assist_question *question);

/* To poll for reading; -1 while nothing runs. It may change after every call. */
int cadre_assist_fd(const cadre_assist *assist);
/* Milliseconds until cadre_assist_next must be called anyway; -1: not at all. */
int cadre_assist_timeout(const cadre_assist *assist);
/* The next answer as kernel/assist/protocol.h describes it, new; empty but for its "id" when
 * nothing was found or the process had to be killed. NULL: none yet. */
json_t *cadre_assist_next(cadre_assist *assist);

#endif
