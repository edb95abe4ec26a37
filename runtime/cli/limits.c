#include "cli/limits.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool cadre_limits_name_is_good(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > CADRE_LIMITS_NAME || !isalnum((unsigned char)name[0])) return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c > 127 || !(isalnum(c) || c == '-' || c == '_')) return false;
    }
    return true;
}

int cadre_limits_parse_vcpus(const char *text, int *vcpus, cadre_error *error)
{
    char *end = NULL;
    errno = 0;
    long value = isdigit((unsigned char)text[0]) ? strtol(text, &end, 10) : 0;
    if (errno || !end || *end || value < 1 || value > CADRE_LIMITS_VCPUS)
        return cadre_error_set(
            error, CADRE_EINPUT,
            "the number of vCPUs is %.60s; it must be a whole number from 1 to %d", text,
            CADRE_LIMITS_VCPUS);
    *vcpus = (int)value;
    return 0;
}

int cadre_limits_parse_memory(const char *text, uint64_t *memory, cadre_error *error)
{
    static const char letters[] = "KMGT";
    const uint64_t least = 64ull << 20;
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    bool good = end && errno == 0;
    int shift = 0;
    if (good && *end) {
        const char *letter = strchr(letters, toupper((unsigned char)*end));
        good = letter != NULL;
        if (good) {
            shift = 10 * (int)(letter - letters + 1);
            end++;
            if (!strcmp(end, "iB") || !strcmp(end, "B") || !strcmp(end, "b")) end += strlen(end);
            good = *end == 0 && value <= (UINT64_MAX >> 1) >> shift;
        }
    }
    if (!good)
        return cadre_error_set(error, CADRE_EINPUT,
                               "the memory is %.60s; it must be a size such as 512M or 8G", text);
    if (value << shift < least)
        return cadre_error_set(error, CADRE_EINPUT,
                               "%.60s of memory is too little for a kernel; give 64M or more",
                               text);
    *memory = (uint64_t)value << shift;
    return 0;
}

/* An affinity mask of `vcpus` of the CPUs that this process may use. Where it begins goes by the
 * process id, so that small environments beside each other do not all sit on CPU 0. */
static bool choose_cpus(int vcpus, const cpu_set_t *mine, size_t size, int available)
{
    cpu_set_t *chosen = calloc(1, size);
    if (!chosen) return false;
    int skip = (int)(getpid() % available), seen = 0, taken = 0;
    for (int round = 0; round < 2 && taken < vcpus; round++)
        for (int cpu = 0; cpu < (int)(8 * size) && taken < vcpus; cpu++) {
            if (!CPU_ISSET_S((size_t)cpu, size, mine) || seen++ < skip ||
                CPU_ISSET_S((size_t)cpu, size, chosen))
                continue;
            CPU_SET_S((size_t)cpu, size, chosen);
            taken++;
        }
    bool good = sched_setaffinity(0, size, chosen) == 0;
    free(chosen);
    return good;
}

/* This process's own mask, whatever number of CPUs the machine has. */
static cpu_set_t *own_cpus(size_t *size, int *available)
{
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        *size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *mine = calloc(1, *size);
        if (!mine) return NULL;
        if (sched_getaffinity(0, *size, mine) == 0) {
            *available = CPU_COUNT_S(*size, mine);
            return mine;
        }
        free(mine);
        if (errno != EINVAL) return NULL;
    }
    return NULL;
}

static void say(cadre_limits_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(cadre_limits_result *result, const char *format, ...)
{
    size_t used = strlen(result->note);
    if (used && used + 1 < sizeof result->note) {
        result->note[used++] = ' ';
        result->note[used] = 0;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->note + used, sizeof result->note - used, format, arguments);
    va_end(arguments);
}

static bool limit_data(uint64_t memory)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0) return false;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < memory) memory = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max = (rlim_t)memory;
    return setrlimit(RLIMIT_DATA, &limit) == 0;
}

static uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

static double gigabytes(uint64_t bytes)
{
    return (double)bytes / (double)(1ull << 30);
}

void cadre_limits_apply(const cadre_limits *limits, cadre_limits_result *result)
{
    size_t size = 0;
    int available = 0;
    cpu_set_t *mine = own_cpus(&size, &available);
    *result = (cadre_limits_result){.cpu_means = "machine", .memory_means = "none"};
    if (!mine || available < 1) available = limits->vcpus;
    result->cpus = limits->vcpus < available ? limits->vcpus : available;
    if (limits->vcpus > available)
        say(result,
            "The environment \"%s\" asks for %d vCPUs; this machine gives %d, and that is what the "
            "kernel has.",
            limits->name, limits->vcpus, available);
    if (limits->memory > machine_memory())
        say(result, "The environment \"%s\" asks for %.1f GiB of memory; this machine has %.1f.",
            limits->name, gigabytes(limits->memory), gigabytes(machine_memory()));
    bool narrower = limits->vcpus < available;
    int done = cadre_cgroup_enter(narrower ? limits->vcpus : 0, limits->memory);
    if (done & CADRE_CGROUP_CPU)
        snprintf(result->cpu_means, sizeof result->cpu_means, "cgroup");
    else if (narrower && mine && choose_cpus(limits->vcpus, mine, size, available))
        snprintf(result->cpu_means, sizeof result->cpu_means, "affinity");
    else if (narrower)
        say(result, "This machine lets nobody limit the kernel to %d vCPUs; it may use %d.",
            limits->vcpus, available);
    if (done & CADRE_CGROUP_MEMORY)
        snprintf(result->memory_means, sizeof result->memory_means, "cgroup");
    else if (limits->memory && limit_data(limits->memory))
        snprintf(result->memory_means, sizeof result->memory_means, "rlimit");
    else if (limits->memory)
        say(result, "The memory could not be limited to %.1f GiB.", gigabytes(limits->memory));
    free(mine);
}
