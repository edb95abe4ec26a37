/* What cells print: stdout and stderr as streams over descriptors 1 and 2, which are pipes to the
 * front.
 *
 * Both are cookie streams, so that every write passes here: before one stream writes, what the
 * other has written must have been read by the front; that keeps the order of what one thread
 * prints on both. stdout is fully buffered, for speed, and written out by a thread of ours every
 * TICK_MS, so that output is live.
 */
#include "host/inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 15
#define IDLE_TICK_MS 60
#define DRAIN_LIMIT_MS 1000

/* libc's list of open streams and its lock, exported for such uses; no header declares them. The
 * list is looked up at run time: a direct reference would make the linker put a copy of the
 * variable here, which libc does not use. */
static FILE **all_streams;
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

static char out_buffer[64 << 10];
static pthread_mutex_t ticker_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t ticker_running; /* futex: the ticker sleeps while it is 0 */
/* Who writes out what the stream holds, of those who do not both have its lock. */
enum { FLUSHER_NONE, FLUSHER_TICKER, FLUSHER_CRASH };
static _Atomic int flusher;
/* The stream's bytes may still lie unread in its pipe. Set by who writes, cleared by who saw the
 * pipe empty; a stale 1 costs one look. */
static _Atomic int unread[2];

static void sleep_us(long microseconds)
{
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

/* Waits until the front has read what the other stream wrote. */
static void wait_until_read(int stream)
{
    int file = stream == 0 ? cell_host.saved_output : cell_host.saved_error;
    if (cell_host.is_child || !atomic_load_explicit(&unread[stream], memory_order_relaxed)) return;
    long waited = 0, step = 20;
    for (int left = 0; ioctl(file, FIONREAD, &left) == 0 && left > 0;) {
        if (waited > DRAIN_LIMIT_MS * 1000 && !atomic_load(&cell_host.shared->paused)) break;
        if (end_wanted()) break;
        sleep_us(step);
        waited += step;
        if (step < 500) step += 20;
    }
    atomic_store_explicit(&unread[stream], 0, memory_order_relaxed);
}

static ssize_t write_all(int file, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t written = write(file, bytes + done, length - done);
        if (written > 0)
            done += (size_t)written;
        else if (errno != EINTR && errno != EAGAIN)
            return done ? (ssize_t)done : 0;
        else if (errno == EAGAIN) /* a child made the pipe non-blocking */
            sleep_us(1000);
    }
    return (ssize_t)done;
}

static ssize_t write_output(void *cookie, const char *bytes, size_t length)
{
    (void)cookie;
    wait_until_read(1);
    atomic_store_explicit(&unread[0], 1, memory_order_relaxed);
    return write_all(STDOUT_FILENO, bytes, length);
}

/* The streams' fields are glibc's, and public; __fpending would do but for the crash handler,
 * which wants the bytes too. */
static bool has_pending(FILE *stream)
{
    return stream->_IO_write_ptr > stream->_IO_write_base;
}

static bool flush_if_free(FILE *stream)
{
    if (ftrylockfile(stream) != 0) return false;
    if (has_pending(stream)) fflush_unlocked(stream);
    funlockfile(stream);
    return true;
}

static ssize_t write_error(void *cookie, const char *bytes, size_t length)
{
    (void)cookie;
    flush_if_free(cell_host.out);
    wait_until_read(0);
    atomic_store_explicit(&unread[1], 1, memory_order_relaxed);
    return write_all(STDERR_FILENO, bytes, length);
}

void streams_before_raw_write(int file)
{
    if (file != STDOUT_FILENO && file != STDERR_FILENO) return;
    flush_if_free(cell_host.out);
    wait_until_read(file == STDOUT_FILENO);
    atomic_store_explicit(&unread[file == STDERR_FILENO], 1, memory_order_relaxed);
}

void streams_flush(void)
{
    for (int i = 0; i < 50 && !flush_if_free(cell_host.out); i++)
        sleep_us(1000);
    flush_if_free(cell_host.err); /* unbuffered, unless a cell has set a buffer */
}

void streams_flush_files(void)
{
    _IO_list_lock();
    for (FILE *stream = all_streams ? *all_streams : NULL; stream; stream = stream->_chain)
        if (has_pending(stream)) flush_if_free(stream);
    _IO_list_unlock();
    if (!all_streams) streams_flush();
}

bool streams_lock(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += 1;
    if (pthread_mutex_clocklock(&ticker_lock, CLOCK_MONOTONIC, &limit) != 0) return false;
    _IO_list_lock();
    return true;
}

void streams_unlock(void)
{
    _IO_list_unlock();
    pthread_mutex_unlock(&ticker_lock);
}

/* In the handler of a fatal signal: no locks, and the stream may be half changed. write() refuses
 * a bad address instead of crashing. */
void streams_flush_from_crash(void)
{
    const FILE *out = cell_host.out;
    /* The ticker writes the same bytes, or they and no others: whoever claims them first. Only one
     * that is stuck in its write, or has crashed itself, is not waited for any longer. */
    int other = FLUSHER_NONE;
    for (int i = 0; i < 200 && !atomic_compare_exchange_strong(&flusher, &other, FLUSHER_CRASH);
         i++) {
        if (other == FLUSHER_CRASH) return; /* of another thread */
        other = FLUSHER_NONE;
        sleep_us(1000);
    }
    if (!out || out->_IO_write_ptr <= out->_IO_write_base) return;
    size_t length = (size_t)(out->_IO_write_ptr - out->_IO_write_base);
    if (length > (16u << 20)) return;
    if (write(STDOUT_FILENO, out->_IO_write_base, length) < 0) { /* nothing to be done */
    }
}

