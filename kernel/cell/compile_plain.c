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

char **cadre_arguments_with(char *const *base, const char *const *more)
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

static void close_file(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void cadre_run_close_pipe(cadre_run *run)
{
    close_file(&run->pipe_read);
    close_file(&run->pipe_write);
}

void cadre_run_free(cadre_run *run)
{
    cadre_child_stop(&run->compiler);
    cadre_child_stop(&run->assembler);
    int *files[] = {&run->source, &run->object, &run->compiler_text, &run->assembler_text,
                    &run->dependencies};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        close_file(files[i]);
    cadre_run_close_pipe(run);
    free(run->compile);
    free(run->assemble);
}

int cadre_run_open(cadre_run *run, const char *first, const char *source, size_t length,
                   cadre_error *error)
{
    *run = (cadre_run){-1, -1, -1, -1, -1, -1, -1, CADRE_CHILD_NONE, CADRE_CHILD_NONE, NULL, NULL};
    int ends[2];
    run->source = cadre_memory_file("source", first, strlen(first), source, length, error);
    if (run->source < 0) return CADRE_ESYSTEM;
    int *files[] = {&run->object, &run->compiler_text, &run->assembler_text, &run->dependencies};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        *files[i] = cadre_memory_file("compiler", "", 0, "", 0, error);
        if (*files[i] < 0) return CADRE_ESYSTEM;
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "pipe: %s", strerror(errno));
    run->pipe_read = ends[0];
    run->pipe_write = ends[1];
    return 0;
}

int cadre_run_start_assembler(cadre_run *run, const cadre_options *options, cadre_error *error)
{
    const char *none[] = {NULL};
    run->assemble = cadre_arguments_with(options->assemble, none);
    if (!run->assemble)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to start the assembler");
    run->assemble[options->assemble_output] = (char *)"/proc/self/fd/3";
    cadre_child_file files[] = {{0, run->pipe_read}, {2, run->assembler_text}, {3, run->object}};
    return cadre_child_start(&run->assembler, run->assemble[0], run->assemble, NULL, files, 3,
                             error);
}

/* Starts cc1 | as. */
static int start_direct(cadre_run *run, const cadre_options *options, cadre_error *error)
{
    const char *more[] = {"-MD", "/proc/self/fd/4", "-MQ", "cell", NULL};
    run->compile = cadre_arguments_with(options->compile, more);
    if (!run->compile)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    cadre_child_file files[] = {{0, run->source},
                                {1, run->pipe_write},
                                {2, run->compiler_text},
                                {DEPENDENCY_FD, run->dependencies}};
    int result =
        cadre_child_start(&run->compiler, run->compile[0], run->compile, NULL, files, 4, error);
    if (result == 0) result = cadre_run_start_assembler(run, options, error);
    cadre_run_close_pipe(run);
    return result;
}

static int start_driver(cadre_run *run, const cadre_options *options, cadre_error *error)
{
    const char *more[] = {"-MD", "-MF", "/proc/self/fd/4", "-MQ", "cell", NULL};
    run->compile = cadre_arguments_with(options->compile, more);
    if (!run->compile)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    cadre_child_file files[] = {{0, run->source},
                                {2, run->compiler_text},
                                {3, run->object},
                                {DEPENDENCY_FD, run->dependencies}};
    return cadre_child_start(&run->compiler, run->compile[0], run->compile, NULL, files, 4, error);
}

static int read_diagnostics(cadre_run *run, const char *before, cadre_verdict *verdict,
                            cadre_error *error)
{
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, before ? before : "");
    int files[] = {run->compiler_text, run->assembler_text};
    for (size_t i = 0; i < 2; i++) {
        size_t length;
        char *part = cadre_memory_read(files[i], &length, error);
        if (!part) {
            cadre_buffer_free(&text);
            return CADRE_EMEMORY;
        }
        cadre_buffer_append(&text, part, length);
        free(part);
    }
    verdict->diagnostics = cadre_buffer_steal(&text);
    if (verdict->diagnostics) return 0;
    cadre_buffer_free(&text);
    return cadre_error_set(error, CADRE_EMEMORY, "no memory for the compiler's messages");
}

