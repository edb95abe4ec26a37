#include "notebook/worker_kernel.h"
#include "base/interrupt.h"
#include "loop/run.h"
#include "show/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_LIMIT_MS = 60000, START_TRIES = 3, STEP_MS = 500 };

/* ---- the connection file ---- */

static char *runtime_folder(cadre_error *error)
{
    const char *given = getenv("JUPYTER_RUNTIME_DIR");
    char *data = NULL, *folder = NULL;
    if (given && *given)
        folder = strdup(given);
    else if ((data = cadre_jupyter_data_folder()) && asprintf(&folder, "%s/runtime", data) < 0)
        folder = NULL;
    free(data);
    if (!folder) {
        cadre_error_set(error, CADRE_ENOTFOUND,
                        "no folder for a connection file: neither HOME nor JUPYTER_RUNTIME_DIR is "
                        "set");
        return NULL;
    }
    mode_t before = umask(077); /* what is made here is the user's own */
    int status = cadre_folder_make(folder, error);
    umask(before);
    if (status == CADRE_OK) return folder;
    free(folder);
    return NULL;
}

static int make_connection(worker_kernel *kernel, const char *kernel_name,
                           cadre_connection *connection, cadre_error *error)
{
    char uuid[CADRE_UUID_SIZE];
    char *folder = runtime_folder(error);
    if (!folder) return error ? error->code : CADRE_EFILE;
    cadre_uuid(uuid);
    int status = CADRE_EMEMORY;
    if (asprintf(&kernel->connection_file, "%s/kernel-%s.json", folder, uuid) < 0) {
        kernel->connection_file = NULL;
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a file name");
    } else {
        *connection = (cadre_connection){0};
        status = cadre_connection_create(connection, error);
        snprintf(connection->kernel_name, sizeof connection->kernel_name, "%s", kernel_name);
        if (status == CADRE_OK)
            status = cadre_connection_write(connection, kernel->connection_file, error);
    }
    free(folder);
    return status;
}

/* ---- the process ---- */

