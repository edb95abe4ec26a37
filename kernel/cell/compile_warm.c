/* cc1 and as kept warm: a pair of servers for each set of headers and options, at most two pairs.
 * Whatever goes wrong here ends in CADRE_ECHILD, and the caller compiles another way. */
#include "kernel/cell/compile_internal.h"
#include "kernel/cell/plugin/warm.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* After a server that did not get ready: wait that long, then twice as long, ... */
enum { FIRST_RETRY_MS = 2000, LAST_RETRY_MS = 600000 };

/* Symbols are looked up once in the server, not in every child. */
static const char bind_now[] = "LD_BIND_NOW=1";

struct cadre_warm {
    unsigned char name[CADRE_HASH_SIZE];
    cadre_server compiler, assembler;
    int list;              /* memory file: the headers that cc1 read */
    cadre_buffer manifest; /* of those headers, once it was ready */
    char *messages;        /* what cc1 said about the headers */
    int64_t start;         /* when it began to read them */
    uint64_t last_use;
    int failures;
    int64_t retry; /* not before this time */
};

/* The number of the line after these: they may have #line directives. */
static unsigned long next_line(const char *text)
{
    unsigned long number = 1;
    while (*text) {
        const char *at = text + strspn(text, " \t");
        unsigned long after = number + 1;
        if (*at == '#') {
            at++;
            at += strspn(at, " \t");
            if (strncmp(at, "line", 4) == 0) at += 4;
            at += strspn(at, " \t");
            if (*at >= '0' && *at <= '9') after = strtoul(at, NULL, 10);
        }
        number = after;
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return number;
}

int cadre_warm_texts(const char *headers, const char *wait_line, cadre_buffer *before,
                     cadre_buffer *first_line)
{
    cadre_buffer_puts(before, headers ? headers : "");
    if (before->length && before->data[before->length - 1] != '\n') cadre_buffer_puts(before, "\n");
    unsigned long line = next_line(before->data ? before->data : "");
    cadre_buffer_printf(before, "%s#include \"/proc/self/fd/%d\"\n", wait_line, WARM_SOURCE);
    /* To "": back to the includer, whatever its name is. As a system header up to there, where
     * -Wpedantic says nothing of that kind of line. */
    cadre_buffer_printf(first_line, "#pragma GCC system_header\n# %lu \"\" 2\n", line);
    return before->failed || first_line->failed ? -1 : 0;
}

/* Where the plugins are: beside the program in the build folder, else as installed. */
static char *plugin_path(const char *name)
{
    cadre_buffer path = {0};
    const char *folder = getenv("CADRE_PLUGIN_DIR");
    char program[4096];
    if (folder && *folder) {
        cadre_buffer_printf(&path, "%s/%s", folder, name);
    } else {
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        char *slash = strrchr(program, '/');
        if (slash) cadre_buffer_printf(&path, "%.*s/%s", (int)(slash - program), program, name);
        if (!slash || path.failed || access(path.data, R_OK) < 0) {
            cadre_buffer_clear(&path);
            cadre_buffer_printf(&path, "%s/%s", CADRE_PKGLIBDIR, name);
        }
    }
    if (!path.failed && access(path.data, R_OK) == 0) return cadre_buffer_steal(&path);
    cadre_buffer_free(&path);
    return NULL;
}

static void stop(cadre_warm *warm)
{
    cadre_server_stop(&warm->compiler);
    cadre_server_stop(&warm->assembler);
    if (warm->list >= 0) close(warm->list);
    warm->list = -1;
    cadre_buffer_free(&warm->manifest);
    free(warm->messages);
    warm->messages = NULL;
}

void cadre_warm_free(cadre_compiler *compiler)
{
    for (size_t i = 0; i < CADRE_WARM_SETS; i++) {
        if (!compiler->warm[i]) continue;
        stop(compiler->warm[i]);
        free(compiler->warm[i]);
        compiler->warm[i] = NULL;
    }
}

static void note_failure(cadre_warm *warm)
{
    int64_t pause = FIRST_RETRY_MS;
    for (int i = 0; i < warm->failures && pause < LAST_RETRY_MS; i++)
        pause *= 2;
    warm->failures++;
    warm->retry = cadre_clock_ms() + pause;
    stop(warm);
}

static int start_compiler(cadre_warm *warm, const cadre_options *options,
                          const cadre_compile_request *request, const char *plugin)
{
    cadre_buffer text = {0}, first = {0}, option = {0};
    cadre_error ignored;
    char **arguments = NULL, **environment = NULL;
    int code = -1, source = -1;
    cadre_buffer_printf(&option, "-fplugin=%s", plugin);
    if (option.failed || cadre_warm_texts(request->headers, "#pragma cadre_compile_server wait\n",
                                          &text, &first) < 0)
        goto done;
    const char *more[] = {"-MD", "/proc/self/fd/4", "-MQ", "cell", option.data, NULL};
    arguments = cadre_arguments_with(options->compile, more);
    source = cadre_memory_file("headers", text.data, text.length, "", 0, &ignored);
    warm->list = cadre_memory_file("list", "", 0, "", 0, &ignored);
    if (!arguments || source < 0 || warm->list < 0) goto done;
    warm->start = cadre_file_clock();
    const cadre_child_file files[] = {{0, source}, {WARM_LIST, warm->list}};
    environment = cadre_child_environment(bind_now, NULL);
    if (!environment) goto done;
    code = cadre_server_start(&warm->compiler, arguments, environment, files, 2, &ignored);
done:
    if (source >= 0) close(source);
    cadre_buffer_free(&text);
    cadre_buffer_free(&first);
    cadre_buffer_free(&option);
    free(arguments);
    free(environment);
    return code;
}

/* Without it an `as` is started for each unit, beside cc1. */
static void start_assembler(cadre_warm *warm, const cadre_options *options, const char *plugin)
{
    cadre_buffer preload = {0};
    cadre_error ignored;
    const char *none[] = {NULL}, *others = getenv("LD_PRELOAD");
    char **arguments = cadre_arguments_with(options->assemble, none);
    cadre_buffer_printf(&preload, "LD_PRELOAD=%s%s%s", plugin, others && *others ? ":" : "",
                        others ? others : "");
    char **environment = preload.failed ? NULL : cadre_child_environment(bind_now, preload.data);
    if (arguments && environment) {
        arguments[options->assemble_output] = (char *)"/dev/null";
        cadre_server_start(&warm->assembler, arguments, environment, NULL, 0, &ignored);
    }
    cadre_buffer_free(&preload);
    free(arguments);
    free(environment);
}

static void start_pair(cadre_warm *warm, const cadre_options *options,
                       const cadre_compile_request *request)
{
    char *compiler_plugin = plugin_path("cadre_warm_cc1.so");
    char *assembler_plugin = plugin_path("cadre_warm_as.so");
    stop(warm);
    if (!compiler_plugin || start_compiler(warm, options, request, compiler_plugin) < 0)
        note_failure(warm);
    else if (assembler_plugin)
        start_assembler(warm, options, assembler_plugin);
    free(compiler_plugin);
    free(assembler_plugin);
}

/* The place for this set: its own, a free one, or the one that was not used for longest. */
static cadre_warm *find_set(cadre_compiler *compiler, const unsigned char *name)
{
    size_t least = 0;
    for (size_t i = 0; i < CADRE_WARM_SETS; i++) {
        cadre_warm *warm = compiler->warm[i];
        if (warm && memcmp(warm->name, name, CADRE_HASH_SIZE) == 0) return warm;
        cadre_warm *other = compiler->warm[least];
        if (other && (!warm || warm->last_use < other->last_use)) least = i;
    }
    cadre_warm *warm = compiler->warm[least];
    if (warm) {
        stop(warm);
    } else {
        warm = malloc(sizeof *warm);
        if (!warm) return NULL;
    }
    *warm = (cadre_warm){.compiler = CADRE_SERVER_NONE, .assembler = CADRE_SERVER_NONE, .list = -1};
    memcpy(warm->name, name, CADRE_HASH_SIZE);
    compiler->warm[least] = warm;
    return warm;
}

/* After it said so: what it holds, so that a change of those files is noticed. */
static int note_ready(cadre_compiler *compiler, cadre_warm *warm, const cadre_options *options,
                      const cadre_compile_request *request)
{
    size_t length = 0;
    cadre_error ignored;
    char *list = cadre_memory_read(warm->list, &length, &ignored);
    warm->messages = cadre_memory_read(warm->compiler.messages, NULL, &ignored);
    cadre_folders folders;
    cadre_folders_find(&folders, options, request);
    bool good =
        list && warm->messages &&
        cadre_manifest_make_list(compiler, &folders, list, length, warm->start, &warm->manifest);
    free(list);
    cadre_folders_free(&folders);
    if (!good) return -1;
    cadre_buffer_append(&warm->manifest, "", 0);
    close(warm->list);
    warm->list = -1;
    warm->failures = 0;
    return 0;
}

static bool is_running(const cadre_warm *warm)
{
    return warm->compiler.socket >= 0;
}

/* A running pair for this request, ready or not; NULL: there is none now. */
static cadre_warm *get_pair(cadre_compiler *compiler, const cadre_options *options,
                            const cadre_compile_request *request)
{
    unsigned char name[CADRE_HASH_SIZE];
    const cadre_compile_request headers = {.headers = request->headers, .source = ""};
    if (!options->direct || !cadre_flags_are_common(request->flags, request->flag_count) ||
        cadre_key_make(options, &headers, "server", name) < 0)
        return NULL;
    cadre_warm *warm = find_set(compiler, name);
    if (!warm) return NULL;
    warm->last_use = ++compiler->clock;
    if (!is_running(warm) && cadre_clock_ms() >= warm->retry) start_pair(warm, options, request);
    return is_running(warm) ? warm : NULL;
}

bool cadre_warm_start(cadre_compiler *compiler, const cadre_options *options,
                      const cadre_compile_request *request)
{
    return get_pair(compiler, options, request) != NULL;
}

/* cc1 is at work: gives its output to the warm `as`, else starts one. */
static int begin_assembly(cadre_warm *warm, cadre_run *run, const cadre_options *options,
                          uint32_t number, cadre_error *error)
{
    const int files[] = {run->pipe_read, run->object, run->assembler_text};
    if (warm->assembler.socket >= 0 &&
        cadre_server_send(&warm->assembler, number, files, 3, error) == 0)
        return 0;
    return cadre_run_start_assembler(run, options, error);
}

static int end_assembly(cadre_warm *warm, cadre_run *run, const cadre_compile_request *request,
                        uint32_t number, int64_t deadline, cadre_error *error)
{
    if (run->assembler.pid > 0) {
        cadre_child *children[] = {&run->assembler};
        return cadre_child_wait(children, 1, request->cancel_fd, deadline, error);
    }
    return cadre_server_wait(&warm->assembler, number, request->cancel_fd, deadline,
                             &run->assembler.status, error);
}

/* While the compiler is at work: are the headers still what it holds? For a server that was just
 * started, what does it hold? */
static int check_headers(cadre_compiler *compiler, cadre_warm *warm, const cadre_options *options,
                         const cadre_compile_request *request, int64_t deadline, cadre_error *error)
{
    int unused;
    bool good;
    if (warm->manifest.data) {
        good = cadre_manifest_check(compiler, (const unsigned char *)warm->manifest.data,
                                    warm->manifest.length);
    } else {
        int code =
            cadre_server_wait(&warm->compiler, 0, request->cancel_fd, deadline, &unused, error);
        if (code == CADRE_ECHILD) note_failure(warm);
        if (code < 0) return code;
        good = note_ready(compiler, warm, options, request) == 0;
    }
    if (good) return 0;
    stop(warm);
    return cadre_error_set(error, CADRE_ECHILD, "a header was changed");
}

/* Both stages of one job, from the first wait to the last. */
static int run_job(cadre_compiler *compiler, cadre_warm *warm, cadre_run *run,
                   const cadre_options *options, const cadre_compile_request *request,
                   int64_t deadline, cadre_error *error)
{
    uint32_t number = ++compiler->job_number ? compiler->job_number : ++compiler->job_number;
    const int files[] = {run->source, run->pipe_write, run->compiler_text, run->dependencies};
    bool compiling = false, assembling = false;
    int code = cadre_server_send(&warm->compiler, number, files, 4, error);
    if (code < 0) return CADRE_ECHILD;
    compiling = true;
    code = begin_assembly(warm, run, options, number, error);
    assembling = code == 0;
    cadre_run_close_pipe(run);
    if (code == 0) code = check_headers(compiler, warm, options, request, deadline, error);
    if (code == 0) cadre_keep_write(compiler);
    if (code == 0)
        code = cadre_server_wait(&warm->compiler, number, request->cancel_fd, deadline,
                                 &run->compiler.status, error);
    if (code == 0) {
        compiling = false;
        code = end_assembly(warm, run, request, number, deadline, error);
    }
    if (code == 0) return 0;
    if (compiling) cadre_server_cancel(&warm->compiler, number);
    if (assembling && run->assembler.pid <= 0) cadre_server_cancel(&warm->assembler, number);
    return code == CADRE_EINTERRUPT || code == CADRE_ETIMEOUT ? code : CADRE_ECHILD;
}

int cadre_warm_compile(cadre_compiler *compiler, const cadre_options *options,
                       const cadre_compile_request *request, int64_t deadline,
                       cadre_verdict *verdict, cadre_error *error)
{
    cadre_buffer text = {0}, first = {0};
    cadre_run run;
    *verdict = (cadre_verdict){0};
    cadre_warm *warm = get_pair(compiler, options, request);
    if (!warm) return cadre_error_set(error, CADRE_ECHILD, "no warm compiler");
    int code = cadre_warm_texts(request->headers, "", &text, &first);
    if (code < 0) code = cadre_error_set(error, CADRE_EMEMORY, "no memory for a unit's text");
    if (code == 0) {
        code = cadre_run_open(&run, first.data, request->source, request->length, error);
        if (code == 0) code = run_job(compiler, warm, &run, options, request, deadline, error);
        if (code == 0) code = cadre_run_collect(&run, options, warm->messages, verdict, error);
        cadre_run_free(&run);
    }
    cadre_buffer_free(&text);
    cadre_buffer_free(&first);
    if (code < 0) cadre_verdict_free(verdict);
    return code;
}
