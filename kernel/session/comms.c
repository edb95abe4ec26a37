#include "session/comms.h"

#include "session/execution.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMMS = 10000, MOST_BUFFERS = 10000 };

static const char widget[] = "jupyter.widget", control[] = "jupyter.widget.control";

typedef struct comm {
    struct comm *next;
    char *id, *target;
    uint64_t generation; /* of the cell that made it; 0: the kernel itself */
    json_t *state;       /* of a widget: as its messages have made it; or NULL */
} comm;

typedef struct comm_target {
    struct comm_target *next;
    char *name;
    uint64_t generation;
} comm_target;

/* ---- the two lists */

static comm *find(const front *self, const char *id)
{
    comm *one = self->comms.first;
    while (one && (!id || strcmp(one->id, id) != 0))
        one = one->next;
    return one;
}

static size_t count_comms(const front *self)
{
    size_t count = 0;
    for (const comm *one = self->comms.first; one; one = one->next)
        count++;
    return count;
}

static comm *add(front *self, const char *id, const char *target, uint64_t generation)
{
    comm *one = count_comms(self) < MOST_COMMS ? calloc(1, sizeof *one) : NULL;
    if (!one) return NULL;
    *one = (comm){.id = strdup(id), .target = strdup(target), .generation = generation};
    if (!one->id || !one->target) {
        free(one->id);
        free(one->target);
        free(one);
        return NULL;
    }
    one->next = self->comms.first;
    self->comms.first = one;
    return one;
}

