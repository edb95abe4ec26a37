/* What the driver would call: `gcc -### ...` once per set of flags. cc1 must be called with the
 * driver's own additions (-imultiarch, what -march=native means here, hardening that a distribution
 * turned on), which only the driver knows. */
#include "kernel/cell/compile_internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const cadre_default_flags[] = {
    "-std=gnu17", "-O2", "-march=native", "-g", "-fPIC", "-fno-plt", "-ffunction-sections",
    "-fdata-sections", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-common",
    "-Wall", "-fdiagnostics-color=never",
    /* The options would be part of every object, -fplugin too. */
    "-gno-record-gcc-switches", NULL};

/* clang otherwise inlines and binds what a later cell may replace. */
static const char *const clang_flags[] = {"-fsemantic-interposition", NULL};

#define OUTPUT_NAME "cadre-output"
enum { MOST_SETS = 16, DRIVER_TIME_MS = 20000 };

typedef struct list {
    char **items;
    size_t count, capacity;
    bool failed;
} list;

static void list_add(list *to, const char *text)
{
    if (to->count + 2 > to->capacity) {
        size_t capacity = to->capacity ? to->capacity * 2 : 64;
        char **items = realloc(to->items, capacity * sizeof *items);
        if (!items) {
            to->failed = true;
            return;
        }
        to->items = items;
        to->capacity = capacity;
    }
    char *copy = strdup(text);
    if (!copy) {
        to->failed = true;
        return;
    }
    to->items[to->count++] = copy;
    to->items[to->count] = NULL;
}

static void strings_free(char **items)
{
    for (size_t i = 0; items && items[i]; i++)
        free(items[i]);
    free(items);
}

static void options_free_one(cadre_options *options)
{
    if (!options) return;
    strings_free(options->compile);
    strings_free(options->assemble);
    free(options->name);
    free(options->refused);
    free(options);
}

void cadre_options_free(cadre_options *options)
{
    while (options) {
        cadre_options *next = options->next;
        options_free_one(options);
        options = next;
    }
}

/* One command line as -### prints it: words, some in quotes with \" \\ and \$ escaped. */
static list parse_command(const char *line, size_t length)
{
    list words = {0};
    cadre_buffer word = {0};
    size_t i = 0;
    while (i < length) {
        if (line[i] == ' ') {
            i++;
            continue;
        }
        cadre_buffer_clear(&word);
        cadre_buffer_append(&word, "", 0);
        if (line[i] == '"') {
            for (i++; i < length && line[i] != '"'; i++) {
                if (line[i] == '\\' && i + 1 < length) i++;
                cadre_buffer_append(&word, &line[i], 1);
            }
            i++;
        } else {
            for (; i < length && line[i] != ' '; i++)
                cadre_buffer_append(&word, &line[i], 1);
            if (word.length == 1 && word.data[0] == '|') continue; /* -pipe: the next is `as` */
        }
        if (word.failed) words.failed = true;
        list_add(&words, word.data ? word.data : "");
    }
    cadre_buffer_free(&word);
    return words;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static size_t find_word(char *const *words, const char *word)
{
    size_t i = 0;
    while (words[i] && strcmp(words[i], word) != 0)
        i++;
    return i;
}

/* Value of a line "NAME=..." of the driver's talk, new, or NULL. */
static char *driver_variable(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; at && *at;) {
        if (strncmp(at, name, length) == 0) return strndup(at + length, strcspn(at + length, "\n"));
        at = strchr(at, '\n');
        if (at) at++;
    }
    return NULL;
}

/* "cc1" and "as" as the driver would find them: its own folders, then PATH. */
static bool resolve(char **word, const char *talk)
{
    char *folders = driver_variable(talk, "COMPILER_PATH=");
    char *found = folders && !strchr(*word, '/') ? cadre_program_find(*word, folders) : NULL;
    if (!found) found = cadre_program_find(*word, getenv("PATH"));
    free(folders);
    if (!found) return false;
    free(*word);
    *word = found;
    return true;
}

