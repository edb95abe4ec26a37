#include "wire/wire_private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

struct cadre_wire_server {
    void *context, *heartbeat_context;
    void *sockets[CADRE_CHANNEL_COUNT];
    int signals[CADRE_HEARTBEAT]; /* ZMQ_FD of each socket, borrowed from it */
    /* Bit masks of channels. Asking libzmq costs a system call each time, so it is asked only
     * where something may have changed. */
    unsigned ready;  /* a message is there */
    unsigned unsure; /* sent or received since: libzmq may have taken the signal, so ask it */
    unsigned empty;  /* seen empty by the last wait: the next receive need not ask */
    bool has_heartbeat;
    pthread_t heartbeat;
    sender sender;
    cadre_replay *replay;
    atomic_size_t unsent;
    char *files[CADRE_CHANNEL_COUNT]; /* sockets of ipc, which libzmq leaves behind */
};

static const char *const channel_names[CADRE_CHANNEL_COUNT] = {"shell", "control", "stdin", "iopub",
                                                               "heartbeat"};

/* Echoes every frame; ends when its context is shut down. The socket was made by the thread that
 * started this one, which does not touch it any more. */
static void *run_heartbeat(void *socket)
{
    zmq_proxy(socket, socket, NULL);
    zmq_close(socket);
    return NULL;
}

