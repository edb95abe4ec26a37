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
 *   {"kind": "display" | "update" | "clear" | "return",
 *    "data": {MIME: value}, "metadata": {}, "display_id": "...", "wait": true}
 * "data" and "metadata" are there except with "clear", "display_id" with "update" and where one
 * was given, "wait" with "clear". "return" has data {"application/vnd.cadre.return+json": value,
 * "text/plain": the same as text}.
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

#ifdef __cplusplus
}
#endif
#endif