/* Takes the commands out of the driver's talk. Anything unexpected leaves direct false. */
static void take_commands(cadre_options *options, cadre_mode mode, const char *talk)
{
    list commands[3] = {{0}};
    size_t count = 0;
    bool good = true;
    for (const char *at = talk; *at;) {
        size_t length = strcspn(at, "\n");
        if (*at == ' ' && length > 1 && at[1] != '(') {
            if (count == 3) {
                good = false;
                break;
            }
            commands[count] = parse_command(at, length);
            if (commands[count].failed || !commands[count].count) good = false;
            count++;
        }
        at += length;
        if (*at) at++;
    }
    good = good && count == (mode == CADRE_MODE_OBJECT ? 2 : 1) &&
           strcmp(base_name(commands[0].items[0]), "cc1") == 0 &&
           commands[0].items[find_word(commands[0].items, "-")] &&
           resolve(&commands[0].items[0], talk);
    if (good && mode == CADRE_MODE_OBJECT) {
        size_t output = find_word(commands[0].items, "-o");
        good = commands[0].items[output] && commands[0].items[output + 1] &&
               strcmp(commands[0].items[output + 1], "-") == 0;
        options->assemble_output = find_word(commands[1].items, OUTPUT_NAME);
        good = good && commands[1].items[options->assemble_output] &&
               strcmp(base_name(commands[1].items[0]), "as") == 0 &&
               resolve(&commands[1].items[0], talk);
    }
    if (good) {
        options->direct = true;
        options->compile = commands[0].items;
        options->assemble = commands[1].items;
        commands[0].items = commands[1].items = NULL;
    }
    for (size_t i = 0; i < 3; i++)
        strings_free(commands[i].items);
}

static void hash_text(crypto_generichash_state *state, const char *text)
{
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

static void hash_file(crypto_generichash_state *state, const char *path)
{
    struct stat info;
    hash_text(state, path);
    if (stat(path, &info) < 0) return;
    int64_t facts[] = {(int64_t)info.st_size, (int64_t)info.st_ino, (int64_t)info.st_mtim.tv_sec,
                       (int64_t)info.st_mtim.tv_nsec};
    crypto_generichash_update(state, (const unsigned char *)facts, sizeof facts);
}

static void hash_programs(const cadre_compiler *compiler, const cadre_options *options,
                          unsigned char hash[CADRE_HASH_SIZE])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, CADRE_HASH_SIZE);
    hash_file(&state, compiler->path);
    if (options->direct) hash_file(&state, options->compile[0]);
    if (options->assemble) hash_file(&state, options->assemble[0]);
    crypto_generichash_final(&state, hash, CADRE_HASH_SIZE);
}

/* Calls the driver with -###: its talk, new, and whether it agreed. */
static char *ask_driver(const cadre_compiler *compiler, const list *arguments, bool *agreed,
                        cadre_error *error)
{
    cadre_child child = CADRE_CHILD_NONE, *children[] = {&child};
    char *talk = NULL;
    int fd = cadre_memory_file("driver", "", 0, "", 0, error);
    if (fd < 0) return NULL;
    cadre_child_file files[] = {{2, fd}};
    if (cadre_child_start(&child, compiler->path, arguments->items, NULL, files, 1, error) == 0 &&
        cadre_child_wait(children, 1, -1, cadre_clock_ms() + DRIVER_TIME_MS, error) == 0) {
        *agreed = child.status == 0;
        talk = cadre_memory_read(fd, NULL, error);
    }
    close(fd);
    return talk;
}

static list driver_arguments(const cadre_compiler *compiler, cadre_mode mode, bool clang,
                             const char *const *flags, size_t flag_count)
{
    list words = {0};
    list_add(&words, compiler->path);
    if (mode == CADRE_MODE_OBJECT) {
        if (!clang) list_add(&words, "-pipe");
        list_add(&words, "-c");
    } else {
        list_add(&words, "-E");
    }
    list_add(&words, "-x");
    list_add(&words, "c");
    for (size_t i = 0; cadre_default_flags[i]; i++)
        list_add(&words, cadre_default_flags[i]);
    for (size_t i = 0; clang && clang_flags[i]; i++)
        list_add(&words, clang_flags[i]);
    for (size_t i = 0; i < flag_count; i++)
        list_add(&words, flags[i]);
    list_add(&words, "-");
    if (mode == CADRE_MODE_OBJECT) {
        list_add(&words, "-o");
        list_add(&words, OUTPUT_NAME);
    }
    return words;
}

/* The driver's arguments for doing the work itself; the output is file 3. */
static void use_driver(cadre_options *options, cadre_mode mode, list *words)
{
    options->direct = false;
    if (mode == CADRE_MODE_OBJECT) {
        char **output = &words->items[words->count - 1];
        free(*output);
        *output = strdup("/proc/self/fd/3");
        if (!*output) words->failed = true;
    }
    options->compile = words->items;
    words->items = NULL;
}