static void *make_socket(void *context, int type, const cadre_connection *connection,
                         cadre_error *error)
{
    void *socket = zmq_socket(context, type);
    if (!socket) {
        cadre_error_set(error, CADRE_ESYSTEM, "no socket: %s", zmq_strerror(errno));
        return NULL;
    }
    if (socket_prepare(socket, connection, true, error) < 0) {
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

static int bind_socket(cadre_wire_server *server, void *socket, cadre_connection *connection,
                       cadre_channel channel, cadre_error *error)
{
    char url[512], bound[512];
    size_t size = sizeof bound;
    bool is_ipc = strcmp(connection->transport, "ipc") == 0;
    int status;
    if (is_ipc && connection->ports[channel] == 0) connection->ports[channel] = (int)channel + 1;
    if ((status = cadre_connection_url(connection, channel, url, sizeof url, error)) < 0)
        return status;
    if (!is_ipc && connection->ports[channel] == 0) {
        char *colon = strrchr(url, ':');
        snprintf(colon, sizeof url - (size_t)(colon - url), ":*");
    }
    if (zmq_bind(socket, url) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "%s cannot be bound to %.300s: %s",
                               channel_names[channel], url, zmq_strerror(errno));
    if (is_ipc) {
        server->files[channel] = strdup(url + sizeof "ipc://" - 1);
        chmod(url + sizeof "ipc://" - 1, 0600);
    } else if (connection->ports[channel] == 0 &&
               zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) == 0 &&
               strrchr(bound, ':')) {
        connection->ports[channel] = (int)strtol(strrchr(bound, ':') + 1, NULL, 10);
    }
    return 0;
}

static int start_heartbeat(cadre_wire_server *server, cadre_connection *connection,
                           cadre_error *error)
{
    /* A context of its own: the heartbeat is not late when the others are busy. */
    server->heartbeat_context = zmq_ctx_new();
    if (!server->heartbeat_context)
        return cadre_error_set(error, CADRE_ESYSTEM, "no ZeroMQ context: %s", zmq_strerror(errno));
    void *socket = make_socket(server->heartbeat_context, ZMQ_ROUTER, connection, error);
    if (!socket) return CADRE_ESYSTEM;
    int status = bind_socket(server, socket, connection, CADRE_HEARTBEAT, error);
    if (status == 0 && pthread_create(&server->heartbeat, NULL, run_heartbeat, socket) != 0)
        status = cadre_error_set(error, CADRE_ESYSTEM, "no thread for the heartbeat");
    if (status < 0)
        zmq_close(socket);
    else
        server->has_heartbeat = true;
    return status;
}

static int bind_all(cadre_wire_server *server, cadre_connection *connection, cadre_error *error)
{
    static const int types[] = {ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_XPUB};
    /* A client that asks and never reads: from so many unread answers on its own are dropped. */
    const int on = 1, most_answers = 50000;
    for (int i = 0; i < CADRE_HEARTBEAT; i++) {
        void *socket = make_socket(server->context, types[i], connection, error);
        if (!socket) return CADRE_ESYSTEM;
        server->sockets[i] = socket;
        /* A client that comes back with its identity takes the place of its dead connection;
         * every subscription is told, also the second one to the same topic. */
        int option = i == CADRE_IOPUB ? ZMQ_XPUB_VERBOSE : ZMQ_ROUTER_HANDOVER;
        int failed = zmq_setsockopt(socket, option, &on, sizeof on);
        if (i == CADRE_STDIN)
            failed |= zmq_setsockopt(socket, ZMQ_ROUTER_MANDATORY, &on, sizeof on);
        else if (i != CADRE_IOPUB)
            failed |= zmq_setsockopt(socket, ZMQ_SNDHWM, &most_answers, sizeof most_answers);
        if (failed)
            return cadre_error_set(error, CADRE_ESYSTEM, "a socket option was refused: %s",
                                   zmq_strerror(errno));
        size_t size = sizeof server->signals[i];
        if (zmq_getsockopt(socket, ZMQ_FD, &server->signals[i], &size) < 0)
            return cadre_error_set(error, CADRE_ESYSTEM, "no descriptor of a socket: %s",
                                   zmq_strerror(errno));
        server->unsure |= 1u << i;
        int status = bind_socket(server, socket, connection, (cadre_channel)i, error);
        if (status < 0) return status;
    }
    return start_heartbeat(server, connection, error);
}

cadre_wire_server *cadre_wire_server_bind(cadre_connection *connection, cadre_error *error)
{
    cadre_wire_server *server = calloc(1, sizeof *server);
    if (!server) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return NULL;
    }
    /* Signals belong to the caller's main thread: libzmq's threads inherit this mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    server->context = zmq_ctx_new();
    server->replay = cadre_replay_new();
    int status = server->context && server->replay
                     ? sender_init(&server->sender, connection, error)
                     : cadre_error_set(error, CADRE_EMEMORY, "no memory");
    if (status == 0) status = bind_all(server, connection, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0) return server;
    cadre_wire_server_close(server, 0);
    return NULL;
}

void cadre_wire_server_close(cadre_wire_server *server, int linger_ms)
{
    if (!server) return;
    if (server->heartbeat_context) zmq_ctx_shutdown(server->heartbeat_context);
    if (server->has_heartbeat) pthread_join(server->heartbeat, NULL);
    if (server->heartbeat_context) zmq_ctx_term(server->heartbeat_context);
    for (int i = 0; i < CADRE_HEARTBEAT; i++) {
        if (!server->sockets[i]) continue;
        zmq_setsockopt(server->sockets[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(server->sockets[i]);
    }
    if (server->context)
        while (zmq_ctx_term(server->context) < 0 && errno == EINTR)
            continue;
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++) {
        if (server->files[i]) unlink(server->files[i]);
        free(server->files[i]);
    }
    sender_free(&server->sender);
    cadre_replay_free(server->replay);
    free(server);
}

const char *cadre_wire_server_session(const cadre_wire_server *server)
{
    return server->sender.session;
}

static void look(cadre_wire_server *server, int channel)
{
    int events = 0;
    size_t size = sizeof events;
    zmq_getsockopt(server->sockets[channel], ZMQ_EVENTS, &events, &size);
    server->unsure &= ~(1u << channel);
    if (events & ZMQ_POLLIN) server->ready |= 1u << channel;
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Not zmq_poll: it asks every socket twice for each message. */
int cadre_wire_server_wait(cadre_wire_server *server, struct pollfd *descriptors, size_t count,
                           unsigned closed_channels, int timeout_ms)
{
    enum { MOST = 16, ALL = (1 << CADRE_HEARTBEAT) - 1 };
    struct pollfd items[CADRE_HEARTBEAT + MOST];
    unsigned open = ALL & ~closed_channels;
    int64_t end = timeout_ms > 0 ? clock_ms() + timeout_ms : 0;
    int found = 0;
    if (count > MOST) return CADRE_EINPUT;
    for (;;) {
        for (int i = 0; i < CADRE_HEARTBEAT; i++) {
            if (server->unsure & open & (1u << i)) look(server, i);
            /* poll passes over negative descriptors. */
            items[i] =
                (struct pollfd){.fd = open & (1u << i) ? server->signals[i] : -1, .events = POLLIN};
        }
        for (size_t i = 0; i < count; i++)
            items[CADRE_HEARTBEAT + i] = descriptors[i];
        int got = poll(items, CADRE_HEARTBEAT + count, server->ready & open ? 0 : timeout_ms);
        if (got < 0 && errno != EINTR) return CADRE_ESYSTEM;
        for (int i = 0; i < CADRE_HEARTBEAT; i++) {
            if (got > 0 && items[i].revents) look(server, i);
            found += (server->ready & open & (1u << i)) != 0;
        }
        for (size_t i = 0; i < count; i++) {
            descriptors[i].revents = got > 0 ? items[CADRE_HEARTBEAT + i].revents : 0;
            found += descriptors[i].revents != 0;
        }
        /* A signal of libzmq need not mean a message: somebody connected, say. */
        if (found || got <= 0) break;
        if (timeout_ms > 0) {
            int64_t left = end - clock_ms();
            timeout_ms = left > 0 ? (int)left : 0;
        }
    }
    server->empty = open & ~server->ready;
    return found;
}

/* True, once after a wait that saw the channel empty. */
static bool is_empty(cadre_wire_server *server, cadre_channel channel)
{
    bool empty = server->empty & (1u << channel);
    server->empty &= ~(1u << channel);
    return empty;
}

cadre_message *cadre_wire_server_receive(cadre_wire_server *server, cadre_channel channel,
                                         cadre_error *error)
{
    if (error) error->code = 0;
    if (is_empty(server, channel)) return NULL;
    cadre_error problem = {0};
    cadre_message *message =
        receive_message(server->sockets[channel], server->sender.signer, server->replay, &problem);
    server->ready &= ~(1u << channel);
    if (message || problem.code)
        server->unsure |= 1u << channel; /* there may be more */
    else
        server->unsure &= ~(1u << channel);
    if (error && problem.code) *error = problem;
    return message;
}

void cadre_wire_server_welcome(cadre_wire_server *server)
{
    enum { TOPIC_LIMIT = 1024 };
    zmq_msg_t part;
    void *socket = server->sockets[CADRE_IOPUB];
    if (is_empty(server, CADRE_IOPUB)) return;
    for (;;) {
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            int problem = errno;
            zmq_msg_close(&part);
            if (problem == EINTR) continue;
            server->ready &= ~(1u << CADRE_IOPUB);
            return;
        }
        const char *data = zmq_msg_data(&part);
        size_t length = zmq_msg_size(&part);
        json_t *topic = NULL;
        /* 1 + topic subscribes; anything else, or a topic that is not text, is ignored. */
        if (length > 0 && data[0] == 1 && length <= TOPIC_LIMIT)
            topic = json_stringn(data + 1, length - 1);
        if (topic) {
            cadre_bytes to = {data + 1, length - 1};
            json_t *content = json_pack("{sO}", "subscription", topic);
            cadre_outgoing welcome = {.type = "iopub_welcome", .content = content};
            if (content)
                sender_send(&server->sender, socket, &to, 1, &welcome, &server->unsent, NULL);
            json_decref(content);
            json_decref(topic);
        }
        zmq_msg_close(&part);
    }
}

int cadre_wire_server_send(cadre_wire_server *server, cadre_channel channel,
                           const cadre_outgoing *outgoing, cadre_error *error)
{
    void *socket = server->sockets[channel];
    server->unsure |= 1u << channel;
    if (channel == CADRE_IOPUB) {
        char made[160];
        if (!outgoing->topic)
            snprintf(made, sizeof made, "kernel.%s.%.80s", server->sender.session, outgoing->type);
        const char *topic = outgoing->topic ? outgoing->topic : made;
        cadre_bytes to = {topic, strlen(topic)};
        return sender_send(&server->sender, socket, &to, 1, outgoing, &server->unsent, error);
    }
    if (!outgoing->request)
        return cadre_error_set(error, CADRE_EINPUT, "%s: no request to answer", outgoing->type);
    return sender_send(&server->sender, socket, outgoing->request->identities,
                       outgoing->request->identity_count, outgoing, NULL, error);
}

size_t cadre_wire_server_unsent(const cadre_wire_server *server)
{
    return atomic_load_explicit(&server->unsent, memory_order_relaxed);
}
