/* The copy of this process that waits, and its taking over.
 *
 * The copy is made by a raw clone with CLONE_PARENT: it is a child of the front, not of the host,
 * so that cells never wait for it and it outlives the host. fork() cannot do that, and would run
 * atfork handlers that cost OpenBLAS its threads. What fork() does besides for libc is done here:
 * the thread id that libc remembers, the list of robust mutexes, locks of stdio at rest.
 */
#include "host/inside.h"
#include "host/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* A copy that costs more than this is kept over several cells ... */
#define COSTLY_MS 50.0
/* ... until they have run this many times its cost. */
#define RENEW_FACTOR 20.0
/* When threads of cells run, a copy may be made at a bad moment: it is tried again. */
#define ATTEMPTS 8
#define ANSWER_MS 40
/* A process smaller than this is copied without a look at what memory is left. */
#define SMALL_BYTES ((uint64_t)64 << 20)
#define DROP_LIMIT_MS 500
#define COPY_ON_WRITE_MS 0.004 /* one page; measured, 3 to 5 microseconds */

struct offset {
    int file;
    off_t at;
};

static struct {
    pid_t copy;
    int socket; /* to the copy: one byte ends it */
    double cost_ms, ran_ms;
    double cell_started_ms;
    long faults_at_start, pages_at_start;
    size_t thread_id_offset; /* of libc's copy of the thread id, from pthread_self(); 0: unknown */
    struct offset *offsets;
    size_t offset_count, offset_capacity;
    int sockets;
    int locks; /* of fcntl: they belong to the process and end with it */
    bool told_refused;
    char oom_score[16];
} snapshot = {.socket = -1};

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Pages in memory now, of /proc/self/statm; files and shared memory do not count. */
static long resident_pages(void)
{
    char text[128];
    long size = 0, resident = 0, shared = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return 0;
    text[got] = 0;
    char *at = text;
    size = strtol(at, &at, 10);
    resident = strtol(at, &at, 10);
    shared = strtol(at, &at, 10);
    return size ? resident - shared : 0;
}

static long minor_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : 0;
}

static void *probe_thread_id(void *argument)
{
    pid_t expected = (pid_t)syscall(SYS_gettid), found;
    memcpy(&found, (char *)pthread_self() + *(size_t *)argument, sizeof found);
    return found == expected ? argument : NULL;
}

/* Where libc keeps the thread id: searched, then checked in a second thread. */
static void find_thread_id(void)
{
    const char *self = (const char *)pthread_self();
    pid_t expected = (pid_t)syscall(SYS_gettid);
    for (size_t at = 16; at < 1024; at += sizeof expected) {
        if (memcmp(self + at, &expected, sizeof expected) != 0) continue;
        pthread_t thread;
        void *same = NULL;
        if (pthread_create(&thread, NULL, probe_thread_id, &at) == 0) pthread_join(thread, &same);
        if (same) {
            snapshot.thread_id_offset = at;
            return;
        }
    }
}

static void set_oom_score(const char *score)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, score, strlen(score)) < 0) { /* not allowed: the default stays */
    }
    close(file);
}

/* When memory runs out, the host shall be killed before its copy and before the front. */
static void prefer_host_to_be_killed(void)
{
    int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, snapshot.oom_score, sizeof snapshot.oom_score - 1);
    if (file >= 0) close(file);
    if (got <= 0) return;
    snapshot.oom_score[got] = 0;
    long score = strtol(snapshot.oom_score, NULL, 10);
    char text[32];
    snprintf(text, sizeof text, "%ld", score > 700 ? 1000 : score + 300);
    set_oom_score(text);
}

static void open_pidfd(void)
{
    host_close_file(cell_host.pidfd);
    int file = (int)syscall(SYS_pidfd_open, getpid(), 0);
    cell_host.pidfd = file < 0 ? -1 : host_protect_file(file);
    if (file >= 0) close(file);
}

void snapshot_prepare(void)
{
    find_thread_id();
    prefer_host_to_be_killed();
    open_pidfd();
}

