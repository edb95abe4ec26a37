#include "data_helper.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static pid_t owner;

static void remove_folder(void)
{
    DIR *open = getpid() == owner ? opendir(folder) : NULL;
    if (!open) return;
    for (struct dirent *entry; (entry = readdir(open));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            unlinkat(dirfd(open), entry->d_name, 0);
    closedir(open);
    rmdir(folder);
}

const char *helper_folder(void)
{
    if (owner == getpid()) return folder;
    snprintf(folder, sizeof folder, "/tmp/cadre-test-XXXXXX");
    if (!mkdtemp(folder)) abort();
    owner = getpid();
    atexit(remove_folder);
    return folder;
}

const char *helper_file(const void *bytes, size_t length)
{
    static char path[96];
    static int count;
    snprintf(path, sizeof path, "%s/%d.csv", helper_folder(), count++);
    FILE *file = fopen(path, "wbe");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) abort();
    return path;
}

cadre_table *helper_table(const char *text, cadre_error *error)
{
    return cadre_read_csv_with(helper_file(text, strlen(text)), NULL, error);
}

static uint64_t state = 0x9E3779B97F4A7C15u;

uint64_t helper_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
}

double helper_uniform(void)
{
    return (double)(int64_t)helper_random() / 9223372036854775808.0;
}
