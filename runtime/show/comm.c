#include "show/comm.h"

#include "base/error_handler.h"
#include "show/channel.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct cadre_comm {
    cadre_comm *next;
    char id[33], *target;
    cadre_comm_function on_message, on_close;
    void *message_user, *close_user;
};

typedef struct comm_target {
    struct comm_target *next;
    char *name;
    cadre_comm_function function;
    void *user;
} comm_target;

/* Of this process: a message names a comm by its id. The lock is not held while a function of the
 * user runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cadre_comm *comms;
static comm_target *targets;

static int fail(int code, const char *text, const char *detail)
{
    cadre_error error = {0};
    cadre_error_set(&error, code, text, detail);
    return cadre_raise(&error);
}

/* ---- comms by name */

static cadre_comm *comm_new(const char *id, const char *target)
{
    cadre_comm *comm = calloc(1, sizeof *comm);
    if (comm) comm->target = strdup(target);
    if (!comm || !comm->target) {
        free(comm);
        return NULL;
    }
    strncpy(comm->id, id, sizeof comm->id - 1);
    pthread_mutex_lock(&lock);
    comm->next = comms;
    comms = comm;
    pthread_mutex_unlock(&lock);
    return comm;
}

static void comm_free(cadre_comm *comm)
{
    pthread_mutex_lock(&lock);
    for (cadre_comm **at = &comms; *at; at = &(*at)->next)
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(comm->target);
    free(comm);
}

static cadre_comm *find_comm(const char *id)
{
    pthread_mutex_lock(&lock);
    cadre_comm *comm = comms;
    while (comm && strcmp(comm->id, id) != 0)
        comm = comm->next;
    pthread_mutex_unlock(&lock);
    return comm;
}

/* ---- sending */

/* The JSON object of `text`, new; NULL after an error was raised. */
static json_t *object_of(const char *text, const char *what)
{
    json_error_t where;
    json_t *object = json_loads(text ? text : "{}", 0, &where);
    if (json_is_object(object)) return object;
    json_decref(object);
    cadre_error error = {0};
    cadre_error_set(&error, CADRE_EINPUT, "%s of a comm must be a JSON object: %s", what,
                    object ? "it is another value" : where.text);
    cadre_raise(&error);
    return NULL;
}

static json_t *buffers_of(const cadre_comm_message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < message->buffer_count; i++) {
        size_t size = message->buffer_sizes[i];
        size_t room = sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL);
        char *text = malloc(room);
        if (!text) {
            json_decref(list);
            return NULL;
        }
        sodium_bin2base64(text, room, message->buffers[i], size, sodium_base64_VARIANT_ORIGINAL);
        json_array_append_new(list, json_string(text));
        free(text);
    }
    return list;
}

/* A packet of the display channel; see show.h. */
static int send_action(const char *action, const char *id, const char *target,
                       const cadre_comm_message *message)
{
    static const cadre_comm_message nothing;
    cadre_error error = {0};
    if (!message) message = &nothing;
    json_t *data = object_of(message->data, "the data");
    json_t *metadata = data ? object_of(message->metadata, "the metadata") : NULL;
    if (!metadata) {
        json_decref(data);
        return CADRE_EINPUT;
    }
    json_t *packet = json_pack("{s:s, s:s, s:o, s:o, s:o}", "kind", "comm", "action", action,
                               "data", data, "metadata", metadata, "buffers", buffers_of(message));
    if (packet && id) json_object_set_new(packet, "comm_id", cadre_channel_text(id));
    if (packet && target) json_object_set_new(packet, "target_name", cadre_channel_text(target));
    int status = CADRE_EMEMORY;
    if (!packet)
        cadre_error_set(&error, status, "no memory for a message of a comm");
    else if (!cadre_channel_is_open())
        status = cadre_error_set(&error, CADRE_ESYSTEM,
                                 "a comm needs a notebook: this program runs in no kernel");
    else
        status = cadre_channel_send(packet, &error);
    json_decref(packet);
    return status < 0 ? cadre_raise(&error) : status;
}

cadre_comm *cadre_comm_open(const char *target_name, const cadre_comm_message *message)
{
    unsigned char bytes[16];
    char id[33];
    if (!target_name || !*target_name) {
        fail(CADRE_EINPUT, "a comm needs the name of its target%s", "");
        return NULL;
    }
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(id, sizeof id, bytes, sizeof bytes);
    if (send_action("open", id, target_name, message) < 0) return NULL;
    cadre_comm *comm = comm_new(id, target_name);
    if (!comm) fail(CADRE_EMEMORY, "no memory for a comm%s", "");
    return comm;
}

int cadre_comm_send(cadre_comm *comm, const cadre_comm_message *message)
{
    if (!comm) return fail(CADRE_EINPUT, "cadre_comm_send needs a comm, not NULL%s", "");
    return send_action("msg", comm->id, NULL, message);
}

int cadre_comm_close(cadre_comm *comm, const cadre_comm_message *message)
{
    char id[33];
    if (!comm) return CADRE_OK;
    memcpy(id, comm->id, sizeof id);
    comm_free(comm);
    return send_action("close", id, NULL, message);
}

void cadre_comm_on_message(cadre_comm *comm, cadre_comm_function function, void *user)
{
    if (!comm) return;
    comm->on_message = function;
    comm->message_user = user;
}

void cadre_comm_on_close(cadre_comm *comm, cadre_comm_function function, void *user)
{
    if (!comm) return;
    comm->on_close = function;
    comm->close_user = user;
}