/* The kernel sets libc's copy of a thread's id to 0 when the thread has ended. */
bool snapshot_main_thread_ended(void)
{
    if (!snapshot.thread_id_offset) return false;
    const _Atomic pid_t *id =
        (const _Atomic pid_t *)((char *)cell_host.main_thread + snapshot.thread_id_offset);
    return atomic_load(id) == 0;
}

bool snapshot_exists(void)
{
    return snapshot.copy > 0;
}

static void tell_front(void)
{
    int64_t numbers[3] = {snapshot.copy, (int64_t)cell_host.generation,
                          (int64_t)(snapshot.cost_ms * 1e3)};
    host_send(MESSAGE_SNAPSHOT, numbers, 3, NULL);
}

/* Lines of /proc/self/fdinfo: "lock:\t1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF". /proc/locks
 * has them too, but takes 14 ms to read: it stops every processor's locks. */
static int count_locks(int file)
{
    char path[48], line[256], kind[16];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
    FILE *info = fopen(path, "re");
    while (info && fgets(line, sizeof line, info))
        count += sscanf(line, "lock: %*s %15s", kind) == 1 && strcmp(kind, "POSIX") == 0;
    if (info) fclose(info);
    return count;
}

/* Where the cells' own files stand. The copy shares them with the host, so it puts them back. */
static void remember_offsets(void)
{
    snapshot.offset_count = 0;
    snapshot.sockets = 0;
    snapshot.locks = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int file = (int)strtol(entry->d_name, NULL, 10);
        if (file < 3 || file == dirfd(folder) || host_is_own_file(file)) continue;
        off_t at = lseek(file, 0, SEEK_CUR);
        struct stat about;
        if (at < 0) {
            if (fstat(file, &about) == 0 && S_ISSOCK(about.st_mode)) snapshot.sockets++;
            continue;
        }
        if (snapshot.offset_count == snapshot.offset_capacity) {
            size_t capacity = snapshot.offset_capacity ? 2 * snapshot.offset_capacity : 16;
            struct offset *grown = realloc(snapshot.offsets, capacity * sizeof *grown);
            if (!grown) break;
            snapshot.offsets = grown;
            snapshot.offset_capacity = capacity;
        }
        snapshot.offsets[snapshot.offset_count++] = (struct offset){file, at};
        snapshot.locks += count_locks(file);
    }
    closedir(folder);
}

/* ---- in the copy */

static void copy_waits(int host_pidfd)
{
    sigset_t mask;
    char byte;
    struct pollfd files[2] = {{host_pidfd, POLLIN, 0}, {snapshot.socket, POLLIN, 0}};
    sigfillset(&mask);
    sigdelset(&mask, cell_host.parent_death_signal);
    for (;;) {
        int ready = ppoll(files, 2, NULL, &mask);
        if (ready < 0) {
            if (errno == EINTR) continue;
            syscall(SYS_exit_group, 0);
        }
        /* The byte first: a host that died just after it has made a newer copy. */
        if (recv(snapshot.socket, &byte, 1, MSG_DONTWAIT) == 1) syscall(SYS_exit_group, 0);
        if (files[0].revents & POLLIN) return;
        if (files[0].revents) syscall(SYS_exit_group, 0);
        /* The host closed its end without a word: exec, or its end is near. */
        if (files[1].revents & (POLLHUP | POLLERR | POLLIN)) files[1].fd = -1;
    }
}

