/* stdin: a cookie stream whose bytes the front gets from the user, line by line. Descriptor 0
 * itself is at its end, which is what children find. */
#include "host/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* one thread asks at a time */
    char *line;
    size_t length, at;
    bool ended;
} input = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Waits for the answer. 0: it is there; CADRE_EINTERRUPT: the cell shall end. */
static int wait_for_answer(uint64_t run)
{
    for (;;) {
        struct packet packet;
        struct pollfd file = {cell_host.control, POLLIN, 0};
        if (end_wanted() || atomic_load(&cell_host.run) != run) return CADRE_EINTERRUPT;
        if (poll(&file, 1, 20) <= 0) continue;
        int status = cadre_packet_receive(cell_host.control, &packet, false);
        if (status == CADRE_ESYSTEM) return status;
        if (status <= 0) continue;
        bool mine = packet.header.message == MESSAGE_INPUT && packet.header.run == run;
        if (mine) {
            size_t length;
            const char *bytes = cadre_packet_bytes(&packet, &length);
            free(input.line);
            input.ended = packet.header.number[0] != 0;
            input.line = input.ended ? NULL : malloc(length + 1);
            input.length = input.at = 0;
            if (input.line) {
                memcpy(input.line, bytes, length);
                input.line[length] = '\n';
                input.length = length + 1;
            }
        } else if (packet.header.message == MESSAGE_READ) {
            host_serve_read(&packet);
        }
        cadre_packet_free(&packet);
        if (mine) return 0;
    }
}

static int ask(const char *prompt, bool password)
{
    cadre_buffer payload = {0};
    int64_t numbers[1] = {password};
    streams_flush();
    cadre_field_text(&payload, prompt);
    host_send(MESSAGE_ASK, numbers, 1, &payload);
    cadre_buffer_free(&payload);
    return wait_for_answer(atomic_load(&cell_host.run));
}

ssize_t input_read(void *into, size_t size, const char *prompt, bool password)
{
    ssize_t got = 0;
    if (cell_host.is_child) {
        static bool told;
        if (!told)
            fputs("a child process of the cell cannot read input: it finds the end\n", stderr);
        told = true;
        return 0;
    }
    pthread_mutex_lock(&input.lock);
    if (input.at == input.length && !input.ended) {
        if (!cell_host.allow_stdin || !atomic_load(&cell_host.run)) {
            if (!cell_host.told_stdin)
                host_note("input was asked for, and this client does not give any: the cell finds "
                          "its end");
            cell_host.told_stdin = true;
        } else if (ask(prompt, password) < 0) {
            errno = EINTR;
            got = -1;
        }
    }
    if (got == 0 && input.at < input.length) {
        size_t left = input.length - input.at;
        got = (ssize_t)(left < size ? left : size);
        memcpy(into, input.line + input.at, (size_t)got);
        input.at += (size_t)got;
    }
    pthread_mutex_unlock(&input.lock);
    return got;
}

static ssize_t read_stream(void *cookie, char *into, size_t size)
{
    (void)cookie;
    return input_read(into, size, "", false);
}

static ssize_t raw_read(int file, void *into, size_t size)
{
    ssize_t got;
    if (file == STDIN_FILENO && size > 0)
        got = input_read(into, size, "", false);
    else
        got = read(file, into, size);
    LEAVE_IF_WANTED();
    return got;
}

static bool take_password(const char *prompt, char *text, size_t size)
{
    ssize_t got = input_read(text, size - 1, prompt ? prompt : "", true);
    if (got <= 0) return false;
    text[got] = 0;
    text[strcspn(text, "\r\n")] = 0;
    return true;
}

static char *cell_getpass(const char *prompt)
{
    static char text[256];
    bool there = take_password(prompt, text, sizeof text);
    LEAVE_IF_WANTED();
    return there ? text : NULL;
}

/* cadre_read_password: the result is the cell's. */
static char *cell_read_password(const char *prompt)
{
    char text[4096];
    char *copy = take_password(prompt, text, sizeof text) ? strdup(text) : NULL;
    explicit_bzero(text, sizeof text);
    LEAVE_IF_WANTED();
    return copy;
}

/* What a cell has not read of a line is not meant for the next one. */
void input_start_cell(void)
{
    input.at = input.length = 0;
    input.ended = false;
    cell_host.told_stdin = false;
    if (ftrylockfile(cell_host.in) == 0) {
        clearerr(cell_host.in);
        cell_host.in->_IO_read_ptr = cell_host.in->_IO_read_end;
        funlockfile(cell_host.in);
    }
}

/* In a copy that takes over: the thread that may have held the lock is not here. */
void input_start_process(void)
{
    pthread_mutex_init(&input.lock, NULL);
}

int input_install(void)
{
    cell_host.in = fopencookie(NULL, "r", (cookie_io_functions_t){.read = read_stream});
    if (!cell_host.in) return CADRE_EMEMORY;
    stdin = cell_host.in;
    host_override("read", (void *)raw_read);
    host_override("getpass", (void *)cell_getpass);
    host_override("cadre_read_password", (void *)cell_read_password);
    return 0;
}
