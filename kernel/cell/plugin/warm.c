/* The server's side of warm.h. In someone else's process: no symbol but the three of warm.h, no
 * stdio of the compiler's, nothing that could end up in its output. */
#include "warm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { CLOSED = 99, MOST_IDLE_DEATHS = 5, SPARE_FD = 32, LINGER_MS = 5, MOST_RANGES = 500 };

typedef struct range {
    unsigned long from, to;
} range;

/* Written by the child that works, read by the server and the next child after that child ended
 * (waitpid orders it). */
static struct shared {
    uint32_t taken;    /* number of the request it took, 0: none yet */
    uint32_t answered; /* the same, once it answered */
    uint32_t range_count;
    range ranges[MOST_RANGES]; /* of the program's files: what the last one had in its memory */
} * shared;

/* An eventfd: a child has answered. */
static int news = -1;

/* Written by the server with SIGUSR1 blocked, read by its handler. */
static volatile pid_t worker;
static int is_child;

int warm_is_child(void)
{
    return is_child;
}

static void send_reply(uint32_t number, int status)
{
    warm_reply reply = {.number = number, .status = status};
    while (send(WARM_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

static void kill_worker(int number)
{
    (void)number;
    int code = errno;
    if (worker > 0) kill(worker, SIGKILL);
    errno = code;
}

static int is_request_waiting(int patience_ms)
{
    struct pollfd file = {.fd = WARM_SOCKET, .events = POLLIN};
    return poll(&file, 1, patience_ms) > 0;
}

static unsigned long read_hex(const char **at)
{
    unsigned long value = 0;
    for (;; (*at)++) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value * 16 + (unsigned long)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (unsigned long)(c - 'a' + 10);
        else
            return value;
    }
}

enum { CAPACITY = 1 << 16, PIECE = 1 << 20, PAGE = 4096, AROUND = 16 * PAGE };

/* A line of /proc/self/maps: "55e0c000-55e0d000 rw-p 00000000 08:01 1234 /path" */
typedef struct mapping {
    unsigned long from, to;
    int readable, writable, private, is_file, is_special;
} mapping;

/* The text of /proc/self/maps, CAPACITY bytes to unmap; NULL: none. */
static char *read_maps(void)
{
    char *text = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED) return NULL;
    size_t length = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t count; fd >= 0 && length < CAPACITY - 1; length += (size_t)count) {
        count = read(fd, text + length, CAPACITY - 1 - length);
        if (count <= 0) break;
    }
    if (fd >= 0) close(fd);
    return text;
}

/* The mapping of this line; the next line, NULL: this is none. */
static const char *parse_mapping(const char *line, mapping *out)
{
    const char *at = line, *end = strchr(line, '\n');
    if (!end) return NULL;
    out->from = read_hex(&at);
    at += *at == '-';
    out->to = read_hex(&at);
    out->readable = at[1] == 'r';
    out->writable = at[2] == 'w';
    out->private = at[4] == 'p';
    size_t rest = (size_t)(end - at);
    int is_own = strncmp(end - 6, "[heap]", 6) == 0 || strncmp(end - 7, "[stack]", 7) == 0;
    out->is_special = !is_own && memmem(at, rest, "[v", 2) != NULL;
    out->is_file = memchr(at, '/', rest) != NULL;
    return end + 1;
}

/* Adds to the list what is present of pages from `from` on; joined to the last one if adjacent. */
static void record_pages(unsigned long from, const uint64_t *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(entries[i] >> 63)) continue;
        unsigned long start = (from + i * PAGE) & ~(unsigned long)(AROUND - 1);
        range *last = shared->range_count ? &shared->ranges[shared->range_count - 1] : NULL;
        if (last && start <= last->to) {
            last->to = start + AROUND;
        } else {
            if (shared->range_count == MOST_RANGES) return;
            shared->ranges[shared->range_count++] = (range){start, start + AROUND};
        }
    }
}

/* Which pages of the program and its libraries are in use: few of them are, by any one unit. The
 * system maps them sixteen at a time, so they are counted in that unit. */
static void record(void)
{
    enum { ENTRIES = 1024 };
    static uint64_t entries[ENTRIES];
    char *text = read_maps();
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    mapping one;
    shared->range_count = 0;
    for (const char *line = text; text && fd >= 0 && (line = parse_mapping(line, &one));) {
        if (!one.readable || one.writable || !one.private || !one.is_file) continue;
        for (unsigned long from = one.from; from < one.to;) {
            size_t wanted = (one.to - from) / PAGE < ENTRIES ? (one.to - from) / PAGE : ENTRIES;
            ssize_t got = pread(fd, entries, wanted * sizeof *entries,
                                (off_t)(from / PAGE * sizeof *entries));
            if (got <= 0) break;
            record_pages(from, entries, (size_t)got / sizeof *entries);
            from += (size_t)got / sizeof *entries * PAGE;
        }
    }
    if (fd >= 0) close(fd);
    if (text) munmap(text, CAPACITY);
}

void warm_answer(int status)
{
    if (!is_child || shared->answered == shared->taken) return;
    send_reply(shared->taken, status);
    shared->answered = shared->taken;
    record();
    /* The server makes the next child while this one waits: taking it down costs milliseconds of
     * the CPU that the next stage is about to be woken on; let that one go first. */
    uint64_t one = 1;
    if (write(news, &one, sizeof one) < 0) return;
    struct timespec linger = {.tv_nsec = LINGER_MS * 1000000L};
    nanosleep(&linger, NULL);
}

