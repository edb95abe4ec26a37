/* How the compile service talks to a compiler kept warm, and the server's side of it.
 *
 * cc1 (with warm_cc1.c as a plugin) and as (with warm_as.c preloaded) prepare everything up to the
 * first byte of the unit, then call warm_serve: the process becomes a server. It keeps one child
 * ready, with its memory copied already; the child takes one request, goes on as the compiler
 * would have, and answers before it exits. A server never compiles, so it never grows.
 *
 * Messages on the SOCK_SEQPACKET socket WARM_SOCKET: a warm_request with the files of the job as
 * SCM_RIGHTS; warm_reply messages. SIGUSR1 to the server kills the child that works. End of file
 * on the socket ends the server.
 */
#ifndef CADRE_CELL_WARM_H
#define CADRE_CELL_WARM_H

#include <stdint.h>

enum {
    WARM_SOCKET = 3,
    WARM_DEPENDENCIES = 4, /* cc1 writes -MD there */
    WARM_SOURCE = 5,       /* cc1 includes it */
    WARM_LIST = 6,         /* cc1's names of the headers it holds, each with a NUL */
    WARM_FILES = 4,        /* most files of a request */
};

/* Files for cc1: source, assembly, messages, dependencies. For as: assembly, object, messages. */
typedef struct warm_request {
    uint32_t number; /* not 0 */
} warm_request;

typedef struct warm_reply {
    uint32_t number; /* 0: the server is ready */
    int32_t status;  /* as of waitpid */
} warm_reply;

/* Returns once in each child that took a request: its files are at `targets`. Does not return in
 * the server. */
void warm_serve(const int *targets, int count);
/* In a child: the work is done. Does nothing elsewhere. */
void warm_answer(int status);
/* Whether this process is a child that took a request; it must not run exit handlers. */
int warm_is_child(void);

#endif
