#include "wire/wire_private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

struct cadre_client {
    void *context;
    void *sockets[CADRE_HEARTBEAT];
    sender sender;
};

static int open_sockets(cadre_client *client, const cadre_connection *connection,
                        cadre_error *error)
{
    static const int types[] = {ZMQ_DEALER, ZMQ_DEALER, ZMQ_DEALER, ZMQ_SUB};
    cadre_connection target = *connection;
    if (strcmp(target.ip, "0.0.0.0") == 0 || strcmp(target.ip, "*") == 0)
        memcpy(target.ip, "127.0.0.1", sizeof "127.0.0.1");
    for (int i = 0; i < CADRE_HEARTBEAT; i++) {
        char url[512];
        const int none = 0;
        int status = cadre_connection_url(&target, (cadre_channel)i, url, sizeof url, error);
        if (status < 0) return status;
        void *socket = client->sockets[i] = zmq_socket(client->context, types[i]);
        if (!socket)
            return cadre_error_set(error, CADRE_ESYSTEM, "no socket: %s", zmq_strerror(errno));
        if ((status = socket_prepare(socket, &target, false, error)) < 0) return status;
        int failed = zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
        /* The same identity on all three: input requests come to whoever sent the cell. */
        if (i == CADRE_IOPUB)
            failed |= zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
        else
            failed |= zmq_setsockopt(socket, ZMQ_ROUTING_ID, client->sender.session,
                                     strlen(client->sender.session));
        if (failed || zmq_connect(socket, url) < 0)
            return cadre_error_set(error, CADRE_ESYSTEM, "cannot connect to %.300s: %s", url,
                                   zmq_strerror(errno));
    }
    return 0;
}

cadre_client *cadre_client_open(const cadre_connection *connection, cadre_error *error)
{
    cadre_client *client = calloc(1, sizeof *client);
    if (!client) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return NULL;
    }
    /* Signals stay with the caller's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    client->context = zmq_ctx_new();
    int status = client->context ? sender_init(&client->sender, connection, error)
                                 : cadre_error_set(error, CADRE_EMEMORY, "no memory");
    if (status == 0) status = open_sockets(client, connection, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0) return client;
    cadre_client_close(client);
    return NULL;
}

void cadre_client_close(cadre_client *client)
{
    if (!client) return;
    for (int i = 0; i < CADRE_HEARTBEAT; i++)
        if (client->sockets[i]) zmq_close(client->sockets[i]);
    if (client->context)
        while (zmq_ctx_term(client->context) < 0 && errno == EINTR)
            continue;
    sender_free(&client->sender);
    free(client);
}

const char *cadre_client_session(const cadre_client *client)
{
    return client->sender.session;
}

int cadre_client_send(cadre_client *client, cadre_channel channel, const char *type,
                      const json_t *content, const json_t *metadata, char id[CADRE_ID_SIZE],
                      cadre_error *error)
{
    cadre_outgoing outgoing = {.type = type, .content = content, .metadata = metadata, .id = id};
    if (channel > CADRE_STDIN)
        return cadre_error_set(error, CADRE_EINPUT, "nothing is sent on this channel");
    return sender_send(&client->sender, client->sockets[channel], NULL, 0, &outgoing, NULL, error);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

cadre_message *cadre_client_receive(cadre_client *client, int timeout_ms, int wake_fd,
                                    cadre_channel *channel, cadre_error *error)
{
    /* Output first, so that a reply is not seen before what was published before it, as far as
     * two sockets allow. */
    static const cadre_channel order[CADRE_HEARTBEAT] = {CADRE_IOPUB, CADRE_STDIN, CADRE_SHELL,
                                                         CADRE_CONTROL};
    int64_t end = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
    for (;;) {
        zmq_pollitem_t items[CADRE_HEARTBEAT + 1];
        for (int i = 0; i < CADRE_HEARTBEAT; i++) {
            cadre_error problem = {0};
            cadre_message *message;
            do {
                message = receive_message(client->sockets[order[i]], client->sender.signer, NULL,
                                          &problem);
            } while (!message && problem.code != 0 && problem.code != CADRE_ESYSTEM);
            if (message) {
                *channel = order[i];
                return message;
            }
            if (problem.code) {
                cadre_error_set(error, problem.code, "%s", problem.message);
                return NULL;
            }
            items[i] = (zmq_pollitem_t){.socket = client->sockets[i], .events = ZMQ_POLLIN};
        }
        items[CADRE_HEARTBEAT] = (zmq_pollitem_t){.fd = wake_fd, .events = ZMQ_POLLIN};
        int64_t left = timeout_ms < 0 ? -1 : end - now_ms();
        if (timeout_ms >= 0 && left <= 0) {
            cadre_error_set(error, CADRE_ETIMEOUT, "no message within %d ms", timeout_ms);
            return NULL;
        }
        int ready = zmq_poll(items, CADRE_HEARTBEAT + (wake_fd >= 0), (long)left);
        if (ready < 0) {
            cadre_error_set(error, errno == EINTR ? CADRE_EINTERRUPT : CADRE_ESYSTEM,
                            "waiting for messages: %s", zmq_strerror(errno));
            return NULL;
        }
        bool any = false;
        for (int i = 0; i < CADRE_HEARTBEAT; i++)
            any = any || items[i].revents;
        if (!any && wake_fd >= 0 && items[CADRE_HEARTBEAT].revents) {
            cadre_error_set(error, CADRE_EINTERRUPT, "woken while waiting for messages");
            return NULL;
        }
    }
}

cadre_message *cadre_client_wait_ready(cadre_client *client, int timeout_ms, int wake_fd,
                                       cadre_error *error)
{
    enum { AGAIN = 200 };
    int64_t end = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms, ask = 0;
    cadre_message *info = NULL;
    bool heard = false;
    while (!info || !heard) {
        int64_t now = now_ms();
        if (now >= end) {
            cadre_error_set(error, CADRE_ETIMEOUT, "the kernel did not answer within %d ms",
                            timeout_ms);
            goto fail;
        }
        if (now >= ask) {
            if (cadre_client_send(client, CADRE_SHELL, "kernel_info_request", NULL, NULL, NULL,
                                  error) < 0)
                goto fail;
            ask = now + AGAIN;
        }
        int64_t until = ask < end ? ask : end;
        cadre_channel channel;
        cadre_error problem = {0};
        cadre_message *message =
            cadre_client_receive(client, (int)(until - now), wake_fd, &channel, &problem);
        if (!message && problem.code != CADRE_ETIMEOUT) {
            if (error) *error = problem;
            goto fail;
        }
        if (message && channel == CADRE_IOPUB) {
            heard = true;
        } else if (message && strcmp(message->type, "kernel_info_reply") == 0) {
            cadre_message_free(info);
            info = message;
            continue;
        }
        cadre_message_free(message);
    }
    return info;
fail:
    cadre_message_free(info);
    return NULL;
}
