/* Parameters from outside: JSON values checked against the declared C types. Private to
 * kernel/cell. A value that does not fit exactly is an error before anything runs. */
#ifndef CADRE_CELL_PARAMETERS_H
#define CADRE_CELL_PARAMETERS_H

#include "cell/translate.h"

#include <jansson.h>

typedef struct cell_parameters {
    cell_translator *translator;
    const json_t *given;   /* name -> value, may be NULL; borrowed */
    const json_t *applied; /* as the session remembers them; borrowed, may be NULL */
    json_t *now;           /* what this cell applies: new, for the session to merge at commit */
    json_t *used;          /* the caller's, may be NULL: name -> true */
    bool failed;
    char error[800];
    cadre_buffer notes;
} cell_parameters;

/* C text of the value for a variable that the cell declares, or NULL (see ->failed). */
const char *cell_parameters_declared(void *context, const token *stream, const declaration *d,
                                     const declarator *one);
/* Assignments for variables of earlier cells whose value is new; sets the translator's
 * first_statements. Call before cell_translate, with the items known. */
void cell_parameters_assign(cell_parameters *p);

#endif
