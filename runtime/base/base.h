/* runtime/base: what every other folder stands on: errors as values, growing strings.
 *
 * It knows nobody. The kernel, the runtime and the command line all report failures as
 *
 *     cadre_error error = {0};
 *     if (some_call(..., &error) < 0) { fprintf(stderr, "%s\n", error.message); }
 *
 * A function that can fail returns a status (0 or a negative CADRE_E...) or NULL and fills the
 * caller's cadre_error, when it was given one. Messages say what was wrong, where, and what to do.
 */
#ifndef CADRE_BASE_H
#define CADRE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CADRE_API __attribute__((visibility("default")))

/* Codes are negative so that a status can be tested with `< 0`. */
typedef enum cadre_code {
    CADRE_OK = 0,
    CADRE_EMEMORY = -1,    /* no memory */
    CADRE_EINPUT = -2,     /* an argument, option or value that cannot be used */
    CADRE_EFILE = -3,      /* a file or folder that cannot be read or written */
    CADRE_EFORMAT = -4,    /* data that is not what its format says */
    CADRE_ESYSTEM = -5,    /* the system refused (fork, socket, ...) */
    CADRE_ENUMERIC = -6,   /* a computation without a usable result */
    CADRE_ETIMEOUT = -7,   /* a limit of time was reached */
    CADRE_EINTERRUPT = -8, /* stopped by the user */
    CADRE_ECHILD = -9,     /* another process failed */
    CADRE_ENOTFOUND = -10  /* a name that does not exist */
} cadre_code;

typedef struct cadre_error {
    int code;           /* a cadre_code; 0 when nothing failed */
    char message[1000]; /* whole text for a person, file, line and column included */
    char file[256];     /* the file concerned, "" when there is none */
    long line, column;  /* counted from 1, 0 when there is none */
} cadre_error;

/* Fills *error (nothing when NULL) and returns `code`, so that a caller can
 * `return cadre_error_set(error, CADRE_EINPUT, "cpu_count is %d; ...", n);` */
CADRE_API int cadre_error_set(cadre_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As cadre_error_set, and remembers file, line and column (0: none). The message is prefixed
 * with "file:line:column: " as far as they are given. */
CADRE_API int cadre_error_set_at(cadre_error *error, int code, const char *file, long line,
                                 long column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* A growing, always NUL-terminated byte string. `{0}` is an empty one; data is NULL until the
 * first append. Appends that find no memory set `failed` and change nothing, so a row of appends
 * is checked once at its end. Owned by whoever declared it; cadre_buffer_free releases it. */
typedef struct cadre_buffer {
    char *data;
    size_t length, capacity;
    bool failed;
} cadre_buffer;

CADRE_API void cadre_buffer_append(cadre_buffer *buffer, const void *bytes, size_t length);
CADRE_API void cadre_buffer_puts(cadre_buffer *buffer, const char *text);
CADRE_API void cadre_buffer_printf(cadre_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
CADRE_API void cadre_buffer_vprintf(cadre_buffer *buffer, const char *format, va_list arguments);
CADRE_API void cadre_buffer_clear(cadre_buffer *buffer); /* length 0, memory kept */
CADRE_API void cadre_buffer_free(cadre_buffer *buffer);
/* The string itself, new, owned by the caller (free()); the buffer is empty afterwards.
 * NULL when the buffer had failed. */
CADRE_API char *cadre_buffer_steal(cadre_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
