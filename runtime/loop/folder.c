/* The folder of models: file names, the folder itself, manifest.json. */
#include "loop/run.h"
#include "show/channel.h"
#include "store/store.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int cadre_folder_make(const char *path, cadre_error *error)
{
    char *copy = strdup(path);
    if (!copy) return cadre_error_set(error, CADRE_EMEMORY, "no memory for the name of a folder");
    int status = CADRE_OK;
    for (char *at = copy + 1;; at++) {
        if (*at && *at != '/') continue;
        char end = *at;
        *at = 0;
        struct stat info;
        if (mkdir(copy, 0777) < 0 && (stat(copy, &info) < 0 || !S_ISDIR(info.st_mode))) {
            int reason = errno == EEXIST ? ENOTDIR : errno;
            status = cadre_error_set_at(error, CADRE_EFILE, copy, 0, 0,
                                        "cannot make the folder: %s", strerror(reason));
            break;
        }
        if (!end) break;
        *at = end;
    }
    free(copy);
    return status;
}

char *cadre_folder_file_name(const char *slice_name)
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    enum { LONGEST = 200 };
    cadre_buffer name = {0};
    if (!*slice_name) cadre_buffer_puts(&name, "%00"); /* no other name is written like this */
    for (const char *at = slice_name; *at; at++) {
        /* A leading dot would hide the file. */
        if (strchr(kept, *at) && !(*at == '.' && at == slice_name))
            cadre_buffer_append(&name, at, 1);
        else
            cadre_buffer_printf(&name, "%%%02X", (unsigned char)*at);
    }
    if (name.length > LONGEST) {
        unsigned char hash[crypto_hash_sha256_BYTES];
        char text[17];
        crypto_hash_sha256(hash, (const unsigned char *)slice_name, strlen(slice_name));
        sodium_bin2hex(text, sizeof text, hash, 8);
        name.length = LONGEST;
        cadre_buffer_printf(&name, "-%s", text);
    }
    cadre_buffer_puts(&name, ".safetensors");
    return cadre_buffer_steal(&name);
}

static json_t *describe(const char *name, const slice_result *result)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "name", cadre_channel_text(name));
    if (result->state != CADRE_SLICE_TRAINED) {
        bool crashed = result->state == CADRE_SLICE_CRASHED;
        json_object_set_new(entry, "state", json_string(crashed ? "crashed" : "refused"));
        json_object_set_new(entry, "message",
                            cadre_channel_text(result->message ? result->message : ""));
        return entry;
    }
    unsigned char hash[crypto_hash_sha256_BYTES];
    char text[2 * crypto_hash_sha256_BYTES + 1];
    crypto_hash_sha256(hash, result->bytes, result->length);
    sodium_bin2hex(text, sizeof text, hash, sizeof hash);
    char *file = cadre_folder_file_name(name);
    if (file) json_object_set_new(entry, "file", json_string(file));
    free(file);
    json_object_set_new(entry, "sha256", json_string(text));
    json_object_set_new(entry, "bytes", json_integer((json_int_t)result->length));
    json_t *metrics = json_object();
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const char *metric = cadre_loop_metrics[i];
        double value = result->metrics[i];
        if (!isfinite(value)) continue;
        bool is_count = strncmp(metric, "rows_", 5) == 0 && value >= 0 && value < 1e15;
        json_object_set_new(metrics, metric,
                            is_count ? json_integer((json_int_t)value) : json_real(value));
    }
    json_object_set_new(entry, "metrics", metrics);
    return entry;
}

int cadre_folder_write_manifest(const loop_run *run, const char *digest, cadre_error *error)
{
    int status = CADRE_EMEMORY;
    char *path = NULL, *text = NULL;
    json_t *models = json_array(), *refused = json_array();
    for (size_t i = 0; i < run->count; i++) {
        const slice_result *result = &run->results[i];
        if (!result->done) continue;
        bool trained = result->state == CADRE_SLICE_TRAINED;
        json_array_append_new(trained ? models : refused,
                              describe(cadre_slices_get(run->slices, i)->name, result));
    }
    json_t *manifest =
        json_pack("{s:s, s:i, s:b, s:I, s:s, s:O, s:O}", "format", "cadre-models", "version", 1,
                  "complete", run->done == run->count, "slices", (json_int_t)run->count, "digest",
                  digest, "models", models, "refused", refused);
    if (manifest) text = json_dumps(manifest, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (text && asprintf(&path, "%s/manifest.json", run->options->models) >= 0)
        status = cadre_write_file(path, text, strlen(text), error);
    else
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the manifest");
    json_decref(manifest);
    json_decref(models);
    json_decref(refused);
    free(text);
    free(path);
    return status;
}
