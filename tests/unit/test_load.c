/* kernel/cell/load: compiled texts are loaded, bound, redefined and called. */
#include "cell/load.h"
#include "object_helper.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>

static cadre_loader *loader;
static cadre_error error;

static void set_up(void)
{
    loader = cadre_loader_new(&error);
    ck_assert_msg(loader != NULL, "%s", error.message);
}

static void tear_down(void)
{
    cadre_loader_free(loader);
    loader = NULL;
}

static cadre_module *add_fresh(const char *source, const char *options, const char *fresh)
{
    test_object object = test_compile(source, options);
    cadre_module *module = cadre_loader_add(loader, "cell.c", object.bytes, object.length, &fresh,
                                            fresh != NULL, &error);
    free(object.bytes);
    return module;
}

/* Loads and commits, as a cell that ran. */
static cadre_module *load_with(const char *source, const char *options, const char *fresh)
{
    cadre_module *module = add_fresh(source, options, fresh);
    ck_assert_msg(module != NULL, "%s", error.message);
    cadre_loader_commit(loader);
    cadre_loader_construct(module);
    return module;
}

static cadre_module *load(const char *source)
{
    return load_with(source, NULL, NULL);
}

static int call_int(const char *name)
{
    int (*function)(void) = (int (*)(void))cadre_loader_symbol(loader, name);
    ck_assert_msg(function != NULL, "no function %s", name);
    return function();
}

START_TEST(calls_and_data)
{
    load("int x = 41; double w[3] = {0.5, 1.5, 2.5}; static int hidden = 7;"
         "int read_x(void) { return x + hidden; }");
    load("extern int x; extern double w[]; int read_x(void);"
         "int other(void) { x++; return read_x() + (int)(w[0] + w[1] + w[2]); }");
    ck_assert_int_eq(call_int("other"), 42 + 7 + 4);
    ck_assert_int_eq(*(int *)cadre_loader_symbol(loader, "x"), 42);
    ck_assert_ptr_null(cadre_loader_symbol(loader, "printf"));
    ck_assert_ptr_null(cadre_loader_symbol(loader, "hidden"));
}
END_TEST

START_TEST(redefinition_reaches_old_callers)
{
    load("int f(int a) { return a + 1; } int n = 10;");
    load("int f(int); extern int n; int g(void) { return 10 * f(1) + n; }");
    ck_assert_int_eq(call_int("g"), 30);
    int (*old)(int) = (int (*)(int))cadre_loader_symbol(loader, "f");
    load("int f(int a) { return a + 2; } int n = 20;");
    ck_assert_int_eq(call_int("g"), 50);
    ck_assert_int_eq(old(1), 2);
}
END_TEST

START_TEST(fresh_names_keep_the_old)
{
    load("int y = 5; int f(void) { return 1; }");
    load("extern int y; int f(void); int old(void) { return y + f(); }");
    load_with("double y = 2.5;", NULL, "y");
    load("extern double y; int new(void) { return (int)(y * 2); }");
    ck_assert_int_eq(call_int("old"), 6);
    ck_assert_int_eq(call_int("new"), 5);
    ck_assert(*(double *)cadre_loader_symbol(loader, "y") == 2.5);
}
END_TEST

START_TEST(static_names_do_not_leak)
{
    load("static int count; int first(void) { return ++count; }");
    load("static int count = 100; int second(void) { return ++count; }");
    ck_assert_int_eq(call_int("first"), 1);
    ck_assert_int_eq(call_int("second"), 101);
    ck_assert_int_eq(call_int("first"), 2);
}
END_TEST

/* Also without -fno-plt, where calls are relative and go through a stub of ours. */
START_TEST(direct_calls_bind_late_too)
{
    load_with("int f(void) { return 1; } __attribute__((noinline)) int g(void) { return f(); }"
              "int h(void) { return f() + g(); }",
              "-fplt -O0", NULL);
    ck_assert_int_eq(call_int("h"), 2);
    load_with("int f(void) { return 2; }", "-fplt", NULL);
    ck_assert_int_eq(call_int("h"), 4);
}
END_TEST

