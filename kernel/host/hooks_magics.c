/* What magics make cells call: clocks, programs, files, the environment. The C that calls these
 * is written by kernel/cell/magics_*.c. */
#include "host/inside.h"
#include "show/show.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- clocks */

struct clocks {
    bool running;
    double wall, user, system;
};

static struct {
    struct clocks open[2]; /* of the whole cell, of a statement */
    /* %timeit: while `runs_done` < 0 the number of loops is looked for. */
    unsigned long loops, runs;
    long runs_done;
    double began, *seconds;
} timing;

enum { RUNS_MAX = 100000 };
#define LONG_ENOUGH 0.2
#define LOOPS_MAX 1000000000ul

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void read_clocks(struct clocks *clocks)
{
    struct rusage own = {0}, children = {0};
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    clocks->user = seconds_of(own.ru_utime) + seconds_of(children.ru_utime);
    clocks->system = seconds_of(own.ru_stime) + seconds_of(children.ru_stime);
    clocks->wall = now();
}

/* Three digits and a unit: 1.23 ms, 45.6 µs, 2min 3s. */
static const char *show_time(double seconds, char *text, size_t size)
{
    static const char *const units[] = {"s", "ms", "µs", "ns"};
    if (seconds >= 60) {
        unsigned long whole = (unsigned long)seconds, hours = whole / 3600;
        if (hours)
            snprintf(text, size, "%luh %lumin %lus", hours, whole / 60 % 60, whole % 60);
        else
            snprintf(text, size, "%lumin %lus", whole / 60, whole % 60);
        return text;
    }
    int order = seconds > 0 ? -(int)floor(floor(log10(seconds)) / 3) : 3;
    if (order < 0) order = 0;
    if (order > 3) order = 3;
    double scaled = seconds > 0 ? seconds * pow(1000, order) : 0;
    snprintf(text, size, scaled >= 999.5 ? "%.0f %s" : "%.3g %s", scaled, units[order]);
    return text;
}

static void report_time(struct clocks *began)
{
    struct clocks ended = {0};
    char user[40], system[40], total[40], wall[40];
    if (!began->running) return;
    read_clocks(&ended);
    began->running = false;
    double in_user = ended.user - began->user, in_system = ended.system - began->system;
    fprintf(stdout, "CPU times: user %s, sys: %s, total: %s\nWall time: %s\n",
            show_time(in_user, user, sizeof user), show_time(in_system, system, sizeof system),
            show_time(in_user + in_system, total, sizeof total),
            show_time(ended.wall - began->wall, wall, sizeof wall));
}

/* 0: of the whole cell, 1: of a statement; they run until -1 or the end of the cell. */
static void hook_time(int which)
{
    if (which < 0) {
        report_time(&timing.open[1]);
        return;
    }
    struct clocks *clocks = &timing.open[which > 0];
    read_clocks(clocks);
    clocks->running = true;
    clocks->wall = now();
}

