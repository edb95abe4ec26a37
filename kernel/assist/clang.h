/* Completion and inspection with libclang, inside the process cadre-assist.
 *
 * One unit is kept parsed: as long as the leading #include lines stay the same, libclang reuses
 * its precompiled preamble and answers in a few milliseconds.
 */
#ifndef CADRE_ASSIST_CLANG_H
#define CADRE_ASSIST_CLANG_H

#include <clang-c/Index.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct assistant {
    CXIndex index;
    CXTranslationUnit unit;
    const char *path; /* the file that the unit claims to be; it exists, empty: without a file on
                        disk libclang never reuses a preamble */
    char *arguments;  /* those of `unit`, joined, to notice a change */
};

/* One request, already known to be an object. */
struct question {
    const char *source;
    unsigned line, column; /* from 1, in bytes */
    const char *prefix;    /* what the completion must start with */
    const json_t *arguments;
    const json_t *first; /* names to offer first, and how much they are in use; or NULL */
};

/* Parses or reparses the unit for this source; false when libclang cannot. */
bool assistant_parse(struct assistant *assistant, const struct question *question);

/* New JSON arrays or objects as protocol.h describes them, without "id"; NULL: nothing found. */
json_t *assistant_complete(struct assistant *assistant, const struct question *question);
json_t *assistant_inspect(struct assistant *assistant, const struct question *question);

#endif
