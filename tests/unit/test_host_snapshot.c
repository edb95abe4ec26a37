/* Snapshots: what they cost, how far back they go, what else they put back, who ends when. */
#include "host_helper.h"

#include <check.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static void crash(void)
{
    cell_result result = test_run(&session, NULL, "*(volatile int *)8 = 1;");
    ck_assert_msg(result.kind == CADRE_HOST_ROLLED_BACK, "kind %d", (int)result.kind);
    cell_result_free(&result);
}

/* Waits until the copy of the state after the last cell is there. */
static void settle(void)
{
    cadre_host_event event;
    usleep(60000);
    while (cadre_host_next(session.host, &event))
        cadre_host_event_free(&event);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_cost(void)
{
    double costs[9];
    session.policy = CADRE_SNAPSHOT_ALWAYS;
    for (int i = 0; i < 9; i++) {
        test_run_ok(&session, NULL, "");
        settle();
        costs[i] = cadre_host_snapshot_ms(session.host);
    }
    qsort(costs, 9, sizeof *costs, compare_doubles);
    return costs[4];
}

START_TEST(a_copy_is_cheap)
{
    test_run_ok(&session, "char *one; char *hundred;",
                "one = malloc(1 << 20); memset(one, 1, 1 << 20);");
    double small = median_cost();
    test_run_ok(&session, "extern char *hundred;",
                "hundred = malloc(100 << 20); memset(hundred, 1, 100 << 20);");
    double large = median_cost();
    if (getenv("CADRE_SHOW"))
        fprintf(stderr, "snapshot of 1 MB: %.2f ms, of 100 MB: %.2f ms\n", small, large);
    /* 1 and 10 ms on a machine that has nothing else to do */
    ck_assert_msg(small < 5 && large < 30, "1 MB: %.2f ms, 100 MB: %.2f ms", small, large);
}
END_TEST

START_TEST(always_goes_back_one_cell)
{
    session.policy = CADRE_SNAPSHOT_ALWAYS;
    test_run_ok(&session, "int v = 1;", "");
    for (int i = 2; i < 6; i++) {
        test_run_ok(&session, "extern int v;", "v++;");
        settle();
        crash();
        ck_assert_int_eq(test_long(&session, "extern int v;", "v"), i);
    }
}
END_TEST

START_TEST(a_costly_copy_is_kept_and_named)
{
    test_run_ok(&session, "int v = 1; char *big;",
                "big = malloc(200 << 20); memset(big, 1, 200 << 20);");
    settle();
    uint64_t before = session.generation;
    test_run_ok(&session, "extern int v; extern char *big;", "v = 2; memset(big, 2, 200 << 20);");
    settle();
    test_run_ok(&session, "extern int v;", "v = 3;");
    settle();
    cell_result result = test_run(&session, NULL, "*(volatile int *)8 = 1;");
    ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
    ck_assert_uint_eq(result.generation, before);
    ck_assert_ptr_nonnull(strstr(result.text, "2 cells"));
    cell_result_free(&result);
    session.generation = before;
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 1);
}
END_TEST

START_TEST(never_means_lost_and_a_new_start)
{
    session.policy = CADRE_SNAPSHOT_NEVER;
    test_run_ok(&session, "int v = 1;", "");
    settle();
    ck_assert_int_eq(cadre_host_snapshot_pid(session.host), 0);
    cell_result result = test_run(&session, NULL, "puts(\"last words\"); *(volatile int *)8 = 1;");
    ck_assert_int_eq(result.kind, CADRE_HOST_LOST);
    ck_assert_str_eq(result.error_name, "SIGSEGV");
    ck_assert_str_eq(result.out.data, "last words\n");
    cell_result_free(&result);
    session.generation = 0;
    test_wait_event(&session, CADRE_HOST_READY, NULL);
    ck_assert_int_eq(test_long(&session, NULL, "6 * 7"), 42);
}
END_TEST

