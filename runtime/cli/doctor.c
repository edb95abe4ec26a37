#include "cli/cli.h"
#include "cli/specs.h"
#include "cpu/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct report {
    int failures, warnings;
};

enum verdict { GOOD, WARNING, FAILURE };

static void tell(struct report *report, enum verdict verdict, const char *what, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
static void tell(struct report *report, enum verdict verdict, const char *what, const char *format,
                 ...)
{
    static const char *const words[] = {"ok  ", "warn", "FAIL"};
    report->failures += verdict == FAILURE;
    report->warnings += verdict == WARNING;
    printf("%s  %-14s ", words[verdict], what);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static long now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Runs a program (looked for on PATH) and keeps what it says on stdout and stderr. Returns its
 * exit status; 127 when it cannot be started, 124 when it takes more than 30 s. */
static int ask(const char *const *argv, char *text, size_t size)
{
    int pipe_ends[2], status = 127;
    size_t used = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    text[0] = 0;
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) return 127;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
    int failed = posix_spawnp(&child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    long limit = now_ms() + 30000;
    while (!failed) {
        char rest[512];
        bool full = used + 1 >= size;
        struct pollfd waiting = {.fd = pipe_ends[0], .events = POLLIN};
        long left = limit - now_ms();
        int ready = left > 0 ? poll(&waiting, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            close(pipe_ends[0]);
            return 124;
        }
        ssize_t got =
            read(pipe_ends[0], full ? rest : text + used, full ? sizeof rest : size - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (!full) used += (size_t)got;
    }
    close(pipe_ends[0]);
    text[used] = 0;
    if (failed) return 127;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The first line of a text, in place. */
static char *first_line(char *text)
{
    text[strcspn(text, "\r\n")] = 0;
    return text;
}

static void check_program(struct report *report, const char *what, const char *path)
{
    if (access(path, X_OK) == 0)
        tell(report, GOOD, what, "%s", path);
    else
        tell(report, FAILURE, what, "%s: %s; run make install again", path, strerror(errno));
}

static void check_programs(struct report *report)
{
    char path[CADRE_SPEC_PATH];
    cadre_spec_program(path, sizeof path, "cadre-kernel");
    check_program(report, "kernel", path);
    check_program(report, "host", CADRE_LIBEXECDIR "/cadre-host");
}

static const char *compiler(void)
{
    const char *chosen = getenv("CADRE_CC");
    return chosen && *chosen ? chosen : "gcc";
}

static void check_compiler(struct report *report)
{
    char text[4096], path[4096];
    const char *const version[] = {compiler(), "--version", NULL};
    if (ask(version, text, sizeof text) != 0) {
        tell(report, FAILURE, "compiler", "%s cannot be run; install gcc (apt-get install gcc)",
             compiler());
        return;
    }
    tell(report, GOOD, "compiler", "%s", first_line(text));
    const char *const cc1[] = {compiler(), "-print-prog-name=cc1", NULL};
    if (ask(cc1, path, sizeof path) == 0 && access(first_line(path), X_OK) == 0)
        tell(report, GOOD, "cc1", "%s", path);
    else
        tell(report, FAILURE, "cc1", "%s has no cc1; install gcc whole (apt-get install gcc)",
             compiler());
    const char *const assembler[] = {compiler(), "-print-prog-name=as", NULL};
    const char *const as[] = {path, "--version", NULL};
    if (ask(assembler, path, sizeof path) == 0 && first_line(path) &&
        ask(as, text, sizeof text) == 0)
        tell(report, GOOD, "assembler", "%s", first_line(text));
    else
        tell(report, FAILURE, "assembler", "no as; install it (apt-get install binutils)");
    const char *const plugins[] = {compiler(), "-v", NULL};
    if (ask(plugins, text, sizeof text) == 0 && strstr(text, "--enable-plugin"))
        tell(report, GOOD, "plugins", "the compiler loads plugins");
    else
        tell(report, WARNING, "plugins",
             "the compiler loads no plugins: cells are compiled by a plain cc1, which is slower");
}

static void check_headers(struct report *report)
{
    char text[8192], source[] = "/tmp/cadre-doctor-XXXXXX.c";
    static const char program[] = "#include <stdio.h>\n#include <cblas.h>\n#include <cadre.h>\n";
    int fd = mkostemps(source, 2, O_CLOEXEC);
    if (fd < 0 || write(fd, program, sizeof program - 1) != (ssize_t)sizeof program - 1) {
        tell(report, FAILURE, "headers", "cannot write in /tmp: %s", strerror(errno));
        if (fd >= 0) close(fd);
        return;
    }
    close(fd);
    static const char include_option[] = "-I" CADRE_INCLUDEDIR "/cadre";
    const char *const compile[] = {compiler(),     "-std=gnu17", "-fsyntax-only",
                                   include_option, source,       NULL};
    if (ask(compile, text, sizeof text) == 0)
        tell(report, GOOD, "headers", "%s/cadre/cadre.h, C library, cblas.h", CADRE_INCLUDEDIR);
    else
        tell(report, FAILURE, "headers",
             "cells cannot be compiled: %s\n      install libc6-dev and libopenblas-dev, and Cadre "
             "again (make install)",
             first_line(text));
    unlink(source);
}

static void check_library(struct report *report)
{
    char text[8192];
    const char *const maps[] = {"ldd", CADRE_LIBDIR "/libcadre.so", NULL};
    if (access(CADRE_LIBDIR "/libcadre.so", R_OK) != 0)
        tell(report, FAILURE, "library", "%s/libcadre.so: %s; run make install again", CADRE_LIBDIR,
             strerror(errno));
    else if (ask(maps, text, sizeof text) == 0 && !strstr(text, "not found"))
        tell(report, GOOD, "library", "%s/libcadre.so and all that it needs", CADRE_LIBDIR);
    else
        tell(report, FAILURE, "library", "%s/libcadre.so lacks libraries:\n%s", CADRE_LIBDIR, text);
}

/* Jupyter's own word on which kernels there are. */
static void check_kernelspecs(struct report *report)
{
    static char text[1 << 18];
    const char *const list[] = {"jupyter", "kernelspec", "list", "--json", NULL};
    int status = ask(list, text, sizeof text);
    if (status == 127) {
        tell(report, WARNING, "jupyter",
             "there is no jupyter on PATH; `cadre run` works, JupyterLab is not there "
             "(pip install jupyterlab)");
        return;
    }
    const char *begin = strchr(text, '{');
    json_t *answer = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const json_t *specs = json_object_get(answer, "kernelspecs");
    const char *name;
    json_t *spec;
    int ours = 0;
    json_object_foreach((json_t *)specs, name, spec)
    {
        const json_t *argv = json_object_get(json_object_get(spec, "spec"), "argv");
        const char *program = json_string_value(json_array_get(argv, 0));
        if (!cadre_spec_is_ours(json_object_get(spec, "spec"))) continue;
        ours++;
        if (!program || access(program, X_OK) != 0)
            tell(report, FAILURE, "kernelspec",
                 "%s starts %s, which is not there; install it again or remove it", name,
                 program ? program : "nothing");
        else
            tell(report, GOOD, "kernelspec", "%s: %s", name,
                 json_string_value(json_object_get(spec, "resource_dir")));
    }
    if (!json_is_object(specs))
        tell(report, FAILURE, "jupyter", "jupyter kernelspec list failed: %s", first_line(text));
    else if (!ours)
        tell(report, FAILURE, "kernelspec",
             "Jupyter does not find the kernel; run cadre kernelspec install --user");
    json_decref(answer);
}

/* The folder of compiled cells, or the nearest one above it that is there. */
static void check_cache(struct report *report)
{
    char folder[CADRE_SPEC_PATH];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat info;
    struct statvfs volume;
    if (cache && *cache)
        snprintf(folder, sizeof folder, "%s/cadre", cache);
    else if (home && *home)
        snprintf(folder, sizeof folder, "%s/.cache/cadre", home);
    else {
        tell(report, WARNING, "cache", "HOME is not set: compiled cells are not kept");
        return;
    }
    if (stat(folder, &info) != 0) {
        if (errno == ENOENT)
            tell(report, GOOD, "cache", "%s will be made with the first cell", folder);
        else
            tell(report, WARNING, "cache", "%s: %s; compiled cells are not kept", folder,
                 strerror(errno));
        return;
    }
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        tell(report, FAILURE, "cache", "%s is not a folder of yours; remove it", folder);
    else if (info.st_mode & 022)
        tell(report, FAILURE, "cache", "others may write to %s; run chmod 700 %s", folder, folder);
    else if (access(folder, W_OK) != 0)
        tell(report, WARNING, "cache", "%s cannot be written: compiled cells are not kept", folder);
    else if (statvfs(folder, &volume) == 0 &&
             (uint64_t)volume.f_bavail * volume.f_frsize < 64ull << 20)
        tell(report, WARNING, "cache", "less than 64 MB are free for %s", folder);
    else
        tell(report, GOOD, "cache", "%s", folder);
}

static void check_machine(struct report *report)
{
    struct statvfs volume;
    tell(report, GOOD, "processors", "%s", cadre_cpu_describe());
    if (statvfs("/dev/shm", &volume) != 0 || access("/dev/shm", W_OK) != 0) {
        tell(report, FAILURE, "/dev/shm", "cannot be used: %s; worker processes share data there",
             strerror(errno));
        return;
    }
    double free_gib = (double)volume.f_bavail * (double)volume.f_frsize / (double)(1ull << 30);
    if (free_gib < 1)
        tell(report, WARNING, "/dev/shm",
             "%.2f GiB free: large tables may not fit (docker run --shm-size=2g)", free_gib);
    else
        tell(report, GOOD, "/dev/shm", "%.1f GiB free", free_gib);
}

static void check_python(struct report *report)
{
    char text[4096];
    static const char program[] =
        "import importlib\n"
        "for m in ('jupyter_client', 'nbclient', 'papermill', 'cadre_kernel'):\n"
        "    try: v = getattr(importlib.import_module(m), '__version__', 'there')\n"
        "    except ImportError: v = 'missing'\n"
        "    print(m, v, end='; ')\n";
    const char *const python[] = {"python3", "-c", program, NULL};
    int status = ask(python, text, sizeof text);
    if (status == 127)
        tell(report, WARNING, "python", "there is no python3 on PATH; only JupyterLab needs it");
    else if (status != 0)
        tell(report, WARNING, "python", "python3 failed: %s", first_line(text));
    else
        tell(report, strstr(text, "missing") ? WARNING : GOOD, "python", "%s%s", text,
             strstr(text, "missing")
                 ? "papermill finds parameters of C notebooks with pip install of kernelspec/python"
                 : "papermill knows C");
}

int cadre_cli_doctor(int argc, char **argv)
{
    struct report report = {0};
    if (argc > 1) {
        bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
        fprintf(help ? stdout : stderr,
                "usage: cadre doctor\n\nChecks the installation, a line for each part, and says "
                "what to do.\nExit status: 0 all works (warnings too), 1 something does not.\n");
        return help ? 0 : 2;
    }
    check_programs(&report);
    check_compiler(&report);
    check_headers(&report);
    check_library(&report);
    check_kernelspecs(&report);
    check_cache(&report);
    check_machine(&report);
    check_python(&report);
    if (report.failures)
        printf("\n%d to mend, %d to know.\n", report.failures, report.warnings);
    else
        printf("\nEverything is in place%s.\n", report.warnings ? ", with the warnings above" : "");
    return report.failures > 0;
}
