/* Showing things in the notebook from any process of a cell: any MIME type, progress bars.
 *
 * In a kernel the host calls cadre_show_set_channel(fd) with one end of a SOCK_SEQPACKET socket;
 * forked children inherit it. Without a channel (a plain program) text/plain goes to stdout.
 *
 * Wire format of the channel (kernel/host reads it): one packet per display, JSON
 *   {"kind": "display" | "update" | "clear" | "return",
 *    "data": {MIME: value}, "metadata": {}, "display_id": "...", "wait": true}
 * with SCM_RIGHTS: first descriptor: a socket on which the reader writes one byte when all output
 * before it and the display itself are published (the sender waits for it, at most 5 s, so that
 * displays and printed text keep their order); second one, optional: a memfd that holds the JSON
 * instead of the packet, for large displays. The sender flushes stdout and stderr first.
 */
#ifndef CADRE_SHOW_H
#define CADRE_SHOW_H

#include "../base/base.h"
#include "../data/data.h"
#include "../loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

CADRE_API void cadre_show_set_channel(int fd);

/* Displays one MIME bundle given as JSON text {"text/plain": "...", "text/html": "..."}.
 * display_id (may be NULL) names it for cadre_display_update. */
CADRE_API int cadre_display_bundle(const char *bundle_json, const char *display_id);
CADRE_API int cadre_display_update(const char *bundle_json, const char *display_id);
CADRE_API int cadre_display_html(const char *html, const char *plain);
CADRE_API int cadre_display_clear(bool wait);
/* A table of text cells: rows * columns strings, row-major. */
CADRE_API int cadre_display_grid(const char *title, const char *const *headings,
                                 const char *const *cells, size_t rows, size_t columns);

typedef struct cadre_progress cadre_progress;
CADRE_API cadre_progress *cadre_progress_new(const char *label, size_t total);
CADRE_API void cadre_progress_set(cadre_progress *progress, size_t done, const char *note);
CADRE_API void cadre_progress_free(cadre_progress *progress); /* leaves the finished bar */

/* The value of a cell: which function turns it into a MIME bundle (JSON, new)? NULL: none, the
 * kernel shows it by its type. The kernel applies it to the value of a cell. */
typedef char *(*cadre_bundle_function)(const void *object);
CADRE_API char *cadre_table_bundle(const void *table);
CADRE_API char *cadre_report_bundle(const void *report);
#define CADRE_BUNDLE_OF(value)                                                                   \
    _Generic((value), cadre_table *: cadre_table_bundle, const cadre_table *: cadre_table_bundle, \
             cadre_report *: cadre_report_bundle, const cadre_report *: cadre_report_bundle,      \
             default: (cadre_bundle_function)0)

#ifdef __cplusplus
}
#endif
#endif
