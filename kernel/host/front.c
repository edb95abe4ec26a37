/* Starting, stopping and asking the host, from the front. */
#include "host/front.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define PIPE_SIZE (1 << 20)
#define STACK_MIN ((rlim_t)8 << 20)
#define STACK_MAX ((rlim_t)1 << 30)
#define TUNABLE "glibc.malloc.hugetlb=1"
#define INTERRUPT_LIMIT_MS 2000

extern char **environ;

uint64_t front_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

void front_watch(cadre_host *host, int file, bool watched)
{
    struct epoll_event event = {.events = watched ? EPOLLIN : 0, .data.fd = file};
    if (file < 0) return;
    if (epoll_ctl(host->epoll, EPOLL_CTL_MOD, file, &event) < 0 && errno == ENOENT && watched)
        (void)epoll_ctl(host->epoll, EPOLL_CTL_ADD, file, &event);
}

/* ---- starting */

struct launch {
    int control, display, memory, input, output, error;
    char arguments[5][300];
    char *argument_list[8];
    char **environment;
    struct rlimit stack;
    pid_t front;
};

/* In the child, between fork and exec: async-signal-safe calls only. */
static void launch_exec(const struct launch *launch, const char *program)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < 65; number++)
        if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launch->front) _exit(127);
    setrlimit(RLIMIT_STACK, &launch->stack);
    if (dup2(launch->input, 0) < 0 || dup2(launch->output, 1) < 0 || dup2(launch->error, 2) < 0)
        _exit(127);
    /* Nothing else of the front's goes along, whoever opened it and however. */
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        for (int file = 3; file < 4096; file++)
            fcntl(file, F_SETFD, FD_CLOEXEC);
    fcntl(launch->control, F_SETFD, 0);
    fcntl(launch->display, F_SETFD, 0);
    fcntl(launch->memory, F_SETFD, 0);
    execve(program, launch->argument_list, launch->environment);
    _exit(127);
}

/* The environment of the host: the caller's, and malloc with huge pages, which make a copy of the
 * process several times cheaper. New array; *tunable is new text, one of its entries. */
static char **host_environment(char *const *from, char **tunable, const char **before)
{
    static const char name[] = "GLIBC_TUNABLES=";
    size_t count = 0, used = 0;
    const char *old = NULL;
    while (from[count]) {
        if (strncmp(from[count], name, sizeof name - 1) == 0) old = from[count] + sizeof name - 1;
        count++;
    }
    char **list = calloc(count + 2, sizeof *list);
    cadre_buffer text = {0};
    cadre_buffer_printf(&text, "%s%s%s%s", name, old ? old : "", old && *old ? ":" : "", TUNABLE);
    *tunable = cadre_buffer_steal(&text);
    if (!list || !*tunable) {
        free(list);
        free(*tunable);
        *tunable = NULL;
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (strncmp(from[i], name, sizeof name - 1) != 0) list[used++] = from[i];
    list[used] = *tunable;
    *before = old ? old : "-";
    return list;
}

static rlim_t stack_size(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) < 0) return STACK_MIN;
    rlim_t size = limit.rlim_cur;
    if (size == RLIM_INFINITY || size > STACK_MAX) return STACK_MAX;
    if (size < STACK_MIN) size = STACK_MIN;
    return limit.rlim_max != RLIM_INFINITY && size > limit.rlim_max ? limit.rlim_max : size;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0) close(pair[i]);
}

static void watch_child(cadre_host *host, struct child *child, pid_t pid)
{
    child->pid = pid;
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    front_watch(host, child->pidfd, true);
}

/* The memory that front and host share outlives the host's processes and is new for each start.
 * -1 with *error. */
static int share_memory(cadre_host *host, cadre_error *error)
{
    int memory = memfd_create("cadre-host", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, sizeof *host->shared) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "no shared memory for the host: %s", strerror(errno));
        if (memory >= 0) close(memory);
        return -1;
    }
    host->shared = mmap(NULL, sizeof *host->shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (host->shared == MAP_FAILED) {
        host->shared = NULL;
        close(memory);
        cadre_error_set(error, CADRE_EMEMORY, "no memory to share with the host");
        return -1;
    }
    return memory;
}

