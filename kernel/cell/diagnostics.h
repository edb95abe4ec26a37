/* The compiler's messages, in the cell's own words: In[3]:5:10, the line and a caret. Private to
 * kernel/cell. Nothing of the generated text and no temporary path gets out. */
#ifndef CADRE_CELL_DIAGNOSTICS_H
#define CADRE_CELL_DIAGNOSTICS_H

#include "cell/translate.h"

typedef struct cell_diagnostics {
    const cell_reading *reading;
    const cell_translator *translator; /* NULL before there is a translation */
    const cell_segment_text *segment;  /* the unit that the text is about */
    int execution_count;
    cadre_buffer traceback; /* everything, coloured */
    cadre_buffer warnings;  /* warnings and their notes, plain */
    char *error_value;      /* first error, one line; owned */
    cell_map seen;
    cadre_buffer *notes_to; /* where the notes of the last message go */
} cell_diagnostics;

/* Takes in the compiler's text for one unit. */
void cell_diagnostics_add(cell_diagnostics *d, const char *text);
/* One message of our own. */
void cell_diagnostics_message(cell_diagnostics *d, const char *kind, uint16_t source, uint32_t line,
                              uint32_t column, const char *message);
/* Names that could not be used because a type changed, when a message is about them. */
void cell_diagnostics_explain_stale(cell_diagnostics *d, cell_names *names);
void cell_diagnostics_free(cell_diagnostics *d);

#endif
