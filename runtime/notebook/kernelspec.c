#include "notebook/kernelspec.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *format(const char *pattern, const char *left, const char *right)
{
    char *text = NULL;
    return asprintf(&text, pattern, left, right) < 0 ? NULL : text;
}

char *cadre_jupyter_data_folder(void)
{
    const char *folder = variable("JUPYTER_DATA_DIR"), *home = variable("HOME");
    if (folder) return strdup(folder);
    if (variable("XDG_DATA_HOME")) return format("%s/%s", variable("XDG_DATA_HOME"), "jupyter");
    return home ? format("%s/%s", home, ".local/share/jupyter") : NULL;
}

/* ---- looking for a spec ---- */

typedef struct spec_search {
    const char *name;
    cadre_kernelspec *spec;
    cadre_buffer installed; /* names for the message when there is none */
    int status;
    cadre_error *error;
} spec_search;

static void load(spec_search *search, const char *kernels, const char *entry)
{
    json_error_t where;
    char *file = NULL;
    char *folder = format("%s/%s", kernels, entry);
    if (folder) file = format("%s/%s", folder, "kernel.json");
    if (!file || access(file, R_OK) < 0) goto done;
    if (strcasecmp(entry, search->name) != 0) {
        cadre_buffer_printf(&search->installed, "%s%s", search->installed.length ? ", " : "",
                            entry);
        goto done;
    }
    json_t *json = json_load_file(file, 0, &where);
    if (!json_is_object(json)) {
        json_decref(json);
        search->status =
            cadre_error_set_at(search->error, CADRE_EFORMAT, file, where.line > 0 ? where.line : 1,
                               0, "the kernelspec is not JSON: %s", where.text);
        goto done;
    }
    static const char below[] = "/share/jupyter/kernels";
    size_t length = strlen(kernels), tail = sizeof below - 1;
    cadre_kernelspec *spec = search->spec;
    spec->json = json;
    spec->name = strdup(entry);
    spec->folder = folder;
    folder = NULL;
    if (length > tail && strcmp(kernels + length - tail, below) == 0)
        spec->prefix = strndup(kernels, length - tail);
    search->status = 1;
done:
    free(file);
    free(folder);
}

static void look_in(spec_search *search, const char *data_folder)
{
    if (search->status != CADRE_OK || !data_folder || !*data_folder) return;
    char *kernels = format("%s/%s", data_folder, "kernels");
    DIR *folder = kernels ? opendir(kernels) : NULL;
    struct dirent *entry;
    while (folder && search->status == CADRE_OK && (entry = readdir(folder)))
        if (entry->d_name[0] != '.') load(search, kernels, entry->d_name);
    if (folder) closedir(folder);
    free(kernels);
}

static void look_below(spec_search *search, const char *prefix)
{
    char *folder = prefix ? format("%s/%s", prefix, "share/jupyter") : NULL;
    look_in(search, folder);
    free(folder);
}

static void look_everywhere(spec_search *search)
{
    const char *path = variable("JUPYTER_PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *folder = strndup(path, length);
        look_in(search, folder);
        free(folder);
        path += length + (path[length] == ':');
    }
    char *user = cadre_jupyter_data_folder();
    look_in(search, user);
    free(user);
    look_below(search, variable("VIRTUAL_ENV"));
    look_below(search, variable("CONDA_PREFIX"));
    look_in(search, CADRE_DATADIR "/jupyter");
    look_below(search, "/usr/local");
    look_below(search, "/usr");
}

int cadre_kernelspec_find(const char *name, cadre_kernelspec *spec, cadre_error *error)
{
    *spec = (cadre_kernelspec){0};
    spec_search search = {.name = name, .spec = spec, .error = error};
    look_everywhere(&search);
    int status = search.status < 0 ? search.status : CADRE_OK;
    if (search.status == CADRE_OK)
        status = cadre_error_set(error, CADRE_ENOTFOUND,
                                 "the kernel '%s' is not installed; installed are: %s", name,
                                 search.installed.length ? search.installed.data : "none");
    cadre_buffer_free(&search.installed);
    return status;
}

void cadre_kernelspec_clear(cadre_kernelspec *spec)
{
    free(spec->name);
    free(spec->folder);
    free(spec->prefix);
    json_decref(spec->json);
    *spec = (cadre_kernelspec){0};
}

/* ---- argv and environment ---- */