static void take_out(front *self, comm *gone)
{
    for (comm **at = &self->comms.first; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    json_decref(gone->state);
    free(gone->id);
    free(gone->target);
    free(gone);
}

static comm_target *find_target(const front *self, const char *name)
{
    comm_target *target = self->comms.targets;
    while (target && (!name || strcmp(target->name, name) != 0))
        target = target->next;
    return target;
}

static void remove_target(front *self, comm_target *gone)
{
    for (comm_target **at = &self->comms.targets; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    free(gone->name);
    free(gone);
}

static void add_target(front *self, const char *name, uint64_t generation)
{
    if (find_target(self, name)) return;
    comm_target *target = calloc(1, sizeof *target);
    char *copy = strdup(name);
    if (!target || !copy) {
        free(target);
        free(copy);
        return;
    }
    *target = (comm_target){self->comms.targets, copy, generation};
    self->comms.targets = target;
}

/* ---- publishing */

static void publish_close(front *self, const cadre_message *parent, const char *id)
{
    front_publish(self, parent, "comm_close",
                  json_pack("{sos{}}", "comm_id", cadre_json_string(id, strlen(id)), "data"));
}

/* `data` is stolen. */
static void publish_data(front *self, const cadre_message *parent, const char *id, json_t *data)
{
    front_publish(self, parent, "comm_msg", json_pack("{ssso}", "comm_id", id, "data", data));
}

/* ---- widgets */

static void note_state(comm *one, const json_t *state)
{
    if (!json_is_object(state)) return;
    if (!one->state) one->state = json_object();
    json_object_update(one->state, (json_t *)state);
}

/* What goes by on a widget's comm. */
static void note_widget(comm *one, const json_t *data)
{
    const char *method = json_string_value(json_object_get(data, "method"));
    if (strcmp(one->target, widget) != 0) return;
    if (!method || !strcmp(method, "update")) note_state(one, json_object_get(data, "state"));
}

/* A front-end that comes late asks for all widgets at once. */
static json_t *all_states(const front *self)
{
    static const char *const names[][2] = {{"_model_name", "model_name"},
                                           {"_model_module", "model_module"},
                                           {"_model_module_version", "model_module_version"}};
    json_t *states = json_object();
    for (const comm *one = self->comms.first; one; one = one->next) {
        if (!one->state) continue;
        json_t *entry = json_object();
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            json_t *value = json_object_get(one->state, names[i][0]);
            if (value) json_object_set(entry, names[i][1], value);
        }
        json_object_set(entry, "state", one->state);
        json_object_set_new(states, one->id, entry);
    }
    return json_pack("{sssos[]}", "method", "update_states", "states", states, "buffer_paths");
}

/* ---- the front-end's requests */

json_t *comms_info(const front *self, const cadre_message *message)
{
    const char *wanted = json_string_value(json_object_get(message->content, "target_name"));
    json_t *list = json_object();
    for (const comm *one = self->comms.first; one; one = one->next)
        if (!wanted || !strcmp(wanted, one->target))
            json_object_set_new(list, one->id, json_pack("{ss}", "target_name", one->target));
    return json_pack("{ssso}", "status", "ok", "comms", list);
}

static bool take_open(front *self, const cadre_message *message, const char *id)
{
    const char *target = json_string_value(json_object_get(message->content, "target_name"));
    if (find(self, id)) return false; /* a second one of the same name */
    bool is_control = target && !strcmp(target, control);
    const comm_target *known = find_target(self, target);
    if ((is_control || known) && add(self, id, target, known ? known->generation : 0))
        return !is_control;
    /* The client must not wait for it. */
    publish_close(self, message, id);
    return false;
}

bool comms_take(front *self, const cadre_message *message)
{
    const char *id = json_string_value(json_object_get(message->content, "comm_id"));
    const json_t *data = json_object_get(message->content, "data");
    if (!id || !*id) return false;
    if (!strcmp(message->type, "comm_open")) return take_open(self, message, id);
    comm *one = find(self, id);
    if (!one) return false;
    bool is_close = !strcmp(message->type, "comm_close");
    if (!strcmp(one->target, control)) {
        const char *method = json_string_value(json_object_get(data, "method"));
        if (is_close)
            take_out(self, one);
        else if (method && !strcmp(method, "request_states"))
            publish_data(self, message, id, all_states(self));
        return false;
    }
    if (!is_close) {
        const char *method = json_string_value(json_object_get(data, "method"));
        json_t *state = json_object_get(data, "state");
        note_widget(one, data);
        /* Front-ends wait for their own change to come back before they take another. */
        if (!strcmp(one->target, widget) && method && !strcmp(method, "update") && state)
            publish_data(
                self, message, id,
                json_pack("{sssOs[]}", "method", "echo_update", "state", state, "buffer_paths"));
    }
    return true;
}

const char *comms_cell(void)
{
    return "cadre_comm_deliver();";
}

void comms_handed_over(front *self, const cadre_message *message)
{
    const char *id = json_string_value(json_object_get(message->content, "comm_id"));
    comm *one = find(self, id);
    if (one && !strcmp(message->type, "comm_close")) take_out(self, one);
}

/* ---- C's side */

static json_t *buffers_as_text(const cadre_message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; i < message->buffer_count; i++) {
        const cadre_bytes *bytes = &message->buffers[i];
        size_t room = sodium_base64_encoded_len(bytes->length, sodium_base64_VARIANT_ORIGINAL);
        char *text = malloc(room);
        if (!text) break;
        sodium_bin2base64(text, room, (const unsigned char *)bytes->data, bytes->length,
                          sodium_base64_VARIANT_ORIGINAL);
        json_array_append_new(list, json_string(text));
        free(text);
    }
    return list;
}

/* The message that the cell under way was made for. */
static void answer_take(front *self)
{
    const execution *run = self->current;
    const cadre_message *message = run && run->is_comm ? run->request->message : NULL;
    if (!message) return;
    const char *id = json_string_value(json_object_get(message->content, "comm_id"));
    const comm *one = find(self, id);
    json_t *data = json_object_get(message->content, "data");
    json_t *packet =
        json_pack("{ss ss ss sO sO so}", "type", message->type, "comm_id", id, "target_name",
                  one ? one->target : "", "data", json_is_object(data) ? data : json_null(),
                  "metadata", message->metadata, "buffers", buffers_as_text(message));
    if (packet && !json_is_object(data)) json_object_set_new(packet, "data", json_object());
    char *text = packet ? json_dumps(packet, JSON_COMPACT) : NULL;
    json_decref(packet);
    if (text) cadre_host_answer(self->host, text, strlen(text));
    free(text);
}

