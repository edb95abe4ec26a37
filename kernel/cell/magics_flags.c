/* Magics that change how cells are compiled. */
#include "cell/magics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { OUTPUT_LIMIT = 65536 };

/* Runs a program and takes its standard output; *status is its exit status, -1: did not run. */
static char *run(char *const *arguments, int *status)
{
    int ends[2];
    *status = -1;
    if (pipe2(ends, O_CLOEXEC) < 0) return NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    cadre_buffer out = {0};
    char part[4096];
    ssize_t n = 0;
    while (!failed && out.length < OUTPUT_LIMIT &&
           ((n = read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) cadre_buffer_append(&out, part, (size_t)n);
    close(ends[0]);
    int code = 0;
    while (!failed && waitpid(child, &code, 0) < 0 && errno == EINTR)
        ;
    if (!failed && WIFEXITED(code)) *status = WEXITSTATUS(code);
    cadre_buffer_puts(&out, "");
    return cadre_buffer_steal(&out);
}

/* Splits as a shell does with quotes and backslashes, nothing more. */
bool magic_split_words(const char *text, size_t length, cell_words *out)
{
    cadre_buffer word = {0};
    bool inside = false, good = true;
    char quote = 0;
    for (size_t i = 0; i <= length && good; i++) {
        char c = i < length ? text[i] : ' ';
        if (quote && i < length) {
            if (c == quote)
                quote = 0;
            else
                cadre_buffer_append(&word, &c, 1);
        } else if (c == '"' || c == '\'') {
            quote = c;
            inside = true;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            if (inside || word.length) good = cell_words_add(out, word.data ? word.data : "");
            cadre_buffer_clear(&word);
            inside = false;
        } else {
            if (c == '\\' && i + 1 < length) c = text[++i];
            cadre_buffer_append(&word, &c, 1);
        }
    }
    good = good && !word.failed;
    cadre_buffer_free(&word);
    return good;
}

static bool add_both(const magic_call *call, size_t offset, const char *text)
{
    cell_words *there = call->state ? (cell_words *)((char *)call->state + offset) : NULL;
    cell_words *here = (cell_words *)((char *)call->only_here + offset);
    if (there && !cell_words_has(there, text) && !cell_words_add(there, text)) return false;
    return cell_words_has(here, text) || cell_words_add(here, text);
}

/* A library's file: the real one behind libX.so, which may be a link or a linker script. */
static bool real_library(const char *path, char *out, size_t size)
{
    char real[PATH_MAX], text[512];
    if (!realpath(path, real)) return false;
    int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n < 4) return false;
    text[n] = 0;
    if (memcmp(text, "\177ELF", 4)) { /* GROUP ( /lib/.../libm.so.6 AS_NEEDED ( ... ) ) */
        char *start = strstr(text, "GROUP");
        if (!start) start = strstr(text, "INPUT");
        char *name = start ? strchr(start, '/') : NULL;
        if (!name) return false;
        name[strcspn(name, " \t\n)")] = 0;
        return snprintf(out, size, "%s", name) < (int)size;
    }
    return snprintf(out, size, "%s", real) < (int)size;
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static int find_library(const magic_call *call, const char *name)
{
    char path[PATH_MAX], real[PATH_MAX];
    for (size_t i = 0; i < call->only_here->link.count; i++) {
        const char *flag = call->only_here->link.items[i];
        if (strncmp(flag, "-L", 2)) continue;
        snprintf(path, sizeof path, "%s/lib%s.so", flag + 2, name);
        if (is_file(path) && real_library(path, real, sizeof real)) goto found;
    }
    char option[300];
    snprintf(option, sizeof option, "-print-file-name=lib%.200s.so", name);
    char *arguments[] = {call->engine->program, option, NULL};
    int status;
    char *answer = run(arguments, &status);
    if (answer) answer[strcspn(answer, "\n")] = 0;
    bool there = answer && answer[0] == '/' && real_library(answer, real, sizeof real);
    free(answer);
    if (!there)
        return cadre_error_set(call->error, CADRE_ENOTFOUND,
                               "-l%s: there is no shared library lib%s.so; install its "
                               "development package or give its folder with -L",
                               name, name);
found:
    return add_both(call, offsetof(cell_state, libraries), real)
               ? 0
               : cadre_error_set(call->error, CADRE_EMEMORY, "no memory");
}

static int add_link_flag(const magic_call *call, const char *flag)
{
    if (!add_both(call, offsetof(cell_state, link), flag))
        return cadre_error_set(call->error, CADRE_EMEMORY, "no memory");
    if (!strncmp(flag, "-l", 2) && flag[2]) return find_library(call, flag + 2);
    if (flag[0] != '-' && strstr(flag, ".so")) {
        char real[PATH_MAX];
        if (!real_library(flag, real, sizeof real))
            return cadre_error_set(call->error, CADRE_EFILE, "%s is no shared library", flag);
        add_both(call, offsetof(cell_state, libraries), real);
    }
    return 0;
}

static int add_compile_flag(const magic_call *call, const char *flag)
{
    static const char *const refused[] = {"-c",  "-S",  "-E", "-o",         "-M",
                                          "-MM", "-MD", "-x", "-save-temps"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!strcmp(flag, refused[i]))
            return cadre_error_set(call->error, CADRE_EINPUT,
                                   "%s decides what the compiler makes; cells need objects", flag);
    if (!strcmp(flag, "-fopenmp")) {
        int failed = find_library(call, "gomp");
        if (failed) return failed;
    }
    *call->flags_changed = true;
    return add_both(call, offsetof(cell_state, flags), flag)
               ? 0
               : cadre_error_set(call->error, CADRE_EMEMORY, "no memory");
}

int magic_cflags(magic_call *call)
{
    for (size_t i = 0; i < call->words.count; i++) {
        const char *flag = call->words.items[i];
        int failed = !strncmp(flag, "-l", 2) || !strncmp(flag, "-L", 2)
                         ? add_link_flag(call, flag)
                         : add_compile_flag(call, flag);
        if (failed) return failed;
    }
    return 0;
}

int magic_ldflags(magic_call *call)
{
    for (size_t i = 0; i < call->words.count; i++) {
        int failed = add_link_flag(call, call->words.items[i]);
        if (failed) return failed;
    }
    return 0;
}

static void drop_standard(cell_words *flags)
{
    size_t kept = 0;
    for (size_t i = 0; i < flags->count; i++) {
        if (!strncmp(flags->items[i], "-std=", 5))
            free(flags->items[i]);
        else
            flags->items[kept++] = flags->items[i];
    }
    flags->count = kept;
}

int magic_std(magic_call *call)
{
    char flag[64];
    if (call->words.count != 1)
        return cadre_error_set(call->error, CADRE_EINPUT, "%%std wants one name, such as gnu17");
    const char *name = call->words.items[0];
    snprintf(flag, sizeof flag, "-std=%.40s", strncmp(name, "-std=", 5) ? name : name + 5);
    if (call->state) drop_standard(&call->state->flags);
    drop_standard(&call->only_here->flags);
    return add_compile_flag(call, flag);
}

int magic_include_path(magic_call *call)
{
    for (size_t i = 0; i < call->words.count; i++) {
        char path[PATH_MAX], flag[PATH_MAX + 2];
        if (!realpath(magic_path(call, call->words.items[i]), path))
            return cadre_error_set(call->error, CADRE_EFILE, "%%include-path %s: %s",
                                   call->words.items[i], strerror(errno));
        snprintf(flag, sizeof flag, "-I%s", path);
        int failed = add_compile_flag(call, flag);
        if (failed) return failed;
    }
    return 0;
}

int magic_pkg_config(magic_call *call)
{
    char **arguments = calloc(call->words.count + 4, sizeof *arguments);
    if (!arguments) return cadre_error_set(call->error, CADRE_EMEMORY, "no memory");
    arguments[0] = "pkg-config";
    arguments[1] = "--cflags";
    arguments[2] = "--libs";
    for (size_t i = 0; i < call->words.count; i++)
        arguments[i + 3] = call->words.items[i];
    int status, failed = 0;
    char *answer = run(arguments, &status);
    free(arguments);
    magic_call flags = *call;
    flags.words = (cell_words){0};
    if (status != 0 || !answer || !magic_split_words(answer, strlen(answer), &flags.words))
        failed = cadre_error_set(call->error, CADRE_ENOTFOUND,
                                 status < 0 ? "%%pkg-config: the program pkg-config is not there"
                                            : "%%pkg-config: no package of that name is installed");
    else
        failed = magic_cflags(&flags);
    cell_words_free(&flags.words);
    free(answer);
    return failed;
}
