/* Processes of the compile service: started without copying our memory, seen only what they need,
 * waited for by pidfd, killed as a group. */
#include "kernel/cell/compile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_FILES = 8, FIRST_SPARE = 64 };

int64_t cadre_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

char *cadre_program_find(const char *name, const char *path_list)
{
    if (!*name) return NULL;
    if (strchr(name, '/')) {
        if (access(name, X_OK) < 0) return NULL;
        if (*name == '/') return strdup(name);
        /* Not resolved further: a driver finds its parts by the name that it was called by. */
        char *folder = getcwd(NULL, 0);
        cadre_buffer path = {0};
        if (folder) cadre_buffer_printf(&path, "%s/%s", folder, name);
        free(folder);
        return cadre_buffer_steal(&path);
    }
    if (!path_list) path_list = "/usr/local/bin:/usr/bin:/bin";
    for (const char *at = path_list; *at;) {
        size_t length = strcspn(at, ":");
        cadre_buffer path = {0};
        cadre_buffer_printf(&path, "%.*s%s%s", (int)length, at,
                            length && at[length - 1] == '/' ? "" : "/", name);
        struct stat info;
        if (length && !path.failed && stat(path.data, &info) == 0 && S_ISREG(info.st_mode) &&
            access(path.data, X_OK) == 0)
            return cadre_buffer_steal(&path);
        cadre_buffer_free(&path);
        at += length;
        if (*at == ':') at++;
    }
    return NULL;
}

static bool is_named(const char *variable, const char *other)
{
    const char *equals = other ? strchr(other, '=') : NULL;
    return equals && strncmp(variable, other, (size_t)(equals - other) + 1) == 0;
}

/* gcc writes dependency files when these are set; LANGUAGE would beat LC_ALL. */
static bool is_dropped(const char *variable)
{
    static const char *const names[] = {"DEPENDENCIES_OUTPUT=",
                                        "SUNPRO_DEPENDENCIES=",
                                        "LANGUAGE=",
                                        "LC_ALL=",
                                        "GCC_COLORS=",
                                        "GCC_URLS="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_named(variable, names[i])) return true;
    return false;
}

char **cadre_child_environment(const char *first, const char *second)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **list = malloc((count + 4) * sizeof *list);
    if (!list) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_dropped(environ[i]) && !is_named(environ[i], first) &&
            !is_named(environ[i], second))
            list[kept++] = environ[i];
    list[kept++] = (char *)"LC_ALL=C.UTF-8";
    if (first) list[kept++] = (char *)first;
    if (second) list[kept++] = (char *)second;
    list[kept] = NULL;
    return list;
}

/* What a compiler may take at most: a macro that doubles itself forty times must not take the
 * machine. Half of its memory, 1 GB at least, or what CADRE_COMPILER_MEGABYTES says. */
static rlim_t memory_limit(void)
{
    const char *text = getenv("CADRE_COMPILER_MEGABYTES");
    char *end = NULL;
    unsigned long long megabytes = text && *text ? strtoull(text, &end, 10) : 0;
    if (megabytes && end && !*end && megabytes < 1u << 24) return (rlim_t)megabytes << 20;
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    rlim_t half = pages > 0 && size > 0 ? (rlim_t)pages / 2 * (rlim_t)size : 0;
    return half < (rlim_t)1 << 30 ? (rlim_t)1 << 30 : half;
}

/* The child's side, on the parent's memory: system calls only, the answer through *failure. */
static _Noreturn void enter_program(const char *path, char *const *arguments,
                                    char *const *environment, const cadre_child_file *files,
                                    size_t file_count, rlim_t memory, pid_t parent,
                                    volatile int *failure)
{
    struct sigaction action;
    struct rlimit limit;
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) < 0 || action.sa_handler == SIG_DFL) continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        sigaction(number, &action, NULL);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur > memory) {
        limit.rlim_cur = memory;
        setrlimit(RLIMIT_DATA, &limit);
    }

    /* Out of the way first: a source may be another one's target. */
    int spare[MAX_FILES], top = 2, null;
    for (size_t i = 0; i < file_count; i++) {
        spare[i] = fcntl(files[i].source, F_DUPFD_CLOEXEC, FIRST_SPARE);
        if (spare[i] < 0) goto failed;
    }
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) goto failed;
    null = fcntl(null, F_DUPFD_CLOEXEC, FIRST_SPARE);
    if (null < 0) goto failed;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0) goto failed;
    for (size_t i = 0; i < file_count; i++) {
        if (dup2(spare[i], files[i].target) < 0) goto failed;
        if (files[i].target > top) top = files[i].target;
    }
    syscall(SYS_close_range, top + 1, ~0U, 0); /* what was not ours to pass; else close-on-exec */

    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(path, arguments, environment);
failed:
    *failure = errno ? errno : EINVAL;
    _exit(127);
}

/* Apart, so that nothing of the caller lives in registers over vfork. */
static __attribute__((noinline)) pid_t start_process(const char *path, char *const *arguments,
                                                     char *const *environment,
                                                     const cadre_child_file *files,
                                                     size_t file_count, volatile int *failure)
{
    pid_t parent = getpid();
    rlim_t memory = memory_limit();
    pid_t pid = vfork();
    if (pid == 0)
        enter_program(path, arguments, environment, files, file_count, memory, parent, failure);
    return pid;
}

