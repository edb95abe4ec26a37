/* kernel/cell/load: transactions, checks, describing addresses, many cells, limits. */
#include "load_helper.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>

START_TEST(openmp)
{
    load_with("long total; int run(void) { long s = 0;\n#pragma omp parallel for reduction(+:s)\n"
              "for (int i = 0; i < 1000; i++) s += i; total = s; return (int)s; }",
              "-fopenmp", NULL);
    ck_assert_int_eq(call_int("run"), 499500);
}
END_TEST

START_TEST(library_functions_and_overrides)
{
    load("#include <unistd.h>\nint twice(void) { return getpid() + getpid(); }"
         "pid_t (*pointer(void))(void) { return getpid; }");
    ck_assert_int_eq(call_int("twice"), 2 * getpid());
    cadre_loader_override(loader, "getpid", (void *)getppid);
    pid_t (*(*pointer)(void))(void) =
        (pid_t(*(*)(void))(void))cadre_loader_symbol(loader, "pointer");
    ck_assert_ptr_eq((void *)pointer(), (void *)getppid);
    ck_assert_int_eq(call_int("twice"), 2 * getppid());
    /* A cell's own definition comes before both. */
    load("int getpid(void) { return -100; }");
    ck_assert_int_eq(call_int("twice"), -200);
}
END_TEST

START_TEST(discard_takes_everything_back)
{
    load("int f(void) { return 1; } int n = 5; int g(void) { return f() + n; }");
    test_object object = test_compile("int f(void) { return 100; } double n = 7; int extra = 3;"
                                      "extern int nowhere; int h(void) { return f() + nowhere; }",
                                      NULL);
    const char *fresh[] = {"n"};
    for (int i = 0; i < 50; i++) {
        cadre_module *module =
            cadre_loader_add(loader, "cell.c", object.bytes, object.length, fresh, 1, &error);
        ck_assert_ptr_nonnull(module);
        ck_assert_int_eq(call_int("g"), 6);
        cadre_module *second = add_fresh("int f(void) { return 200; }", NULL, NULL);
        ck_assert_ptr_nonnull(second);
        cadre_loader_discard(loader);
        ck_assert_int_eq(call_int("g"), 6);
        ck_assert_int_eq(*(int *)cadre_loader_symbol(loader, "n"), 5);
        ck_assert_ptr_null(cadre_loader_symbol(loader, "extra"));
    }
    ck_assert_ptr_nonnull(
        cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error));
    cadre_loader_commit(loader);
    ck_assert_int_eq(((int (*)(void))cadre_loader_symbol(loader, "f"))(), 100);
    free(object.bytes);
}
END_TEST

/* `int *old = &gen; int gen = 2;`: two segments, loaded together, run one after the other. */
START_TEST(segments_take_effect_in_turn)
{
    load("int gen = 1;");
    cadre_module *first =
        add_fresh("extern int gen; int *old; void run_1(void) { old = &gen; }", NULL, NULL);
    cadre_module *second = add_fresh("extern int *old; int gen = 2; int result;"
                                     "void run_2(void) { result = *old * 10 + gen; }",
                                     NULL, NULL);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(second);
    ck_assert_int_eq(cadre_loader_check(loader, first, "run_1", &error), 0);
    ck_assert_int_eq(cadre_loader_check(loader, second, "run_2", &error), 0);
    cadre_loader_commit_until(loader, first);
    ((void (*)(void))cadre_module_symbol(first, "run_1"))();
    cadre_loader_commit_until(loader, second);
    ((void (*)(void))cadre_module_symbol(second, "run_2"))();
    ck_assert_int_eq(*(int *)cadre_module_symbol(second, "result"), 12);
}
END_TEST

START_TEST(run_time_storage)
{
    static double storage[4] = {1, 2, 3, 4};
    load("extern double grid[]; int read(int i) { return (int)grid[i]; }"
         "int sum(void) { return read(0) + read(3); }");
    cadre_loader_define(loader, "grid", storage, false);
    ck_assert_int_eq(call_int("sum"), 5);
    static int other[2] = {10, 20};
    cadre_loader_define(loader, "grid", other, true);
    ck_assert_int_eq(call_int("sum"), 5);
    load("extern int grid[]; int newer(void) { return grid[1]; }");
    ck_assert_int_eq(call_int("newer"), 20);
    load("int grid[3] = {7, 8, 9}; int own(void) { return grid[2]; }");
    ck_assert_int_eq(call_int("own"), 9);
    ck_assert_int_eq(call_int("newer"), 8);
    cadre_loader_define(loader, "grid", other, false);
    ck_assert_int_eq(call_int("newer"), 20);
    load_with("double grid = 1;", NULL, "grid");
    ck_assert_int_eq(call_int("newer"), 20);
}
END_TEST