START_TEST(function_tables)
{
    load("int one(void) { return 1; } int two(void) { return 2; }"
         "int (*table[])(void) = { one, two }; static int (*const fixed[])(void) = { two, one };"
         "int from = 0; int sum(void) { int s = 0; for (int i = from; i < 2; i++)"
         "s = s * 100 + table[i]() * 10 + fixed[(i + from) % 2](); return s; }");
    ck_assert_int_eq(call_int("sum"), 1221);
    load("int one(void) { return 5; }");
    /* Addresses in data are those of loading time. */
    ck_assert_int_eq(call_int("sum"), 1221);
}
END_TEST

START_TEST(table_of_functions_defined_later)
{
    load("int later(void); extern int variable; int (*table[])(void) = { later };"
         "struct __attribute__((packed)) { char c; int *p; } odd = { 1, &variable };"
         "int *const fixed[] = { &variable, &variable + 1 };"
         "int use(void) { return table[0]() + *odd.p + (fixed[1] - fixed[0]) + *fixed[0]; }");
    load("int later(void) { return 70; } int variable = 7;");
    ck_assert_int_eq(call_int("use"), 85);
}
END_TEST

START_TEST(weak_and_alias)
{
    load("__attribute__((weak)) int hook(void) { return 1; } int use(void) { return hook(); }"
         "int real(void) { return 9; } int other(void) __attribute__((alias(\"real\")));"
         "extern int absent(void) __attribute__((weak)); int has(void) { return absent != 0; }");
    ck_assert_int_eq(call_int("use"), 1);
    ck_assert_int_eq(call_int("other"), 9);
    ck_assert_int_eq(call_int("has"), 0);
    load("int hook(void) { return 2; } int absent(void) { return 1; }");
    ck_assert_int_eq(call_int("use"), 2);
    ck_assert_int_eq(call_int("has"), 1);
    /* A weak definition does not push out a strong one. */
    load("__attribute__((weak)) int hook(void) { return 3; } int user(void) { return hook(); }");
    ck_assert_int_eq(call_int("use"), 2);
    ck_assert_int_eq(call_int("user"), 2);
}
END_TEST

START_TEST(hidden_and_protected)
{
    load("__attribute__((visibility(\"hidden\"))) int secret = 3;"
         "__attribute__((visibility(\"hidden\"))) int get(void) { return secret; }"
         "__attribute__((visibility(\"protected\"))) int guarded(void) { return get() + 1; }");
    load("extern int secret; int guarded(void); int sum(void) { return secret + guarded(); }");
    ck_assert_int_eq(call_int("sum"), 7);
}
END_TEST

START_TEST(constructors_run_by_priority)
{
    cadre_module *module = load(
        "int trace; __attribute__((constructor)) static void last(void) { trace = trace * 10 + 3; }"
        "__attribute__((constructor(200))) static void second(void) { trace = trace * 10 + 2; }"
        "__attribute__((constructor(101))) static void first(int argc, char **argv)"
        "{ trace = argc && argv[0] ? 1 : 9; }"
        "int end; int *end_at = &end;"
        "__attribute__((destructor)) static void done(void) { *end_at = 77; }");
    int *trace = cadre_module_symbol(module, "trace"), *end = cadre_module_symbol(module, "end");
    ck_assert_int_eq(*trace, 123);
    cadre_loader_construct(module);
    ck_assert_int_eq(*trace, 123);
    cadre_loader_destruct(loader);
    ck_assert_int_eq(*end, 77);
}
END_TEST

START_TEST(old_style_constructors)
{
    cadre_module *module =
        load("int trace; static void a(void) { trace = trace * 10 + 1; }"
             "static void b(void) { trace = trace * 10 + 2; }"
             "__attribute__((section(\".ctors\"), used)) static void (*list[])(void) = { a, b };");
    ck_assert_int_eq(*(int *)cadre_module_symbol(module, "trace"), 21);
}
END_TEST