int front_spawn(cadre_host *host, cadre_error *error)
{
    int control[2] = {-1, -1}, display[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1};
    int input = -1, memory = -1, status = CADRE_ESYSTEM;
    char *tunable = NULL;
    const char *tunable_before = "-";
    struct launch launch = {.front = getpid()};
    launch.environment = host_environment(host->environment ? host->environment : environ, &tunable,
                                          &tunable_before);
    if (!launch.environment) {
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory to start the host");
        goto out;
    }
    front_memory_state("", &host->memory);
    memory = share_memory(host, error);
    if (memory < 0) goto out;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, display) < 0 ||
        pipe2(output, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0 ||
        (input = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "no descriptors for the host: %s", strerror(errno));
        goto out;
    }
    (void)fcntl(output[0], F_SETPIPE_SZ, PIPE_SIZE);
    (void)fcntl(errors[0], F_SETPIPE_SZ, PIPE_SIZE);
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(errors[0], F_SETFL, O_NONBLOCK);
    launch.control = control[1];
    launch.display = display[1];
    launch.memory = memory;
    launch.input = input;
    launch.output = output[1];
    launch.error = errors[1];
    getrlimit(RLIMIT_STACK, &launch.stack);
    launch.stack.rlim_cur = stack_size();
    snprintf(launch.arguments[0], sizeof *launch.arguments, "%d", control[1]);
    snprintf(launch.arguments[1], sizeof *launch.arguments, "%d", display[1]);
    snprintf(launch.arguments[2], sizeof *launch.arguments, "%d", memory);
    snprintf(launch.arguments[3], sizeof *launch.arguments, "%d", (int)launch.front);
    launch.argument_list[0] = (char *)"cadre-host";
    for (int i = 0; i < 4; i++)
        launch.argument_list[i + 1] = launch.arguments[i];
    launch.argument_list[5] = (char *)tunable_before;
    if (access(host->program, X_OK) < 0) {
        cadre_error_set(error, CADRE_EFILE, "%s: %s; is Cadre installed?", host->program,
                        strerror(errno));
        goto out;
    }
    pid_t pid = fork();
    if (pid == 0) launch_exec(&launch, host->program);
    if (pid < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "cannot start the host: %s", strerror(errno));
        goto out;
    }
    (void)setpgid(pid, pid);
    host->control = control[0];
    host->display = display[0];
    host->output = output[0];
    host->error = errors[0];
    control[0] = display[0] = output[0] = errors[0] = -1;
    watch_child(host, &host->host, pid);
    front_watch(host, host->control, true);
    front_watch(host, host->display, true);
    front_watch(host, host->output, true);
    front_watch(host, host->error, true);
    host->state = HOST_RUNS;
    status = 0;
out:
    close_pair(control);
    close_pair(display);
    close_pair(output);
    close_pair(errors);
    if (input >= 0) close(input);
    if (memory >= 0) close(memory);
    if (status < 0 && host->shared) {
        munmap(host->shared, sizeof *host->shared);
        host->shared = NULL;
    }
    free(launch.environment);
    free(tunable);
    return status;
}

cadre_host *cadre_host_start(const cadre_host_options *options, cadre_error *error)
{
    cadre_host *host = calloc(1, sizeof *host);
    if (!host) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory to start the host");
        return NULL;
    }
    host->control = host->output = host->error = host->display = host->epoll = host->kick = -1;
    host->acknowledge = -1;
    host->host.pidfd = host->copy.pidfd = -1;
    host->program =
        strdup(options && options->program ? options->program : CADRE_LIBEXECDIR "/cadre-host");
    host->environment = options ? (char **)options->environment : NULL;
    host->epoll = epoll_create1(EPOLL_CLOEXEC);
    host->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!host->program || host->epoll < 0 || host->kick < 0) {
        cadre_error_set(error, CADRE_ESYSTEM, "cannot start the host: %s", strerror(errno));
        cadre_host_stop(host);
        return NULL;
    }
    front_watch(host, host->kick, true);
    if (front_spawn(host, error) < 0) {
        cadre_host_stop(host);
        return NULL;
    }
    return host;
}

