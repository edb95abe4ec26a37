/* cadre-host CONTROL DISPLAY SHARED FRONT TUNABLES: started by the front (front.c) with the
 * numbers of two sockets and of the shared memory, and the front's pid. Not for people. */
#include "host/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <unistd.h>

/* glibc's own way to hand out real-time signals; no header declares it. */
extern int __libc_allocate_rtsig(int high);

struct cell_host cell_host = {.control = -1, .display = -1, .pidfd = -1};

/* Cells get low numbers for their own files, and a loop that closes "everything" passes by ours
 * (see process.c). */
int host_protect_file(int file)
{
    struct rlimit limit;
    int floor = 3;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 64)
        floor = limit.rlim_cur > 1024 ? 960 : (int)limit.rlim_cur - 32;
    int moved = fcntl(file, F_DUPFD_CLOEXEC, floor);
    if (moved < 0) moved = fcntl(file, F_DUPFD_CLOEXEC, 3);
    size_t room = sizeof cell_host.own_files / sizeof *cell_host.own_files;
    if (moved >= 0 && cell_host.own_file_count < room)
        cell_host.own_files[cell_host.own_file_count++] = moved;
    return moved;
}

void host_close_file(int file)
{
    if (file < 0) return;
    for (size_t i = 0; i < cell_host.own_file_count; i++) {
        if (cell_host.own_files[i] != file) continue;
        cell_host.own_files[i] = cell_host.own_files[--cell_host.own_file_count];
        break;
    }
    close(file);
}

bool host_is_own_file(int file)
{
    if (cell_host.is_child) return false;
    for (size_t i = 0; i < cell_host.own_file_count; i++)
        if (cell_host.own_files[i] == file) return true;
    return false;
}

void host_send(enum message message, const int64_t *numbers, size_t number_count,
               const cadre_buffer *payload)
{
    struct packet_header header = {.message = message, .run = atomic_load(&cell_host.run)};
    if (number_count) memcpy(header.number, numbers, number_count * sizeof *numbers);
    if (cell_host.is_child) return;
    (void)cadre_packet_send(cell_host.control, &header, payload ? payload->data : NULL,
                            payload ? payload->length : 0, NULL, 0, true);
}

void host_note(const char *format, ...)
{
    cadre_buffer text = {0}, payload = {0};
    va_list arguments;
    va_start(arguments, format);
    cadre_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    cadre_field_text(&payload, text.data);
    host_send(MESSAGE_NOTE, NULL, 0, &payload);
    cadre_buffer_free(&payload);
    cadre_buffer_free(&text);
}

/* The system forbids the front to read our memory: do it for it. process_vm_readv on ourselves
 * needs no right and answers EFAULT where a plain copy would crash. */
void host_serve_read(struct packet *packet)
{
    uint64_t length = (uint64_t)packet->header.number[1];
    void *bytes = length <= (64u << 20) ? malloc(length + 1) : NULL;
    cadre_buffer payload = {0};
    int64_t ok = 0;
    if (bytes) {
        struct iovec to = {bytes, length};
        struct iovec from = {(void *)(uintptr_t)packet->header.number[0], length};
        ok = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)length;
        if (ok) cadre_field_bytes(&payload, bytes, length);
    }
    host_send(MESSAGE_MEMORY, &ok, 1, &payload);
    cadre_buffer_free(&payload);
    free(bytes);
}

static void serve_symbol(struct packet *packet)
{
    uint64_t address =
        (uint64_t)(uintptr_t)cadre_loader_symbol(cell_host.loader, cadre_packet_text(packet));
    int64_t ok = address && !packet->bad;
    cadre_buffer payload = {0};
    cadre_field_bytes(&payload, &address, sizeof address);
    host_send(MESSAGE_MEMORY, &ok, 1, &payload);
    cadre_buffer_free(&payload);
}

static int number(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno || *end || end == text || value < 0 || value > INT32_MAX ? -1 : (int)value;
}

/* The front has died: nothing that it started stays. */
static ino_t control_inode; /* of the socket to the front, as it was at the start */

static void front_died(int signal_number)
{
    (void)signal_number;
    for (size_t i = 0; cell_host.shared && i < GROUPS_MAX; i++) {
        int group = atomic_load(&cell_host.shared->groups[i]);
        if (group > 1) kill(-group, SIGKILL);
    }
    kill(0, SIGKILL);
    _exit(1);
}

void host_check_control(void)
{
    struct stat about;
    if (fstat(cell_host.control, &about) == 0 && S_ISSOCK(about.st_mode) &&
        about.st_ino == control_inode)
        return;
    atomic_store(&cell_host.shared->process_end, END_LOST_SOCKET);
    _exit(1);
}

