#include "cli/specs.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const logos[] = {"logo-32x32.png", "logo-64x64.png", "logo-svg.svg"};
enum { logo_count = sizeof logos / sizeof *logos };

/* False when the path does not fit; then it is "". */
static bool join(char *path, size_t size, const char *a, const char *b)
{
    int length = snprintf(path, size, "%s/%s", a, b);
    if (length >= 0 && (size_t)length < size) return true;
    path[0] = 0;
    return false;
}

static const char *environment_text(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int place_under(cadre_spec_place *place, const char *prefix, const char *below,
                       cadre_error *error)
{
    if (join(place->folder, sizeof place->folder, prefix, below)) return 0;
    return cadre_error_set(error, CADRE_EINPUT, "the path %.200s... is too long", prefix);
}

int cadre_spec_place_user(cadre_spec_place *place, cadre_error *error)
{
    const char *folder = environment_text("JUPYTER_DATA_DIR");
    if (folder) return place_under(place, folder, "kernels", error);
    folder = environment_text("XDG_DATA_HOME");
    if (folder) return place_under(place, folder, "jupyter/kernels", error);
    folder = environment_text("HOME");
    if (folder) return place_under(place, folder, ".local/share/jupyter/kernels", error);
    return cadre_error_set(error, CADRE_EINPUT,
                           "HOME is not set, so there is no folder of the user; use --prefix DIR");
}

static const char *python_prefix(void)
{
    const char *prefix = environment_text("VIRTUAL_ENV");
    return prefix ? prefix : environment_text("CONDA_PREFIX");
}

int cadre_spec_place_parse(cadre_spec_place *place, int argc, char **argv, cadre_error *error)
{
    const char *word = argv[0], *prefix = NULL;
    int used = 1, status;
    if (!strcmp(word, "--user")) {
        status = cadre_spec_place_user(place, error);
        return status < 0 ? status : used;
    }
    if (!strcmp(word, "--sys-prefix")) {
        prefix = python_prefix();
        if (!prefix)
            return cadre_error_set(error, CADRE_EINPUT,
                                   "--sys-prefix means the active Python environment, and neither "
                                   "VIRTUAL_ENV nor CONDA_PREFIX is set; activate one, or use "
                                   "--prefix DIR");
    } else if (!strncmp(word, "--prefix=", 9)) {
        prefix = word + 9;
    } else if (!strcmp(word, "--prefix")) {
        if (argc < 2) return cadre_error_set(error, CADRE_EINPUT, "--prefix needs a folder");
        prefix = argv[1];
        used = 2;
    } else {
        return 0;
    }
    if (!*prefix) return cadre_error_set(error, CADRE_EINPUT, "--prefix needs a folder");
    status = place_under(place, prefix, "share/jupyter/kernels", error);
    return status < 0 ? status : used;
}

/* The places visited so far, so that none comes twice. */
struct tour {
    int (*visit)(const char *folder, void *context);
    void *context;
    dev_t devices[32];
    ino_t inodes[32];
    size_t count;
};

static int visit_once(struct tour *tour, const char *folder)
{
    struct stat info;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) return 0;
    for (size_t i = 0; i < tour->count; i++)
        if (tour->devices[i] == info.st_dev && tour->inodes[i] == info.st_ino) return 0;
    if (tour->count < sizeof tour->inodes / sizeof *tour->inodes) {
        tour->devices[tour->count] = info.st_dev;
        tour->inodes[tour->count++] = info.st_ino;
    }
    return tour->visit(folder, tour->context);
}

static int visit_below(struct tour *tour, const char *prefix, const char *below)
{
    char folder[CADRE_SPEC_PATH];
    return join(folder, sizeof folder, prefix, below) ? visit_once(tour, folder) : 0;
}

static int visit_path_list(struct tour *tour, const char *list)
{
    char *copy = list ? strdup(list) : NULL, *rest = NULL;
    int status = 0;
    for (char *folder = copy ? strtok_r(copy, ":", &rest) : NULL; folder && !status;
         folder = strtok_r(NULL, ":", &rest))
        status = visit_below(tour, folder, "kernels");
    free(copy);
    return status;
}

int cadre_spec_places(int (*visit)(const char *folder, void *context), void *context)
{
    struct tour tour = {.visit = visit, .context = context};
    int status = visit_path_list(&tour, environment_text("JUPYTER_PATH"));
    if (status) return status;
    cadre_spec_place user;
    if (cadre_spec_place_user(&user, NULL) == 0) status = visit_once(&tour, user.folder);
    if (status) return status;
    const char *prefix = python_prefix();
    if (prefix) status = visit_below(&tour, prefix, "share/jupyter/kernels");
    if (status) return status;
    static const char *const fixed[] = {CADRE_DATADIR, "/usr/local/share", "/usr/share"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && !status; i++)
        status = visit_below(&tour, fixed[i], "jupyter/kernels");
    return status;
}

void cadre_spec_program(char *path, size_t size, const char *name)
{
    char self[CADRE_SPEC_PATH];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = 0;
        if (join(path, size, dirname(self), name) && access(path, X_OK) == 0) return;
    }
    join(path, size, CADRE_BINDIR, name);
}