const char *cadre_comm_id(const cadre_comm *comm)
{
    return comm ? comm->id : NULL;
}

const char *cadre_comm_target(const cadre_comm *comm)
{
    return comm ? comm->target : NULL;
}

/* The place of a target in the list, or its end. With the lock held. */
static comm_target **find_target(const char *name)
{
    comm_target **at = &targets;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static bool remember_target(const char *name, cadre_comm_function function, void *user)
{
    comm_target *target = calloc(1, sizeof *target);
    char *copy = strdup(name);
    if (!target || !copy) {
        free(target);
        free(copy);
        return false;
    }
    pthread_mutex_lock(&lock);
    comm_target **at = find_target(name);
    if (*at) {
        (*at)->function = function;
        (*at)->user = user;
        free(target);
        free(copy);
    } else {
        *target = (comm_target){.name = copy, .function = function, .user = user};
        *at = target;
    }
    pthread_mutex_unlock(&lock);
    return true;
}

int cadre_comm_register(const char *target_name, cadre_comm_function function, void *user)
{
    if (!target_name || !*target_name)
        return fail(CADRE_EINPUT, "a comm's target needs a name%s", "");
    if (function && !remember_target(target_name, function, user))
        return fail(CADRE_EMEMORY, "no memory for the target '%s'", target_name);
    int status = send_action(function ? "register" : "unregister", NULL, target_name, NULL);
    if (function || status < 0) return status;
    pthread_mutex_lock(&lock);
    comm_target **at = find_target(target_name), *gone = *at;
    if (gone) *at = gone->next;
    pthread_mutex_unlock(&lock);
    if (gone) free(gone->name);
    free(gone);
    return status;
}

/* ---- receiving */

/* A message as it came: what `seen` points to. */
typedef struct arrived {
    json_t *packet;
    char *data, *metadata;
    void **buffers;
    size_t *sizes;
    cadre_comm_message seen;
} arrived;

static void arrived_free(arrived *message)
{
    for (size_t i = 0; message->buffers && i < message->seen.buffer_count; i++)
        free(message->buffers[i]);
    free(message->buffers);
    free(message->sizes);
    free(message->data);
    free(message->metadata);
    json_decref(message->packet);
}

static bool read_buffers(arrived *message, const json_t *list)
{
    size_t count = json_array_size(list);
    if (!count) return true;
    message->buffers = calloc(count, sizeof *message->buffers);
    message->sizes = calloc(count, sizeof *message->sizes);
    if (!message->buffers || !message->sizes) return false;
    message->seen.buffer_count = count;
    message->seen.buffers = (const void *const *)message->buffers;
    message->seen.buffer_sizes = message->sizes;
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        size_t length = text ? strlen(text) : 0;
        message->buffers[i] = malloc(length / 4 * 3 + 1);
        if (!text || !message->buffers[i] ||
            sodium_base642bin(message->buffers[i], length / 4 * 3 + 1, text, length, NULL,
                              &message->sizes[i], NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
            return false;
    }
    return true;
}

static bool read_message(arrived *message)
{
    const json_t *data = json_object_get(message->packet, "data");
    const json_t *metadata = json_object_get(message->packet, "metadata");
    message->data = data ? json_dumps(data, JSON_COMPACT) : strdup("{}");
    message->metadata = metadata ? json_dumps(metadata, JSON_COMPACT) : strdup("{}");
    message->seen.data = message->data;
    message->seen.metadata = message->metadata;
    return message->data && message->metadata &&
           read_buffers(message, json_object_get(message->packet, "buffers"));
}

static void hand_over_open(const char *id, const char *target, const cadre_comm_message *message)
{
    pthread_mutex_lock(&lock);
    const comm_target *found = *find_target(target);
    cadre_comm_function function = found ? found->function : NULL;
    void *user = found ? found->user : NULL;
    pthread_mutex_unlock(&lock);
    if (!function || strlen(id) >= sizeof((cadre_comm *)NULL)->id) return;
    cadre_comm *comm = comm_new(id, target);
    if (comm)
        function(comm, message, user);
    else
        fail(CADRE_EMEMORY, "no memory for a comm to '%s'", target);
}

static void hand_over(const char *action, const char *id, const char *target,
                      const cadre_comm_message *message)
{
    if (!strcmp(action, "comm_open")) {
        hand_over_open(id, target, message);
        return;
    }
    cadre_comm *comm = find_comm(id);
    if (!comm) return;
    if (!strcmp(action, "comm_msg")) {
        if (comm->on_message) comm->on_message(comm, message, comm->message_user);
    } else if (!strcmp(action, "comm_close")) {
        if (comm->on_close) comm->on_close(comm, message, comm->close_user);
        if (find_comm(id)) comm_free(comm);
    }
}

void cadre_comm_deliver(void)
{
    cadre_error error = {0};
    arrived message = {0};
    json_t *packet = json_pack("{s:s, s:s}", "kind", "comm", "action", "take");
    char *text = packet ? cadre_channel_ask(packet, &error) : NULL;
    json_decref(packet);
    message.packet = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    const char *action = json_string_value(json_object_get(message.packet, "type"));
    const char *id = json_string_value(json_object_get(message.packet, "comm_id"));
    const char *target = json_string_value(json_object_get(message.packet, "target_name"));
    if (message.packet && action && id && read_message(&message))
        hand_over(action, id, target ? target : "", &message.seen);
    else if (!error.code || cadre_channel_is_open())
        cadre_error_set(&error, CADRE_ESYSTEM, "the kernel holds no message of a comm");
    arrived_free(&message);
    if (error.code) cadre_raise(&error);
}
