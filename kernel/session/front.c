/* The front's main thread: start, wait, hand out, end. */
#include "session/front.h"
#include "session/lifeline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { PARENT_INTERVAL = 1000, LINGER = 1000, MESSAGES_AT_A_TIME = 100, LAUNCH_DELAY = 30 };

void front_log(const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* One line whatever a stranger put into it. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    fprintf(stderr, "cadre-kernel: %s\n", text);
}

int64_t front_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void publish(front *self, const cadre_message *parent, const char *topic,
                    cadre_outgoing *message)
{
    cadre_error error = {0};
    /* Cells wait for a client that does not read; questions on the side go on being answered, but
     * nobody is told of them any more: they may be without number. */
    bool is_dropped = parent && cadre_wire_server_unsent(self->server) > HOSTING_UNREAD;
    if (is_dropped && !self->is_dropping)
        front_log("a client does not read what is published: the state messages of questions are "
                  "left out until it does");
    self->is_dropping = is_dropped || (self->is_dropping && !parent);
    if (is_dropped) return;
    message->topic = topic;
    message->request = parent;
    if (!parent) {
        message->parent = self->parent;
        message->parent_length = self->parent_length;
    }
    if (cadre_wire_server_send(self->server, CADRE_IOPUB, message, &error) < 0)
        front_log("%s", error.message);
}

void front_publish(front *self, const cadre_message *parent, const char *type, json_t *content)
{
    cadre_outgoing message = {.type = type, .content = content};
    if (content)
        publish(self, parent, NULL, &message);
    else
        front_log("no memory: a %s was not published", type);
    json_decref(content);
}

void front_publish_message(front *self, const cadre_outgoing *message)
{
    cadre_outgoing copy = *message;
    publish(self, NULL, NULL, &copy);
}

void front_status(front *self, const cadre_message *parent, const char *state)
{
    char content[64];
    cadre_outgoing message = {.type = "status", .content_text = content};
    int length = snprintf(content, sizeof content, "{\"execution_state\":\"%.32s\"}", state);
    message.content_length = (size_t)length;
    publish(self, parent, NULL, &message);
    /* Clients take the last status for the kernel's: it still works when it has answered a
     * question on the side. */
    if (parent && self->current && strcmp(state, "idle") == 0) front_status(self, NULL, "busy");
}

void front_reply(front *self, cadre_channel channel, const cadre_message *to, const char *type,
                 json_t *content, const json_t *metadata)
{
    cadre_error error = {0};
    cadre_outgoing message = {
        .type = type, .request = to, .content = content, .metadata = metadata};
    if (!content)
        front_log("no memory: a %s was not sent", type);
    else if (cadre_wire_server_send(self->server, channel, &message, &error) < 0)
        front_log("%s", error.message);
    json_decref(content);
}

void front_reply_text(front *self, cadre_channel channel, const cadre_message *to, const char *type,
                      const char *content)
{
    cadre_error error = {0};
    cadre_outgoing message = {
        .type = type, .request = to, .content_text = content, .content_length = strlen(content)};
    if (cadre_wire_server_send(self->server, channel, &message, &error) < 0)
        front_log("%s", error.message);
}

static void publish_stream(void *context, stream_name name, const char *text, size_t length)
{
    front *self = context;
    cadre_buffer content = {0};
    if (execute_is_silent(self)) return;
    cadre_buffer_puts(&content, name == STREAM_STDERR ? "{\"name\":\"stderr\",\"text\":\""
                                                      : "{\"name\":\"stdout\",\"text\":\"");
    cadre_buffer_append(&content, text, length);
    cadre_buffer_puts(&content, "\"}");
    if (content.failed) {
        front_log("no memory: %zu bytes of output are lost", length);
    } else {
        cadre_outgoing message = {
            .type = "stream", .content_text = content.data, .content_length = content.length};
        publish(self, NULL, name == STREAM_STDERR ? "stream.stderr" : "stream.stdout", &message);
    }
    cadre_buffer_free(&content);
}

