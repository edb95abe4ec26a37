#include "wire/wire.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct cadre_signer {
    bool signs, is_512;
    /* The state after the key: copied for each message, so that the key is hashed once. */
    crypto_auth_hmacsha256_state keyed_256;
    crypto_auth_hmacsha512_state keyed_512;
};

cadre_signer *cadre_signer_new(const char *scheme, const char *key, size_t length,
                               cadre_error *error)
{
    bool is_256 = strcmp(scheme, "hmac-sha256") == 0, is_512 = strcmp(scheme, "hmac-sha512") == 0;
    if (length > 0 && !is_256 && !is_512) {
        cadre_error_set(error, CADRE_EINPUT,
                        "signature scheme \"%.60s\" is not supported; use hmac-sha256 or "
                        "hmac-sha512",
                        scheme);
        return NULL;
    }
    if (sodium_init() < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "libsodium cannot be initialised");
        return NULL;
    }
    cadre_signer *signer = calloc(1, sizeof *signer);
    if (!signer) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return NULL;
    }
    signer->signs = length > 0;
    signer->is_512 = is_512;
    if (is_512)
        crypto_auth_hmacsha512_init(&signer->keyed_512, (const unsigned char *)key, length);
    else
        crypto_auth_hmacsha256_init(&signer->keyed_256, (const unsigned char *)key, length);
    return signer;
}

void cadre_signer_free(cadre_signer *signer)
{
    if (!signer) return;
    sodium_memzero(signer, sizeof *signer);
    free(signer);
}

void cadre_signer_sign(const cadre_signer *signer, const cadre_bytes *pieces, size_t count,
                       char signature[CADRE_SIGNATURE_SIZE])
{
    unsigned char digest[64];
    signature[0] = 0;
    if (!signer->signs) return;
    if (signer->is_512) {
        crypto_auth_hmacsha512_state state = signer->keyed_512;
        for (size_t i = 0; i < count; i++)
            crypto_auth_hmacsha512_update(&state, (const unsigned char *)pieces[i].data,
                                          pieces[i].length);
        crypto_auth_hmacsha512_final(&state, digest);
        sodium_bin2hex(signature, CADRE_SIGNATURE_SIZE, digest, 64);
    } else {
        crypto_auth_hmacsha256_state state = signer->keyed_256;
        for (size_t i = 0; i < count; i++)
            crypto_auth_hmacsha256_update(&state, (const unsigned char *)pieces[i].data,
                                          pieces[i].length);
        crypto_auth_hmacsha256_final(&state, digest);
        sodium_bin2hex(signature, CADRE_SIGNATURE_SIZE, digest, 32);
    }
}

bool cadre_signer_verify(const cadre_signer *signer, const cadre_bytes *pieces, size_t count,
                         const char *signature, size_t length)
{
    char wanted[CADRE_SIGNATURE_SIZE];
    if (!signer->signs) return true;
    if (length != (signer->is_512 ? 128 : 64)) return false;
    cadre_signer_sign(signer, pieces, count, wanted);
    return sodium_memcmp(wanted, signature, length) == 0;
}

/* Two generations of a hash set. When the young one is full it becomes the old one and the old
 * one is emptied: no deletion, and the last HALF signatures are always known. */
enum { HALF = 32768, SLOTS = 65536, STORED = 16 };

typedef struct generation {
    unsigned char (*slots)[STORED]; /* all zero: empty */
    size_t used;
} generation;

struct cadre_replay {
    generation young, old;
};

cadre_replay *cadre_replay_new(void)
{
    cadre_replay *replay = calloc(1, sizeof *replay);
    if (!replay) return NULL;
    replay->young.slots = calloc(SLOTS, STORED);
    replay->old.slots = calloc(SLOTS, STORED);
    if (replay->young.slots && replay->old.slots) return replay;
    cadre_replay_free(replay);
    return NULL;
}

void cadre_replay_free(cadre_replay *replay)
{
    if (!replay) return;
    free(replay->young.slots);
    free(replay->old.slots);
    free(replay);
}

static size_t find(const generation *g, const unsigned char entry[STORED])
{
    static const unsigned char empty[STORED];
    uint32_t hash;
    memcpy(&hash, entry, sizeof hash);
    size_t at = hash % SLOTS;
    /* Ends: at most HALF of SLOTS are used. */
    while (memcmp(g->slots[at], empty, STORED) != 0 && memcmp(g->slots[at], entry, STORED) != 0)
        at = (at + 1) % SLOTS;
    return at;
}

bool cadre_replay_note(cadre_replay *replay, const char *signature, size_t length)
{
    unsigned char entry[STORED];
    /* A digest of the text: independent of its length and never chosen by the sender. */
    crypto_generichash(entry, STORED, (const unsigned char *)signature, length, NULL, 0);
    size_t young = find(&replay->young, entry), old = find(&replay->old, entry);
    if (memcmp(replay->young.slots[young], entry, STORED) == 0) return false;
    if (memcmp(replay->old.slots[old], entry, STORED) == 0) return false;
    if (replay->young.used == HALF) {
        generation emptied = replay->old;
        replay->old = replay->young;
        memset(emptied.slots, 0, (size_t)SLOTS * STORED);
        emptied.used = 0;
        replay->young = emptied;
        young = find(&replay->young, entry);
    }
    memcpy(replay->young.slots[young], entry, STORED);
    replay->young.used++;
    return true;
}