static int start(char **arguments)
{
    int control = number(arguments[1]), display = number(arguments[2]);
    int memory = number(arguments[3]);
    cell_host.front = number(arguments[4]);
    if (control < 0 || display < 0 || memory < 0 || cell_host.front < 1) return -1;

    /* Taken from the top of the range, so that SIGRTMAX of the cells lies below them. The front
     * counts on these two numbers. */
    cell_host.parent_death_signal = __libc_allocate_rtsig(0);
    cell_host.interrupt_signal = __libc_allocate_rtsig(0);
    if (cell_host.interrupt_signal != INTERRUPT_SIGNAL) return -1;
    struct sigaction action = {.sa_handler = front_died};
    sigfillset(&action.sa_mask);
    sigaction(cell_host.parent_death_signal, &action, NULL);
    prctl(PR_SET_PDEATHSIG, cell_host.parent_death_signal);
    if (getppid() != cell_host.front) return -1;

    cell_host.shared =
        mmap(NULL, sizeof *cell_host.shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (cell_host.shared == MAP_FAILED) return -1;
    cell_host.self = getpid();
    cell_host.main_tid = cell_host.self;
    cell_host.main_thread = pthread_self();
    cell_host.control = host_protect_file(control);
    cell_host.display = host_protect_file(display);
    struct stat about;
    if (fstat(cell_host.control, &about) < 0) return -1;
    control_inode = about.st_ino;
    cell_host.saved_output = host_protect_file(1);
    cell_host.saved_error = host_protect_file(2);
    close(control);
    close(display);
    close(memory);
    if (cell_host.control < 0 || cell_host.display < 0) return -1;
    /* What the front set for us alone. */
    if (strcmp(arguments[5], "-") == 0)
        unsetenv("GLIBC_TUNABLES");
    else
        setenv("GLIBC_TUNABLES", arguments[5], 1);

    cadre_error error = {0};
    cell_host.loader = cadre_loader_new(&error);
    if (!cell_host.loader) {
        host_note("%s", error.message);
        return -1;
    }
    if (streams_install() < 0 || input_install() < 0) return -1;
    libraries_install();
    hooks_install();
    process_install();
    waits_install();
    signals_install();
    threads_install();
    crash_install();
    interrupt_install();
    snapshot_prepare();
    streams_start_process();
    interrupt_start_process();
    threads_start_process();
    limits_for_host();
    return 0;
}

/* The files of a cell did not fit: say so, or the front would wait for its end. */
static void refuse_run(const struct packet_header *header)
{
    cadre_buffer payload = {0};
    if (header->message != MESSAGE_RUN && header->message != MESSAGE_FILES) return;
    atomic_store(&cell_host.run, header->run);
    cadre_field_text(&payload, "the process of the cells can open no more files (RLIMIT_NOFILE is "
                               "reached); restart the kernel");
    host_send(MESSAGE_LINK_ERROR, NULL, 0, &payload);
    cadre_buffer_free(&payload);
    atomic_store(&cell_host.run, 0);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 6 || start(arguments) < 0) {
        static const char text[] = "cadre-host is started by cadre-kernel, not by hand\n";
        return write(2, text, sizeof text - 1) < 0 ? 2 : 1;
    }
    host_send(MESSAGE_READY, NULL, 0, NULL);
    bool new_process = true; /* at the start, and in a copy that has just taken over */

    int files[1024];
    size_t file_count = 0;
    for (;;) {
        while (new_process)
            new_process = snapshot_take() == SNAPSHOT_TOOK_OVER;
        struct packet packet;
        int status = cadre_packet_receive(cell_host.control, &packet, true);
        if (status == CADRE_EINTERRUPT || status == CADRE_EFORMAT) continue;
        if (status == CADRE_EMEMORY) {
            refuse_run(&packet.header);
            continue;
        }
        if (status < 0) front_died(0);
        bool is_run = packet.header.message == MESSAGE_RUN;
        if (is_run || packet.header.message == MESSAGE_FILES) {
            for (size_t i = 0; i < packet.file_count; i++) {
                int file = cadre_packet_take_file(&packet, i);
                if (file_count < sizeof files / sizeof *files)
                    files[file_count++] = file;
                else
                    close(file);
            }
        }
        if (is_run) {
            new_process = run_cell(&packet, files, file_count);
            while (file_count)
                close(files[--file_count]);
        } else if (packet.header.message == MESSAGE_READ) {
            host_serve_read(&packet);
        } else if (packet.header.message == MESSAGE_SYMBOL) {
            serve_symbol(&packet);
        }
        cadre_packet_free(&packet);
    }
}