static int spawn(worker_kernel *kernel, char **argv, char **environment, const char *folder,
                 int output, cadre_error *error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, standard;
    sigemptyset(&none);
    sigfillset(&standard);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    int status = CADRE_OK;
    int failed = posix_spawnp(&kernel->pid, argv[0], &actions, &attributes, argv, environment);
    if (failed) {
        kernel->pid = 0;
        status = cadre_error_set(error, CADRE_ESYSTEM, "cannot start the kernel's program %s: %s",
                                 argv[0], strerror(failed));
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status;
}

static int watch(worker_kernel *kernel, cadre_error *error)
{
    struct epoll_event event = {.events = EPOLLIN};
    /* Where the system has no pidfd, a death is seen at the next step instead of at once. */
    kernel->pidfd = pidfd_open(kernel->pid, 0);
    kernel->wake = epoll_create1(EPOLL_CLOEXEC);
    if (kernel->wake < 0 ||
        (kernel->pidfd >= 0 && epoll_ctl(kernel->wake, EPOLL_CTL_ADD, kernel->pidfd, &event) < 0) ||
        epoll_ctl(kernel->wake, EPOLL_CTL_ADD, kernel->log_pipe, &event) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "cannot watch the kernel's process: %s",
                               strerror(errno));
    return CADRE_OK;
}

static void keep_log(worker_kernel *kernel, const char *text, size_t length)
{
    if (length >= KERNEL_LOG_SIZE) {
        text += length - (KERNEL_LOG_SIZE - 1);
        length = KERNEL_LOG_SIZE - 1;
    }
    size_t room = KERNEL_LOG_SIZE - 1 - kernel->log_length;
    if (length > room) {
        size_t gone = length - room;
        memmove(kernel->log, kernel->log + gone, kernel->log_length - gone);
        kernel->log_length -= gone;
    }
    memcpy(kernel->log + kernel->log_length, text, length);
    kernel->log_length += length;
    kernel->log[kernel->log_length] = 0;
}

static void read_log(worker_kernel *kernel)
{
    char text[4096];
    while (kernel->log_pipe >= 0) {
        ssize_t got = read(kernel->log_pipe, text, sizeof text);
        if (got > 0) {
            keep_log(kernel, text, (size_t)got);
            continue;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        /* All writers are gone; left in the epoll it would wake for ever. */
        close(kernel->log_pipe);
        kernel->log_pipe = -1;
    }
}

static bool has_ended(const worker_kernel *kernel, siginfo_t *info)
{
    *info = (siginfo_t){0};
    /* WNOWAIT: the pid stays ours until the whole group has been ended. */
    int status = waitid(P_PID, (id_t)kernel->pid, info, WEXITED | WNOHANG | WNOWAIT);
    return status < 0 ? errno == ECHILD : info->si_pid != 0;
}

static bool wait_for_end(const worker_kernel *kernel, int milliseconds)
{
    enum { WITHOUT_PIDFD = 20 };
    double end = cadre_loop_now() + milliseconds / 1000.0;
    for (;;) {
        siginfo_t info;
        double left = (end - cadre_loop_now()) * 1000;
        if (has_ended(kernel, &info)) return true;
        if (left <= 0) return false;
        struct pollfd item = {.fd = kernel->pidfd, .events = POLLIN};
        int wait = (int)left + 1;
        poll(&item, 1, kernel->pidfd < 0 && wait > WITHOUT_PIDFD ? WITHOUT_PIDFD : wait);
    }
}

bool cadre_worker_kernel_is_alive(worker_kernel *kernel)
{
    read_log(kernel);
    return kernel->pid > 0 && !wait_for_end(kernel, 0);
}

void cadre_worker_kernel_death(worker_kernel *kernel, char *text, size_t size)
{
    siginfo_t info;
    read_log(kernel);
    if (!has_ended(kernel, &info) || info.si_pid == 0)
        snprintf(text, size, "its process ended");
    else if (info.si_code == CLD_EXITED)
        snprintf(text, size, "exit status %d", info.si_status);
    else
        snprintf(text, size, "killed by SIG%s",
                 sigabbrev_np(info.si_status) ? sigabbrev_np(info.si_status) : "?");
    const char *log = kernel->log;
    size_t length = kernel->log_length, used = strlen(text);
    while (length > 0 && (log[length - 1] == '\n' || log[length - 1] == '\r'))
        length--;
    if (length > 600) {
        log += length - 600;
        length = 600;
    }
    if (length > 0 && used < size)
        snprintf(text + used, size - used, "; it wrote: %.*s", (int)length, log);
}

static int start_once(worker_kernel *kernel, const cadre_kernelspec *spec, const char *folder,
                      const char *session_name, cadre_error *error)
{
    cadre_connection connection;
    char **argv = NULL, **environment = NULL, *session = NULL, parent[40];
    int output[2] = {-1, -1};
    int status = make_connection(kernel, spec->name, &connection, error);
    if (status < 0) goto done;
    argv = cadre_kernelspec_argv(spec, kernel->connection_file, error);
    if (!argv) {
        status = error->code;
        goto done;
    }
    snprintf(parent, sizeof parent, "JPY_PARENT_PID=%d", (int)getpid());
    if (asprintf(&session, "JPY_SESSION_NAME=%s", session_name) < 0) session = NULL;
    /* In a cell CADRE_PARAMETERS was meant for the notebook of that cell. */
    environment = cadre_kernelspec_environment(spec, (const char *const[]){parent, session, NULL},
                                               cadre_channel_is_open() ? "CADRE_PARAMETERS" : NULL);
    if (!environment || pipe2(output, O_CLOEXEC) < 0) {
        status =
            cadre_error_set(error, CADRE_ESYSTEM, "cannot start a kernel: %s", strerror(errno));
        goto done;
    }
    kernel->log_pipe = output[0];
    fcntl(kernel->log_pipe, F_SETFL, O_NONBLOCK);
    status = spawn(kernel, argv, environment, folder, output[1], error);
    close(output[1]);
    output[1] = -1;
    if (status == CADRE_OK) status = watch(kernel, error);
    if (status == CADRE_OK) {
        kernel->client = cadre_client_open(&connection, error);
        if (!kernel->client) status = error->code;
    }
done:
    if (output[1] >= 0) close(output[1]);
    cadre_words_free(argv);
    cadre_words_free(environment);
    free(session);
    return status;
}

static int wait_until_ready(worker_kernel *kernel, cadre_error *error)
{
    double end = cadre_loop_now() + START_LIMIT_MS / 1000.0;
    for (;;) {
        cadre_error reason = {0};
        cadre_message *reply =
            cadre_client_wait_ready(kernel->client, STEP_MS, kernel->wake, &reason);
        if (reply) {
            kernel->info = json_incref(reply->content);
            cadre_message_free(reply);
            return CADRE_OK;
        }
        if (cadre_interrupt_requested())
            return cadre_error_set(error, CADRE_EINTERRUPT, "interrupted");
        if (!cadre_worker_kernel_is_alive(kernel)) {
            char how[800];
            cadre_worker_kernel_death(kernel, how, sizeof how);
            return cadre_error_set(error, CADRE_ECHILD, "the kernel ended while it started: %s",
                                   how);
        }
        if (reason.code != CADRE_ETIMEOUT && reason.code != CADRE_EINTERRUPT) {
            *error = reason;
            return reason.code;
        }
        if (cadre_loop_now() > end)
            return cadre_error_set(error, CADRE_ETIMEOUT,
                                   "the kernel did not answer within %d s after its start",
                                   START_LIMIT_MS / 1000);
    }
}

int cadre_worker_kernel_start(worker_kernel *kernel, const cadre_kernelspec *spec,
                              const char *folder, const char *session_name, cadre_error *error)
{
    int status = CADRE_ESYSTEM;
    for (int attempt = 0; attempt < START_TRIES; attempt++) {
        *kernel = (worker_kernel){.pidfd = -1, .log_pipe = -1, .wake = -1};
        status = start_once(kernel, spec, folder, session_name, error);
        if (status == CADRE_OK) status = wait_until_ready(kernel, error);
        if (status == CADRE_OK) return status;
        bool clash = status == CADRE_ECHILD && strcasestr(kernel->log, "address already in use");
        cadre_worker_kernel_stop(kernel, true);
        if (!clash) break;
    }
    return status;
}

static void ask_to_end(worker_kernel *kernel)
{
    json_t *content = json_pack("{s:b}", "restart", 0);
    cadre_client_send(kernel->client, CADRE_CONTROL, "shutdown_request", content, NULL, NULL, NULL);
    json_decref(content);
}

void cadre_worker_kernel_stop(worker_kernel *kernel, bool hurry)
{
    enum { ASKED = 5000, TERMINATED = 2500, IN_A_HURRY = 60 };
    bool asked = !hurry && kernel->client && kernel->info;
    if (asked) ask_to_end(kernel);
    /* Before the process ends: sockets whose peer is gone would take a second to close. */
    cadre_client_close(kernel->client);
    if (kernel->pid > 0) {
        if (!asked || !wait_for_end(kernel, ASKED)) {
            kill(-kernel->pid, SIGTERM);
            wait_for_end(kernel, hurry ? IN_A_HURRY : TERMINATED);
        }
        /* The group may outlive its leader; the leader is not reaped yet, so the number cannot
         * have become somebody else's. */
        kill(-kernel->pid, SIGKILL);
        siginfo_t info;
        while (waitid(P_PID, (id_t)kernel->pid, &info, WEXITED) < 0 && errno == EINTR)
            ;
    }
    if (kernel->connection_file) unlink(kernel->connection_file);
    free(kernel->connection_file);
    if (kernel->pidfd >= 0) close(kernel->pidfd);
    if (kernel->log_pipe >= 0) close(kernel->log_pipe);
    if (kernel->wake >= 0) close(kernel->wake);
    json_decref(kernel->info);
    *kernel = (worker_kernel){.pidfd = -1, .log_pipe = -1, .wake = -1};
}