/* The copy is stopped, so that it cannot take over before it is killed, too. */
START_TEST(the_death_of_host_and_copy_is_seen_at_once)
{
    test_run_ok(&session, "int w = 1;", "");
    settle();
    cell_result result =
        test_run(&session,
                 "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                 "#include <unistd.h>",
                 "char text[200] = \"\", *next = text, name[80];"
                 "snprintf(name, sizeof name, \"/proc/%d/task/%d/children\", getppid(), getppid());"
                 "FILE *file = fopen(name, \"r\");"
                 "fgets(text, sizeof text, file); fclose(file);"
                 "long pids[8], pid; int count = 0, host = getpid();"
                 "while (count < 8 && (pid = strtol(next, &next, 10)) > 0)"
                 "    if (pid != host) pids[count++] = pid;"
                 "if (fork() == 0) {"
                 "    for (int i = 0; i < count; i++) kill(pids[i], SIGSTOP);"
                 "    kill(host, SIGKILL); usleep(200000);"
                 "    for (int i = 0; i < count; i++) kill(pids[i], SIGKILL);"
                 "    _exit(0);"
                 "}"
                 "sleep(20);");
    ck_assert_int_eq(result.kind, CADRE_HOST_LOST);
    ck_assert(result.ms > 150 && result.ms < 5000);
    cell_result_free(&result);
    session.generation = 0;
    test_wait_event(&session, CADRE_HOST_READY, NULL);
}
END_TEST

START_TEST(files_stand_where_they_stood)
{
    test_run_ok(&session, "FILE *in, *out; int raw;",
                "out = fopen(\"/tmp/cadre-test-file\", \"w\"); fprintf(out, \"first\\n\");"
                "raw = open(\"/tmp/cadre-test-file\", O_RDONLY);");
    settle();
    cell_result result =
        test_run(&session, "extern FILE *out; extern int raw;",
                 "char b[3]; read(raw, b, 3); fprintf(out, \"lost\\n\"); *(volatile int *)8 = 1;");
    ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
    cell_result_free(&result);
    result =
        test_run(&session, "extern FILE *out; extern int raw;",
                 "fprintf(out, \"second\\n\"); fclose(out); char b[100] = {0}; read(raw, b, 99);"
                 "printf(\"%s\", b); close(raw); unlink(\"/tmp/cadre-test-file\");");
    ck_assert_str_eq(result.out.data, "first\nsecond\n");
    cell_result_free(&result);
}
END_TEST

START_TEST(lost_locks_are_told)
{
    test_run_ok(&session, "int file; struct flock all = {.l_type = F_WRLCK};",
                "char n[] = \"/tmp/cadre-lock-XXXXXX\"; file = mkstemp(n); unlink(n);");
    settle();
    for (int locked = 0; locked < 2; locked++) {
        cell_result result = test_run(&session, "extern int file; extern struct flock all;",
                                      "fcntl(file, F_SETLK, &all); *(volatile int *)8 = 1;");
        ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
        ck_assert_msg((strstr(result.text, "locks of files") != NULL) == locked, "%s", result.text);
        cell_result_free(&result);
        test_run_ok(&session, "extern int file; extern struct flock all;",
                    "if (fcntl(file, F_SETLK, &all) < 0) abort();");
        settle();
    }
}
END_TEST

static const char blas[] =
    "void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, "
    "const double *, int, double, double *, int);\n"
    "int openblas_get_num_threads(void); void openblas_set_num_threads(int);\n"
    "extern double *a, *c;\n"
    "#define N 512\n"
    "#define GEMM cblas_dgemm(101, 111, 111, N, N, N, 1, a, N, a, N, 0, c, N)\n";

START_TEST(blas_works_after_a_crash)
{
    test_run_ok(
        &session, "double *a, *c;",
        "a = calloc(512 * 512, 8); c = calloc(512 * 512, 8); for (int i = 0; i < 512 * 512; "
        "i++) a[i] = 1;");
    test_run_ok(&session, blas, "openblas_set_num_threads(2); GEMM; if (c[5] != 512) abort();");
    for (int i = 0; i < 3; i++) {
        settle();
        crash();
        session.limit_ms = 5000;
        cell_result result =
            test_run(&session, blas,
                     "memset(c, 0, 8 * N * N); GEMM; if (c[5] != 512) abort();"
                     "openblas_set_num_threads(1); GEMM; openblas_set_num_threads(2);"
                     "GEMM; printf(\"%d\", openblas_get_num_threads());");
        ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s", result.text);
        ck_assert_str_eq(result.out.data, "2");
        cell_result_free(&result);
        /* and a crash in the middle of one, in a thread of the library */
        result =
            test_run(&session, blas,
                     "cblas_dgemm(101, 111, 111, N, N, N, 1, (double *)64, N, a, N, 0, c, N);");
        ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
        cell_result_free(&result);
    }
}
END_TEST