/* ---- the end */

static bool reap(struct child *child, bool wait, int *code, int *status)
{
    siginfo_t info = {0};
    if (child->pid <= 0) return true;
    int result;
    do
        result = waitid(P_PID, (id_t)child->pid, &info, WEXITED | (wait ? 0 : WNOHANG));
    while (result < 0 && errno == EINTR);
    if (result == 0 && info.si_pid == 0) return false;
    if (code) *code = result == 0 ? info.si_code : 0;
    if (status) *status = result == 0 ? info.si_status : 0;
    if (child->pidfd >= 0) close(child->pidfd);
    *child = (struct child){0, -1};
    return true;
}

void front_reap(cadre_host *host, bool wait)
{
    for (size_t i = 0; i < host->ending_count;) {
        if (reap(&host->ending[i], wait, NULL, NULL))
            host->ending[i] = host->ending[--host->ending_count];
        else
            i++;
    }
}

/* A process group may outlive its leader: programs that a cell has left in the background. */
void front_remember_group(cadre_host *host, pid_t group)
{
    for (size_t i = 0; i < GROUPS_MAX; i++) {
        int old = atomic_load(&host->shared->groups[i]);
        if (old > 1 && kill(-old, 0) < 0 && errno == ESRCH)
            atomic_store(&host->shared->groups[i], old = 0);
        if (old == 0 && group > 1) {
            atomic_store(&host->shared->groups[i], group);
            group = 0;
        }
    }
    if (group > 1) kill(-group, SIGKILL); /* no room to remember it */
}

static void kill_child(const struct child *child)
{
    if (child->pid <= 1) return;
    kill(child->pid, SIGKILL);
    kill(-child->pid, SIGKILL);
}

/* Copies that the host announced just before its end. One that it could not announce any more
 * finds nobody at the socket when it takes over, and ends by itself. */
static void end_unknown_copies(cadre_host *host)
{
    struct packet packet;
    if (host->control < 0) return;
    reap(&host->host, true, NULL, NULL);
    while (cadre_packet_receive(host->control, &packet, false) == 1) {
        struct child copy = {(pid_t)packet.header.number[0], -1};
        bool names_copy =
            packet.header.message == MESSAGE_SNAPSHOT || packet.header.message == MESSAGE_TAKEOVER;
        cadre_packet_free(&packet);
        if (!names_copy || copy.pid <= 1) continue;
        kill_child(&copy);
        reap(&copy, true, NULL, NULL);
    }
}

/* The end of host, copies and groups; closes what belonged to them. */
void front_close(cadre_host *host)
{
    kill_child(&host->copy); /* first: it would take over */
    for (size_t i = 0; i < host->ending_count; i++)
        kill_child(&host->ending[i]);
    kill_child(&host->host);
    end_unknown_copies(host);
    for (size_t i = 0; host->shared && i < GROUPS_MAX; i++) {
        int group = atomic_load(&host->shared->groups[i]);
        if (group > 1) kill(-group, SIGKILL);
    }
    reap(&host->copy, true, NULL, NULL);
    reap(&host->host, true, NULL, NULL);
    front_reap(host, true);
    int *files[] = {&host->control, &host->output, &host->error, &host->display};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (*files[i] >= 0) close(*files[i]);
        *files[i] = -1;
    }
    if (host->shared) munmap(host->shared, sizeof *host->shared);
    host->shared = NULL;
    host->state = HOST_STOPPED;
    host->takeover_deadline = host->interrupt_deadline = 0;
    host->takeover_pid = 0;
    host->run = 0;
    host->cell = NULL;
}

void cadre_host_stop(cadre_host *host)
{
    if (!host) return;
    front_close(host);
    while (host->first) {
        struct queued_event *event = host->first;
        host->first = event->next;
        cadre_host_event_free(&event->event);
        if (event->acknowledge >= 0) close(event->acknowledge);
        free(event);
    }
    if (host->acknowledge >= 0) close(host->acknowledge);
    if (host->epoll >= 0) close(host->epoll);
    if (host->kick >= 0) close(host->kick);
    front_forget_cells(host);
    free(host->program);
    free(host);
}

