/* kernel/wire: Jupyter messages on ZeroMQ, for both ends.
 *
 * Frames, signatures, encryption, sockets; it knows what a message looks like and nothing of what
 * messages mean. The kernel binds (cadre_wire_server), a controller that runs worker kernels
 * connects (cadre_client). A kernel in short:
 *
 *     cadre_connection connection;
 *     cadre_connection_read(&connection, path, &error);
 *     cadre_wire_server *server = cadre_wire_server_bind(&connection, &error);
 *     while (cadre_wire_server_wait(server, NULL, 0, -1) >= 0) {
 *         cadre_message *request = cadre_wire_server_receive(server, CADRE_SHELL, &error);
 *         if (!request) continue;                      // nothing, or dropped: error says why
 *         cadre_outgoing reply = {.type = "kernel_info_reply", .request = request,
 *                                 .content = content};
 *         cadre_wire_server_send(server, CADRE_SHELL, &reply, &error);
 *         cadre_message_free(request);
 *     }
 *
 * and a controller:
 *
 *     cadre_connection_create(&connection, &error);    // key and free ports
 *     cadre_connection_write(&connection, path, &error);
 *     ... start the kernel with that file ...
 *     cadre_client *client = cadre_client_open(&connection, &error);
 *     cadre_message *info = cadre_client_wait_ready(client, 60000, child_fd, &error);
 *     cadre_client_send(client, CADRE_SHELL, "execute_request", content, metadata, id, &error);
 *     while ((m = cadre_client_receive(client, 1000, child_fd, &channel, &error))) ...
 *
 * Signatures are checked in constant time on the bytes that came, before anything is parsed.
 * Servers and clients belong to one thread; only the heartbeat has a thread of its own. A forked
 * child must not touch them; every descriptor is close-on-exec.
 */
#ifndef CADRE_WIRE_H
#define CADRE_WIRE_H

#include "base/base.h"

#include <jansson.h>
#include <poll.h>

#define CADRE_UUID_SIZE 37  /* 36 characters and the NUL */
#define CADRE_DATE_SIZE 28  /* 2026-01-31T12:34:56.000789Z and the NUL */
#define CADRE_ID_SIZE 64    /* a msg_id of ours and the NUL */
#define CADRE_CURVE_SIZE 41 /* a Z85 key and the NUL */

typedef enum cadre_channel {
    CADRE_SHELL,
    CADRE_CONTROL,
    CADRE_STDIN,
    CADRE_IOPUB,
    CADRE_HEARTBEAT
} cadre_channel;
#define CADRE_CHANNEL_COUNT 5

/* ---- connection files ------------------------------------------------------------------- */

typedef struct cadre_connection {
    char transport[8];              /* "tcp" or "ipc" */
    char ip[256];                   /* for ipc a path prefix: sockets are PREFIX-PORT */
    int ports[CADRE_CHANNEL_COUNT]; /* 0: to be chosen when binding */
    char key[256];                  /* used as these bytes; "": messages are not signed */
    char signature_scheme[24];      /* "hmac-sha256" or "hmac-sha512" */
    char curve_public[CADRE_CURVE_SIZE], curve_secret[CADRE_CURVE_SIZE]; /* "": no encryption */
    char kernel_name[128];
} cadre_connection;

/* Reads a connection file. Unknown keys are ignored, ports may be numbers or strings, a missing
 * or zero port is chosen when binding. 0, or a status whose message names the file and the key
 * that cannot be used (an unknown transport or signature scheme, a registration file, a file
 * that somebody else owns, ...). */
int cadre_connection_read(cadre_connection *connection, const char *path, cadre_error *error);
/* The same from text, for which `path` is only a name in messages. */
int cadre_connection_parse(cadre_connection *connection, const char *text, size_t length,
                           const char *path, cadre_error *error);
/* A new connection on this machine for a kernel to be started: tcp on 127.0.0.1, a random key,
 * five ports that are free now. (Another process may take one before the kernel binds; the kernel
 * then ends at once and a new connection is tried.) */
int cadre_connection_create(cadre_connection *connection, cadre_error *error);
/* Writes it atomically, readable by the owner only. */
int cadre_connection_write(const cadre_connection *connection, const char *path,
                           cadre_error *error);
