/* Interrupts: in time, with the state kept, and without harm to what the cell was doing. */
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

/* The cell is left within 100 ms, and memory is kept. A machine that is busy with other things
 * gets three chances to be fast enough. */
static void interrupted(const char *globals, const char *body, int after_ms)
{
    double best = 1e9;
    bool no_answer = session.no_answer;
    for (int attempt = 0; attempt < 3 && best >= 100; attempt++) {
        session.interrupt_ms = after_ms;
        session.limit_ms = 8000;
        session.no_answer = no_answer;
        cell_result result = test_run(&session, globals, body);
        ck_assert_msg(result.kind == CADRE_HOST_DONE && result.outcome == CADRE_OUTCOME_INTERRUPTED,
                      "kind %d outcome %d %s %s: %s", (int)result.kind, (int)result.outcome,
                      result.error_name, result.text, body);
        ck_assert_str_eq(result.error_name, "KeyboardInterrupt");
        ck_assert_ptr_null(result.out.data ? strstr(result.out.data, "never") : NULL);
        if (result.after_interrupt_ms < best) best = result.after_interrupt_ms;
        cell_result_free(&result);
    }
    ck_assert_msg(best < 100, "%.1f ms: %s", best, body);
}

START_TEST(a_tight_loop)
{
    test_run_ok(&session, "volatile long steps;", "");
    interrupted("extern volatile long steps;", "for (;;) steps++;", 100);
    ck_assert_int_gt(test_long(&session, "extern volatile long steps;", "steps"), 0);
}
END_TEST

START_TEST(loops_over_library_functions)
{
    test_run_ok(&session, "long turns;", "");
    interrupted("extern long turns;",
                "for (;;) { char *p = malloc(64); p[0] = 1; free(p); turns++; }", 100);
    interrupted("extern long turns;", "for (;;) { printf(\"%ld\\n\", turns++); }", 100);
    interrupted(NULL, "for (;;) fprintf(stderr, \"x\");", 100);
    interrupted(NULL, "for (;;) { char b[1 << 16]; memset(b, 1, sizeof b); write(1, b, 1); }", 100);
    interrupted(
        "int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }",
        "static int v[1000]; for (;;) { for (int i = 0; i < 1000; i++) v[i] = i * 7919 % 1000;"
        "qsort(v, 1000, sizeof *v, compare); }",
        100);
    ck_assert_int_gt(test_long(&session, "extern long turns;", "turns"), 0);
}
END_TEST

START_TEST(waiting)
{
    interrupted(NULL, "sleep(30);", 100);
    interrupted(NULL, "usleep(30000000); puts(\"never\");", 100);
    interrupted(NULL, "poll(0, 0, 30000);", 100);
    interrupted(NULL, "pause();", 100);
    interrupted(NULL, "int p[2]; pipe(p); char c; read(p[0], &c, 1); puts(\"never\");", 100);
    interrupted(
        NULL, "int p[2]; pipe(p); FILE *f = fdopen(p[0], \"r\"); char b[9]; fgets(b, 9, f);", 100);
    interrupted(NULL, "if (fork() == 0) { sleep(30); _exit(0); } wait(0);", 100);
    interrupted(NULL, "system(\"sleep 30\");", 100);
    interrupted(NULL, "system(\"trap '' INT; sleep 30; echo never\");", 100);
    interrupted("void *nap(void *a) { sleep(30); return a; }",
                "pthread_t t; pthread_create(&t, 0, nap, 0); pthread_join(t, 0);", 100);
    interrupted("pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;",
                "pthread_mutex_lock(&m); pthread_mutex_lock(&m);", 100);
    interrupted("pthread_mutex_t m2 = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t c = "
                "PTHREAD_COND_INITIALIZER;",
                "pthread_mutex_lock(&m2); pthread_cond_wait(&c, &m2);", 100);
    ck_assert_int_eq(
        test_long(&session, "extern pthread_mutex_t m2;", "pthread_mutex_trylock(&m2)"), 0);
    interrupted("#include <semaphore.h>\nsem_t s;", "sem_init(&s, 0, 0); sem_wait(&s);", 100);
    session.no_answer = true;
    interrupted(NULL, "int n; scanf(\"%d\", &n); puts(\"never\");", 100);
    cell_result result = test_run(&session, NULL, "puts(\"still here\");");
    ck_assert_str_eq(result.out.data, "still here\n");
    cell_result_free(&result);
}
END_TEST

#define IN_AN_HOUR                                                                                 \
    "struct timespec t; clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 3600; struct timespec m; "  \
    "clock_gettime(CLOCK_MONOTONIC, &m); m.tv_sec += 3600; "

