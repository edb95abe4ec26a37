/* Preloaded into GNU as, makes it a server (warm.h): at the first read of its input, when all its
 * tables are built and its output file is open. */
#include "warm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static FILE *output;
static int served;

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) _exit(1);
    return function;
}

static void note_output(FILE *file, const char *mode)
{
    if (file && strchr(mode, 'w')) output = file;
}

static void before_read(FILE *file)
{
    if (served || file != stdin || !output) return;
    served = 1;
    const int targets[] = {STDIN_FILENO, fileno(output), STDERR_FILENO};
    warm_serve(targets, 3);
}

PUBLIC FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *(*real)(const char *, const char *);
    *(void **)&real = next("fopen");
    FILE *file = real(path, mode);
    note_output(file, mode);
    return file;
}

PUBLIC FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    FILE *(*real)(const char *, const char *);
    *(void **)&real = next("fopen64");
    FILE *file = real(path, mode);
    note_output(file, mode);
    return file;
}

#undef getc
PUBLIC int getc(FILE *file)
{
    static int (*real)(FILE *);
    before_read(file);
    if (!real) *(void **)&real = next("getc");
    return real(file);
}

PUBLIC int fgetc(FILE *file)
{
    static int (*real)(FILE *);
    before_read(file);
    if (!real) *(void **)&real = next("fgetc");
    return real(file);
}

PUBLIC size_t fread(void *restrict into, size_t size, size_t count, FILE *restrict file)
{
    static size_t (*real)(void *, size_t, size_t, FILE *);
    before_read(file);
    if (!real) *(void **)&real = next("fread");
    return real(into, size, count, file);
}

static void answer(int status, void *data)
{
    (void)data;
    if (!warm_is_child()) return;
    warm_answer((status & 255) << 8);
    _exit(status);
}

/* Before main's own handlers are registered, so that it runs after them: as has closed its output
 * by then. */
__attribute__((constructor)) static void answer_at_exit(void)
{
    on_exit(answer, NULL);
}