START_TEST(switches_and_computed_goto)
{
    load("int pick(int n) { switch (n) { case 0: return 5; case 1: return 50; case 2: return 7;"
         "case 3: return 1; case 4: return 12; case 5: return 3; case 6: return 99; }"
         "return -1; }"
         "const char *word(int n) { switch (n) { case 0: return \"zero\"; case 1: return \"one\";"
         "case 2: return \"two\"; case 3: return \"three\"; case 4: return \"four\"; }"
         "return \"many\"; }"
         "int run(const unsigned char *p) { static void *const go[] = { &&add, &&twice, &&end };"
         "int v = 1; goto *go[*p]; add: v += 1; goto *go[*++p]; twice: v *= 2; goto *go[*++p];"
         "end: return v; }"
         "int all(void) { unsigned char code[] = {0, 1, 1, 0, 2}; int s = 0;"
         "for (int i = -1; i < 8; i++) s = s * 3 + pick(i) + word(i)[1]; return s + run(code); }");
    const char *(*word)(int) = (const char *(*)(int))cadre_loader_symbol(loader, "word");
    int (*pick)(int) = (int (*)(int))cadre_loader_symbol(loader, "pick");
    int (*run)(const unsigned char *) =
        (int (*)(const unsigned char *))cadre_loader_symbol(loader, "run");
    ck_assert_str_eq(word(3), "three");
    ck_assert_str_eq(word(9), "many");
    ck_assert_int_eq(pick(4), 12);
    ck_assert_int_eq(pick(6), 99);
    ck_assert_int_eq(run((const unsigned char[]){0, 1, 1, 0, 2}), 9);
}
END_TEST

START_TEST(compilers_and_levels)
{
    static const char source[] =
        "#include <stdio.h>\n#include <string.h>\n#include <math.h>\n"
        "static int table[64]; static const char *names[] = { \"a\", \"bc\", \"def\" };"
        "struct item { const char *name; int (*f)(int); double w[4]; };"
        "static int twice(int a) { return 2 * a; } int thrice(int a) { return 3 * a; }"
        "struct item items[] = { { \"x\", twice, { 1, 2 } }, { \"y\", thrice, { 3 } } };"
        "__attribute__((noinline)) static double sum(const double *w, int n) { double s = 0;"
        "for (int i = 0; i < n; i++) s += w[i]; return s; }"
        "int all(void) { char text[100]; for (int i = 0; i < 64; i++) table[i] = i * i;"
        "int total = table[63] + (int)strlen(names[2]);"
        "for (int i = 0; i < 2; i++) total += items[i].f(i + 1) + (int)sum(items[i].w, 4);"
        "snprintf(text, sizeof text, \"%s %.1f\", names[1], sqrt(total));"
        "return text[0] == 'b' ? total : -1; }";
    static const char *const options[] = {"-O0",
                                          "-O1",
                                          "-O2",
                                          "-O3 -march=native",
                                          "-Os",
                                          "-O0 -fplt",
                                          "-O2 -fplt",
                                          "-gdwarf-4",
                                          "-fsanitize=undefined",
                                          "-O2 -fcf-protection=full -fstack-protector-all",
                                          "-O2 -fno-function-sections -fno-data-sections",
                                          "-O2 -Wa,-mrelax-relocations=no",
                                          "-fcommon",
                                          "-D_FORTIFY_SOURCE=2 -O2"};
    static const char *const compilers[] = {"gcc", "gcc-11", "gcc-13", "gcc-14", "clang"};
    for (size_t c = 0; c < sizeof compilers / sizeof *compilers; c++) {
        if (!test_has_program(compilers[c])) continue;
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            if (!strcmp(compilers[c], "clang") && strstr(options[i], "-Wa")) continue;
            test_object object = test_compile_with(compilers[c], source, options[i]);
            cadre_module *module =
                cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error);
            ck_assert_msg(module != NULL, "%s %s: %s", compilers[c], options[i], error.message);
            ck_assert_int_eq(cadre_object_needs_dlopen(object.bytes, object.length), 0);
            int checked = cadre_loader_check(loader, module, "all", &error);
            ck_assert_msg(checked == 0, "%s %s: %s", compilers[c], options[i], error.message);
            cadre_loader_commit(loader);
            cadre_loader_construct(module);
            ck_assert_int_eq(call_int("all"), 3969 + 3 + 2 + 6 + 3 + 3);
            free(object.bytes);
        }
    }
}
END_TEST

