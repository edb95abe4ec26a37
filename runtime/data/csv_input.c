#include "base/interrupt.h"
#include "data/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_file(const char *path, int number, const char *what, cadre_error *error)
{
    return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "%s: %s", what, strerror(number));
}

/* Has the wait for a pipe, or a file without end, been given up? */
static bool is_stopped(const char *path, cadre_error *error)
{
    if (!cadre_interrupt_requested()) return false;
    cadre_error_set(error, CADRE_EINTERRUPT, "interrupted while reading %s", path);
    return true;
}

/* A pipe can be read once and the reader may need two passes. */
static int copy_to_memory(csv_input *input, cadre_error *error)
{
    int copy = memfd_create("cadre-csv", MFD_CLOEXEC), status = 0;
    if (copy < 0) return fail_file(input->path, errno, "no memory to copy it", error);
    for (;;) {
        if (is_stopped(input->path, error)) {
            status = CADRE_EINTERRUPT;
            break;
        }
        ssize_t got = read(input->fd, input->window, input->capacity);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = fail_file(input->path, errno, "cannot be read", error);
        if (got <= 0) break;
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(copy, input->window + done, (size_t)(got - done));
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) {
                status = fail_file(input->path, errno, "no memory to copy it", error);
                break;
            }
            done += put;
            input->size += put;
        }
        if (status < 0) break;
    }
    close(input->fd);
    input->fd = copy;
    return status;
}

int cadre_csv_open(csv_input *input, const char *path, cadre_error *error)
{
    *input = (csv_input){.path = path, .line = 1};
    do {
        if (is_stopped(path, error)) return CADRE_EINTERRUPT;
        input->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    } while (input->fd < 0 && errno == EINTR);
    if (input->fd < 0) return fail_file(path, errno, "cannot be opened", error);
    struct stat info;
    if (fstat(input->fd, &info) < 0) return fail_file(path, errno, "cannot be read", error);
    if (S_ISDIR(info.st_mode))
        return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "is a folder, not a CSV file");
    input->capacity = CSV_WINDOW;
    input->window = malloc(input->capacity + CSV_PADDING);
    if (!input->window) return cadre_error_set(error, CADRE_EMEMORY, "no memory to read %s", path);
    input->size = S_ISREG(info.st_mode) ? info.st_size : 0;
    if (!S_ISREG(info.st_mode) && copy_to_memory(input, error) < 0) return error->code;
    cadre_csv_seek(input, 0, 1);
    return 0;
}

void cadre_csv_seek(csv_input *input, off_t offset, long line)
{
    input->offset = offset;
    input->line = line;
    input->at = input->end = input->window;
    input->window[0] = 0;
    input->at_end = false;
}

/* How often '\n' is in a block of 16 * count bytes, count at most 255. */
static size_t count_newlines(const char *bytes, size_t count)
{
    const __m128i newline = _mm_set1_epi8('\n');
    __m128i found = _mm_setzero_si128();
    for (size_t i = 0; i < count; i++) {
        __m128i block = _mm_loadu_si128((const __m128i *)(bytes + 16 * i));
        found = _mm_sub_epi8(found, _mm_cmpeq_epi8(block, newline));
    }
    found = _mm_sad_epu8(found, _mm_setzero_si128());
    return (size_t)_mm_cvtsi128_si64(found) + (size_t)_mm_extract_epi16(found, 4);
}

int cadre_csv_count_lines(const csv_input *input, size_t *lines, cadre_error *error)
{
    enum { STEP = 16 * 255, BLOCK = 16 * STEP };
    char block[BLOCK];
    *lines = 1; /* the last one may lack its newline */
    for (off_t offset = 0;;) {
        if (is_stopped(input->path, error)) return CADRE_EINTERRUPT;
        ssize_t got = pread(input->fd, block, sizeof block, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_file(input->path, errno, "cannot be read", error);
        if (got == 0) return CADRE_OK;
        offset += got;
        size_t filled = ((size_t)got + 15) / 16 * 16;
        memset(block + got, 0, filled - (size_t)got);
        for (size_t at = 0; at < filled; at += STEP)
            *lines += count_newlines(block + at, (filled - at < STEP ? filled - at : STEP) / 16);
    }
}

/* Room for more than the unread part: a row longer than the window makes it grow. */
static int make_room(csv_input *input, cadre_error *error)
{
    size_t kept = (size_t)(input->end - input->at);
    if (kept > CSV_ROW_LIMIT)
        return cadre_csv_fail(input, CADRE_EFORMAT, input->at, error,
                              "this row has more than %zu MB; is a quote not closed?",
                              CSV_ROW_LIMIT >> 20);
    if (kept <= input->capacity / 2) {
        memmove(input->window, input->at, kept);
    } else {
        size_t capacity = input->capacity * 2;
        char *window = malloc(capacity + CSV_PADDING);
        if (!window)
            return cadre_error_set(error, CADRE_EMEMORY, "no memory for a row of %s", input->path);
        memcpy(window, input->at, kept);
        free(input->window);
        input->window = window;
        input->capacity = capacity;
    }
    input->at = input->window;
    input->end = input->window + kept;
    return 0;
}

int cadre_csv_refill(csv_input *input, cadre_error *error)
{
    if (make_room(input, error) < 0) return error->code;
    char *end = (char *)input->end;
    size_t room = input->capacity - (size_t)(end - input->window);
    if (input->size - input->offset < (off_t)room) room = (size_t)(input->size - input->offset);
    ssize_t got;
    if (is_stopped(input->path, error)) return CADRE_EINTERRUPT;
    do
        got = pread(input->fd, end, room, input->offset);
    while (got < 0 && errno == EINTR);
    if (got < 0) return fail_file(input->path, errno, "cannot be read", error);
    end += got;
    input->offset += got;
    if (got == 0 || input->offset == input->size) {
        input->at_end = true;
        if (end > input->at && end[-1] != '\n') *end++ = '\n';
    }
    input->end = end;
    memset(end, 0,
           (size_t)(input->window + input->capacity + CSV_PADDING - end) < CSV_PADDING
               ? (size_t)(input->window + input->capacity + CSV_PADDING - end)
               : CSV_PADDING);
    return 0;
}

int cadre_csv_fail(const csv_input *input, int code, const char *where, cadre_error *error,
                   const char *format, ...)
{
    long line = input->line;
    const char *start = input->at;
    for (const char *at = start; (at = memchr(at, '\n', (size_t)(where - at))); start = at)
        line++, at++;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cadre_error_set_at(error, code, input->path, line, where - start + 1, "%s", text);
}

void cadre_csv_close(csv_input *input)
{
    if (input->fd >= 0) close(input->fd);
    free(input->window);
    input->window = NULL;
    input->fd = -1;
}
