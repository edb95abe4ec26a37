/* One cell, from RUN to DONE. */
#include "host/inside.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char __start_cadre_entry[], __stop_cadre_entry[]; /* set by the linker */
extern const void *_Unwind_Find_FDE(const void *pc, void *bases);

struct plan {
    size_t count;
    cadre_module **modules;
    const char **entry_names;
    void (**entries)(void);
    bool *statements_only;
};

/* Modules that gave nothing but their effect and their value: freed before the next cell. */
static struct {
    cadre_module *modules[16];
    size_t count;
} finished;

/* The last of our own frames below a cell, in a section of their own so that a walk over the stack
 * knows them. The handler does nothing before in_cell is set, so an interrupt that came earlier is
 * seen here; one that comes later is the handler's. */
__attribute__((noinline, section("cadre_entry"))) static void call_entry(void (*entry)(void))
{
    cell_host.entry_frame = __builtin_frame_address(0);
    cell_host.in_cell = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (!interrupt_wanted()) entry();
    cell_host.in_cell = 0;
}

__attribute__((noinline, section("cadre_entry"))) static void
call_constructor(cadre_constructor *function, int count, char **arguments, char **environment)
{
    cell_host.entry_frame = __builtin_frame_address(0);
    cell_host.in_cell = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (!interrupt_wanted()) function(count, arguments, environment);
    cell_host.in_cell = 0;
}

bool run_is_entry_caller(const void *pc)
{
    return (const char *)pc >= __start_cadre_entry && (const char *)pc <= __stop_cadre_entry;
}

void run_leave(enum leave_reason reason)
{
    cell_host.in_cell = 0;
    siglongjmp(cell_host.leave, (int)reason);
}

void run_end_from_anywhere(enum leave_reason reason, int status, const char *text)
{
    int nothing = LEAVE_NOTHING;
    if (on_main_thread()) {
        cell_host.exit_status = status;
        snprintf(cell_host.error_text, sizeof cell_host.error_text, "%s", text ? text : "");
        run_leave(reason);
    }
    /* The first thread that asks decides how the cell ends; main leaves when it can. */
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    if (cell_host.in_cell && atomic_load(&cell_host.ending) == nothing) {
        cell_host.exit_status = status;
        snprintf(cell_host.error_text, sizeof cell_host.error_text, "%s", text ? text : "");
        atomic_store_explicit(&cell_host.ending, (int)reason, memory_order_release);
        interrupt_main_thread();
    }
    pthread_mutex_unlock(&one);
    pthread_exit(NULL);
}

/* ---- loading */

static int load_segment(struct plan *plan, size_t index, const char *label, struct packet *request,
                        int file, cadre_error *error)
{
    bool statements_only = cadre_packet_number(request) != 0;
    bool use_dlopen = cadre_packet_number(request) != 0;
    const char *path = cadre_packet_text(request);
    const char *entry = cadre_packet_text(request);
    size_t fresh_count = cadre_packet_number(request);
    if (request->bad || fresh_count > request->header.length)
        return cadre_error_set(error, CADRE_EFORMAT, "damaged request to run a cell");
    const char **fresh = calloc(fresh_count + 1, sizeof *fresh);
    if (!fresh) return cadre_error_set(error, CADRE_EMEMORY, "no memory to load the cell");
    for (size_t i = 0; i < fresh_count; i++)
        fresh[i] = cadre_packet_text(request);

    cadre_module *module = NULL;
    struct stat about;
    if (request->bad) {
        cadre_error_set(error, CADRE_EFORMAT, "damaged request to run a cell");
    } else if (use_dlopen) {
        module = cadre_loader_add_library(cell_host.loader, label, path, error);
    } else if (file < 0 || fstat(file, &about) < 0 || about.st_size <= 0) {
        cadre_error_set(error, CADRE_EFILE, "the compiled cell did not arrive");
    } else {
        size_t length = (size_t)about.st_size;
        void *object = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
        if (object == MAP_FAILED) {
            cadre_error_set(error, CADRE_EMEMORY, "no memory to load the cell");
        } else {
            module = cadre_loader_add(cell_host.loader, label, object, length, fresh, fresh_count,
                                      error);
            munmap(object, length);
        }
    }
    free(fresh);
    plan->modules[index] = module;
    plan->statements_only[index] = statements_only;
    plan->entry_names[index] = *entry ? entry : NULL;
    return module ? 0 : CADRE_ENOTFOUND;
}