/* ---- asking */

int cadre_host_fd(const cadre_host *host)
{
    return host->epoll;
}

pid_t cadre_host_pid(const cadre_host *host)
{
    return host->host.pid;
}

pid_t cadre_host_snapshot_pid(const cadre_host *host)
{
    return host->copy.pid > 0 ? host->copy.pid : 0;
}

double cadre_host_snapshot_ms(const cadre_host *host)
{
    return host->snapshot_ms;
}

static int object_file(const cadre_segment *segment, bool *made)
{
    *made = false;
    if (segment->object_fd >= 0) return segment->object_fd;
    int file = memfd_create("cadre-object", MFD_CLOEXEC);
    size_t done = 0;
    while (file >= 0 && done < segment->object_length) {
        ssize_t written = write(file, segment->object + done, segment->object_length - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        done += (size_t)written;
    }
    *made = file >= 0;
    return file;
}

static void describe_run(cadre_buffer *payload, const cadre_host_run_request *request)
{
    const cadre_cell *cell = request->cell;
    cadre_field_number(payload, request->generation);
    cadre_field_number(payload, request->snapshot);
    cadre_field_number(payload, (request->allow_stdin ? RUN_ALLOW_STDIN : 0) |
                                    (cell->has_value ? RUN_HAS_VALUE : 0));
    cadre_field_text(payload, cell->file_name);
    cadre_field_number(payload, cell->library_count);
    for (size_t i = 0; i < cell->library_count; i++)
        cadre_field_text(payload, cell->libraries[i]);
    cadre_field_number(payload, cell->segment_count);
    for (size_t i = 0; i < cell->segment_count; i++) {
        const cadre_segment *segment = &cell->segments[i];
        cadre_field_number(payload, !segment->use_dlopen);
        cadre_field_number(
            payload, !segment->use_dlopen && segment->object &&
                         !front_defines(segment->object, segment->object_length, segment->entry));
        cadre_field_number(payload, segment->use_dlopen);
        cadre_field_text(payload, segment->library_path);
        cadre_field_text(payload, segment->entry);
        cadre_field_number(payload, segment->fresh_count);
        for (size_t j = 0; j < segment->fresh_count; j++)
            cadre_field_text(payload, segment->fresh_names[j]);
    }
}

int cadre_host_run(cadre_host *host, const cadre_host_run_request *request, cadre_error *error)
{
    enum { FILES_PER_PACKET = 128 };
    int files[FILES_PER_PACKET], made[FILES_PER_PACKET];
    size_t count = 0, made_count = 0;
    int status = 0;
    if (host->run) return cadre_error_set(error, CADRE_EINPUT, "another cell is running");
    if (host->state == HOST_STOPPED)
        return cadre_error_set(error, CADRE_ECHILD, "the host is not running");
    cadre_buffer payload = {0};
    struct packet_header header = {.message = MESSAGE_FILES, .run = ++host->last_run};
    describe_run(&payload, request);
    if (payload.failed) status = CADRE_EMEMORY;
    for (size_t i = 0; i < request->cell->segment_count && status == 0; i++) {
        const cadre_segment *segment = &request->cell->segments[i];
        bool new_file;
        if (segment->use_dlopen) continue;
        int file = object_file(segment, &new_file);
        if (file < 0) status = CADRE_ESYSTEM;
        if (new_file) made[made_count++] = file;
        files[count++] = file;
        if (status == 0 && count == FILES_PER_PACKET) {
            status = cadre_packet_send(host->control, &header, NULL, 0, files, count, false);
            count = 0;
            while (made_count)
                close(made[--made_count]);
        }
    }
    header.message = MESSAGE_RUN;
    atomic_store(&host->shared->crash.stage, CRASH_NONE);
    if (status == 0)
        status = cadre_packet_send(host->control, &header, payload.data, payload.length, files,
                                   count, false);
    while (made_count)
        close(made[--made_count]);
    cadre_buffer_free(&payload);
    /* A host that has just died is no error here: the copy takes over, or a new host starts, and
     * the event that says so ends this cell. */
    bool died = host->state == HOST_DEAD || errno == EPIPE || errno == ECONNRESET;
    if (status < 0 && !(status == CADRE_ESYSTEM && died))
        return cadre_error_set(error, status, "cannot send the cell to the host: %s",
                               strerror(errno));
    host->run = host->last_run;
    host->cell = request->cell;
    host->generation = request->generation;
    host->policy = request->snapshot;
    host->drain_anyway = host->told_stuck = false;
    host->interrupt_deadline = 0;
    return 0;
}

void cadre_host_interrupt(cadre_host *host)
{
    if (!host->run || host->state != HOST_RUNS) return;
    atomic_store(&host->shared->interrupt_run, host->run);
    kill(host->host.pid, SIGCONT); /* a cell may have stopped itself */
    (void)syscall(SYS_tgkill, host->host.pid, host->host.pid, INTERRUPT_SIGNAL);
    if (!host->interrupt_deadline) host->interrupt_deadline = front_now() + INTERRUPT_LIMIT_MS;
    if (host->paused) {
        /* The cell may be waiting for its output to be read; it ends soon. */
        host->drain_anyway = true;
        cadre_host_pause_output(host, true);
    }
}

void cadre_host_pause_output(cadre_host *host, bool pause)
{
    host->paused = pause;
    if (host->shared) atomic_store(&host->shared->paused, pause && !host->drain_anyway);
    bool watched = !pause || host->drain_anyway;
    front_watch(host, host->output, watched);
    front_watch(host, host->error, watched);
    front_watch(host, host->display, watched);
    front_watch(host, host->control, watched);
}

void cadre_host_input(cadre_host *host, const char *line)
{
    struct packet_header header = {.message = MESSAGE_INPUT, .run = host->run};
    cadre_buffer payload = {0};
    if (!host->run) return;
    header.number[0] = line == NULL;
    cadre_field_text(&payload, line);
    (void)cadre_packet_send(host->control, &header, payload.data, payload.length, NULL, 0, false);
    cadre_buffer_free(&payload);
}

/* Asks an idle host and waits for its MEMORY. */
static bool ask(cadre_host *host, const struct packet_header *header, const cadre_buffer *payload,
                void *into, size_t length, int patience)
{
    if (host->run || host->state != HOST_RUNS) return false;
    uint64_t limit = front_now() + (uint64_t)patience;
    host->memory_answered = host->memory_ok = false;
    host->memory_into = into;
    host->memory_length = length;
    if (cadre_packet_send(host->control, header, payload->data, payload->length, NULL, 0, false) <
        0)
        return false;
    while (!host->memory_answered && front_now() < limit && host->state == HOST_RUNS) {
        struct epoll_event event;
        (void)epoll_wait(host->epoll, &event, 1, 10);
        front_pump(host);
    }
    host->memory_into = NULL;
    return host->memory_ok;
}

/* For systems that let nobody read another process's memory. */
static bool read_by_message(cadre_host *host, uint64_t address, void *into, size_t length)
{
    const cadre_buffer nothing = {0};
    const struct packet_header header = {.message = MESSAGE_READ,
                                         .number = {(int64_t)address, (int64_t)length}};
    return ask(host, &header, &nothing, into, length, 1000);
}

uint64_t cadre_host_symbol(cadre_host *host, const char *name)
{
    const struct packet_header header = {.message = MESSAGE_SYMBOL};
    cadre_buffer payload = {0};
    uint64_t address = 0;
    cadre_field_text(&payload, name);
    if (payload.failed || !ask(host, &header, &payload, &address, sizeof address, 100)) address = 0;
    cadre_buffer_free(&payload);
    return address;
}

bool cadre_host_read(void *context, uint64_t address, void *into, size_t length)
{
    cadre_host *host = context;
    struct iovec to = {into, length}, from = {(void *)(uintptr_t)address, length};
    if (length == 0) return true;
    if (host->host.pid <= 0 || address + length < address) return false;
    ssize_t got = process_vm_readv(host->host.pid, &to, 1, &from, 1, 0);
    if (got == (ssize_t)length) return true;
    return got < 0 && errno == EPERM && read_by_message(host, address, into, length);
}