/* The host is dead: this process is the host now. */
static void take_over(const sigset_t *mask)
{
    int lost_threads = threads_alive();
    host_close_file(snapshot.socket);
    snapshot.socket = -1;
    snapshot.copy = 0;
    snapshot.ran_ms = 0;
    cell_host.self = getpid();
    cell_host.main_tid = cell_host.self;
    cell_host.in_cell = 0;
    atomic_store(&cell_host.run, 0);
    for (size_t i = 0; i < snapshot.offset_count; i++)
        (void)lseek(snapshot.offsets[i].file, snapshot.offsets[i].at, SEEK_SET);
    atomic_store(&cell_host.shared->lost_threads, lost_threads);
    atomic_store(&cell_host.shared->lost_sockets, snapshot.sockets);
    atomic_store(&cell_host.shared->lost_locks, snapshot.locks);
    open_pidfd();
    prefer_host_to_be_killed();
    threads_start_process();
    interrupt_start_process();
    input_start_process();
    libraries_after_takeover();
    streams_start_process();
    pthread_sigmask(SIG_SETMASK, mask, NULL);

    struct packet_header header = {.message = MESSAGE_TAKEOVER,
                                   .number = {cell_host.self, (int64_t)cell_host.generation}};
    (void)cadre_packet_send(cell_host.control, &header, NULL, 0, NULL, 0, true);
}

static pid_t clone_sibling(void)
{
    unsigned long flags = CLONE_PARENT | SIGCHLD;
    void *thread_id = NULL;
    if (snapshot.thread_id_offset) {
        thread_id = (char *)pthread_self() + snapshot.thread_id_offset;
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    }
    return (pid_t)syscall(SYS_clone, flags, 0, NULL, thread_id, 0);
}

static enum snapshot_result refused(const char *why)
{
    if (!snapshot.told_refused)
        host_note("no snapshot: %s. Cells run all the same, but one that crashes now loses the "
                  "state of the session.",
                  why);
    snapshot.told_refused = true;
    return SNAPSHOT_NONE;
}

/* In the copy. A thread of the cells may have held the lock of malloc or of a stream when the
 * copy was made; here nobody would ever release it. If this returns, none did. */
static void try_locks(void)
{
    /* Too large for the thread's own cache: this asks the heap itself. */
    void *large = malloc(70000);
    free(large);
    flockfile(cell_host.out);
    funlockfile(cell_host.out);
    flockfile(cell_host.err);
    funlockfile(cell_host.err);
    (void)send(snapshot.socket, "R", 1, MSG_NOSIGNAL);
}

/* In the host: has the copy said that it can go on? */
static bool copy_answers(int socket)
{
    struct pollfd file = {socket, POLLIN, 0};
    char byte;
    for (int i = 0; i < ANSWER_MS; i++)
        if (poll(&file, 1, 1) > 0) return recv(socket, &byte, 1, MSG_DONTWAIT) == 1;
    return false;
}

static enum snapshot_result take_once(bool check, int *failure)
{
    int sockets[2];
    sigset_t all, mask;
    void *robust_list = NULL;
    size_t robust_length = 0;
    *failure = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        *failure = errno;
        return SNAPSHOT_NONE;
    }
    if (!streams_lock()) { /* a thread holds the streams; the older copy stays */
        close(sockets[0]);
        close(sockets[1]);
        return SNAPSHOT_NONE;
    }
    snapshot_drop();
    syscall(SYS_get_robust_list, 0, &robust_list, &robust_length);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pid_t pid = clone_sibling();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, cell_host.parent_death_signal);
        if (getppid() != cell_host.front) syscall(SYS_exit_group, 0);
        if (robust_list) syscall(SYS_set_robust_list, robust_list, robust_length);
        set_oom_score(snapshot.oom_score);
        close(sockets[0]);
        snapshot.socket = sockets[1];
        streams_unlock();
        if (check) try_locks();
        copy_waits(cell_host.pidfd);
        take_over(&mask);
        return SNAPSHOT_TOOK_OVER;
    }
    *failure = pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    streams_unlock();
    close(sockets[1]);
    if (pid > 0) {
        snapshot.copy = pid;
        snapshot.socket = host_protect_file(sockets[0]);
    }
    close(sockets[0]);
    if (pid < 0) return SNAPSHOT_NONE;
    if (!check || copy_answers(snapshot.socket)) return SNAPSHOT_MADE;
    tell_front(); /* who reaps it */
    kill(pid, SIGKILL);
    snapshot_drop();
    return SNAPSHOT_NONE;
}

