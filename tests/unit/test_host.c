/* Running cells, and surviving them. One process per test: Check forks. */
#include "host_helper.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static void expect_death(cell_result *result, const char *name, const char *part)
{
    ck_assert_msg(result->kind == CADRE_HOST_ROLLED_BACK, "kind %d: %s (%s %s)", (int)result->kind,
                  result->text, name, part ? part : "");
    ck_assert_str_eq(result->error_name, name);
    ck_assert_msg(!part || strstr(result->traceback, part) || strstr(result->text, part),
                  "no '%s' in: %s\n%s", part, result->text, result->traceback);
    if (getenv("CADRE_SHOW")) fprintf(stderr, "%s\n%s\n", result->text, result->traceback);
    cell_result_free(result);
}

static void crash(const char *globals, const char *body, const char *name, const char *part)
{
    cell_result result = test_run(&session, globals, body);
    expect_death(&result, name, part);
}

START_TEST(a_cell_runs_and_prints)
{
    cell_result result = test_run(&session, "int kept = 7;", "printf(\"hello %d\\n\", kept);");
    ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_OK);
    ck_assert_str_eq(result.out.data, "hello 7\n");
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int kept;", "kept * 6"), 42);
}
END_TEST

START_TEST(a_missing_symbol_runs_nothing)
{
    cell_result result =
        test_run(&session, "int nowhere(void); int made = 1;", "puts(\"ran\"); nowhere();");
    ck_assert_int_eq(result.kind, CADRE_HOST_LINK_ERROR);
    ck_assert_ptr_nonnull(strstr(result.text, "nowhere"));
    ck_assert_uint_eq(result.out.length, 0);
    cell_result_free(&result);
    result = test_run(&session, "extern int made;", "made = 2;");
    ck_assert_int_eq(result.kind, CADRE_HOST_LINK_ERROR);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "", "5"), 5);
}
END_TEST

START_TEST(a_segmentation_fault_goes_back)
{
    test_run_ok(&session, "int kept = 7; int deref(int *p) {\n return *p;\n}", "");
    crash("extern int kept; int deref(int *);", "kept = 99; puts(\"before\"); deref(0);", "SIGSEGV",
          "deref");
    ck_assert_int_eq(test_long(&session, "extern int kept;", "kept"), 7);
}
END_TEST

START_TEST(a_traceback_has_functions_and_lines)
{
    test_run_ok(&session,
                "int inner(int *p) { return p[3]; }\nint outer(void) {\nint *nothing = 0;\n"
                "return inner(nothing);\n}",
                "");
    cell_result result = test_run(&session, "int outer(void); int r;", "\nr = outer();");
    ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
    if (getenv("CADRE_SHOW")) fprintf(stderr, "%s\n%s\n", result.text, result.traceback);
    const char *inner = strstr(result.traceback, "inner"),
               *outer = strstr(result.traceback, "outer");
    ck_assert(inner || outer); /* gcc may put inner into outer */
    ck_assert_ptr_nonnull(outer);
    ck_assert_ptr_nonnull(strstr(result.traceback, "In[1]:"));
    ck_assert_ptr_nonnull(strstr(result.traceback, "In[2]:4"));
    cell_result_free(&result);
}
END_TEST

START_TEST(printed_text_survives_a_crash)
{
    cell_result result =
        test_run(&session, NULL, "printf(\"not flushed\"); *(volatile int *)8 = 1;");
    ck_assert_str_eq(result.out.data, "not flushed");
    expect_death(&result, "SIGSEGV", "0x8");
    result = test_run(&session, NULL, "printf(\"killed\"); kill(getpid(), SIGKILL);");
    ck_assert_str_eq(result.out.data, "killed");
    expect_death(&result, "SIGKILL", NULL);
}
END_TEST

