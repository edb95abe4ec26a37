/* The plain route: one cc1 and one as for each unit, connected by a pipe, or the driver when it is
 * not gcc's. Nothing touches a disk: text and object are memory files. */
#include "kernel/cell/compile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPENDENCY_FD = 4 };

void cadre_verdict_free(cadre_verdict *verdict)
{
    free(verdict->object);
    free(verdict->diagnostics);
    free(verdict->dependencies);
    *verdict = (cadre_verdict){0};
}

int cadre_verdict_from_status(const char *program, int status, bool *ok, cadre_error *error)
{
    *ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status))
        return cadre_error_set(
            error, CADRE_ECHILD,
            "the compiler (%s) was killed by signal %d (%s)%s; run the cell again", program,
            WTERMSIG(status), strsignal(WTERMSIG(status)),
            WTERMSIG(status) == SIGKILL ? ", perhaps because memory ran out" : "");
    return 0;
}

/* Trouble of the machine, not of the cell, that the compiler reports as its own errors. */
static int machine_error(const char *diagnostics, cadre_error *error)
{
    if (strstr(diagnostics, "out of memory allocating") ||
        strstr(diagnostics, "virtual memory exhausted"))
        return cadre_error_set(error, CADRE_EMEMORY, "the compiler ran out of memory: %.300s",
                               diagnostics);
    if (strstr(diagnostics, "No space left on device"))
        return cadre_error_set(error, CADRE_EFILE, "the compiler's disk is full: %.300s",
                               diagnostics);
    return 0;
}

/* base's arguments and then `more`; the strings are borrowed, the array is new. */
static char **arguments_with(char *const *base, const char *const *more)
{
    size_t count = 0, extra = 0;
    while (base[count])
        count++;
    while (more[extra])
        extra++;
    char **all = malloc((count + extra + 1) * sizeof *all);
    if (!all) return NULL;
    memcpy(all, base, count * sizeof *all);
    for (size_t i = 0; i <= extra; i++)
        all[count + i] = (char *)more[i];
    return all;
}

/* What one run needs; -1 is a file that is not open. */
typedef struct run {
    int source, object, first_text, second_text, dependencies;
    int pipe_read, pipe_write;
    cadre_child compiler, assembler;
    char **compile, **assemble;
} run;

static void close_file(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void run_free(run *r)
{
    cadre_child_stop(&r->compiler);
    cadre_child_stop(&r->assembler);
    int *files[] = {&r->source,       &r->object,    &r->first_text, &r->second_text,
                    &r->dependencies, &r->pipe_read, &r->pipe_write};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        close_file(files[i]);
    free(r->compile);
    free(r->assemble);
}

static int run_open(run *r, const cadre_compile_request *request, cadre_error *error)
{
    *r = (run){-1, -1, -1, -1, -1, -1, -1, CADRE_CHILD_NONE, CADRE_CHILD_NONE, NULL, NULL};
    const char *headers = request->headers ? request->headers : "";
    r->source = cadre_memory_file("source", headers, strlen(headers), request->source,
                                  request->length, error);
    if (r->source < 0) return CADRE_ESYSTEM;
    int *files[] = {&r->object, &r->first_text, &r->second_text, &r->dependencies};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        *files[i] = cadre_memory_file("compiler", "", 0, "", 0, error);
        if (*files[i] < 0) return CADRE_ESYSTEM;
    }
    return 0;
}

/* Starts cc1 | as. */
static int start_direct(run *r, const cadre_options *options, cadre_error *error)
{
    const char *more[] = {"-MD", "/proc/self/fd/4", "-MQ", "cell", NULL};
    const char *none[] = {NULL};
    int ends[2];
    r->compile = arguments_with(options->compile, more);
    r->assemble = arguments_with(options->assemble, none);
    if (!r->compile || !r->assemble)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    r->assemble[options->assemble_output] = (char *)"/proc/self/fd/3";
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "pipe: %s", strerror(errno));
    r->pipe_read = ends[0];
    r->pipe_write = ends[1];
    cadre_child_file compiler_files[] = {
        {0, r->source}, {1, r->pipe_write}, {2, r->first_text}, {DEPENDENCY_FD, r->dependencies}};
    cadre_child_file assembler_files[] = {{0, r->pipe_read}, {2, r->second_text}, {3, r->object}};
    int result =
        cadre_child_start(&r->compiler, r->compile[0], r->compile, NULL, compiler_files, 4, error);
    if (result == 0)
        result = cadre_child_start(&r->assembler, r->assemble[0], r->assemble, NULL,
                                   assembler_files, 3, error);
    close_file(&r->pipe_read);
    close_file(&r->pipe_write);
    return result;
}

