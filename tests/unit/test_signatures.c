/* kernel/cell/types: signatures, names and lines from the DWARF of compiled texts. */
#include "cell/load.h"
#include "cell/types.h"
#include "object_helper.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static cadre_types *open_types(const char *source)
{
    cadre_error error = {0};
    test_object object = test_compile(source, NULL);
    cadre_types *types = cadre_types_open(object.bytes, object.length, &error);
    ck_assert_msg(types != NULL, "%s", error.message);
    free(object.bytes);
    return types;
}

static void compare_signatures(const char *first, const char *second, bool equal)
{
    cadre_types *one = open_types(first), *other = open_types(second);
    char *a = cadre_types_signature(one, "x"), *b = cadre_types_signature(other, "x");
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_msg((strcmp(a, b) == 0) == equal, "%s: %s\n%s: %s", first, a, second, b);
    free(a);
    free(b);
    cadre_types_free(one);
    cadre_types_free(other);
}

START_TEST(equal_types_have_equal_signatures)
{
    static const char *const equal[][2] = {
        {"int x;", "int x = 4;"},
        {"int x;", "typedef int number; number x;"},
        {"int x(int a) { return a; }", "int x(int other) { return other + 1; }"},
        {"int x(const int a) { return a; }", "int x(int a) { return a; }"},
        {"static int x(int a) { return a; } int (*use)(int) = x;", "int x(int b) { return 0; }"},
        {"struct s { int a; struct s *next; } x;",
         "struct s { int a; struct s *next; }; struct s x;"},
        {"struct s; struct t { struct s *s; }; struct s { struct t t; int v; } x;",
         "struct s { struct t { struct s *s; } t; int v; } x = {0};"},
        {"extern int x[]; int x[5];", "int x[5] = {1};"},
        {"typedef struct { double lr; } config; config x;",
         "typedef struct { double lr; } config; config x = {1};"},
        {"enum e { A, B } x;", "enum e { A, B, C } x;"},
        {"long x;", "long long x;"},
        {"int *restrict x;", "int *x;"},
    };
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        compare_signatures(equal[i][0], equal[i][1], true);
}
END_TEST

START_TEST(different_types_have_different_signatures)
{
    static const char *const different[][2] = {
        {"int x;", "double x;"},
        {"int x;", "unsigned x;"},
        {"int x;", "int x(void) { return 1; }"},
        {"int x;", "const int x;"},
        {"int x;", "_Atomic int x;"},
        {"int x[3];", "int x[4];"},
        {"int x[3];", "int *x;"},
        {"char x;", "signed char x;"},
        {"long double x;", "_Float128 x;"},
        {"int x(int a) { return a; }", "int x(long a) { return 0; }"},
        {"int x(int a) { return a; }", "int x(int a, ...) { return a; }"},
        {"int x(int a) { return a; }", "void x(int a) {}"},
        {"int x(void) { return 1; }", "int x(int a) { return a; }"},
        {"struct s { int a; } x;", "struct s { int b; } x;"},
        {"struct s { int a; } x;", "struct s { double a; } x;"},
        {"struct s { int a; } x;", "struct t { int a; } x;"},
        {"struct s { int a; } x;", "union s { int a; } x;"},
        {"struct s { int a; } *x;", "struct s { int a, b; } *x;"},
        {"struct s { int a : 3, b : 5; } x;", "struct s { int a : 4, b : 4; } x;"},
        {"struct s { int v[2]; } **x[3];", "struct s { int v[3]; } **x[3];"},
        {"float x __attribute__((vector_size(16)));", "float x[4];"},
        {"int (*x)(int);", "int (*x)(long);"},
    };
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        compare_signatures(different[i][0], different[i][1], false);
}
END_TEST

START_TEST(recursive_types_end)
{
    cadre_types *types = open_types(
        "struct a { struct b *b; struct a *self[3]; }; struct b { struct a a; struct c *c;"
        "struct a *(*f)(struct b *, struct c *); }; struct c { struct a *a; struct b b;"
        "struct c *n; } x; struct d0 { int v; }; struct d1 { struct d0 a, b; };"
        "struct d2 { struct d1 a, b; }; struct d3 { struct d2 a, b; };"
        "struct d4 { struct d3 a, b; }; struct d5 { struct d4 a, b; } shared;");
    char *signature = cadre_types_signature(types, "x");
    ck_assert_ptr_nonnull(signature);
    ck_assert_uint_lt(strlen(signature), 400);
    free(signature);
    signature = cadre_types_signature(types, "shared");
    ck_assert_uint_lt(strlen(signature), 300);
    free(signature);
    ck_assert_ptr_null(cadre_types_signature(types, "absent"));
    cadre_types_free(types);
}
END_TEST