/* ---- checking ---- */

static void expect_missing(const char *source, const char *entry, const char *message)
{
    cadre_module *module = add_fresh(source, NULL, NULL);
    ck_assert_msg(module != NULL, "%s", error.message);
    error.message[0] = 0;
    int status = cadre_loader_check(loader, module, entry, &error);
    ck_assert_str_eq(error.message, message);
    ck_assert_int_eq(status, *message ? CADRE_ENOTFOUND : 0);
    cadre_loader_discard(loader);
}

START_TEST(check_names_what_is_missing)
{
    expect_missing("int never(int); void run(void) { never(3); }", "run",
                   "never is declared and not defined (this cell calls it)");
    expect_missing("int odd_(int); int even_(int n) { return n ? odd_(n - 1) : 1; }"
                   "void unrelated(void) {}",
                   "unrelated", "");
    load("int odd_(int); int even_(int n) { return n ? odd_(n - 1) : 1; }");
    expect_missing("int even_(int); void run(void) { even_(2); }", "run",
                   "odd_ is declared and not defined (even_ calls it)");
    expect_missing("int a_(void), b_; extern int c_; int even_(int);"
                   "int *run(void) { even_(1); a_(); return &c_; }",
                   "run",
                   "a_ is declared and not defined (this cell calls it); "
                   "c_ is declared and not defined (this cell uses it); "
                   "odd_ is declared and not defined (even_ calls it)");
    load("int even_(int); int odd_(int n) { return n ? even_(n - 1) : 0; }");
    expect_missing("int even_(int); void run(void) { even_(2); }", "run", "");
    expect_missing("int x; void run(void) {}", "walk", "the cell has no function walk");
}
END_TEST

START_TEST(check_follows_tables_and_ignores_weak)
{
    expect_missing("int gone(void), run(int); int (*table[])(int) = { (void *)gone, run };"
                   "int run(int i) { return table[i](i); }",
                   "run", "gone is declared and not defined (table uses it)");
    expect_missing("int gone(void); int (*unused[])(void) = { gone }; int run(void) { return 1; }",
                   "run", "");
    expect_missing("extern int maybe(void) __attribute__((weak));"
                   "int run(void) { return maybe ? maybe() : 0; }",
                   "run", "");
    expect_missing("extern int lost; __attribute__((constructor)) static void start(void)"
                   "{ lost = 1; } void run(void) {}",
                   "run", "lost is declared and not defined (start uses it)");
}
END_TEST

/* ---- describing ---- */

START_TEST(describe_finds_functions)
{
    cadre_module *module =
        load("static __attribute__((noinline)) int inner(int a) { return a * 3; }"
             "int outer(int a) { return inner(a) + 1; }");
    const char *label, *function;
    uint64_t offset;
    const char *outer = cadre_module_symbol(module, "outer");
    ck_assert(cadre_loader_describe(loader, outer + 2, &label, &function, &offset));
    ck_assert_str_eq(label, "cell.c");
    ck_assert_str_eq(function, "outer");
    ck_assert_uint_eq(offset, 2);
    ck_assert(cadre_loader_is_cell_code(loader, outer));
    ck_assert(!cadre_loader_is_cell_code(loader, (void *)abs));
    ck_assert(!cadre_loader_is_cell_code(loader, &loader));
    ck_assert(!cadre_loader_describe(loader, (void *)abs, &label, &function, &offset));
    for (int i = 0; i < 300; i++)
        load("int same(void) { return 1; }");
    ck_assert(cadre_loader_describe(loader, cadre_loader_symbol(loader, "same"), &label, &function,
                                    &offset));
    ck_assert_str_eq(function, "same");
    ck_assert(cadre_loader_describe(loader, outer + 1, &label, &function, &offset));
    ck_assert_str_eq(function, "outer");
}
END_TEST

static int stub_calls;

static int stub(void)
{
    return ++stub_calls;
}

