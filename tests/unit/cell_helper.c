#include "cell_helper.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* What cells allocate and never free is theirs to lose. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable() ((void)0)
#define __lsan_enable() ((void)0)
#endif

struct cell_session {
    cadre_engine *engine;
    cadre_loader *loader;
    int count;
};

/* The hooks have no argument for a context. */
static struct {
    cadre_loader *loader;
    cadre_array_report arrays[16];
    size_t array_count;
    void *value;
    size_t value_size;
    int main_status;
} host;

static void hook_value(const void *value, unsigned long size, char *(*bundle)(const void *))
{
    (void)bundle;
    free(host.value);
    host.value = calloc(1, size + 16);
    memcpy(host.value, value, size);
    host.value_size = size;
}

static void *hook_array(const char *name, int fresh, unsigned long element_size,
                        unsigned long dimension_count, const unsigned long *dimensions)
{
    cadre_array_report *report = &host.arrays[host.array_count++];
    size_t bytes = element_size;
    memset(report, 0, sizeof *report);
    snprintf(report->name, sizeof report->name, "%s", name);
    report->dimension_count = dimension_count;
    for (size_t i = 0; i < dimension_count; i++)
        bytes *= report->dimensions[i] = dimensions[i];
    void *storage = calloc(1, bytes ? bytes : 1);
    cadre_loader_define(host.loader, name, storage, fresh);
    return storage;
}

static void hook_main(int status)
{
    host.main_status = status;
}

cell_session *cell_session_new(void)
{
    cadre_error error = {0};
    cell_session *session = calloc(1, sizeof *session);
    cadre_engine_options options = {.cache_dir = "", .include_dir = CADRE_TEST_INCLUDE};
    session->engine = cadre_engine_new(&options, &error);
    ck_assert_msg(session->engine != NULL, "%s", error.message);
    session->loader = cadre_loader_new(&error);
    ck_assert_msg(session->loader != NULL, "%s", error.message);
    host.loader = session->loader;
    cadre_loader_override(session->loader, "cadre_hook_value", (void *)hook_value);
    cadre_loader_override(session->loader, "cadre_hook_array", (void *)hook_array);
    cadre_loader_override(session->loader, "cadre_hook_main", (void *)hook_main);
    return session;
}

void cell_session_free(cell_session *session)
{
    cadre_engine_free(session->engine);
    free(host.value);
    host.value = NULL;
    free(session);
}

cadre_engine *cell_session_engine(cell_session *session)
{
    return session->engine;
}

static bool read_own_memory(void *context, uint64_t address, void *into, size_t length)
{
    (void)context;
    struct iovec here = {into, length}, there = {(void *)(uintptr_t)address, length};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)length;
}

static char *without_colours(const char *text)
{
    char *out = malloc(strlen(text) + 1), *to = out;
    for (const char *p = text; *p; p++) {
        if (*p == '\x1b')
            p += strcspn(p, "m");
        else
            *to++ = *p;
    }
    *to = 0;
    return out;
}

static void set_error(cell_outcome *outcome, const char *name, const char *value, const char *more)
{
    char *joined = NULL;
    ck_assert_int_ge(asprintf(&joined, "%s\n%s", value, more), 0);
    outcome->error_name = strdup(name);
    outcome->message = without_colours(joined);
    free(joined);
}

