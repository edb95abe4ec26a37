/* usage_request: what the kernel's processes use. Read in a thread of its own: the PSS of a large
 * process takes its time. */
#include "session/front.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/cpu.h"

/* Processor time at the last request: percentages are of the time since then. Used by the worker's
 * jobs only, one at a time. */
struct usage_sample {
    double seconds, kernel_seconds, host_busy, host_total;
};

typedef struct usage_job {
    job job;
    usage_sample *sample;
    cadre_channel channel;
    cadre_message *message;
    json_t *content;
} usage_job;

typedef struct process {
    long pid, parent;
    double seconds;
    char name[32]; /* of the program: cadre-kernel is the front, cadre-host runs cells */
    bool ours;
} process;

static double clock_seconds(void)
{
    return (double)front_clock() / 1000;
}

static bool read_process(long pid, process *into)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    /* The name may hold anything, parentheses too: the last one ends it. */
    const char *rest = strrchr(text, ')'), *name = strchr(text, '(');
    unsigned long user, system;
    if (!rest || sscanf(rest + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                        &into->parent, &user, &system) != 3)
        return false;
    if (!name || name > rest) return false;
    snprintf(into->name, sizeof into->name, "%.*s", (int)(rest - name - 1), name + 1);
    into->pid = pid;
    into->seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    into->ours = false;
    return true;
}

/* All processes; *count of them; new. */
static process *read_processes(size_t *count)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    process *list = NULL;
    size_t capacity = 0;
    *count = 0;
    if (!folder) return NULL;
    while ((entry = readdir(folder))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid <= 0 || *end) continue;
        if (*count == capacity) {
            size_t wanted = capacity ? capacity * 2 : 256;
            process *grown = realloc(list, wanted * sizeof *grown);
            if (!grown) break;
            list = grown;
            capacity = wanted;
        }
        if (read_process(pid, &list[*count])) ++*count;
    }
    closedir(folder);
    return list;
}

static void mark_ours(process *list, size_t count)
{
    bool changed = true;
    for (size_t i = 0; i < count; i++)
        list[i].ours = list[i].pid == getpid();
    while (changed) {
        changed = false;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < count && !list[i].ours; k++)
                if (list[k].ours && list[k].pid == list[i].parent) list[i].ours = changed = true;
    }
}

/* A line "Name:   123 kB" of a file in /proc, in bytes; 0: none. */
static double field_of(const char *path, const char *name)
{
    char line[256];
    double bytes = 0;
    size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            bytes = strtod(line + length + 1, NULL) * 1024;
    fclose(file);
    return bytes;
}

static double memory_of(long pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    double bytes = field_of(path, "Pss");
    if (bytes > 0) return bytes;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    return field_of(path, "VmRSS");
}

static json_t *host_memory(void)
{
    static const struct {
        const char *key, *field;
    } fields[] = {{"total", "MemTotal"}, {"available", "MemAvailable"}, {"free", "MemFree"},
                  {"active", "Active"},  {"inactive", "Inactive"},      {"buffers", "Buffers"},
                  {"cached", "Cached"},  {"shared", "Shmem"},           {"slab", "Slab"}};
    json_t *memory = json_object();
    double values[sizeof fields / sizeof *fields];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        values[i] = field_of("/proc/meminfo", fields[i].field);
        json_object_set_new(memory, fields[i].key, json_integer((json_int_t)values[i]));
    }
    double used = values[0] - values[1];
    json_object_set_new(memory, "used", json_integer((json_int_t)used));
    json_object_set_new(memory, "percent", json_real(values[0] > 0 ? 100 * used / values[0] : 0));
    return memory;
}

/* Jiffies of all CPUs since boot. */
static void host_time(double *busy, double *total)
{
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0;
    FILE *file = fopen("/proc/stat", "re");
    *busy = *total = 0;
    if (!file) return;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &waiting) == 5) {
        *busy = user + nice + system;
        *total = *busy + idle + waiting;
    }
    fclose(file);
}

static double percent(double part, double whole)
{
    return whole > 0 && part > 0 ? 100 * part / whole : 0;
}

static void run_usage(job *base)
{
    usage_job *work = (usage_job *)base;
    usage_sample before = *work->sample, now = {.seconds = clock_seconds()};
    size_t count = 0;
    double memory = 0;
    char name[256] = "";
    process *list = read_processes(&count);
    json_t *processes = json_array();
    mark_ours(list, count);
    for (size_t i = 0; i < count; i++) {
        if (!list[i].ours) continue;
        double bytes = memory_of(list[i].pid);
        memory += bytes;
        now.kernel_seconds += list[i].seconds;
        json_array_append_new(
            processes, json_pack("{sIsosIsf}", "pid", (json_int_t)list[i].pid, "name",
                                 cadre_json_string(list[i].name, strlen(list[i].name)), "memory",
                                 (json_int_t)bytes, "cpu_seconds", list[i].seconds));
    }
    free(list);
    host_time(&now.host_busy, &now.host_total);
    gethostname(name, sizeof name - 1);
    work->content =
        json_pack("{ss ss si si sf sI sf so so}", "status", "ok", "hostname", name, "pid",
                  (int)getpid(), "cpu_count", cadre_cpu_count(), "kernel_cpu",
                  percent(now.kernel_seconds - before.kernel_seconds, now.seconds - before.seconds),
                  "kernel_memory", (json_int_t)memory, "host_cpu_percent",
                  percent(now.host_busy - before.host_busy, now.host_total - before.host_total),
                  "host_virtual_memory", host_memory(), "processes", processes);
    *work->sample = now;
}

static void usage_done(void *context, job *base)
{
    front *self = context;
    usage_job *work = (usage_job *)base;
    if (!self->ending) {
        front_reply(self, work->channel, work->message, "usage_reply", work->content, NULL);
        front_status(self, work->message, "idle");
    } else {
        json_decref(work->content);
    }
    cadre_message_free(work->message);
    free(work);
}

void usage_ask(front *self, cadre_channel channel, cadre_message *message)
{
    cadre_error error = {0};
    usage_job *work = calloc(1, sizeof *work);
    if (!self->usage_worker) {
        self->usage_worker = worker_start(&error);
        self->usage = calloc(1, sizeof *self->usage);
    }
    if (!work || !self->usage_worker || !self->usage) {
        front_reply(self, channel, message, "usage_reply",
                    front_error_content("SystemError", error.message), NULL);
        front_status(self, message, "idle");
        cadre_message_free(message);
        free(work);
        return;
    }
    work->job = (job){.run = run_usage, .done = usage_done};
    work->sample = self->usage;
    work->channel = channel;
    work->message = message;
    worker_post(self->usage_worker, &work->job);
}

void usage_free(front *self)
{
    if (self->usage_worker) {
        worker_stop(self->usage_worker);
        for (job *work; (work = worker_take(self->usage_worker));)
            work->done(self, work);
        worker_free(self->usage_worker);
    }
    free(self->usage);
    self->usage_worker = NULL;
    self->usage = NULL;
}
