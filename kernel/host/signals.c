/* Signals as cells see them. Two numbers are the host's own and cannot be blocked, ignored or
 * handled, like SIGKILL; and the default for a fatal signal is our handler. */
#include "host/inside.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static bool is_own_signal(int number)
{
    return number == cell_host.interrupt_signal || number == cell_host.parent_death_signal;
}

/* A copy of `set` without our signals; NULL stays NULL. */
static const sigset_t *without_own(const sigset_t *set, sigset_t *copy)
{
    if (!set) return NULL;
    *copy = *set;
    sigdelset(copy, cell_host.interrupt_signal);
    sigdelset(copy, cell_host.parent_death_signal);
    return copy;
}

static int cell_sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t copy;
    return sigprocmask(how, how == SIG_UNBLOCK ? set : without_own(set, &copy), before);
}

static int cell_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t copy;
    return pthread_sigmask(how, how == SIG_UNBLOCK ? set : without_own(set, &copy), before);
}

static int cell_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    struct sigaction old, copy;
    if (is_own_signal(number)) {
        errno = EINVAL;
        return -1;
    }
    if (action) {
        copy = *action;
        without_own(&action->sa_mask, &copy.sa_mask);
    }
    if (sigaction(number, action ? &copy : NULL, &old) < 0) return -1;
    if (action && !cell_host.is_child && crash_is_fatal_signal(number) &&
        !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL)
        crash_default(number);
    if (crash_is_ours(number, &old)) old = (struct sigaction){.sa_handler = SIG_DFL};
    if (before) *before = old;
    return 0;
}

static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;
    sigemptyset(&action.sa_mask);
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return cell_sigaction(number, &action, &before) < 0 ? SIG_ERR : before.sa_handler;
}

static sighandler_t cell_signal(int number, sighandler_t handler)
{
    return set_handler(number, handler, SA_RESTART);
}

static sighandler_t cell_sysv_signal(int number, sighandler_t handler)
{
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

static int cell_sigsuspend(const sigset_t *set)
{
    sigset_t copy;
    int result = sigsuspend(without_own(set, &copy));
    LEAVE_IF_WANTED();
    return result;
}

static int cell_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    sigset_t copy;
    int result = sigwaitinfo(without_own(set, &copy), info);
    LEAVE_IF_WANTED();
    return result;
}

static int cell_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit)
{
    sigset_t copy;
    int result = sigtimedwait(without_own(set, &copy), info, limit);
    LEAVE_IF_WANTED();
    return result;
}

static int cell_sigwait(const sigset_t *set, int *number)
{
    sigset_t copy;
    int got;
    do {
        got = sigwaitinfo(without_own(set, &copy), NULL);
        LEAVE_IF_WANTED();
    } while (got < 0 && errno == EINTR);
    if (got < 0) return errno;
    *number = got;
    return 0;
}

static int cell_signalfd(int file, const sigset_t *set, int flags)
{
    sigset_t copy;
    return signalfd(file, without_own(set, &copy), flags);
}

static int cell_ppoll(struct pollfd *files, nfds_t count, const struct timespec *limit,
                      const sigset_t *set)
{
    sigset_t copy;
    int result = ppoll(files, count, limit, without_own(set, &copy));
    LEAVE_IF_WANTED();
    return result;
}

static int cell_pselect(int count, fd_set *reads, fd_set *writes, fd_set *others,
                        const struct timespec *limit, const sigset_t *set)
{
    sigset_t copy;
    int result = pselect(count, reads, writes, others, limit, without_own(set, &copy));
    LEAVE_IF_WANTED();
    return result;
}

static int cell_epoll_pwait(int epoll, struct epoll_event *events, int count, int limit,
                            const sigset_t *set)
{
    sigset_t copy;
    int result = epoll_pwait(epoll, events, count, limit, without_own(set, &copy));
    LEAVE_IF_WANTED();
    return result;
}

/* raise(3) of libc blocks every signal for a moment, itself; nothing to do there but to save what
 * was printed, should it be a signal that nobody catches. */
static int cell_raise(int number)
{
    streams_flush();
    return raise(number);
}

void signals_install(void)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        {"sigprocmask", (void *)cell_sigprocmask},
        {"pthread_sigmask", (void *)cell_pthread_sigmask},
        {"sigaction", (void *)cell_sigaction},
        {"signal", (void *)cell_signal},
        {"bsd_signal", (void *)cell_signal},
        {"ssignal", (void *)cell_signal},
        {"sysv_signal", (void *)cell_sysv_signal},
        {"__sysv_signal", (void *)cell_sysv_signal},
        {"sigsuspend", (void *)cell_sigsuspend},
        {"sigwaitinfo", (void *)cell_sigwaitinfo},
        {"sigtimedwait", (void *)cell_sigtimedwait},
        {"sigwait", (void *)cell_sigwait},
        {"signalfd", (void *)cell_signalfd},
        {"ppoll", (void *)cell_ppoll},
        {"pselect", (void *)cell_pselect},
        {"epoll_pwait", (void *)cell_epoll_pwait},
        {"raise", (void *)cell_raise},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        host_override(table[i].name, table[i].function);
}
