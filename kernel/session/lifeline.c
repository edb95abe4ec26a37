#include "session/lifeline.h"

#include "base/user_folder.h"
#include "session/front.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH = 16 };

typedef struct mark {
    long pid;
    uint64_t start;        /* of the process, in clock ticks since boot: pids come again */
    uint64_t kills, limit; /* cadre_host_memory at that time */
    char connection[PATH_MAX];
} mark;

/* When the process started; 0: there is none. */
static uint64_t start_of(long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    if (got <= 0) return 0;
    text[got] = 0;
    /* Field 22, counted behind the name, which may hold anything. */
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static bool read_mark(const char *path, mark *out)
{
    char line[PATH_MAX + 200];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = file >= 0 ? read(file, line, sizeof line - 1) : -1;
    if (file >= 0) close(file);
    if (got <= 0) return false;
    line[got] = 0;
    int at = 0;
    if (sscanf(line, "%ld %" SCNu64 " %" SCNu64 " %" SCNu64 " %n", &out->pid, &out->start,
               &out->kills, &out->limit, &at) != 4 ||
        !at || strlen(line + at) >= sizeof out->connection)
        return false;
    memcpy(out->connection, line + at, strlen(line + at) + 1);
    out->connection[strcspn(out->connection, "\n")] = 0;
    return true;
}

static void write_mark(front *self, const char *path, const char *connection)
{
    cadre_buffer line = {0}, fresh = {0};
    uint64_t kills, limit;
    cadre_host_memory(&kills, &limit);
    cadre_buffer_printf(&line, "%ld %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", (long)getpid(),
                        start_of(getpid()), kills, limit, connection);
    cadre_buffer_printf(&fresh, "%s.%ld", path, (long)getpid());
    int file = line.failed || fresh.failed
                   ? -1
                   : open(fresh.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0) {
        bool whole = write(file, line.data, line.length) == (ssize_t)line.length;
        whole = close(file) == 0 && whole;
        if (whole && rename(fresh.data, path) == 0)
            self->lifeline = strdup(path);
        else
            unlink(fresh.data);
    }
    cadre_buffer_free(&line);
    cadre_buffer_free(&fresh);
}

static void tell(front *self, const mark *before)
{
    char text[600], why[200] = "it was killed";
    uint64_t kills, limit;
    cadre_host_memory(&kills, &limit);
    if (kills > before->kills && before->limit)
        snprintf(why, sizeof why, "killed, as it seems, by its memory limit of %.1f GB",
                 (double)before->limit / (double)(1 << 30));
    else if (kills > before->kills)
        snprintf(why, sizeof why, "killed, as it seems, by the system, which had no memory left");
    snprintf(text, sizeof text,
             "The kernel before this one (process %ld) ended without a word: %s; all variables are "
             "lost",
             before->pid, why);
    journal_loss(self, text);
}

/* Marks whose kernel and connection file are gone: nobody will restart it. */
static void sweep(const char *folder)
{
    DIR *open_ = opendir(folder);
    for (const struct dirent *entry; open_ && (entry = readdir(open_));) {
        char path[PATH_MAX];
        mark found;
        const char *fresh = strchr(entry->d_name, '.'); /* HASH.PID: being written by that one */
        if (fresh == entry->d_name || (fresh && start_of(strtol(fresh + 1, NULL, 10))) ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        if (!read_mark(path, &found) ||
            (start_of(found.pid) != found.start && access(found.connection, F_OK) < 0))
            unlink(path);
    }
    if (open_) closedir(open_);
}

void lifeline_begin(front *self)
{
    cadre_buffer folder = {0}, path = {0};
    unsigned char hash[HASH];
    char hex[2 * HASH + 1], *connection = realpath(self->options->connection_file, NULL);
    mark before;
    if (!connection || strchr(connection, '\n') ||
        !cadre_user_path(&folder, "XDG_STATE_HOME", ".local/state", "cadre/running"))
        goto done;
    crypto_generichash(hash, HASH, (const unsigned char *)connection, strlen(connection), NULL, 0);
    sodium_bin2hex(hex, sizeof hex, hash, HASH);
    cadre_buffer_printf(&path, "%s/%s", folder.data, hex);
    if (path.failed || cadre_make_folders_above(path.data) < 0) goto done;
    sweep(folder.data);
    if (read_mark(path.data, &before) && !strcmp(before.connection, connection) &&
        start_of(before.pid) != before.start)
        tell(self, &before);
    write_mark(self, path.data, connection);
done:
    free(connection);
    cadre_buffer_free(&folder);
    cadre_buffer_free(&path);
}

void lifeline_end(front *self)
{
    if (self->lifeline) unlink(self->lifeline);
    free(self->lifeline);
    self->lifeline = NULL;
}
