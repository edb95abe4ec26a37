/* Tables of text for terminals and for notebooks. Private to the runtime. */
#ifndef CADRE_SHOW_GRID_H
#define CADRE_SHOW_GRID_H

#include "base/base.h"

typedef struct cadre_grid {
    const char *title;           /* NULL: none */
    const char *const *headings; /* columns of them */
    const char *const *cells;    /* rows * columns, row-major; NULL: empty */
    size_t rows, columns;
} cadre_grid;

/* Both append to a buffer; check its `failed` at the end. */
void cadre_grid_text(const cadre_grid *grid, cadre_buffer *text);
void cadre_grid_html(const cadre_grid *grid, cadre_buffer *html);

#endif