START_TEST(calls_are_diverted_and_restored)
{
    load("#include <unistd.h>\nint own(void) { return 5; }"
         "int lib(void) { return getpid(); } pid_t (*ptr(void))(void) { return getpid; }");
    load("int own(void); int lib(void); int both(void) { return own() * 10 + lib(); }");
    ck_assert_int_eq(call_int("both"), 50 + getpid());
    cadre_loader_divert_calls(loader, (void *)stub);
    ck_assert_int_eq(call_int("both"), 51);
    pid_t (*(*pointer)(void))(void) = (pid_t(*(*)(void))(void))cadre_loader_symbol(loader, "ptr");
    ck_assert_ptr_eq((void *)pointer(), (void *)getpid);
    cadre_loader_restore_calls(loader);
    ck_assert_int_eq(call_int("both"), 50 + getpid());
    ck_assert_int_eq(stub_calls, 1);
}
END_TEST

static int frames_seen;

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *data)
{
    const char *function;
    uint64_t offset;
    (void)data;
    if (cadre_loader_describe(loader, (void *)_Unwind_GetIP(context), NULL, &function, &offset))
        frames_seen++;
    return _URC_NO_REASON;
}

static void count_frames(void)
{
    frames_seen = 0;
    _Unwind_Backtrace(count_frame, NULL);
}

START_TEST(the_unwinder_sees_cells)
{
    cadre_loader_override(loader, "count_frames", (void *)count_frames);
    load_with("void count_frames(void); __attribute__((noinline)) int deep(int n)"
              "{ volatile int a[100]; a[n] = n; if (n) deep(n - 1); else count_frames();"
              "return a[n]; } int top(void) { return deep(9); }",
              "-fomit-frame-pointer", NULL);
    call_int("top");
    ck_assert_int_eq(frames_seen, 11);
    cadre_loader_free(loader);
    set_up();
    count_frames();
    ck_assert_int_eq(frames_seen, 0);
}
END_TEST

/* gdb stops in a function that exists only in a loaded object, and shows its lines. */
START_TEST(the_debugger_sees_cells)
{
    char script[] = "/tmp/cadre-test-XXXXXX.gdb", self[64], command[1024], line[512];
    bool function = false, source = false, variable = false;
    if (!test_has_program("gdb")) return;
    int fd = mkostemps(script, 4, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    snprintf(self, sizeof self, "%d", getpid());
    load("#line 1 \"cell-77.c\"\nint state = 4;\nint inner(int depth)\n{\n"
         "    volatile int local = depth * 2;\n    return local + state;\n}\n"
         "int outer(int depth) { return inner(depth) + 1; }\n");
    snprintf(command, sizeof command,
             "set debuginfod enabled off\nset pagination off\n"
             "attach %s\ninfo line inner\ninfo symbol %p\n"
             "info scope inner\ndetach\n",
             self, cadre_loader_symbol(loader, "outer"));
    ck_assert_int_eq(write(fd, command, strlen(command)), (ssize_t)strlen(command));
    close(fd);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    snprintf(command, sizeof command, "exec gdb -q -nx -batch -x %s 2>&1 </dev/null", script);
    FILE *output = popen(command, "re");
    ck_assert_ptr_nonnull(output);
    while (fgets(line, sizeof line, output)) {
        if (strstr(line, "cell-77.c\" starts at")) source = true;
        if (strstr(line, "outer in section .text")) function = true;
        if (strstr(line, "Symbol local")) variable = true;
    }
    pclose(output);
    unlink(script);
    ck_assert(function);
    ck_assert(source);
    ck_assert(variable);
}
END_TEST

/* ---- many cells ---- */

static long resident_pages(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_int_eq(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static int count_mappings(void)
{
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

static void keep(const void *value, unsigned long size)
{
    (void)value;
    (void)size;
}

START_TEST(statements_give_their_memory_back)
{
    test_object object = test_compile("#include <stdio.h>\nextern double state[];"
                                      "static double *type __attribute__((used));"
                                      "void test_keep(const void *, unsigned long);"
                                      "void cell_entry(void) { for (int i = 0; i < 3; i++)"
                                      "state[i] += i * 0.25; printf(\"%s\", \"\");"
                                      "__auto_type v = state[1]; test_keep(&v, sizeof v); }",
                                      NULL);
    cadre_loader_override(loader, "test_keep", (void *)keep);
    load("double state[10];");
    long before = 0;
    int mappings = 0;
    for (int i = 0; i < 11000; i++) {
        if (i == 1000) {
            before = resident_pages();
            mappings = count_mappings();
        }
        cadre_module *module =
            cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error);
        ck_assert_ptr_nonnull(module);
        ck_assert_int_eq(cadre_loader_check(loader, module, "cell_entry", &error), 0);
        cadre_loader_commit(loader);
        ((void (*)(void))cadre_module_symbol(module, "cell_entry"))();
        cadre_loader_release_statements(loader, module);
    }
    ck_assert_ptr_null(cadre_loader_symbol(loader, "cell_entry"));
    long grown = (resident_pages() - before) * 4096 / 10000;
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed */
    ck_assert_msg(grown < 200, "%ld bytes a cell", grown);
#else
    (void)grown;
#endif
    ck_assert_int_le(count_mappings(), mappings + 4);
    ck_assert(((double *)cadre_loader_symbol(loader, "state"))[2] == 5500);
    free(object.bytes);
}
END_TEST

START_TEST(statements_that_may_be_called_again_stay)
{
    cadre_module *module = load("#include <stdlib.h>\nint (*kept)(void);");
    cadre_module *statements = load("extern int (*kept)(void); static int late(void) { return 6; }"
                                    "void entry_1(void) { kept = late; }");
    ((void (*)(void))cadre_module_symbol(statements, "entry_1"))();
    cadre_loader_release_statements(loader, statements);
    int (**kept)(void) = cadre_module_symbol(module, "kept");
    ck_assert_int_eq((*kept)(), 6);
    /* Literals outlive the code that mentioned them. */
    load("const char *text;");
    statements = load("extern const char *text; void entry_2(void) { text = \"remembered\"; }");
    ((void (*)(void))cadre_module_symbol(statements, "entry_2"))();
    cadre_loader_release_statements(loader, statements);
    for (int i = 0; i < 20; i++)
        load("const char *other = \"something else that is long\";");
    ck_assert_str_eq(*(const char **)cadre_loader_symbol(loader, "text"), "remembered");
}
END_TEST

/* As in containers with a limit of address space, and where /proc cannot be opened. */
START_TEST(without_room_and_without_proc)
{
#ifndef __SANITIZE_ADDRESS__
    long size, rest;
    test_object object = test_compile("static const char *const words[] = {\"a\", \"b\"};"
                                      "int at = 1; int f(void) { return words[at][0]; }",
                                      NULL);
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_int_eq(fscanf(file, "%ld %ld", &size, &rest), 2);
    fclose(file);
    cadre_loader_free(loader);
    rlim_t limit = (rlim_t)size * 4096 - (rlim_t)1800 * 1024 * 1024 + ((rlim_t)400 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){limit, RLIM_INFINITY}), 0);
    set_up();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(
            cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error));
        cadre_loader_commit(loader);
        ck_assert_int_eq(call_int("f"), 'b');
    }
    free(object.bytes);
