/* A table as the value of a cell: its first rows, how many there are, the columns by type. */
#include "data/table.h"
#include "show/channel.h"
#include "show/grid.h"
#include "show/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 10, MOST_COLUMNS = 40, LONGEST_CELL = 40 };

/* The shortest of 15 to 17 digits that reads back. */
static void format_double(double value, char *text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return;
    }
}

/* At most LONGEST_CELL characters. */
static void append_cut(cadre_buffer *out, const char *text)
{
    size_t length = strlen(text), at = 0;
    for (int count = 0; count < LONGEST_CELL && at < length; count++)
        at += cadre_utf8_length(text + at, length - at) ? cadre_utf8_length(text + at, length - at)
                                                        : 1;
    cadre_buffer_append(out, text, at);
    if (at < length) cadre_buffer_puts(out, "\u2026");
}

static char *cut(const char *text)
{
    cadre_buffer out = {0};
    append_cut(&out, text);
    return cadre_buffer_steal(&out);
}

/* A missing value is an empty cell. */
static char *format_cell(const cadre_table *table, size_t column, size_t row)
{
    cadre_buffer out = {0};
    char number[40] = "";
    const double *doubles = cadre_table_doubles(table, column);
    const int64_t *wholes = cadre_table_int64s(table, column);
    const int32_t *texts = cadre_table_texts(table, column);
    if (doubles && !isnan(doubles[row])) format_double(doubles[row], number, sizeof number);
    if (wholes && wholes[row] != CADRE_INT64_MISSING)
        snprintf(number, sizeof number, "%" PRId64, wholes[row]);
    cadre_buffer_puts(&out, number);
    if (texts && texts[row] >= 0) append_cut(&out, cadre_table_level(table, column, texts[row]));
    return cadre_buffer_steal(&out);
}

/* "int64: year, month; text: carrier" */
static void list_types(const cadre_table *table, cadre_buffer *out)
{
    bool any = false;
    for (int type = CADRE_DOUBLE; type <= CADRE_TEXT; type++) {
        size_t found = 0;
        for (size_t i = 0; i < table->column_count; i++) {
            if (table->columns[i].type != (cadre_column_type)type || found++ >= MOST_COLUMNS)
                continue;
            if (found == 1)
                cadre_buffer_printf(out, "%s%s: ", any ? "; " : "",
                                    cadre_column_type_name((cadre_column_type)type));
            else
                cadre_buffer_puts(out, ", ");
            append_cut(out, table->columns[i].name);
        }
        if (found > MOST_COLUMNS) cadre_buffer_printf(out, " and %zu more", found - MOST_COLUMNS);
        any = any || found;
    }
}

static char *bundle_of(cadre_buffer *text, cadre_buffer *html)
{
    if (text->failed || html->failed) return NULL;
    json_t *data = json_object();
    json_object_set_new(data, "text/plain", cadre_channel_text(text->data));
    json_object_set_new(data, "text/html", cadre_channel_text(html->data));
    char *bundle = data ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    return bundle;
}

char *cadre_table_bundle(const void *object)
{
    const cadre_table *table = object;
    if (!table) return NULL;
    size_t rows = table->rows < MOST_ROWS ? table->rows : MOST_ROWS;
    size_t columns = table->column_count < MOST_COLUMNS ? table->column_count : MOST_COLUMNS;
    char *bundle = NULL, **cells = calloc(rows * columns + 1, sizeof *cells);
    char **headings = calloc(columns + 1, sizeof *headings);
    cadre_buffer text = {0}, html = {0}, types = {0};
    if (!cells || !headings) goto done;
    for (size_t i = 0; i < columns; i++)
        if (!(headings[i] = cut(table->columns[i].name))) goto done;
    for (size_t i = 0; i < rows * columns; i++)
        if (!(cells[i] = format_cell(table, i % columns, i / columns))) goto done;
    const cadre_grid grid = {NULL, (const char *const *)headings, (const char *const *)cells, rows,
                             columns};

    const char *name =
        strrchr(table->source, '/') ? strrchr(table->source, '/') + 1 : table->source;
    list_types(table, &types);
    if (types.failed) goto done;
    cadre_buffer_printf(&text, "%s: %zu row%s, %zu column%s\n", name, table->rows,
                        table->rows == 1 ? "" : "s", table->column_count,
                        table->column_count == 1 ? "" : "s");
    if (text.failed) goto done;
    cadre_buffer_puts(&html, "<p>");
    cadre_html_escape(&html, text.data);
    cadre_buffer_puts(&html, "</p>");
    cadre_grid_text(&grid, &text);
    cadre_grid_html(&grid, &html);
    if (rows < table->rows) cadre_buffer_puts(&text, "...\n");
    cadre_buffer_printf(&text, "%s\n", types.data);
    cadre_buffer_puts(&html, "<p>");
    cadre_html_escape(&html, types.data);
    cadre_buffer_puts(&html, "</p>");
    bundle = bundle_of(&text, &html);
done:
    for (size_t i = 0; cells && i < rows * columns; i++)
        free(cells[i]);
    for (size_t i = 0; headings && i < columns; i++)
        free(headings[i]);
    free(cells);
    free(headings);
    cadre_buffer_free(&text);
    cadre_buffer_free(&html);
    cadre_buffer_free(&types);
    return bundle;
}
