/* Functions of libc that wait. A cell's call of one is left at once when the user interrupts.
 *
 * The interrupt's signal comes without SA_RESTART and again every millisecond, so a system call
 * that waits returns EINTR and the check after it leaves the cell. What libc restarts by itself,
 * waiting on a futex, is done here in slices, for the main thread; other threads get the real
 * function. The calls hold no lock of libc when the check is made.
 */
#include "host/inside.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SLICE_MS 20

#define WAITS(type, name, parameters, arguments)                                                   \
    static type wait_##name parameters                                                             \
    {                                                                                              \
        type result = name arguments;                                                              \
        LEAVE_IF_WANTED();                                                                         \
        return result;                                                                             \
    }

WAITS(unsigned, sleep, (unsigned seconds), (seconds))
WAITS(int, usleep, (useconds_t time), (time))
WAITS(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
WAITS(int, clock_nanosleep,
      (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left))
WAITS(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))
WAITS(int, pause, (void), ())
WAITS(int, poll, (struct pollfd * files, nfds_t count, int limit), (files, count, limit))
WAITS(int, select,
      (int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit),
      (count, reads, writes, others, limit))
WAITS(int, epoll_wait, (int epoll, struct epoll_event *events, int count, int limit),
      (epoll, events, count, limit))
WAITS(pid_t, wait, (int *status), (status))
WAITS(pid_t, waitpid, (pid_t process, int *status, int options), (process, status, options))
WAITS(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage))
WAITS(pid_t, wait4, (pid_t process, int *status, int options, struct rusage *usage),
      (process, status, options, usage))
WAITS(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
      (type, id, info, options))
WAITS(ssize_t, readv, (int file, const struct iovec *parts, int count), (file, parts, count))
WAITS(int, accept, (int socket, struct sockaddr *address, socklen_t *length),
      (socket, address, length))
WAITS(int, accept4, (int socket, struct sockaddr *address, socklen_t *length, int flags),
      (socket, address, length, flags))
WAITS(int, connect, (int socket, const struct sockaddr *address, socklen_t length),
      (socket, address, length))
WAITS(ssize_t, recv, (int socket, void *into, size_t size, int flags), (socket, into, size, flags))
WAITS(ssize_t, recvfrom,
      (int socket, void *into, size_t size, int flags, struct sockaddr *address, socklen_t *length),
      (socket, into, size, flags, address, length))
WAITS(ssize_t, recvmsg, (int socket, struct msghdr *message, int flags), (socket, message, flags))
WAITS(ssize_t, send, (int socket, const void *bytes, size_t size, int flags),
      (socket, bytes, size, flags))
WAITS(int, flock, (int file, int operation), (file, operation))
WAITS(int, lockf, (int file, int command, off_t length), (file, command, length))
WAITS(int, sem_timedwait, (sem_t * semaphore, const struct timespec *limit), (semaphore, limit))

static bool in_slices(void)
{
    return !cell_host.is_child && on_main_thread();
}

static struct timespec slice(clockid_t clock)
{
    struct timespec limit;
    clock_gettime(clock, &limit);
    limit.tv_nsec += SLICE_MS * 1000000L;
    if (limit.tv_nsec >= 1000000000L) {
        limit.tv_nsec -= 1000000000L;
        limit.tv_sec++;
    }
    return limit;
}

static bool before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static int wait_sem_wait(sem_t *semaphore)
{
    int result = sem_wait(semaphore);
    LEAVE_IF_WANTED();
    return result;
}

static int wait_join(pthread_t thread, void **result)
{
    if (!in_slices()) return pthread_join(thread, result);
    for (;;) {
        struct timespec limit = slice(CLOCK_MONOTONIC);
        int status = pthread_clockjoin_np(thread, result, CLOCK_MONOTONIC, &limit);
        if (status != ETIMEDOUT) return status;
        LEAVE_IF_WANTED();
    }
}

static int wait_thrd_join(thrd_t thread, int *result)
{
    void *value;
    if (!in_slices()) return thrd_join(thread, result);
    int status = wait_join(thread, &value);
    if (result && status == 0) *result = (int)(intptr_t)value;
    return status == 0 ? thrd_success : thrd_error;
}

/* A condition's clock is its own: only an absolute time of that clock is right, which a cell
 * cannot be asked for. Real-time waits fit the default; for others a slice may be long past, which
 * only makes the loop look more often. */
