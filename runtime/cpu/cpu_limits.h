/* Private to runtime/cpu: the limits of a process, read below a root that tests can fake. */
#ifndef CADRE_CPU_LIMITS_H
#define CADRE_CPU_LIMITS_H

#include <stddef.h>

typedef struct cpu_limits {
    double quota;     /* CPUs by cgroup quota; 0: none */
    int affinity;     /* CPUs in the affinity mask; 0: unknown */
    double requested; /* CADRE_VCPUS; 0: not set or not a number above 0 */
} cpu_limits;

/* The smallest quota of the cgroups of this process, 0 when there is none. `root` is put before
 * "/proc/self/cgroup", "/proc/self/mountinfo" and the mount points found there; "" is the real
 * root. */
double cadre_cpu_quota(const char *root);
/* A positive number with nothing behind it, or 0. */
double cadre_cpu_parse_request(const char *text);
/* ceil of the smallest limit that is set, at least 1. */
int cadre_cpu_smallest(const cpu_limits *limits);
/* "2 vCPUs (affinity: 2 CPUs; ...)" into text. */
void cadre_cpu_describe_limits(const cpu_limits *limits, char *text, size_t size);

#endif
