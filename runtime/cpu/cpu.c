#include "cpu/cpu.h"
#include "cpu/cpu_limits.h"

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mask of the system may be longer than cpu_set_t: grow until the call takes it. */
static int affinity_count(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) return 0;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count) return count;
    }
    return 0;
}

double cadre_cpu_parse_request(const char *text)
{
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    return end != text && end && !*end && isfinite(value) && value > 0 ? value : 0;
}

static cpu_limits read_limits(void)
{
    return (cpu_limits){.quota = cadre_cpu_quota(""),
                        .affinity = affinity_count(),
                        .requested = cadre_cpu_parse_request(getenv("CADRE_VCPUS"))};
}

int cadre_cpu_smallest(const cpu_limits *limits)
{
    double all[3] = {limits->quota, limits->affinity, limits->requested}, smallest = 0;
    for (int i = 0; i < 3; i++)
        if (all[i] > 0 && (smallest == 0 || all[i] < smallest)) smallest = all[i];
    /* A quota is a quotient: 3.0000000001 CPUs are 3. */
    double count = ceil(smallest - 1e-6);
    return count < 1 ? 1 : count > 1 << 20 ? 1 << 20 : (int)count;
}

int cadre_cpu_count(void)
{
    cpu_limits limits = read_limits();
    return cadre_cpu_smallest(&limits);
}

void cadre_cpu_describe_limits(const cpu_limits *limits, char *text, size_t size)
{
    char part[3][80];
    double value[3] = {limits->affinity, limits->quota, limits->requested};
    snprintf(part[0], sizeof part[0], "affinity: %d CPU%s", limits->affinity,
             limits->affinity == 1 ? "" : "s");
    snprintf(part[1], sizeof part[1], "cgroup quota: %g CPUs", limits->quota);
    snprintf(part[2], sizeof part[2], "CADRE_VCPUS: %g", limits->requested);
    if (!(value[0] > 0)) snprintf(part[0], sizeof part[0], "affinity unknown");
    if (!(value[1] > 0)) snprintf(part[1], sizeof part[1], "no cgroup quota");
    if (!(value[2] > 0)) snprintf(part[2], sizeof part[2], "CADRE_VCPUS is not set");
    int first = 0;
    for (int i = 1; i < 3; i++)
        if (value[i] > 0 && (!(value[first] > 0) || value[i] < value[first])) first = i;
    int count = cadre_cpu_smallest(limits);
    snprintf(text, size, "%d vCPU%s (%s; %s; %s)", count, count == 1 ? "" : "s", part[first],
             part[first == 0 ? 1 : 0], part[first == 2 ? 1 : 2]);
}

const char *cadre_cpu_describe(void)
{
    static _Thread_local char text[256];
    cpu_limits limits = read_limits();
    cadre_cpu_describe_limits(&limits, text, sizeof text);
    return text;
}

/* Looked up by name: a program without OpenMP must not be made to load it for this. */
static void *symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

int cadre_cpu_size_thread_pools(int threads)
{
    int before = 0;
    if (threads < 1) threads = 1;
    void *found = symbol("openblas_get_num_threads");
    int (*get)(void);
    memcpy(&get, &found, sizeof get);
    if (get) before = get();
    static const char *const setters[] = {"openblas_set_num_threads", "omp_set_num_threads"};
    for (size_t i = 0; i < sizeof setters / sizeof *setters; i++) {
        void (*set)(int);
        found = symbol(setters[i]);
        memcpy(&set, &found, sizeof set);
        if (set) set(threads);
    }
    return before;
}