START_TEST(openmp_works_after_a_crash)
{
    session.flags = "-fopenmp";
    session.library = "libgomp.so.1";
    const char *globals = "int omp_get_num_threads(void); void omp_set_num_threads(int);";
    const char *body =
        "omp_set_num_threads(2); int n = 0; double s = 0;\n"
        "_Pragma(\"omp parallel\") {\n _Pragma(\"omp master\") n = omp_get_num_threads();\n"
        "_Pragma(\"omp for reduction(+:s)\") for (int i = 0; i < 1000; i++) s += i; }\n"
        "printf(\"%d %.0f\\n\", n, s);";
    for (int i = 0; i < 3; i++) {
        session.limit_ms = 5000;
        cell_result result = test_run(&session, globals, body);
        ck_assert_msg(result.kind == CADRE_HOST_DONE, "%s", result.text);
        ck_assert_str_eq(result.out.data, "2 499500\n");
        cell_result_free(&result);
        settle();
        crash();
    }
}
END_TEST

START_TEST(stopping_leaves_nobody)
{
    cell_result result =
        test_run(&session, NULL,
                 "system(\"sleep 50 & echo $!\"); if (fork() == 0) { sleep(50); _exit(0); }");
    int background = atoi(result.out.data);
    int host = cadre_host_pid(session.host);
    cell_result_free(&result);
    settle();
    ck_assert(test_is_alive(background));
    crash();
    ck_assert(test_is_alive(background));
    settle();
    int second = cadre_host_pid(session.host), copy = cadre_host_snapshot_pid(session.host);
    ck_assert_int_ne(host, second);
    ck_assert_int_gt(copy, 0);
    test_session_stop(&session);
    ck_assert(test_gone(background, 2000));
    ck_assert(test_gone(host, 100) && test_gone(second, 100) && test_gone(copy, 100));
    setup();
}
END_TEST

START_TEST(the_death_of_the_front_ends_everybody)
{
    int pipes[2], pids[4] = {0};
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t front = fork();
    if (front == 0) {
        test_session mine;
        test_session_start(&mine);
        cell_result result = test_run(&mine, NULL, "system(\"sleep 50 & echo $!\");");
        int found[4] = {atoi(result.out.data)};
        result = test_run(&mine, NULL, "*(volatile int *)8 = 1;");
        result = test_run(&mine, NULL, "system(\"sleep 50 & echo $!\");");
        found[1] = atoi(result.out.data);
        session = mine;
        settle();
        found[2] = cadre_host_pid(mine.host);
        found[3] = cadre_host_snapshot_pid(mine.host);
        if (write(pipes[1], found, sizeof found) < 0) _exit(1);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(pipes[0], pids, sizeof pids), sizeof pids);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(test_is_alive(pids[i]), "process %d (%d)", i, pids[i]);
    kill(front, SIGKILL);
    waitpid(front, NULL, 0);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(test_gone(pids[i], 2000), "process %d stays", i);
}
END_TEST

START_TEST(many_cells_cost_the_same)
{
    enum { ROUNDS = 300 };
    long files_before = test_long(&session, NULL, "dup(0)"); /* the lowest free number */
    test_run_ok(&session, "void work(void) { volatile int x = 1; (void)x; }", "");
    for (int i = 0; i < ROUNDS; i++)
        test_run_ok(&session, "extern int none; void work(void);", "work();");
    ck_assert_int_eq(test_long(&session, NULL, "dup(0)"), files_before + 1);
    settle();
    crash();
    ck_assert_int_eq(test_long(&session, NULL, "dup(0)"), files_before + 2);
}
END_TEST

static long private_bytes(pid_t process)
{
    char path[64];
    long size, resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld %ld", &size, &resident, &shared), 3);
    fclose(file);
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

/* The time that nine of ten cells take at least: a busy machine makes some slow, never fast. */
static double lower_decile(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare_doubles);
    return times[count / 10];
}