START_TEST(common_and_alignment)
{
    load_with(
        "int tentative[10]; double other; int get(void) { return tentative[9] + (int)other; }",
        "-fcommon", NULL);
    ck_assert_int_eq(call_int("get"), 0);
    cadre_module *module = load(
        "char a; _Alignas(64) char b[3]; _Alignas(4096) char page[4096]; char empty[0];"
        "_Alignas(65536) char far_apart[8]; short c = 3; _Alignas(4096) const char text[] = \"x\";"
        "_Alignas(32) static double local[5]; double *where(void) { return local; }"
        "__attribute__((aligned(256))) int aligned_code(void) { return 4; }");
    ck_assert_uint_eq((uintptr_t)cadre_module_symbol(module, "b") % 64, 0);
    ck_assert_uint_eq((uintptr_t)cadre_module_symbol(module, "page") % 4096, 0);
    ck_assert_uint_eq((uintptr_t)cadre_module_symbol(module, "text") % 4096, 0);
    ck_assert_uint_eq((uintptr_t)cadre_module_symbol(module, "far_apart") % 65536, 0);
    ck_assert_uint_eq((uintptr_t)cadre_module_symbol(module, "aligned_code") % 256, 0);
    ck_assert_ptr_nonnull(cadre_module_symbol(module, "empty"));
    ck_assert_int_eq(call_int("aligned_code"), 4);
}
END_TEST

START_TEST(large_variables)
{
    load("static double own[1 << 24]; double shared[1 << 24]; char huge[3ul << 30];"
         "int use(void) { own[(1 << 24) - 1] = 2; shared[5] = 3; huge[(3ul << 30) - 1] = 4;"
         "return (int)(own[(1 << 24) - 1] + shared[5] + own[0] + shared[77]) +"
         "huge[(3ul << 30) - 1]; }");
    ck_assert_int_eq(call_int("use"), 9);
    cadre_module *module = add_fresh(
        "static char beyond[5ul << 30]; char *where(long n) { return beyond + n; }", NULL, NULL);
    ck_assert_ptr_null(module);
    ck_assert_msg(strstr(error.message, "2 GB") != NULL, "%s", error.message);
    load_with("static char beyond[5ul << 30]; char *where(long n) { return beyond + n; }"
              "int far(void) { where(5ul << 29)[7] = 3; return where(5ul << 29)[7]; }",
              "-mcmodel=medium", NULL);
    ck_assert_int_eq(call_int("far"), 3);
}
END_TEST

START_TEST(strings_are_shared_or_not_but_right)
{
    load("const char *a = \"common tail\", *b = \"tail\"; static const char *c[] = { \"x\", \"yx\" "
         "};"
         "int lengths(void) { return (int)(__builtin_strlen(a) * 100 + __builtin_strlen(b) * 10 +"
         "__builtin_strlen(c[1])); }");
    ck_assert_int_eq(call_int("lengths"), 1142);
}
END_TEST

START_TEST(constants_are_read_only_and_code_is_not_writable)
{
    load("const int fixed = 3; const char *const words[] = { \"a\" }; int f(void) { return 1; }"
         "int variable;");
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    uintptr_t fixed = (uintptr_t)cadre_loader_symbol(loader, "fixed");
    uintptr_t words = (uintptr_t)cadre_loader_symbol(loader, "words");
    uintptr_t code = (uintptr_t)cadre_loader_symbol(loader, "f");
    uintptr_t data = (uintptr_t)cadre_loader_symbol(loader, "variable");
    int seen = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char mode[5];
        ck_assert_int_eq(sscanf(line, "%lx-%lx %4s", &start, &end, mode), 3);
        ck_assert_msg(strncmp(mode, "rwx", 3) != 0, "%s", line);
        if ((fixed >= start && fixed < end) || (words >= start && words < end)) {
            ck_assert_str_eq(mode, "r--p");
            seen++;
        }
        if (code >= start && code < end) ck_assert_str_eq(mode, "r-xp");
        if (data >= start && data < end) ck_assert_str_eq(mode, "rw-p");
    }
    fclose(maps);
    ck_assert_int_ge(seen, 1);
}
END_TEST

/* gcc builds a trampoline on the stack, which must become executable. */
START_TEST(nested_functions)
{
    load("static int apply(int (*f)(int), int n) { return f(n); }"
         "int nested(void) { int base = 40; int add(int n) { return base + n; }"
         "int (*volatile p)(int) = add; return apply(p, 2); }");
    ck_assert_int_eq(call_int("nested"), 42);
}
END_TEST

