/* Files and tables for the tests of runtime/data, runtime/model and runtime/store. */
#ifndef DATA_HELPER_H
#define DATA_HELPER_H

#include "data/data.h"

/* A new file with these bytes; the name is in a static buffer, valid until the next call. It lies
 * in a folder of this process that is removed at exit. */
const char *helper_file(const void *bytes, size_t length);
const char *helper_folder(void);
/* The table that these bytes are, or NULL with the error. */
cadre_table *helper_table(const char *text, cadre_error *error);
/* A stream of numbers that depends on nothing: xorshift64*. */
uint64_t helper_random(void);
double helper_uniform(void); /* from -1 to 1 */

#endif
