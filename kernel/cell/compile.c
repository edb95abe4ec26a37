/* The compile service: from a request to a verdict, by the shortest way that works. */
#include "kernel/cell/compile_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 120000 };

cadre_compiler *cadre_compiler_new(const char *program, const char *cache_dir, cadre_error *error)
{
    (void)cache_dir;
    if (sodium_init() < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "libsodium cannot be initialised");
        return NULL;
    }
    cadre_compiler *compiler = calloc(1, sizeof *compiler);
    if (compiler) compiler->program = strdup(program && *program ? program : "gcc");
    if (!compiler || !compiler->program) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a compiler");
        cadre_compiler_free(compiler);
        return NULL;
    }
    return compiler;
}

/* Flat: only our libraries are in it. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

void cadre_compiler_free(cadre_compiler *compiler)
{
    if (!compiler) return;
    if (compiler->private_folder) remove_folder(compiler->private_folder);
    cadre_options_free(compiler->options);
    free(compiler->private_folder);
    free(compiler->program);
    free(compiler->path);
    free(compiler);
}

void cadre_compiler_warm(cadre_compiler *compiler, const char *headers, const char *const *flags,
                         size_t flag_count)
{
    (void)headers;
    cadre_error ignored;
    cadre_options_get(compiler, CADRE_MODE_OBJECT, flags, flag_count, &ignored);
}

void cadre_compile_result_free(cadre_compile_result *result)
{
    free(result->object);
    free(result->library_path);
    free(result->diagnostics);
    *result = (cadre_compile_result){0};
}

static int check_request(const cadre_compile_request *request, cadre_error *error)
{
    if (!request->source && request->length)
        return cadre_error_set(error, CADRE_EINPUT, "a compile request without a source");
    if (request->length > (size_t)1 << 30)
        return cadre_error_set(error, CADRE_EINPUT, "a source of %zu bytes is too long",
                               request->length);
    return 0;
}

static int64_t deadline_of(const cadre_compile_request *request)
{
    return cadre_clock_ms() + (request->timeout_ms > 0 ? request->timeout_ms : DEFAULT_TIMEOUT_MS);
}

/* A compiler that was killed (memory ran out, a person) gets one more chance. */
static int compile_unit(const cadre_options *options, const cadre_compile_request *request,
                        int64_t deadline, cadre_verdict *verdict, cadre_error *error)
{
    int code = cadre_plain_compile(options, request, deadline, verdict, error);
    if (code == CADRE_ECHILD)
        code = cadre_plain_compile(options, request, deadline, verdict, error);
    return code;
}

int cadre_compile(cadre_compiler *compiler, const cadre_compile_request *request,
                  cadre_compile_result *result, cadre_error *error)
{
    *result = (cadre_compile_result){0};
    int code = check_request(request, error);
    if (code < 0) return code;
    int64_t deadline = deadline_of(request);
    cadre_error own = {0};
    const cadre_options *options =
        cadre_options_get(compiler, CADRE_MODE_OBJECT, request->flags, request->flag_count, &own);
    if (!options) {
        if (error) *error = own;
        return own.code;
    }
    if (options->refused) {
        result->diagnostics = strdup(options->refused);
        if (!result->diagnostics) return cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return 0;
    }
    cadre_verdict verdict;
    code = compile_unit(options, request, deadline, &verdict, error);
    if (code < 0) return code;
    result->ok = verdict.ok;
    result->diagnostics = verdict.diagnostics;
    verdict.diagnostics = NULL;
    if (verdict.ok && request->make_shared) {
        code = cadre_link_shared(compiler, request, &verdict, deadline, result, error);
    } else if (verdict.ok) {
        result->object = verdict.object;
        result->object_length = verdict.object_length;
        verdict.object = NULL;
    }
    cadre_verdict_free(&verdict);
    if (code < 0) cadre_compile_result_free(result);
    return code;
}

char *cadre_preprocess(cadre_compiler *compiler, const cadre_compile_request *request,
                       bool with_macros, bool directives_only, cadre_error *error)
{
    const char *more[3] = {NULL};
    size_t count = 0;
    if (with_macros) more[count++] = "-dD";
    if (directives_only) more[count++] = "-fdirectives-only";
    if (check_request(request, error) < 0) return NULL;
    const cadre_options *options = cadre_options_get(compiler, CADRE_MODE_PREPROCESS,
                                                     request->flags, request->flag_count, error);
    if (!options) return NULL;
    if (options->refused) {
        cadre_error_set(error, CADRE_EINPUT, "%s", options->refused);
        return NULL;
    }
    int64_t deadline = deadline_of(request);
    cadre_verdict verdict;
    int code = cadre_plain_preprocess(options, request, more, deadline, &verdict, error);
    if (code == CADRE_ECHILD)
        code = cadre_plain_preprocess(options, request, more, deadline, &verdict, error);
    if (code < 0) return NULL;
    char *text = NULL;
    if (verdict.ok) {
        text = (char *)verdict.object;
        verdict.object = NULL;
    } else {
        cadre_error_set(error, CADRE_EINPUT, "%s", verdict.diagnostics);
    }
    cadre_verdict_free(&verdict);
    return text;
}
