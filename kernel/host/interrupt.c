/* Leaving a cell in the middle, at the user's wish.
 *
 * Jumping out of a signal handler is safe only where no lock is held and no structure is half
 * changed that is not the cell's own: when every frame, from the interrupted instruction up to
 * the one that called the cell, is code of cells. Where it is not, libc or a library holds the
 * thread. Then the call slots of cells are diverted to a stub of ours, so that the next call of
 * a library function arrives here, and the signal comes again every millisecond.
 *
 * Functions of libc that wait are replaced (waits.c) and come here by interrupt_check.
 */
#include "host/inside.h"

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define TICK_NS 1000000L
#define UNWIND_FRAMES_MAX 20000

static int timer = -1;
static bool can_divert;
/* Held while call slots are changed: the handler on the main thread, or a thread of the cell that
 * ran into a diverted slot. Nobody waits for it. */
static atomic_flag diverting = ATOMIC_FLAG_INIT;
static volatile sig_atomic_t diverted;
/* interrupt_may_leave_wait; main thread and its handlers only. */
static void *volatile wait_frame;
/* The stack that libc uses for such a wait; a handler of the cell's own on top of it takes more,
 * and may hold anything. */
#define WAIT_STACK 1024

void cadre_diverted_call(void);
void cadre_diverted_decide(uintptr_t *return_address);

/* Every register that can carry an argument is kept, vector registers whole, because the call may
 * have to be made after all. */
__asm__(".pushsection .text\n"
        ".globl cadre_diverted_call\n"
        ".hidden cadre_diverted_call\n"
        ".type cadre_diverted_call, @function\n"
        "cadre_diverted_call:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "push %rbx\n"
        "push %rdi\n"
        "push %rsi\n"
        "push %rdx\n"
        "push %rcx\n"
        "push %r8\n"
        "push %r9\n"
        "push %rax\n"
        "push %r10\n"
        "push %r11\n"
        "mov %rsp, %rbx\n"
        "sub $4096, %rsp\n"
        "and $-64, %rsp\n"
        "xor %eax, %eax\n"
        "lea 512(%rsp), %rdi\n"
        "mov $8, %ecx\n"
        "cld\n"
        "rep stosq\n"
        "mov $0xe7, %eax\n"
        "xor %edx, %edx\n"
        "xsave64 (%rsp)\n"
        "lea 8(%rbp), %rdi\n"
        "call cadre_diverted_decide\n"
        "mov $0xe7, %eax\n"
        "xor %edx, %edx\n"
        "xrstor64 (%rsp)\n"
        "mov %rbx, %rsp\n"
        "pop %r11\n"
        "pop %r10\n"
        "pop %rax\n"
        "pop %r9\n"
        "pop %r8\n"
        "pop %rcx\n"
        "pop %rdx\n"
        "pop %rsi\n"
        "pop %rdi\n"
        "pop %rbx\n"
        "pop %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size cadre_diverted_call, . - cadre_diverted_call\n"
        ".popsection\n");

static bool is_cell_code(uintptr_t return_address)
{
    return cadre_loader_is_cell_code(cell_host.loader, (const void *)(return_address - 1));
}

/* Where a walk up the stack ended. */
enum way_out {
    NO_WAY,
    TO_ENTRY,   /* only cell code up to the caller of the entry */
    TO_BOUNDARY /* ... up to a function of libcadre that is prepared to be returned to */
};

static bool is_boundary(uintptr_t back, uintptr_t frame_of_runtime)
{
    const void *stack;
    sigjmp_buf *jump;
    return libraries_is_runtime((const void *)back) && libraries_boundary(&stack, &jump) &&
           frame_of_runtime + 2 * sizeof(void *) > (uintptr_t)stack;
}

/* Follows the chain of frame pointers that starts at `frame`, the frame of a cell's function.
 * Only cells and libcadre are believed to keep frame pointers, so any other return address ends
 * the walk. */
