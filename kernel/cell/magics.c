/* The table of magics, and what their handlers share. */
#include "cell/magics.h"

#include "cell/cell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int magic_help(magic_call *call);

/* WHOLE: only as %%; RAW text follows then, no words. STATE: what it does lasts. */
enum { LINE = 1, WHOLE = 2, STATE = 4, NO_WORDS = 8 };

static const struct magic {
    const char *name, *usage, *help;
    int (*handler)(magic_call *call);
    int flags;
} magics[] = {
    {"time", "%time STATEMENT",
     "runs the statement and prints its CPU and wall time; %%time: of the whole cell", magic_time,
     LINE | WHOLE | NO_WORDS},
    {"timeit", "%timeit [-n N] [-r R] STATEMENT",
     "runs the statement again and again (so that a run takes 0.2 s at least, 7 runs) and prints "
     "mean and deviation; %%timeit: the whole cell, whose names are then its own",
     magic_timeit, LINE | WHOLE | NO_WORDS},
    {"bash", "%%bash", "gives the rest of the cell to bash", magic_script, WHOLE},
    {"sh", "%%sh", "gives the rest of the cell to sh", magic_script, WHOLE},
    {"writefile", "%%writefile [-a] FILE", "writes (-a: appends) the rest of the cell to a file",
     magic_writefile, WHOLE},
    {"env", "%env [NAME | NAME=VALUE]", "shows the environment or a variable of it, or sets one",
     magic_env, LINE | NO_WORDS},
    {"cd", "%cd FOLDER", "goes to a folder: for files, programs and #include \"...\"", magic_cd,
     LINE},
    {"load", "%load FILE", "puts the text of a file into the cell", magic_load, LINE},
    {"run", "%run FILE.c", "runs a C file as if its text stood here", magic_run, LINE},
    {"save", "%save FILE.c", "writes the cells before this one as one C file that runs by itself",
     magic_save, LINE},
    {"store", "%store [-r | -d] [NAMES]",
     "keeps the values of variables over a restart; -r: takes them back, -d: forgets them; alone: "
     "lists them",
     magic_store, LINE},
    {"who", "%who", "lists the session's names with size, cell and declaration", magic_who, LINE},
    {"reset", "%reset", "takes all names and flags away: a new process, as after a start",
     magic_reset, LINE},
    {"params", "%params", "lists parameters: name, type, default, value and channel", magic_params,
     LINE},
    {"parameters", "%parameters {\"NAME\": VALUE}",
     "gives values to parameters, as papermill's injected cell does", NULL, LINE},
    {"snapshot", "%snapshot auto|always|never",
     "when a copy of the process is made that takes over if a cell crashes", magic_snapshot,
     LINE | WHOLE | STATE},
    {"asm", "%asm FUNCTION", "shows the machine code of a function (needs objdump)", magic_asm,
     LINE},
    {"cflags", "%cflags FLAGS",
     "flags for the compiler, from this cell on; %%cflags: this cell only", magic_cflags,
     LINE | WHOLE | STATE},
    {"ldflags", "%ldflags -lz", "libraries: -lz, -L/path, file.so", magic_ldflags,
     LINE | WHOLE | STATE},
    {"std", "%std gnu17", "the C standard: gnu17, c99, gnu2x", magic_std, LINE | WHOLE | STATE},
    {"include-path", "%include-path FOLDERS", "folders with headers", magic_include_path,
     LINE | WHOLE | STATE},
    {"pkg-config", "%pkg-config PACKAGES", "flags and libraries of installed packages",
     magic_pkg_config, LINE | WHOLE | STATE},
    {"help", "%help [NAME]", "this list, or one line of it", magic_help, LINE},
};
enum { MAGIC_COUNT = sizeof magics / sizeof *magics };

int magic_no_memory(const magic_call *call)
{
    return cadre_error_set(call->error, CADRE_EMEMORY, "no memory");
}

void magic_insert(magic_call *call, const char *text)
{
    cell_piece piece = {.text = text};
    CELL_PUSH(call->reading->arena, call->insert, piece);
}

void magic_insert_source(magic_call *call, size_t first, size_t end)
{
    cell_piece piece = {.first = first, .end = end};
    CELL_PUSH(call->reading->arena, call->insert, piece);
}

void magic_insert_call(magic_call *call, const char *prototype, const char *statement)
{
    magic_insert(call, cell_arena_printf(call->reading->arena, "{ extern %s; %s; }\n", prototype,
                                         statement));
}

char *magic_literal(magic_call *call, const char *text, size_t length)
{
    char *out = cell_arena_take(call->reading->arena, 8 * length + 3), *at = out;
    *at++ = '"';
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 32 || c == '"' || c == '\\' || c == '?' || c == 127)
            at += snprintf(at, 5, "\\%03o", c);
        else
            *at++ = (char)c;
        /* One line of C for each line of the text. */
        if (c == '\n' && i + 1 < length) at = stpcpy(at, "\"\n\"");
    }
    *at++ = '"';
    *at = 0;
    return out;
}

