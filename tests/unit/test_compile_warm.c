/* The warm compiler against the plain one: the same objects, the same messages, whatever dies. */
#include "compile_helpers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEADERS                                                                                    \
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n"            \
    "#include <omp.h>\n"

enum { MOST_PROCESSES = 64 };

static cadre_compiler *warm;

static void use_plugins(bool yes)
{
    ck_assert_int_eq(setenv("CADRE_PLUGIN_DIR", yes ? PLUGIN_DIR : "/nowhere", 1), 0);
}

static void setup(void)
{
    use_plugins(true);
    warm = helper_compiler("gcc", "");
}

static void teardown(void)
{
    cadre_compiler_free(warm);
    warm = NULL;
}

/* ---- processes ---- */

typedef struct process {
    pid_t pid, parent;
    char name[32];
} process;

/* Every process called `name` below this one. */
static size_t find_processes(const char *name, process *found)
{
    static process all[4096];
    size_t count = 0, matches = 0;
    DIR *folder = opendir("/proc");
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && count < 4096;) {
        char path[300];
        process *p = &all[count];
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        char state;
        int pid, parent;
        if (fscanf(file, "%d (%31[^)]) %c %d", &pid, p->name, &state, &parent) == 4 &&
            state != 'Z') {
            p->pid = pid;
            p->parent = parent;
            count++;
        }
        fclose(file);
    }
    closedir(folder);
    for (size_t i = 0; i < count; i++) {
        pid_t at = all[i].pid;
        for (int depth = 0; depth < 5 && at != getpid(); depth++) {
            pid_t parent = 0;
            for (size_t k = 0; k < count; k++)
                if (all[k].pid == at) parent = all[k].parent;
            at = parent;
        }
        if (at == getpid() && all[i].pid != getpid() && strcmp(all[i].name, name) == 0 &&
            matches < MOST_PROCESSES)
            found[matches++] = all[i];
    }
    return matches;
}

/* The server of that name: the one that we started. 0: none. */
static pid_t server_of(const char *name)
{
    process found[MOST_PROCESSES];
    size_t count = find_processes(name, found);
    for (size_t i = 0; i < count; i++)
        if (found[i].parent == getpid()) return found[i].pid;
    return 0;
}

static pid_t worker_of(const char *name)
{
    process found[MOST_PROCESSES];
    size_t count = find_processes(name, found);
    for (size_t i = 0; i < count; i++)
        if (found[i].parent != getpid()) return found[i].pid;
    return 0;
}

static long resident_kilobytes(pid_t pid)
{
    char path[64], line[200];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &value) == 1) break;
    fclose(file);
    return value;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- comparing ---- */

/* What a compiler says that was never asked before and has no plugin. */
static void compile_plainly(const cadre_compile_request *request, cadre_compile_result *result)
{
    use_plugins(false);
    cadre_compiler *plain = helper_compiler("gcc", "");
    helper_compile(plain, request, result);
    cadre_compiler_free(plain);
    use_plugins(true);
}

static void check_same(const cadre_compile_request *request, const cadre_compile_result *expected)
{
    cadre_compile_result result;
    helper_compile(warm, request, &result);
    ck_assert_msg(result.ok == expected->ok, "%s", result.diagnostics);
    ck_assert_str_eq(result.diagnostics, expected->diagnostics);
    ck_assert_uint_eq(result.object_length, expected->object_length);
    if (result.ok) ck_assert_mem_eq(result.object, expected->object, result.object_length);
    cadre_compile_result_free(&result);
}

static void compare(const char *headers, const char *source, const char *const *flags,
                    size_t flag_count)
{
    cadre_compile_result expected;
    cadre_compile_request request = helper_request(headers, source);
    request.flags = flags;
    request.flag_count = flag_count;
    compile_plainly(&request, &expected);
    for (int i = 0; i < 2; i++)
        check_same(&request, &expected);
    ck_assert_int_ne(server_of("cc1"), 0);
    cadre_compile_result_free(&expected);
}

