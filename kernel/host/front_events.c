/* What the host does, turned into events, in the order in which it did it. */
#include "host/front.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)
#define DISPLAY_INLINE ((size_t)256 << 10)
#define DISPLAY_LIMIT ((off_t)256 << 20)
#define TAKEOVER_LIMIT_MS 10000
#define GRACE_MS 300 /* for a copy that the host had no time to announce */
#define STUCK_AGAIN_MS 2000

/* ---- the queue */

struct queued_event *front_event(cadre_host *host, cadre_host_event_kind kind)
{
    static struct queued_event no_memory;
    struct queued_event *event = calloc(1, sizeof *event);
    if (!event) { /* dropped: the caller writes to a place that nobody reads */
        no_memory = (struct queued_event){.acknowledge = -1};
        return &no_memory;
    }
    event->event.kind = kind;
    event->acknowledge = -1;
    if (host->last)
        host->last->next = event;
    else
        host->first = event;
    host->last = event;
    return event;
}

void front_event_text(struct queued_event *event, const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    free(event->event.text);
    event->event.text = copy;
    event->event.length = copy ? length : 0;
    if (!copy) return;
    if (length) memcpy(copy, text, length);
    copy[length] = 0;
}

void cadre_host_event_free(cadre_host_event *event)
{
    free(event->text);
    free(event->error_name);
    free(event->traceback);
    event->text = event->error_name = event->traceback = NULL;
}

/* ---- output */

static size_t available(int file)
{
    int count = 0;
    return file >= 0 && ioctl(file, FIONREAD, &count) == 0 && count > 0 ? (size_t)count : 0;
}

static void read_stream(cadre_host *host, int file, const char *name, size_t limit)
{
    while (limit) {
        size_t size = limit < CHUNK ? limit : CHUNK;
        char *bytes = malloc(size + 1);
        ssize_t got = bytes ? read(file, bytes, size) : -1;
        if (got <= 0) {
            free(bytes);
            if (got < 0 && errno == EINTR) continue;
            return;
        }
        bytes[got] = 0;
        struct queued_event *event = front_event(host, CADRE_HOST_STREAM);
        event->event.name = name;
        event->event.text = bytes;
        event->event.length = (size_t)got;
        limit -= (size_t)got;
    }
}

/* All that lies in the pipes now; what is written later is not waited for. */
void front_drain(cadre_host *host)
{
    read_stream(host, host->output, "stdout", available(host->output));
    read_stream(host, host->error, "stderr", available(host->error));
}

/* ---- displays */

static char *read_display_file(int file, size_t *length)
{
    struct stat about;
    if (fstat(file, &about) < 0 || about.st_size < 0 || about.st_size > DISPLAY_LIMIT) return NULL;
    size_t size = (size_t)about.st_size, have = 0;
    char *text = malloc(size + 1);
    while (text && have < size) {
        ssize_t got = pread(file, text + have, size - have, (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    if (text) text[have] = 0;
    *length = have;
    return text;
}

static void queue_display(cadre_host *host, const char *text, size_t length, int acknowledge)
{
    json_error_t where;
    json_t *display = json_loadb(text, length, 0, &where);
    const char *kind = json_string_value(json_object_get(display, "kind"));
    struct queued_event *event;
    if (!kind) {
        event = front_event(host, CADRE_HOST_NOTE);
        cadre_buffer note = {0};
        cadre_buffer_printf(&note, "a display was dropped, it is not the JSON of one: %.100s",
                            display ? "no kind" : where.text);
        front_event_text(event, note.data ? note.data : "", note.length);
        cadre_buffer_free(&note);
    } else if (strcmp(kind, "return") == 0) {
        json_t *data = json_object_get(display, "data");
        json_t *value = json_object_get(data, "application/vnd.cadre.return+json");
        char *json = json_dumps(value ? value : data, JSON_ENCODE_ANY | JSON_COMPACT);
        event = front_event(host, CADRE_HOST_RETURN);
        front_event_text(event, json ? json : "null", json ? strlen(json) : 4);
        free(json);
    } else {
        event = front_event(host, CADRE_HOST_DISPLAY);
        front_event_text(event, text, length);
    }
    json_decref(display);
    event->acknowledge = acknowledge;
}

static bool read_display(cadre_host *host)
{
    char *text = malloc(DISPLAY_INLINE + 1);
    int files[4];
    size_t file_count = 0, length = 0;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof files)];
    } control;
    struct iovec part = {text, DISPLAY_INLINE};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = text ? recvmsg(host->display, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) : -1;
    if (got <= 0) {
        free(text);
        if (got == 0) front_watch(host, host->display, false);
        return false;
    }
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && file_count < 4; i++)
            memcpy(&files[file_count++], CMSG_DATA(item) + i * sizeof(int), sizeof(int));
    }
    length = (size_t)got;
    if (file_count > 1) {
        char *large = read_display_file(files[1], &length);
        free(text);
        text = large;
    }
    front_drain(host);
    queue_display(host, text ? text : "", text ? length : 0, file_count ? files[0] : -1);
    for (size_t i = 1; i < file_count; i++)
        close(files[i]);
    free(text);
    return true;
}