/* "tcp://127.0.0.1:5555", "tcp://[::1]:5555", "ipc://path-1"; 0, or CADRE_EINPUT when too long. */
int cadre_connection_url(const cadre_connection *connection, cadre_channel channel, char *url,
                         size_t size, cadre_error *error);

/* ---- small parts ------------------------------------------------------------------------ */

void cadre_uuid(char uuid[CADRE_UUID_SIZE]);     /* random, version 4 */
void cadre_date_now(char date[CADRE_DATE_SIZE]); /* UTC, six digits of a second, Z */

/* HMAC with a key that is prepared once. */
typedef struct cadre_signer cadre_signer;
/* scheme "hmac-sha256" or "hmac-sha512"; a key of length 0 signs nothing. New, or NULL. */
cadre_signer *cadre_signer_new(const char *scheme, const char *key, size_t length,
                               cadre_error *error);
void cadre_signer_free(cadre_signer *signer);
#define CADRE_SIGNATURE_SIZE 129
/* Hexadecimal signature of the pieces one after the other; "" without a key. */
typedef struct cadre_bytes {
    const char *data;
    size_t length;
} cadre_bytes;
void cadre_signer_sign(const cadre_signer *signer, const cadre_bytes *pieces, size_t count,
                       char signature[CADRE_SIGNATURE_SIZE]);
/* Constant time in the signature's bytes. */
bool cadre_signer_verify(const cadre_signer *signer, const cadre_bytes *pieces, size_t count,
                         const char *signature, size_t length);

/* The last signatures seen, at least 32768 of them and at most 65536, in at most 4 MB. */
typedef struct cadre_replay cadre_replay;
cadre_replay *cadre_replay_new(void);
void cadre_replay_free(cadre_replay *replay);
/* False when this signature was seen before, else remembers it. */
bool cadre_replay_note(cadre_replay *replay, const char *signature, size_t length);

/* Appends `bytes` as valid UTF-8, each broken sequence as U+FFFD. Unless `final`, a sequence that
 * is only begun at the end (at most 3 bytes) is left; returns how many bytes were taken. */
size_t cadre_utf8_append(cadre_buffer *buffer, const char *bytes, size_t length, bool final);
/* The same as the inside of a JSON string: escaped, without the quotes around it. */
size_t cadre_json_escape(cadre_buffer *buffer, const char *bytes, size_t length, bool final);
/* Parses what Jupyter clients really send: as JSON, and when strict JSON fails with integers
 * beyond 64 bits, numbers beyond doubles and NaN or Infinity kept as strings, lone surrogates,
 * broken UTF-8 and raw control characters in strings made harmless. New, or NULL. */
json_t *cadre_json_parse(const char *text, size_t length, cadre_error *error);
/* A JSON string of any bytes (broken UTF-8 as U+FFFD). New. */
json_t *cadre_json_string(const char *bytes, size_t length);

/* ---- messages --------------------------------------------------------------------------- */

/* A received message. Everything in it belongs to it. */
typedef struct cadre_message {
    size_t identity_count;
    cadre_bytes *identities;  /* all frames before the delimiter (iopub: the topic) */
    cadre_bytes header_bytes; /* as received: goes back as parent_header unchanged */
    json_t *header, *parent_header, *metadata, *content; /* objects, never NULL */
    const char *type, *id;                               /* of the header */
    const char *parent_id;                               /* "" when there is none */
    char *damage; /* why the content could not be read (it is {}), or NULL */
    size_t buffer_count;
    cadre_bytes *buffers;
    size_t size; /* bytes of all frames */
    char *storage;
} cadre_message;

#define CADRE_MESSAGE_LIMIT ((size_t)64 << 20) /* bytes of one message */

/* Checks and parses frames: limits, signature, replay (both may be NULL: not checked), JSON. New,
 * or NULL with an error that says why the message was refused and repeats nothing of it. */
cadre_message *cadre_message_parse(const cadre_bytes *frames, size_t count,
                                   const cadre_signer *signer, cadre_replay *replay,
                                   cadre_error *error);
