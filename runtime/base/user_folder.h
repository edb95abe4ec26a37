/* The user's own folders, as the XDG base directories say, and private ones made there. For
 * Cadre's own modules. */
#ifndef CADRE_USER_FOLDER_H
#define CADRE_USER_FOLDER_H

#include "base.h"

/* Appends `$VARIABLE/rest`, or `$HOME/below_home/rest`. False, with nothing appended: neither names
 * an absolute path, there is no such home (none is made for a user), or there is no memory.
 *
 *     cadre_user_path(&path, "XDG_STATE_HOME", ".local/state", "cadre/kernel.log") */
bool cadre_user_path(cadre_buffer *path, const char *variable, const char *below_home,
                     const char *rest);

/* Makes every folder above the last part of `path` that is missing, for its owner alone. 0, or -1
 * with errno. */
int cadre_make_folders_above(const char *path);

#endif