/* ---- the end of processes */

static bool same(const struct child *child, int file)
{
    return child->pid > 0 && child->pidfd == file;
}

/* The cell that ran has ended, one way or the other. */
static void end_run(cadre_host *host)
{
    host->run = 0;
    host->cell = NULL;
    host->interrupt_deadline = 0;
    host->drain_anyway = false;
    if (host->shared) atomic_store(&host->shared->paused, host->paused);
}

static void roll_back(cadre_host *host)
{
    pid_t pid = host->takeover_pid;
    uint64_t generation = (uint64_t)host->takeover_generation;
    host->takeover_pid = 0;
    host->takeover_deadline = 0;
    host->state = HOST_RUNS;
    if (host->copy.pid == pid) {
        host->host = host->copy;
    } else {
        host->host.pid = pid;
        host->host.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        front_watch(host, host->host.pidfd, true);
    }
    host->copy = (struct child){0, -1};
    struct queued_event *event = front_event(host, CADRE_HOST_ROLLED_BACK);
    event->event.generation = generation;
    front_explain_death(host, &event->event, generation);
    host->killed_for_interrupt = false;
    end_run(host);
}

static void host_died(cadre_host *host)
{
    siginfo_t info = {0};
    pid_t pid = host->host.pid;
    int result;
    do
        result = waitid(P_PID, (id_t)pid, &info, WEXITED);
    while (result < 0 && errno == EINTR);
    host->dead_code = result == 0 ? info.si_code : 0;
    host->dead_status = result == 0 ? info.si_status : 0;
    if (host->host.pidfd >= 0) close(host->host.pidfd);
    host->host = (struct child){0, -1};
    host->state = HOST_DEAD;
    host->takeover_deadline = front_now() + (host->copy.pid > 0 ? TAKEOVER_LIMIT_MS : GRACE_MS);
    front_remember_group(host, pid);
    front_drain(host);
    if (host->takeover_pid) roll_back(host);
}

static void lost(cadre_host *host)
{
    cadre_error error = {0};
    front_drain(host);
    struct queued_event *event = front_event(host, CADRE_HOST_LOST);
    front_explain_death(host, &event->event, 0);
    bool again = host->ready_once;
    host->killed_for_interrupt = host->ready_once = false;
    bool paused = host->paused;
    front_close(host);
    front_forget_cells(host);
    if (again && front_spawn(host, &error) == 0) {
        cadre_host_pause_output(host, paused);
        return;
    }
    cadre_buffer text = {0};
    cadre_buffer_printf(&text, "%s; %s", event->event.text ? event->event.text : "",
                        again ? error.message : "it ended before it was ready to run a cell");
    front_event_text(event, text.data ? text.data : "", text.length);
    cadre_buffer_free(&text);
}