static enum way_out follow_chain(uintptr_t frame, uintptr_t stack)
{
    uintptr_t entry = (uintptr_t)cell_host.entry_frame;
    while (frame > stack && frame < entry && frame % sizeof frame == 0) {
        uintptr_t caller = ((uintptr_t *)frame)[0], back = ((uintptr_t *)frame)[1];
        if (run_is_entry_caller((const void *)back)) return caller == entry ? TO_ENTRY : NO_WAY;
        if (!is_cell_code(back)) {
            bool known = caller > frame && caller < entry && is_boundary(back, caller);
            return known ? TO_BOUNDARY : NO_WAY;
        }
        stack = frame;
        frame = caller;
    }
    return NO_WAY;
}

/* The frame of a function of ours that a cell has called. */
static enum way_out way_from(void *frame)
{
    uintptr_t *pair = frame;
    if (!is_cell_code(pair[1])) return NO_WAY;
    return follow_chain(pair[0], (uintptr_t)frame);
}

bool interrupt_can_leave(void *frame)
{
    return way_from(frame) == TO_ENTRY;
}

struct walk {
    uintptr_t pc;
    unsigned count;
    bool started;
    enum way_out way;
};

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    uintptr_t pc = _Unwind_GetIP(context);
    if (!walk->started) { /* our own frames, then the interrupted one */
        walk->started = pc == walk->pc;
        return _URC_NO_REASON;
    }
    uintptr_t frame = (uintptr_t)_Unwind_GetGR(context, 6);
    if (run_is_entry_caller((const void *)pc))
        walk->way = TO_ENTRY;
    else if (!is_cell_code(pc))
        walk->way = is_boundary(pc, frame) ? TO_BOUNDARY : NO_WAY;
    else if (walk->count == 0) /* a caller has its frame pointer set up: the fast way */
        walk->way = follow_chain(frame, (uintptr_t)_Unwind_GetCFA(context) - 1);
    if (walk->way != NO_WAY || !is_cell_code(pc)) return _URC_END_OF_STACK;
    return ++walk->count < UNWIND_FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The interrupted instruction may be anywhere in its function, before its frame exists, too: the
 * unwinder knows. It is safe to use here, as cell code holds none of its locks. */
static enum way_out way_from_interrupt(const ucontext_t *context)
{
    struct walk walk = {.pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP]};
    if (!cadre_loader_is_cell_code(cell_host.loader, (const void *)walk.pc)) return NO_WAY;
    _Unwind_Backtrace(walk_step, &walk);
    return walk.way;
}

void interrupt_may_leave_wait(void *frame)
{
    wait_frame = frame;
}

/* In a system call that has just been given up, and nothing lies between it and the wait? */
static enum way_out way_from_wait(const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    uintptr_t frame = (uintptr_t)wait_frame, stack = (uintptr_t)registers[REG_RSP];
    const unsigned char *pc = (const unsigned char *)registers[REG_RIP];
    if (!frame || stack > frame || frame - stack > WAIT_STACK) return NO_WAY;
    if (registers[REG_RAX] != -EINTR || pc[-2] != 0x0f || pc[-1] != 0x05) return NO_WAY;
    return way_from((void *)frame) == TO_ENTRY ? TO_ENTRY : NO_WAY;
}

static void restore_calls(void)
{
    if (!diverted || atomic_flag_test_and_set(&diverting)) return;
    cadre_loader_restore_calls(cell_host.loader);
    diverted = 0;
    atomic_flag_clear(&diverting);
}

static void divert_calls(void)
{
    if (!can_divert || atomic_flag_test_and_set(&diverting)) return;
    cadre_loader_divert_calls(cell_host.loader, (void *)cadre_diverted_call);
    diverted = 1;
    atomic_flag_clear(&diverting);
}

static void tick(long nanoseconds)
{
    struct itimerspec when = {.it_value = {.tv_nsec = nanoseconds}};
    if (timer >= 0) syscall(SYS_timer_settime, timer, 0, &when, NULL);
}