/* False: a request came. */
static int populate_range(unsigned long from, unsigned long to, int advice)
{
    for (; from < to; from += PIECE) {
        unsigned long size = to - from < PIECE ? to - from : PIECE;
        madvise((void *)from, size, advice);
        if (is_request_waiting(0)) return 0;
    }
    return 1;
}

/* Takes the page faults of the work ahead: of the program's files those pages that the last child
 * had, of what can be written all, as this process's own copy. Not while the unit before this one
 * is on its way through assembler and host, and only until a request comes: then it is quicker to
 * begin. */
static void populate(void)
{
    mapping one;
    if (is_request_waiting(LINGER_MS)) return;
    char *text = read_maps();
    int quiet = 1;
    for (const char *line = text; text && quiet && (line = parse_mapping(line, &one));) {
        if (!one.readable || !one.private || one.is_special) continue;
        if (one.writable) quiet = populate_range(one.from, one.to, MADV_POPULATE_WRITE);
    }
    for (uint32_t i = 0; quiet && i < shared->range_count; i++)
        quiet = populate_range(shared->ranges[i].from, shared->ranges[i].to, MADV_POPULATE_READ);
    if (text) munmap(text, CAPACITY);
}

/* Waits for a request and takes it; on end of file the child ends and tells the server to. */
static void take_request(const int *targets, int count)
{
    warm_request request;
    ssize_t size;
    do
        size = recv(WARM_SOCKET, &request, sizeof request, MSG_PEEK);
    while (size < 0 && errno == EINTR);
    if (size != sizeof request) _exit(CLOSED);
    /* Known before it is off the queue: killed in between, the next child finds it there. */
    shared->taken = request.number;

    char control[CMSG_SPACE(WARM_FILES * sizeof(int))];
    struct iovec data = {&request, sizeof request};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    do
        size = recvmsg(WARM_SOCKET, &message, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int files[WARM_FILES];
    if (!header || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN((size_t)count * sizeof(int)))
        _exit(CLOSED);
    memcpy(files, CMSG_DATA(header), (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) {
        int spare = fcntl(files[i], F_DUPFD_CLOEXEC, SPARE_FD); /* out of every target's way */
        close(files[i]);
        files[i] = spare;
    }
    for (int i = 0; i < count; i++) {
        if (dup2(files[i], targets[i]) < 0) _exit(1);
        close(files[i]);
    }
    is_child = 1;
}

/* The child's first steps; returns with a request. */
static void become_child(pid_t server, const int *targets, int count)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != server) _exit(CLOSED);
    signal(SIGUSR1, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    populate();
    take_request(targets, count);
}

/* Waits until the child has answered (it will end soon, 0) or is gone (1, with its status). */
static int wait_for_child(pid_t child, int *status)
{
    uint64_t count;
    int ended = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd files[] = {{.fd = news, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    if (ended >= 0)
        while (poll(files, 2, -1) < 0 && errno == EINTR)
            continue;
    if (ended >= 0) close(ended);
    if (ended >= 0 && (files[0].revents & POLLIN) && read(news, &count, sizeof count) > 0) return 0;
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR) {
            *status = CLOSED << 8;
            break;
        }
    return 1;
}

void warm_serve(const int *targets, int count)
{
    pid_t server = getpid(), leaving = 0;
    int idle_deaths = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    news = fcntl(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), F_DUPFD_CLOEXEC, SPARE_FD);
    if (shared == MAP_FAILED || news < 0) _exit(1);
    struct sigaction action = {.sa_handler = kill_worker, .sa_flags = SA_RESTART};
    sigset_t cancel;
    sigemptyset(&cancel);
    sigaddset(&cancel, SIGUSR1);
    sigprocmask(SIG_BLOCK, &cancel, NULL);
    sigaction(SIGUSR1, &action, NULL);
    record();
    send_reply(0, 0);
    while (idle_deaths < MOST_IDLE_DEATHS) {
        uint64_t stale; /* of a child whose end was seen first */
        while (read(news, &stale, sizeof stale) > 0)
            continue;
        shared->taken = shared->answered = 0;
        pid_t child = fork();
        if (child < 0) {
            struct timespec pause = {.tv_nsec = 10000000};
            nanosleep(&pause, NULL);
            idle_deaths++;
            continue;
        }
        if (child == 0) {
            become_child(server, targets, count);
            return;
        }
        worker = child;
        sigprocmask(SIG_UNBLOCK, &cancel, NULL);
        int status = 0, is_gone;
        is_gone = wait_for_child(child, &status);
        sigprocmask(SIG_BLOCK, &cancel, NULL);
        worker = 0;
        while (leaving && waitpid(leaving, NULL, 0) < 0 && errno == EINTR)
            continue;
        leaving = is_gone ? 0 : child;
        if (is_gone && WIFEXITED(status) && WEXITSTATUS(status) == CLOSED) break;
        if (!shared->taken) {
            idle_deaths++;
            continue;
        }
        idle_deaths = 0;
        if (shared->answered != shared->taken) send_reply(shared->taken, status);
    }
    _exit(0);
}