void front_deadlines(cadre_host *host)
{
    uint64_t now = front_now();
    if (host->takeover_deadline && now >= host->takeover_deadline) lost(host);
    if (!host->interrupt_deadline || now < host->interrupt_deadline || !host->run) return;
    if (host->copy.pid > 0) {
        host->killed_for_interrupt = true;
        host->interrupt_deadline = 0;
        kill(host->host.pid, SIGKILL);
        return;
    }
    /* Going back would lose everything: go on asking. */
    (void)syscall(SYS_tgkill, host->host.pid, host->host.pid, INTERRUPT_SIGNAL);
    host->interrupt_deadline = now + STUCK_AGAIN_MS;
    if (host->told_stuck) return;
    host->told_stuck = true;
    static const char text[] = "the cell is inside a library and cannot be left; it ends when the "
                               "library returns. There is no snapshot to go back to.";
    front_event_text(front_event(host, CADRE_HOST_NOTE), text, sizeof text - 1);
}

/* ---- messages */

static void copy_ends(cadre_host *host)
{
    size_t room = sizeof host->ending / sizeof *host->ending;
    if (host->copy.pid <= 0) return;
    if (host->ending_count == room) front_reap(host, true);
    host->ending[host->ending_count++] = host->copy;
    host->copy = (struct child){0, -1};
}

static void on_snapshot(cadre_host *host, struct packet *packet)
{
    pid_t pid = (pid_t)packet->header.number[0];
    copy_ends(host);
    if (pid <= 1) return;
    host->snapshot_ms = (double)packet->header.number[2] / 1e3;
    host->copy.pid = pid;
    host->copy.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    front_watch(host, host->copy.pidfd, true);
}

static void on_array(cadre_host *host, struct packet *packet)
{
    cadre_array_report array = {0};
    const char *name = cadre_packet_text(packet);
    size_t count = cadre_packet_number(packet);
    size_t room = sizeof array.dimensions / sizeof *array.dimensions;
    if (packet->bad || count > room || strlen(name) >= sizeof array.name) return;
    memcpy(array.name, name, strlen(name) + 1);
    array.dimension_count = count;
    for (size_t i = 0; i < count; i++)
        array.dimensions[i] = cadre_packet_number(packet);
    if (!packet->bad) front_event(host, CADRE_HOST_ARRAY)->event.array = array;
}

static void on_done(cadre_host *host, struct packet *packet)
{
    int64_t outcome = packet->header.number[0];
    const char *name = cadre_packet_text(packet), *text = cadre_packet_text(packet);
    if (host->cell) front_keep_cell(host, host->cell);
    struct queued_event *event = front_event(host, CADRE_HOST_DONE);
    event->event.outcome = outcome >= CADRE_OUTCOME_OK && outcome <= CADRE_OUTCOME_ERROR
                               ? (cadre_host_outcome)outcome
                               : CADRE_OUTCOME_ERROR;
    event->event.status = (int)packet->header.number[1];
    event->event.error_name = *name ? strdup(name) : NULL;
    front_event_text(event, text, strlen(text));
    end_run(host);
}

static void on_memory(cadre_host *host, struct packet *packet)
{
    size_t length;
    const char *bytes = cadre_packet_bytes(packet, &length);
    host->memory_answered = true;
    host->memory_ok = packet->header.number[0] && !packet->bad && length == host->memory_length;
    if (host->memory_ok && host->memory_into) memcpy(host->memory_into, bytes, length);
}

static void on_text(cadre_host *host, struct packet *packet, cadre_host_event_kind kind)
{
    const char *text = cadre_packet_text(packet);
    struct queued_event *event = front_event(host, kind);
    front_event_text(event, text, strlen(text));
    if (kind == CADRE_HOST_INPUT) event->event.password = packet->header.number[0] != 0;
    if (kind == CADRE_HOST_VALUE) {
        event->event.address = (uint64_t)packet->header.number[0];
        event->event.size = (uint64_t)packet->header.number[1];
    }
    if (kind == CADRE_HOST_LINK_ERROR) end_run(host);
}

