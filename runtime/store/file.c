#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int fail(const char *path, const char *what, int number, cadre_error *error)
{
    return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "%s: %s", what, strerror(number));
}

/* A new file beside `path`; its name is put into *name (new). */
static int open_beside(const char *path, char **name, cadre_error *error)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t number = 0;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) < 0)
            number = (uint64_t)getpid() << 16 | (unsigned)attempt;
        const char *slash = strrchr(path, '/');
        int folder = slash ? (int)(slash - path + 1) : 0;
        /* The name of the file is left out: with it this one could be too long. */
        if (asprintf(name, "%.*s.cadre-%016llx.tmp", folder, path, (unsigned long long)number) <
            0) {
            *name = NULL;
            return cadre_error_set(error, CADRE_EMEMORY, "no memory to write %s", path);
        }
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) return fd;
        int number_of_error = errno;
        free(*name);
        *name = NULL;
        if (number_of_error != EEXIST && number_of_error != EINTR)
            return fail(path, "cannot be written", number_of_error, error);
    }
    return fail(path, "cannot be written", EEXIST, error);
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t put = write(fd, bytes, length);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -1;
        bytes += put;
        length -= (size_t)put;
    }
    return 0;
}

/* The new name is on the disk only when the folder is. Some file systems have no fsync of a
 * folder: the file itself is safe, so that is no failure. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

int cadre_write_file(const char *path, const void *bytes, size_t length, cadre_error *error)
{
    if (!path || !*path || (!bytes && length))
        return cadre_error_set(error, CADRE_EINPUT, "a file needs a path and bytes");
    char *name = NULL;
    int status = CADRE_OK;
    int fd = open_beside(path, &name, error);
    if (fd < 0) return fd;
    if (write_all(fd, bytes, length) < 0 || fsync(fd) < 0)
        status = fail(path, "cannot be written", errno, error);
    if (close(fd) < 0 && status == CADRE_OK) status = fail(path, "cannot be written", errno, error);
    if (status == CADRE_OK && rename(name, path) < 0)
        status = fail(path, "cannot be written", errno, error);
    if (status == CADRE_OK)
        sync_folder(path);
    else
        unlink(name);
    free(name);
    return status;
}
