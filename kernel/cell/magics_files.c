/* %load and %run: text of files. */
#include "cell/magics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_LIMIT = 16 << 20 };

/* The file's text in the arena, or NULL with the error set. */
static char *read_text(magic_call *call, const char *name, size_t *length)
{
    struct stat about;
    char *text = NULL;
    int fd = open(magic_path(call, name), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        cadre_error_set(call->error, CADRE_EFILE, "%s: %s", name, strerror(errno));
        return NULL;
    }
    if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode) || about.st_size > FILE_LIMIT) {
        cadre_error_set(call->error, CADRE_EFILE, "%s is not a file of at most %d MB", name,
                        FILE_LIMIT >> 20);
        close(fd);
        return NULL;
    }
    text = cell_arena_take(call->reading->arena, (size_t)about.st_size + 1);
    *length = 0;
    while (*length < (size_t)about.st_size) {
        ssize_t n = read(fd, text + *length, (size_t)about.st_size - *length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        *length += (size_t)n;
    }
    close(fd);
    return text;
}

static const char *one_file(magic_call *call)
{
    if (call->words.count == 1)
        return cell_arena_copy(call->reading->arena, call->words.items[0],
                               strlen(call->words.items[0]));
    cadre_error_set(call->error, CADRE_EINPUT, "%%%s wants one file", call->name);
    return NULL;
}

int magic_load(magic_call *call)
{
    size_t length;
    const char *name = one_file(call);
    char *text = name ? read_text(call, name, &length) : NULL;
    if (!text) return call->error->code;
    cadre_buffer cell = {0};
    cadre_buffer_printf(&cell, "// %%load %s\n", name);
    cadre_buffer_append(&cell, text, length);
    json_t *whole = cell.failed ? NULL : json_stringn(cell.data, cell.length);
    cadre_buffer_free(&cell);
    if (!whole)
        return cadre_error_set(call->error, CADRE_EFORMAT, "%s holds no text in UTF-8", name);
    if (!call->cell->payload) call->cell->payload = json_array();
    int failed =
        json_array_append_new(call->cell->payload, json_pack("{sssosb}", "source", "set_next_input",
                                                             "text", whole, "replace", 1));
    return failed ? magic_no_memory(call) : 0;
}

int magic_run(magic_call *call)
{
    const char *name = one_file(call);
    if (!name) return call->error->code;
    call->insert->file_text = read_text(call, name, &call->insert->file_length);
    if (!call->insert->file_text) return call->error->code;
    call->insert->file = name;
    return 0;
}