/* A session of a long day: neither memory nor descriptors nor time grow with the cells that ran. */
START_TEST(a_long_session_does_not_grow)
{
    enum { PART = 100, WARM = 100 };
    const char *longer = getenv("CADRE_TEST_LONG");
    int cells = longer && strcmp(longer, "yes") == 0 ? 10000 : 500;
    double first[PART], last[PART];
    test_run_ok(&session, "long counter;", "");
    long files = test_long(&session, NULL, "dup(0)"), bytes = 0;
    for (int i = 0; i < WARM + cells; i++) {
        session.repeat = i > 0;
        if (i == WARM) bytes = private_bytes(cadre_host_pid(session.host));
        cell_result result = test_run(&session, "extern long counter;",
                                      "static char text[64]; snprintf(text, sizeof text, "
                                      "\"%ld\", ++counter); puts(text);");
        ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
        if (i >= WARM && i < WARM + PART) first[i - WARM] = result.ms;
        if (i >= WARM + cells - PART) last[i - WARM - cells + PART] = result.ms;
        cell_result_free(&result);
    }
    bytes = private_bytes(cadre_host_pid(session.host)) - bytes;
    session.repeat = false;
    double before = lower_decile(first, PART), after = lower_decile(last, PART);
    if (getenv("CADRE_SHOW"))
        fprintf(stderr, "%d cells: %.0f bytes a cell, %.2f ms, at the end %.2f ms\n", cells,
                (double)bytes / cells, before, after);
    ck_assert_msg(bytes <= 4096L * cells, "%ld bytes for %d cells", bytes, cells);
    ck_assert_msg(after < 2 * before + 1, "%.2f ms, then %.2f ms", before, after);
    ck_assert_int_eq(test_long(&session, NULL, "dup(0)"), files + 1);
    ck_assert_int_eq(test_long(&session, "extern long counter;", "counter"), WARM + cells);
}
END_TEST

/* A copy is made while threads are inside malloc and stdio: it must still be able to use both. */
START_TEST(threads_that_allocate_do_not_spoil_a_copy)
{
    test_run_ok(&session,
                "void *churn(void *a) { for (;;) { char *p = malloc(200000); FILE *f = "
                "fopen(\"/dev/null\", "
                "\"w\"); fprintf(f, \"%p\", p); fclose(f); free(p); } return a; }",
                "int mallopt(int, int); mallopt(-8, 1); pthread_t t[3]; for (int i = 0; i < 3; "
                "i++) pthread_create(&t[i], "
                "0, churn, 0);");
    for (int i = 0; i < 20; i++)
        test_run_ok(&session, NULL, "free(malloc(100000));");
    settle();
    crash();
    for (int i = 0; i < 3; i++)
        test_run_ok(&session, NULL, "free(malloc(100000)); puts(\"x\");");
    settle();
    crash();
    ck_assert_int_eq(test_long(&session, NULL, "1"), 1);
}
END_TEST

/* Limits of processes do not hold for root. */
static void become_nobody(void)
{
    enum { NOBODY = 65534 };
    if (geteuid() != 0) return;
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setgid(NOBODY), 0);
    ck_assert_int_eq(setuid(NOBODY), 0);
}

START_TEST(no_process_left_for_a_copy)
{
    become_nobody();
    test_session_start(&session);
    /* The hard limit too: between cells the host lifts the soft one. */
    test_run_ok(&session, "int kept = 3;",
                "struct { unsigned long a, b; } r = {1, 1}; setrlimit(6, &r);");
    cell_result result = test_run(&session, "extern int kept;", "kept++; puts(\"runs\");");
    ck_assert_str_eq(result.out.data, "runs\n");
    ck_assert_ptr_nonnull(result.notes.data);
    ck_assert_ptr_nonnull(strstr(result.notes.data, "no snapshot: the limit of processes"));
    cell_result_free(&result);
    cell_result again = test_run(&session, "extern int kept;", "printf(\"%d\\n\", kept);");
    ck_assert_str_eq(again.out.data, "4\n");
    cell_result_free(&again);
    ck_assert_int_eq(cadre_host_snapshot_pid(session.host), 0);
    test_session_stop(&session);
}
END_TEST

/* A memory cgroup of this process's own with this limit; false: it may not make one. */
static bool limit_memory(const char *folder, const char *limit)
{
    static const char *const names[] = {"memory.limit_in_bytes", "memory.max"};
    char path[200];
    if (mkdir(folder, 0700) < 0) return false;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "r+e");
        if (!file) continue;
        bool written = fputs(limit, file) >= 0;
        written = fclose(file) == 0 && written;
        snprintf(path, sizeof path, "%s/cgroup.procs", folder);
        file = written ? fopen(path, "r+e") : NULL;
        if (!file) break;
        written = fprintf(file, "%d", (int)getpid()) > 0;
        if (fclose(file) == 0 && written) return true;
    }
    rmdir(folder);
    return false;
}

