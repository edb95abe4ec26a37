/* kernel/cell/load: compiled texts are loaded, bound, redefined and called. */
#include "load_helper.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
            /* Valgrind does not know every instruction of the machine. */
            const char *preload = getenv("LD_PRELOAD");
            if (preload && strstr(preload, "vgpreload") && strstr(options[i], "native")) continue;
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
         "int atexit(void (*)(void)); void on_exit_(void) {} int hooks(void) { return "
         "atexit(on_exit_); }"
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

int main(void)
{
    const struct named_test tests[] = {
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
    };
    return run_tests("load", tests, sizeof tests / sizeof *tests);
}