void cadre_message_free(cadre_message *message);

/* A message to send. Only `type` is needed. */
typedef struct cadre_outgoing {
    const char *type;
    const cadre_message *request; /* answers go to its identities, with its header as parent */
    const char *parent;           /* or: the parent header's text; NULL: {} */
    size_t parent_length;
    const json_t *content;    /* borrowed; NULL: {} */
    const char *content_text; /* or: the content as JSON text, which is trusted */
    size_t content_length;
    const json_t *metadata; /* borrowed; NULL: {} */
    const char *topic;      /* iopub: first frame; NULL: one made of the type */
    const cadre_bytes *buffers;
    size_t buffer_count;
    char *id; /* NULL, or CADRE_ID_SIZE bytes that receive the msg_id */
} cadre_outgoing;

/* ---- the kernel's end ------------------------------------------------------------------- */

typedef struct cadre_wire_server cadre_wire_server;

/* Binds the five sockets and starts the heartbeat. Ports that were 0 are chosen and put into
 * *connection. New, or NULL with a message that names the address. */
cadre_wire_server *cadre_wire_server_bind(cadre_connection *connection, cadre_error *error);
/* Closes; unsent messages have linger_ms to leave. NULL is fine. */
void cadre_wire_server_close(cadre_wire_server *server, int linger_ms);
/* The session id that all messages of this process carry. */
const char *cadre_wire_server_session(const cadre_wire_server *server);

/* Waits until a message is there, one of the descriptors is ready (revents is set as poll does)
 * or timeout_ms passed (-1: none). Returns the number of ready things, or a negative status.
 * `closed_channels` is a bit mask (1 << channel) of channels not to wait for. */
int cadre_wire_server_wait(cadre_wire_server *server, struct pollfd *descriptors, size_t count,
                           unsigned closed_channels, int timeout_ms);
/* The next message of a channel without waiting; new. NULL with error->code 0: none is there;
 * NULL with an error: a message was dropped, the next one may be there. */
cadre_message *cadre_wire_server_receive(cadre_wire_server *server, cadre_channel channel,
                                         cadre_error *error);
/* Takes the subscriptions that wait on iopub and welcomes each (iopub_welcome). */
void cadre_wire_server_welcome(cadre_wire_server *server);
/* Sends; never blocks and never drops. CADRE_ENOTFOUND: on stdin, nobody with that identity is
 * connected. */
int cadre_wire_server_send(cadre_wire_server *server, cadre_channel channel,
                           const cadre_outgoing *outgoing, cadre_error *error);
/* Bytes of iopub messages that some client has not taken yet. */
size_t cadre_wire_server_unsent(const cadre_wire_server *server);

/* ---- the controller's end --------------------------------------------------------------- */

typedef struct cadre_client cadre_client;

cadre_client *cadre_client_open(const cadre_connection *connection, cadre_error *error);
void cadre_client_close(cadre_client *client); /* what was sent has a second to leave */
const char *cadre_client_session(const cadre_client *client);
/* Sends on shell, control or stdin. content and metadata are borrowed and may be NULL; id may be
 * NULL. Replies carry this id as parent_id. */
int cadre_client_send(cadre_client *client, cadre_channel channel, const char *type,
                      const json_t *content, const json_t *metadata, char id[CADRE_ID_SIZE],
                      cadre_error *error);
/* The next message of any channel, new; *channel says which. Waits at most timeout_ms (-1: for
 * ever), and ends the wait when wake_fd (-1: none) is readable. Messages that do not verify are
 * skipped. NULL: CADRE_ETIMEOUT, CADRE_EINTERRUPT (wake_fd, or a signal), or another failure. */
cadre_message *cadre_client_receive(cadre_client *client, int timeout_ms, int wake_fd,
                                    cadre_channel *channel, cadre_error *error);
/* Asks for kernel_info until the kernel answers and its iopub is heard, so that no output of a
 * following request can be missed. The kernel_info_reply, new, or NULL as above. Messages that
 * arrive meanwhile are skipped. */
cadre_message *cadre_client_wait_ready(cadre_client *client, int timeout_ms, int wake_fd,
                                       cadre_error *error);

#endif
