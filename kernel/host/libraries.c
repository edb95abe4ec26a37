/* Libraries that know about processes, threads or the user: OpenBLAS and libgomp keep pools of
 * threads that a copy of the process does not have; libcadre reports errors, shows things and
 * wants to hear of interrupts. */
#include "host/inside.h"

#include "base/error_handler.h"
#include "base/interrupt.h"
#include "show/show.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *runtime_low, *runtime_high; /* where libcadre lies */

static void find(const char *name, void *pointer)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(pointer, &symbol, sizeof symbol);
}

static void on_runtime_error(const cadre_error *error)
{
    if (cell_host.is_child || getpid() != cell_host.self) {
        fprintf(stderr, "%s\n", error->message);
        process_leave_child(1);
    }
    if (error->code == CADRE_EINTERRUPT && end_wanted())
        run_end_from_anywhere(LEAVE_INTERRUPT, 0, NULL);
    if (!cell_host.in_cell) { /* a thread that outlived its cell */
        fprintf(stderr, "CadreError: %s\n", error->message);
        if (!on_main_thread()) pthread_exit(NULL);
        return;
    }
    run_end_from_anywhere(LEAVE_ERROR, 1, error->message);
}

static int find_runtime(struct dl_phdr_info *info, size_t size, void *address)
{
    (void)size;
    const char *low = NULL, *high = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const char *start = (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (!low) low = start;
        high = start + info->dlpi_phdr[i].p_memsz;
    }
    if ((const char *)address < low || (const char *)address >= high) return 0;
    runtime_low = low;
    runtime_high = high;
    return 1;
}

bool libraries_is_runtime(const void *pc)
{
    return (const char *)pc >= runtime_low && (const char *)pc < runtime_high;
}

void libraries_install(void)
{
    void *loop;
    find("cadre_loop", &loop);
    if (loop) dl_iterate_phdr(find_runtime, loop);
    cadre_set_error_handler(on_runtime_error);
    cadre_show_set_channel(cell_host.display);
}

void libraries_start_cell(void)
{
    cadre_interrupt_clear();
}

void libraries_interrupt(void)
{
    cadre_interrupt_request();
}

bool libraries_boundary(const void **stack, sigjmp_buf **jump)
{
    cadre_interrupt_boundary *boundary = cadre_interrupt_innermost();
    if (!boundary) return false;
    *stack = boundary->stack;
    *jump = &boundary->jump;
    return true;
}

void libraries_before_copy(void)
{
    enum { PAUSE_HARD = 2 };
    int (*pause_all)(int);
    find("omp_pause_resource_all", &pause_all);
    if (pause_all) (void)pause_all(PAUSE_HARD);
}

/* OpenBLAS believes its threads alive. Where its flag can be reached, it is told that there are
 * none, as it tells itself when fork() is called, and starts them again when they are needed;
 * otherwise it works with one thread from now on. */
void libraries_after_takeover(void)
{
    int *server_available;
    void (*set_threads)(int);
    find("blas_server_avail", &server_available);
    find("openblas_set_num_threads", &set_threads);
    if (server_available)
        *server_available = 0;
    else if (set_threads)
        set_threads(1);
}
