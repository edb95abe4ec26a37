/* The inputs of this session and of those before it, as history_request asks for them.
 *
 * A SQLite database with IPython's tables, so that IPython's own tools read it:
 *
 *     sessions(session, start, end, num_cmds, remark)
 *     history(session, line, source, source_raw)
 *     output_history(session, line, output)
 *
 * Several kernels may write one file at once. A damaged file is renamed and a new one begun; where
 * no file can be kept, the inputs of this session are kept in memory. All of it may take as long
 * as the disk takes, so a thread of its own calls it (recorder.c).
 */
#ifndef CADRE_SESSION_HISTORY_H
#define CADRE_SESSION_HISTORY_H

#include "base/base.h"

#include <jansson.h>

typedef struct history history;

/* Something to remember: the input of a line, or the text/plain of its value. */
typedef struct history_item {
    int line;
    bool is_output;
    char *text;
    size_t length;
    struct history_item *next;
} history_item;

/* $XDG_DATA_HOME/cadre/history.sqlite, or below ~/.local/share; CADRE_HISTORY names another file.
 * New; empty: no file (CADRE_HISTORY is empty, or there is no home); NULL: no memory. */
char *history_default_path(void);

/* `path` is copied; "": in memory only. Nothing is opened before it is needed. New, or NULL. */
history *history_new(const char *path);
/* Ends the session in the file. */
void history_free(history *self);
/* Another kernel may hold the file: it is waited for, at most 5 s, and at most 0.3 s after this
 * was called (by any thread). */
void history_hurry(history *self);
/* Stores the items, in one transaction. At most 64 MB of inputs of one session are kept, the
 * newest. 0, or a status when they were not stored, or stored elsewhere than before: `error` says
 * what became of the file. */
int history_write(history *self, const history_item *items, cadre_error *error);
/* The content of a history_reply, new. `request` is the content of the request. At most 32 MB of
 * text. `error` as above. */
json_t *history_answer(history *self, const json_t *request, cadre_error *error);
/* Shell pattern with * and ? against the whole text, as the protocol's search. Linear space and
 * at most length * length steps for any pattern. */
bool history_matches(const char *pattern, const char *text);

#endif