void front_note(front *self, const char *text)
{
    cadre_buffer line = {0};
    cadre_buffer_puts(&line, text);
    if (line.length == 0 || line.data[line.length - 1] != '\n') cadre_buffer_puts(&line, "\n");
    if (!line.failed)
        streams_add(&self->streams, STREAM_STDERR, line.data, line.length, front_clock());
    cadre_buffer_free(&line);
}

void front_interrupt(front *self)
{
    execute_interrupt(self);
}

/* ---- signals and the parent */

static int block_signals(cadre_error *error)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    int fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) cadre_error_set(error, CADRE_ESYSTEM, "no signalfd: %s", strerror(errno));
    return fd;
}

static void take_signals(front *self)
{
    struct signalfd_siginfo info;
    while (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGINT)
            front_interrupt(self);
        else
            self->ending = true;
    }
}

/* JPY_PARENT_PID names who started us. Under a wrapper it is not our parent: then the wrapper's
 * end is what can be seen. Without the variable, or in a container's process 1, nobody is watched.
 */
static void find_parent(front *self)
{
    const char *text = getenv("JPY_PARENT_PID");
    char *end;
    self->parent_pid = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || self->parent_pid <= 1) self->parent_pid = 0;
    self->first_parent = getppid();
    if (self->parent_pid && self->first_parent <= 1) self->parent_pid = 0;
    self->parent_check = front_clock() + PARENT_INTERVAL;
}

static void check_parent(front *self, int64_t now)
{
    if (!self->parent_pid || now < self->parent_check) return;
    self->parent_check = now + PARENT_INTERVAL;
    if (getppid() == self->first_parent) return;
    front_log("the process that started the kernel has ended: the kernel ends");
    self->ending = true;
}

/* ---- the loop */

static void take_messages(front *self, cadre_channel channel)
{
    for (int i = 0; i < MESSAGES_AT_A_TIME && !self->ending; i++) {
        cadre_error problem = {0};
        cadre_message *message = cadre_wire_server_receive(self->server, channel, &problem);
        if (message && channel == CADRE_STDIN) {
            execute_input_reply(self, message);
        } else if (message) {
            self->launch_at = 0;
            if (channel == CADRE_SHELL) rest_end(self);
            front_handle(self, channel, message);
        } else if (problem.code) {
            static const char *const names[] = {"shell", "control", "stdin"};
            front_log("a message on %s was dropped: %s", names[channel], problem.message);
        } else {
            return;
        }
    }
}

