/* The handler of fatal signals: it saves what was printed, notes where every frame stood, and
 * lets the process die. The copy then takes over; the front makes a traceback of the notes. */
#include "host/inside.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

/* The unwinder and the dynamic linker may wait for a lock that the crash has left behind. */
#define LIMIT_MS 500

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
#define FATAL_COUNT (sizeof fatal_signals / sizeof *fatal_signals)

static char main_stack[128 << 10] __attribute__((aligned(64)));
static _Atomic int crashing_thread; /* its id, once */
static uintptr_t stack_low;         /* where the main thread's stack must end */

struct abort_text { /* glibc's: what assert or malloc said before it called abort */
    unsigned size;
    char text[];
};
static struct abort_text **abort_text;

static bool safe_read(uintptr_t address, void *into, size_t length)
{
    struct iovec to = {into, length}, from = {(void *)address, length};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)length;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t i = 0;
    if (from && size)
        for (; i + 1 < size && from[i]; i++)
            to[i] = from[i];
    if (size) to[i] = 0;
}

/* SIGKILL when the time is over: nothing can hold that up. */
static void limit_time(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {.tv_nsec = LIMIT_MS * 1000000L}};
    int timer;
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
        syscall(SYS_timer_settime, timer, 0, &when, NULL);
}

static void die(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigaction(number, &action, NULL);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static bool add_frame(struct crash_record *crash, uintptr_t pc)
{
    if (crash->frame_count >= CRASH_FRAMES_MAX) return false;
    struct crash_frame *frame = &crash->frames[crash->frame_count];
    frame->pc = pc;
    frame->kind = FRAME_UNKNOWN;
    frame->label[0] = frame->function[0] = 0;
    frame->offset = 0;
    crash->frame_count++;
    return true;
}

struct unwinding {
    struct crash_record *crash;
    uintptr_t pc;
    bool started, reached_entry;
};

static _Unwind_Reason_Code unwind_step(struct _Unwind_Context *context, void *argument)
{
    struct unwinding *unwinding = argument;
    uintptr_t pc = _Unwind_GetIP(context);
    if (!unwinding->started) {
        unwinding->started = pc == unwinding->pc;
        return _URC_NO_REASON;
    }
    if (run_is_entry_caller((const void *)pc)) {
        unwinding->reached_entry = true;
        return _URC_END_OF_STACK;
    }
    return add_frame(unwinding->crash, pc) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void walk_frame_pointers(struct crash_record *crash, uintptr_t frame, uintptr_t stack)
{
    uintptr_t pair[2];
    while (frame > stack && frame % sizeof(uintptr_t) == 0 && safe_read(frame, pair, sizeof pair)) {
        if (run_is_entry_caller((const void *)pair[1])) return;
        if (!pair[1] || !add_frame(crash, pair[1])) return;
        stack = frame;
        frame = pair[0];
    }
}

static void collect_frames(struct crash_record *crash, const ucontext_t *context)
{
    uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    uintptr_t stack = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    uintptr_t frame = (uintptr_t)context->uc_mcontext.gregs[REG_RBP];
    add_frame(crash, pc);
    atomic_store(&crash->stage, CRASH_FRAMES);
    char code;
    uintptr_t caller;
    if (!safe_read(pc, &code, 1)) { /* a call of something that is no code */
        if (safe_read(stack, &caller, sizeof caller)) add_frame(crash, caller);
        walk_frame_pointers(crash, frame, stack);
        return;
    }
    struct unwinding unwinding = {.crash = crash, .pc = pc};
    _Unwind_Backtrace(unwind_step, &unwinding);
    if (!unwinding.reached_entry && crash->frame_count < 2)
        walk_frame_pointers(crash, frame, stack);
}

static void name_frames(struct crash_record *crash)
{
    for (uint32_t i = 0; i < crash->frame_count; i++) {
        struct crash_frame *frame = &crash->frames[i];
        /* A return address may belong to the line after the call, or the next function. */
        const void *pc = (const void *)(uintptr_t)(i ? frame->pc - 1 : frame->pc);
        const char *label, *function;
        uint64_t offset;
        Dl_info about;
        const ElfW(Sym) *symbol = NULL;
        if (cadre_loader_describe(cell_host.loader, pc, &label, &function, &offset)) {
            copy_text(frame->label, sizeof frame->label, label);
            copy_text(frame->function, sizeof frame->function, function);
            frame->offset = offset;
            frame->kind = FRAME_CELL;
        } else if (dladdr1(pc, &about, (void **)&symbol, RTLD_DL_SYMENT) && about.dli_fname) {
            bool inside = symbol && about.dli_saddr &&
                          (const char *)pc < (const char *)about.dli_saddr + symbol->st_size;
            copy_text(frame->label, sizeof frame->label, about.dli_fname);
            if (inside) copy_text(frame->function, sizeof frame->function, about.dli_sname);
            frame->kind = FRAME_LIBRARY;
        }
    }
    atomic_store(&crash->stage, CRASH_NAMED);
}

/* The stack pointer has come to the end of the main thread's stack; or, in another thread, what
 * could not be touched is a guard page and the stack pointer is near. */
static bool is_stack_overflow(const siginfo_t *info, uintptr_t stack, bool in_thread)
{
    const uintptr_t near = 256 << 10;
    uintptr_t address = (uintptr_t)info->si_addr;
    if (info->si_signo != SIGSEGV || info->si_code <= 0) return false;
    if (!in_thread) return stack_low && stack < stack_low + near && address < stack_low + near;
    return info->si_code == SEGV_ACCERR && address + near > stack && address < stack + near;
}

static void write_text(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) { /* nobody listens */
    }
}

static void die_in_child(int number)
{
    const char *name = sigabbrev_np(number);
    write_text("a child process of the cell died of SIG");
    write_text(name ? name : "?");
    write_text("\n");
    die(number);
}

static void on_fatal_signal(int number, siginfo_t *info, void *argument)
{
    const ucontext_t *context = argument;
    int thread = (int)syscall(SYS_gettid), nobody = 0;
    struct crash_record *crash = &cell_host.shared->crash;
    if (cell_host.is_child || getpid() != cell_host.self) die_in_child(number);
    if (!atomic_compare_exchange_strong(&crashing_thread, &nobody, thread)) {
        if (nobody == thread) die(crash->signal ? crash->signal : number); /* while collecting */
        for (;;)
            pause(); /* another thread is at it, and ends this one too */
    }
    crash->signal = number;
    crash->code = info->si_code;
    crash->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0;
    crash->pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    crash->in_thread = thread != cell_host.main_tid;
    crash->in_cell = cell_host.in_cell;
    crash->frame_count = 0;
    crash->message[0] = 0;
    crash->stack_overflow =
        is_stack_overflow(info, (uintptr_t)context->uc_mcontext.gregs[REG_RSP], crash->in_thread);
    atomic_store(&crash->stage, CRASH_STARTED);
    if (number == SIGABRT && abort_text && *abort_text)
        copy_text(crash->message, sizeof crash->message, (*abort_text)->text);
    limit_time();
    streams_flush_from_crash();
    collect_frames(crash, context);
    name_frames(crash);
    die(number);
}

bool crash_is_fatal_signal(int number)
{
    for (size_t i = 0; i < FATAL_COUNT; i++)
        if (fatal_signals[i] == number) return true;
    return false;
}

bool crash_is_ours(int number, const struct sigaction *action)
{
    return crash_is_fatal_signal(number) && (action->sa_flags & SA_SIGINFO) &&
           action->sa_sigaction == on_fatal_signal;
}

void crash_default(int number)
{
    struct sigaction action = {.sa_sigaction = on_fatal_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void crash_install_stack(void)
{
    stack_t stack = {.ss_sp = main_stack, .ss_size = sizeof main_stack};
    sigaltstack(&stack, NULL);
    atomic_store(&crashing_thread, 0);
}

static void find_stack_end(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) stack_low = (uintptr_t)low;
    pthread_attr_destroy(&attributes);
}

static _Unwind_Reason_Code ignore_frame(struct _Unwind_Context *context, void *argument)
{
    (void)context;
    (void)argument;
    return _URC_NO_REASON;
}

void crash_install(void)
{
    struct rlimit core;
    abort_text = dlvsym(RTLD_DEFAULT, "__abort_msg", "GLIBC_PRIVATE");
    find_stack_end();
    crash_install_stack();
    _Unwind_Backtrace(ignore_frame, NULL); /* its first call allocates */
    /* A core of gigabytes would delay the take-over by as much; a cell may raise the limit. */
    if (getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &core);
    }
    for (size_t i = 0; i < FATAL_COUNT; i++)
        crash_default(fatal_signals[i]);
}