/* 1000000 -> 1,000,000 */
static const char *show_count(unsigned long count, char *text, size_t size)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lu", count);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < size; i++) {
        if (i && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

static void report_timeit(void)
{
    char mean_text[40], deviation_text[40], loops_text[40];
    double mean = 0, deviation = 0, runs = (double)timing.runs;
    for (unsigned long i = 0; i < timing.runs; i++)
        mean += timing.seconds[i] / (double)timing.loops / runs;
    for (unsigned long i = 0; i < timing.runs; i++) {
        double off = timing.seconds[i] / (double)timing.loops - mean;
        deviation += off * off / runs;
    }
    fprintf(stdout, "%s ± %s per loop (mean ± std. dev. of %lu run%s, %s loop%s each)\n",
            show_time(mean, mean_text, sizeof mean_text),
            show_time(sqrt(deviation), deviation_text, sizeof deviation_text), timing.runs,
            timing.runs == 1 ? "" : "s", show_count(timing.loops, loops_text, sizeof loops_text),
            timing.loops == 1 ? "" : "s");
}

/* How often the loop shall go round now; 0: it has ended and the result is printed. Between two
 * calls lies one run. loops 0: the first power of ten that takes long enough. */
static unsigned long hook_timeit(unsigned long loops, unsigned long runs)
{
    double took = now() - timing.began;
    if (!timing.seconds) {
        if (runs > RUNS_MAX) runs = RUNS_MAX;
        timing.seconds = calloc(runs, sizeof *timing.seconds);
        if (!timing.seconds) run_end_from_anywhere(LEAVE_ERROR, 0, "%timeit: no memory");
        timing.runs = runs;
        timing.loops = loops ? loops : 1;
        timing.runs_done = loops ? 0 : -1;
    } else if (timing.runs_done < 0) {
        if (took < LONG_ENOUGH && timing.loops < LOOPS_MAX)
            timing.loops *= 10;
        else
            timing.runs_done = 0;
    } else {
        timing.seconds[timing.runs_done++] = took;
    }
    if (timing.runs_done == (long)timing.runs) {
        report_timeit();
        free(timing.seconds);
        timing.seconds = NULL;
        return 0;
    }
    timing.began = now();
    return timing.loops;
}

/* ---- programs and files */

static void hook_status(int status)
{
    if (status == -1)
        host_note("the command could not be started: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        host_note("the command was ended by signal %d (%s)", WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        host_note("the command ended with status %d", WEXITSTATUS(status));
}

static void fail(const char *what, const char *name)
{
    char text[400];
    snprintf(text, sizeof text, "%s %.200s: %s", what, name, strerror(errno));
    run_end_from_anywhere(LEAVE_ERROR, 0, text);
}

static void hook_write(const char *name, int append, const char *text, unsigned long length)
{
    bool exists = access(name, F_OK) == 0;
    FILE *file = fopen(name, append ? "ae" : "we");
    if (!file) {
        fail("%%writefile", name);
        return;
    }
    bool good = fwrite(text, 1, length, file) == length;
    if (fclose(file) != 0 || !good) fail("%%writefile", name);
    fprintf(stdout, "%s %s\n",
            append && exists ? "Appending to"
            : exists         ? "Overwriting"
                             : "Writing",
            name);
}

static void hook_env(const char *name, const char *value)
{
    if (!name) {
        for (char **one = environ; one && *one; one++)
            fprintf(stdout, "%s\n", *one);
    } else if (value) {
        if (setenv(name, value, 1) < 0) fail("%env", name);
        fprintf(stdout, "env: %s=%s\n", name, value);
    } else if (getenv(name)) {
        fprintf(stdout, "%s\n", getenv(name));
    } else {
        errno = 0;
        char text[300];
        snprintf(text, sizeof text, "%%env: there is no variable %.200s in the environment", name);
        run_end_from_anywhere(LEAVE_ERROR, 0, text);
    }
}

static void hook_cd(const char *folder)
{
    if (chdir(folder) < 0) fail("%cd", folder);
    char *now_in = getcwd(NULL, 0);
    fprintf(stdout, "%s\n", now_in ? now_in : folder);
    free(now_in);
}

/* ---- code and values */

/* Slots hold addresses: what a call through one reaches. */
static void print_target(uint64_t slot)
{
    void *target;
    const char *function = NULL;
    Dl_info info;
    if (slot % sizeof target != 0 || !cadre_loader_is_slot(cell_host.loader, (void *)slot)) return;
    memcpy(&target, (void *)slot, sizeof target);
    if (cadre_loader_describe(cell_host.loader, target, NULL, &function, NULL))
        fprintf(stdout, " <%s>", function);
    else if (dladdr(target, &info) && info.dli_sname)
        fprintf(stdout, " <%s>", info.dli_sname);
}

static void print_code(FILE *listing, uint64_t start, const char *name)
{
    char *line = NULL;
    size_t room = 0;
    fprintf(stdout, "%s:\n", name);
    while (getline(&line, &room, listing) > 0) {
        char *rest, *slot = strstr(line, "# 0x");
        uint64_t at = strtoull(line, &rest, 16);
        if (rest == line || *rest != ':' || at < start) continue;
        line[strcspn(line, "\n")] = 0;
        fprintf(stdout, "%6llx%s", (unsigned long long)(at - start), rest);
        if (slot) print_target(strtoull(slot + 2, NULL, 16));
        fputs("\n", stdout);
    }
    free(line);
}

/* Through objdump: false when it is not there or fails. */
static bool print_listing(int file, uint64_t start, const char *name)
{
    char address[40], path[60];
    int ends[2], status = -1;
    pid_t child = -1;
    posix_spawn_file_actions_t actions;
    snprintf(address, sizeof address, "--adjust-vma=0x%llx", (unsigned long long)start);
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    char *arguments[] = {"objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn",
                         address,   path, NULL};
    if (pipe2(ends, O_CLOEXEC) < 0) return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *listing = failed ? NULL : fdopen(ends[0], "r");
    if (listing) {
        print_code(listing, start, name);
        fclose(listing);
    } else {
        close(ends[0]);
    }
    while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return listing && status == 0;
}

static void hook_asm(const char *name, const void *function)
{
    char problem[300];
    const void *start;
    size_t size;
    if (!cadre_loader_extent(cell_host.loader, function, &start, &size)) {
        snprintf(problem, sizeof problem, "%%asm: %.200s is not a function of a cell", name);
        run_end_from_anywhere(LEAVE_ERROR, 0, problem);
    }
    int file = memfd_create("cadre-code", MFD_CLOEXEC);
    bool good = file >= 0 && write(file, start, size) == (ssize_t)size &&
                print_listing(file, (uint64_t)(uintptr_t)start, name);
    if (file >= 0) close(file);
    if (!good)
        run_end_from_anywhere(LEAVE_ERROR, 0,
                              "%asm: objdump does not work; it comes with the package binutils");
}

/* cadre_show: the cell that asks tells which types are meant. */
static void show_value(const void *value, size_t size, int kind, cadre_bundle_function bundle,
                       const char *variable)
{
    const char *label = NULL;
    (void)cadre_loader_describe(cell_host.loader, __builtin_return_address(0), &label, NULL, NULL);
    cadre_show_value_of(label, value, size, kind, bundle, variable);
    LEAVE_IF_WANTED();
}

void hooks_magics_install(void)
{
    host_override("cadre_hook_asm", (void *)hook_asm);
    host_override("cadre_show_value", (void *)show_value);
    host_override("cadre_hook_time", (void *)hook_time);
    host_override("cadre_hook_timeit", (void *)hook_timeit);
    host_override("cadre_hook_status", (void *)hook_status);
    host_override("cadre_hook_write", (void *)hook_write);
    host_override("cadre_hook_env", (void *)hook_env);
    host_override("cadre_hook_cd", (void *)hook_cd);
}

void hooks_magics_start_cell(void)
{
    memset(timing.open, 0, sizeof timing.open);
    free(timing.seconds); /* of a %timeit that was interrupted */
    timing.seconds = NULL;
}

void hooks_end_cell(void)
{
    report_time(&timing.open[1]);
    report_time(&timing.open[0]);
}