/* ---- the ticker */

/* The main thread ended by the system call, past every function of ours: the rest of the process
 * would live on with nobody to run cells and nobody to see that. */
static void end_without_main_thread(void)
{
    streams_flush();
    atomic_store(&cell_host.shared->process_end, END_MAIN_THREAD);
    syscall(SYS_exit_group, 0);
}

static void *ticker(void *nothing)
{
    for (;;) {
        /* In this order: the last thread may have printed and ended since the last look. */
        if (!atomic_load(&ticker_running) && threads_alive() == 0 && !has_pending(cell_host.out) &&
            !has_pending(cell_host.err)) {
            syscall(SYS_futex, &ticker_running, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
            continue;
        }
        sleep_us((atomic_load(&ticker_running) ? TICK_MS : IDLE_TICK_MS) * 1000L);
        if (snapshot_main_thread_ended()) end_without_main_thread();
        if (!has_pending(cell_host.out) && !has_pending(cell_host.err)) continue;
        pthread_mutex_lock(&ticker_lock);
        if (ftrylockfile(cell_host.out) == 0) {
            int nobody = FLUSHER_NONE;
            if (atomic_compare_exchange_strong(&flusher, &nobody, FLUSHER_TICKER)) {
                if (has_pending(cell_host.out)) fflush_unlocked(cell_host.out);
                atomic_store(&flusher, FLUSHER_NONE);
            }
            funlockfile(cell_host.out);
        }
        if (has_pending(cell_host.err)) flush_if_free(cell_host.err);
        pthread_mutex_unlock(&ticker_lock);
    }
    return nothing;
}

void streams_start_process(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&ticker_running, 0);
    atomic_store(&flusher, FLUSHER_NONE);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, ticker, NULL) != 0)
        host_note("no thread for live output: what cells print appears when they end");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A cell may have closed descriptor 1 or 2. */
static void repair(int file, int saved)
{
    if (fcntl(file, F_GETFD) < 0 && errno == EBADF) dup2(saved, file);
}

void streams_cell(bool running)
{
    repair(STDOUT_FILENO, cell_host.saved_output);
    repair(STDERR_FILENO, cell_host.saved_error);
    if (running) {
        clearerr(cell_host.out);
        clearerr(cell_host.err);
    }
    atomic_store(&ticker_running, running);
    if (running) syscall(SYS_futex, &ticker_running, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A forked child has no ticker: whole lines are its measure of live. */
void streams_in_child(void)
{
    pthread_mutex_init(&ticker_lock, NULL);
    setvbuf(cell_host.out, NULL, _IOLBF, 0);
}

void streams_finish_child(void)
{
    streams_flush_files();
}

/* ---- what cells get instead of libc's */

static int stream_fileno(FILE *stream)
{
    if (stream == cell_host.out) return STDOUT_FILENO;
    if (stream == cell_host.err) return STDERR_FILENO;
    if (stream == cell_host.in) return STDIN_FILENO;
    return fileno(stream);
}

static bool is_standard(const FILE *stream)
{
    return stream && (stream == cell_host.out || stream == cell_host.err || stream == cell_host.in);
}

/* Closing a standard stream would leave the next cell without. */
static int stream_fclose(FILE *stream)
{
    return is_standard(stream) ? fflush(stream) : fclose(stream);
}

static int mode_flags(const char *mode)
{
    bool plus = strchr(mode, '+') != NULL;
    switch (*mode) {
    case 'r': return plus ? O_RDWR : O_RDONLY;
    case 'w': return (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC;
    case 'a': return (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    default: return -1;
    }
}

/* glibc cannot reopen a cookie stream; ours writes to its descriptor, so that is replaced. */
static FILE *stream_freopen(const char *path, const char *mode, FILE *stream)
{
    if (!is_standard(stream)) return freopen(path, mode, stream);
    int flags = mode_flags(mode), target = stream_fileno(stream);
    fflush(stream);
    if (!path) return stream;
    int file = flags < 0 ? -1 : open(path, flags | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    int status = dup2(file, target);
    if (file != target) close(file);
    return status < 0 ? NULL : stream;
}

static ssize_t raw_write(int file, const void *bytes, size_t length)
{
    streams_before_raw_write(file);
    ssize_t written = write(file, bytes, length);
    LEAVE_IF_WANTED();
    return written;
}

static FILE *stream_over(FILE **standard, cookie_write_function_t *writer)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = writer});
    if (stream) *standard = stream;
    return stream;
}

int streams_install(void)
{
    all_streams = dlsym(RTLD_DEFAULT, "_IO_list_all");
    cell_host.out = stream_over(&stdout, write_output);
    cell_host.err = stream_over(&stderr, write_error);
    if (!cell_host.out || !cell_host.err) return CADRE_EMEMORY;
    setvbuf(cell_host.out, out_buffer, _IOFBF, sizeof out_buffer);
    setvbuf(cell_host.err, NULL, _IONBF, 0);
    host_override("fileno", (void *)stream_fileno);
    host_override("fileno_unlocked", (void *)stream_fileno);
    host_override("fclose", (void *)stream_fclose);
    host_override("freopen", (void *)stream_freopen);
    host_override("freopen64", (void *)stream_freopen);
    host_override("write", (void *)raw_write);
    return 0;
}
