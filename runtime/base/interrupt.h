/* How a running cell is asked to stop while it is inside the runtime.
 *
 * The host interrupts a cell by a signal. When every frame from the interrupted instruction up to
 * the cell's entry is cell code, its handler leaves the cell by itself. Inside cadre_loop,
 * cadre_notebook_run and the like that would leave workers, kernels and locks behind; so the
 * handler calls cadre_interrupt_request() each time, and the runtime stops at once, cleans up and
 * raises an error with code CADRE_EINTERRUPT:
 *
 *     void handler(int signal)
 *     {
 *         cadre_interrupt_request();
 *         if (all_frames_are_cell_code_up_to(entry)) siglongjmp(cell, 1);
 *         cadre_interrupt_boundary *boundary = cadre_interrupt_innermost();
 *         if (boundary && all_frames_are_cell_code_up_to(boundary->stack))
 *             siglongjmp(boundary->jump, CADRE_EINTERRUPT);   // out of the user's train function
 *     }
 *
 * Whoever starts a cell calls cadre_interrupt_clear() first. A plain program may call
 * cadre_interrupt_request() in a handler of SIGINT of its own.
 */
#ifndef CADRE_INTERRUPT_H
#define CADRE_INTERRUPT_H

#include "base.h"

#include <setjmp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request stays until it is cleared. _request is async-signal-safe. Process-wide; a forked
 * child starts with the state that its parent had. _clear also forgets boundaries of this thread
 * that an earlier cell left by a jump. */
CADRE_API void cadre_interrupt_request(void);
CADRE_API bool cadre_interrupt_requested(void);
CADRE_API void cadre_interrupt_clear(void);

/* A place inside the runtime to which a function of the user, called from there, may be left:
 * every frame that begins below `stack` (stacks grow down) belongs to that call or what it calls.
 * The jump arrives with the code given to siglongjmp. Per thread; boundaries nest. */
typedef struct cadre_interrupt_boundary {
    sigjmp_buf jump;
    const void *stack;
    struct cadre_interrupt_boundary *outer;
} cadre_interrupt_boundary;

/* Async-signal-safe. NULL: there is none. */
CADRE_API cadre_interrupt_boundary *cadre_interrupt_innermost(void);
/* For the runtime: the caller has filled `jump` and `stack`. */
CADRE_API void cadre_interrupt_enter(cadre_interrupt_boundary *boundary);
CADRE_API void cadre_interrupt_leave(cadre_interrupt_boundary *boundary);

#ifdef __cplusplus
}
#endif
#endif