static int start_driver(run *r, const cadre_options *options, cadre_error *error)
{
    const char *more[] = {"-MD", "-MF", "/proc/self/fd/4", "-MQ", "cell", NULL};
    r->compile = arguments_with(options->compile, more);
    if (!r->compile)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    cadre_child_file files[] = {
        {0, r->source}, {2, r->first_text}, {3, r->object}, {DEPENDENCY_FD, r->dependencies}};
    return cadre_child_start(&r->compiler, r->compile[0], r->compile, NULL, files, 4, error);
}

static int read_diagnostics(run *r, cadre_verdict *verdict, cadre_error *error)
{
    size_t first_length = 0, second_length = 0;
    char *first = cadre_memory_read(r->first_text, &first_length, error);
    char *second = cadre_memory_read(r->second_text, &second_length, error);
    if (!first || !second) {
        free(first);
        free(second);
        return CADRE_EMEMORY;
    }
    char *both = realloc(first, first_length + second_length + 1);
    if (!both) {
        free(first);
        free(second);
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for the compiler's messages");
    }
    memcpy(both + first_length, second, second_length + 1);
    free(second);
    verdict->diagnostics = both;
    return 0;
}

static int collect(run *r, const cadre_options *options, cadre_verdict *verdict, cadre_error *error)
{
    bool compiled = false, assembled = true;
    int result = read_diagnostics(r, verdict, error);
    if (result == 0)
        result =
            cadre_verdict_from_status(options->compile[0], r->compiler.status, &compiled, error);
    if (result == 0 && options->assemble)
        result =
            cadre_verdict_from_status(options->assemble[0], r->assembler.status, &assembled, error);
    if (result < 0) return result;
    verdict->ok = compiled && assembled;
    if (!verdict->ok) return machine_error(verdict->diagnostics, error);
    verdict->object = (unsigned char *)cadre_memory_read(r->object, &verdict->object_length, error);
    verdict->dependencies = cadre_memory_read(r->dependencies, NULL, error);
    if (!verdict->object || !verdict->dependencies) return CADRE_EMEMORY;
    if (verdict->object_length == 0)
        return cadre_error_set(error, CADRE_ECHILD, "the compiler (%s) ended without an object",
                               options->compile[0]);
    return 0;
}

int cadre_plain_compile(const cadre_options *options, const cadre_compile_request *request,
                        int64_t deadline, cadre_verdict *verdict, cadre_error *error)
{
    run r;
    *verdict = (cadre_verdict){0};
    int result = run_open(&r, request, error);
    if (result == 0)
        result =
            options->direct ? start_direct(&r, options, error) : start_driver(&r, options, error);
    if (result == 0) {
        cadre_child *children[] = {&r.compiler, &r.assembler};
        result = cadre_child_wait(children, 2, request->cancel_fd, deadline, error);
    }
    if (result == 0) result = collect(&r, options, verdict, error);
    run_free(&r);
    if (result < 0) cadre_verdict_free(verdict);
    return result;
}

int cadre_plain_preprocess(const cadre_options *options, const cadre_compile_request *request,
                           const char *const *more, int64_t deadline, cadre_verdict *verdict,
                           cadre_error *error)
{
    run r;
    *verdict = (cadre_verdict){0};
    const char *direct[8] = {"-MD", "/proc/self/fd/4", "-MQ", "cell"};
    const char *driver[8] = {"-MD", "-MF", "/proc/self/fd/4", "-MQ", "cell"};
    for (size_t i = 0; i < 2 && more[i]; i++)
        direct[4 + i] = driver[5 + i] = more[i];
    int result = run_open(&r, request, error);
    if (result == 0) {
        r.compile = arguments_with(options->compile, options->direct ? direct : driver);
        if (!r.compile)
            result = cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    }
    if (result == 0) {
        cadre_child_file files[] = {
            {0, r.source}, {1, r.object}, {2, r.first_text}, {DEPENDENCY_FD, r.dependencies}};
        result = cadre_child_start(&r.compiler, r.compile[0], r.compile, NULL, files, 4, error);
    }
    if (result == 0) {
        cadre_child *children[] = {&r.compiler};
        result = cadre_child_wait(children, 1, request->cancel_fd, deadline, error);
    }
    if (result == 0) result = read_diagnostics(&r, verdict, error);
    if (result == 0)
        result =
            cadre_verdict_from_status(options->compile[0], r.compiler.status, &verdict->ok, error);
    if (result == 0 && !verdict->ok) result = machine_error(verdict->diagnostics, error);
    if (result == 0 && verdict->ok) {
        verdict->object =
            (unsigned char *)cadre_memory_read(r.object, &verdict->object_length, error);
        verdict->dependencies = cadre_memory_read(r.dependencies, NULL, error);
        if (!verdict->object || !verdict->dependencies) result = CADRE_EMEMORY;
    }
    run_free(&r);
    if (result < 0) cadre_verdict_free(verdict);
    return result;
}