START_TEST(names_and_declarations)
{
    cadre_types *types = open_types(
        "int counter; static int hidden; double f(double x) { return x + hidden; }"
        "extern int elsewhere; static int helper(int a) { return a * elsewhere; }"
        "int use(void) { hidden++; return helper(counter); } const char *const words[] = {\"a\"};"
        "__attribute__((weak)) int soft; int (*handlers[4])(const char *, int);");
    char **names = cadre_types_defined(types);
    cadre_buffer all = {0};
    for (size_t i = 0; names[i]; i++) {
        cadre_buffer_printf(&all, "%s ", names[i]);
        free(names[i]);
    }
    free(names);
    static const char *const expected[] = {"counter ", "f ",    "use ",
                                           "words ",   "soft ", "handlers "};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_msg(strstr(all.data, expected[i]) != NULL, "%s", all.data);
    ck_assert_ptr_null(strstr(all.data, "hidden"));
    ck_assert_ptr_null(strstr(all.data, "elsewhere"));
    ck_assert_ptr_null(strstr(all.data, "helper"));
    cadre_buffer_free(&all);
    static const char *const texts[][2] = {
        {"counter", "int"},
        {"f", "double (double)"},
        {"use", "int (void)"},
        {"words", "const char *const[1]"},
        {"handlers", "int (*[4])(const char *, int)"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = cadre_types_name(types, texts[i][0]);
        ck_assert_str_eq(text, texts[i][1]);
        free(text);
    }
    cadre_types_free(types);
}
END_TEST

/* ---- lines ---- */

static char line_file[256];
static int line_number;

static cadre_loader *line_loader;
static cadre_types *line_types;

static void where_am_i(void)
{
    const char *function;
    uint64_t offset;
    void *caller = __builtin_return_address(0);
    /* The call itself, not what comes after it. */
    ck_assert(cadre_loader_describe(line_loader, (char *)caller - 1, NULL, &function, &offset));
    ck_assert_int_eq(
        cadre_types_line(line_types, function, offset, line_file, sizeof line_file, &line_number),
        0);
}

static void check_lines(const char *compiler, const char *options)
{
    static const char source[] = "#line 1 \"/cells/1234.c\"\n"
                                 "void where_am_i(void);\n"
                                 "static __attribute__((noinline)) int helper(int n)\n"
                                 "{\n"
                                 "    for (int i = 0; i < n; i++)\n"
                                 "        where_am_i();\n"
                                 "    return n;\n"
                                 "}\n"
                                 "int first(void)\n"
                                 "{\n"
                                 "    int k = 2;\n"
                                 "    where_am_i();\n"
                                 "    return k;\n"
                                 "}\n"
                                 "int second(void) { return helper(1); }\n";
    cadre_error error = {0};
    test_object object = test_compile_with(compiler, source, options);
    line_loader = cadre_loader_new(&error);
    cadre_loader_override(line_loader, "where_am_i", (void *)where_am_i);
    cadre_module *module =
        cadre_loader_add(line_loader, "1234.c", object.bytes, object.length, NULL, 0, &error);
    ck_assert_msg(module != NULL, "%s", error.message);
    cadre_loader_commit(line_loader);
    line_types = cadre_types_open(object.bytes, object.length, &error);
    ((int (*)(void))cadre_module_symbol(module, "first"))();
    ck_assert_str_eq(line_file, "/cells/1234.c");
    ck_assert_int_eq(line_number, 11);
    ((int (*)(void))cadre_module_symbol(module, "second"))();
    ck_assert_int_eq(line_number, 5);
    ck_assert_int_eq(cadre_types_line(line_types, "nobody", 0, line_file, 10, &line_number),
                     CADRE_ENOTFOUND);
    cadre_types_free(line_types);
    cadre_loader_free(line_loader);
    free(object.bytes);
}

START_TEST(lines_of_addresses)
{
    check_lines("gcc", NULL);
    check_lines("gcc", "-O0");
    check_lines("gcc", "-gdwarf-4 -O3");
    check_lines("gcc", "-fno-function-sections");
    if (test_has_program("clang")) check_lines("clang", NULL);
}
END_TEST

Suite *signatures_suite(void);
Suite *signatures_suite(void)
{
    const struct {
        const char *name;
        const TTest *test;
    } tests[] = {
        {"equal", equal_types_have_equal_signatures},
        {"different", different_types_have_different_signatures},
        {"recursive", recursive_types_end},
        {"names", names_and_declarations},
        {"lines", lines_of_addresses},
    };
    Suite *suite = suite_create("signatures");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        TCase *one = tcase_create(tests[i].name);
        tcase_set_timeout(one, 120);
        tcase_add_test(one, tests[i].test);
        suite_add_tcase(suite, one);
    }
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(signatures_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