static int load(struct plan *plan, struct packet *request, const int *files, size_t file_count,
                cadre_error *error)
{
    const char *label = cadre_packet_text(request);
    size_t libraries = cadre_packet_number(request);
    for (size_t i = 0; i < libraries && !request->bad; i++) {
        const char *name = cadre_packet_text(request);
        if (!request->bad && !dlopen(name, RTLD_NOW | RTLD_GLOBAL))
            return cadre_error_set(error, CADRE_ENOTFOUND, "%s", dlerror());
    }
    size_t count = cadre_packet_number(request), next_file = 0;
    if (request->bad || count > request->header.length)
        return cadre_error_set(error, CADRE_EFORMAT, "damaged request to run a cell");
    plan->modules = calloc(count + 1, sizeof *plan->modules);
    plan->entry_names = calloc(count + 1, sizeof *plan->entry_names);
    plan->entries = calloc(count + 1, sizeof *plan->entries);
    plan->statements_only = calloc(count + 1, sizeof *plan->statements_only);
    if (!plan->modules || !plan->entry_names || !plan->entries || !plan->statements_only)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to load the cell");
    for (size_t i = 0; i < count; i++) {
        bool has_file = cadre_packet_number(request) != 0;
        int file = has_file && next_file < file_count ? files[next_file++] : -1;
        if (load_segment(plan, i, label, request, file, error) < 0) return CADRE_ENOTFOUND;
        plan->count = i + 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (!plan->entry_names[i]) continue;
        if (cadre_loader_check(cell_host.loader, plan->modules[i], plan->entry_names[i], error) < 0)
            return CADRE_ENOTFOUND;
        void *entry = cadre_module_symbol(plan->modules[i], plan->entry_names[i]);
        if (!entry)
            return cadre_error_set(error, CADRE_ENOTFOUND, "the compiled cell has no %s",
                                   plan->entry_names[i]);
        memcpy(&plan->entries[i], &entry, sizeof entry);
    }
    return 0;
}

/* libgcc sorts a table, with malloc, when it first looks for a frame of new code. Do it here and
 * not in the handler of a crash. */
static void warm_unwinder(const struct plan *plan)
{
    char bases[64];
    for (size_t i = 0; i < plan->count; i++)
        if (plan->entries[i])
            (void)_Unwind_Find_FDE((const char *)(uintptr_t)plan->entries[i] + 1, bases);
}

static void release_finished(void)
{
    while (finished.count)
        cadre_loader_release_statements(cell_host.loader, finished.modules[--finished.count]);
}

static void keep_finished(const struct plan *plan)
{
    size_t room = sizeof finished.modules / sizeof *finished.modules;
    for (size_t i = 0; i < plan->count && finished.count < room; i++)
        if (plan->statements_only[i]) finished.modules[finished.count++] = plan->modules[i];
}

/* ---- running */

static enum leave_reason execute(const struct plan *plan)
{
    int reason = sigsetjmp(cell_host.leave, 1);
    if (reason != LEAVE_NOTHING) return (enum leave_reason)reason;
    for (size_t i = 0; i < plan->count; i++) {
        if (end_wanted()) break;
        /* Not before: the segments until here still mean the older definition of a name. */
        cadre_loader_commit_until(cell_host.loader, plan->modules[i]);
        cadre_loader_construct_by(plan->modules[i], call_constructor);
        if (plan->entries[i]) call_entry(plan->entries[i]);
        if (cell_host.is_child || getpid() != cell_host.self) break;
    }
    return LEAVE_NOTHING;
}

static enum leave_reason execute_atexit(void)
{
    int reason = sigsetjmp(cell_host.leave, 1);
    if (reason != LEAVE_NOTHING) return (enum leave_reason)reason;
    call_entry(process_run_atexit);
    return interrupt_wanted() ? LEAVE_INTERRUPT : LEAVE_NOTHING;
}

