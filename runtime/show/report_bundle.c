/* A report of a loop as a MIME bundle: one line of totals, a table of slices, those without a
 * model and why. */
#include "loop/loop.h"
#include "show/channel.h"
#include "show/grid.h"
#include "show/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6, MOST_ROWS = 200, CELL_SIZE = 32 };
static const char *const headings[COLUMNS] = {
    "slice", "rows", "held out", "error", "error of the mean", "seconds"};

typedef struct rows {
    const char **cells;
    char (*space)[CELL_SIZE];
    size_t count, left_out;
} rows;

static void number(char *cell, const char *format, double value)
{
    if (isfinite(value))
        snprintf(cell, CELL_SIZE, format, value);
    else
        cell[0] = 0;
}

static bool make_rows(const cadre_report *report, rows *table)
{
    size_t slices = cadre_report_slices(report);
    size_t most = slices < MOST_ROWS ? slices : MOST_ROWS;
    *table = (rows){.cells = calloc(most * COLUMNS + 1, sizeof *table->cells),
                    .space = calloc(most * COLUMNS + 1, CELL_SIZE)};
    if (!table->cells || !table->space) return false;
    for (size_t i = 0; i < slices; i++) {
        if (cadre_report_state(report, i) != CADRE_SLICE_TRAINED) continue;
        if (table->count == most) {
            table->left_out++;
            continue;
        }
        size_t first = table->count++ * COLUMNS;
        const char **cell = table->cells + first;
        char(*space)[CELL_SIZE] = table->space + first;
        cell[0] = cadre_report_name(report, i);
        snprintf(space[1], CELL_SIZE, "%zu", cadre_report_rows(report, i));
        number(space[2], "%.0f", cadre_report_metric(report, i, "rows_test"));
        number(space[3], "%.4g", cadre_report_metric(report, i, "error"));
        number(space[4], "%.4g", cadre_report_metric(report, i, "error_mean"));
        number(space[5], "%.4f", cadre_report_slice_seconds(report, i));
        for (int column = 1; column < COLUMNS; column++)
            cell[column] = space[column];
    }
    return true;
}

static void totals(const cadre_report *report, cadre_buffer *text)
{
    int processes = cadre_report_processes(report);
    cadre_buffer_printf(text, "%zu slices, %zu models in %.2f s in %d process%s",
                        cadre_report_slices(report), cadre_report_models(report),
                        cadre_report_seconds(report), processes, processes == 1 ? "" : "es");
    double error = cadre_report_error(report);
    if (isfinite(error))
        cadre_buffer_printf(text, "; error %.4g, of the mean %.4g", error,
                            cadre_report_error_mean(report));
    if (*cadre_report_remark(report))
        cadre_buffer_printf(text, " (%s)", cadre_report_remark(report));
}

/* Slices without a model. `html` says which of the two is wanted. */
static void without_model(const cadre_report *report, cadre_buffer *out, bool html)
{
    size_t slices = cadre_report_slices(report), found = 0;
    for (size_t i = 0; i < slices; i++) {
        cadre_slice_state state = cadre_report_state(report, i);
        if (state == CADRE_SLICE_TRAINED || found++ >= MOST_ROWS) continue;
        const char *word = state == CADRE_SLICE_CRASHED ? "crashed" : "refused";
        const char *name = cadre_report_name(report, i), *why = cadre_report_message(report, i);
        if (!html) {
            cadre_buffer_printf(out, "%s%s (%zu rows) %s: %s\n",
                                found == 1 ? "without a model:\n" : "", name,
                                cadre_report_rows(report, i), word, why);
            continue;
        }
        cadre_buffer_puts(out, found == 1 ? "<p>without a model:</p><ul><li>" : "<li>");
        cadre_html_escape(out, name);
        cadre_buffer_printf(out, " (%zu rows) %s: ", cadre_report_rows(report, i), word);
        cadre_html_escape(out, why);
        cadre_buffer_puts(out, "</li>");
    }
    if (found > MOST_ROWS)
        cadre_buffer_printf(out, html ? "<li>and %zu more</li>" : "and %zu more\n",
                            found - MOST_ROWS);
    if (html && found) cadre_buffer_puts(out, "</ul>");
}

char *cadre_report_bundle(const void *object)
{
    const cadre_report *report = object;
    cadre_buffer line = {0}, text = {0}, html = {0};
    rows table = {0};
    char *bundle = NULL;
    if (!report || !make_rows(report, &table)) goto done;
    totals(report, &line);
    if (line.failed) goto done;
    cadre_grid grid = {NULL, headings, table.cells, table.count, COLUMNS};

    cadre_buffer_printf(&text, "%s\n", line.data);
    cadre_buffer_puts(&html, "<p>");
    cadre_html_escape(&html, line.data);
    cadre_buffer_puts(&html, "</p>");
    if (table.count > 0) {
        cadre_grid_text(&grid, &text);
        cadre_grid_html(&grid, &html);
    }
    if (table.left_out > 0) {
        cadre_buffer_printf(&text, "and %zu more\n", table.left_out);
        cadre_buffer_printf(&html, "<p>and %zu more</p>", table.left_out);
    }
    without_model(report, &text, false);
    without_model(report, &html, true);
    if (text.failed || html.failed) goto done;

    json_t *data = json_object();
    json_object_set_new(data, "text/plain", cadre_channel_text(text.data));
    json_object_set_new(data, "text/html", cadre_channel_text(html.data));
    bundle = data ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
done:
    cadre_buffer_free(&line);
    cadre_buffer_free(&text);
    cadre_buffer_free(&html);
    free(table.cells);
    free(table.space);
    return bundle;
}
