#include "host_helper.h"
#include "object_helper.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char prelude[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "#include <signal.h>\n#include <pthread.h>\n#include <errno.h>\n#include <fcntl.h>\n"
    "#include <assert.h>\n#include <sys/wait.h>\n#include <sys/mman.h>\n#include <poll.h>\n"
    "#include <sys/resource.h>\n"
    "void cadre_hook_value(const void *, unsigned long, char *(*)(const void *));\n"
    "void *cadre_hook_array(const char *, int, unsigned long, unsigned long,\n"
    "                       const unsigned long *);\n"
    "void cadre_hook_main(int);\n";

double test_now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

bool test_is_alive(int pid)
{
    char path[64], text[256], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *end = strrchr(text, ')');
    if (end && end[1] == ' ') state = end[2];
    return state != 0 && state != 'Z' && state != 'X';
}

bool test_gone(int pid, int ms)
{
    double limit = test_now_ms() + ms;
    while (test_is_alive(pid)) {
        if (test_now_ms() > limit) return false;
        usleep(5000);
    }
    return true;
}

static void take(cell_result *result, cadre_host_event *event)
{
    switch (event->kind) {
    case CADRE_HOST_STREAM:
        cadre_buffer_append(strcmp(event->name, "stdout") == 0 ? &result->out : &result->err,
                            event->text, event->length);
        cadre_buffer_append(&result->both, event->text, event->length);
        break;
    case CADRE_HOST_NOTE: cadre_buffer_puts(&result->notes, event->text); break;
    case CADRE_HOST_DISPLAY:
    case CADRE_HOST_RETURN:
        cadre_buffer_puts(&result->displays, event->text);
        cadre_buffer_puts(&result->both, "<display>");
        break;
    case CADRE_HOST_ARRAY: result->array = event->array; break;
    case CADRE_HOST_VALUE:
        result->value = event->address;
        result->value_size = event->size;
        free(result->bundle);
        result->bundle = strdup(event->text);
        break;
    case CADRE_HOST_DONE:
    case CADRE_HOST_LINK_ERROR:
    case CADRE_HOST_ROLLED_BACK:
    case CADRE_HOST_LOST:
        result->kind = event->kind;
        result->outcome = event->outcome;
        result->status = event->status;
        result->generation = event->generation;
        result->error_name = strdup(event->error_name ? event->error_name : "");
        result->text = strdup(event->text ? event->text : "");
        result->traceback = strdup(event->traceback ? event->traceback : "");
        break;
    default: break;
    }
}

static bool is_end(cadre_host_event_kind kind)
{
    return kind == CADRE_HOST_DONE || kind == CADRE_HOST_LINK_ERROR ||
           kind == CADRE_HOST_ROLLED_BACK || kind == CADRE_HOST_LOST;
}

static void wait_fd(test_session *session, int most_ms)
{
    struct pollfd file = {cadre_host_fd(session->host), POLLIN, 0};
    int limit = cadre_host_timeout(session->host);
    poll(&file, 1, limit < 0 || limit > most_ms ? most_ms : limit);
}

void test_wait_event(test_session *session, cadre_host_event_kind kind, cell_result *result)
{
    cell_result ignored = {0}, *into = result ? result : &ignored;
    double limit = test_now_ms() + 20000;
    for (bool found = false; !found;) {
        cadre_host_event event;
        ck_assert_msg(test_now_ms() < limit, "no event of kind %d came", (int)kind);
        wait_fd(session, 50);
        while (!found && cadre_host_next(session->host, &event)) {
            found = event.kind == kind;
            ck_assert_msg(found || event.kind != CADRE_HOST_LOST, "lost: %s", event.text);
            take(into, &event);
            cadre_host_event_free(&event);
        }
    }
    if (!result) cell_result_free(&ignored);
}

void test_session_start(test_session *session)
{
    const char *program = getenv("CADRE_TEST_HOST");
    cadre_host_options options = {.program = program ? program : TEST_HOST_PROGRAM};
    cadre_error error = {0};
    *session = (test_session){0};
    session->host = cadre_host_start(&options, &error);
    ck_assert_msg(session->host != NULL, "%s", error.message);
    test_wait_event(session, CADRE_HOST_READY, NULL);
}

void test_session_stop(test_session *session)
{
    cadre_host_stop(session->host);
    session->host = NULL;
}