START_TEST(compiler_helpers)
{
    load("__int128 q(__int128 a, __int128 b) { return a / b; }"
         "unsigned __int128 m(unsigned __int128 a, unsigned __int128 b) { return a % b; }"
         "_Decimal64 d(_Decimal64 a, _Decimal64 b) { return a * b; }"
         "_Float128 f(_Float128 a, _Float128 b) { return a / b; }"
         "_Complex double z(_Complex double a, _Complex double b) { return a * b; }"
         "int p(unsigned long v) { return __builtin_popcountl(v); }"
         "struct wide { long a, b; };"
         "int atomics(void) { static _Atomic struct wide w; struct wide v = w; v.a = 5; w = v;"
         "return (int)w.a; }"
         "void on_exit_(void) {} int hooks(void) { return atexit(on_exit_); }"
         "int has(void) { __builtin_cpu_init(); return __builtin_cpu_supports(\"sse2\") != 0; }"
         "int all(void) { volatile __int128 big = (__int128)1 << 100; volatile int three = 3;"
         "volatile _Decimal64 x = 1.5dd; volatile _Float128 y = 3; volatile _Complex double c = 2i;"
         "return (int)(q(big, (__int128)1 << 97)) + (int)m(10, three) + (int)d(x, 2) +"
         "(int)f(y, 3) + (int)__real__ z(c, c) + p(three) + atomics() + has(); }");
    ck_assert_int_eq(call_int("all"), 8 + 1 + 3 + 1 - 4 + 2 + 5 + 1);
    load_with("int checked(long a, long b) { __int128 r; return "
              "__builtin_mul_overflow((__int128)a << 64, (__int128)b, &r); }"
              "int both(void) { return checked(1, 2) * 10 + checked(1l << 40, 1l << 40); }",
              "-O1", NULL);
    ck_assert_int_eq(call_int("both"), 1);
}
END_TEST

static void *call_in_thread(void *function)
{
    return (void *)(intptr_t)((int (*)(void))function)();
}

static int call_int_in_thread(const char *name)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(
        pthread_create(&thread, NULL, call_in_thread, cadre_loader_symbol(loader, name)), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return (int)(intptr_t)result;
}

START_TEST(thread_local_variables)
{
    load("int outside = 9; _Thread_local int counter = 5; static _Thread_local int own, more = 3;"
         "static _Thread_local int *pointer = &outside; _Thread_local char big[100000];"
         "_Alignas(256) _Thread_local char aligned[256];"
         "int bump(void) { own += more; big[99999]++; return ++counter * 100 + own * 10 + *pointer"
         "+ big[99999] + (((unsigned long)aligned & 255) != 0) * 1000; }");
    load("extern _Thread_local int counter; int peek(void) { return counter; }"
         "int set(void) { counter = 50; return 0; }");
    ck_assert_int_eq(call_int("bump"), 600 + 30 + 9 + 1);
    ck_assert_int_eq(call_int("peek"), 6);
    ck_assert_int_eq(call_int_in_thread("peek"), 5);
    ck_assert_int_eq(call_int_in_thread("bump"), 600 + 30 + 9 + 1);
    call_int("set");
    ck_assert_int_eq(call_int("bump"), 5100 + 60 + 9 + 2);
    ck_assert_int_eq(*(int *)cadre_loader_symbol(loader, "counter"), 51);
    /* Redefinition reaches old users, as for any variable; another kind does not. */
    load("_Thread_local int counter = 70;");
    ck_assert_int_eq(call_int("peek"), 70);
    load("int counter = 80; int plain(void) { return counter; }");
    ck_assert_int_eq(call_int("peek"), 70);
    ck_assert_int_eq(call_int("plain"), 80);
    load_with("_Thread_local int late; int through_gd(void) { return late; }"
              "static _Thread_local int a = 1, b = 2; int both(void) { return a + b; }",
              "-fplt -O0", NULL);
    ck_assert_int_eq(call_int("both"), 3);
    ck_assert_int_eq(call_int("through_gd"), 0);
    /* A library's: errno through its variable would do, were it exported; ours is. */
    load("extern _Thread_local int test_library_variable;"
         "int library(void) { return test_library_variable; }");
    ck_assert_int_eq(call_int("library"), 33);
    ck_assert_int_eq(call_int_in_thread("library"), 33);
}
END_TEST

