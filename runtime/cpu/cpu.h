/* What this process may really use: CPUs, and thread pools sized to them.
 *
 *     printf("%d vCPUs: %s\n", cadre_cpu_count(), cadre_cpu_describe());
 *     cadre_cpu_size_thread_pools(1);   // one BLAS thread per worker process
 *
 * The number of CPUs online says little in a container or under a batch system: the kernel may
 * give less time (a cgroup's quota) or fewer CPUs (the affinity mask), and an environment may
 * ask for less still (CADRE_VCPUS). The smallest of them counts.
 */
#ifndef CADRE_CPU_H
#define CADRE_CPU_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The vCPUs of this process, at least 1: ceil(min(q, a, e)), where q is the smallest quota of its
 * cgroup and of the cgroups above it (version 2 cpu.max, version 1 cpu.cfs_quota_us), a the
 * number of CPUs in its affinity mask, e the value of CADRE_VCPUS, a number such as 6 or 1.5;
 * anything else in it is ignored. Read anew at each call, about 50 us. */
CADRE_API int cadre_cpu_count(void);

/* The same in words for a person, naming the limit that was smallest:
 * "2 vCPUs (affinity: 2 CPUs; no cgroup quota; CADRE_VCPUS is not set)". Borrowed; valid until
 * the next call in the same thread. */
CADRE_API const char *cadre_cpu_describe(void);

/* Sets the number of threads of OpenBLAS and OpenMP in this process, as far as they are loaded.
 * `threads` below 1 is taken as 1. Returns the number of OpenBLAS threads before, 0 when OpenBLAS
 * is not loaded, so that a caller can put it back. */
CADRE_API int cadre_cpu_size_thread_pools(int threads);

#ifdef __cplusplus
}
#endif
#endif
