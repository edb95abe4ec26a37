/* Showing things in the notebook from any process of a cell: any MIME type, progress bars.
 *
 *     cadre_display_html("<b>done</b>", "done");
 *     cadre_progress *bar = cadre_progress_new("stores", 35);
 *     for (size_t i = 0; i < 35; i++) { train(i); cadre_progress_set(bar, i + 1, NULL); }
 *     cadre_progress_free(bar);
 *
 * In a kernel the host calls cadre_show_set_channel(fd) with one end of a SOCK_SEQPACKET socket;
 * forked children inherit it. Without a channel (a plain program) text/plain goes to stdout.
 *
 * Wire format of the channel (kernel/host reads it): one packet per display, JSON
 *   {"kind": "display" | "update" | "clear" | "return" | "value" | "comm",
 *    "data": {MIME: value}, "metadata": {}, "display_id": "...", "wait": true}
 * "data" and "metadata" are there except with "clear", "display_id" with "update" and where one
 * was given, "wait" with "clear". Kind "value" (cadre_show) has also "label", "variable", "pid",
 * "size" and "address" (a number in hex): the reader that knows the cell's types formats the value
 * itself, any other shows "data". "return" has data {"application/vnd.cadre.return+json": value,
 * "text/plain": the same as text}.
 * Kind "comm" (comm.h): "action" is "open", "msg", "close" with "comm_id", "data", "metadata" and
 * "buffers" (base64), "open" also with "target_name"; "register" or "unregister" with
 * "target_name"; "take": the answer is the message that waits, a JSON text in a memfd sent with the
 * byte: {"type": "comm_open" | "comm_msg" | "comm_close", "comm_id", "target_name", "data",
 * "metadata", "buffers"}.
 * With SCM_RIGHTS: first descriptor: a socket on which the reader writes one byte (MSG_NOSIGNAL)
 * when all output before it and the display itself are published (the sender waits for it, at
 * most 5 s, so that displays and printed text keep their order); second one, optional: a sealed
 * memfd that holds the JSON instead of the packet (which is then "{}"), for large displays. The
 * sender flushes stdout and stderr first. Updates of a progress bar do not wait: the next one is
 * left out while the one before is not answered.
 *
 * A channel that is broken or does not answer costs at most 5 s and then a negative status
 * (CADRE_ESYSTEM, CADRE_ETIMEOUT); only what the caller got wrong (no JSON, no MIME types) goes to
 * the error handler. Text that is not UTF-8 is shown with U+FFFD in place of each bad byte.
 */
#ifndef CADRE_SHOW_H
#define CADRE_SHOW_H

#include "../base/base.h"
#include "../data/data.h"
#include "../loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -1: none. The descriptor stays the caller's. */
CADRE_API void cadre_show_set_channel(int fd);

/* Displays one MIME bundle given as JSON text {"text/plain": "...", "text/html": "..."}.
 * display_id (may be NULL) names it for cadre_display_update. */
CADRE_API int cadre_display_bundle(const char *bundle_json, const char *display_id);
/* Replaces what was displayed under `display_id` wherever it stands. */
CADRE_API int cadre_display_update(const char *bundle_json, const char *display_id);
CADRE_API int cadre_display_html(const char *html, const char *plain);
/* Clears the output of the running cell: at once, or (wait) when the next output comes. */
CADRE_API int cadre_display_clear(bool wait);
/* A table of text cells: rows * columns strings, row-major; NULL is shown as an empty one. Columns
 * of numbers stand to the right. `title` may be NULL. All strings are copied and escaped. */
CADRE_API int cadre_display_grid(const char *title, const char *const *headings,
                                 const char *const *cells, size_t rows, size_t columns);

/* A bar with its label, "12/35", the time taken and a note; shown at most 10 times a second. In a
 * plain program it is one line on stderr, when that is a terminal. New; NULL: no memory, which the
 * other two accept. */
typedef struct cadre_progress cadre_progress;
CADRE_API cadre_progress *cadre_progress_new(const char *label, size_t total);
CADRE_API void cadre_progress_set(cadre_progress *progress, size_t done, const char *note);
CADRE_API void cadre_progress_free(cadre_progress *progress); /* leaves the finished bar */

/* The value of a cell: which function turns it into a MIME bundle (JSON, new)? NULL: none, the
 * kernel shows it by its type. The kernel applies it to the value of a cell. */