json_t *cadre_spec_read(const char *folder, const char *name)
{
    char path[CADRE_SPEC_PATH + 300];
    snprintf(path, sizeof path, "%s/%s/kernel.json", folder, name);
    json_t *spec = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(spec)) return spec;
    json_decref(spec);
    return NULL;
}

json_t *cadre_spec_pattern(cadre_error *error)
{
    char program[CADRE_SPEC_PATH];
    json_t *spec = cadre_spec_read(CADRE_DATADIR "/jupyter/kernels", "cadre");
    if (!spec || json_array_size(json_object_get(spec, "argv")) < 1) {
        json_decref(spec);
        cadre_error_set(error, CADRE_ENOTFOUND,
                        "%s/jupyter/kernels/cadre/kernel.json is missing or damaged; install Cadre "
                        "again (make install)",
                        CADRE_DATADIR);
        return NULL;
    }
    cadre_spec_program(program, sizeof program, "cadre-kernel");
    json_array_set_new(json_object_get(spec, "argv"), 0, json_string(program));
    return spec;
}

bool cadre_spec_is_ours(const json_t *spec)
{
    const json_t *argv = json_object_get(spec, "argv");
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        const char *slash = word ? strrchr(word, '/') : NULL;
        if (word && !strcmp(slash ? slash + 1 : word, "cadre-kernel")) return true;
    }
    return false;
}

static int make_folders(const char *path, cadre_error *error)
{
    char part[CADRE_SPEC_PATH + 300];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return cadre_error_set(error, CADRE_EINPUT, "the path %.200s... is too long", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return cadre_error_set_at(error, CADRE_EFILE, part, 0, 0, "cannot make this folder: %s",
                                      strerror(errno));
    }
    return 0;
}

static int write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        data += written;
        length -= (size_t)written;
    }
    return 0;
}

/* The file has its old contents or the new ones, whatever happens. */
static int replace_file(const char *folder, const char *name, const char *data, size_t length,
                        cadre_error *error)
{
    char path[CADRE_SPEC_PATH + 600], fresh[CADRE_SPEC_PATH + 620];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0)
        return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "cannot write here: %s",
                                  strerror(errno));
    bool good = write_all(fd, data, length) == 0 && fchmod(fd, 0644) == 0 && fsync(fd) == 0;
    int reason = errno;
    if (close(fd) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && rename(fresh, path) != 0) {
        good = false;
        reason = errno;
    }
    if (good) return 0;
    unlink(fresh);
    return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "cannot be written: %s",
                              strerror(reason));
}

/* A logo that is missing is no reason to have no kernel. */
static int copy_logo(const char *folder, const char *name, cadre_error *error)
{
    static char bytes[1 << 18];
    char source[CADRE_SPEC_PATH];
    snprintf(source, sizeof source, "%s/jupyter/kernels/cadre/%s", CADRE_DATADIR, name);
    FILE *in = fopen(source, "rbe");
    if (!in) return 0;
    size_t length = fread(bytes, 1, sizeof bytes, in);
    bool whole = feof(in) && !ferror(in);
    fclose(in);
    return whole ? replace_file(folder, name, bytes, length, error) : 0;
}

int cadre_spec_write(const cadre_spec_place *place, const char *name, const json_t *spec,
                     cadre_error *error)
{
    char folder[CADRE_SPEC_PATH + 300];
    snprintf(folder, sizeof folder, "%s/%s", place->folder, name);
    int status = make_folders(folder, error);
    for (size_t i = 0; i < logo_count && status == 0; i++)
        status = copy_logo(folder, logos[i], error);
    if (status < 0) return status;
    char *text = json_dumps(spec, JSON_INDENT(1));
    if (!text) return cadre_error_set(error, CADRE_EMEMORY, "no memory for kernel.json");
    status = replace_file(folder, "kernel.json", text, strlen(text), error);
    free(text);
    return status;
}

int cadre_spec_remove(const char *folder, const char *name, cadre_error *error)
{
    char path[CADRE_SPEC_PATH + 600], whole[CADRE_SPEC_PATH + 300];
    snprintf(whole, sizeof whole, "%s/%s", folder, name);
    json_t *spec = cadre_spec_read(folder, name);
    bool there = spec != NULL, ours = cadre_spec_is_ours(spec);
    json_decref(spec);
    if (!ours)
        return cadre_error_set_at(error, CADRE_ENOTFOUND, whole, 0, 0,
                                  there ? "this kernelspec is not Cadre's; it stays"
                                        : "there is no kernelspec here");
    /* kernel.json first: from then on Jupyter does not see the folder. */
    snprintf(path, sizeof path, "%s/kernel.json", whole);
    if (unlink(path) != 0)
        return cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "cannot be removed: %s",
                                  strerror(errno));
    for (size_t i = 0; i < logo_count; i++) {
        snprintf(path, sizeof path, "%s/%s", whole, logos[i]);
        unlink(path);
    }
    if (rmdir(whole) != 0)
        return cadre_error_set_at(error, CADRE_EFILE, whole, 0, 0,
                                  "the kernel is gone, the folder stays: %s", strerror(errno));
    return 0;
}
