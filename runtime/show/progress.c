/* Progress bars: a display that is replaced in a notebook, a line on stderr in a terminal. */
#include "show/channel.h"
#include "show/show.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, NOTE_SIZE = 120 };
static const double SHORTEST_STEP = 0.1; /* seconds between two pictures */

struct cadre_progress {
    char *label;
    char note[NOTE_SIZE];
    size_t done, total;
    char display_id[48]; /* "" without a channel */
    int pending;         /* the answer to the last update; see cadre_channel_post */
    bool is_terminal, shown;
    double start, last;
    pid_t owner; /* a forked worker that inherits the bar does not draw it */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void picture(const cadre_progress *progress, cadre_buffer *text, cadre_buffer *html)
{
    double share = progress->total ? (double)progress->done / (double)progress->total : 1;
    if (share > 1) share = 1;
    int full = (int)(share * BAR_WIDTH);
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = 0;

    char figures[80];
    snprintf(figures, sizeof figures, "%zu/%zu  %.1f s", progress->done, progress->total,
             progress->last - progress->start);
    const char *gap = progress->note[0] ? "  " : "";
    cadre_buffer_printf(text, "%s [%s] %s%s%s", progress->label, bar, figures, gap, progress->note);
    if (!html) return;
    cadre_buffer_puts(html, "<div>");
    cadre_html_escape(html, progress->label);
    cadre_buffer_printf(html, " <progress value=\"%zu\" max=\"%zu\"></progress> %s%s",
                        progress->done, progress->total ? progress->total : 1, figures, gap);
    cadre_html_escape(html, progress->note);
    cadre_buffer_puts(html, "</div>");
}

static void draw_display(cadre_progress *progress, bool last)
{
    cadre_buffer text = {0}, html = {0};
    picture(progress, &text, &html);
    json_t *packet = NULL, *data = json_object();
    if (text.failed || html.failed) goto done;
    json_object_set_new(data, "text/plain", cadre_channel_text(text.data));
    json_object_set_new(data, "text/html", cadre_channel_text(html.data));
    packet = cadre_channel_packet(progress->shown ? "update" : "display", json_incref(data),
                                  progress->display_id);
    if (!packet) goto done;
    if (last) {
        cadre_channel_settle(&progress->pending);
        cadre_channel_send(packet, NULL);
    } else if (cadre_channel_post(packet, &progress->pending, NULL) == CADRE_OK) {
        progress->shown = true;
    }
done:
    json_decref(packet);
    json_decref(data);
    cadre_buffer_free(&text);
    cadre_buffer_free(&html);
}

static void draw(cadre_progress *progress, bool last)
{
    progress->last = now();
    if (progress->display_id[0]) {
        draw_display(progress, last);
    } else if (progress->is_terminal) {
        cadre_buffer line = {0};
        picture(progress, &line, NULL);
        if (!line.failed) fprintf(stderr, "\r%s\x1b[K%s", line.data, last ? "\n" : "");
        fflush(stderr);
        cadre_buffer_free(&line);
    }
}

cadre_progress *cadre_progress_new(const char *label, size_t total)
{
    cadre_progress *progress = calloc(1, sizeof *progress);
    if (!progress) return NULL;
    progress->label = strdup(label ? label : "");
    if (!progress->label) {
        free(progress);
        return NULL;
    }
    progress->total = total;
    progress->pending = -1;
    progress->owner = getpid();
    progress->start = now();
    progress->is_terminal = isatty(STDERR_FILENO) == 1;
    if (cadre_channel_is_open()) {
        uint64_t id;
        randombytes_buf(&id, sizeof id);
        snprintf(progress->display_id, sizeof progress->display_id, CADRE_PROGRESS_ID "%016llx",
                 (unsigned long long)id);
    }
    draw(progress, false);
    return progress;
}

void cadre_progress_set(cadre_progress *progress, size_t done, const char *note)
{
    if (!progress || progress->owner != getpid()) return;
    progress->done = done;
    snprintf(progress->note, sizeof progress->note, "%s", note ? note : "");
    if (now() - progress->last >= SHORTEST_STEP) draw(progress, false);
}

void cadre_progress_free(cadre_progress *progress)
{
    if (!progress) return;
    if (progress->owner == getpid()) draw(progress, true);
    if (progress->pending >= 0) close(progress->pending);
    free(progress->label);
    free(progress);
}
