#include "cell/stored.h"

#include "base/user_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HASH = 32, LINES = 6 };
#define MARK "cadre-store 1"
#define ENDING ".value"
#define SIZE_LIMIT ((size_t)1 << 40)

/* ---- places */

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < 200 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               length;
}

static int folder_path(cadre_buffer *path, cadre_error *error)
{
    if (!cadre_user_path(path, "XDG_DATA_HOME", ".local/share", "cadre/store"))
        return cadre_error_set(error, CADRE_EFILE,
                               "%%store needs a home: set HOME or XDG_DATA_HOME");
    return CADRE_OK;
}

static int file_path(cadre_buffer *path, const char *name, cadre_error *error)
{
    if (!is_name(name))
        return cadre_error_set(error, CADRE_EINPUT, "%%store: '%.100s' is no name of a variable",
                               name);
    int status = folder_path(path, error);
    cadre_buffer_printf(path, "/%s%s", name, ENDING);
    return path->failed ? cadre_error_set(error, CADRE_EMEMORY, "no memory") : status;
}

static int fail(const char *path, cadre_error *error)
{
    return cadre_error_set(error, CADRE_EFILE, "%%store: %s: %s", path, strerror(errno));
}

/* ---- one file */

static int write_all(int file, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length) {
        size_t some = length < (size_t)1 << 30 ? length : (size_t)1 << 30;
        ssize_t put = write(file, at, some);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return -1;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

static int write_file(const char *path, const cadre_buffer *head, const cell_stored *value,
                      cadre_error *error)
{
    cadre_buffer temporary = {0};
    crypto_generichash_state state;
    unsigned char hash[HASH];
    cadre_buffer_printf(&temporary, "%s.XXXXXX", path);
    if (temporary.failed) return cadre_error_set(error, CADRE_EMEMORY, "no memory");
    int file = mkostemp(temporary.data, O_CLOEXEC), status = CADRE_OK;
    if (file < 0) {
        status = fail(temporary.data, error);
        cadre_buffer_free(&temporary);
        return status;
    }
    crypto_generichash_init(&state, NULL, 0, HASH);
    crypto_generichash_update(&state, (const unsigned char *)head->data, head->length);
    crypto_generichash_update(&state, value->bytes, value->size);
    crypto_generichash_final(&state, hash, HASH);
    bool good = write_all(file, head->data, head->length) == 0 &&
                write_all(file, value->bytes, value->size) == 0 &&
                write_all(file, hash, HASH) == 0 && fsync(file) == 0;
    int code = errno;
    if (close(file) < 0 && good) {
        code = errno;
        good = false;
    }
    if (good && rename(temporary.data, path) < 0) {
        code = errno;
        good = false;
    }
    if (!good) {
        unlink(temporary.data);
        errno = code;
        status = fail(path, error);
    }
    cadre_buffer_free(&temporary);
    return status;
}

static void add_line(cadre_buffer *head, const char *text)
{
    for (; *text; text++)
        cadre_buffer_append(head, *text == '\n' ? " " : text, 1);
    cadre_buffer_puts(head, "\n");
}

int cell_stored_write(const cell_stored *value, cadre_error *error)
{
    cadre_buffer path = {0}, head = {0};
    char date[32], size[32];
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(size, sizeof size, "%zu", value->size);
    int status = file_path(&path, value->name, error);
    if (status == CADRE_OK && cadre_make_folders_above(path.data) < 0)
        status = fail(path.data, error);
    const char *const lines[LINES] = {MARK,          value->name, value->declaration,
                                      value->layout, size,        date};
    for (size_t i = 0; i < LINES; i++)
        add_line(&head, lines[i]);
    if (status == CADRE_OK && head.failed)
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory");
    if (status == CADRE_OK) status = write_file(path.data, &head, value, error);
    cadre_buffer_free(&path);
    cadre_buffer_free(&head);
    return status;
}

static unsigned char *read_file(const char *path, size_t *length, cadre_error *error)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0) {
        fail(path, error);
        if (errno == ENOENT) error->code = CADRE_ENOTFOUND;
        return NULL;
    }
    unsigned char *bytes = NULL;
    size_t have = 0;
    if (fstat(file, &about) < 0 || !S_ISREG(about.st_mode)) {
        cadre_error_set(error, CADRE_EFILE, "%%store: %s is no file", path);
        goto done;
    }
    size_t size = (size_t)about.st_size;
    if (!(bytes = malloc(size + 1))) {
        cadre_error_set(error, CADRE_EMEMORY, "%%store: no memory for %zu bytes", size);
        goto done;
    }
    while (have < size) {
        ssize_t got = read(file, bytes + have, size - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    bytes[have] = 0;
    *length = have;
done:
    close(file);
    return bytes;
}

/* Takes one line off the text; NULL: there is none. */
static char *take_line(char **at, const char *end)
{
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) return NULL;
    *stop = 0;
    *at = stop + 1;
    return line;
}