START_TEST(every_death_is_survived)
{
    test_run_ok(&session, "int alive = 1; volatile int zero;", "");
    crash(NULL, "abort();", "SIGABRT", NULL);
    crash("extern int alive;", "assert(alive == 2);", "SIGABRT", "alive == 2");
    crash("extern volatile int zero;", "volatile int x = 7 / zero; (void)x;", "SIGFPE", "zero");
    crash("int deep(int n) { volatile char pad[4096]; pad[0] = n; return deep(n + 1) + pad[0]; }",
          "deep(0);", "SIGSEGV", "stack");
#ifndef __SANITIZE_ADDRESS__ /* whose malloc ends the process in its own way */
    crash(NULL, "char *volatile p = malloc(16); free(p); free(p);", "SIGABRT", "double free");
#endif
    crash(NULL, "kill(getpid(), SIGKILL);", "SIGKILL", NULL);
    crash(NULL, "kill(getpid(), SIGTERM); pause();", "SIGTERM", NULL);
    crash("extern int alive;", "alive = 5; _exit(3);", "ProcessExit", "_exit(3)");
    crash(NULL, "execl(\"/bin/sh\", \"sh\", \"-c\", \"echo from exec; exit 4\", (char *)0);",
          "ProcessExit", "exec");
    crash(NULL, "((void (*)(void))16)();", "SIGSEGV", NULL);
    crash(NULL, "syscall(231, 9);", "ProcessExit", "9");
    crash(NULL, "printf(\"printed\"); syscall(60, 0);", "ProcessExit", "main thread");
    crash("void *bad(void *a) { *(volatile int *)8 = 1; return a; }",
          "pthread_t t; pthread_create(&t, 0, bad, 0); pthread_join(t, 0);", "SIGSEGV", "thread");
#ifndef __SANITIZE_ADDRESS__
    crash("int down(int n) { volatile char pad[4096]; pad[0] = n; return down(n + 1) + pad[0]; }\n"
          "void *bad(void *a) { down(0); return a; }",
          "pthread_t t; pthread_create(&t, 0, bad, 0); pthread_join(t, 0);", "SIGSEGV", "stack");
#endif
    crash(
        "extern FILE *_IO_list_all; int compare(const void *a, const void *b) { return *(volatile "
        "int *)8; }",
        "int v[3] = {3, 1, 2}; qsort(v, 3, sizeof *v, compare);", "SIGSEGV",
#ifdef __SANITIZE_ADDRESS__ /* whose own qsort stands between */
        "compare"
#else
        "qsort"
#endif
    );
    crash(NULL, "flockfile(stdout); printf(\"locked\"); *(volatile int *)8 = 1;", "SIGSEGV", NULL);
    crash(NULL, "for (int i = 3; i < 1200; i++) syscall(3, i); *(volatile int *)8 = 1;", "SIGSEGV",
          NULL);
    crash(NULL, "for (int i = 3; i < 1200; i++) syscall(3, i);", "ProcessExit",
          "descriptors of the kernel");
    crash("#include <fcntl.h>\n",
          "int f = open(\"/dev/null\", O_RDWR); for (int i = 3; i < 1200; i++) if (i != f) "
          "syscall(33, f, i);",
          "ProcessExit", "descriptors of the kernel");
    ck_assert_int_eq(test_long(&session, "extern int alive;", "alive"), 1);
    test_run_ok(&session, NULL, "closefrom(3); for (int i = 3; i < 1200; i++) close(i);");
    cell_result result = test_run(&session, NULL, "puts(\"still here\");");
    ck_assert_str_eq(result.out.data, "still here\n");
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int alive;", "alive"), 1);
}
END_TEST

START_TEST(ten_crashes_in_a_row)
{
    test_run_ok(&session, "int counter = 100;", "");
    for (int i = 0; i < 10; i++)
        crash("extern int counter;",
              "counter++; char *p = malloc(9); p[-8] = 1; *(volatile int *)0 = 1;", "SIGSEGV",
              NULL);
    ck_assert_int_eq(test_long(&session, "extern int counter;", "counter"), 100);
}
END_TEST

START_TEST(exit_ends_the_cell_and_keeps_state)
{
    test_run_ok(&session, "int v = 1;", "");
    cell_result result = test_run(&session, "extern int v; void bye(void) { puts(\"bye\"); }",
                                  "v = 2; atexit(bye); exit(4);");
    ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_EXIT);
    ck_assert_int_eq(result.status, 4);
    ck_assert_str_eq(result.out.data, "bye\n");
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 2);
    result = test_run(&session, "extern int v;", "v = 3; cadre_hook_main(7);");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_EXIT);
    ck_assert_int_eq(result.status, 7);
    cell_result_free(&result);
    result = test_run(&session, "extern int v; void *end(void *a) { v = 8; exit(9); return a; }",
                      "pthread_t t; pthread_create(&t, 0, end, 0); sleep(10);");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_EXIT);
    ck_assert_int_eq(result.status, 9);
    ck_assert(result.ms < 2000);
    cell_result_free(&result);
    result = test_run(&session, NULL, "pthread_exit(0);");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_EXIT);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 8);
}
END_TEST

START_TEST(killed_from_outside)
{
    cell_result result = {0};
    test_run_ok(&session, "int v = 11;", "");
    pid_t before = cadre_host_pid(session.host);
    usleep(100000); /* the copy of what is now is made when the cell has ended */
    kill(before, SIGKILL);
    test_wait_event(&session, CADRE_HOST_ROLLED_BACK, &result);
    ck_assert_str_eq(result.error_name, "SIGKILL");
    ck_assert_uint_eq(result.generation, session.generation);
    ck_assert_int_ne(cadre_host_pid(session.host), before);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 11);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("host");
    TCase *cells = tcase_create("cells");
    tcase_add_checked_fixture(cells, setup, teardown);
    tcase_set_timeout(cells, 60);
    tcase_add_test(cells, a_cell_runs_and_prints);
    tcase_add_test(cells, a_missing_symbol_runs_nothing);
    tcase_add_test(cells, a_segmentation_fault_goes_back);
    tcase_add_test(cells, a_traceback_has_functions_and_lines);
    tcase_add_test(cells, printed_text_survives_a_crash);
    tcase_add_test(cells, every_death_is_survived);
    tcase_add_test(cells, ten_crashes_in_a_row);
    tcase_add_test(cells, exit_ends_the_cell_and_keeps_state);
    tcase_add_test(cells, killed_from_outside);
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