__attribute__((visibility("default"))) _Thread_local int test_library_variable = 33;

START_TEST(chosen_functions)
{
    load("__attribute__((target_clones(\"avx2\", \"default\"), noinline))"
         "int total(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i];"
         "return s; } int (*table[])(const int *, int) = { total };"
         "static int one(void) { return 11; } static void *choose(void) { return one; }"
         "int pick(void) __attribute__((ifunc(\"choose\")));"
         "int all(void) { int v[] = {1, 2, 3}; return total(v, 3) * 100 + table[0](v, 2) * 10 +"
         "pick(); }");
    load("int pick(void); int outer(void) { return pick() + 1; }");
    ck_assert_int_eq(call_int("all"), 600 + 30 + 11);
    ck_assert_int_eq(call_int("outer"), 12);
    ck_assert_int_eq(call_int("pick"), 11);
}
END_TEST

START_TEST(what_only_the_system_can_link)
{
    static const char text[] = "_Thread_local int near = 4; int get(void) { return near; }";
    test_object object = test_compile(text, "-ftls-model=initial-exec");
    ck_assert_int_eq(cadre_object_needs_dlopen(object.bytes, object.length), 1);
    ck_assert_ptr_null(
        cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error));
    ck_assert_int_eq(error.code, CADRE_ENEEDS_DLOPEN);
    free(object.bytes);
    char *path = test_link("#include <stdio.h>\n_Thread_local int near = 4; int count = 6;"
                           "int get(void) { return near; }",
                           "-ftls-model=initial-exec");
    cadre_module *module = cadre_loader_add_library(loader, "cell.c", path, &error);
    ck_assert_msg(module != NULL, "%s", error.message);
    ck_assert_int_eq(cadre_loader_check(loader, module, NULL, &error), 0);
    cadre_loader_commit(loader);
    cadre_loader_construct(module);
    load("extern int count; int get(void); int use(void) { return get() + count; }");
    ck_assert_int_eq(call_int("use"), 10);
    ck_assert(cadre_loader_is_cell_code(loader, cadre_module_symbol(module, "get")));
    ck_assert_ptr_null(cadre_loader_add_library(loader, "cell.c", "/no/such.so", &error));
    unlink(path);
    free(path);
}
END_TEST

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

START_TEST(statements_give_their_memory_back)
{
    test_object object = test_compile("#include <stdio.h>\nextern double state[];"
                                      "static double *type __attribute__((used));"
                                      "void test_keep(const void *, unsigned long);"
                                      "void cell_entry(void) { for (int i = 0; i < 3; i++)"
                                      "state[i] += i * 0.25; printf(\"%s\", \"\");"
                                      "__auto_type v = state[1]; test_keep(&v, sizeof v); }",
                                      NULL);
    cadre_loader_override(loader, "test_keep", (void *)memchr);
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

Suite *load_suite(void);
Suite *load_suite(void)
{
    const struct {
        const char *name;
        const TTest *test;
    } tests[] = {
        {"calls", calls_and_data},
        {"redefinition", redefinition_reaches_old_callers},
        {"fresh", fresh_names_keep_the_old},
        {"static", static_names_do_not_leak},
        {"direct", direct_calls_bind_late_too},
        {"tables", function_tables},
        {"later", table_of_functions_defined_later},
        {"weak", weak_and_alias},
        {"hidden", hidden_and_protected},
        {"constructors", constructors_run_by_priority},
        {"ctors", old_style_constructors},
        {"switches", switches_and_computed_goto},
        {"compilers", compilers_and_levels},
        {"alignment", common_and_alignment},
        {"large", large_variables},
        {"strings", strings_are_shared_or_not_but_right},
        {"protection", constants_are_read_only_and_code_is_not_writable},
        {"nested", nested_functions},
        {"helpers", compiler_helpers},
        {"thread-local", thread_local_variables},
        {"ifunc", chosen_functions},
        {"dlopen", what_only_the_system_can_link},
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
    Suite *suite = suite_create("load");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        TCase *one = tcase_create(tests[i].name);
        tcase_set_timeout(one, 120);
        tcase_add_checked_fixture(one, set_up, tear_down);
        tcase_add_test(one, tests[i].test);
        suite_add_tcase(suite, one);
    }
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(load_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
