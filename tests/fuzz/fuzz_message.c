/* Frames, without and with a signature: the input is cut at each byte 0x1e (record separator). The
 * second time the frames get a right signature, so that the parser behind it is met. */
#include "fuzz.h"

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static void check(const cadre_message *message)
{
    if (!message) return;
    if (!json_is_object(message->header) || !json_is_object(message->content) ||
        !json_is_object(message->metadata) || !json_is_object(message->parent_header) ||
        !message->type || !message->id || !message->parent_id)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cadre_bytes frames[MOST];
    size_t count = 0, begin = 0;
    cadre_error error = {0};
    for (size_t i = 0; i <= size && count < MOST; i++) {
        if (i < size && data[i] != 0x1e) continue;
        frames[count++] = (cadre_bytes){(const char *)data + begin, i - begin};
        begin = i + 1;
    }
    cadre_signer *signer = cadre_signer_new("hmac-sha256", "key", 3, NULL);
    cadre_message *message = cadre_message_parse(frames, count, signer, NULL, &error);
    if (message) check(message);
    if (!message && error.code == 0) abort();
    cadre_message_free(message);

    for (size_t i = 0; i + 6 <= count; i++) {
        char signature[CADRE_SIGNATURE_SIZE];
        if (frames[i].length != 9 || memcmp(frames[i].data, "<IDS|MSG>", 9) != 0) continue;
        cadre_signer_sign(signer, frames + i + 2, 4, signature);
        frames[i + 1] = (cadre_bytes){signature, strlen(signature)};
        cadre_replay *replay = cadre_replay_new();
        message = cadre_message_parse(frames, count, signer, replay, &error);
        check(message);
        cadre_message *again =
            message ? cadre_message_parse(frames, count, signer, replay, &error) : NULL;
        if (again) abort(); /* replayed */
        cadre_message_free(message);
        cadre_replay_free(replay);
        break;
    }
    cadre_signer_free(signer);
    return 0;
}