const char *magic_path(magic_call *call, const char *name)
{
    const char *folder = call->only_here->folder, *home = getenv("HOME");
    if (name[0] == '~' && (name[1] == '/' || !name[1]) && home)
        return cell_arena_printf(call->reading->arena, "%s%s", home, name + 1);
    if (name[0] == '/' || !folder) return name;
    return cell_arena_printf(call->reading->arena, "%s/%s", folder, name);
}

int magic_must_begin(magic_call *call)
{
    if (!call->reading->stream.count && call->at->source == 0) return 0;
    return cadre_error_set(call->error, CADRE_EINPUT,
                           "%%%%%s stands at the beginning of a cell and takes all of it",
                           call->name);
}

const char *cadre_magic_name(size_t index, const char **help)
{
    if (index >= sizeof magics / sizeof *magics) return NULL;
    if (help) *help = magics[index].help;
    return magics[index].name;
}

static int unknown(const char *name, size_t length, cadre_error *error)
{
    char known[600] = "";
    size_t used = 0;
    for (size_t i = 0; i < MAGIC_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%%%s", i ? ", " : "",
                                 magics[i].name);
    return cadre_error_set(error, CADRE_ENOTFOUND, "%%%.*s is no magic; there are: %s",
                           (int)(length < 100 ? length : 100), name, known);
}

static const struct magic *find(const char *name, size_t length)
{
    for (size_t i = 0; i < MAGIC_COUNT; i++)
        if (strlen(magics[i].name) == length && !memcmp(magics[i].name, name, length))
            return &magics[i];
    return NULL;
}

static int magic_help(magic_call *call)
{
    cadre_buffer text = {0};
    for (size_t i = 0; i < MAGIC_COUNT; i++)
        if (!call->words.count)
            cadre_buffer_printf(&text, "%-32s %s\n", magics[i].usage, magics[i].help);
    if (!call->words.count)
        cadre_buffer_printf(
            &text, "%-32s %s\n%s", "!COMMAND", "runs a command of the shell",
            "%% instead of % does it for one cell; //% NAME is the same as %NAME.\n");
    for (size_t i = 0; i < call->words.count; i++) {
        const char *name = call->words.items[i] + strspn(call->words.items[i], "%");
        const struct magic *one = find(name, strlen(name));
        if (!one) {
            cadre_buffer_free(&text);
            return unknown(name, strlen(name), call->error);
        }
        cadre_buffer_printf(&text, "%s\n    %s\n", one->usage, one->help);
    }
    char *shown = cadre_buffer_steal(&text);
    if (!shown) return magic_no_memory(call);
    magic_insert_call(call, "int printf(const char *, ...)",
                      cell_arena_printf(call->reading->arena, "printf(\"%%s\", %s)",
                                        magic_literal(call, shown, strlen(shown))));
    free(shown);
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Sets rest and its place: what follows the first `skip` bytes of the magic. */
static void set_rest(magic_call *call, size_t skip)
{
    const token *at = call->at;
    call->rest = at->text + skip;
    call->rest_length = at->length - skip;
    while (call->rest_length && is_blank(*call->rest))
        call->rest++, call->rest_length--, skip++;
    call->rest_offset = at->offset + skip;
    call->rest_end = at->end;
    while (call->rest_length && is_blank(call->rest[call->rest_length - 1]))
        call->rest_length--;
}

static int call_it(magic_call *call, const struct magic *one)
{
    call->name = one->name;
    if (call->here && !(one->flags & WHOLE))
        return cadre_error_set(call->error, CADRE_EINPUT, "%%%s has no form with two %%",
                               one->name);
    if (!call->here && !(one->flags & LINE))
        return cadre_error_set(call->error, CADRE_EINPUT,
                               "%s is written with two %% and stands at "
                               "the beginning of a cell",
                               one->usage);
    call->changes_state = !call->here && (one->flags & STATE);
    cell_state *state = call->state;
    if (call->here) call->state = NULL;
    int result = 0;
    if (!(one->flags & NO_WORDS) && !magic_split_words(call->rest, call->rest_length, &call->words))
        result = magic_no_memory(call);
    else if (one->handler)
        result = one->handler(call);
    cell_words_free(&call->words);
    call->state = state;
    return result;
}

int cell_magic_apply(magic_call *call)
{
    const char *text = call->at->text;
    size_t length = call->at->length, at = 0;
    if (length && *text == '!') {
        set_rest(call, 1);
        return magic_shell(call);
    }
    bool comment = length > 2 && text[0] == '/';
    if (comment) at = 2;
    call->here = at + 1 < length && text[at + 1] == '%';
    at += call->here ? 2 : 1;
    while (at < length && (text[at] == ' ' || text[at] == '\t'))
        at++;
    size_t name = at;
    while (at < length && !is_blank(text[at]) && text[at] != '{')
        at++;
    const struct magic *one = find(text + name, at - name);
    if (!one) return comment ? 0 : unknown(text + name, at - name, call->error);
    set_rest(call, at);
    return call_it(call, one);
}
