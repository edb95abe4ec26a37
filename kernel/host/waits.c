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
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
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
WAITS(int, sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *limit),
      (semaphore, clock, limit))
WAITS(int, msgsnd, (int queue, const void *message, size_t size, int flags),
      (queue, message, size, flags))
WAITS(ssize_t, msgrcv, (int queue, void *message, size_t size, long type, int flags),
      (queue, message, size, type, flags))
WAITS(int, semop, (int set, struct sembuf *operations, size_t count), (set, operations, count))
WAITS(int, semtimedop,
      (int set, struct sembuf *operations, size_t count, const struct timespec *limit),
      (set, operations, count, limit))
WAITS(ssize_t, sendto,
      (int socket, const void *bytes, size_t size, int flags, const struct sockaddr *address,
       socklen_t length),
      (socket, bytes, size, flags, address, length))
WAITS(ssize_t, sendmsg, (int socket, const struct msghdr *message, int flags),
      (socket, message, flags))
WAITS(ssize_t, getrandom, (void *into, size_t size, unsigned flags), (into, size, flags))
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

/* Times that cannot be cut into slices are left to libc: it refuses them, or has them at once. */
static bool can_slice(clockid_t clock, const struct timespec *until)
{
    return in_slices() && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && until &&
           until->tv_nsec >= 0 && until->tv_nsec < 1000000000L;
}

/* The next time to look up: *limit. True: it is the caller's own. */
static bool next_slice(clockid_t clock, const struct timespec *until, struct timespec *limit)
{
    *limit = slice(clock);
    if (before(limit, until)) return false;
    *limit = *until;
    return true;
}

/* `frame` is that of the function that the cell has called. */
static void leave_if_wanted(void *frame)
{
    if (__builtin_expect(end_wanted(), 0)) interrupt_check(frame);
}

static const struct timespec never = {.tv_sec = (time_t)1 << 40};

/* A wait of libc for one object, until a time of a clock, in slices: for every object alike. */
#define SLICED(name, object, clocked)                                                              \
    static int name(object *it, clockid_t clock, const struct timespec *until, void *frame)        \
    {                                                                                              \
        if (!can_slice(clock, until)) return clocked(it, clock, until);                            \
        for (;;) {                                                                                 \
            struct timespec limit;                                                                 \
            bool last = next_slice(clock, until, &limit);                                          \
            int status = clocked(it, clock, &limit);                                               \
            if (status != ETIMEDOUT || last) return status;                                        \
            leave_if_wanted(frame);                                                                \
        }                                                                                          \
    }

#define FRAME __builtin_frame_address(0)

SLICED(mutex_until, pthread_mutex_t, pthread_mutex_clocklock)
SLICED(read_until, pthread_rwlock_t, pthread_rwlock_clockrdlock)
SLICED(write_until, pthread_rwlock_t, pthread_rwlock_clockwrlock)

static int join_until(pthread_t thread, void **result, clockid_t clock,
                      const struct timespec *until, void *frame)
{
    if (!can_slice(clock, until)) return pthread_clockjoin_np(thread, result, clock, until);
    for (;;) {
        struct timespec limit;
        bool last = next_slice(clock, until, &limit);
        int status = pthread_clockjoin_np(thread, result, clock, &limit);
        if (status != ETIMEDOUT || last) return status;
        leave_if_wanted(frame);
    }
}

static int wait_join(pthread_t thread, void **result)
{
    if (!in_slices()) return pthread_join(thread, result);
    return join_until(thread, result, CLOCK_MONOTONIC, &never, FRAME);
}

static int wait_join_timed(pthread_t thread, void **result, const struct timespec *until)
{
    if (!until) return wait_join(thread, result);
    return join_until(thread, result, CLOCK_REALTIME, until, FRAME);
}

static int wait_join_clock(pthread_t thread, void **result, clockid_t clock,
                           const struct timespec *until)
{
    return join_until(thread, result, clock, until, FRAME);
}

static int wait_thrd_join(thrd_t thread, int *result)
{
    void *value;
    if (!in_slices()) return thrd_join(thread, result);
    int status = join_until(thread, &value, CLOCK_MONOTONIC, &never, FRAME);
    if (result && status == 0) *result = (int)(intptr_t)value;
    return status == 0 ? thrd_success : thrd_error;
}

/* glibc's clock for one wait need not be the condition's own. The mutex is held between slices, as
 * it would be after a wait that ended: it is given back before the cell is left. */
static int cond_until(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                      const struct timespec *until, void *frame)
{
    if (!can_slice(clock, until)) return pthread_cond_clockwait(condition, mutex, clock, until);
    for (;;) {
        struct timespec limit;
        bool last = next_slice(clock, until, &limit);
        int status = pthread_cond_clockwait(condition, mutex, clock, &limit);
        if (status != ETIMEDOUT || last) return status;
        if (end_wanted() && interrupt_can_leave(frame)) {
            pthread_mutex_unlock(mutex);
            leave_if_wanted(frame);
            pthread_mutex_lock(mutex);
        }
    }
}

static int wait_cond(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (!in_slices()) return pthread_cond_wait(condition, mutex);
    return cond_until(condition, mutex, CLOCK_MONOTONIC, &never, FRAME);
}

/* Here the time is of the condition's own clock, which cannot be asked for: the slices' times are,
 * too. When that clock is not the assumed one they may be long past, and the loop looks more
 * often. */
static int wait_cond_timed(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    if (!can_slice(CLOCK_REALTIME, until)) return pthread_cond_timedwait(condition, mutex, until);
    for (;;) {
        struct timespec limit;
        bool last = next_slice(CLOCK_REALTIME, until, &limit);
        int status = pthread_cond_timedwait(condition, mutex, &limit);
        if (status != ETIMEDOUT || last) return status;
        if (end_wanted() && interrupt_can_leave(FRAME)) {
            pthread_mutex_unlock(mutex);
            leave_if_wanted(FRAME);
            pthread_mutex_lock(mutex);
        }
    }
}

