/* Compiling translation units with the system's gcc, outside of any user process, kept warm.
 * Private to kernel/cell.
 *
 *     cadre_compiler *compiler = cadre_compiler_new("gcc", cache_dir, &error);
 *     cadre_compile_request request = {.headers = "#include <math.h>\n", .source = text,
 *         .length = n, .flags = flags, .flag_count = k, .cancel_fd = -1};
 *     cadre_compile_result result;
 *     if (cadre_compile(compiler, &request, &result, &error) == 0 && result.ok)
 *         use(result.object, result.object_length);
 *     cadre_compile_result_free(&result);
 *
 * The compiled text is `headers` followed by `source`. Headers are stable over many cells: the
 * warm compiler holds them parsed (one server per set of headers and flags, at most two alive).
 * Objects are made with -std=gnu17 -c -O2 -march=native -g -fPIC -fno-plt -ffunction-sections
 * -fdata-sections -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-common -Wall unless
 * `flags`, which come after, say otherwise (-D_GNU_SOURCE is the caller's to pass). Messages are
 * in English and UTF-8, without colours. gcc draws the line and the caret under a message from the
 * file that #line names: they are there when that file exists while the unit is compiled. A result
 * is cached by content (source, declarations seen, contents of included files, flags, CPATH and the
 * like, compiler, CPU).
 */
#ifndef CADRE_CELL_COMPILE_H
#define CADRE_CELL_COMPILE_H

#include "base/base.h"

typedef struct cadre_compiler cadre_compiler;

typedef struct cadre_compile_request {
    const char *headers; /* directives only */
    const char *source;
    size_t length;
    const char *const *flags; /* session's %cflags, -std=, -I... */
    size_t flag_count;
    bool make_shared; /* link a shared library instead (cells with TLS or IFUNC) */
    const char *const *link_flags;
    size_t link_flag_count;
    int cancel_fd;  /* readable: give up at once with CADRE_EINTERRUPT; -1: none */
    int timeout_ms; /* 0: 120,000; reached: CADRE_ETIMEOUT */
} cadre_compile_request;

typedef struct cadre_compile_result {
    bool ok; /* false: the compiler refused, diagnostics say why */
    bool from_cache;
    unsigned char *object; /* owned; NULL when !ok or make_shared */
    size_t object_length;
    char *library_path; /* owned; make_shared: a .so in the compiler's own private folder */
    char *diagnostics;  /* owned; the compiler's text, "" when silent */
} cadre_compile_result;

cadre_compiler *cadre_compiler_new(const char *program, const char *cache_dir, cadre_error *error);
void cadre_compiler_free(cadre_compiler *compiler);
/* Starts a server for these headers and flags in the background, if there is none. */
void cadre_compiler_warm(cadre_compiler *compiler, const char *headers, const char *const *flags,
                         size_t flag_count);
/* Ends the servers and whatever waits for a unit. */
void cadre_compiler_rest(cadre_compiler *compiler);
/* 0: the compiler gave its verdict (result->ok). Negative: it could not (missing, killed twice,
 * hung, cancelled, disk full): *error says what and what to do; result is empty. */
int cadre_compile(cadre_compiler *compiler, const cadre_compile_request *request,
                  cadre_compile_result *result, cadre_error *error);
void cadre_compile_result_free(cadre_compile_result *result);

/* The preprocessor's output (-E, plus -dD when `with_macros`: every #define in it too) of
 * headers + source, new, for learning the headers' typedefs, enumerators and macros, and
 * (directives_only: -fdirectives-only) for resolving #if around statements. Cached as well.
 * NULL with *error; the error's message holds the compiler's diagnostics when it refused. */
char *cadre_preprocess(cadre_compiler *compiler, const cadre_compile_request *request,
                       bool with_macros, bool directives_only, cadre_error *error);

#endif
