/* Writes C text in which every token of the cell keeps its line and column. Private to
 * kernel/cell.
 *
 * Text of the cell is copied as it was written wherever that is possible; #line directives and
 * blanks bring the compiler back to the cell's coordinates after anything that was added, dropped
 * or replaced. */
#ifndef CADRE_CELL_EMIT_H
#define CADRE_CELL_EMIT_H

#include "base/base.h"
#include "cell/read.h"

/* Files that stand in #line for text that is not the cell's. */
#define CELL_FILE_GENERATED "cadre-generated"
#define CELL_FILE_SESSION "cadre-session"

typedef struct emitter {
    cadre_buffer *out;
    const cell_reading *reading;
    bool in_place; /* the output stands at source:line:column */
    uint16_t source;
    uint32_t line, column;
} emitter;

/* Text of our own, whole lines. */
void cell_emit_generated(emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text of our own inside a line of the cell. */
void cell_emit_words(emitter *e, const char *text);
/* stream[first..end) as it was written. */
void cell_emit_tokens(emitter *e, size_t first, size_t end);
/* One directive, on a line of its own. */
void cell_emit_directive(emitter *e, const token *directive);

#endif