/* Ends the copy and waits until its memory is free: a process's memory goes before its files. */
static void drop_and_wait(void)
{
    struct pollfd file = {.fd = dup(snapshot.socket)};
    snapshot_drop();
    if (file.fd < 0) return;
    (void)poll(&file, 1, DROP_LIMIT_MS);
    close(file.fd);
}

/* When both must have their own of every page, the system would kill one of them, or both. */
static bool memory_suffices(char *why, size_t size)
{
    uint64_t own = (uint64_t)resident_pages() * (uint64_t)sysconf(_SC_PAGESIZE);
    memory_state state;
    if (own < SMALL_BYTES) return true;
    front_memory_state("", &state);
    if (front_memory_has_room(&state, own, why, size)) return true;
    if (snapshot.copy <= 0) return false;
    drop_and_wait(); /* what the older copy holds alone is room for the new one */
    front_memory_state("", &state);
    return front_memory_has_room(&state, own, why, size);
}

enum snapshot_result snapshot_take(void)
{
    double started = now_ms();
    int failure = 0;
    enum snapshot_result result = SNAPSHOT_NONE;
    if (cell_host.pidfd < 0) return refused("the system has no pidfd");
    char why[300];
    if (cell_host.policy == CADRE_SNAPSHOT_AUTO && !memory_suffices(why, sizeof why))
        return refused(why);
    streams_flush_files();
    libraries_before_copy();
    remember_offsets();
    bool check = threads_alive() > 0;
    for (int i = 0; i < (check ? ATTEMPTS : 1) && result == SNAPSHOT_NONE && !failure; i++)
        result = take_once(check, &failure);
    if (result == SNAPSHOT_TOOK_OVER) return result;
    if (failure)
        return refused(failure == ENOMEM   ? "not enough memory for a copy of the process"
                       : failure == EAGAIN ? "the limit of processes is reached"
                                           : strerror(failure));
    if (result != SNAPSHOT_MADE)
        return snapshot.copy > 0 ? SNAPSHOT_MADE
                                 : refused("threads of the cells hold locks of the C library");
    snapshot.told_refused = false;
    snapshot.ran_ms = 0;
    snapshot.faults_at_start = minor_faults();
    snapshot.pages_at_start = resident_pages();
    snapshot.cost_ms = now_ms() - started;
    tell_front();
    return SNAPSHOT_MADE;
}

void snapshot_drop(void)
{
    if (snapshot.copy <= 0) return;
    (void)send(snapshot.socket, "E", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    host_close_file(snapshot.socket);
    snapshot.socket = -1;
    snapshot.copy = 0;
    tell_front();
}

void snapshot_cell_started(void)
{
    snapshot.cell_started_ms = now_ms();
}

/* What the copy has cost so far: making it, and the pages that were written since. A fault that
 * made the process larger was no copy. */
static double cost_so_far(void)
{
    long faults = minor_faults() - snapshot.faults_at_start;
    long grown = resident_pages() - snapshot.pages_at_start;
    long copied = faults - (grown > 0 ? grown : 0);
    return snapshot.cost_ms + (copied > 0 ? (double)copied * COPY_ON_WRITE_MS : 0);
}

enum snapshot_result snapshot_after_cell(cadre_snapshot_policy policy)
{
    if (policy == CADRE_SNAPSHOT_NEVER) return SNAPSHOT_NONE;
    snapshot.ran_ms += now_ms() - snapshot.cell_started_ms;
    if (policy == CADRE_SNAPSHOT_AUTO && snapshot.copy > 0) {
        double cost = cost_so_far();
        if (cost > COSTLY_MS && snapshot.ran_ms < RENEW_FACTOR * cost) return SNAPSHOT_MADE;
    }
    return snapshot_take();
}

/* A forked child of a cell must not keep a copy alive or end one. */
void snapshot_forget_in_child(void)
{
    if (snapshot.socket >= 0) close(snapshot.socket);
    snapshot.socket = -1;
    snapshot.copy = 0;
}