static int wait_cond(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (!in_slices()) return pthread_cond_wait(condition, mutex);
    for (;;) {
        struct timespec limit = slice(CLOCK_MONOTONIC);
        int status = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &limit);
        if (status != ETIMEDOUT) return status;
        if (end_wanted() && interrupt_can_leave(__builtin_frame_address(0))) {
            pthread_mutex_unlock(mutex);
            LEAVE_IF_WANTED();
            pthread_mutex_lock(mutex);
        }
    }
}

static int wait_cond_timed(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    if (!in_slices()) return pthread_cond_timedwait(condition, mutex, until);
    for (;;) {
        struct timespec limit = slice(CLOCK_REALTIME);
        bool last = !before(&limit, until);
        int status = pthread_cond_timedwait(condition, mutex, last ? until : &limit);
        if (status != ETIMEDOUT || last) return status;
        if (end_wanted() && interrupt_can_leave(__builtin_frame_address(0))) {
            pthread_mutex_unlock(mutex);
            LEAVE_IF_WANTED();
            pthread_mutex_lock(mutex);
        }
    }
}

static int wait_mutex(pthread_mutex_t *mutex)
{
    if (!in_slices()) return pthread_mutex_lock(mutex);
    int status = pthread_mutex_trylock(mutex);
    while (status == EBUSY || status == ETIMEDOUT) {
        struct timespec limit = slice(CLOCK_MONOTONIC);
        status = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &limit);
        if (status == ETIMEDOUT) LEAVE_IF_WANTED();
    }
    return status;
}

static int wait_read_lock(pthread_rwlock_t *lock)
{
    if (!in_slices()) return pthread_rwlock_rdlock(lock);
    int status = pthread_rwlock_tryrdlock(lock);
    while (status == EBUSY || status == ETIMEDOUT) {
        struct timespec limit = slice(CLOCK_MONOTONIC);
        status = pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &limit);
        if (status == ETIMEDOUT) LEAVE_IF_WANTED();
    }
    return status;
}

static int wait_write_lock(pthread_rwlock_t *lock)
{
    if (!in_slices()) return pthread_rwlock_wrlock(lock);
    int status = pthread_rwlock_trywrlock(lock);
    while (status == EBUSY || status == ETIMEDOUT) {
        struct timespec limit = slice(CLOCK_MONOTONIC);
        status = pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &limit);
        if (status == ETIMEDOUT) LEAVE_IF_WANTED();
    }
    return status;
}

static int wait_cnd(cnd_t *condition, mtx_t *mutex)
{
    int status = wait_cond((pthread_cond_t *)condition, (pthread_mutex_t *)mutex);
    return status == 0 ? thrd_success : thrd_error;
}

static int wait_mtx(mtx_t *mutex)
{
    return wait_mutex((pthread_mutex_t *)mutex) == 0 ? thrd_success : thrd_error;
}

void waits_install(void)
{
#define ROW(name)                                                                                  \
    {                                                                                              \
#name, (void *)wait_##name                                                                 \
    }
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        ROW(sleep),
        ROW(usleep),
        ROW(nanosleep),
        ROW(clock_nanosleep),
        ROW(thrd_sleep),
        ROW(pause),
        ROW(poll),
        ROW(select),
        ROW(epoll_wait),
        ROW(wait),
        ROW(waitpid),
        ROW(wait3),
        ROW(wait4),
        ROW(waitid),
        ROW(readv),
        ROW(accept),
        ROW(accept4),
        ROW(connect),
        ROW(recv),
        ROW(recvfrom),
        ROW(recvmsg),
        ROW(send),
        ROW(flock),
        ROW(lockf),
        ROW(sem_wait),
        ROW(sem_timedwait),
        ROW(thrd_join),
        {"pthread_join", (void *)wait_join},
        {"pthread_cond_wait", (void *)wait_cond},
        {"pthread_cond_timedwait", (void *)wait_cond_timed},
        {"pthread_mutex_lock", (void *)wait_mutex},
        {"pthread_rwlock_rdlock", (void *)wait_read_lock},
        {"pthread_rwlock_wrlock", (void *)wait_write_lock},
        {"cnd_wait", (void *)wait_cnd},
        {"mtx_lock", (void *)wait_mtx},
    };
#undef ROW
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        host_override(table[i].name, table[i].function);
}