static void run_without_room(void)
{
    test_session_start(&session);
    test_run_ok(&session, "char *state; int turns;", "state = malloc(60 << 20);");
    cell_result result =
        test_run(&session, "extern char *state;",
                 "state = realloc(state, 250 << 20); memset(state, 1, 250 << 20);");
    ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
    cell_result_free(&result);
    cadre_buffer notes = {0};
    for (int i = 0; i < 5; i++) {
        result = test_run(&session, "extern char *state; extern int turns;",
                          "memset(state, ++turns, 250 << 20);");
        ck_assert_int_eq(result.kind, CADRE_HOST_DONE);
        if (result.notes.data) cadre_buffer_puts(&notes, result.notes.data);
        cell_result_free(&result);
    }
    ck_assert_int_eq(test_long(&session, "extern int turns;", "turns"), 5);
    const char *told = notes.data ? strstr(notes.data, "no snapshot: of the memory limit") : NULL;
    ck_assert_msg(told != NULL, "%s", notes.data ? notes.data : "nothing was said");
    ck_assert_ptr_null(strstr(told + 1, "no snapshot")); /* once */
    cadre_buffer_free(&notes);
    test_session_stop(&session);
}

/* The limit holds host and copy together. The first cell that finds no room says so; cells run on
 * and write to all they have, which would be the end of both if there were a copy. In a process of
 * its own, so that the group can be removed. */
START_TEST(no_memory_left_for_a_copy)
{
    static const char *const mounts[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    enum { NO_GROUP = 77 };
    char folder[100];
    int status = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/cadre-test-%d", mounts[i], (int)getpid());
        pid_t child = fork();
        if (child == 0) {
            if (!limit_memory(folder, "400M")) _exit(NO_GROUP);
            run_without_room();
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        for (int tries = 0; tries < 100 && rmdir(folder) < 0 && errno == EBUSY; tries++)
            usleep(20000);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_GROUP) continue;
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
        return;
    }
    /* Groups cannot be made here: room_for_a_copy (test_memory) shows the rule. */
}
END_TEST

/* The sanitizer's shadow memory makes every copy costly. */
#ifdef __SANITIZE_ADDRESS__
enum { costs_are_real = false };
#else
enum { costs_are_real = true };
#endif

static Suite *suite(void)
{
    Suite *all = suite_create("host snapshots");
    TCase *cells = tcase_create("cells");
    tcase_add_checked_fixture(cells, setup, teardown);
    tcase_set_timeout(cells, 120);
    if (costs_are_real) {
        tcase_add_test(cells, a_copy_is_cheap);
        tcase_add_test(cells, a_costly_copy_is_kept_and_named);
        tcase_add_test(cells, many_cells_cost_the_same);
    }
    tcase_add_test(cells, always_goes_back_one_cell);
    tcase_add_test(cells, never_means_lost_and_a_new_start);
    tcase_add_test(cells, the_death_of_host_and_copy_is_seen_at_once);
    tcase_add_test(cells, files_stand_where_they_stood);
    tcase_add_test(cells, lost_locks_are_told);
    tcase_add_test(cells, blas_works_after_a_crash);
    tcase_add_test(cells, openmp_works_after_a_crash);
    tcase_add_test(cells, stopping_leaves_nobody);
    tcase_add_test(cells, the_death_of_the_front_ends_everybody);
    tcase_add_test(cells, threads_that_allocate_do_not_spoil_a_copy);
    suite_add_tcase(all, cells);
    TCase *day = tcase_create("day");
    tcase_add_checked_fixture(day, setup, teardown);
    tcase_set_timeout(day, 3600);
    if (costs_are_real) tcase_add_test(day, a_long_session_does_not_grow);
    suite_add_tcase(all, day);
    TCase *limits = tcase_create("limits");
    tcase_set_timeout(limits, 120);
    tcase_add_test(limits, no_process_left_for_a_copy);
    if (costs_are_real) tcase_add_test(limits, no_memory_left_for_a_copy);
    suite_add_tcase(all, limits);
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
