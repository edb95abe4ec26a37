/* What cells get instead of libc's functions that end, copy or replace the process, or close its
 * files. */
#include "host/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- functions registered by atexit: they run when a cell ends by exit() or main's return */

struct exit_function {
    void (*plain)(void);
    void (*with_status)(int, void *);
    void *argument;
};

static struct {
    struct exit_function *functions;
    size_t count, capacity;
    int status;
} exits;

static int register_exit(struct exit_function function)
{
    if (exits.count == exits.capacity) {
        size_t capacity = exits.capacity ? 2 * exits.capacity : 8;
        struct exit_function *grown = realloc(exits.functions, capacity * sizeof *grown);
        if (!grown) return -1;
        exits.functions = grown;
        exits.capacity = capacity;
    }
    exits.functions[exits.count++] = function;
    return 0;
}

static int cell_atexit(void (*function)(void))
{
    return register_exit((struct exit_function){.plain = function});
}

static int cell_on_exit(void (*function)(int, void *), void *argument)
{
    return register_exit((struct exit_function){.with_status = function, .argument = argument});
}

void process_run_atexit(void)
{
    while (exits.count) {
        struct exit_function function = exits.functions[--exits.count];
        if (function.plain) function.plain();
        if (function.with_status) function.with_status(cell_host.exit_status, function.argument);
    }
}

void process_start_cell(void)
{
    exits.count = 0;
    atomic_store(&cell_host.shared->process_end, END_UNKNOWN);
}

/* ---- the end of a process */

/* A forked child ends here, whichever way it came: what it printed is written, and nothing of the
 * host's own is run. */
void process_leave_child(int status)
{
    streams_finish_child();
    _exit(status);
}

static void note_end(enum process_end end, int status)
{
    if (cell_host.is_child) return;
    streams_flush();
    atomic_store(&cell_host.shared->process_status, status);
    atomic_store(&cell_host.shared->process_end, (int)end);
}

static void end_cell(void *frame, int status, enum process_end otherwise)
{
    if (cell_host.is_child || getpid() != cell_host.self) {
        cell_host.is_child = true;
        cell_host.exit_status = status;
        process_run_atexit();
        process_leave_child(status);
    }
    if (!on_main_thread()) run_end_from_anywhere(LEAVE_EXIT, status, NULL);
    if (cell_host.in_cell && interrupt_can_leave(frame))
        run_end_from_anywhere(LEAVE_EXIT, status, NULL);
    /* A library is in the middle of something: only going back is safe. */
    note_end(otherwise, status);
    _exit(status);
}

static void cell_exit(int status)
{
    end_cell(__builtin_frame_address(0), status, END_UNCLEAN_EXIT);
}

void process_end_thread(void *frame, void *result)
{
    if (!cell_host.is_child && on_main_thread()) end_cell(frame, 0, END_PTHREAD_EXIT);
    pthread_exit(result);
}

static void cell_pthread_exit(void *result)
{
    process_end_thread(__builtin_frame_address(0), result);
}

static void cell_underscore_exit(int status)
{
    note_end(END_UNDERSCORE_EXIT, status);
    _exit(status);
}

static int cell_kill(pid_t process, int number)
{
    streams_flush();
    return kill(process, number);
}

/* ---- copies of the process */

static void before_fork(void)
{
    if (!cell_host.is_child) streams_flush_files();
}

static void in_forked_child(void)
{
    bool first = !cell_host.is_child;
    cell_host.is_child = true;
    if (first) {
        for (size_t i = 0; i < cell_host.own_file_count; i++)
            if (cell_host.own_files[i] != cell_host.display) close(cell_host.own_files[i]);
        snapshot_forget_in_child();
        streams_in_child();
    }
}

static pid_t cell_vfork(void)
{
    return fork();
}

/* ---- programs */

static char **gather(const char *first, va_list arguments, char ***environment)
{
    size_t count = 1, capacity = 16;
    char **list = malloc(capacity * sizeof *list);
    if (!list) return NULL;
    list[0] = (char *)first;
    while (list[count - 1]) {
        if (count == capacity) {
            char **grown = realloc(list, 2 * capacity * sizeof *list);
            if (!grown) {
                free(list);
                return NULL;
            }
            list = grown;
            capacity *= 2;
        }
        list[count++] = va_arg(arguments, char *);
    }
    if (environment) *environment = va_arg(arguments, char **);
    return list;
}

/* If exec succeeds in the host itself, the program runs in its place, and when it ends the copy
 * takes over. */
static int finish_exec(int status)
{
    int saved = errno;
    if (!cell_host.is_child) atomic_store(&cell_host.shared->process_end, END_UNKNOWN);
    errno = saved;
    return status;
}

static int cell_execve(const char *path, char *const *arguments, char *const *environment)
{
    note_end(END_EXEC, 0);
    return finish_exec(execve(path, arguments, environment));
}

static int cell_execv(const char *path, char *const *arguments)
{
    return cell_execve(path, arguments, environ);
}

static int cell_execvpe(const char *name, char *const *arguments, char *const *environment)
{
    note_end(END_EXEC, 0);
    return finish_exec(execvpe(name, arguments, environment));
}

static int cell_execvp(const char *name, char *const *arguments)
{
    return cell_execvpe(name, arguments, environ);
}

static int cell_fexecve(int file, char *const *arguments, char *const *environment)
{
    note_end(END_EXEC, 0);
    return finish_exec(fexecve(file, arguments, environment));
}

static int cell_execl(const char *path, const char *first, ...)
{
    va_list arguments;
    va_start(arguments, first);
    char **list = gather(first, arguments, NULL);
    va_end(arguments);
    int status = list ? cell_execv(path, list) : -1;
    free(list);
    return status;
}

