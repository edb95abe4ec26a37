/* Verdicts to and from the cache. An entry is: lengths, manifest, messages, object. */
#include "kernel/cell/compile_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cadre_kept {
    unsigned char name[CADRE_HASH_SIZE];
    cadre_folders folders;
    cadre_verdict verdict;
    int64_t start;
    char here[PATH_MAX]; /* relative names of files are relative to it */
};

typedef struct entry_lengths {
    uint64_t manifest, diagnostics, object;
} entry_lengths;

bool cadre_keep_recall(cadre_compiler *compiler, const unsigned char *name, cadre_verdict *verdict)
{
    if (compiler->kept && memcmp(compiler->kept->name, name, CADRE_HASH_SIZE) == 0)
        cadre_keep_write(compiler);
    size_t length;
    unsigned char *bytes = cadre_cache_load(compiler->cache, name, &length);
    entry_lengths lengths;
    *verdict = (cadre_verdict){0};
    if (!bytes) return false;
    bool good = length >= sizeof lengths;
    if (good) {
        memcpy(&lengths, bytes, sizeof lengths);
        uint64_t left = length - sizeof lengths;
        good = lengths.manifest <= left && lengths.diagnostics <= left - lengths.manifest &&
               lengths.object == left - lengths.manifest - lengths.diagnostics;
    }
    const unsigned char *at = bytes + sizeof lengths;
    if (good && cadre_manifest_check(compiler, at, lengths.manifest)) {
        at += lengths.manifest;
        verdict->diagnostics = strndup((const char *)at, lengths.diagnostics);
        at += lengths.diagnostics;
        verdict->object = malloc(lengths.object + 1);
        if (verdict->object) {
            memcpy(verdict->object, at, lengths.object);
            verdict->object[lengths.object] = '\0';
        }
        verdict->object_length = lengths.object;
        verdict->ok = verdict->object && verdict->diagnostics;
    }
    free(bytes);
    if (!verdict->ok) cadre_verdict_free(verdict);
    return verdict->ok;
}

static void kept_free(struct cadre_kept *kept)
{
    if (!kept) return;
    cadre_folders_free(&kept->folders);
    cadre_verdict_free(&kept->verdict);
    free(kept);
}

void cadre_keep(cadre_compiler *compiler, const cadre_options *options,
                const cadre_compile_request *request, const unsigned char *name,
                const cadre_verdict *verdict, int64_t start)
{
    cadre_keep_write(compiler);
    struct cadre_kept *kept = calloc(1, sizeof *kept);
    if (!kept) return;
    kept->start = start;
    memcpy(kept->name, name, sizeof kept->name);
    cadre_folders_find(&kept->folders, options, request);
    kept->verdict.object_length = verdict->object_length;
    kept->verdict.object = malloc(verdict->object_length + 1);
    if (kept->verdict.object) memcpy(kept->verdict.object, verdict->object, verdict->object_length);
    kept->verdict.diagnostics = strdup(verdict->diagnostics);
    kept->verdict.dependencies = strdup(verdict->dependencies);
    if (kept->verdict.object && kept->verdict.diagnostics && kept->verdict.dependencies &&
        getcwd(kept->here, sizeof kept->here))
        compiler->kept = kept;
    else
        kept_free(kept);
}

void cadre_keep_write(cadre_compiler *compiler)
{
    struct cadre_kept *kept = compiler->kept;
    char here[PATH_MAX];
    cadre_buffer manifest = {0};
    if (!kept) return;
    compiler->kept = NULL;
    const cadre_verdict *verdict = &kept->verdict;
    /* A file that changed since is not settled, so being late is safe. */
    if (getcwd(here, sizeof here) && strcmp(here, kept->here) == 0 &&
        cadre_manifest_make(compiler, &kept->folders, verdict->dependencies, kept->start,
                            &manifest)) {
        entry_lengths lengths = {manifest.length, strlen(verdict->diagnostics),
                                 verdict->object_length};
        const cadre_cache_part parts[] = {{&lengths, sizeof lengths},
                                          {manifest.data, manifest.length},
                                          {verdict->diagnostics, lengths.diagnostics},
                                          {verdict->object, verdict->object_length}};
        cadre_cache_store(compiler->cache, kept->name, parts, 4);
    }
    cadre_buffer_free(&manifest);
    kept_free(kept);
}
