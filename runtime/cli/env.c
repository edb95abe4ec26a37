#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/specs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: cadre env add NAME --vcpus N [--memory SIZE] [--user | --sys-prefix | --prefix DIR]\n"
    "       cadre env list\n"
    "       cadre env remove NAME [--user | --sys-prefix | --prefix DIR]\n"
    "\n"
    "An environment is a kernel of a fixed size, shown by Jupyter as \"C (Cadre, N vCPU)\" under "
    "the\n"
    "name cadre-NAME. NAME: letters, digits, - and _. SIZE: such as 512M or 8G. Without a place "
    "it\n"
    "is made for this user, and removed where it is found first. `add` replaces one of that name.\n"
    "\n"
    "       cadre env exec --name NAME --vcpus N [--memory SIZE] -- PROGRAM [ARGUMENTS]\n"
    "\n"
    "runs a program within the limits of an environment; it is what the kernelspec calls.\n";

struct request {
    cadre_limits limits;
    cadre_spec_place place;
    int rest; /* index of the first word after `--`, 0: none */
};

static int take_name(struct request *request, const char *name, cadre_error *error)
{
    if (request->limits.name[0])
        return cadre_error_set(error, CADRE_EINPUT, "one name is wanted, not %s and %.60s too",
                               request->limits.name, name);
    if (!cadre_limits_name_is_good(name))
        return cadre_error_set(error, CADRE_EINPUT,
                               "the name is \"%.80s\"; a name has letters, digits, - and _, begins "
                               "with a letter or digit and is at most %d long",
                               name, CADRE_LIMITS_NAME);
    snprintf(request->limits.name, sizeof request->limits.name, "%s", name);
    return 0;
}

/* The value of `--word VALUE` or `--word=VALUE`; *used is 0 when this is another word. */
static const char *value_of(const char *word, int argc, char **argv, int *used)
{
    size_t length = strlen(word);
    *used = 0;
    if (strncmp(argv[0], word, length) != 0) return NULL;
    if (argv[0][length] == '=') {
        *used = 1;
        return argv[0] + length + 1;
    }
    if (argv[0][length] != 0) return NULL;
    *used = 2;
    return argc > 1 ? argv[1] : "";
}

static int parse(struct request *request, int argc, char **argv, cadre_error *error)
{
    for (int i = 0; i < argc && argv[i];) {
        int used, status = 0;
        const char *value;
        if (!strcmp(argv[i], "--")) {
            request->rest = i + 1;
            return 0;
        }
        if ((value = value_of("--vcpus", argc - i, argv + i, &used))) {
            status = cadre_limits_parse_vcpus(value, &request->limits.vcpus, error);
        } else if ((value = value_of("--memory", argc - i, argv + i, &used))) {
            status = cadre_limits_parse_memory(value, &request->limits.memory, error);
        } else if ((value = value_of("--name", argc - i, argv + i, &used))) {
            status = take_name(request, value, error);
        } else if (argv[i][0] == '-') {
            used = cadre_spec_place_parse(&request->place, argc - i, argv + i, error);
            if (used < 0) return used;
            if (used == 0)
                return cadre_error_set(error, CADRE_EINPUT, "there is no option %.60s", argv[i]);
        } else {
            status = take_name(request, argv[i], error);
            used = 1;
        }
        if (status < 0) return status;
        i += used;
    }
    return 0;
}

static void spec_name(char *name, size_t size, const cadre_limits *limits)
{
    snprintf(name, size, "cadre-%s", limits->name);
}

/* The installed kernelspec with our launcher before its command. */
static json_t *environment_spec(const cadre_limits *limits, cadre_error *error)
{
    char program[CADRE_SPEC_PATH], vcpus[16], memory[32], title[128];
    json_t *spec = cadre_spec_pattern(error);
    if (!spec) return NULL;
    cadre_spec_program(program, sizeof program, "cadre");
    snprintf(vcpus, sizeof vcpus, "%d", limits->vcpus);
    snprintf(memory, sizeof memory, "%" PRIu64, limits->memory);
    json_t *argv = json_pack("[s,s,s,s,s,s,s]", program, "env", "exec", "--name", limits->name,
                             "--vcpus", vcpus);
    if (limits->memory) {
        json_array_append_new(argv, json_string("--memory"));
        json_array_append_new(argv, json_string(memory));
        snprintf(title, sizeof title, "C (Cadre, %d vCPU, %.4g GiB)", limits->vcpus,
                 (double)limits->memory / (double)(1ull << 30));
    } else {
        snprintf(title, sizeof title, "C (Cadre, %d vCPU)", limits->vcpus);
    }
    json_array_append_new(argv, json_string("--"));
    json_array_extend(argv, json_object_get(spec, "argv"));
    json_t *metadata = json_object_get(spec, "metadata");
    if (!metadata) {
        metadata = json_object();
        json_object_set_new(spec, "metadata", metadata);
    }
    json_object_set_new(metadata, "cadre",
                        json_pack("{s:s,s:i,s:I}", "environment", limits->name, "vcpus",
                                  limits->vcpus, "memory", (json_int_t)limits->memory));
    if (!argv || json_object_set_new(spec, "argv", argv) != 0 ||
        json_object_set_new(spec, "display_name", json_string(title)) != 0) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the kernelspec");
        json_decref(spec);
        return NULL;
    }
    return spec;
}

