#include "base/user_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cadre_user_path(cadre_buffer *path, const char *variable, const char *below_home,
                     const char *rest)
{
    const char *folder = getenv(variable), *home = getenv("HOME");
    if (folder && *folder == '/')
        cadre_buffer_printf(path, "%s/%s", folder, rest);
    else if (home && *home == '/' && access(home, X_OK) == 0)
        cadre_buffer_printf(path, "%s/%s/%s", home, below_home, rest);
    else
        return false;
    return !path->failed;
}

int cadre_make_folders_above(const char *path)
{
    char *copy = strdup(path);
    int status = copy ? 0 : -1;
    for (char *slash = copy && *copy ? strchr(copy + 1, '/') : NULL; slash && status == 0;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(copy, 0700) < 0 && errno != EEXIST) status = -1;
        *slash = '/';
    }
    int code = errno;
    free(copy);
    errno = code;
    return status;
}
