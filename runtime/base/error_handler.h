/* What happens when a function of <cadre.h> that takes no cadre_error fails.
 *
 * Default: the handler prints the message to stderr and ends the process with status 1; in a
 * notebook the host installs one that ends the cell with `CadreError: message`, the state kept.
 * With cadre_set_error_handler(cadre_error_ignore) functions return NULL or a negative status and
 * cadre_last_error() has the message (per thread).
 */
#ifndef CADRE_ERROR_HANDLER_H
#define CADRE_ERROR_HANDLER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*cadre_error_handler)(const cadre_error *error);

/* Installs `handler` (NULL: the default) and returns the one before. Process-wide. */
CADRE_API cadre_error_handler cadre_set_error_handler(cadre_error_handler handler);
CADRE_API void cadre_error_ignore(const cadre_error *error);
/* The last error of this thread; code 0 when there was none. Borrowed. */
CADRE_API const cadre_error *cadre_last_error(void);
/* For the runtime's own modules: records the error and calls the handler; may not return. */
CADRE_API int cadre_raise(const cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif
