/* Output: live, whole, in order. Input, displays, children and threads. */
#include "host_helper.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static test_session session;

static void setup(void)
{
    test_session_start(&session);
}

static void teardown(void)
{
    test_session_stop(&session);
}

static void expect_output(const char *globals, const char *body, const char *out, const char *err)
{
    cell_result result = test_run(&session, globals, body);
    ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s: %s", result.error_name, result.text);
    ck_assert_str_eq(result.out.data ? result.out.data : "", out);
    ck_assert_str_eq(result.err.data ? result.err.data : "", err);
    cell_result_free(&result);
}

START_TEST(streams_are_apart)
{
    expect_output(NULL, "printf(\"no newline\");", "no newline", "");
    expect_output(NULL, "fprintf(stderr, \"to stderr\\n\"); printf(\"to stdout\\n\");",
                  "to stdout\n", "to stderr\n");
    expect_output(
        "void *say(void *a) { puts(\"thread\"); return a; }",
        "write(1, \"raw\\n\", 4); puts(\"stdio\"); system(\"echo child; echo error >&2\");"
        "pthread_t t; pthread_create(&t, 0, say, 0); pthread_join(t, 0); perror(\"p\");",
        "raw\nstdio\nchild\nthread\n", "error\np: Success\n");
    cell_result result =
        test_run(&session, NULL, "fwrite(\"a\\xff\\xfe\" \"b\\0c\\n\", 1, 7, stdout);");
    ck_assert_uint_eq(result.out.length, 7);
    ck_assert_mem_eq(result.out.data,
                     "a\xff\xfe"
                     "b\0c\n",
                     7);
    cell_result_free(&result);
}
END_TEST

START_TEST(output_is_live)
{
    static const char *const bodies[] = {
        "puts(\"started\"); usleep(400000);", "printf(\"50%%\"); usleep(400000);",
        "printf(\"50%%\"); for (volatile long i = 0; i < 400000000; i++);"};
    for (int i = 0; i < 3; i++) {
        double best = 1e9, ms = 0;
        for (int attempt = 0; attempt < 3 && best >= 50; attempt++) {
            cell_result result = test_run(&session, NULL, bodies[i]);
            if (result.first_output_ms < best) best = result.first_output_ms;
            ms = result.ms;
            cell_result_free(&result);
        }
        ck_assert_msg(best > 0 && best < 50, "%.1f of %.1f ms", best, ms);
        ck_assert(ms > 100);
    }
}
END_TEST

/* A thread is heard whenever it prints: before or after the end of its cell, in its first moment
 * or its last. */
START_TEST(a_thread_that_outlives_its_cell_is_heard)
{
    test_run_ok(&session, "void *late(void *a) { usleep((long)a); printf(\"late\"); return a; }",
                "");
    for (long i = 0; i < 24; i++) {
        char body[100];
        snprintf(body, sizeof body, "pthread_t t; pthread_create(&t, 0, late, (void *)%ldL);",
                 i % 3 == 2 ? 150000 : i % 3 * 2000);
        cell_result result = test_run(&session, "void *late(void *);", body);
        ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
        if (!result.out.length) test_wait_event(&session, CADRE_HOST_STREAM, &result);
        ck_assert_str_eq(result.out.data, "late");
        cell_result_free(&result);
    }
}
END_TEST

START_TEST(both_streams_keep_their_order)
{
    cell_result result = test_run(&session, NULL,
                                  "for (int i = 0; i < 1000; i++) { printf(\"o%d\\n\", i); "
                                  "fprintf(stderr, \"e%d\\n\", i); }");
    cadre_buffer expected = {0};
    for (int i = 0; i < 1000; i++)
        cadre_buffer_printf(&expected, "o%d\ne%d\n", i, i);
    ck_assert_str_eq(result.both.data, expected.data);
    if (getenv("CADRE_SHOW")) fprintf(stderr, "2000 alternating lines: %.1f ms\n", result.ms);
    cadre_buffer_free(&expected);
    cell_result_free(&result);
}
END_TEST

START_TEST(a_million_lines)
{
    cell_result result =
        test_run(&session, NULL, "for (int i = 0; i < 1000000; i++) printf(\"%d\\n\", i);");
    ck_assert_uint_eq(result.out.length, 6888890);
    const char *at = result.out.data;
    for (int i = 0; i < 1000000; i++) {
        char *end;
        ck_assert_int_eq(strtol(at, &end, 10), i);
        at = end;
    }
    double ms = result.ms;
    cell_result_free(&result);
    result = test_run(&session, NULL,
                      "FILE *f = fopen(\"/tmp/cadre-test-lines\", \"w\"); "
                      "for (int i = 0; i < 1000000; i++) fprintf(f, \"%d\\n\", i); fclose(f);"
                      "unlink(\"/tmp/cadre-test-lines\");");
    if (getenv("CADRE_SHOW"))
        fprintf(stderr, "million lines: %.0f ms, to a file %.0f ms\n", ms, result.ms);
    ck_assert_msg(ms < 3 * result.ms + 100, "%.0f ms, to a file %.0f ms", ms, result.ms);
    cell_result_free(&result);
}
END_TEST

START_TEST(a_slow_reader_loses_nothing)
{
    session.pause_ms = 400;
    cell_result result =
        test_run(&session, NULL, "for (int i = 0; i < 500000; i++) printf(\"%09d\\n\", i);");
    ck_assert_uint_eq(result.out.length, 5000000);
    ck_assert(result.ms >= 390);
    cell_result_free(&result);
    session.pause_ms = 100000;
    session.interrupt_ms = 200;
    result = test_run(&session, NULL, "for (;;) printf(\"more and more\\n\");");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_INTERRUPTED);
    ck_assert_msg(result.after_interrupt_ms < 200, "%.1f", result.after_interrupt_ms);
    cell_result_free(&result);
    cadre_host_pause_output(session.host, false);
    expect_output(NULL, "puts(\"fine\");", "fine\n", "");
}
END_TEST

START_TEST(stdio_still_works_as_in_a_program)
{
    expect_output(
        NULL,
        "setvbuf(stdout, 0, _IONBF, 0); printf(\"%d%d%d\\n\", fileno(stdin), fileno(stdout), "
        "fileno(stderr)); setvbuf(stdout, 0, _IOFBF, 1 << 16);",
        "012\n", "");
    expect_output(
        NULL,
        "int keep = dup(1); freopen(\"/tmp/cadre-test-out\", \"w\", stdout); puts(\"in file\");"
        "fflush(stdout); dup2(keep, 1); close(keep); puts(\"back\");"
        "char b[20] = {0}; FILE *f = fopen(\"/tmp/cadre-test-out\", \"r\"); fgets(b, 20, f); "
        "fclose(f); unlink(\"/tmp/cadre-test-out\"); printf(\"file: %s\", b);",
        "back\nfile: in file\n", "");
    expect_output(NULL, "puts(\"one\"); fclose(stdout); close(1); close(2);", "one\n", "");
    expect_output(NULL, "puts(\"two\"); fprintf(stderr, \"too\\n\");", "two\n", "too\n");
}
END_TEST

START_TEST(forked_children)
{
    expect_output(
        NULL,
        "printf(\"once \"); pid_t c = fork(); if (c == 0) { printf(\"child\\n\"); exit(3); } "
        "int s; waitpid(c, &s, 0); printf(\"parent %d\\n\", WEXITSTATUS(s));",
        "once child\nparent 3\n", "");
    /* off the end of the cell; the parent waits first, so that the order is no chance */
    expect_output(
        "pid_t c2;",
        "c2 = fork(); if (c2) waitpid(c2, 0, 0); printf(c2 ? \"parent\\n\" : \"child\\n\");",
        "child\nparent\n", "");
    ck_assert_int_gt(test_long(&session, "extern pid_t c2;", "c2"), 0);
    /* a crash of a child is no crash of the cell */
    cell_result result =
        test_run(&session, NULL,
                 "pid_t c = fork(); if (c == 0) { *(volatile int *)8 = 1; } int s; "
                 "waitpid(c, &s, 0); printf(\"%d\\n\", WTERMSIG(s));");
    ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
    ck_assert_str_eq(result.out.data, "11\n");
    ck_assert_ptr_nonnull(strstr(result.err.data, "SIGSEGV"));
    cell_result_free(&result);
    /* nobody but the cell's own children is waited for */
    expect_output(
        "int ended;",
        "for (int i = 0; i < 2; i++) if (fork() == 0) _exit(0); while (wait(NULL) > 0) ended++; "
        "printf(\"%d\\n\", ended);",
        "2\n", "");
    expect_output(NULL, "if (vfork() == 0) _exit(0); int s; wait(&s); puts(\"vfork\");", "vfork\n",
                  "");
}
END_TEST

START_TEST(a_background_child_holds_nothing)
{
    cell_result result = test_run(&session, "int v = 6;", "system(\"sleep 20 &\"); v = 6;");
    ck_assert_msg(result.ms < 1000, "%.0f ms", result.ms);
    cell_result_free(&result);
    result = test_run(&session, "extern int v;", "v = 7; *(volatile int *)8 = 1;");
    ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
    ck_assert_msg(result.ms < 1000, "%.0f ms", result.ms);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 6);
}
END_TEST

START_TEST(input_is_asked_for)
{
    static const char *const numbers[] = {"42", "3.5", NULL}, *const line[] = {"hello_world", NULL};
    session.input = numbers;
    expect_output(NULL,
                  "int a; double b; printf(\"a? \"); scanf(\"%d\", &a); printf(\"b? \"); "
                  "scanf(\"%lf\", &b); printf(\"got %d %.1f\\n\", a, b);",
                  "a? b? got 42 3.5\n", "");
    session.input = line;
    expect_output(NULL, "char s[80]; fgets(s, sizeof s, stdin); printf(\"<%s>\\n\", s);",
                  "<hello_world\n>\n", "");
    session.input = line;
    expect_output(NULL, "char s[80]; s[read(0, s, 79)] = 0; printf(\"<%s>\\n\", s);",
                  "<hello_world\n>\n", "");
    session.input = line;
    expect_output(NULL,
                  "char *s = 0; size_t n = 0; getline(&s, &n, stdin); printf(\"<%s>\\n\", s);",
                  "<hello_world\n>\n", "");
    ck_assert_int_eq(test_long(&session, NULL, "getchar()"), -1); /* end of input */
    session.deny_input = true;
    cell_result result = test_run(&session, NULL, "printf(\"%d\\n\", getchar());");
    ck_assert_str_eq(result.out.data, "-1\n");
    ck_assert_uint_gt(result.notes.length, 0);
    cell_result_free(&result);
    expect_output(NULL, "system(\"cat; echo done\");", "done\n", "");
}
END_TEST

START_TEST(displays_keep_their_place)
{
    cell_result result = test_run(
        &session, "int cadre_display_bundle(const char *, const char *);",
        "puts(\"before\"); int r = cadre_display_bundle(\"{\\\"text/plain\\\": \\\"x\\\"}\", 0);"
        "printf(\"after %d\\n\", r); if (fork() == 0) { "
        "cadre_display_bundle(\"{\\\"text/plain\\\": \\\"y\\\"}\", 0); _exit(0); } wait(0);");
    ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s", result.text);
    ck_assert_str_eq(result.both.data, "before\n<display>after 0\n<display>");
    ck_assert_ptr_nonnull(strstr(result.displays.data, "text/plain"));
    ck_assert_msg(result.ms < 2000, "%.0f ms", result.ms);
    cell_result_free(&result);
}
END_TEST

START_TEST(arrays_and_values_are_reported)
{
    cell_result result =
        test_run(&session, NULL,
                 "unsigned long d[2] = {3, 4}; double (*a)[4] = cadre_hook_array(\"grid\", "
                 "1, sizeof(double), 2, d); a[2][3] = 1.5;");
    ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
    ck_assert_str_eq(result.array.name, "grid");
    ck_assert_uint_eq(result.array.dimension_count, 2);
    ck_assert_uint_eq(result.array.dimensions[1], 4);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern double grid[3][4];", "grid[2][3] * 2"), 3);
    result = test_run(
        &session, NULL,
        "unsigned long d[2] = {1ul << 40, 1ul << 40}; cadre_hook_array(\"huge\", 1, 8, 2, d);");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_ERROR);
    ck_assert_ptr_nonnull(strstr(result.text, "huge"));
    cell_result_free(&result);
    result = test_run(&session, "char *bundle(const void *o) { return strdup((const char *)o); }",
                      "const char *v = \"{}\"; cadre_hook_value(&v, sizeof v, bundle);");
    ck_assert_str_eq(result.bundle, "{}");
    cell_result_free(&result);
}
END_TEST

START_TEST(a_runtime_error_ends_the_cell)
{
    test_run_ok(&session, "int v = 1;", "");
    cell_result result = test_run(&session, "extern int v; void *cadre_read_csv(const char *);",
                                  "v = 2; cadre_read_csv(\"/no/such/file.csv\"); puts(\"never\");");
    ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s", result.text);
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_ERROR);
    ck_assert_str_eq(result.error_name, "CadreError");
    ck_assert_ptr_nonnull(strstr(result.text, "/no/such/file.csv"));
    ck_assert_uint_eq(result.out.length, 0);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 2);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("host streams");
    TCase *cells = tcase_create("cells");
    tcase_add_checked_fixture(cells, setup, teardown);
    tcase_set_timeout(cells, 60);
    tcase_add_test(cells, streams_are_apart);
    tcase_add_test(cells, output_is_live);
    tcase_add_test(cells, a_thread_that_outlives_its_cell_is_heard);
    tcase_add_test(cells, both_streams_keep_their_order);
    tcase_add_test(cells, a_million_lines);
    tcase_add_test(cells, a_slow_reader_loses_nothing);
    tcase_add_test(cells, stdio_still_works_as_in_a_program);
    tcase_add_test(cells, forked_children);
    tcase_add_test(cells, a_background_child_holds_nothing);
    tcase_add_test(cells, input_is_asked_for);
    tcase_add_test(cells, displays_keep_their_place);
    tcase_add_test(cells, arrays_and_values_are_reported);
    tcase_add_test(cells, a_runtime_error_ends_the_cell);
    suite_add_tcase(all, cells);
    return all;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