static bool parse(unsigned char *text, size_t length, const char *name, cell_stored *out)
{
    unsigned char hash[HASH];
    if (length < HASH) return false;
    crypto_generichash(hash, HASH, text, length - HASH, NULL, 0);
    if (sodium_memcmp(hash, text + length - HASH, HASH) != 0) return false;
    char *at = (char *)text, *end = at + length - HASH, *lines[LINES], *stop;
    for (size_t i = 0; i < LINES; i++)
        if (!(lines[i] = take_line(&at, end))) return false;
    unsigned long long size = strtoull(lines[4], &stop, 10);
    if (strcmp(lines[0], MARK) != 0 || strcmp(lines[1], name) != 0 || *stop || size > SIZE_LIMIT ||
        (size_t)(end - at) != size)
        return false;
    *out = (cell_stored){.name = strdup(name),
                         .declaration = strdup(lines[2]),
                         .layout = strdup(lines[3]),
                         .date = strdup(lines[5]),
                         .bytes = malloc((size_t)size + 1),
                         .size = (size_t)size};
    if (!out->name || !out->declaration || !out->layout || !out->date || !out->bytes) return false;
    memcpy(out->bytes, at, out->size);
    return true;
}

int cell_stored_read(const char *name, cell_stored *out, cadre_error *error)
{
    cadre_buffer path = {0};
    size_t length = 0;
    *out = (cell_stored){0};
    int status = file_path(&path, name, error);
    if (status == CADRE_OK) {
        unsigned char *text = read_file(path.data, &length, error);
        if (!text)
            status = error->code;
        else if (!parse(text, length, name, out))
            status = cadre_error_set(error, CADRE_EFORMAT,
                                     "%%store: %s is damaged; `%%store -d %s` removes it",
                                     path.data, name);
        free(text);
    }
    if (status == CADRE_ENOTFOUND)
        cadre_error_set(error, status, "%%store: nothing is stored under the name %s", name);
    if (status < 0) cell_stored_free(out);
    cadre_buffer_free(&path);
    return status;
}

void cell_stored_free(cell_stored *value)
{
    free(value->name);
    free(value->declaration);
    free(value->layout);
    free(value->date);
    free(value->bytes);
    *value = (cell_stored){0};
}

int cell_stored_remove(const char *name, cadre_error *error)
{
    cadre_buffer path = {0};
    int status = file_path(&path, name, error);
    if (status == CADRE_OK && unlink(path.data) < 0) {
        status = errno == ENOENT ? CADRE_ENOTFOUND : CADRE_EFILE;
        if (status == CADRE_ENOTFOUND)
            cadre_error_set(error, status, "%%store: nothing is stored under the name %s", name);
        else
            fail(path.data, error);
    }
    cadre_buffer_free(&path);
    return status;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

char **cell_stored_names(void)
{
    cadre_buffer path = {0};
    cadre_error ignored;
    size_t count = 0, capacity = 16;
    char **names = calloc(capacity + 1, sizeof *names);
    DIR *folder = folder_path(&path, &ignored) == CADRE_OK ? opendir(path.data) : NULL;
    cadre_buffer_free(&path);
    for (const struct dirent *entry; names && folder && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name), tail = strlen(ENDING);
        if (length <= tail || strcmp(entry->d_name + length - tail, ENDING) != 0) continue;
        if (count == capacity) {
            char **more = realloc(names, (2 * capacity + 1) * sizeof *names);
            if (!more) break;
            names = more;
            capacity *= 2;
        }
        if ((names[count] = strndup(entry->d_name, length - tail))) count++;
        names[count] = NULL;
    }
    if (folder) closedir(folder);
    if (names) qsort(names, count, sizeof *names, by_text);
    return names;
}
