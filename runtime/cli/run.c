/* cadre run: a notebook with parameters, from the shell. */
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "cli/cli.h"
#include "kernel/cell/cell.h"
#include "notebook/notebook.h"

#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

static const char help[] =
    "usage: cadre run NOTEBOOK [-p NAME=VALUE]... [-f FILE.json] [-o OUT.ipynb]\n"
    "\n"
    "Runs all cells in a new kernel and writes the notebook with its outputs. What the cells "
    "print\n"
    "is shown as it comes; the value that the notebook returns is printed last.\n"
    "\n"
    "  -p, --parameter NAME=VALUE  override a parameter; VALUE is JSON, else text as it stands\n"
    "  -r, --raw NAME=TEXT         the same, always text\n"
    "  -f, --file FILE.json        parameters from an object in a file; of two the later counts\n"
    "  -o, --output OUT.ipynb      the executed notebook (NOTEBOOK-executed.ipynb without it)\n"
    "      --environment NAME      run in this environment (cadre env list)\n"
    "  -k, --kernel NAME           run in this kernel instead of the notebook's\n"
    "      --timeout SECONDS       the longest that one cell may take\n"
    "  -q, --quiet                 do not show what the cells print\n"
    "      --no-progress           no progress bar\n"
    "\n"
    "Exit status: 0 done, 1 a cell or the kernel failed, 2 called wrongly (unknown parameters are\n"
    "refused before anything starts), 130 interrupted.\n";

typedef struct run_arguments {
    const char *notebook;
    json_t *parameters;
    char *output;
    const char *environment, *kernel;
    double timeout;
    bool quiet, no_progress;
    bool refused;   /* by check, which is a wrong call */
    bool in_a_line; /* what was printed to stdout last did not end its line */
} run_arguments;

/* ---- parameters ---- */

static int wrong(const char *format, const char *what)
{
    fprintf(stderr, "cadre run: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return USAGE;
}

static int take_parameter(run_arguments *arguments, const char *text, bool raw)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return wrong("%s is not NAME=VALUE", text);
    json_t *value = raw ? NULL : json_loads(equals + 1, JSON_DECODE_ANY, NULL);
    if (!value) value = json_string(equals + 1);
    char *name = strndup(text, (size_t)(equals - text));
    int failed = !name || json_object_set_new(arguments->parameters, name, value) < 0;
    free(name);
    return failed ? wrong("%s is not UTF-8", text) : DONE;
}

static int take_file(run_arguments *arguments, const char *path)
{
    json_error_t where;
    json_t *given = json_load_file(path, 0, &where);
    if (!json_is_object(given)) {
        if (given)
            fprintf(stderr, "cadre run: %s: not a JSON object of names and values\n", path);
        else if (where.line > 0)
            fprintf(stderr, "cadre run: %s:%d:%d: %s\n", path, where.line, where.column,
                    where.text);
        else
            fprintf(stderr, "cadre run: %s\n", where.text);
        json_decref(given);
        return USAGE;
    }
    json_object_update(arguments->parameters, given);
    json_decref(given);
    return DONE;
}

static int take_timeout(run_arguments *arguments, const char *text)
{
    char *end;
    arguments->timeout = strtod(text, &end);
    if (end == text || *end || !(arguments->timeout > 0))
        return wrong("--timeout needs seconds above 0, not %s", text);
    return DONE;
}

static char *default_output(const char *notebook)
{
    static const char ending[] = ".ipynb";
    char *path = NULL;
    size_t length = strlen(notebook), tail = sizeof ending - 1;
    if (length > tail && strcmp(notebook + length - tail, ending) == 0) length -= tail;
    if (asprintf(&path, "%.*s-executed%s", (int)length, notebook, ending) < 0) return NULL;
    return path;
}

static int parse(run_arguments *arguments, int argc, char **argv)
{
    enum { ENVIRONMENT = 1000, TIMEOUT, NO_PROGRESS };
    static const struct option options[] = {{"parameter", required_argument, NULL, 'p'},
                                            {"raw", required_argument, NULL, 'r'},
                                            {"file", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"kernel", required_argument, NULL, 'k'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"timeout", required_argument, NULL, TIMEOUT},
                                            {"environment", required_argument, NULL, ENVIRONMENT},
                                            {"no-progress", no_argument, NULL, NO_PROGRESS},
                                            {0}};
    int option, status = DONE;
    const char *output = NULL;
    optind = 1;
    while (status == DONE &&
           (option = getopt_long(argc, argv, "p:r:f:o:k:qh", options, NULL)) != -1)
        switch (option) {
        case 'p':
        case 'r': status = take_parameter(arguments, optarg, option == 'r'); break;
        case 'f': status = take_file(arguments, optarg); break;
        case 'o': output = optarg; break;
        case 'k': arguments->kernel = optarg; break;
        case 'q': arguments->quiet = true; break;
        case 'h': fputs(help, stdout); exit(DONE);
        case ENVIRONMENT: arguments->environment = optarg; break;
        case TIMEOUT: status = take_timeout(arguments, optarg); break;
        case NO_PROGRESS: arguments->no_progress = true; break;
        default: fputs("`cadre run --help` tells more.\n", stderr); status = USAGE;
        }
    if (status != DONE) return status;
    if (optind != argc - 1)
        return wrong("%s notebook is needed; `cadre run --help` tells more",
                     optind == argc ? "a" : "one");
    if (output && !*output) return wrong("%s needs a path", "-o");
    arguments->notebook = argv[optind];
    arguments->output = output ? strdup(output) : default_output(arguments->notebook);
    return arguments->output ? DONE : wrong("%s", "no memory");
}

