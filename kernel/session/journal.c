/* Why the host had to be started anew, for later: in a file, and at the start of the next cell. */
#include "base/user_folder.h"
#include "session/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int open_journal(const char *path)
{
    enum { LARGEST = 1 << 20 };
    struct stat found;
    /* If this fails, opening does, too. */
    (void)cadre_make_folders_above(path);
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
    bool has_place = cadre_user_path(&path, "XDG_STATE_HOME", ".local/state", "cadre/kernel.log");
    int fd = has_place ? open_journal(path.data) : -1;
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