cell_result test_run(test_session *session, const char *globals, const char *body)
{
    cell_result result = {0};
    cadre_buffer source = {0};
    char entry[64], file[64];
    static test_object object;
    bool repeat = session->repeat && object.bytes;
    int number = repeat ? session->cells : ++session->cells;
    snprintf(entry, sizeof entry, "cadre_cell_%d", number);
    snprintf(file, sizeof file, "cell_%d.c", number);
    cadre_buffer_printf(&source, "%s#line 1 \"%s\"\n%s\nvoid %s(void) {\n%s\n}\n", prelude, file,
                        globals ? globals : "", entry, body);
    if (!repeat) {
        free(object.bytes);
        object = test_compile(source.data, session->flags);
    }
    cadre_buffer_free(&source);
    cadre_segment segment = {
        .object_fd = -1, .entry = entry, .object = object.bytes, .object_length = object.length};
    cadre_cell cell = {
        .execution_count = number, .file_name = file, .segments = &segment, .segment_count = 1};
    cadre_host_run_request request = {.cell = &cell,
                                      .generation = session->generation,
                                      .allow_stdin = !session->deny_input,
                                      .snapshot = session->policy};
    cadre_error error = {0};
    if (session->pause_ms) cadre_host_pause_output(session->host, true);
    double started = test_now_ms(), interrupted = 0;
    double limit = started + (session->limit_ms ? session->limit_ms : 20000);
    ck_assert_msg(cadre_host_run(session->host, &request, &error) == 0, "%s", error.message);
    if (session->interrupt_ms < 0) {
        cadre_host_interrupt(session->host);
        interrupted = started;
    }
    for (bool ended = false; !ended;) {
        cadre_host_event event;
        double now = test_now_ms();
        ck_assert_msg(now < limit, "cell %d did not end: %s", number, body);
        if (session->interrupt_ms > 0 && !interrupted && now >= started + session->interrupt_ms) {
            cadre_host_interrupt(session->host);
            interrupted = now;
        }
        if (session->pause_ms && now >= started + session->pause_ms) {
            cadre_host_pause_output(session->host, false);
            session->pause_ms = 0;
        }
        wait_fd(session, session->interrupt_ms > 0 && !interrupted ? 1 : 20);
        /* Not for ever: a cell that prints faster than this reads must be interrupted in time. */
        for (int i = 0; i < 64 && !ended && cadre_host_next(session->host, &event); i++) {
            if (event.kind == CADRE_HOST_STREAM && !result.first_output_ms)
                result.first_output_ms = test_now_ms() - started;
            if (event.kind == CADRE_HOST_INPUT && !session->no_answer)
                cadre_host_input(session->host, session->input ? *session->input : NULL);
            if (event.kind == CADRE_HOST_INPUT && session->input && *session->input)
                session->input++;
            ended = is_end(event.kind);
            take(&result, &event);
            cadre_host_event_free(&event);
        }
    }
    result.ms = test_now_ms() - started;
    if (interrupted) result.after_interrupt_ms = test_now_ms() - interrupted;
    if (result.kind == CADRE_HOST_DONE) session->generation++;
    session->interrupt_ms = session->limit_ms = session->pause_ms = 0;
    session->input = NULL;
    session->deny_input = session->no_answer = session->repeat = false;
    return result;
}

void test_run_ok(test_session *session, const char *globals, const char *body)
{
    cell_result result = test_run(session, globals, body);
    ck_assert_msg(result.kind == CADRE_HOST_DONE && result.outcome == CADRE_OUTCOME_OK,
                  "kind %d outcome %d %s: %s (%s)", (int)result.kind, (int)result.outcome,
                  result.error_name, result.text, body);
    cell_result_free(&result);
}

void cell_result_free(cell_result *result)
{
    free(result->error_name);
    free(result->text);
    free(result->traceback);
    free(result->bundle);
    cadre_buffer_free(&result->out);
    cadre_buffer_free(&result->err);
    cadre_buffer_free(&result->both);
    cadre_buffer_free(&result->notes);
    cadre_buffer_free(&result->displays);
    *result = (cell_result){0};
}

long test_long(test_session *session, const char *declarations, const char *expression)
{
    char body[512];
    long value = 0;
    snprintf(body, sizeof body,
             "long last_value = (long)(%s); cadre_hook_value(&last_value, sizeof last_value, 0);",
             expression);
    cell_result result = test_run(session, declarations, body);
    ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s: %s", result.error_name, result.text);
    ck_assert_uint_eq(result.value_size, sizeof value);
    ck_assert(cadre_host_read(session->host, result.value, &value, sizeof value));
    cell_result_free(&result);
    return value;
}