/* Loads and runs; what is printed meanwhile goes to a file in memory. */
static void run(cell_session *session, cadre_cell *cell, cell_outcome *outcome)
{
    cadre_error error = {0};
    cadre_module *modules[32];
    ck_assert_uint_le(cell->segment_count, 32);
    for (size_t i = 0; i < cell->library_count; i++)
        ck_assert_msg(dlopen(cell->libraries[i], RTLD_NOW | RTLD_GLOBAL) != NULL, "%s", dlerror());
    bool good = true;
    for (size_t i = 0; i < cell->segment_count && good; i++) {
        const cadre_segment *s = &cell->segments[i];
        modules[i] =
            s->use_dlopen
                ? cadre_loader_add_library(session->loader, cell->file_name, s->library_path,
                                           &error)
                : cadre_loader_add(session->loader, cell->file_name, s->object, s->object_length,
                                   (const char *const *)s->fresh_names, s->fresh_count, &error);
        good = modules[i] != NULL;
    }
    for (size_t i = 0; i < cell->segment_count && good; i++)
        if (cell->segments[i].entry)
            good = cadre_loader_check(session->loader, modules[i], cell->segments[i].entry,
                                      &error) == 0;
    if (!good) {
        cadre_loader_discard(session->loader);
        set_error(outcome, "LinkError", error.message, "");
        return;
    }
    cadre_loader_commit(session->loader);
    host.array_count = host.value_size = 0;
    host.main_status = 0;
    fflush(stdout);
    int kept = dup(1), file = memfd_create("output", MFD_CLOEXEC);
    dup2(file, 1);
    for (size_t i = 0; i < cell->segment_count; i++)
        cadre_loader_construct(modules[i]);
    for (size_t i = 0; i < cell->segment_count; i++) {
        if (!cell->segments[i].entry) continue;
        void (*entry)(void) =
            (void (*)(void))cadre_module_symbol(modules[i], cell->segments[i].entry);
        __lsan_disable();
        entry();
        __lsan_enable();
    }
    fflush(stdout);
    dup2(kept, 1);
    close(kept);
    off_t length = lseek(file, 0, SEEK_END);
    outcome->output = calloc(1, (size_t)length + 1);
    ck_assert_int_eq(pread(file, outcome->output, (size_t)length, 0), length);
    close(file);
    if (cell->has_value)
        outcome->result =
            cadre_cell_value(cell, (uintptr_t)host.value, host.value_size, read_own_memory, NULL);
    cadre_engine_commit(session->engine, cell, host.arrays, host.array_count);
    if (cell->runs_main && host.main_status) {
        char text[64];
        snprintf(text, sizeof text, "main returned %d", host.main_status);
        set_error(outcome, "ExitStatus", text, "");
    }
}

cell_outcome cell_session_run(cell_session *session, const char *code, const json_t *parameters)
{
    cell_outcome outcome = {0};
    cadre_cell_request request = {.code = code,
                                  .length = strlen(code),
                                  .execution_count = ++session->count,
                                  .parameters = parameters};
    cadre_cell *cell = cadre_engine_prepare(session->engine, &request);
    ck_assert_ptr_nonnull(cell);
    outcome.warnings = strdup(cell->warnings);
    outcome.notes = strdup(cell->notes);
    outcome.segments = cell->segment_count;
    if (cell->failed)
        set_error(&outcome, cell->error_name, cell->error_value, cell->traceback);
    else
        run(session, cell, &outcome);
    cadre_cell_free(cell);
    return outcome;
}

void cell_outcome_free(cell_outcome *outcome)
{
    free(outcome->error_name);
    free(outcome->message);
    free(outcome->result);
    free(outcome->output);
    free(outcome->warnings);
    free(outcome->notes);
    *outcome = (cell_outcome){0};
}

/* --- cases ---------------------------------------------------------------------------------- */

cell_case *cell_cases_read(const char *file)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", CADRE_TEST_CASES, file);
    FILE *in = fopen(path, "re");
    cell_case *cases = calloc(1, sizeof *cases);
    if (!in) return cases; /* the test says that there is none */
    char *line = NULL;
    size_t room = 0, count = 0;
    for (ssize_t n; (n = getline(&line, &room, in)) >= 0;) {
        if (!strncmp(line, "=== ", 4)) {
            cases = realloc(cases, (count + 2) * sizeof *cases);
            cases[count] = (cell_case){strndup(line + 4, (size_t)n - 5), strdup("")};
            cases[++count] = (cell_case){0};
        } else if (count) {
            char **text = &cases[count - 1].text;
            *text = realloc(*text, strlen(*text) + (size_t)n + 1);
            strcat(*text, line);
        }
    }
    free(line);
    fclose(in);
    return cases;
}

static void trim(char *text)
{
    size_t n = strlen(text), start = strspn(text, "\n");
    while (n > start && text[n - 1] == '\n')
        text[--n] = 0;
    memmove(text, text + start, n - start + 1);
}

