/* What the system says of memory: how much there is, how much is left, who was killed for want of
 * it. From the files of /proc and of the memory cgroup, versions 1 and 2. Private to kernel/host:
 * the front asks why a host was killed, the host whether a copy of itself has room. */
#ifndef CADRE_HOST_MEMORY_H
#define CADRE_HOST_MEMORY_H

#include "base/base.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct memory_state {
    uint64_t group_kills, machine_kills; /* processes killed for want of memory so far */
    uint64_t limit, peak, machine;       /* bytes; limit UINT64_MAX: none; peak 0: not known */
    /* Bytes that can still be had: of the machine with its swap, and below the closest limit; what
     * only caches files counts as free. UINT64_MAX: not known, or no limit. */
    uint64_t machine_left, limit_left;
} memory_state;

/* `root`: "", or a folder that stands for / (tests). */
void front_memory_state(const char *root, memory_state *state);
/* A process was killed between the two: appends why when it was for memory. */
bool front_memory_blame(const memory_state *before, const memory_state *now, cadre_buffer *text);
/* Would a process of `own` bytes have room to be copied, should it then write to every page of it?
 * Otherwise says into `why` what is missing. */
bool front_memory_has_room(const memory_state *state, uint64_t own, char *why, size_t size);

#endif
