/* Shared libraries for the units that our loader must refuse (thread-local storage, IFUNC): the
 * driver links them into a private folder, from where the host opens them. */
#include "kernel/cell/compile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A folder only we can enter, on a file system that allows dlopen. */
static int make_private_folder(cadre_compiler *compiler, cadre_error *error)
{
    if (compiler->private_folder && access(compiler->private_folder, W_OK | X_OK) == 0) return 0;
    free(compiler->private_folder);
    compiler->private_folder = NULL;
    const char *candidates[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp", "/var/tmp",
                                "/dev/shm"};
    int code = ENOENT;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        struct statvfs info;
        if (!candidates[i] || candidates[i][0] != '/') continue;
        if (statvfs(candidates[i], &info) < 0 || info.f_flag & (ST_NOEXEC | ST_RDONLY)) continue;
        cadre_buffer name = {0};
        cadre_buffer_printf(&name, "%s/cadre-compile-XXXXXX", candidates[i]);
        if (name.failed) continue;
        if (mkdtemp(name.data)) { /* 0700 */
            compiler->private_folder = cadre_buffer_steal(&name);
            return 0;
        }
        code = errno;
        cadre_buffer_free(&name);
    }
    return cadre_error_set(error, CADRE_EFILE,
                           "no folder to link a shared library in (tried XDG_RUNTIME_DIR, TMPDIR, "
                           "/tmp, /var/tmp): %s",
                           strerror(code));
}

static int write_object(const char *path, const cadre_verdict *object, cadre_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t done = 0;
    bool good = fd >= 0;
    while (good && done < object->object_length) {
        ssize_t count = write(fd, object->object + done, object->object_length - done);
        if (count < 0 && errno == EINTR) continue;
        good = count > 0;
        if (good) done += (size_t)count;
    }
    int code = errno;
    if (fd >= 0 && close(fd) < 0 && good) {
        good = false;
        code = errno;
    }
    if (good) return 0;
    return cadre_error_set(error, CADRE_EFILE, "cannot write %s: %s", path, strerror(code));
}

/* The names of our files mean nothing to the user. */
static void remove_folder_name(char *text, const char *folder)
{
    size_t length = strlen(folder);
    for (char *at = strstr(text, folder); at; at = strstr(at, folder)) {
        size_t cut = length + (at[length] == '/');
        memmove(at, at + cut, strlen(at + cut) + 1);
    }
}

static char **link_arguments(const cadre_compiler *compiler, const cadre_compile_request *request,
                             const char *object, const char *library)
{
    size_t defaults = 0, count = 0;
    while (cadre_default_flags[defaults])
        defaults++;
    char **words =
        malloc((defaults + request->flag_count + request->link_flag_count + 8) * sizeof *words);
    if (!words) return NULL;
    words[count++] = compiler->path;
    words[count++] = (char *)"-shared";
    for (size_t i = 0; i < defaults; i++)
        words[count++] = (char *)cadre_default_flags[i];
    for (size_t i = 0; i < request->flag_count; i++)
        words[count++] = (char *)request->flags[i];
    words[count++] = (char *)"-o";
    words[count++] = (char *)library;
    words[count++] = (char *)object;
    for (size_t i = 0; i < request->link_flag_count; i++)
        words[count++] = (char *)request->link_flags[i];
    words[count] = NULL;
    return words;
}

static int append_text(char **text, const char *more)
{
    size_t length = *text ? strlen(*text) : 0, extra = strlen(more);
    char *both = realloc(*text, length + extra + 1);
    if (!both) return -1;
    memcpy(both + length, more, extra + 1);
    *text = both;
    return 0;
}

int cadre_link_shared(cadre_compiler *compiler, const cadre_compile_request *request,
                      const cadre_verdict *object, int64_t deadline, cadre_compile_result *result,
                      cadre_error *error)
{
    cadre_buffer object_path = {0}, library_path = {0}, temporary = {0};
    char **words = NULL, **environment = NULL;
    char *text = NULL;
    int text_fd = -1;
    cadre_child child = CADRE_CHILD_NONE, *children[] = {&child};
    int code = make_private_folder(compiler, error);
    if (code < 0) return code;

    unsigned long number = ++compiler->library_count;
    cadre_buffer_printf(&object_path, "%s/cell%lu.o", compiler->private_folder, number);
    cadre_buffer_printf(&library_path, "%s/cell%lu.so", compiler->private_folder, number);
    cadre_buffer_printf(&temporary, "TMPDIR=%s", compiler->private_folder);
    if (object_path.failed || library_path.failed || temporary.failed) {
        code = cadre_error_set(error, CADRE_EMEMORY, "no memory to link");
        goto done;
    }
    words = link_arguments(compiler, request, object_path.data, library_path.data);
    environment = cadre_child_environment(temporary.data, NULL);
    if (!words || !environment) {
        code = cadre_error_set(error, CADRE_EMEMORY, "no memory to link");
        goto done;
    }
    code = write_object(object_path.data, object, error);
    if (code < 0) goto done;
    code = text_fd = cadre_memory_file("linker", "", 0, "", 0, error);
    if (code < 0) goto done;
    cadre_child_file files[] = {{2, text_fd}, {1, text_fd}};
    code = cadre_child_start(&child, words[0], words, environment, files, 2, error);
    if (code == 0) code = cadre_child_wait(children, 1, request->cancel_fd, deadline, error);
    if (code == 0) code = cadre_verdict_from_status(words[0], child.status, &result->ok, error);
    if (code < 0) goto done;
    text = cadre_memory_read(text_fd, NULL, error);
    if (!text) {
        code = CADRE_EMEMORY;
        goto done;
    }
    remove_folder_name(text, compiler->private_folder);
    if (!result->ok && strstr(text, "No space left on device"))
        code = cadre_error_set(error, CADRE_EFILE,
                               "the disk is full: no room to link a shared library in %s",
                               compiler->private_folder);
    else if (append_text(&result->diagnostics, text) < 0)
        code = cadre_error_set(error, CADRE_EMEMORY, "no memory for the linker's messages");
    if (code == 0 && result->ok) result->library_path = cadre_buffer_steal(&library_path);
done:
    if (library_path.data && (code < 0 || !result->ok)) unlink(library_path.data);
    if (object_path.data) unlink(object_path.data);
    if (text_fd >= 0) close(text_fd);
    cadre_buffer_free(&object_path);
    cadre_buffer_free(&library_path);
    cadre_buffer_free(&temporary);
    free(words);
    free(environment);
    free(text);
    return code;
}
