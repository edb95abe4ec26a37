/* Limits of an environment, put on this process before it becomes the kernel.
 *
 *     cadre_limits limits = {.name = "six", .vcpus = 6, .memory = 8ull << 30};
 *     cadre_limits_apply(&limits, &result);
 *     if (result.note[0]) ...   // something could not be had: say so, start all the same
 *
 * CPUs: a quota of a cgroup of our own where one may be made (version 1 as root, version 2 where
 * the folder is delegated to us), else an affinity mask. Memory: the same cgroup's limit, else
 * RLIMIT_DATA for each process by itself (docs/decisions.md tells why that one). Whatever cannot
 * be had is left out and told; an environment is never the reason that a kernel does not start.
 * The limits go on to every process that the kernel starts. Private to runtime/cli.
 */
#ifndef CADRE_CLI_LIMITS_H
#define CADRE_CLI_LIMITS_H

#include "base/base.h"

#include <sys/types.h>

#define CADRE_LIMITS_NAME 64
#define CADRE_LIMITS_VCPUS 4096

typedef struct cadre_limits {
    char name[CADRE_LIMITS_NAME + 1];
    int vcpus;       /* 1 to CADRE_LIMITS_VCPUS */
    uint64_t memory; /* bytes; 0: none */
} cadre_limits;

typedef struct cadre_limits_result {
    int cpus;              /* threads that a pool should have */
    char cpu_means[32];    /* "cgroup", "affinity", "machine" */
    char memory_means[32]; /* "cgroup", "rlimit", "none" */
    char note[512];        /* for the user; "" when there is nothing to say */
} cadre_limits_result;

/* Letters, digits, - and _, beginning with a letter or digit, at most CADRE_LIMITS_NAME. */
bool cadre_limits_name_is_good(const char *name);
/* A whole number of vCPUs, or an error that says the range. */
int cadre_limits_parse_vcpus(const char *text, int *vcpus, cadre_error *error);
/* "512M", "8G", "8GiB", bytes without a letter; at least 64 MiB. */
int cadre_limits_parse_memory(const char *text, uint64_t *memory, cadre_error *error);

void cadre_limits_apply(const cadre_limits *limits, cadre_limits_result *result);

/* A cgroup for this process alone: makes it, sets what is not 0, moves the process there. Which
 * of both it did is returned: CADRE_CGROUP_CPU | CADRE_CGROUP_MEMORY. */
enum { CADRE_CGROUP_CPU = 1, CADRE_CGROUP_MEMORY = 2 };
int cadre_cgroup_enter(int vcpus, uint64_t memory);
/* Removes cgroups that an environment left whose kernel is gone. */
void cadre_cgroup_sweep(const char *folder);

#endif