static int add(struct request *request, cadre_error *error)
{
    char name[CADRE_LIMITS_NAME + 16];
    if (!request->limits.name[0])
        return cadre_error_set(error, CADRE_EINPUT, "which NAME should it have?");
    if (!request->limits.vcpus)
        return cadre_error_set(error, CADRE_EINPUT, "how many vCPUs? Give --vcpus N");
    if (!request->place.folder[0] && cadre_spec_place_user(&request->place, error) < 0)
        return error->code;
    json_t *spec = environment_spec(&request->limits, error);
    if (!spec) return error->code;
    spec_name(name, sizeof name, &request->limits);
    int status = cadre_spec_write(&request->place, name, spec, error);
    if (status == 0)
        printf("%s: %s/%s\n", json_string_value(json_object_get(spec, "display_name")),
               request->place.folder, name);
    json_decref(spec);
    return status;
}

struct search {
    const char *name; /* kernelspec looked for */
    char folder[CADRE_SPEC_PATH];
};

static int find(const char *folder, void *context)
{
    struct search *search = context;
    json_t *spec = cadre_spec_read(folder, search->name);
    bool found = spec != NULL;
    json_decref(spec);
    if (found) snprintf(search->folder, sizeof search->folder, "%s", folder);
    return found;
}

static int take_away(struct request *request, cadre_error *error)
{
    char name[CADRE_LIMITS_NAME + 16];
    if (!request->limits.name[0])
        return cadre_error_set(error, CADRE_EINPUT, "which NAME? `cadre env list` shows them");
    spec_name(name, sizeof name, &request->limits);
    struct search search = {.name = name};
    if (request->place.folder[0])
        snprintf(search.folder, sizeof search.folder, "%s", request->place.folder);
    else if (!cadre_spec_places(find, &search))
        return cadre_error_set(error, CADRE_ENOTFOUND,
                               "there is no environment %s; `cadre env list` shows them",
                               request->limits.name);
    int status = cadre_spec_remove(search.folder, name, error);
    if (status == 0) printf("removed %s/%s\n", search.folder, name);
    return status;
}

/* Rows so far, and the names in them: the first place wins, as in Jupyter. */
struct listing {
    json_t *seen;
    bool failed;
};

static void list_one(struct listing *listing, const char *folder, const char *name)
{
    json_t *spec = cadre_spec_read(folder, name);
    const json_t *size = json_object_get(json_object_get(spec, "metadata"), "cadre");
    const char *environment = json_string_value(json_object_get(size, "environment"));
    if (environment && cadre_spec_is_ours(spec) && !json_object_get(listing->seen, name)) {
        double memory = json_number_value(json_object_get(size, "memory"));
        char text[32] = "-";
        if (memory > 0) snprintf(text, sizeof text, "%.4g GiB", memory / (double)(1ull << 30));
        if (json_object_size(listing->seen) == 0)
            printf("%-20s %6s %10s  %s\n", "NAME", "VCPUS", "MEMORY", "KERNELSPEC");
        printf("%-20s %6lld %10s  %s/%s\n", environment,
               (long long)json_integer_value(json_object_get(size, "vcpus")), text, folder, name);
        if (json_object_set_new(listing->seen, name, json_true()) != 0) listing->failed = true;
    }
    json_decref(spec);
}

static int list_folder(const char *folder, void *context)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') list_one(context, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static int list(cadre_error *error)
{
    struct listing listing = {.seen = json_object()};
    if (!listing.seen) return cadre_error_set(error, CADRE_EMEMORY, "no memory for the list");
    cadre_spec_places(list_folder, &listing);
    if (json_object_size(listing.seen) == 0)
        printf("No environments yet. `cadre env add NAME --vcpus N` makes one.\n");
    json_decref(listing.seen);
    return listing.failed ? cadre_error_set(error, CADRE_EMEMORY, "no memory for the list") : 0;
}

static int execute(struct request *request, char **program, cadre_error *error)
{
    cadre_limits_result result;
    char text[16];
    if (!request->limits.name[0] || !request->limits.vcpus || !program || !program[0])
        return cadre_error_set(error, CADRE_EINPUT,
                               "exec needs --name NAME, --vcpus N, and -- PROGRAM");
    cadre_limits_apply(&request->limits, &result);
    snprintf(text, sizeof text, "%d", request->limits.vcpus);
    setenv("CADRE_ENVIRONMENT", request->limits.name, 1);
    setenv("CADRE_VCPUS", text, 1);
    snprintf(text, sizeof text, "%d", result.cpus);
    setenv("OPENBLAS_NUM_THREADS", text, 1);
    setenv("OMP_NUM_THREADS", text, 1);
    if (result.note[0]) {
        /* The kernel shows it with its first cell; this is for the log of the server. */
        setenv("CADRE_ENVIRONMENT_NOTE", result.note, 1);
        fprintf(stderr, "cadre: %s\n", result.note);
    } else {
        unsetenv("CADRE_ENVIRONMENT_NOTE");
    }
    execvp(program[0], program);
    return cadre_error_set(error, CADRE_ESYSTEM, "cannot start %.300s: %s", program[0],
                           strerror(errno));
}

int cadre_cli_env(int argc, char **argv)
{
    cadre_error error = {0};
    struct request request = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    int status;
    if (cadre_cli_wants_help(argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    bool known = !strcmp(verb, "add") || !strcmp(verb, "list") || !strcmp(verb, "remove") ||
                 !strcmp(verb, "exec");
    if (!known) {
        fputs(usage, stderr);
        return 2;
    }
    status = parse(&request, argc - 2, argv + 2, &error);
    if (status == 0) {
        if (!strcmp(verb, "add"))
            status = add(&request, &error);
        else if (!strcmp(verb, "list"))
            status = list(&error);
        else if (!strcmp(verb, "remove"))
            status = take_away(&request, &error);
        else
            status = execute(&request, request.rest ? argv + 2 + request.rest : NULL, &error);
    }
    if (status == 0) return 0;
    fprintf(stderr, "cadre env %s: %s\n", verb, error.message);
    return status == CADRE_EINPUT ? 2 : 1;
}