START_TEST(waiting_with_a_limit)
{
    static const char *const bodies[] = {
        "pthread_cond_timedwait(&c, &m1, &t);",
        "pthread_cond_clockwait(&c, &m1, CLOCK_MONOTONIC, &m);",
        "pthread_mutex_timedlock(&m1, &t);",
        "pthread_mutex_clocklock(&m1, CLOCK_MONOTONIC, &m);",
        "pthread_rwlock_timedrdlock(&r, &t);",
        "pthread_rwlock_clockrdlock(&r, CLOCK_MONOTONIC, &m);",
        "pthread_rwlock_timedwrlock(&q, &t);",
        "pthread_rwlock_clockwrlock(&q, CLOCK_MONOTONIC, &m);",
        "pthread_timedjoin_np(nap, 0, &t);",
        "pthread_clockjoin_np(nap, 0, CLOCK_MONOTONIC, &m);",
        "sem_timedwait(&s, &t);",
        "sem_clockwait(&s, CLOCK_MONOTONIC, &m);",
        "mtx_timedlock(&c11, &t);",
        "cnd_timedwait(&c11c, &c11, &t);",
    };
    test_run_ok(&session,
                "#include <semaphore.h>\n#include <threads.h>\n"
                "pthread_cond_t c = PTHREAD_COND_INITIALIZER;"
                "pthread_mutex_t m1 = PTHREAD_MUTEX_INITIALIZER;"
                "pthread_rwlock_t r = PTHREAD_RWLOCK_INITIALIZER, q = PTHREAD_RWLOCK_INITIALIZER;"
                "pthread_t nap; sem_t s; mtx_t c11; cnd_t c11c; long kept;"
                "void *sleeps(void *a) { pthread_rwlock_wrlock(&r); sleep(3600); return a; }",
                "pthread_mutex_lock(&m1); pthread_rwlock_rdlock(&q);"
                "pthread_create(&nap, 0, sleeps, 0); sem_init(&s, 0, 0);"
                "while (pthread_rwlock_tryrdlock(&r) == 0) { pthread_rwlock_unlock(&r); "
                "usleep(1000); }"
                "mtx_init(&c11, mtx_timed); cnd_init(&c11c); mtx_lock(&c11);");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char body[600];
        /* a wait for a condition gives the mutex back */
        snprintf(body, sizeof body,
                 IN_AN_HOUR "pthread_mutex_trylock(&m1); mtx_trylock(&c11); kept++; %s "
                            "puts(\"never\");",
                 bodies[i]);
        interrupted("#include <semaphore.h>\n#include <threads.h>\n"
                    "extern pthread_cond_t c; extern pthread_mutex_t m1; extern pthread_rwlock_t "
                    "r, q; extern pthread_t nap; extern sem_t s; extern mtx_t c11; extern cnd_t "
                    "c11c; extern long kept;",
                    body, 50);
    }
    ck_assert_int_ge(test_long(&session, "extern long kept;", "kept"),
                     (long)(sizeof bodies / sizeof *bodies));
}
END_TEST

START_TEST(waiting_in_the_system)
{
    test_run_ok(&session, "long kept = 7;", "");
    interrupted("pthread_barrier_t b;",
                "pthread_barrier_init(&b, 0, 2); pthread_barrier_wait(&b); puts(\"never\");", 50);
    interrupted("#include <sys/msg.h>\n",
                "int q = msgget(IPC_PRIVATE, 0600); struct { long t; char x[8]; } g; struct "
                "msqid_ds d; if (fork() == 0) { signal(SIGINT, SIG_IGN); usleep(400000); msgctl(q, "
                "IPC_RMID, &d); "
                "_exit(0); } msgrcv(q, &g, 8, 0, 0); puts(\"never\");",
                50);
    interrupted("#include <sys/sem.h>\n",
                "int s = semget(IPC_PRIVATE, 1, 0600); struct sembuf o = {0, -1, 0}; "
                "if (fork() == 0) { signal(SIGINT, SIG_IGN); usleep(400000); "
                "semctl(s, 0, IPC_RMID); _exit(0); } semop(s, &o, 1); puts(\"never\");",
                50);
    interrupted("#include <sys/file.h>\n",
                "char n[] = \"/tmp/cadre-lock-XXXXXX\"; int f = mkstemp(n), g = open(n, 2); "
                "unlink(n); flock(f, LOCK_EX); flock(g, LOCK_EX); puts(\"never\");",
                50);
    interrupted("#include <fcntl.h>\n",
                "char n[] = \"/tmp/cadre-lock-XXXXXX\"; int f = mkstemp(n), p[2], x; pipe(p); "
                "struct flock k = {.l_type = F_WRLCK}; if (fork() == 0) { signal(SIGINT, "
                "SIG_IGN); fcntl(f, F_SETLKW, &k); write(p[1], n, 1); sleep(2); _exit(0); } "
                "read(p[0], &x, 1); unlink(n); fcntl(f, F_SETLKW, &k); puts(\"never\");",
                50);
    interrupted("#include <fcntl.h>\n#include <sys/stat.h>\n",
                "char n[] = \"/tmp/cadre-fifo-XXXXXX\"; mkdtemp(n); char f[80]; "
                "sprintf(f, \"%s/f\", n); mkfifo(f, 0600); if (fork() == 0) { signal(SIGINT, "
                "SIG_IGN); usleep(400000); "
                "unlink(f); rmdir(n); _exit(0); } open(f, O_RDONLY); "
                "puts(\"never\");",
                50);
    interrupted("#include <signal.h>\n",
                "sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, "
                "0); int n; sigwait(&s, &n); puts(\"never\");",
                50);
    interrupted("#include <sys/socket.h>\n#include <netinet/in.h>\n",
                "int s = socket(AF_INET, SOCK_STREAM, 0); listen(s, 1); accept(s, 0, 0); "
                "puts(\"never\");",
                50);
    test_run_ok(&session, NULL, "usleep(600000);"); /* the children have removed what was made */
    ck_assert_int_eq(test_long(&session, "extern long kept;", "kept"), 7);
}
END_TEST

