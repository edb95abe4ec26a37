/* One compiler or assembler kept as a fork server; see plugin/warm.h for what is said. */
#include "kernel/cell/compile_internal.h"
#include "kernel/cell/plugin/warm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_OWN_FILES = 8, CANCEL_GRACE_MS = 200 };

int cadre_server_start(cadre_server *server, char *const *arguments, char *const *environment,
                       const cadre_child_file *files, size_t file_count, cadre_error *error)
{
    *server = CADRE_SERVER_NONE;
    cadre_child_file all[MOST_OWN_FILES];
    int ends[2];
    if (file_count + 2 > MOST_OWN_FILES)
        return cadre_error_set(error, CADRE_EINPUT, "too many files for a server");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "socketpair: %s", strerror(errno));
    server->socket = ends[0];
    int code = server->messages = cadre_memory_file("server", "", 0, "", 0, error);
    if (code >= 0) {
        if (file_count) memcpy(all, files, file_count * sizeof *files);
        all[file_count] = (cadre_child_file){2, server->messages};
        all[file_count + 1] = (cadre_child_file){WARM_SOCKET, ends[1]};
        code = cadre_child_start(&server->child, arguments[0], arguments, environment, all,
                                 file_count + 2, error);
    }
    close(ends[1]);
    if (code < 0) cadre_server_stop(server);
    return code < 0 ? code : 0;
}

void cadre_server_stop(cadre_server *server)
{
    cadre_child_stop(&server->child);
    if (server->socket >= 0) close(server->socket);
    if (server->messages >= 0) close(server->messages);
    *server = CADRE_SERVER_NONE;
}

static int gone(cadre_error *error)
{
    return cadre_error_set(error, CADRE_ECHILD, "the warm compiler ended");
}

int cadre_server_send(cadre_server *server, uint32_t number, const int *files, size_t count,
                      cadre_error *error)
{
    warm_request request = {.number = number};
    char control[CMSG_SPACE(WARM_FILES * sizeof(int))];
    struct iovec data = {&request, sizeof request};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    if (server->socket < 0 || count > WARM_FILES) return gone(error);
    memset(control, 0, sizeof control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), files, count * sizeof(int));
    ssize_t sent;
    do
        sent = sendmsg(server->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent != sizeof request) { /* gone, or so stuck that its queue is full */
        cadre_server_stop(server);
        return gone(error);
    }
    return 0;
}

/* The next reply that is there: 1 with *reply, 0 none, negative: gone. */
static int receive(cadre_server *server, warm_reply *reply, cadre_error *error)
{
    for (;;) {
        ssize_t size = recv(server->socket, reply, sizeof *reply, MSG_DONTWAIT);
        if (size == sizeof *reply) return 1;
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        cadre_server_stop(server);
        return gone(error);
    }
}

int cadre_server_wait(cadre_server *server, uint32_t number, int cancel_fd, int64_t deadline,
                      int *status, cadre_error *error)
{
    for (;;) {
        warm_reply reply;
        if (server->socket < 0) return gone(error);
        if (number == 0 && server->ready) return 0;
        int code = receive(server, &reply, error);
        if (code == 0)
            code = cadre_child_poll(server->socket, cancel_fd, deadline, error);
        else if (code > 0 && reply.number == 0)
            server->ready = true;
        else if (code > 0 && reply.number == number) {
            *status = reply.status;
            return 0;
        } /* else a late reply to a job that was given up */
        if (code < 0) return code;
    }
}

void cadre_server_cancel(cadre_server *server, uint32_t number)
{
    int status;
    cadre_error ignored;
    if (server->child.pid <= 0) return;
    /* Before it is ready the signal would end the server itself, which is as well then. */
    kill(server->child.pid, SIGUSR1);
    if (!server->ready || cadre_server_wait(server, number, -1, cadre_clock_ms() + CANCEL_GRACE_MS,
                                            &status, &ignored) < 0)
        cadre_server_stop(server);
}
