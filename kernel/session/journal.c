/* Why the host had to be started anew, for later: in a file, and at the start of the next cell. */
#include "session/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* $XDG_STATE_HOME/cadre/kernel.log; empty: nowhere. */
static void journal_path(cadre_buffer *path)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        cadre_buffer_printf(path, "%s/cadre/kernel.log", state);
    else if (home && *home == '/' && access(home, X_OK) == 0)
        cadre_buffer_printf(path, "%s/.local/state/cadre/kernel.log", home);
}

static int open_journal(const char *path)
{
    enum { LARGEST = 1 << 20 };
    struct stat found;
    char *folder = strdup(path);
    if (!folder) return -1;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0700) < 0 && errno != EEXIST) break; /* then opening fails, too */
        *slash = '/';
    }
    free(folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    if (fstat(fd, &found) < 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        return -1;
    }
    /* Only the last are of interest, and kernels append whole lines. */
    if (found.st_size > LARGEST && ftruncate(fd, 0) < 0) return fd;
    return fd;
}

void journal_loss(front *self, const char *text)
{
    char date[64];
    time_t now = time(NULL);
    struct tm parts;
    cadre_buffer path = {0}, line = {0}, told = {0};
    localtime_r(&now, &parts);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %z", &parts);
    cadre_buffer_printf(&line, "%s kernel %ld: %s", date, (long)getpid(), text);
    for (size_t i = 0; i < line.length; i++)
        if ((unsigned char)line.data[i] < 0x20) line.data[i] = ' ';
    cadre_buffer_puts(&line, "\n");
    journal_path(&path);
    int fd = path.length && !path.failed ? open_journal(path.data) : -1;
    bool kept =
        fd >= 0 && !line.failed && write(fd, line.data, line.length) == (ssize_t)line.length;
    if (fd >= 0) close(fd);
    cadre_buffer_puts(&told, text);
    if (kept) cadre_buffer_printf(&told, " (log: %s)", path.data);
    free(self->loss);
    self->loss = cadre_buffer_steal(&told);
    cadre_buffer_free(&path);
    cadre_buffer_free(&line);
}