START_TEST(constructors_that_loop)
{
    test_run_ok(&session, "long kept = 5;", "");
    interrupted("extern long kept; __attribute__((constructor)) static void turn(void) { kept++; "
                "for (;;) ; }",
                "", 50);
    interrupted("__attribute__((constructor)) static void turn(void) { for (;;) free(malloc(9)); }",
                "", 50);
    ck_assert_int_ge(test_long(&session, "extern long kept;", "kept"), 6);
}
END_TEST

START_TEST(signals_cannot_be_blocked)
{
    interrupted(NULL,
                "sigset_t s; sigfillset(&s); sigprocmask(SIG_SETMASK, &s, 0); "
                "pthread_sigmask(SIG_BLOCK, &s, 0); volatile long n = 0; for (;;) n++;",
                100);
    interrupted(NULL,
                "for (int i = 1; i < 65; i++) signal(i, SIG_IGN); struct sigaction a = {0}; "
                "a.sa_handler = SIG_IGN; for (int i = 1; i < 65; i++) sigaction(i, &a, 0); "
                "volatile long n = 0; for (;;) n++;",
                100);
    interrupted(NULL, "raise(SIGSTOP); for (;;) sleep(1);", 300);
}
END_TEST

START_TEST(before_and_after_a_cell)
{
    test_run_ok(&session, "int v = 5;", "");
    session.interrupt_ms = -1;
    cell_result result = test_run(&session, NULL, "usleep(2000000);");
    ck_assert_int_eq(result.outcome, CADRE_OUTCOME_INTERRUPTED);
    ck_assert(result.ms < 1000);
    cell_result_free(&result);
    cadre_host_interrupt(session.host);
    test_run_ok(&session, NULL, "usleep(100000);");
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 5);
}
END_TEST

/* The host has taken the cell up and not called it yet: its constructors run, say. */
START_TEST(before_the_first_statement)
{
    test_run_ok(&session, "int v = 5;", "");
    interrupted("extern int v;\n#include <time.h>\n"
                "__attribute__((constructor)) void slow(void) { struct timespec a, b; "
                "clock_gettime(CLOCK_MONOTONIC, &a); do clock_gettime(CLOCK_MONOTONIC, &b); while "
                "((b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6 < 180); }",
                "for (;;) v = 6;", 100);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 5);
}
END_TEST

START_TEST(inside_a_library_that_does_not_return)
{
    test_run_ok(&session, "int v = 5;", "");
    session.interrupt_ms = 100;
    cell_result result = test_run(
        &session,
        "extern int v; int compare(const void *a, const void *b) { for (;;) (*(volatile int "
        "*)a)++; }",
        "v = 6; int x[3] = {3, 1, 2}; qsort(x, 3, sizeof *x, compare);");
    ck_assert_int_eq(result.kind, CADRE_HOST_ROLLED_BACK);
    ck_assert_str_eq(result.error_name, "KeyboardInterrupt");
    ck_assert_msg(result.after_interrupt_ms > 1500 && result.after_interrupt_ms < 3000, "%.0f ms",
                  result.after_interrupt_ms);
    cell_result_free(&result);
    ck_assert_int_eq(test_long(&session, "extern int v;", "v"), 5);
}
END_TEST