static int wait_cond_clock(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    return cond_until(condition, mutex, clock, until, FRAME);
}

static int wait_mutex(pthread_mutex_t *mutex)
{
    if (!in_slices()) return pthread_mutex_lock(mutex);
    int status = pthread_mutex_trylock(mutex);
    return status == EBUSY ? mutex_until(mutex, CLOCK_MONOTONIC, &never, FRAME) : status;
}

static int wait_mutex_timed(pthread_mutex_t *mutex, const struct timespec *until)
{
    return mutex_until(mutex, CLOCK_REALTIME, until, FRAME);
}

static int wait_mutex_clock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    return mutex_until(mutex, clock, until, FRAME);
}

static int wait_read_lock(pthread_rwlock_t *lock)
{
    if (!in_slices()) return pthread_rwlock_rdlock(lock);
    int status = pthread_rwlock_tryrdlock(lock);
    return status == EBUSY ? read_until(lock, CLOCK_MONOTONIC, &never, FRAME) : status;
}

static int wait_read_lock_timed(pthread_rwlock_t *lock, const struct timespec *until)
{
    return read_until(lock, CLOCK_REALTIME, until, FRAME);
}

static int wait_read_lock_clock(pthread_rwlock_t *lock, clockid_t clock,
                                const struct timespec *until)
{
    return read_until(lock, clock, until, FRAME);
}

static int wait_write_lock(pthread_rwlock_t *lock)
{
    if (!in_slices()) return pthread_rwlock_wrlock(lock);
    int status = pthread_rwlock_trywrlock(lock);
    return status == EBUSY ? write_until(lock, CLOCK_MONOTONIC, &never, FRAME) : status;
}

static int wait_write_lock_timed(pthread_rwlock_t *lock, const struct timespec *until)
{
    return write_until(lock, CLOCK_REALTIME, until, FRAME);
}

static int wait_write_lock_clock(pthread_rwlock_t *lock, clockid_t clock,
                                 const struct timespec *until)
{
    return write_until(lock, clock, until, FRAME);
}

/* What the functions of threads.h give. */
static int c11_status(int status)
{
    return status == 0 ? thrd_success : status == ETIMEDOUT ? thrd_timedout : thrd_error;
}

static int wait_cnd(cnd_t *condition, mtx_t *mutex)
{
    if (!in_slices())
        return c11_status(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
    return c11_status(cond_until((pthread_cond_t *)condition, (pthread_mutex_t *)mutex,
                                 CLOCK_MONOTONIC, &never, FRAME));
}

static int wait_cnd_timed(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    if (!in_slices())
        return c11_status(
            pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until));
    return c11_status(cond_until((pthread_cond_t *)condition, (pthread_mutex_t *)mutex,
                                 CLOCK_REALTIME, until, FRAME));
}

static int wait_mtx(mtx_t *mutex)
{
    if (!in_slices()) return mtx_lock(mutex);
    return c11_status(mutex_until((pthread_mutex_t *)mutex, CLOCK_MONOTONIC, &never, FRAME));
}

static int wait_mtx_timed(mtx_t *mutex, const struct timespec *until)
{
    if (!in_slices()) return mtx_timedlock(mutex, until);
    return c11_status(mutex_until((pthread_mutex_t *)mutex, CLOCK_REALTIME, until, FRAME));
}

/* A barrier has no wait that ends: the signal's handler leaves it in the middle. It then counts
 * this thread as arrived, as it would one that was ended. */
static int wait_barrier(pthread_barrier_t *barrier)
{
    if (!in_slices()) return pthread_barrier_wait(barrier);
    interrupt_may_leave_wait(FRAME);
    int status = pthread_barrier_wait(barrier);
    interrupt_may_leave_wait(NULL);
    LEAVE_IF_WANTED();
    return status;
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
        ROW(sem_clockwait),
        ROW(msgsnd),
        ROW(msgrcv),
        ROW(semop),
        ROW(semtimedop),
        ROW(sendto),
        ROW(sendmsg),
        ROW(getrandom),
        ROW(thrd_join),
        {"pthread_join", (void *)wait_join},
        {"pthread_cond_wait", (void *)wait_cond},
        {"pthread_cond_timedwait", (void *)wait_cond_timed},
        {"pthread_mutex_lock", (void *)wait_mutex},
        {"pthread_rwlock_rdlock", (void *)wait_read_lock},
        {"pthread_rwlock_wrlock", (void *)wait_write_lock},
        {"pthread_timedjoin_np", (void *)wait_join_timed},
        {"pthread_clockjoin_np", (void *)wait_join_clock},
        {"pthread_cond_clockwait", (void *)wait_cond_clock},
        {"pthread_mutex_timedlock", (void *)wait_mutex_timed},
        {"pthread_mutex_clocklock", (void *)wait_mutex_clock},
        {"pthread_rwlock_timedrdlock", (void *)wait_read_lock_timed},
        {"pthread_rwlock_clockrdlock", (void *)wait_read_lock_clock},
        {"pthread_rwlock_timedwrlock", (void *)wait_write_lock_timed},
        {"pthread_rwlock_clockwrlock", (void *)wait_write_lock_clock},
        {"pthread_barrier_wait", (void *)wait_barrier},
        {"cnd_wait", (void *)wait_cnd},
        {"cnd_timedwait", (void *)wait_cnd_timed},
        {"mtx_lock", (void *)wait_mtx},
        {"mtx_timedlock", (void *)wait_mtx_timed},
    };
#undef ROW
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        host_override(table[i].name, table[i].function);
}
