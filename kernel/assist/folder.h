/* The folder of temporary files of one cadre-assist: libclang keeps its precompiled preamble on
 * disk. Its name follows from the process, so that whoever outlives the other can remove it. */
#ifndef CADRE_ASSIST_FOLDER_H
#define CADRE_ASSIST_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void cadre_assist_folder_name(pid_t process, char *name, size_t size);
/* Makes it anew, for this user alone. */
bool cadre_assist_folder_make(const char *name);
/* With all files in it; only if it is this user's. Nothing happens when there is none. */
void cadre_assist_folder_remove(const char *name);

#endif