/* clang-format off */
static const char *const sources[] = {
    "#line 1 \"cell.c\"\ndouble f(double x) { return sin(x) + sqrt(x); }\n"
    "void cell(void)\n{\n    printf(\"%g\\n\", f(2));\n}\n",
    "int no_line_directive = 1;\nint bad = nope;\n",
    "#line 10 \"cell.c\"\nint f(void) { return nope; }\nint g(void) { return 1 }\n",
    "#line 1 \"cell.c\"\nint f(void) {\n    if (1) {\n",
    "#line 1 \"cell.c\"\nint f(void) {",
    "#line 1 \"cell.c\"\n/* never closed\nint x;\n",
    "#line 1 \"cell.c\"\n#if 1\nint x;\n",
    "#line 1 \"cell.c\"\n#endif\nint x;\n",
    "#line 1 \"cell.c\"\n#include <no_such_header.h>\nint x;\n",
    "#line 1 \"cell.c\"\n#include \"no_such_header.h\"\nint x;\n",
    "#line 1 \"cell.c\"\n#include <complex.h>\ndouble complex z = nope;\n",
    "#line 1 \"cell.c\"\n#define M(x) ((x) + nope)\nint f(void) { return M(1); }\n",
    "#line 1 \"cell.c\"\n#define assert_not(x) _Static_assert(!(x), \"no\")\nassert_not(1);\n",
    "#line 1 \"cell.c\"\nvoid f(int unused) { int other; printf(\"%d\", 1.5); }\n",
    "#line 1 \"cell.c\"\nstatic int never_used(void) { return 1; }\nint x\n",
    "#line 1 \"cell.c\"\nint printf;\n",
    "#line 1 \"cell.c\"\n#error stop here\n",
    "#line 1 \"cell.c\"\n#warning go on\nint x;\n",
    "#line 1 \"cell.c\"\nvoid f(void) { __asm__(\"no_such_instruction\"); }\n",
    "#line 1 \"cell.c\"\nint a = 1;\n#line 1 \"other.c\"\nint a = 2;\n",
    "#line 1 \"cell.c\"\n#pragma some thing\n#pragma unknown thing\nint x;\n",
    "#line 1 \"cell.c\"\n#pragma omp parallel for\nfor (;;) ;\n",
    "#line 1 \"cell.c\"\nconst char *name = __FILE__; int line = __LINE__; int n = __COUNTER__;\n",
    "#line 1 \"cell.c\"\nint \302\265 = 1; const char *s = \"\303\244\"; int \303\251 = \303\250;\n",
    "#line 1 \"cell.c\"\r\nint a;\r\nint b = nope;\r\n",
    "#line 1 \"cell.c\"\n\tint\ttabbed = nope;\n",
    "#line 1 \"cell.c\"\nint f(int x) { switch (x) { case 1: return 2; case 1: return 3; } }\n",
    "#line 1 \"cell.c\"\n_Thread_local int t; int *f(void) { return &t; }\n",
    "",
    "\n",
    "int x = 1; // no line end, and a warning at it: \\",
};
/* clang-format on */

START_TEST(same_as_plain)
{
    compare(HEADERS, sources[_i], NULL, 0);
}
END_TEST

START_TEST(same_with_flags)
{
    const char *const sets[][3] = {{"-O0", "-g1", "-Wextra"},
                                   {"-O1", "-std=c99", "-Wpedantic"},
                                   {"-O3", "-fopenmp", "-DN=\"a b\""},
                                   {"-fsanitize=undefined", "-Werror", "-O2"},
                                   {"-ffast-math", "-march=x86-64-v2", "-fno-pic"},
                                   {"-fdebug-prefix-map=/=x", "-w", "-Os"}};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i += 6)
        compare(HEADERS, sources[i], sets[_i], 3);
    compare(HEADERS,
            "void f(double *x, int n)\n{\n#pragma omp parallel for\n"
            "    for (int i = 0; i < n; i++)\n        x[i] = sin(x[i]) + i / n;\n}\n",
            sets[_i], 3);
}
END_TEST

START_TEST(same_with_other_headers)
{
    /* without a last line end; nothing at all; with a warning; with a line of its own */
    compare("#include <stdio.h>", "#line 1 \"cell.c\"\nint x = nope;\n", NULL, 0);
    compare("", "#line 1 \"cell.c\"\nint x = nope;\n", NULL, 0);
    compare("#warning first\n#line 7 \"headers\"\n#include <stdio.h>\n#warning second\n",
            "int x = nope;\nvoid f(int unused);\n", NULL, 0);
}
END_TEST

START_TEST(bad_headers)
{
    cadre_compile_request request =
        helper_request("#include <no_such_header.h>\n", "#line 1 \"cell.c\"\nint x;\n");
    cadre_compile_result expected;
    compile_plainly(&request, &expected);
    ck_assert(!expected.ok);
    for (int i = 0; i < 3; i++)
        check_same(&request, &expected);
    cadre_compile_result_free(&expected);
    compare("#include <stdio.h>\n", "int x;\n", NULL, 0);
}
END_TEST

