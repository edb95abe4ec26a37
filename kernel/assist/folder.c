#include "assist/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cadre_assist_folder_name(pid_t process, char *name, size_t size)
{
    const char *base = getenv("TMPDIR");
    bool usable = base && base[0] == '/' && strlen(base) < size / 2;
    snprintf(name, size, "%s/cadre-assist-%ld", usable ? base : "/tmp", (long)process);
}

void cadre_assist_folder_remove(const char *name)
{
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (fd < 0) return;
    DIR *folder = fstat(fd, &status) == 0 && status.st_uid == geteuid() ? fdopendir(fd) : NULL;
    if (!folder) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        (void)unlinkat(fd, entry->d_name, 0);
    closedir(folder);
    (void)rmdir(name);
}

bool cadre_assist_folder_make(const char *name)
{
    cadre_assist_folder_remove(name); /* of a process that had this number before */
    return mkdir(name, 0700) == 0;
}