static enum leave_reason reason_wanted(void)
{
    int asked = atomic_load_explicit(&cell_host.ending, memory_order_acquire);
    return asked != LEAVE_NOTHING ? (enum leave_reason)asked : LEAVE_INTERRUPT;
}

static void leave_to_entry(void)
{
    run_leave(reason_wanted());
}

static void leave_to_boundary(void)
{
    const void *stack;
    sigjmp_buf *jump;
    if (libraries_boundary(&stack, &jump)) siglongjmp(*jump, CADRE_EINTERRUPT);
    leave_to_entry();
}

static void leave(enum way_out way)
{
    if (way == TO_ENTRY) leave_to_entry();
    if (way == TO_BOUNDARY) leave_to_boundary();
}

/* A call from cell code has been diverted here, in any thread. Returning makes the call again: the
 * return address is set back to the call instruction. */
__attribute__((used, visibility("hidden"))) void cadre_diverted_decide(uintptr_t *return_address)
{
    const unsigned char *after = (const unsigned char *)*return_address;
    int saved = errno;
    if (!cell_host.is_child && on_main_thread() && cell_host.in_cell && end_wanted())
        leave(way_from(return_address - 1));
    restore_calls();
    *return_address -= after[-6] == 0xff && after[-5] == 0x15 ? 6 : 5;
    errno = saved;
}

void interrupt_check(void *frame)
{
    if (cell_host.is_child || !on_main_thread() || !cell_host.in_cell || !end_wanted()) return;
    leave(way_from(frame));
}

/* Continues the interrupted thread in a function that leaves, on its own stack. */
static void continue_in(ucontext_t *context, void (*function)(void))
{
    greg_t *registers = context->uc_mcontext.gregs;
    registers[REG_RSP] = ((registers[REG_RSP] - 256) & ~(greg_t)63) - 8;
    registers[REG_RIP] = (greg_t)(uintptr_t)function;
    registers[REG_EFL] &= ~(greg_t)0x400; /* direction flag, as functions expect it */
}

/* Like Ctrl-C in a terminal: the programs that the cell has started hear of it too. */
static void interrupt_children(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (sigaction(SIGINT, &ignore, &before) < 0) return;
    kill(0, SIGINT);
    sigaction(SIGINT, &ignore, NULL); /* drops ours, which is pending as long as it is blocked */
    sigaction(SIGINT, &before, NULL);
}

static void on_interrupt(int number, siginfo_t *info, void *argument)
{
    ucontext_t *context = argument;
    int saved = errno;
    (void)number;
    (void)info;
    if (cell_host.is_child || !cell_host.in_cell || !end_wanted() || !on_main_thread()) {
        errno = saved;
        return;
    }
    if (!cell_host.interrupt_seen) {
        cell_host.interrupt_seen = 1;
        interrupt_children();
    }
    libraries_interrupt();
    enum way_out way = way_from_interrupt(context);
    if (way == NO_WAY) way = way_from_wait(context);
    if (way == NO_WAY) divert_calls();
    if (way != TO_ENTRY) tick(TICK_NS);
    if (way != NO_WAY) continue_in(context, way == TO_ENTRY ? leave_to_entry : leave_to_boundary);
    errno = saved;
}

void interrupt_stop(void)
{
    tick(0);
    wait_frame = NULL;
    restore_calls();
}

void interrupt_main_thread(void)
{
    syscall(SYS_tgkill, cell_host.self, cell_host.main_tid, cell_host.interrupt_signal);
}

void interrupt_start_process(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = cell_host.interrupt_signal};
    event._sigev_un._tid = cell_host.main_tid;
    atomic_flag_clear(&diverting);
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) < 0) timer = -1;
}

void interrupt_install(void)
{
    unsigned a, b, c, d;
    can_divert = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE);
    /* No SA_RESTART: a system call that waits shall end. */
    struct sigaction action = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    for (int fatal = 1; fatal < 32; fatal++)
        if (crash_is_fatal_signal(fatal)) sigdelset(&action.sa_mask, fatal);
    sigaction(cell_host.interrupt_signal, &action, NULL);
}