/* No plugin can be loaded: started ahead, the second unit on. */
START_TEST(started_ahead)
{
    use_plugins(false);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i += 3) {
        cadre_compile_request request = helper_request(HEADERS, sources[i]);
        cadre_compile_result expected;
        compile_plainly(&request, &expected);
        use_plugins(false);
        for (int k = 0; k < 3; k++)
            check_same(&request, &expected);
        ck_assert_int_ne(server_of("as"), 0); /* the next pair waits */
        cadre_compile_result_free(&expected);
    }
}
END_TEST

/* ---- deaths ---- */

static cadre_compile_request good_request(void)
{
    return helper_request(HEADERS, "#line 1 \"cell.c\"\nint f(void) { return 1; }\n");
}

static void compile_good(void)
{
    cadre_compile_request request = good_request();
    cadre_compile_result result;
    helper_compile(warm, &request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    ck_assert(helper_has_symbol(&result, "f"));
    cadre_compile_result_free(&result);
}

START_TEST(servers_killed)
{
    static const char *const names[] = {"cc1", "as"};
    cadre_compiler_warm(warm, HEADERS, NULL, 0);
    for (int i = 0; i < 4; i++) {
        compile_good();
        pid_t server = server_of(names[i % 2]);
        ck_assert_int_ne(server, 0);
        ck_assert_int_eq(kill(server, SIGKILL), 0);
        if (i >= 2) pause_ms(50);
    }
    compile_good();
    compile_good();
    ck_assert_int_ne(server_of("cc1"), 0);
}
END_TEST

START_TEST(standby_killed)
{
    compile_good();
    pid_t server = server_of("cc1");
    for (int i = 0; i < 3; i++) {
        pid_t worker = 0;
        for (int k = 0; k < 100 && !worker; k++) {
            pause_ms(20);
            worker = worker_of("cc1");
        }
        ck_assert_int_ne(worker, 0);
        kill(worker, SIGKILL);
        compile_good();
    }
    ck_assert_int_eq(server_of("cc1"), server);
}
END_TEST

/* A unit that takes seconds: many long functions. */
static char *long_unit(void)
{
    enum { FUNCTIONS = 1500 };
    size_t capacity = FUNCTIONS * 400, length = 0;
    char *text = malloc(capacity);
    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < FUNCTIONS; i++)
        length += (size_t)snprintf(
            text + length, capacity - length,
            "double long%d(double *x, int n) { double s = 0; for (int i = 0; i < n; i++) for (int "
            "k = 0; k < i; k++) { s += x[i] * x[k]; if (s > 1e9) s = sin(s) + x[k] / x[i]; else "
            "x[k] "
            "+= cos(s); } return s; }\n",
            i);
    return text;
}

START_TEST(worker_killed_in_mid_compile)
{
    char *text = long_unit();
    cadre_compile_request request = helper_request(HEADERS, text);
    compile_good();
    pid_t server = server_of("cc1"), tester = fork();
    if (tester == 0) {
        /* the test process's child; the workers are its nephews */
        pause_ms(400);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server, (int)server);
        int worker = 0;
        FILE *file = fopen(path, "re");
        _exit(!file || fscanf(file, "%d", &worker) != 1 || kill(worker, SIGKILL) < 0);
    }
    cadre_compile_result result;
    helper_compile(warm, &request, &result);
    int status;
    ck_assert_int_eq(waitpid(tester, &status, 0), tester);
    ck_assert_int_eq(status, 0);
    ck_assert(result.ok);
    ck_assert(helper_has_symbol(&result, "long1499"));
    cadre_compile_result_free(&result);
    compile_good();
    ck_assert_int_eq(server_of("cc1"), server);
    free(text);
}
END_TEST

START_TEST(cancelled)
{
    char *text = long_unit();
    cadre_compile_request request = helper_request(HEADERS, text);
    cadre_compile_result result;
    cadre_error error = {0};
    compile_good();
    pid_t compiler_server = server_of("cc1"), assembler_server = server_of("as");
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    ck_assert_int_ge(timer, 0);
    for (int i = 0; i < 3; i++) {
        struct itimerspec in = {.it_value = {.tv_nsec = 200000000}};
        ck_assert_int_eq(timerfd_settime(timer, 0, &in, NULL), 0);
        request.cancel_fd = timer;
        double before = helper_now();
        ck_assert_int_eq(cadre_compile(warm, &request, &result, &error), CADRE_EINTERRUPT);
        ck_assert_double_lt(helper_now() - before, 1500);
        compile_good();
        request.cancel_fd = -1;
        request.timeout_ms = 200;
        before = helper_now();
        ck_assert_int_eq(cadre_compile(warm, &request, &result, &error), CADRE_ETIMEOUT);
        ck_assert_double_lt(helper_now() - before, 1500);
        compile_good();
        request.timeout_ms = 0;
    }
    ck_assert_int_eq(server_of("cc1"), compiler_server);
    ck_assert_int_eq(server_of("as"), assembler_server);
    close(timer);
    free(text);
}
END_TEST

