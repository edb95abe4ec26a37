#include "show/grid.h"
#include "show/channel.h"
#include "show/show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *cell(const cadre_grid *grid, size_t row, size_t column)
{
    const char *text = grid->cells[row * grid->columns + column];
    return text ? text : "";
}

/* A column is numeric when each of its cells begins like a number or is empty, and one is not. */
static bool is_numeric(const cadre_grid *grid, size_t column)
{
    bool any = false;
    for (size_t row = 0; row < grid->rows; row++) {
        const char *text = cell(grid, row, column);
        if (!*text) continue;
        if (*text == '-' || *text == '+') text++;
        if (!isdigit((unsigned char)*text)) return false;
        any = true;
    }
    return any;
}

static void pad(cadre_buffer *text, size_t count)
{
    while (count--)
        cadre_buffer_append(text, " ", 1);
}

static void put_cell(cadre_buffer *text, const char *value, size_t width, bool right, bool last)
{
    size_t columns = cadre_utf8_columns(value);
    size_t space = columns < width ? width - columns : 0;
    if (right) pad(text, space);
    /* A line break inside a cell would break the table. */
    for (; *value; value++)
        cadre_buffer_append(text, *value == '\n' || *value == '\r' ? " " : value, 1);
    if (!right && !last) pad(text, space);
    if (!last) pad(text, 2);
}

void cadre_grid_text(const cadre_grid *grid, cadre_buffer *text)
{
    size_t columns = grid->columns;
    size_t *width = calloc(columns ? columns : 1, sizeof *width);
    bool *right = calloc(columns ? columns : 1, sizeof *right);
    if (!width || !right) {
        text->failed = true;
        goto done;
    }
    for (size_t column = 0; column < columns; column++) {
        const char *heading = grid->headings[column] ? grid->headings[column] : "";
        right[column] = is_numeric(grid, column);
        width[column] = cadre_utf8_columns(heading);
        for (size_t row = 0; row < grid->rows; row++) {
            size_t needed = cadre_utf8_columns(cell(grid, row, column));
            if (needed > width[column]) width[column] = needed;
        }
    }
    if (grid->title && *grid->title) cadre_buffer_printf(text, "%s\n", grid->title);
    for (size_t column = 0; column < columns; column++) {
        const char *heading = grid->headings[column] ? grid->headings[column] : "";
        put_cell(text, heading, width[column], right[column], column + 1 == columns);
    }
    cadre_buffer_puts(text, "\n");
    for (size_t row = 0; row < grid->rows; row++) {
        for (size_t column = 0; column < columns; column++)
            put_cell(text, cell(grid, row, column), width[column], right[column],
                     column + 1 == columns);
        cadre_buffer_puts(text, "\n");
    }
done:
    free(width);
    free(right);
}

static void html_cell(cadre_buffer *html, const char *tag, const char *text, bool right)
{
    cadre_buffer_printf(html, "<%s style=\"text-align: %s\">", tag, right ? "right" : "left");
    cadre_html_escape(html, text);
    cadre_buffer_printf(html, "</%s>", tag);
}

void cadre_grid_html(const cadre_grid *grid, cadre_buffer *html)
{
    bool *right = calloc(grid->columns ? grid->columns : 1, sizeof *right);
    if (!right) {
        html->failed = true;
        return;
    }
    cadre_buffer_puts(html, "<table>");
    if (grid->title && *grid->title) {
        cadre_buffer_puts(html, "<caption>");
        cadre_html_escape(html, grid->title);
        cadre_buffer_puts(html, "</caption>");
    }
    cadre_buffer_puts(html, "<thead><tr>");
    for (size_t column = 0; column < grid->columns; column++) {
        right[column] = is_numeric(grid, column);
        html_cell(html, "th", grid->headings[column] ? grid->headings[column] : "", right[column]);
    }
    cadre_buffer_puts(html, "</tr></thead><tbody>");
    for (size_t row = 0; row < grid->rows; row++) {
        cadre_buffer_puts(html, "<tr>");
        for (size_t column = 0; column < grid->columns; column++)
            html_cell(html, "td", cell(grid, row, column), right[column]);
        cadre_buffer_puts(html, "</tr>");
    }
    cadre_buffer_puts(html, "</tbody></table>");
    free(right);
}

int cadre_display_grid(const char *title, const char *const *headings, const char *const *cells,
                       size_t rows, size_t columns)
{
    cadre_grid grid = {title, headings, cells, rows, columns};
    cadre_buffer text = {0}, html = {0};
    cadre_grid_text(&grid, &text);
    cadre_grid_html(&grid, &html);
    int status = CADRE_EMEMORY;
    if (!text.failed && !html.failed) status = cadre_display_html(html.data, text.data);
    cadre_buffer_free(&text);
    cadre_buffer_free(&html);
    return status;
}
