/* A worker: takes places of the queue, trains, hands the results over, ends with _exit. */
#include "loop/pool.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void take_over_process(pid_t parent)
{
    /* The parent's handlers (a kernel's crash handler, say) are about the parent. */
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGTERM};
    sigset_t unblocked;
    sigemptyset(&unblocked);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        signal(fatal[i], SIG_DFL);
        sigaddset(&unblocked, fatal[i]);
    }
    sigprocmask(SIG_UNBLOCK, &unblocked, NULL);
    /* Ctrl-C reaches the whole group of a terminal; what it means is the parent's decision. */
    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_NAME, "cadre-worker");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0); /* it died before the line above */
}

/* The first buffers that train allocates would cost a page fault each 4 KB, and on a virtual
 * machine those take longer than the arithmetic on the page; or worse, they would be copies of
 * pages that the parent has freed. So large blocks come from the heap's top, beyond all that the
 * parent ever used, and this part is made of huge pages where the system grants them.
 *
 * The free blocks that the parent left are taken and not given back: the process ends soon and
 * touches none of their pages. Before the advice nothing is written beyond the first of the fresh
 * huge pages: one that has a small page already stays one of small pages. */
static void prepare_heap(void)
{
    enum { LARGE = 32 << 20, STEP = 8 << 20, FEW = 64 << 10, BLOCKS = 400, HUGE_PAGE = 2 << 20 };
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
    mallopt(M_TOP_PAD, STEP);
    uintptr_t used = (uintptr_t)sbrk(0), fresh = (used + HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGE;
    int blocks = 0;
    for (size_t size = STEP; size >= FEW; size /= 2) {
        char *block;
        while ((block = malloc(size)) && (uintptr_t)block + size <= used && blocks++ < BLOCKS)
            ;
        uintptr_t start = (uintptr_t)block, end = (uintptr_t)sbrk(0);
        free(block);
        if (!block || start >= used || start + size <= used) continue;
        /* The block was cut from the top: what is left of the used part goes too. The header of
         * the next block (32 bytes with the alignment) still lies in it. */
        if (end > fresh) madvise((void *)fresh, end - fresh, MADV_HUGEPAGE);
        if (fresh - start > 32 && (uintptr_t)(block = malloc(fresh - start - 32)) != start)
            free(block);
    }
}

static long take_place(slice_queue *queue, uint32_t number)
{
    uint64_t place = atomic_load_explicit(&queue->first, memory_order_relaxed);
    for (; place < queue->count; place++) {
        uint32_t nobody = 0;
        if (!atomic_compare_exchange_strong(&queue->slots[place].owner, &nobody, number)) continue;
        atomic_store_explicit(&queue->first, place + 1, memory_order_relaxed);
        return (long)place;
    }
    return -1;
}

static int send_memfd(int socket, uint64_t place, const void *bytes, size_t length)
{
    int status = -1, fd = memfd_create("cadre-model", MFD_CLOEXEC);
    if (fd < 0) return -1;
    for (size_t done = 0; done < length;) {
        ssize_t written = write(fd, (const char *)bytes + done, length - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) goto done;
        done += (size_t)written;
    }
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    sent_result head = {place, length};
    struct iovec part = {&head, sizeof head};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) _exit(0); /* the loop is over */
    status = sent < 0 ? -1 : 0;
done:
    close(fd);
    return status;
}

typedef struct result_arena {
    unsigned char *bytes;
    size_t used;
} result_arena;

/* Puts bytes where the parent finds them and gives the state that says where that is. */
static int hand_over(queue_slot *slot, uint64_t place, result_arena *arena, int socket,
                     const void *bytes, size_t length)
{
    slot->length = length;
    if (arena->bytes && length <= SMALL_RESULT && length <= ARENA_SIZE - arena->used) {
        slot->offset = arena->used;
        if (length) memcpy(arena->bytes + arena->used, bytes, length);
        arena->used += length;
        return SLOT_IN_ARENA;
    }
    return send_memfd(socket, place, bytes, length) == 0 ? SLOT_SENT : SLOT_OPEN;
}

static void finish(queue_slot *slot, uint64_t place, result_arena *arena, int socket,
                   const slice_result *result)
{
    slot->slice_state = (int)result->state;
    slot->seconds = result->seconds;
    memcpy(slot->metrics, result->metrics, sizeof slot->metrics);
    const void *bytes = result->bytes;
    size_t length = result->length;
    if (result->state != CADRE_SLICE_TRAINED) {
        bytes = result->message ? result->message : "";
        length = strlen(bytes);
    }
    int state = hand_over(slot, place, arena, socket, bytes, length);
    if (state == SLOT_OPEN) {
        char why[120];
        int size = snprintf(why, sizeof why, "its model of %zu bytes could not be handed over: %s",
                            length, strerror(errno));
        slot->slice_state = CADRE_SLICE_REFUSED;
        /* A message always fits the arena when there is one; without arena and descriptors the
         * worker can only end, and the parent sees a place without a result. */
        state = hand_over(slot, place, arena, socket, why, (size_t)size);
        if (state == SLOT_OPEN) _exit(1);
    }
    atomic_store_explicit(&slot->state, (uint32_t)state, memory_order_release);
}

void cadre_worker_main(const loop_run *run, slice_queue *queue, uint32_t number,
                       unsigned char *bytes, int socket, pid_t parent, long first)
{
    take_over_process(parent);
    prepare_heap();
    result_arena arena = {bytes, 0};
    for (long place = first; place >= 0 || (place = take_place(queue, number)) >= 0; place = -1) {
        slice_result result = {0};
        cadre_loop_train(run, run->order[place], &result);
        finish(&queue->slots[place], (uint64_t)place, &arena, socket, &result);
        cadre_loop_result_clear(&result);
    }
    _exit(0);
}
