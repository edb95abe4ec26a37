/* The sending end of the display channel; its format is described in show.h. */
#include "show/channel.h"
#include "base/interrupt.h"
#include "show/show.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_LIMIT_MS = 5000, LARGEST_PACKET = 32 * 1024 };

/* Set once by the host before cells run, inherited by forked children. */
static int channel = -1;

void cadre_show_set_channel(int fd)
{
    __atomic_store_n(&channel, fd, __ATOMIC_RELEASE);
}

bool cadre_channel_is_open(void)
{
    return __atomic_load_n(&channel, __ATOMIC_ACQUIRE) >= 0;
}

json_t *cadre_channel_packet(const char *kind, json_t *data, const char *display_id)
{
    json_t *packet = json_pack("{s:s, s:o, s:{}}", "kind", kind, "data", data, "metadata");
    if (packet && display_id)
        json_object_set_new(packet, "display_id", cadre_channel_text(display_id));
    return packet;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* True when `fd` is ready for `events` before the deadline; an interrupt ends the wait. */
static bool wait_for(int fd, short events, long long deadline)
{
    for (;;) {
        long long left = deadline - now_ms();
        struct pollfd item = {.fd = fd, .events = events};
        /* In short steps: a request to stop that comes between test and poll must be seen. */
        int ready = poll(&item, 1, left < 0 ? 0 : left > 50 ? 50 : (int)left);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (left <= 0 || cadre_interrupt_requested()) return false;
    }
}

static int sealed_copy(const char *text, size_t length)
{
    int fd = memfd_create("cadre-display", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    for (size_t done = 0; done < length;) {
        ssize_t written = write(fd, text + done, length - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)written;
    }
    lseek(fd, 0, SEEK_SET);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
}

static ssize_t send_with(int to, const char *text, size_t length, const int *fds, size_t count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)text, .iov_len = length};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = CMSG_SPACE(count * sizeof(int)),
    };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Sends the packet and gives in *answer the socket on which the byte will come. */
static int send_packet(json_t *packet, int *answer, long long deadline, cadre_error *error)
{
    int status = CADRE_ESYSTEM, pair[2] = {-1, -1}, large = -1;
    int to = __atomic_load_n(&channel, __ATOMIC_ACQUIRE);
    char *text = json_dumps(packet, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text) return cadre_error_set(error, CADRE_EMEMORY, "no memory for a display");
    size_t length = strlen(text);

    fflush(stdout);
    fflush(stderr);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "cannot make a socket: %s", strerror(errno));
        goto done;
    }
    if (length > LARGEST_PACKET && (large = sealed_copy(text, length)) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "cannot store a display of %zu bytes: %s", length,
                        strerror(errno));
        goto done;
    }
    int fds[2] = {pair[1], large};
    for (;;) {
        ssize_t sent =
            large < 0 ? send_with(to, text, length, fds, 1) : send_with(to, "{}", 2, fds, 2);
        if (sent >= 0) {
            status = CADRE_OK;
            *answer = pair[0];
            pair[0] = -1;
            break;
        }
        bool full = errno == EAGAIN || errno == ENOBUFS;
        if (errno == EINTR || (full && wait_for(to, POLLOUT, deadline))) continue;
        status = cadre_error_set(error, full ? CADRE_ETIMEOUT : CADRE_ESYSTEM,
                                 "the kernel takes no display: %s", strerror(errno));
        break;
    }
done:
    if (pair[0] >= 0) close(pair[0]);
    if (pair[1] >= 0) close(pair[1]);
    if (large >= 0) close(large);
    free(text);
    return status;
}

int cadre_channel_send(json_t *packet, cadre_error *error)
{
    long long deadline = now_ms() + ANSWER_LIMIT_MS;
    int answer = -1, status = send_packet(packet, &answer, deadline, error);
    if (status < 0) return status;
    /* End of file is an answer too: the reader is gone and there is nothing to wait for. */
    if (!wait_for(answer, POLLIN, deadline))
        status = cadre_error_set(error, CADRE_ETIMEOUT, "the kernel does not answer a display");
    close(answer);
    return status;
}

/* The file that came with the byte as text, new. */
static char *read_answer(int answer, cadre_error *error)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char byte, *text = NULL;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got;
    do
        got = recvmsg(answer, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -1;
    if (rights && rights->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1, done = 0;
    if (size >= 0) text = malloc((size_t)size + 1);
    while (text && done < size) {
        ssize_t count = pread(fd, text + done, (size_t)(size - done), done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        done += count;
    }
    if (text) text[done] = 0;
    if (fd >= 0) close(fd);
    if (!text) cadre_error_set(error, CADRE_ESYSTEM, "the kernel gave no answer");
    return text;
}

char *cadre_channel_ask(json_t *packet, cadre_error *error)
{
    long long deadline = now_ms() + ANSWER_LIMIT_MS;
    char *text = NULL;
    int answer = -1;
    if (!cadre_channel_is_open()) {
        cadre_error_set(error, CADRE_ESYSTEM, "this program runs in no kernel");
        return NULL;
    }
    if (send_packet(packet, &answer, deadline, error) < 0) return NULL;
    if (wait_for(answer, POLLIN, deadline))
        text = read_answer(answer, error);
    else
        cadre_error_set(error, CADRE_ETIMEOUT, "the kernel does not answer");
    close(answer);
    return text;
}

int cadre_channel_post(json_t *packet, int *pending, cadre_error *error)
{
    if (*pending >= 0) {
        struct pollfd item = {.fd = *pending, .events = POLLIN};
        if (poll(&item, 1, 0) <= 0) return CADRE_ETIMEOUT;
        close(*pending);
        *pending = -1;
    }
    return send_packet(packet, pending, now_ms(), error);
}

void cadre_channel_settle(int *pending)
{
    if (*pending < 0) return;
    wait_for(*pending, POLLIN, now_ms() + ANSWER_LIMIT_MS);
    close(*pending);
    *pending = -1;
}