/* Decodes the buffers of a packet; false: they are none. */
static bool decode(const json_t *list, cadre_bytes *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        size_t length = text ? strlen(text) : 0, size = 0;
        unsigned char *bytes = malloc(length / 4 * 3 + 3);
        buffers[i] = (cadre_bytes){(char *)bytes, 0};
        if (!text || !bytes ||
            sodium_base642bin(bytes, length / 4 * 3 + 3, text, length, NULL, &size, NULL,
                              sodium_base64_VARIANT_ORIGINAL) != 0)
            return false;
        buffers[i].length = size;
    }
    return true;
}

static void publish_packet(front *self, const char *type, const json_t *content,
                           const json_t *metadata, const json_t *list)
{
    size_t count = json_array_size(list);
    if (count > MOST_BUFFERS) count = 0;
    cadre_bytes *buffers = calloc(count + 1, sizeof *buffers);
    if (buffers && decode(list, buffers, count)) {
        const cadre_outgoing message = {.type = type,
                                        .content = content,
                                        .metadata = metadata,
                                        .buffers = buffers,
                                        .buffer_count = count};
        front_publish_message(self, &message);
    } else {
        front_log("a message of a comm with buffers that cannot be read was dropped");
    }
    for (size_t i = 0; buffers && i < count; i++)
        free((void *)buffers[i].data);
    free(buffers);
}

static void send_open(front *self, const json_t *packet, const char *id, json_t *data)
{
    const char *target = json_string_value(json_object_get(packet, "target_name"));
    comm *one = target && !find(self, id) ? add(self, id, target, self->generation + 1) : NULL;
    if (!one) {
        front_log("a comm could not be opened: no name, a name that is taken, or too many");
        return;
    }
    if (!strcmp(target, widget)) note_state(one, json_object_get(data, "state"));
    json_t *content = json_pack("{ss ss sO}", "comm_id", id, "target_name", target, "data", data);
    publish_packet(self, "comm_open", content, json_object_get(packet, "metadata"),
                   json_object_get(packet, "buffers"));
    json_decref(content);
}

static void send_data(front *self, const json_t *packet, const char *action, comm *one,
                      json_t *data)
{
    bool is_close = !strcmp(action, "close");
    json_t *content = json_pack("{ss sO}", "comm_id", one->id, "data", data);
    note_widget(one, data);
    publish_packet(self, is_close ? "comm_close" : "comm_msg", content,
                   json_object_get(packet, "metadata"), json_object_get(packet, "buffers"));
    json_decref(content);
    if (is_close) take_out(self, one);
}

void comms_packet(front *self, const json_t *packet)
{
    const char *action = json_string_value(json_object_get(packet, "action"));
    const char *id = json_string_value(json_object_get(packet, "comm_id"));
    const char *target = json_string_value(json_object_get(packet, "target_name"));
    json_t *data = json_object_get(packet, "data");
    comm *one = find(self, id);
    if (!action) return;
    if (!strcmp(action, "take")) {
        answer_take(self);
    } else if (!strcmp(action, "register") && target) {
        add_target(self, target, self->generation + 1);
    } else if (!strcmp(action, "unregister")) {
        comm_target *known = find_target(self, target);
        if (known) remove_target(self, known);
    } else if (!json_is_object(data) || !id) {
        front_log("a message of a comm that cannot be read was dropped");
    } else if (!strcmp(action, "open")) {
        send_open(self, packet, id, data);
    } else if (one) {
        send_data(self, packet, action, one, data);
    }
}

void comms_rewind(front *self, uint64_t generation)
{
    for (comm *one = self->comms.first, *next; one; one = next) {
        next = one->next;
        if (one->generation <= generation) continue;
        publish_close(self, NULL, one->id);
        take_out(self, one);
    }
    for (comm_target *target = self->comms.targets, *next; target; target = next) {
        next = target->next;
        if (target->generation > generation) remove_target(self, target);
    }
}

void comms_free(front *self)
{
    while (self->comms.first)
        take_out(self, self->comms.first);
    while (self->comms.targets)
        remove_target(self, self->comms.targets);
}
