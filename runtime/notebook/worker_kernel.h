/* The process of a worker's kernel: starting, hearing from it, ending it. Private to notebook/. */
#ifndef CADRE_NOTEBOOK_WORKER_KERNEL_H
#define CADRE_NOTEBOOK_WORKER_KERNEL_H

#include "kernel/wire/wire.h"
#include "notebook/kernelspec.h"

#include <sys/types.h>

enum { KERNEL_LOG_SIZE = 4096 };

typedef struct worker_kernel {
    pid_t pid;                 /* 0: none; also its session and process group */
    int pidfd;                 /* readable when it is dead */
    int log_pipe;              /* what it writes to stdout and stderr outside of cells */
    int wake;                  /* epoll of both: for cadre_client_receive */
    char log[KERNEL_LOG_SIZE]; /* the last of it */
    size_t log_length;
    char *connection_file;
    cadre_client *client;
    json_t *info; /* content of kernel_info_reply */
} worker_kernel;

/* Starts a kernel in `folder` and waits until it answers and its output is heard. On failure
 * nothing is left. session_name goes to JPY_SESSION_NAME. */
int cadre_worker_kernel_start(worker_kernel *kernel, const cadre_kernelspec *spec,
                              const char *folder, const char *session_name, cadre_error *error);
/* Takes what the kernel wrote; false when the process is dead. Never waits. */
bool cadre_worker_kernel_is_alive(worker_kernel *kernel);
/* After is_alive was false: how it ended, "killed by SIGKILL", and the end of its log. */
void cadre_worker_kernel_death(worker_kernel *kernel, char *text, size_t size);
/* Ends the process and everything in its group, removes the connection file. NULL members are
 * fine. `hurry`: the user waits or the kernel is stuck in a cell, so it is not asked. */
void cadre_worker_kernel_stop(worker_kernel *kernel, bool hurry);

#endif
