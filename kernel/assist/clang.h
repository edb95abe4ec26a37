/* Completion and inspection with libclang, inside the process cadre-assist.
 *
 * A unit is kept parsed: as long as its head, the leading #include lines, stays the same, libclang
 * reuses its precompiled preamble and answers in a few milliseconds. Completion has a unit of its
 * own that is never parsed with anything but a head: what libclang caches of it are the headers'
 * names, without which it would read all of the preamble for each answer. While it has that cache
 * it offers no other global name, so the front adds those of the session and the cell.
 */
#ifndef CADRE_ASSIST_CLANG_H
#define CADRE_ASSIST_CLANG_H

#include <clang-c/Index.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

struct assistant {
    CXIndex index;
    CXTranslationUnit unit, headers; /* for inspection; for completion */
    const char *path; /* the file that the unit claims to be; it exists, empty: without a file on
                        disk libclang never reuses a preamble */
    char *arguments;  /* those of `unit`, joined, to notice a change */
    char *head;       /* arguments and head of `headers` */
    /* The last completion: while a person types one name the place stays the same, and only what
     * is typed of the name grows. */
    struct {
        CXCodeCompleteResults *results; /* NULL: none */
        char *source;
        unsigned line, column;
        time_t time;
    } last;
};

/* One request, already known to be an object. */
struct question {
    const char *source;
    unsigned line, column; /* from 1, in bytes */
    const char *prefix;    /* what the completion must start with */
    const json_t *arguments;
    size_t head; /* bytes of the source's leading lines that seldom change */
};

/* Parses or reparses the unit for this source; false when libclang cannot. */
bool assistant_parse(struct assistant *assistant, const struct question *question);
/* The same for the headers alone. */
bool assistant_parse_headers(struct assistant *assistant, const struct question *question);

/* Forgets the last completion. */
void assistant_forget(struct assistant *assistant);
/* New JSON arrays or objects as protocol.h describes them, without "id"; NULL: nothing found. */
json_t *assistant_complete(struct assistant *assistant, const struct question *question);
json_t *assistant_inspect(struct assistant *assistant, const struct question *question);

#endif
