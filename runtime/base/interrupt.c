#include "base/interrupt.h"

#include <stdatomic.h>

/* Written by signal handlers and by whoever starts a cell, read by loops of the runtime: one
 * lock-free word, and nothing else is published through it. */
static atomic_bool requested;

/* initial-exec: read without the lazy allocation that a signal handler could not afford. */
static _Thread_local cadre_interrupt_boundary *innermost __attribute__((tls_model("initial-exec")));

void cadre_interrupt_request(void)
{
    atomic_store_explicit(&requested, true, memory_order_relaxed);
}

bool cadre_interrupt_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}

void cadre_interrupt_clear(void)
{
    atomic_store_explicit(&requested, false, memory_order_relaxed);
    innermost = NULL;
}

cadre_interrupt_boundary *cadre_interrupt_innermost(void)
{
    return innermost;
}

void cadre_interrupt_enter(cadre_interrupt_boundary *boundary)
{
    boundary->outer = innermost;
    /* A handler that runs between these two lines must see a whole boundary or none. */
    atomic_signal_fence(memory_order_release);
    innermost = boundary;
}

void cadre_interrupt_leave(cadre_interrupt_boundary *boundary)
{
    innermost = boundary->outer;
}
