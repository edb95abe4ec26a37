#include "cli/limits.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of ours are <mark><pid>, so that a later start knows whose kernel has ended. */
static const char mark[] = "cadre-env-";
enum { path_size = 4096 };

static bool write_text(const char *folder, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool write_text(const char *folder, const char *file, const char *format, ...)
{
    char path[path_size + 64], text[64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = write(fd, text, (size_t)length) == length;
    close(fd);
    return good;
}

static bool read_text(const char *folder, const char *file, char *text, size_t size)
{
    char path[path_size + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length < 0) return false;
    text[length] = 0;
    return true;
}

/* True when `word` is one of those in `list`, parted by commas or blanks. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at;) {
        size_t here = strcspn(at, ", \n");
        if (here == length && !strncmp(at, word, length)) return true;
        at += here;
        at += strspn(at, ", \n");
    }
    return false;
}

/* The path of this process in a hierarchy, from /proc/self/cgroup: "id:controllers:path". An
 * empty controller stands for version 2. */
static bool own_path(const char *controller, char *path, size_t size)
{
    char line[path_size];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *end = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!end) continue;
        *end = 0;
        controllers++;
        end[1 + strcspn(end + 1, "\n")] = 0;
        found = *controller ? has_word(controllers, controller) : *controllers == 0;
        if (found) snprintf(path, size, "%s", end + 1);
    }
    fclose(file);
    return found;
}

/* The folder of this process's cgroup: mount point and own path less the mount's root, from
 * /proc/self/mountinfo: "id parent dev root point options... - type source super". */
static bool own_folder(const char *controller, char *folder, size_t size)
{
    char line[2 * path_size], path[path_size];
    bool found = false;
    if (!own_path(controller, path, sizeof path)) return false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        char *dash = strstr(line, " - ");
        char root[path_size], point[path_size], type[32], options[512];
        if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(dash, " - %31s %*s %511s", type, options) != 2)
            continue;
        if (*controller ? strcmp(type, "cgroup") != 0 || !has_word(options, controller)
                        : strcmp(type, "cgroup2") != 0)
            continue;
        size_t skip = strcmp(root, "/") != 0 ? strlen(root) : 0;
        if (skip && strncmp(path, root, skip) != 0) continue;
        int length = snprintf(folder, size, "%s%s", point, path + skip);
        found = length > 0 && (size_t)length < size;
        for (; found && length > 1 && folder[length - 1] == '/'; length--)
            folder[length - 1] = 0;
    }
    fclose(file);
    return found;
}

void cadre_cgroup_sweep(const char *folder)
{
    char path[path_size + 300];
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strncmp(entry->d_name, mark, sizeof mark - 1) != 0) continue;
        long pid = strtol(entry->d_name + sizeof mark - 1, NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        rmdir(path); /* refused while processes are left in it */
    }
    closedir(entries);
}

/* Makes <folder>/<mark><pid>; false when it may not be made. */
static bool make_group(const char *folder, char *group, size_t size)
{
    cadre_cgroup_sweep(folder);
    int length = snprintf(group, size, "%s/%s%ld", folder, mark, (long)getpid());
    if (length < 0 || (size_t)length >= size) return false;
    return mkdir(group, 0755) == 0 || errno == EEXIST;
}

static bool join_group(const char *group)
{
    return write_text(group, "cgroup.procs", "%ld", (long)getpid());
}

enum { period = 100000 }; /* microseconds, the system's own default */

static bool enter_version_1(const char *controller, int vcpus, uint64_t memory)
{
    char folder[path_size], group[path_size];
    if (!own_folder(controller, folder, sizeof folder) || !make_group(folder, group, sizeof group))
        return false;
    bool good = true;
    if (vcpus)
        good = write_text(group, "cpu.cfs_period_us", "%d", period) &&
               write_text(group, "cpu.cfs_quota_us", "%ld", (long)vcpus * period);
    if (good && memory) good = write_text(group, "memory.limit_in_bytes", "%" PRIu64, memory);
    if (good && join_group(group)) return true;
    rmdir(group);
    return false;
}

/* The folder in which a cgroup of version 2 with these controllers may be made: our own one where
 * it passes controllers on (the root of a container or of the machine), or, in the tree that
 * systemd gives to a user, the one above. Nowhere else do we leave our own: its limits, and who
 * counts our processes by it (a batch system), must keep hold of us. */
static bool delegated_folder(char *folder, size_t size, const char *controller)
{
    char controllers[256];
    if (!own_folder("", folder, size)) return false;
    if (read_text(folder, "cgroup.subtree_control", controllers, sizeof controllers) &&
        has_word(controllers, controller))
        return true;
    char *slash = strrchr(folder, '/');
    if (!slash || !strstr(folder, "/user@")) return false;
    *slash = 0;
    return strstr(folder, "/user@") != NULL &&
           read_text(folder, "cgroup.subtree_control", controllers, sizeof controllers) &&
           has_word(controllers, controller);
}

static int enter_version_2(int vcpus, uint64_t memory)
{
    char folder[path_size], group[path_size];
    int done = 0;
    if (!delegated_folder(folder, sizeof folder, vcpus ? "cpu" : "memory") ||
        !make_group(folder, group, sizeof group))
        return 0;
    if (vcpus && write_text(group, "cpu.max", "%ld %d", (long)vcpus * period, period))
        done |= CADRE_CGROUP_CPU;
    if (memory && write_text(group, "memory.max", "%" PRIu64, memory)) done |= CADRE_CGROUP_MEMORY;
    if (done && join_group(group)) return done;
    rmdir(group);
    return 0;
}

int cadre_cgroup_enter(int vcpus, uint64_t memory)
{
    if (!vcpus && !memory) return 0;
    int done = enter_version_2(vcpus, memory);
    if (vcpus && !(done & CADRE_CGROUP_CPU) && enter_version_1("cpu", vcpus, 0))
        done |= CADRE_CGROUP_CPU;
    if (memory && !(done & CADRE_CGROUP_MEMORY) && enter_version_1("memory", 0, memory))
        done |= CADRE_CGROUP_MEMORY;
    return done;
}
