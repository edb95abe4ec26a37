/* The inputs of this session, as history_request asks for them. In memory, at most 64 MB. */
#ifndef CADRE_SESSION_HISTORY_H
#define CADRE_SESSION_HISTORY_H

#include "base/base.h"

#include <jansson.h>

typedef struct history history;

history *history_new(void);
void history_free(history *self);
void history_add(history *self, int line, const char *input, size_t length);
/* The text/plain of the value of the line added last. */
void history_set_output(history *self, int line, const char *output);
/* The content of a history_reply, new. `request` is the content of the request. */
json_t *history_answer(const history *self, const json_t *request);
/* Shell pattern with * and ? against the whole text, as the protocol's search. Linear space and
 * at most length * length steps for any pattern. */
bool history_matches(const char *pattern, const char *text);

#endif
