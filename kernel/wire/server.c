#include "wire/wire_private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

struct cadre_wire_server {
    void *context, *heartbeat_context;
    void *sockets[CADRE_CHANNEL_COUNT];
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
    const int on = 1;
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
        if (failed)
            return cadre_error_set(error, CADRE_ESYSTEM, "a socket option was refused: %s",
                                   zmq_strerror(errno));
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

int cadre_wire_server_wait(cadre_wire_server *server, struct pollfd *descriptors, size_t count,
                           unsigned closed_channels, int timeout_ms)
{
    enum { MOST = 16 };
    zmq_pollitem_t items[CADRE_HEARTBEAT + MOST];
    int used = 0, ready;
    if (count > MOST) return CADRE_EINPUT;
    for (int i = 0; i < CADRE_HEARTBEAT; i++)
        if (!(closed_channels & (1u << i)))
            items[used++] = (zmq_pollitem_t){.socket = server->sockets[i], .events = ZMQ_POLLIN};
    int first = used;
    for (size_t i = 0; i < count; i++) {
        descriptors[i].revents = 0;
        items[used++] = (zmq_pollitem_t){
            .fd = descriptors[i].fd,
            .events = (short)((descriptors[i].events & POLLIN ? ZMQ_POLLIN : 0) |
                              (descriptors[i].events & POLLOUT ? ZMQ_POLLOUT : 0))};
    }
    ready = zmq_poll(items, used, timeout_ms);
    if (ready < 0) return errno == EINTR ? 0 : CADRE_ESYSTEM;
    for (size_t i = 0; i < count; i++) {
        short got = items[first + (int)i].revents;
        descriptors[i].revents =
            (short)((got & ZMQ_POLLIN ? POLLIN : 0) | (got & ZMQ_POLLOUT ? POLLOUT : 0) |
                    (got & ZMQ_POLLERR ? POLLERR : 0));
    }
    return ready;
}

cadre_message *cadre_wire_server_receive(cadre_wire_server *server, cadre_channel channel,
                                         cadre_error *error)
{
    return receive_message(server->sockets[channel], server->sender.signer, server->replay, error);
}

void cadre_wire_server_welcome(cadre_wire_server *server)
{
    enum { TOPIC_LIMIT = 1024 };
    zmq_msg_t part;
    void *socket = server->sockets[CADRE_IOPUB];
    for (;;) {
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            int problem = errno;
            zmq_msg_close(&part);
            if (problem == EINTR) continue;
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
