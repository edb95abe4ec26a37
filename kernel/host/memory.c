/* Whether the system killed the host for want of memory, and how much it could have had: from the
 * counters of the cgroup (versions 1 and 2) and of the machine, before and after. */
#include "host/memory.h"
#include "host/host.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file "name value" per line (also "name: value kB"), or with one value alone (name NULL). */
static bool read_number(const char *path, const char *name, uint64_t *value)
{
    char line[256];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t length = name ? strlen(name) : 0;
        char *end, *digits = line + length;
        if (name && (strncmp(line, name, length) != 0 || line[length] != ' ')) continue;
        *value = strtoull(digits, &end, 10);
        found = end != digits && (*end == '\n' || strcmp(end, " kB\n") == 0);
    }
    if (file) fclose(file);
    return found;
}

static bool read_in(const char *folder, const char *file, const char *name, uint64_t *value)
{
    char path[2 * PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path && read_number(path, name, value);
}

/* Below one group's limit. */
static void read_left(const char *folder, uint64_t limit, const char *usage, const char *cache,
                      memory_state *state)
{
    uint64_t used, cached = 0;
    if (!read_in(folder, usage, NULL, &used)) return;
    (void)read_in(folder, "memory.stat", cache, &cached);
    used -= cached < used ? cached : used;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < state->limit_left) state->limit_left = left;
}

/* Version 2: the least limit of the group and those above it, the kills of the group itself. */
static void read_version_2(const char *mount, char *folder, memory_state *state)
{
    uint64_t value;
    if (read_in(folder, "memory.events", "oom_kill", &value)) state->group_kills = value;
    if (read_in(folder, "memory.peak", NULL, &value)) state->peak = value;
    while (strlen(folder) >= strlen(mount)) {
        bool limited = read_in(folder, "memory.max", NULL, &value);
        if (limited) read_left(folder, value, "memory.current", "inactive_file", state);
        if (limited && value < state->limit) {
            state->limit = value;
            if (!read_in(folder, "memory.peak", NULL, &state->peak)) state->peak = value;
        }
        char *slash = strrchr(folder, '/');
        if (!slash) break;
        *slash = 0;
    }
}

static void read_version_1(const char *folder, memory_state *state)
{
    uint64_t value;
    if (read_in(folder, "memory.oom_control", "oom_kill", &value)) state->group_kills = value;
    if (read_in(folder, "memory.stat", "hierarchical_memory_limit", &value)) {
        state->limit = value;
        read_left(folder, value, "memory.usage_in_bytes", "total_inactive_file", state);
    }
    if (read_in(folder, "memory.max_usage_in_bytes", NULL, &value)) state->peak = value;
}

void front_memory_state(const char *root, memory_state *state)
{
    char path[PATH_MAX], line[PATH_MAX], mount[PATH_MAX], folder[2 * PATH_MAX];
    uint64_t value;
    *state =
        (memory_state){.limit = UINT64_MAX, .limit_left = UINT64_MAX, .machine_left = UINT64_MAX};
    snprintf(path, sizeof path, "%s/proc/vmstat", root);
    if (read_number(path, "oom_kill", &value)) state->machine_kills = value;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_number(path, "MemTotal:", &value)) state->machine = value * 1024;
    if (read_number(path, "MemAvailable:", &value)) {
        state->machine_left = value * 1024;
        if (read_number(path, "SwapFree:", &value)) state->machine_left += value * 1024;
    }
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0;
        *group++ = 0;
        bool is_first = strcmp(controllers, "memory") == 0;
        if (!is_first && *controllers) continue;
        snprintf(mount, sizeof mount, "%.200s/sys/fs/cgroup%s", root, is_first ? "/memory" : "");
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        /* In a container the group's own folder may be what is mounted. */
        if (!read_in(folder, is_first ? "memory.oom_control" : "memory.events", "oom_kill", &value))
            snprintf(folder, sizeof folder, "%s", mount);
        if (is_first)
            read_version_1(folder, state);
        else
            read_version_2(mount, folder, state);
    }
    if (file) fclose(file);
}

static double gigabytes(uint64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

bool front_memory_blame(const memory_state *before, const memory_state *now, cadre_buffer *text)
{
    if (now->group_kills > before->group_kills && now->limit < now->machine) {
        uint64_t used = now->peak && now->peak < now->limit ? now->peak : now->limit;
        cadre_buffer_printf(text, "killed by the memory limit: %.1f of %.1f GB were in use",
                            gigabytes(used), gigabytes(now->limit));
        return true;
    }
    if (now->machine_kills > before->machine_kills || now->group_kills > before->group_kills) {
        cadre_buffer_printf(text,
                            "killed by the system, which had no memory left (this machine has "
                            "%.1f GB)",
                            gigabytes(now->machine));
        return true;
    }
    return false;
}

bool front_memory_has_room(const memory_state *state, uint64_t own, char *why, size_t size)
{
    bool by_limit = state->limit_left < state->machine_left;
    uint64_t left = by_limit ? state->limit_left : state->machine_left;
    if (own <= left) return true;
    snprintf(why, size,
             "of %s %.2f GB are left, and a copy of the session's %.2f GB would need as much again "
             "once cells write to it (%%snapshot always makes it all the same)",
             by_limit ? "the memory limit" : "this machine's memory", gigabytes(left),
             gigabytes(own));
    return false;
}

void cadre_host_memory(uint64_t *kills, uint64_t *limit)
{
    memory_state state;
    front_memory_state("", &state);
    *kills = state.machine_kills;
    *limit = state.limit < state.machine ? state.limit : 0;
}
