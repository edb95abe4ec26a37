#include "wire/wire_private.h"

#include <stdlib.h>
#include <string.h>

enum { IDENTITY_LIMIT = 16, BUFFER_LIMIT = 4096, SIGNED = 4 };

static json_t *object_of(cadre_bytes frame, cadre_error *error)
{
    json_t *value = cadre_json_parse(frame.data, frame.length, error);
    if (!value || json_is_object(value)) return value;
    json_decref(value);
    cadre_error_set(error, CADRE_EFORMAT, "not a JSON object");
    return NULL;
}

static json_t *object_or_empty(cadre_bytes frame)
{
    json_t *value = object_of(frame, NULL);
    return value ? value : json_object();
}

static int check_frames(const cadre_bytes *frames, size_t count, size_t *delimiter, size_t *size,
                        cadre_error *error)
{
    size_t at = 0;
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        if (frames[i].length > CADRE_MESSAGE_LIMIT - *size)
            return cadre_error_set(error, CADRE_EINPUT, "larger than %zu MB",
                                   CADRE_MESSAGE_LIMIT >> 20);
        *size += frames[i].length;
    }
    while (at < count && at <= IDENTITY_LIMIT &&
           !(frames[at].length == sizeof DELIMITER - 1 &&
             memcmp(frames[at].data, DELIMITER, frames[at].length) == 0))
        at++;
    if (at == count || at > IDENTITY_LIMIT)
        return cadre_error_set(error, CADRE_EFORMAT, "no " DELIMITER " frame");
    if (count - at < 2 + SIGNED)
        return cadre_error_set(error, CADRE_EFORMAT,
                               "%zu frames after the delimiter, not 5 or more", count - at - 1);
    if (count - at > 2 + SIGNED + BUFFER_LIMIT)
        return cadre_error_set(error, CADRE_EINPUT, "more than %d buffers", BUFFER_LIMIT);
    *delimiter = at;
    return 0;
}

static int copy_frames(cadre_message *message, const cadre_bytes *frames, size_t identity_count,
                       const cadre_bytes *header, const cadre_bytes *buffers, size_t buffer_count)
{
    size_t need = header->length + 1, at = 0;
    for (size_t i = 0; i < identity_count; i++)
        need += frames[i].length;
    for (size_t i = 0; i < buffer_count; i++)
        need += buffers[i].length;
    message->storage = malloc(need);
    message->identities = calloc(identity_count + 1, sizeof(cadre_bytes));
    message->buffers = calloc(buffer_count + 1, sizeof(cadre_bytes));
    if (!message->storage || !message->identities || !message->buffers) return CADRE_EMEMORY;
    message->identity_count = identity_count;
    message->buffer_count = buffer_count;
    for (size_t i = 0; i < identity_count + 1 + buffer_count; i++) {
        const cadre_bytes *from = i < identity_count    ? &frames[i]
                                  : i == identity_count ? header
                                                        : &buffers[i - identity_count - 1];
        cadre_bytes *into = i < identity_count    ? &message->identities[i]
                            : i == identity_count ? &message->header_bytes
                                                  : &message->buffers[i - identity_count - 1];
        if (from->length) memcpy(message->storage + at, from->data, from->length);
        *into = (cadre_bytes){message->storage + at, from->length};
        at += from->length;
    }
    return 0;
}

/* The header goes out again as other clients' parent_header: it must be readable for them, so a
 * header that only our repairs could read is replaced by its repaired form. */
static int make_header_safe(cadre_message *message)
{
    json_t *strict = json_loadb(message->header_bytes.data, message->header_bytes.length,
                                JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (strict) {
        json_decref(strict);
        return 0;
    }
    char *text = json_dumps(message->header, JSON_COMPACT | JSON_REAL_PRECISION(17));
    size_t length = text ? strlen(text) : 0;
    char *storage = text ? realloc(message->storage, message->size + length + 2) : NULL;
    if (!storage) {
        free(text);
        return CADRE_EMEMORY;
    }
    /* Everything points into storage, which may have moved. */
    for (size_t i = 0; i < message->identity_count; i++)
        message->identities[i].data = storage + (message->identities[i].data - message->storage);
    for (size_t i = 0; i < message->buffer_count; i++)
        message->buffers[i].data = storage + (message->buffers[i].data - message->storage);
    message->storage = storage;
    memcpy(storage + message->size + 1, text, length + 1);
    message->header_bytes = (cadre_bytes){storage + message->size + 1, length};
    free(text);
    return 0;
}

static int read_json(cadre_message *message, const cadre_bytes *parts, bool *header_is_strict,
                     cadre_error *error)
{
    cadre_error problem = {0};
    message->header = json_loadb(parts[0].data, parts[0].length, JSON_ALLOW_NUL, NULL);
    *header_is_strict = json_is_object(message->header);
    if (!*header_is_strict) {
        json_decref(message->header);
        message->header = object_of(parts[0], &problem);
    }
    if (!message->header)
        return cadre_error_set(error, CADRE_EFORMAT, "header: %s", problem.message);
    message->type = json_string_value(json_object_get(message->header, "msg_type"));
    message->id = json_string_value(json_object_get(message->header, "msg_id"));
    if (!message->type || !message->id)
        return cadre_error_set(error, CADRE_EFORMAT, "the header has no msg_type or no msg_id");
    message->parent_header = object_or_empty(parts[1]);
    message->metadata = object_or_empty(parts[2]);
    message->content = object_of(parts[3], &problem);
    if (!message->content) {
        message->content = json_object();
        message->damage = strdup(problem.message);
    }
    if (!message->parent_header || !message->metadata || !message->content)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory");
    const char *parent = json_string_value(json_object_get(message->parent_header, "msg_id"));
    message->parent_id = parent ? parent : "";
    return 0;
}

cadre_message *cadre_message_parse(const cadre_bytes *frames, size_t count,
                                   const cadre_signer *signer, cadre_replay *replay,
                                   cadre_error *error)
{
    size_t delimiter = 0, size = 0;
    bool header_is_strict;
    if (check_frames(frames, count, &delimiter, &size, error) < 0) return NULL;
    const cadre_bytes *signature = &frames[delimiter + 1], *parts = &frames[delimiter + 2];
    if (signer && !cadre_signer_verify(signer, parts, SIGNED, signature->data, signature->length)) {
        cadre_error_set(error, CADRE_EINPUT, "%s",
                        signature->length ? "the signature does not match" : "not signed");
        return NULL;
    }
    if (signer && replay && signature->length &&
        !cadre_replay_note(replay, signature->data, signature->length)) {
        cadre_error_set(error, CADRE_EINPUT, "repeated: its signature was seen before");
        return NULL;
    }
    cadre_message *message = calloc(1, sizeof *message);
    if (!message) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return NULL;
    }
    message->size = size;
    if (copy_frames(message, frames, delimiter, &parts[0], parts + SIGNED,
                    count - delimiter - 2 - SIGNED) < 0) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        goto fail;
    }
    if (read_json(message, parts, &header_is_strict, error) < 0) goto fail;
    if (!header_is_strict && make_header_safe(message) < 0) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        goto fail;
    }
    return message;
fail:
    cadre_message_free(message);
    return NULL;
}

void cadre_message_free(cadre_message *message)
{
    if (!message) return;
    json_decref(message->header);
    json_decref(message->parent_header);
    json_decref(message->metadata);
    json_decref(message->content);
    free(message->damage);
    free(message->identities);
    free(message->buffers);
    free(message->storage);
    free(message);
}
