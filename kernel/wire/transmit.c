#include "wire/wire_private.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define HARD_LIMIT ((int64_t)256 << 20) /* a frame above it ends the connection (libzmq) */

int sender_init(sender *self, const cadre_connection *connection, cadre_error *error)
{
    *self = (sender){0};
    self->signer = cadre_signer_new(connection->signature_scheme, connection->key,
                                    strlen(connection->key), error);
    if (!self->signer) return CADRE_EINPUT;
    cadre_uuid(self->session);
    const char *user = getenv("USER");
    cadre_buffer escaped = {0};
    cadre_json_escape(&escaped, user && *user ? user : "user",
                      user && *user ? strnlen(user, 40) : 4, true);
    if (!escaped.failed && escaped.length < sizeof self->user)
        snprintf(self->user, sizeof self->user, "%s", escaped.data);
    cadre_buffer_free(&escaped);
    return 0;
}

void sender_free(sender *self)
{
    cadre_signer_free(self->signer);
    self->signer = NULL;
}

/* The last JSON frame of a counted message. Freed by libzmq, in one of its threads, when no
 * client needs it any more. */
typedef struct counted {
    atomic_size_t *unsent; /* written by the owner (add) and by libzmq's threads (subtract);
                              only its size matters, no order with other memory */
    size_t amount;
    char bytes[];
} counted;

static void counted_free(void *data, void *hint)
{
    counted *block = hint;
    (void)data;
    if (block->unsent)
        atomic_fetch_sub_explicit(block->unsent, block->amount, memory_order_relaxed);
    free(block);
}

