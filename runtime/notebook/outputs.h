/* From messages on iopub to the outputs of a notebook's cells. Private to notebook/. */
#ifndef CADRE_NOTEBOOK_OUTPUTS_H
#define CADRE_NOTEBOOK_OUTPUTS_H

#include "kernel/wire/wire.h"
#include "notebook/notebook.h"

/* Begin with {0} and on_output, user. */
typedef struct cadre_outputs {
    json_t *list;        /* outputs of the running cell; owned with the document */
    json_t *displays;    /* display_id -> array of the outputs shown under it, in any cell */
    cadre_buffer stream; /* text of the last output while it is a stream */
    bool is_stderr;      /* of stream */
    bool clear_next;     /* clear_output with wait */
    json_t *returned;    /* last value of CADRE_RETURN_MIME */
    char *error_name, *error_value; /* of the running cell, NULL: none */
    cadre_notebook_output on_output;
    void *user;
} cadre_outputs;

/* The next cell's outputs go to `list` (borrowed). */
void cadre_outputs_begin(cadre_outputs *outputs, json_t *list);
/* Takes a message whose parent is the running cell's request, or an update of a display. */
void cadre_outputs_take(cadre_outputs *outputs, const cadre_message *message);
/* All text taken so far is in the list afterwards. */
void cadre_outputs_flush(cadre_outputs *outputs);
void cadre_outputs_clear(cadre_outputs *outputs);

#endif