#endif
}
END_TEST

START_TEST(refusals)
{
    static const unsigned char nonsense[64] = "not an object";
    ck_assert_ptr_null(cadre_loader_add(loader, "x", nonsense, sizeof nonsense, NULL, 0, &error));
    ck_assert_int_eq(error.code, CADRE_EFORMAT);
    ck_assert_ptr_null(cadre_loader_add(loader, "x", nonsense, 0, NULL, 0, &error));
    ck_assert_ptr_null(add_fresh(
        "static char t[9]; char *f(long n) { return t + n; } char **p(void) { static char "
        "*q[] = {t}; return q; }",
        "-fno-pic -fno-pie -O2", NULL));
    ck_assert_msg(strstr(error.message, "-fPIC") != NULL, "%s", error.message);
    ck_assert_ptr_null(add_fresh("int f(void) { return 1; }", "-flto", NULL));
    ck_assert_msg(strstr(error.message, "-flto") != NULL, "%s", error.message);
}
END_TEST

int main(void)
{
    const struct named_test tests[] = {
        {"openmp", openmp},
        {"overrides", library_functions_and_overrides},
        {"discard", discard_takes_everything_back},
        {"segments", segments_take_effect_in_turn},
        {"storage", run_time_storage},
        {"check", check_names_what_is_missing},
        {"check tables", check_follows_tables_and_ignores_weak},
        {"describe", describe_finds_functions},
        {"divert", calls_are_diverted_and_restored},
        {"unwind", the_unwinder_sees_cells},
        {"debugger", the_debugger_sees_cells},
        {"statements", statements_give_their_memory_back},
        {"kept", statements_that_may_be_called_again_stay},
        {"limits", without_room_and_without_proc},
        {"refusals", refusals},
    };
    return run_tests("load_life", tests, sizeof tests / sizeof *tests);
}