START_TEST(header_changes)
{
    char *folder = helper_folder();
    char path[200], headers[300];
    snprintf(path, sizeof path, "%s/mine.h", folder);
    snprintf(headers, sizeof headers, "#include <stdio.h>\n#include \"%s\"\n", path);
    for (int i = 1; i < 6; i++) {
        char text[100], source[100];
        snprintf(text, sizeof text, "enum { N = %d };\n", i);
        helper_write(path, text);
        if (i % 2) pause_ms(100);
        snprintf(source, sizeof source, "_Static_assert(N == %d, \"old\");\n", i);
        cadre_compile_request request = helper_request(headers, source);
        for (int k = 0; k < 3; k++) {
            cadre_compile_result result;
            helper_compile(warm, &request, &result);
            ck_assert_msg(result.ok, "%d %d: %s", i, k, result.diagnostics);
            cadre_compile_result_free(&result);
        }
    }
    helper_remove(folder);
}
END_TEST

START_TEST(at_most_two_pairs)
{
    process found[MOST_PROCESSES];
    for (int i = 0; i < 6; i++) {
        char flag[20];
        const char *flags[] = {flag};
        snprintf(flag, sizeof flag, "-DN=%d", i % 3);
        cadre_compile_request request = good_request();
        request.flags = flags;
        request.flag_count = 1;
        cadre_compile_result result;
        helper_compile(warm, &request, &result);
        ck_assert(result.ok);
        cadre_compile_result_free(&result);
        int servers = 0;
        size_t count = find_processes("cc1", found);
        for (size_t k = 0; k < count; k++)
            servers += found[k].parent == getpid();
        ck_assert_int_le(servers, 2);
    }
}
END_TEST

START_TEST(nothing_grows)
{
    cadre_compiler_warm(warm, HEADERS, NULL, 0);
    for (int i = 0; i < 5; i++)
        compile_good();
    int files = helper_count_files();
    pid_t compiler_server = server_of("cc1"), assembler_server = server_of("as");
    ck_assert_int_ne(compiler_server, 0);
    ck_assert_int_ne(assembler_server, 0);
    long before = resident_kilobytes(compiler_server) + resident_kilobytes(assembler_server);
    for (int i = 0; i < 200; i++)
        compile_good();
    ck_assert_int_eq(helper_count_files(), files);
    ck_assert_int_eq(server_of("cc1"), compiler_server);
    long after = resident_kilobytes(compiler_server) + resident_kilobytes(assembler_server);
    ck_assert_int_lt(after - before, 200);
    cadre_compiler_free(warm);
    warm = NULL;
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    process found[MOST_PROCESSES];
    ck_assert_uint_eq(find_processes("cc1", found), 0);
}
END_TEST

/* When this process goes without a word, so do they. */
START_TEST(servers_end_with_us)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        cadre_compiler *compiler = helper_compiler("gcc", "");
        cadre_compile_request request = good_request();
        cadre_compile_result result;
        helper_compile(compiler, &request, &result);
        pid_t pids[2] = {server_of("cc1"), server_of("as")};
        if (write(ends[1], pids, sizeof pids) < 0) _exit(1);
        raise(SIGKILL);
    }
    pid_t pids[2];
    ck_assert_int_eq(read(ends[0], pids, sizeof pids), sizeof pids);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(pids[i], 0);
        char path[64], state = 'Z';
        for (int k = 0; k < 100; k++) {
            snprintf(path, sizeof path, "/proc/%d/stat", (int)pids[i]);
            FILE *file = fopen(path, "re");
            state = 'Z';
            if (file) {
                if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
                fclose(file);
            }
            if (state == 'Z') break;
            pause_ms(20);
        }
        ck_assert_int_eq(state, 'Z');
    }
    close(ends[0]);
    close(ends[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile_warm");
    TCase *cases = tcase_create("warm");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, same_as_plain, 0, (int)(sizeof sources / sizeof *sources));
    tcase_add_loop_test(cases, same_with_flags, 0, 6);
    tcase_add_test(cases, same_with_other_headers);
    tcase_add_test(cases, bad_headers);
    tcase_add_test(cases, started_ahead);
    tcase_add_test(cases, servers_killed);
    tcase_add_test(cases, standby_killed);
    tcase_add_test(cases, worker_killed_in_mid_compile);
    tcase_add_test(cases, cancelled);
    tcase_add_test(cases, header_changes);
    tcase_add_test(cases, at_most_two_pairs);
    tcase_add_test(cases, nothing_grows);
    tcase_add_test(cases, servers_end_with_us);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
