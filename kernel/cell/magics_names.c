/* Magics about the session itself: its names, parameters, snapshots and code. */
#include "cell/magics.h"

#include "cell/split.h"

#include <stdlib.h>
#include <string.h>

int magic_snapshot(magic_call *call)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3 && call->words.count == 1; i++) {
        if (strcmp(names[i], call->words.items[0]) != 0) continue;
        if (call->state) call->state->snapshot = i;
        call->only_here->snapshot = i;
        return 0;
    }
    return cadre_error_set(call->error, CADRE_EINPUT, "it is %%snapshot auto, always or never");
}

int magic_reset(magic_call *call)
{
    if (call->words.count > 1 || (call->words.count && strcmp(call->words.items[0], "-f") != 0))
        return cadre_error_set(call->error, CADRE_EINPUT,
                               "%%reset takes no names: it takes all "
                               "of them away");
    call->cell->resets = true;
    return 0;
}