static enum leave_reason why_ended(enum leave_reason reason)
{
    int asked = atomic_load_explicit(&cell_host.ending, memory_order_acquire);
    if (asked != LEAVE_NOTHING && reason != LEAVE_EXIT && reason != LEAVE_ERROR)
        return (enum leave_reason)asked;
    /* Asked to stop, and the cell came to its end by itself, its sleep cut short perhaps. */
    if (reason == LEAVE_NOTHING && end_wanted()) return LEAVE_INTERRUPT;
    return reason;
}

static void report_done(enum leave_reason reason)
{
    cadre_buffer payload = {0};
    int64_t numbers[2] = {CADRE_OUTCOME_OK, 0};
    const char *name = "", *text = "";
    if (reason == LEAVE_INTERRUPT) {
        numbers[0] = CADRE_OUTCOME_INTERRUPTED;
        name = "KeyboardInterrupt";
    } else if (reason == LEAVE_ERROR) {
        numbers[0] = CADRE_OUTCOME_ERROR;
        name = "CadreError";
        text = cell_host.error_text;
    } else if (reason == LEAVE_EXIT || cell_host.main_returned) {
        numbers[0] = CADRE_OUTCOME_EXIT;
        numbers[1] = reason == LEAVE_EXIT ? cell_host.exit_status : cell_host.main_status;
    }
    cadre_field_text(&payload, name);
    cadre_field_text(&payload, text);
    host_send(MESSAGE_DONE, numbers, 2, &payload);
    cadre_buffer_free(&payload);
}

static void execute_and_report(const struct plan *plan)
{
    crash_install_stack();
    atomic_store(&cell_host.ending, LEAVE_NOTHING);
    cell_host.interrupt_seen = 0;
    cell_host.main_returned = false;
    libraries_start_cell();
    process_start_cell();
    input_start_cell();
    hooks_start_cell();
    snapshot_cell_started();
    streams_cell(true);
    limits_for_cell();

    enum leave_reason reason = execute(plan);
    cell_host.in_cell = 0;
    if (cell_host.is_child || getpid() != cell_host.self) process_leave_child(0);
    interrupt_stop();
    cadre_loader_commit(cell_host.loader); /* segments that an early end has not reached */
    reason = why_ended(reason);
    if (reason == LEAVE_EXIT || (reason == LEAVE_NOTHING && cell_host.main_returned)) {
        enum leave_reason again = execute_atexit();
        cell_host.in_cell = 0;
        interrupt_stop();
        if (again == LEAVE_INTERRUPT || again == LEAVE_ERROR) reason = again;
    }
    hooks_end_cell();
    limits_for_host();
    streams_cell(false);
    streams_flush();
    host_check_control();
    report_done(reason);
}

bool run_cell(struct packet *request, const int *files, size_t file_count)
{
    cadre_error error = {0};
    struct plan plan = {0};
    bool took_over = false;
    cell_host.generation = cadre_packet_number(request);
    cadre_snapshot_policy policy = (cadre_snapshot_policy)cadre_packet_number(request);
    cell_host.policy = policy;
    cell_host.allow_stdin = cadre_packet_number(request) & RUN_ALLOW_STDIN;
    atomic_store(&cell_host.run, request->header.run);

    if (policy == CADRE_SNAPSHOT_NEVER)
        snapshot_drop();
    else if (!snapshot_exists() && snapshot_take() == SNAPSHOT_TOOK_OVER)
        return true;

    release_finished();
    if (load(&plan, request, files, file_count, &error) < 0) {
        cadre_loader_discard(cell_host.loader);
        cadre_buffer payload = {0};
        cadre_field_text(&payload, error.message);
        host_send(MESSAGE_LINK_ERROR, NULL, 0, &payload);
        cadre_buffer_free(&payload);
        atomic_store(&cell_host.run, 0);
    } else {
        warm_unwinder(&plan);
        execute_and_report(&plan);
        keep_finished(&plan);
        atomic_store(&cell_host.run, 0);
        cell_host.generation++;
        took_over = snapshot_after_cell(policy) == SNAPSHOT_TOOK_OVER;
    }
    free(plan.modules);
    free(plan.entry_names);
    free(plan.entries);
    free(plan.statements_only);
    return took_over;
}