typedef char *(*cadre_bundle_function)(const void *object);
CADRE_API char *cadre_table_bundle(const void *table);
CADRE_API char *cadre_report_bundle(const void *report);
#define CADRE_BUNDLE_OF(value)                                                                     \
    _Generic((value), cadre_table *: cadre_table_bundle, const cadre_table *: cadre_table_bundle, \
             cadre_report *: cadre_report_bundle, const cadre_report *: cadre_report_bundle,      \
             default: (cadre_bundle_function)0)

/* Shows a value in the middle of a cell or of a function of a cell, as the last value of a cell is
 * shown: structs by field, arrays by element, tables and reports as HTML too.
 *
 *     for (int epoch = 0; epoch < 3; epoch++) { train(&net); cadre_show(net.weights); }
 *
 * That takes the kernel's knowledge of types. In a forked process, in code that is not a cell's and
 * in a plain program numbers and strings are shown and everything else by its size. Not for
 * arrays with run-time bounds, bit-fields and void, and not in C++. */
#define cadre_show(...)                                                                            \
    CADRE_SHOW_AS(                                                                                 \
        CADRE_SHOW_JOIN(CADRE_SHOW_JOIN(cadre_shown_, __LINE__), CADRE_SHOW_JOIN(_, __COUNTER__)), \
        __VA_ARGS__)
#define CADRE_SHOW_JOIN(a, b) CADRE_SHOW_JOIN_AGAIN(a, b)
#define CADRE_SHOW_JOIN_AGAIN(a, b) a##b
#define CADRE_SHOW_AS(variable, ...) CADRE_SHOW_NAMED(variable, __VA_ARGS__)
#define CADRE_SHOW_NAMED(variable, ...)                                                            \
    __extension__({                                                                                \
        static __typeof__(__VA_ARGS__) *variable __attribute__((used));                            \
        __auto_type cadre_shown_value = (__VA_ARGS__);                                             \
        cadre_show_value(&cadre_shown_value, sizeof cadre_shown_value,                             \
                         CADRE_KIND_OF(cadre_shown_value), CADRE_BUNDLE_OF(cadre_shown_value),     \
                         #variable);                                                               \
    })

/* What sort of scalar a value is, as far as C can tell by itself. */
enum {
    CADRE_KIND_OTHER,
    CADRE_KIND_BOOL,
    CADRE_KIND_CHAR,
    CADRE_KIND_SIGNED,
    CADRE_KIND_UNSIGNED,
    CADRE_KIND_FLOAT,
    CADRE_KIND_STRING
};
#define CADRE_KIND_OF(value)                                                                       \
    _Generic((value), _Bool: CADRE_KIND_BOOL, char: CADRE_KIND_CHAR, signed char                   \
             : CADRE_KIND_SIGNED, short: CADRE_KIND_SIGNED, int: CADRE_KIND_SIGNED, long           \
             : CADRE_KIND_SIGNED, long long: CADRE_KIND_SIGNED, unsigned char                      \
             : CADRE_KIND_UNSIGNED, unsigned short: CADRE_KIND_UNSIGNED, unsigned                  \
             : CADRE_KIND_UNSIGNED, unsigned long: CADRE_KIND_UNSIGNED, unsigned long long         \
             : CADRE_KIND_UNSIGNED, float: CADRE_KIND_FLOAT, double: CADRE_KIND_FLOAT, long double \
             : CADRE_KIND_FLOAT, char *: CADRE_KIND_STRING, const char *: CADRE_KIND_STRING,       \
               default: CADRE_KIND_OTHER)
/* The value as text, new; NULL: no memory. `{24 bytes}` for what is no scalar. */
CADRE_API char *cadre_value_text(const void *value, size_t size, int kind);
/* What cadre_show calls. `variable` names the static variable whose type tells the value's. */
CADRE_API void cadre_show_value(const void *value, size_t size, int kind,
                                cadre_bundle_function bundle, const char *variable);
/* The same from a cell with that file name (`label`, NULL: not from a cell): for the host. */
CADRE_API void cadre_show_value_of(const char *label, const void *value, size_t size, int kind,
                                   cadre_bundle_function bundle, const char *variable);

/* Asks the user for a password, which is not shown as it is typed. New, without the line's end;
 * NULL: there is no input. In a plain program it is read from the terminal. */
CADRE_API char *cadre_read_password(const char *prompt);

#ifdef __cplusplus
}
#endif
#endif
