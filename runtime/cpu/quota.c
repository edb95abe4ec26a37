/* The quota of CPU time that the cgroups of this process leave it (cgroups(7), versions 1, 2). */
#include "cpu/cpu_limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One cgroup hierarchy that can limit CPU time, as this process sees it. */
typedef struct hierarchy {
    bool found_path, found_mount;
    char path[PATH_MAX];  /* the cgroup of the process, from /proc/self/cgroup */
    char root[PATH_MAX];  /* the part of the hierarchy that is mounted ... */
    char mount[PATH_MAX]; /* ... and where */
} hierarchy;

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
    return false;
}

static FILE *open_below(const char *root, const char *path)
{
    char name[2 * PATH_MAX + 32];
    int length = snprintf(name, sizeof name, "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof name ? fopen(name, "re") : NULL;
}

static void copy_path(char *to, const char *from)
{
    snprintf(to, PATH_MAX, "%s", from);
}

/* "4:cpu,cpuacct:/a/b" (version 1) and "0::/a/b" (version 2). */
static void read_paths(const char *root, hierarchy *v1, hierarchy *v2)
{
    FILE *file = open_below(root, "/proc/self/cgroup");
    if (!file) return;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *controllers++ = 0;
        *path++ = 0;
        hierarchy *one = has_word(controllers, "cpu")          ? v1
                         : !*controllers && !strcmp(line, "0") ? v2
                                                               : NULL;
        if (!one) continue;
        copy_path(one->path, path);
        one->found_path = true;
    }
    free(line);
    fclose(file);
}

/* "36 35 0:31 /root /mount/point opts [optional ...] - cgroup2 source superopts" */
static void read_mounts(const char *root, hierarchy *v1, hierarchy *v2)
{
    FILE *file = open_below(root, "/proc/self/mountinfo");
    if (!file) return;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *tail = strstr(line, " - ");
        if (!tail) continue;
        *tail = 0;
        char *rest = tail + 3, *save = NULL;
        char *type = strtok_r(rest, " ", &save);
        strtok_r(NULL, " ", &save);
        char *options = strtok_r(NULL, " ", &save);
        hierarchy *one = NULL;
        if (type && !strcmp(type, "cgroup2")) one = v2;
        if (type && !strcmp(type, "cgroup") && options && has_word(options, "cpu")) one = v1;
        if (!one || one->found_mount) continue;
        char *field[5] = {0};
        field[0] = strtok_r(line, " ", &save);
        for (int i = 1; i < 5 && field[i - 1]; i++)
            field[i] = strtok_r(NULL, " ", &save);
        if (!field[4]) continue;
        copy_path(one->root, field[3]);
        copy_path(one->mount, field[4]);
        one->found_mount = true;
    }
    free(line);
    fclose(file);
}

/* The first two numbers of a small file; "max" and -1 count as no number. */
static int read_numbers(const char *root, const char *folder, const char *name, double value[2])
{
    char path[2 * PATH_MAX], text[64];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return 0;
    FILE *file = open_below(root, path);
    if (!file) return 0;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    int count = 0;
    for (char *at = text, *end; count < 2; at = end) {
        double number = strtod(at, &end);
        if (end == at || !(number > 0)) break;
        value[count++] = number;
    }
    return count;
}

static double quota_of(const char *root, const char *folder, bool version2)
{
    double value[2], period[2];
    if (version2)
        return read_numbers(root, folder, "cpu.max", value) == 2 ? value[0] / value[1] : 0;
    if (read_numbers(root, folder, "cpu.cfs_quota_us", value) < 1) return 0;
    if (read_numbers(root, folder, "cpu.cfs_period_us", period) < 1) return 0;
    return value[0] / period[0];
}

/* A limit of a cgroup holds for all below it: the smallest on the way up counts. */
static double smallest_quota(const char *root, const hierarchy *one, bool version2)
{
    if (!one->found_mount) return 0;
    /* Inside a container the path may name a cgroup outside of what is mounted here. */
    const char *below = "";
    size_t shared = strcmp(one->root, "/") ? strlen(one->root) : 0;
    if (one->found_path && !strncmp(one->path, one->root, shared) &&
        (one->path[shared] == '/' || one->path[shared] == 0) && !strstr(one->path, "/.."))
        below = one->path + shared;
    char folder[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s%s", one->mount, below);
    size_t stop = strlen(one->mount), length = strlen(folder);
    double smallest = 0;
    for (;;) {
        while (length > stop && folder[length - 1] == '/')
            length--;
        folder[length] = 0;
        double quota = quota_of(root, folder, version2);
        if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
        if (length <= stop) return smallest;
        while (length > stop && folder[length - 1] != '/')
            length--;
    }
}

double cadre_cpu_quota(const char *root)
{
    double smallest = 0;
    hierarchy *both = calloc(2, sizeof *both);
    if (!both) return 0;
    read_paths(root, &both[0], &both[1]);
    read_mounts(root, &both[0], &both[1]);
    for (int i = 0; i < 2; i++) {
        double quota = smallest_quota(root, &both[i], i == 1);
        if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    }
    free(both);
    return smallest;
}
