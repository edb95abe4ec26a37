#include "base/error_handler.h"

#include <stdio.h>
#include <stdlib.h>

/* Written by cadre_set_error_handler from any thread, read by cadre_raise in any other: only the
 * pointer itself matters, so acquire and release suffice. */
static cadre_error_handler installed;
static _Thread_local cadre_error last;

static void end_process(const cadre_error *error)
{
    fflush(stdout);
    fprintf(stderr, "cadre: %s\n", error->message);
    exit(EXIT_FAILURE);
}

cadre_error_handler cadre_set_error_handler(cadre_error_handler handler)
{
    return __atomic_exchange_n(&installed, handler, __ATOMIC_ACQ_REL);
}

void cadre_error_ignore(const cadre_error *error)
{
    (void)error;
}

const cadre_error *cadre_last_error(void)
{
    return &last;
}

int cadre_raise(const cadre_error *error)
{
    /* The handler may leave by longjmp, so everything is recorded before it is called. */
    if (error != &last) last = *error;
    cadre_error_handler handler = __atomic_load_n(&installed, __ATOMIC_ACQUIRE);
    (handler ? handler : end_process)(&last);
    return last.code;
}
