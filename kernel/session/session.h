/* kernel/session: what a client sees of the kernel.
 *
 * The front: it owns the sockets, answers every request, queues cells, gives them to the engine
 * (kernel/cell, in a thread of its own) and to the host (kernel/host, another process), and turns
 * what the host reports into messages. It never runs user code and never waits for it.
 *
 *     cadre_session_options options = {.connection_file = path};
 *     return cadre_session_run(&options, &error) < 0;
 */
#ifndef CADRE_SESSION_H
#define CADRE_SESSION_H

#include "base/base.h"

typedef struct cadre_session_options {
    const char *connection_file;
    const char *kernelspec_dir; /* its kernel.json may give parameters; NULL: none */
} cadre_session_options;

/* Serves until a client shuts the kernel down, SIGTERM comes or the parent process ends. Blocks
 * SIGINT and SIGTERM in the calling thread, so it is called before any thread is started.
 * 0, or a status when the kernel could not start. */
int cadre_session_run(const cadre_session_options *options, cadre_error *error);

#endif
