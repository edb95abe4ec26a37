/* Shared by the files of kernel/wire only. */
#ifndef CADRE_WIRE_PRIVATE_H
#define CADRE_WIRE_PRIVATE_H

#include "wire/wire.h"

#include <stdatomic.h>

#define DELIMITER "<IDS|MSG>"

/* What every message of one end carries. */
typedef struct sender {
    cadre_signer *signer;
    char session[CADRE_UUID_SIZE];
    char user[96]; /* JSON-escaped */
    uint64_t count;
} sender;

int sender_init(sender *self, const cadre_connection *connection, cadre_error *error);
void sender_free(sender *self);
/* Sends one message on a ZeroMQ socket without blocking. `to` are frames before the delimiter.
 * `unsent` (may be NULL) is raised by the message's size until its last copy has left. */
int sender_send(sender *self, void *socket, const cadre_bytes *to, size_t to_count,
                const cadre_outgoing *outgoing, atomic_size_t *unsent, cadre_error *error);

/* One message off a socket without blocking; as cadre_wire_server_receive. */
cadre_message *receive_message(void *socket, const cadre_signer *signer, cadre_replay *replay,
                               cadre_error *error);

/* Options that sockets of both ends share: linger, limits, IPv6, encryption. */
int socket_prepare(void *socket, const cadre_connection *connection, bool is_server,
                   cadre_error *error);

#endif