int cadre_run_collect(cadre_run *run, const cadre_options *options, const char *before,
                      cadre_verdict *verdict, cadre_error *error)
{
    bool compiled = false, assembled = true;
    int result = read_diagnostics(run, before, verdict, error);
    if (result == 0)
        result =
            cadre_verdict_from_status(options->compile[0], run->compiler.status, &compiled, error);
    if (result == 0 && options->assemble)
        result = cadre_verdict_from_status(options->assemble[0], run->assembler.status, &assembled,
                                           error);
    if (result < 0) return result;
    verdict->ok = compiled && assembled;
    if (!verdict->ok) return machine_error(verdict->diagnostics, error);
    verdict->object =
        (unsigned char *)cadre_memory_read(run->object, &verdict->object_length, error);
    verdict->dependencies = cadre_memory_read(run->dependencies, NULL, error);
    if (!verdict->object || !verdict->dependencies) return CADRE_EMEMORY;
    if (verdict->object_length == 0)
        return cadre_error_set(error, CADRE_ECHILD, "the compiler (%s) ended without an object",
                               options->compile[0]);
    return 0;
}

/* `headers` with a line end: what follows is a line of its own. New, or NULL. */
static char *whole_headers(const cadre_compile_request *request, cadre_error *error)
{
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, request->headers ? request->headers : "");
    if (text.length && text.data[text.length - 1] != '\n') cadre_buffer_puts(&text, "\n");
    char *whole = cadre_buffer_steal(&text);
    if (!whole) cadre_error_set(error, CADRE_EMEMORY, "no memory for a unit's text");
    return whole;
}

int cadre_plain_compile(const cadre_options *options, const cadre_compile_request *request,
                        int64_t deadline, cadre_verdict *verdict, cadre_error *error)
{
    cadre_run run;
    *verdict = (cadre_verdict){0};
    char *headers = whole_headers(request, error);
    if (!headers) return CADRE_EMEMORY;
    int result = cadre_run_open(&run, headers, request->source, request->length, error);
    if (result == 0)
        result = options->direct ? start_direct(&run, options, error)
                                 : start_driver(&run, options, error);
    if (result == 0) {
        cadre_child *children[] = {&run.compiler, &run.assembler};
        result = cadre_child_wait(children, 2, request->cancel_fd, deadline, error);
    }
    if (result == 0) result = cadre_run_collect(&run, options, NULL, verdict, error);
    cadre_run_free(&run);
    free(headers);
    if (result < 0) cadre_verdict_free(verdict);
    return result;
}

int cadre_plain_preprocess(const cadre_options *options, const cadre_compile_request *request,
                           const char *const *more, int64_t deadline, cadre_verdict *verdict,
                           cadre_error *error)
{
    cadre_run run;
    *verdict = (cadre_verdict){0};
    const char *direct[8] = {"-MD", "/proc/self/fd/4", "-MQ", "cell"};
    const char *driver[8] = {"-MD", "-MF", "/proc/self/fd/4", "-MQ", "cell"};
    for (size_t i = 0; i < 2 && more[i]; i++)
        direct[4 + i] = driver[5 + i] = more[i];
    char *headers = whole_headers(request, error);
    if (!headers) return CADRE_EMEMORY;
    int result = cadre_run_open(&run, headers, request->source, request->length, error);
    if (result == 0) {
        run.compile = cadre_arguments_with(options->compile, options->direct ? direct : driver);
        if (!run.compile)
            result = cadre_error_set(error, CADRE_EMEMORY, "no memory to start the compiler");
    }
    if (result == 0) {
        cadre_child_file files[] = {{0, run.source},
                                    {1, run.object},
                                    {2, run.compiler_text},
                                    {DEPENDENCY_FD, run.dependencies}};
        result =
            cadre_child_start(&run.compiler, run.compile[0], run.compile, NULL, files, 4, error);
    }
    if (result == 0) {
        cadre_child *children[] = {&run.compiler};
        result = cadre_child_wait(children, 1, request->cancel_fd, deadline, error);
    }
    /* -E of an empty text is empty but for line markers, so that here too none means trouble. */
    if (result == 0) result = cadre_run_collect(&run, options, NULL, verdict, error);
    cadre_run_free(&run);
    free(headers);
    if (result < 0) cadre_verdict_free(verdict);
    return result;
}