static void on_packet(cadre_host *host, struct packet *packet)
{
    enum message message = (enum message)packet->header.message;
    if (message == MESSAGE_SNAPSHOT) {
        on_snapshot(host, packet);
        return;
    }
    if (message == MESSAGE_MEMORY) {
        on_memory(host, packet);
        return;
    }
    front_drain(host);
    switch (message) {
    case MESSAGE_READY:
        host->ready_once = true;
        front_event(host, CADRE_HOST_READY);
        break;
    case MESSAGE_TAKEOVER:
        host->takeover_pid = (pid_t)packet->header.number[0];
        host->takeover_generation = packet->header.number[1];
        if (host->state == HOST_DEAD)
            roll_back(host);
        else
            host_died(host);
        break;
    case MESSAGE_NOTE: on_text(host, packet, CADRE_HOST_NOTE); break;
    case MESSAGE_ASK:
        if (packet->header.run == host->run) on_text(host, packet, CADRE_HOST_INPUT);
        break;
    case MESSAGE_ARRAY: on_array(host, packet); break;
    case MESSAGE_VALUE: on_text(host, packet, CADRE_HOST_VALUE); break;
    case MESSAGE_LINK_ERROR: on_text(host, packet, CADRE_HOST_LINK_ERROR); break;
    case MESSAGE_DONE:
        if (packet->header.run == host->run) on_done(host, packet);
        break;
    default: break;
    }
}

static void read_control(cadre_host *host)
{
    struct packet packet;
    int status = cadre_packet_receive(host->control, &packet, false);
    if (status == 1) {
        on_packet(host, &packet);
        cadre_packet_free(&packet);
    } else if (status == CADRE_ESYSTEM) {
        front_watch(host, host->control, false); /* nobody is left; the pidfd says the rest */
        if (host->host.pid > 0 && host->host.pidfd < 0) host_died(host);
    }
}

static void on_file(cadre_host *host, int file)
{
    if (file == host->output) {
        read_stream(host, file, "stdout", CHUNK);
    } else if (file == host->error) {
        read_stream(host, file, "stderr", CHUNK);
    } else if (file == host->display) {
        (void)read_display(host);
    } else if (file == host->control) {
        /* A display that came before this message is older. */
        while (read_display(host))
            ;
        read_control(host);
    } else if (file == host->kick) {
        uint64_t count;
        if (read(file, &count, sizeof count) < 0) { /* somebody else was faster */
        }
    } else if (same(&host->host, file)) {
        host_died(host);
    } else if (same(&host->copy, file)) {
        copy_ends(host);
        front_reap(host, false);
        /* Nobody is left who could take over. */
        if (host->state == HOST_DEAD && !host->takeover_pid) host->takeover_deadline = front_now();
    } else {
        front_reap(host, false);
    }
}

int front_pump(cadre_host *host)
{
    struct epoll_event events[16];
    int count = epoll_wait(host->epoll, events, 16, 0);
    for (int i = 0; i < count; i++)
        on_file(host, events[i].data.fd);
    front_deadlines(host);
    return count;
}

bool cadre_host_next(cadre_host *host, cadre_host_event *event)
{
    /* Whoever waits for the event before to be published: by now it is. */
    if (host->acknowledge >= 0) {
        (void)send(host->acknowledge, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(host->acknowledge);
        host->acknowledge = -1;
    }
    /* Not everything that arrives becomes an event. The bound is for a cell that sends for ever. */
    for (int i = 0; i < 64 && !host->first; i++)
        if (front_pump(host) <= 0) break;
    struct queued_event *first = host->first;
    if (!first) return false;
    host->first = first->next;
    if (!host->first) host->last = NULL;
    *event = first->event;
    host->acknowledge = first->acknowledge;
    free(first);
    return true;
}

int cadre_host_timeout(const cadre_host *host)
{
    uint64_t first = host->takeover_deadline, now = front_now();
    if (host->first) return 0;
    if (host->interrupt_deadline && (!first || host->interrupt_deadline < first))
        first = host->interrupt_deadline;
    if (!first) return -1;
    return first <= now ? 0 : (int)(first - now);
}