static int cell_execlp(const char *name, const char *first, ...)
{
    va_list arguments;
    va_start(arguments, first);
    char **list = gather(first, arguments, NULL);
    va_end(arguments);
    int status = list ? cell_execvp(name, list) : -1;
    free(list);
    return status;
}

static int cell_execle(const char *path, const char *first, ...)
{
    va_list arguments;
    char **environment = NULL;
    va_start(arguments, first);
    char **list = gather(first, arguments, &environment);
    va_end(arguments);
    int status = list ? cell_execve(path, list, environment) : -1;
    free(list);
    return status;
}

static int cell_posix_spawn(pid_t *process, const char *path,
                            const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const *arguments,
                            char *const *environment)
{
    streams_flush();
    return posix_spawn(process, path, actions, attributes, arguments, environment);
}

static int cell_posix_spawnp(pid_t *process, const char *name,
                             const posix_spawn_file_actions_t *actions,
                             const posix_spawnattr_t *attributes, char *const *arguments,
                             char *const *environment)
{
    streams_flush();
    return posix_spawnp(process, name, actions, attributes, arguments, environment);
}

/* libc's waits on through every signal; this one ends the command and the cell. */
static int wait_for_child(pid_t process, void *frame)
{
    int status;
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) return -1;
        if (!cell_host.is_child && end_wanted()) {
            struct timespec moment = {0, 20000000};
            nanosleep(&moment, NULL); /* it has got SIGINT; most programs end now */
            if (waitpid(process, &status, WNOHANG) == 0) {
                kill(process, SIGTERM);
                nanosleep(&moment, NULL);
                if (waitpid(process, &status, WNOHANG) == 0) kill(process, SIGKILL);
                (void)waitpid(process, &status, 0);
            }
            interrupt_check(frame);
            return status;
        }
    }
    return status;
}

static pid_t start_shell(const char *command)
{
    pid_t process;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    char *arguments[] = {"sh", "-c", "--", (char *)command, NULL};
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int status = posix_spawn(&process, "/bin/sh", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (status == 0) return process;
    errno = status;
    return -1;
}

static int cell_system(const char *command)
{
    streams_flush();
    if (!command) return 1;
    pid_t process = start_shell(command);
    if (process < 0) return -1;
    return wait_for_child(process, __builtin_frame_address(0));
}

/* The cell asked for it: what we would not call ourselves is handed on. */
static FILE *(*const library_popen)(const char *, const char *) = popen;

static FILE *cell_popen(const char *command, const char *mode)
{
    streams_flush();
    return library_popen(command, mode);
}

static int cell_pclose(FILE *stream)
{
    int status = pclose(stream);
    LEAVE_IF_WANTED();
    return status;
}

/* ---- files */

static int cell_close(int file)
{
    if (host_is_own_file(file)) {
        errno = EBADF;
        return -1;
    }
    return close(file);
}

static int cell_close_range(unsigned first, unsigned last, int flags)
{
    if (cell_host.is_child || (flags & CLOSE_RANGE_CLOEXEC)) return close_range(first, last, flags);
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *end;
        long file = strtol(entry->d_name, &end, 10);
        if (*end || end == entry->d_name || file == dirfd(folder)) continue;
        if ((unsigned long)file >= first && (unsigned long)file <= last) cell_close((int)file);
    }
    closedir(folder);
    return 0;
}

static void cell_closefrom(int first)
{
    (void)cell_close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0);
}

static int cell_dup2(int from, int to)
{
    if (host_is_own_file(to)) {
        errno = EBADF;
        return -1;
    }
    return dup2(from, to);
}

static int cell_dup3(int from, int to, int flags)
{
    if (host_is_own_file(to)) {
        errno = EBADF;
        return -1;
    }
    return dup3(from, to, flags);
}

void process_install(void)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        {"exit", (void *)cell_exit},
        {"quick_exit", (void *)cell_exit},
        {"thrd_exit", (void *)cell_pthread_exit},
        {"pthread_exit", (void *)cell_pthread_exit},
        {"_exit", (void *)cell_underscore_exit},
        {"_Exit", (void *)cell_underscore_exit},
        {"atexit", (void *)cell_atexit},
        {"at_quick_exit", (void *)cell_atexit},
        {"on_exit", (void *)cell_on_exit},
        {"pthread_atfork", (void *)pthread_atfork},
        {"kill", (void *)cell_kill},
        {"vfork", (void *)cell_vfork},
        {"execve", (void *)cell_execve},
        {"execv", (void *)cell_execv},
        {"execvp", (void *)cell_execvp},
        {"execvpe", (void *)cell_execvpe},
        {"fexecve", (void *)cell_fexecve},
        {"execl", (void *)cell_execl},
        {"execlp", (void *)cell_execlp},
        {"execle", (void *)cell_execle},
        {"posix_spawn", (void *)cell_posix_spawn},
        {"posix_spawnp", (void *)cell_posix_spawnp},
        {"system", (void *)cell_system},
        {"cadre_hook_system", (void *)cell_system}, /* also where a cell has a system of its own */
        {"popen", (void *)cell_popen},
        {"pclose", (void *)cell_pclose},
        {"close", (void *)cell_close},
        {"close_range", (void *)cell_close_range},
        {"closefrom", (void *)cell_closefrom},
        {"dup2", (void *)cell_dup2},
        {"dup3", (void *)cell_dup3},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        host_override(table[i].name, table[i].function);
    pthread_atfork(before_fork, NULL, in_forked_child);
}