/* ---- unknown names ---- */

static void collect_declared(json_t *declared, const char *const *cells)
{
    for (; *cells; cells++) {
        char **names = cadre_cell_declared_names(*cells, strlen(*cells));
        for (char **name = names; name && *name; name++) {
            json_object_set_new(declared, *name, json_true());
            free(*name);
        }
        free(names);
    }
}

/* Names are known for C only; other languages take any parameter. */
static int check(void *user, const char *language, const char *const *cells, cadre_error *error)
{
    run_arguments *arguments = user;
    const char *name;
    json_t *value, *declared = json_object();
    cadre_buffer unknown = {0}, known = {0};
    int status = CADRE_OK;
    if (strcasecmp(language, "c") != 0) goto done;
    collect_declared(declared, cells);
    json_object_foreach(arguments->parameters, name, value)
    {
        if (json_object_get(declared, name)) continue;
        cadre_buffer_printf(&unknown, "%s%s", unknown.length ? ", " : "", name);
    }
    if (unknown.length == 0) goto done;
    json_object_foreach(declared, name, value)
        cadre_buffer_printf(&known, "%s%s", known.length ? ", " : "", name);
    arguments->refused = true;
    status = cadre_error_set(error, CADRE_EINPUT, "the notebook declares no %s; it declares: %s",
                             unknown.data, known.length ? known.data : "nothing");
done:
    cadre_buffer_free(&unknown);
    cadre_buffer_free(&known);
    json_decref(declared);
    return status;
}

/* ---- running ---- */

/* Text without colours (ESC [ ... letter), for files and pipes. */
static void put_plain(const char *text, FILE *out)
{
    while (*text) {
        size_t plain = strcspn(text, "\033");
        fwrite(text, 1, plain, out);
        text += plain;
        if (!*text) return;
        text++;
        if (*text != '[') continue;
        text += 1 + strspn(text + 1, "0123456789;");
        if (*text) text++;
    }
}

static void show(void *user, const char *kind, const char *text)
{
    run_arguments *arguments = user;
    if (arguments->quiet) return;
    bool is_error = strcmp(kind, "stderr") == 0 || strcmp(kind, "error") == 0;
    FILE *out = is_error ? stderr : stdout;
    if (isatty(fileno(out)))
        fputs(text, out);
    else
        put_plain(text, out);
    bool in_a_line = text[strlen(text) - 1] != '\n';
    if (in_a_line && strcmp(kind, "display") == 0) {
        fputc('\n', out);
        in_a_line = false;
    }
    if (!is_error) arguments->in_a_line = in_a_line;
    fflush(out);
}

static void request_end(int number)
{
    (void)number;
    cadre_interrupt_request();
}

static int run(run_arguments *arguments)
{
    int status = FAILED;
    char *parameters = json_dumps(arguments->parameters, JSON_REAL_PRECISION(17));
    struct sigaction action = {.sa_handler = request_end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    cadre_set_error_handler(cadre_error_ignore);
    /* On a terminal the output itself shows how far it is. */
    bool progress = !arguments->no_progress && (arguments->quiet || !isatty(STDOUT_FILENO));
    cadre_notebook_result *result =
        cadre_notebook_run(arguments->notebook, (cadre_notebook_options){
                                                    .parameters = parameters,
                                                    .environment = arguments->environment,
                                                    .kernel = arguments->kernel,
                                                    .output = arguments->output,
                                                    .cell_timeout = arguments->timeout,
                                                    .quiet = !progress,
                                                    .on_output = show,
                                                    .check = check,
                                                    .user = arguments,
                                                });
    free(parameters);
    if (!result) {
        fprintf(stderr, "cadre run: %s\n", cadre_last_error()->message);
        return FAILED;
    }
    if (result->ok) {
        if (arguments->in_a_line) putchar('\n');
        if (result->value) printf("%s\n", result->value);
        status = DONE;
    } else {
        fprintf(stderr, "cadre run: %s\n", result->error ? result->error : "failed");
        status = arguments->refused ? USAGE : cadre_interrupt_requested() ? 128 + SIGINT : FAILED;
    }
    if (result->output) fprintf(stderr, "cadre run: executed notebook: %s\n", result->output);
    cadre_notebook_result_free(result);
    return status;
}

int cadre_cli_run(int argc, char **argv)
{
    run_arguments arguments = {.parameters = json_object()};
    int status = parse(&arguments, argc, argv);
    if (status == DONE) status = run(&arguments);
    json_decref(arguments.parameters);
    free(arguments.output);
    return status;
}
