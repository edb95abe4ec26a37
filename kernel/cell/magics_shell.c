/* Programs, the environment and the folder: C that calls the host, where the user's process is. */
#include "cell/magics.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One argument of a program may have 128 KB. */
enum { COMMAND_LIMIT = 120000 };

/* cadre_hook_system is what cells get for system(): captured, and ended by an interrupt. */
static int insert_command(magic_call *call, const char *command, size_t length)
{
    if (length > COMMAND_LIMIT)
        return cadre_error_set(call->error, CADRE_EINPUT,
                               "a command has %d bytes at most, this one has %zu; write it to a "
                               "file with %%%%writefile and run that",
                               COMMAND_LIMIT, length);
    magic_insert_call(
        call, "int cadre_hook_system(const char *); extern void cadre_hook_status(int)",
        cell_arena_printf(call->reading->arena, "cadre_hook_status(cadre_hook_system(%s))",
                          magic_literal(call, command, length)));
    return 0;
}

int magic_shell(magic_call *call)
{
    if (!call->rest_length)
        return cadre_error_set(call->error, CADRE_EINPUT, "! wants a command of the shell");
    return insert_command(call, call->rest, call->rest_length);
}

int magic_script(magic_call *call)
{
    cadre_buffer command = {0};
    int failed = magic_must_begin(call);
    if (failed) return failed;
    cadre_buffer_printf(&command, "exec %s", call->name);
    for (size_t i = 0; i < call->words.count; i++) /* options, such as -e */
        cadre_buffer_printf(&command, " %s", call->words.items[i]);
    cadre_buffer_puts(&command, " -c '");
    for (size_t i = 0; i < call->reading->body_length; i++) {
        if (call->reading->body[i] == '\'')
            cadre_buffer_puts(&command, "'\\''");
        else
            cadre_buffer_append(&command, call->reading->body + i, 1);
    }
    cadre_buffer_puts(&command, "'");
    failed =
        command.failed ? magic_no_memory(call) : insert_command(call, command.data, command.length);
    cadre_buffer_free(&command);
    return failed;
}

int magic_writefile(magic_call *call)
{
    int failed = magic_must_begin(call);
    if (failed) return failed;
    bool append = call->words.count > 1 && !strcmp(call->words.items[0], "-a");
    if (call->words.count != (append ? 2 : 1))
        return cadre_error_set(call->error, CADRE_EINPUT, "it is %%%%writefile [-a] FILE");
    const char *name = call->words.items[append];
    cell_arena *arena = call->reading->arena;
    size_t length = call->reading->body_length;
    char *text = cell_arena_take(arena, length + 1);
    if (length) memcpy(text, call->reading->body, length);
    if (length && text[length - 1] != '\n') text[length++] = '\n';
    const char *path = name[0] == '~' ? magic_path(call, name) : name;
    magic_insert_call(call, "void cadre_hook_write(const char *, int, const char *, unsigned long)",
                      cell_arena_printf(arena, "cadre_hook_write(%s, %d, %s, %zuul)",
                                        magic_literal(call, path, strlen(path)), append,
                                        magic_literal(call, text, length), length));
    return 0;
}

int magic_env(magic_call *call)
{
    cell_arena *arena = call->reading->arena;
    const char *text = call->rest;
    size_t length = call->rest_length, name = 0;
    while (name < length && text[name] != '=' && text[name] != ' ' && text[name] != '\t')
        name++;
    size_t value = name;
    while (value < length && (text[value] == ' ' || text[value] == '\t'))
        value++;
    if (value < length && text[value] == '=') {
        value++;
    } else if (value == length) {
        value = SIZE_MAX;
    }
    if (length && !name)
        return cadre_error_set(call->error, CADRE_EINPUT, "it is %%env NAME=VALUE");
    magic_insert_call(
        call, "void cadre_hook_env(const char *, const char *)",
        cell_arena_printf(
            arena, "cadre_hook_env(%s, %s)", length ? magic_literal(call, text, name) : "0",
            value == SIZE_MAX ? "0" : magic_literal(call, text + value, length - value)));
    return 0;
}

/* The engine must know too, for an #include "..." below. A folder that the cell makes first is not
 * there yet: then the host says whether it can be entered. */
int magic_cd(magic_call *call)
{
    char real[PATH_MAX];
    struct stat about;
    if (call->words.count > 1)
        return cadre_error_set(call->error, CADRE_EINPUT, "%%cd wants one folder");
    const char *path = magic_path(call, call->words.count ? call->words.items[0] : "~");
    const char *to = realpath(path, real) ? real : path;
    if (stat(to, &about) == 0 && !S_ISDIR(about.st_mode))
        return cadre_error_set(call->error, CADRE_EFILE, "%%cd %s: %s", path, strerror(ENOTDIR));
    char *copy = strdup(to);
    if (!copy) return magic_no_memory(call);
    free(call->only_here->folder);
    call->only_here->folder = copy;
    magic_insert_call(call, "void cadre_hook_cd(const char *)",
                      cell_arena_printf(call->reading->arena, "cadre_hook_cd(%s)",
                                        magic_literal(call, to, strlen(to))));
    return 0;
}
