/* What tells a kernel that the one before it was killed: a small file for each connection file, in
 * $XDG_STATE_HOME/cadre/running (or below ~/.local/state), that a kernel takes away when it ends in
 * order. Whoever restarts a kernel uses the same connection file; the new kernel finds the mark,
 * and its first cell says what happened and what is lost. Marks of kernels that are gone for good
 * are removed by the next one that starts.
 */
#ifndef CADRE_SESSION_LIFELINE_H
#define CADRE_SESSION_LIFELINE_H

struct front;

/* Looks for a mark, tells (journal_loss) what it means, puts its own in its place. */
void lifeline_begin(struct front *self);
/* The kernel ends in order. */
void lifeline_end(struct front *self);

#endif