static int send_bytes(void *socket, cadre_bytes bytes, bool more)
{
    int sent;
    do
        sent = zmq_send(socket, bytes.data, bytes.length, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

static int send_content(void *socket, cadre_bytes content, size_t amount, atomic_size_t *unsent,
                        bool more)
{
    zmq_msg_t part;
    counted *block = malloc(sizeof *block + content.length + 1);
    if (!block) {
        errno = ENOMEM;
        return -1;
    }
    block->unsent = unsent;
    block->amount = amount;
    memcpy(block->bytes, content.data, content.length);
    if (zmq_msg_init_data(&part, block->bytes, content.length, counted_free, block) < 0) {
        free(block);
        return -1;
    }
    if (unsent) atomic_fetch_add_explicit(unsent, amount, memory_order_relaxed);
    int sent;
    do
        sent = zmq_msg_send(&part, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        int saved = errno;
        zmq_msg_close(&part);
        errno = saved;
        return -1;
    }
    return 0;
}

int sender_send(sender *self, void *socket, const cadre_bytes *to, size_t to_count,
                const cadre_outgoing *outgoing, atomic_size_t *unsent, cadre_error *error)
{
    char id[CADRE_ID_SIZE], date[CADRE_DATE_SIZE], signature[CADRE_SIGNATURE_SIZE];
    char *content = NULL, *metadata = NULL;
    cadre_buffer header = {0};
    int status = 0;

    cadre_date_now(date);
    snprintf(id, sizeof id, "%s_%" PRIu64, self->session, ++self->count);
    if (outgoing->id) snprintf(outgoing->id, CADRE_ID_SIZE, "%s", id);
    cadre_buffer_printf(&header,
                        "{\"msg_id\":\"%s\",\"session\":\"%s\",\"username\":\"%s\",\"date\":\"%s\","
                        "\"msg_type\":\"%s\",\"version\":\"5.5\"}",
                        id, self->session, self->user, date, outgoing->type);
    cadre_bytes parts[4] = {{header.data, header.length}, {"{}", 2}, {"{}", 2}, {"{}", 2}};
    if (outgoing->request)
        parts[1] = outgoing->request->header_bytes;
    else if (outgoing->parent)
        parts[1] = (cadre_bytes){outgoing->parent, outgoing->parent_length};
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    if (outgoing->metadata) {
        metadata = json_dumps(outgoing->metadata, flags);
        if (metadata) parts[2] = (cadre_bytes){metadata, strlen(metadata)};
    }
    if (outgoing->content_text) {
        parts[3] = (cadre_bytes){outgoing->content_text, outgoing->content_length};
    } else if (outgoing->content) {
        content = json_dumps(outgoing->content, flags);
        if (content) parts[3] = (cadre_bytes){content, strlen(content)};
    }
    if (header.failed || (outgoing->metadata && !metadata) ||
        (outgoing->content && !outgoing->content_text && !content)) {
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory for a %s", outgoing->type);
        goto done;
    }
    cadre_signer_sign(self->signer, parts, 4, signature);

    cadre_bytes delimiter = {DELIMITER, sizeof DELIMITER - 1},
                signed_by = {signature, strlen(signature)};
    size_t amount = 550; /* what libzmq keeps beside the bytes, as measured */
    for (int i = 0; i < 4; i++)
        amount += parts[i].length + 64;
    bool failed = false;
    for (size_t i = 0; i < to_count && !failed; i++)
        failed = send_bytes(socket, to[i], true) < 0;
    failed = failed || send_bytes(socket, delimiter, true) < 0;
    failed = failed || send_bytes(socket, signed_by, true) < 0;
    for (int i = 0; i < 3 && !failed; i++)
        failed = send_bytes(socket, parts[i], true) < 0;
    failed =
        failed || send_content(socket, parts[3], amount, unsent, outgoing->buffer_count > 0) < 0;
    for (size_t i = 0; i < outgoing->buffer_count && !failed; i++)
        failed = send_bytes(socket, outgoing->buffers[i], i + 1 < outgoing->buffer_count) < 0;
    if (failed)
        status = cadre_error_set(error, errno == EHOSTUNREACH ? CADRE_ENOTFOUND : CADRE_ESYSTEM,
                                 "%s could not be sent: %s", outgoing->type, zmq_strerror(errno));
done:
    cadre_buffer_free(&header);
    free(content);
    free(metadata);
    return status;
}

enum { FRAME_LIMIT = 8192 };

cadre_message *receive_message(void *socket, const cadre_signer *signer, cadre_replay *replay,
                               cadre_error *error)
{
    zmq_msg_t *parts = NULL;
    cadre_bytes *frames = NULL;
    size_t count = 0, capacity = 0;
    bool more = true, overflow = false;
    cadre_message *message = NULL;
    if (error) error->code = 0;
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            int problem = errno;
            zmq_msg_close(&part);
            if (problem == EINTR) continue;
            if (problem != EAGAIN || count > 0)
                cadre_error_set(error, CADRE_ESYSTEM, "cannot receive: %s", zmq_strerror(problem));
            goto done;
        }
        more = zmq_msg_more(&part);
        if (count == capacity && !overflow) {
            size_t wanted = capacity ? capacity * 2 : 16;
            zmq_msg_t *grown = wanted <= FRAME_LIMIT ? malloc(wanted * sizeof *grown) : NULL;
            if (grown) {
                /* A zmq_msg_t must not be copied as bytes. */
                for (size_t i = 0; i < count; i++) {
                    zmq_msg_init(&grown[i]);
                    zmq_msg_move(&grown[i], &parts[i]);
                    zmq_msg_close(&parts[i]);
                }
                free(parts);
                parts = grown;
                capacity = wanted;
            } else {
                overflow = true;
            }
        }
        if (!overflow) {
            zmq_msg_init(&parts[count]);
            zmq_msg_move(&parts[count++], &part);
        }
        zmq_msg_close(&part);
    }
    frames = overflow ? NULL : malloc(count * sizeof *frames);
    if (!frames) {
        cadre_error_set(error, overflow ? CADRE_EINPUT : CADRE_EMEMORY,
                        overflow ? "too many frames" : "no memory");
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        frames[i] = (cadre_bytes){zmq_msg_data(&parts[i]), zmq_msg_size(&parts[i])};
    message = cadre_message_parse(frames, count, signer, replay, error);
done:
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&parts[i]);
    free(parts);
    free(frames);
    return message;
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

int socket_prepare(void *socket, const cadre_connection *connection, bool is_server,
                   cadre_error *error)
{
    int64_t largest = is_server ? HARD_LIMIT : -1;
    int failed = set_int(socket, ZMQ_LINGER, 1000) | set_int(socket, ZMQ_SNDHWM, 0) |
                 set_int(socket, ZMQ_TCP_KEEPALIVE, 1) |
                 zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    if (strchr(connection->ip, ':')) failed |= set_int(socket, ZMQ_IPV6, 1);
    if (*connection->curve_public) {
        if (is_server)
            failed |= set_int(socket, ZMQ_CURVE_SERVER, 1);
        else
            failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, connection->curve_public, 40);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, connection->curve_public, 40);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, connection->curve_secret, 40);
    }
    if (failed)
        return cadre_error_set(error, CADRE_ESYSTEM, "a socket option was refused: %s%s",
                               zmq_strerror(errno),
                               *connection->curve_public ? " (is libzmq built with encryption, and "
                                                           "are the CURVE keys valid?)"
                                                         : "");
    return 0;
}