static void take_jobs(front *self, worker *from)
{
    if (!from) return;
    for (job *work; (work = worker_take(from));)
        work->done(self, work);
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static int left(int64_t until, int64_t now)
{
    return until > now ? (int)(until - now) : 0;
}

static int next_timeout(const front *self, int64_t now)
{
    int timeout = streams_timeout(&self->streams, now);
    timeout = sooner(timeout, execute_timeout(self, now));
    if (!self->is_launched) timeout = sooner(timeout, left(self->launch_at, now));
    if (self->host) timeout = sooner(timeout, cadre_host_timeout(self->host));
    if (self->output_is_paused || execute_waits_for_readers(self))
        timeout = sooner(timeout, STREAMS_INTERVAL);
    timeout = sooner(timeout, assist_timeout(self, now));
    timeout = sooner(timeout, rest_timeout(self, now));
    if (self->parent_pid) timeout = sooner(timeout, left(self->parent_check, now));
    return timeout;
}

/* Compiler and host come up after the first answer: a client that starts a kernel waits for that
 * answer, and they would take its processor time. */
static void launch(front *self)
{
    cadre_error problem = {0};
    self->is_launched = true;
    lifeline_begin(self);
    engine_open(self);
    /* Without a host the front still answers; the first cell says what is wrong. */
    if (hosting_start(self, &problem) < 0) front_log("%s", problem.message);
}

static int serve(front *self, cadre_error *error)
{
    while (!self->ending) {
        struct pollfd fds[5];
        size_t count = 0;
        fds[count++] = (struct pollfd){.fd = self->signal_fd, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = worker_fd(self->engine_worker), .events = POLLIN};
        if (self->usage_worker)
            fds[count++] = (struct pollfd){.fd = worker_fd(self->usage_worker), .events = POLLIN};
        worker *writer = recorder_worker(self->recorder);
        if (writer) fds[count++] = (struct pollfd){.fd = worker_fd(writer), .events = POLLIN};
        if (self->host)
            fds[count++] = (struct pollfd){.fd = cadre_host_fd(self->host), .events = POLLIN};
        if (assist_fd(self) >= 0)
            fds[count++] = (struct pollfd){.fd = assist_fd(self), .events = POLLIN};
        unsigned closed = execute_is_full(self) ? 1u << CADRE_SHELL : 0;
        if (cadre_wire_server_wait(self->server, fds, count, closed,
                                   next_timeout(self, front_clock())) < 0)
            return cadre_error_set(error, CADRE_ESYSTEM, "waiting failed: %s", strerror(errno));
        cadre_wire_server_welcome(self->server);
        if (fds[0].revents) take_signals(self);
        take_messages(self, CADRE_CONTROL);
        take_messages(self, CADRE_STDIN);
        take_jobs(self, self->engine_worker);
        take_jobs(self, self->usage_worker);
        take_jobs(self, writer);
        hosting_events(self);
        assist_answers(self);
        if (!closed) take_messages(self, CADRE_SHELL);
        if (!self->is_launched && front_clock() >= self->launch_at) launch(self);
        execute_tick(self, front_clock());
        execute_advance(self);
        streams_tick(&self->streams, front_clock());
        hosting_pause(self);
        check_parent(self, front_clock());
        rest_tick(self, front_clock());
    }
    return 0;
}

static int open_all(front *self, cadre_error *error)
{
    int status = cadre_connection_read(&self->connection, self->options->connection_file, error);
    if (status < 0) return status;
    bool choose = false;
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++)
        choose = choose || self->connection.ports[i] == 0;
    self->server = cadre_wire_server_bind(&self->connection, error);
    if (!self->server) return CADRE_ESYSTEM;
    if (choose && (status = cadre_connection_write(&self->connection,
                                                   self->options->connection_file, error)) < 0)
        return status;
    if (!*self->connection.key)
        front_log("the connection file has no key: messages are not signed");
    streams_init(&self->streams, publish_stream, self);
    cadre_wire_server_welcome(self->server);
    front_status(self, NULL, "starting");
    self->recorder = recorder_new();
    if (!self->recorder || parameters_init(&self->parameters, self->options->kernelspec_dir,
                                           getenv("CADRE_PARAMETERS")) < 0)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory");
    rest_init(self);
    self->engine_worker = worker_start(error);
    self->launch_at = front_clock() + LAUNCH_DELAY;
    return self->engine_worker ? 0 : CADRE_ESYSTEM;
}

static void close_all(front *self)
{
    hosting_stop(self);
    if (self->engine_worker) engine_stop(self);
    usage_free(self);
    assist_free_all(self);
    comms_free(self);
    lifeline_end(self);
    execute_free_all(self);
    cadre_wire_server_close(self->server, LINGER);
    streams_free(&self->streams);
    recorder_free(self);
    parameters_free(&self->parameters);
    free(self->generation_counts);
    free(self->parent);
    free(self->loss);
    free(self->info);
    if (self->signal_fd >= 0) close(self->signal_fd);
}

int cadre_session_run(const cadre_session_options *options, cadre_error *error)
{
    front self = {.options = options, .execution_count = 1, .names_are_old = true};
    int status;
    self.signal_fd = block_signals(error);
    find_parent(&self);
    if (self.signal_fd < 0)
        status = CADRE_ESYSTEM;
    else if ((status = open_all(&self, error)) == 0)
        status = serve(&self, error);
    self.ending = true;
    close_all(&self);
    return status;
}
