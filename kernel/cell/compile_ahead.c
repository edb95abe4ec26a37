/* cc1 and as started ahead for one unit: cc1 has parsed the headers and waits to open a gate, a
 * pipe that it includes; the unit's text is put into a memory file behind it. For compilers that do
 * not take the plugin. Whatever goes wrong ends in CADRE_ECHILD: the plain route is next. */
#include "kernel/cell/compile_internal.h"
#include "kernel/cell/plugin/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GATE_LINE "#include \"/proc/self/fd/7\"\n"
enum { GATE = 7 };

struct cadre_ahead {
    unsigned char name[CADRE_HASH_SIZE];
    cadre_run run;
    int gate; /* the end that we hold: cc1 goes on when it is closed */
    int64_t start;
};

static void ahead_free(cadre_ahead *ahead)
{
    if (!ahead) return;
    cadre_run_free(&ahead->run);
    if (ahead->gate >= 0) close(ahead->gate);
    free(ahead);
}

void cadre_ahead_free(cadre_compiler *compiler)
{
    ahead_free(compiler->ahead);
    compiler->ahead = NULL;
}

static int make_name(const cadre_options *options, const cadre_compile_request *request,
                     unsigned char *name)
{
    const cadre_compile_request headers = {.headers = request->headers, .source = ""};
    return cadre_key_make(options, &headers, "ahead", name);
}

static int start_compiler(cadre_ahead *ahead, const cadre_options *options, int text,
                          cadre_error *error)
{
    const char *more[] = {"-MD", "/proc/self/fd/4", "-MQ", "cell", NULL};
    cadre_run *run = &ahead->run;
    int ends[2];
    run->compile = cadre_arguments_with(options->compile, more);
    if (!run->compile) return CADRE_EMEMORY;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cadre_error_set(error, CADRE_ESYSTEM, "pipe: %s", strerror(errno));
    ahead->gate = ends[1];
    const cadre_child_file files[] = {
        {0, text},       {1, run->pipe_write},       {2, run->compiler_text},
        {GATE, ends[0]}, {WARM_SOURCE, run->source}, {WARM_DEPENDENCIES, run->dependencies}};
    int code =
        cadre_child_start(&run->compiler, run->compile[0], run->compile, NULL, files, 6, error);
    close(ends[0]);
    return code;
}

void cadre_ahead_start(cadre_compiler *compiler, const cadre_options *options,
                       const cadre_compile_request *request)
{
    unsigned char name[CADRE_HASH_SIZE];
    cadre_buffer text = {0}, first = {0};
    cadre_error ignored;
    int text_file = -1;
    if (!options->direct || !cadre_flags_are_common(request->flags, request->flag_count) ||
        make_name(options, request, name) < 0)
        return;
    if (compiler->ahead && memcmp(compiler->ahead->name, name, sizeof name) == 0) return;
    cadre_ahead_free(compiler);
    cadre_ahead *ahead = malloc(sizeof *ahead);
    if (!ahead) return;
    ahead->gate = -1;
    memcpy(ahead->name, name, sizeof name);
    int code = cadre_run_open(&ahead->run, "", "", 0, &ignored);
    if (code == 0) code = cadre_warm_texts(request->headers, GATE_LINE, &text, &first);
    if (code == 0) {
        text_file = cadre_memory_file("headers", text.data, text.length, "", 0, &ignored);
        if (text_file < 0) code = CADRE_ESYSTEM;
    }
    ahead->start = cadre_file_clock();
    if (code == 0) code = start_compiler(ahead, options, text_file, &ignored);
    if (code == 0) code = cadre_run_start_assembler(&ahead->run, options, &ignored);
    cadre_run_close_pipe(&ahead->run);
    if (text_file >= 0) close(text_file);
    cadre_buffer_free(&text);
    cadre_buffer_free(&first);
    if (code < 0)
        ahead_free(ahead);
    else
        compiler->ahead = ahead;
}

static int put_unit(cadre_ahead *ahead, const cadre_compile_request *request, cadre_error *error)
{
    cadre_buffer text = {0}, first = {0};
    int code = cadre_warm_texts(request->headers, "", &text, &first);
    cadre_buffer_append(&first, request->source, request->length);
    if (first.failed) code = CADRE_EMEMORY;
    for (size_t done = 0; code == 0 && done < first.length;) {
        ssize_t count =
            pwrite(ahead->run.source, first.data + done, first.length - done, (off_t)done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            code = cadre_error_set(error, CADRE_ECHILD, "%s", strerror(errno));
        else
            done += (size_t)count;
    }
    cadre_buffer_free(&text);
    cadre_buffer_free(&first);
    return code;
}

int cadre_ahead_compile(cadre_compiler *compiler, const cadre_options *options,
                        const cadre_compile_request *request, int64_t deadline,
                        cadre_verdict *verdict, cadre_error *error)
{
    unsigned char name[CADRE_HASH_SIZE];
    cadre_ahead *ahead = compiler->ahead;
    *verdict = (cadre_verdict){0};
    if (!ahead || make_name(options, request, name) < 0 ||
        memcmp(ahead->name, name, sizeof name) != 0)
        return cadre_error_set(error, CADRE_ECHILD, "no compiler started ahead");
    compiler->ahead = NULL;
    int code = put_unit(ahead, request, error);
    close(ahead->gate);
    ahead->gate = -1;
    if (code == 0) {
        cadre_child *children[] = {&ahead->run.compiler, &ahead->run.assembler};
        code = cadre_child_wait(children, 2, request->cancel_fd, deadline, error);
    }
    if (code == 0) code = cadre_run_collect(&ahead->run, options, NULL, verdict, error);
    if (code == 0) {
        /* It read the headers some time ago: only if they are still the same is this the answer.
         * A refused unit has no list of them, so the plain route decides. */
        cadre_buffer manifest = {0};
        cadre_folders folders;
        cadre_folders_find(&folders, options, request);
        if (!verdict->ok || !cadre_manifest_make(compiler, &folders, verdict->dependencies,
                                                 ahead->start, &manifest))
            code = cadre_error_set(error, CADRE_ECHILD, "the headers may have changed");
        cadre_buffer_free(&manifest);
        cadre_folders_free(&folders);
    } else if (code != CADRE_EINTERRUPT && code != CADRE_ETIMEOUT) {
        code = CADRE_ECHILD;
    }
    ahead_free(ahead);
    if (code < 0) cadre_verdict_free(verdict);
    return code;
}
