/* A kernel that nobody asks anything gives back the memory of its compiler: three quarters of all
 * it holds. After a minute without a request on shell and without a cell the warm compilers end,
 * after ten the process with libclang; the next request on shell, also one of those that clients
 * send while a person types, starts the compilers again. A cell that comes first waits for them as
 * the first cell of a session does, some 60 ms.
 *
 * CADRE_REST_SECONDS: another time than 60 s; 0: never.
 */
#ifndef CADRE_SESSION_REST_H
#define CADRE_SESSION_REST_H

#include <stdbool.h>
#include <stdint.h>

struct front;

typedef struct rest_state {
    int64_t patience; /* ms; 0: never */
    int64_t at;       /* when it is time, should nothing happen before */
    bool compiler_rests, assist_rests;
} rest_state;

void rest_init(struct front *self);
/* A request on shell came. */
void rest_end(struct front *self);
/* Milliseconds until rest_tick must be called; -1: not at all. */
int rest_timeout(const struct front *self, int64_t now);
void rest_tick(struct front *self, int64_t now);

#endif