void cadre_words_free(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

/* Replaces {connection_file}, {resource_dir} and {prefix}; other braces stay. */
static char *fill_word(const char *word, const cadre_kernelspec *spec, const char *connection_file)
{
    const char *own = strstr(CADRE_DATADIR, "/share") ? CADRE_BINDIR "/.." : CADRE_DATADIR;
    const struct {
        const char *name, *value;
    } keys[] = {{"{connection_file}", connection_file},
                {"{resource_dir}", spec->folder},
                {"{prefix}", spec->prefix ? spec->prefix : own}};
    cadre_buffer text = {0};
    while (*word) {
        size_t i, count = sizeof keys / sizeof *keys;
        for (i = 0; i < count; i++)
            if (strncmp(word, keys[i].name, strlen(keys[i].name)) == 0) break;
        if (i == count) {
            cadre_buffer_append(&text, word++, 1);
            continue;
        }
        cadre_buffer_puts(&text, keys[i].value);
        word += strlen(keys[i].name);
    }
    return cadre_buffer_steal(&text);
}

/* Kernelspecs of Python say "python" and mean the one of the environment they are in. */
static char *own_program(char *program, const cadre_kernelspec *spec)
{
    if (strchr(program, '/') || strncmp(program, "python", 6) != 0 || !spec->prefix) return program;
    char *bin = format("%s/bin/%s", spec->prefix, program);
    if (!bin || access(bin, X_OK) < 0) {
        free(bin);
        return program;
    }
    free(program);
    return bin;
}

char **cadre_kernelspec_argv(const cadre_kernelspec *spec, const char *connection_file,
                             cadre_error *error)
{
    const json_t *argv = json_object_get(spec->json, "argv");
    size_t count = json_array_size(argv);
    bool uses_file = false;
    char **words = calloc(count + 1, sizeof *words);
    if (!words) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a command line");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        if (!word) {
            count = 0;
            break;
        }
        uses_file = uses_file || strstr(word, "{connection_file}");
        words[i] = fill_word(word, spec, connection_file);
        if (words[i] && i == 0) words[i] = own_program(words[i], spec);
        if (!words[i]) {
            cadre_error_set(error, CADRE_EMEMORY, "no memory for a command line");
            cadre_words_free(words);
            return NULL;
        }
    }
    if (count == 0 || !uses_file) {
        cadre_error_set_at(error, CADRE_EFORMAT, spec->folder, 0, 0,
                           "kernel.json has no argv with {connection_file}");
        cadre_words_free(words);
        return NULL;
    }
    return words;
}

/* ${NAME} from this process's environment; what is not set stays as it is, as Jupyter does. */
static void append_expanded(cadre_buffer *text, const char *value)
{
    while (*value) {
        size_t length = strncmp(value, "${", 2) == 0 ? strcspn(value, "}") : 0;
        char *name = length && value[length] == '}' ? strndup(value + 2, length - 2) : NULL;
        const char *found = name ? getenv(name) : NULL;
        free(name);
        if (found) {
            cadre_buffer_puts(text, found);
            value += length + 1;
        } else {
            cadre_buffer_append(text, value++, 1);
        }
    }
}

static bool names(const char *entry, const char *name, size_t length)
{
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* Adds "NAME=value" (stolen) or puts it in the place of an older one. */
static size_t put(char **words, size_t count, char *entry)
{
    if (!entry) return count;
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < count; i++) {
        if (!names(words[i], entry, length)) continue;
        free(words[i]);
        words[i] = entry;
        return count;
    }
    words[count] = entry;
    return count + 1;
}

char **cadre_kernelspec_environment(const cadre_kernelspec *spec, const char *const *more,
                                    const char *without_name)
{
    size_t room = 1, count = 0;
    json_t *env = json_object_get(spec->json, "env");
    for (char **entry = environ; entry && *entry; entry++)
        room++;
    for (const char *const *entry = more; *entry; entry++)
        room++;
    char **words = calloc(room + json_object_size(env), sizeof *words);
    if (!words) return NULL;
    for (char **entry = environ; entry && *entry; entry++) {
        if (without_name && names(*entry, without_name, strlen(without_name))) continue;
        words[count] = strdup(*entry);
        count += words[count] != NULL;
    }
    const char *name;
    json_t *value;
    json_object_foreach(env, name, value)
    {
        cadre_buffer entry = {0};
        if (!json_is_string(value) || strchr(name, '=') || !*name) continue;
        cadre_buffer_printf(&entry, "%s=", name);
        append_expanded(&entry, json_string_value(value));
        count = put(words, count, cadre_buffer_steal(&entry));
    }
    for (const char *const *entry = more; *entry; entry++)
        count = put(words, count, strdup(*entry));
    return words;
}