/* A train function is left and the loop cleans up behind it, in one process and in several. */
START_TEST(loops_of_the_runtime)
{
    session.flags = TEST_RUNTIME;
    test_run_ok(
        &session, "#include <cadre.h>\ncadre_slices *slices;",
        "FILE *f = fopen(\"/tmp/cadre-test.csv\", \"w\"); fputs(\"k,x\\na,1\\nb,2\\nc,3\\n\", f); "
        "fclose(f); slices = cadre_slices_by(cadre_read_csv(\"/tmp/cadre-test.csv\"), \"k\"); "
        "unlink(\"/tmp/cadre-test.csv\");");
    const char *globals = "#include <cadre.h>\nextern cadre_slices *slices; volatile long turns;\n"
                          "int train(const cadre_slice *s, cadre_model *m, void *u, cadre_error "
                          "*e) { for (;;) turns++; }";
    interrupted(globals,
                "cadre_loop(slices, (cadre_loop_options){.train = train}); puts(\"never\");", 200);
    interrupted(
        globals,
        "cadre_loop(slices, (cadre_loop_options){.train = train, .is_multiple_processors = 1, "
        ".cpu_count = 1}); puts(\"never\");",
        200);
    cell_result result = test_run(&session, NULL, "printf(\"%d\\n\", wait(0)); perror(\"wait\");");
    ck_assert_str_eq(result.out.data, "-1\n");
    cell_result_free(&result);
    session.limit_ms = 5000;
    test_run_ok(&session,
                "#include <cadre.h>\nextern cadre_slices *slices;\n"
                "int quick(const cadre_slice *s, cadre_model *m, void *u, cadre_error *e) { return "
                "cadre_error_set(e, CADRE_EINPUT, \"no\"); }",
                "cadre_report_free(cadre_loop(slices, (cadre_loop_options){.train = quick, "
                ".is_multiple_processors = 1, .cpu_count = 1}));");
}
END_TEST

static bool is_long(void)
{
    const char *text = getenv("CADRE_TEST_LONG");
    return text && strcmp(text, "yes") == 0;
}

START_TEST(many_times)
{
#ifdef __SANITIZE_ADDRESS__ /* where a round takes several times as long */
    int rounds = is_long() ? 10000 : 200;
#else
    int rounds = is_long() ? 10000 : 1000;
#endif
    double sum = 0, worst = 0;
    test_run_ok(
        &session,
        "long turns; void loop(void) { for (;;) { char *p[40]; for (int i = 0; i < 40; i++) { "
        "p[i] = malloc(16 + turns % 3000); snprintf(p[i], 16, \"%ld\", turns++); } "
        "printf(\"%s\\n\", p[3]); for (int i = 0; i < 40; i++) free(p[i]); } }",
        "");
    for (int i = 0; i < rounds; i++) {
        session.interrupt_ms = 1 + i % 7;
        session.repeat = i > 0;
        cell_result result = test_run(&session, "void loop(void);", "loop();");
        ck_assert_msg(result.kind == CADRE_HOST_DONE && result.outcome == CADRE_OUTCOME_INTERRUPTED,
                      "round %d: kind %d %s %s\n%s", i, (int)result.kind, result.error_name,
                      result.text, result.traceback);
        sum += result.after_interrupt_ms;
        if (result.after_interrupt_ms > worst) worst = result.after_interrupt_ms;
        cell_result_free(&result);
    }
    if (getenv("CADRE_SHOW"))
        fprintf(stderr, "%d interrupts: mean %.2f ms, worst %.2f ms\n", rounds, sum / rounds,
                worst);
    ck_assert_msg(sum / rounds < 50, "mean %.1f ms", sum / rounds);
    test_run_ok(&session, NULL,
                "for (int i = 0; i < 10000; i++) { char *p = malloc(i + 1); p[i] = 1; free(p); }");
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("host interrupts");
    TCase *cells = tcase_create("cells");
    tcase_add_checked_fixture(cells, setup, teardown);
    tcase_set_timeout(cells, 120);
    tcase_add_test(cells, a_tight_loop);
    tcase_add_test(cells, loops_over_library_functions);
    tcase_add_test(cells, waiting);
    tcase_add_test(cells, waiting_with_a_limit);
    tcase_add_test(cells, waiting_in_the_system);
    tcase_add_test(cells, constructors_that_loop);
    tcase_add_test(cells, signals_cannot_be_blocked);
    tcase_add_test(cells, before_and_after_a_cell);
    tcase_add_test(cells, before_the_first_statement);
    tcase_add_test(cells, inside_a_library_that_does_not_return);
    tcase_add_test(cells, loops_of_the_runtime);
    suite_add_tcase(all, cells);
    TCase *many = tcase_create("many");
    tcase_add_checked_fixture(many, setup, teardown);
    tcase_set_timeout(many, is_long() ? 7200 : 240);
    tcase_add_test(many, many_times);
    suite_add_tcase(all, many);
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