static void expect(const cell_outcome *got, const char *word, const char *argument,
                   const char *text, const char *cell)
{
    const char *result = got->result ? got->result : "", *output = got->output ? got->output : "";
    if (!strcmp(word, "result")) {
        ck_assert_msg(!strcmp(result, text), "%s\nresult: wanted %s, got %s", cell, text, result);
    } else if (!strcmp(word, "result~")) {
        ck_assert_msg(strstr(result, text) != NULL, "%s\nno %s in %s", cell, text, result);
    } else if (!strcmp(word, "result!")) {
        ck_assert_msg(!*result, "%s\nunwanted result %s", cell, result);
    } else if (!strcmp(word, "stdout")) {
        char *copy = strdup(output);
        trim(copy);
        ck_assert_msg(!strcmp(copy, text), "%s\nstdout: wanted %s, got %s", cell, text, copy);
        free(copy);
    } else if (!strcmp(word, "stderr~")) {
        ck_assert_msg(strstr(got->warnings, text) != NULL, "%s\nno %s in %s", cell, text,
                      got->warnings);
    } else if (!strcmp(word, "error")) {
        ck_assert_msg(got->error_name != NULL, "%s\ndid not fail", cell);
        ck_assert_msg(!*argument || *argument == '*' || !strcmp(argument, got->error_name),
                      "%s\nwanted %s, got %s", cell, argument, got->error_name);
        ck_assert_msg(strstr(got->message, text) != NULL, "%s\nno %s in %s", cell, text,
                      got->message);
    } else if (!strcmp(word, "error!")) {
        ck_assert_msg(!strstr(got->message, *text ? text : argument), "%s\nunwanted %s in %s", cell,
                      *text ? text : argument, got->message);
    }
}

/* CRLF line ends and a byte order mark, when the case asks for them. */
static char *dress(const char *code, const char *attributes)
{
    char *out = calloc(2, strlen(code) + 4), *to = out;
    if (strstr(attributes, "bom")) to = stpcpy(to, "\xef\xbb\xbf");
    for (const char *p = code; *p; p++) {
        if (*p == '\n' && strstr(attributes, "crlf")) *to++ = '\r';
        *to++ = *p;
    }
    return out;
}

void cell_case_run(const cell_case *one)
{
    cell_session *session = cell_session_new();
    cell_outcome outcome = {0};
    char *cell = strdup(""), *text = strdup(one->text);
    char word[32] = "", argument[600] = "", block[20000] = "";
    json_t *parameters = json_object(); /* as the session merges them */
    bool pending = false, wants_error = false, ran = false;
    /* A trailing marker ends the last block. */
    text = realloc(text, strlen(text) + 16);
    strcat(text, "--- cell\n");
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n'); /* blank lines count */
        if (next) *next++ = 0;
        if (next && !*next) next = NULL;
        if (strncmp(line, "--- ", 4)) {
            size_t used = strlen(block);
            ck_assert_uint_lt(used + strlen(line) + 2, sizeof block);
            snprintf(block + used, sizeof block - used, "%s%s", used ? "\n" : "", line);
            continue;
        }
        if (pending && !strcmp(word, "cell")) {
            json_t *metadata = NULL;
            char *given = strstr(argument, "metadata=");
            if (given) metadata = json_loads(given + 9, JSON_DISABLE_EOF_CHECK, NULL);
            json_t *given_now = json_object_get(json_object_get(metadata, "cadre"), "parameters");
            if (given_now) json_object_update(parameters, given_now);
            free(cell);
            while (*block && block[strlen(block) - 1] == '\n')
                block[strlen(block) - 1] = 0;
            cell = dress(block, argument);
            cell_outcome_free(&outcome);
            outcome = cell_session_run(session, cell, parameters);
            json_decref(metadata);
            wants_error = false;
            ran = true;
        } else if (pending) {
            wants_error |= !strncmp(word, "error", 5);
            trim(block);
            expect(&outcome, word, argument, block, cell);
        }
        argument[0] = block[0] = 0;
        sscanf(line + 4, "%31s %599[^\n]", word, argument);
        pending = true;
        if (!strcmp(word, "cell") && ran)
            ck_assert_msg(wants_error || !outcome.error_name, "%s\nfailed: %s", cell,
                          outcome.message ? outcome.message : "");
    }
    cell_outcome_free(&outcome);
    free(cell);
    free(text);
    json_decref(parameters);
    cell_session_free(session);
}
