/* Limits that a cell sets for itself (setrlimit) hold while cells run. Between cells the host lifts
 * them as far as the hard ones allow: it has to receive, load and copy with memory and files that
 * the cell may have used up, and a host that cannot take the next cell would be lost. */
#include "host/inside.h"

#include <sys/resource.h>

static const int lifted[] = {RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NPROC};
enum { LIFTED = sizeof lifted / sizeof *lifted };

/* Of the cells. In memory that the copy has too: a roll-back brings back older limits. */
static struct {
    rlim_t value[LIFTED];
    bool is_known;
} soft;

void limits_for_host(void)
{
    soft.is_known = true;
    for (int i = 0; i < LIFTED; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)lifted[i], &limit) < 0) {
            soft.is_known = false;
            continue;
        }
        soft.value[i] = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit((__rlimit_resource_t)lifted[i], &limit);
    }
}

void limits_for_cell(void)
{
    for (int i = 0; i < LIFTED && soft.is_known; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)lifted[i], &limit) < 0) continue;
        limit.rlim_cur = soft.value[i] < limit.rlim_max ? soft.value[i] : limit.rlim_max;
        (void)setrlimit((__rlimit_resource_t)lifted[i], &limit);
    }
}