static cadre_options *options_new(cadre_compiler *compiler, cadre_mode mode,
                                  const char *const *flags, size_t flag_count, cadre_error *error)
{
    char *talk = NULL;
    bool agreed = false;
    list words = {0};
    cadre_options *options = calloc(1, sizeof *options);
    if (!options) goto memory;
    for (int clang = 0; clang < 2; clang++) {
        strings_free(words.items);
        words = driver_arguments(compiler, mode, clang, flags, flag_count);
        if (words.failed) goto memory;
        list question = words;
        question.items = malloc((words.count + 2) * sizeof *question.items);
        if (!question.items) goto memory;
        memcpy(question.items, words.items, (words.count + 1) * sizeof *words.items);
        question.items[words.count] = (char *)"-###";
        question.items[words.count + 1] = NULL;
        free(talk);
        talk = ask_driver(compiler, &question, &agreed, error);
        free(question.items);
        if (!talk) goto failed;
        options->gcc = strstr(talk, "\ngcc version ") != NULL;
        if (options->gcc) break;
    }
    if (!agreed) {
        /* Only its complaints: the rest is what -v prints. */
        cadre_buffer text = {0};
        cadre_buffer_append(&text, "", 0);
        for (const char *at = talk; *at;) {
            size_t length = strcspn(at, "\n");
            if (memmem(at, length, "error: ", 7) || memmem(at, length, "warning: ", 9))
                cadre_buffer_printf(&text, "%.*s\n", (int)length, at);
            at += length + (at[length] != '\0');
        }
        options->refused = cadre_buffer_steal(&text);
        if (!options->refused) goto memory;
    } else {
        if (options->gcc) take_commands(options, mode, talk);
        if (!options->direct) use_driver(options, mode, &words);
        if (words.failed) goto memory;
        hash_programs(compiler, options, options->programs);
        crypto_generichash_state state;
        crypto_generichash_init(&state, NULL, 0, CADRE_HASH_SIZE);
        hash_text(&state, talk);
        crypto_generichash_update(&state, options->programs, CADRE_HASH_SIZE);
        crypto_generichash_final(&state, options->identity, CADRE_HASH_SIZE);
    }
    strings_free(words.items);
    free(talk);
    return options;
memory:
    cadre_error_set(error, CADRE_EMEMORY, "no memory for the compiler's options");
failed:
    strings_free(words.items);
    free(talk);
    options_free_one(options);
    return NULL;
}

static int make_name(cadre_buffer *name, cadre_mode mode, const char *const *flags,
                     size_t flag_count)
{
    cadre_buffer_append(name, mode == CADRE_MODE_OBJECT ? "c" : "E", 1);
    for (size_t i = 0; i < flag_count; i++)
        cadre_buffer_append(name, flags[i], strlen(flags[i]) + 1);
    return name->failed ? -1 : 0;
}

static void drop_least_used(cadre_compiler *compiler)
{
    cadre_options **least = NULL;
    size_t count = 0;
    for (cadre_options **at = &compiler->options; *at; at = &(*at)->next, count++)
        if (!least || (*at)->last_use < (*least)->last_use) least = at;
    if (count <= MOST_SETS) return;
    cadre_options *gone = *least;
    *least = gone->next;
    options_free_one(gone);
}

static int find_compiler(cadre_compiler *compiler, cadre_error *error)
{
    if (compiler->path && access(compiler->path, X_OK) == 0) return 0;
    free(compiler->path);
    compiler->path = cadre_program_find(compiler->program, getenv("PATH"));
    if (compiler->path) return 0;
    return cadre_error_set(error, CADRE_ENOTFOUND,
                           "the C compiler '%s' was not found%s; install it (on Debian and "
                           "Ubuntu: apt-get install gcc) and run the cell again",
                           compiler->program, strchr(compiler->program, '/') ? "" : " on PATH");
}

const cadre_options *cadre_options_get(cadre_compiler *compiler, cadre_mode mode,
                                       const char *const *flags, size_t flag_count,
                                       cadre_error *error)
{
    if (find_compiler(compiler, error) < 0) return NULL;
    cadre_buffer name = {0};
    if (make_name(&name, mode, flags, flag_count) < 0) {
        cadre_buffer_free(&name);
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the compiler's options");
        return NULL;
    }
    for (cadre_options **at = &compiler->options; *at; at = &(*at)->next) {
        cadre_options *options = *at;
        if (options->name_length != name.length || memcmp(options->name, name.data, name.length))
            continue;
        unsigned char programs[CADRE_HASH_SIZE];
        hash_programs(compiler, options, programs);
        if (memcmp(programs, options->programs, sizeof programs) != 0) {
            *at = options->next; /* the compiler was upgraded under us */
            options_free_one(options);
            break;
        }
        cadre_buffer_free(&name);
        options->last_use = ++compiler->clock;
        return options;
    }
    cadre_options *options = options_new(compiler, mode, flags, flag_count, error);
    if (!options) {
        cadre_buffer_free(&name);
        return NULL;
    }
    options->name_length = name.length;
    options->name = cadre_buffer_steal(&name);
    options->last_use = ++compiler->clock;
    options->next = compiler->options;
    compiler->options = options;
    drop_least_used(compiler);
    return options;
}