int cadre_child_start(cadre_child *child, const char *path, char *const *arguments,
                      char *const *environment, const cadre_child_file *files, size_t file_count,
                      cadre_error *error)
{
    *child = CADRE_CHILD_NONE;
    if (file_count > MAX_FILES)
        return cadre_error_set(error, CADRE_EINPUT, "too many files for one process");
    char **own = environment ? NULL : cadre_child_environment(NULL, NULL);
    if (!environment && !own) return cadre_error_set(error, CADRE_EMEMORY, "no memory");

    sigset_t all, before;
    sigfillset(&all);
    volatile int failure = 0;
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler may run on shared memory */
    pid_t pid = start_process(path, arguments, environment ? environment : own, files, file_count,
                              &failure);
    int code = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(own);
    if (pid < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "cannot start %s: %s", path, strerror(code));
    if (failure) {
        code = failure;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        if (code == ENOENT || code == EACCES || code == ENOTDIR)
            return cadre_error_set(error, CADRE_ENOTFOUND,
                                   "cannot run %s: %s; is the C compiler installed whole?", path,
                                   strerror(code));
        return cadre_error_set(error, CADRE_ESYSTEM, "cannot start %s: %s", path, strerror(code));
    }
    child->pid = pid;
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by definition */
    return 0;
}

static void reap(cadre_child *child)
{
    int status = 0;
    pid_t pid;
    do
        pid = waitpid(child->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    /* Somebody else's wait() took it: how it ended is not known, so it does not count as good. */
    child->status = pid < 0 ? SIGKILL : status;
    if (child->pidfd >= 0) close(child->pidfd);
    child->pid = 0;
    child->pidfd = -1;
}

void cadre_child_stop(cadre_child *child)
{
    if (child->pid <= 0) return;
    /* setpgid may not have run yet if the child is that young: both. Not reaped, so both ids are
     * still its own. */
    kill(-child->pid, SIGKILL);
    kill(child->pid, SIGKILL);
    reap(child);
}

static int remaining(int64_t deadline)
{
    int64_t left = deadline - cadre_clock_ms();
    return left <= 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

static int wait_error(int code, cadre_error *error)
{
    if (code == CADRE_EINTERRUPT)
        return cadre_error_set(error, code, "the compilation was interrupted");
    return cadre_error_set(error, code,
                           "the compiler did not end within the time limit and was stopped");
}

int cadre_child_poll(int fd, int cancel_fd, int64_t deadline, cadre_error *error)
{
    for (;;) {
        struct pollfd files[2] = {{.fd = fd, .events = POLLIN},
                                  {.fd = cancel_fd, .events = POLLIN}};
        int left = remaining(deadline);
        int count = poll(files, 2, left);
        if (count < 0 && errno != EINTR)
            return cadre_error_set(error, CADRE_ESYSTEM, "poll: %s", strerror(errno));
        if (count > 0 && files[1].revents & POLLIN) return wait_error(CADRE_EINTERRUPT, error);
        if (count > 0 && files[0].revents) return 0;
        if (count == 0 && left == 0) return wait_error(CADRE_ETIMEOUT, error);
        if (count > 0 && files[1].revents) cancel_fd = -1; /* closed or broken: never readable */
    }
}

/* Where there are no pidfds (valgrind, some sandboxes): asks every few milliseconds. */
static int wait_by_asking(const cadre_child *child, int cancel_fd, int64_t deadline,
                          cadre_error *error)
{
    enum { PAUSE_MS = 2 };
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        int code = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT | WNOHANG);
        if ((code < 0 && errno != EINTR) || (code == 0 && info.si_pid)) return 0;
        int64_t next = cadre_clock_ms() + PAUSE_MS;
        code = cadre_child_poll(-1, cancel_fd, next < deadline ? next : deadline, error);
        if (code != CADRE_ETIMEOUT || next >= deadline) return code;
    }
}

int cadre_child_wait(cadre_child **children, size_t count, int cancel_fd, int64_t deadline,
                     cadre_error *error)
{
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (children[i]->pid <= 0) continue;
        result = children[i]->pidfd >= 0
                     ? cadre_child_poll(children[i]->pidfd, cancel_fd, deadline, error)
                     : wait_by_asking(children[i], cancel_fd, deadline, error);
        if (result == 0) reap(children[i]);
    }
    if (result < 0)
        for (size_t i = 0; i < count; i++)
            cadre_child_stop(children[i]);
    return result;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t count = write(fd, bytes, length);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return -1;
        bytes += count;
        length -= (size_t)count;
    }
    return 0;
}

int cadre_memory_file(const char *name, const void *bytes, size_t length, const void *more_bytes,
                      size_t more, cadre_error *error)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "memfd_create: %s", strerror(errno));
        return -1;
    }
    if (write_all(fd, bytes, length) < 0 || write_all(fd, more_bytes, more) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "cannot write a memory file: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

char *cadre_memory_read(int fd, size_t *length, cadre_error *error)
{
    struct stat info;
    if (fstat(fd, &info) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "fstat: %s", strerror(errno));
        return NULL;
    }
    size_t size = (size_t)info.st_size, have = 0;
    char *bytes = malloc(size + 1);
    if (!bytes) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for %zu bytes from the compiler", size);
        return NULL;
    }
    while (have < size) {
        ssize_t count = pread(fd, bytes + have, size - have, (off_t)have);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        have += (size_t)count;
    }
    bytes[have] = '\0';
    if (length) *length = have;
    return bytes;
}
