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

static uint64_t cache_limit(void)
{
    const char *text = getenv("CADRE_CACHE_MEGABYTES");
    char *end = NULL;
    unsigned long long megabytes = text && *text ? strtoull(text, &end, 10) : 0;
    return end && !*end && megabytes < 1u << 20 ? (uint64_t)megabytes << 20 : 0;
}

cadre_compiler *cadre_compiler_new(const char *program, const char *cache_dir, cadre_error *error)
{
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
    compiler->cache = cadre_cache_open(cache_dir, cache_limit());
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
    cadre_compiler_rest(compiler);
    cadre_options_free(compiler->options);
    cadre_cache_close(compiler->cache);
    cadre_file_memo_free(compiler->memo);
    free(compiler->private_folder);
    free(compiler->program);
    free(compiler->path);
    free(compiler);
}

void cadre_compiler_warm(cadre_compiler *compiler, const char *headers, const char *const *flags,
                         size_t flag_count)
{
    cadre_error ignored;
    const cadre_compile_request request = {
        .headers = headers, .source = "", .flags = flags, .flag_count = flag_count};
    const cadre_options *options =
        cadre_options_get(compiler, CADRE_MODE_OBJECT, flags, flag_count, &ignored);
    if (options && !options->refused) cadre_warm_start(compiler, options, &request);
}

void cadre_compiler_rest(cadre_compiler *compiler)
{
    cadre_keep_write(compiler);
    cadre_warm_free(compiler);
    cadre_ahead_free(compiler);
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

/* One piece of work for the compiler; `more` are -E's further options, NULL for an object. */
typedef struct work {
    cadre_compiler *compiler;
    const cadre_options *options;
    const cadre_compile_request *request;
    const char *const *more;
    int64_t deadline;
} work;

static int run_plain(const work *w, cadre_verdict *verdict, cadre_error *error)
{
    if (w->more)
        return cadre_plain_preprocess(w->options, w->request, w->more, w->deadline, verdict, error);
    return cadre_plain_compile(w->options, w->request, w->deadline, verdict, error);
}

/* The quickest way that works. A compiler that was killed (memory ran out, a person) gets one more
 * chance, the plain way. */
static int run_compiler(const work *w, cadre_verdict *verdict, cadre_error *error)
{
    int code = CADRE_ECHILD;
    if (!w->more) {
        code = cadre_warm_compile(w->compiler, w->options, w->request, w->deadline, verdict, error);
        if (code == CADRE_ECHILD)
            code = cadre_ahead_compile(w->compiler, w->options, w->request, w->deadline, verdict,
                                       error);
    }
    for (int i = 0; i < 2 && code == CADRE_ECHILD; i++)
        code = run_plain(w, verdict, error);
    if (!w->more && !cadre_warm_start(w->compiler, w->options, w->request))
        cadre_ahead_start(w->compiler, w->options, w->request);
    return code;
}

/* From the cache, else compiled and kept. */
static int obtain(const work *w, const char *what, bool *from_cache, cadre_verdict *verdict,
                  cadre_error *error)
{
    unsigned char name[CADRE_HASH_SIZE];
    bool cacheable = w->compiler->cache &&
                     cadre_flags_are_common(w->request->flags, w->request->flag_count) &&
                     cadre_request_is_stable(w->request) &&
                     cadre_key_make(w->options, w->request, what, name) == 0;
    *from_cache = cacheable && cadre_keep_recall(w->compiler, name, verdict);
    if (*from_cache) return 0;
    int64_t start = cadre_file_clock();
    int code = run_compiler(w, verdict, error);
    if (code == 0 && verdict->ok && cacheable)
        cadre_keep(w->compiler, w->options, w->request, name, verdict, start);
    return code;
}

int cadre_compile(cadre_compiler *compiler, const cadre_compile_request *request,
                  cadre_compile_result *result, cadre_error *error)
{
    *result = (cadre_compile_result){0};
    cadre_error own = {0};
    if (!error) error = &own;
    int code = check_request(request, error);
    if (code < 0) return code;
    work w = {compiler, NULL, request, NULL, deadline_of(request)};
    error->code = 0;
    w.options =
        cadre_options_get(compiler, CADRE_MODE_OBJECT, request->flags, request->flag_count, error);
    if (!w.options) return error->code ? error->code : CADRE_ESYSTEM;
    if (w.options->refused) {
        result->diagnostics = strdup(w.options->refused);
        if (!result->diagnostics) return cadre_error_set(error, CADRE_EMEMORY, "no memory");
        return 0;
    }
    cadre_verdict verdict;
    code = obtain(&w, "object", &result->from_cache, &verdict, error);
    if (code < 0) return code;
    result->ok = verdict.ok;
    result->diagnostics = verdict.diagnostics;
    verdict.diagnostics = NULL;
    if (verdict.ok && request->make_shared) {
        code = cadre_link_shared(compiler, request, &verdict, w.deadline, result, error);
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
    static const char *const names[] = {"-E", "-E -dD", "-E -fdirectives-only",
                                        "-E -dD -fdirectives-only"};
    const char *more[3] = {NULL};
    size_t count = 0;
    bool from_cache;
    if (with_macros) more[count++] = "-dD";
    if (directives_only) more[count++] = "-fdirectives-only";
    if (check_request(request, error) < 0) return NULL;
    work w = {compiler, NULL, request, more, deadline_of(request)};
    w.options = cadre_options_get(compiler, CADRE_MODE_PREPROCESS, request->flags,
                                  request->flag_count, error);
    if (!w.options) return NULL;
    if (w.options->refused) {
        cadre_error_set(error, CADRE_EINPUT, "%s", w.options->refused);
        return NULL;
    }
    cadre_verdict verdict;
    if (obtain(&w, names[with_macros + 2 * directives_only], &from_cache, &verdict, error) < 0)
        return NULL;
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
