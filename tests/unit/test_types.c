/* kernel/cell/types: values, signatures and lines from the DWARF of compiled texts. The values are
 * produced as in a cell: code is loaded, runs, and hands over its last value. */
#include "cell/load.h"
#include "cell/types.h"
#include "object_helper.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned char stored[1 << 16];
static size_t stored_size;

static void keep_value(const void *value, unsigned long size)
{
    ck_assert_uint_le(size, sizeof stored);
    memcpy(stored, value, size);
    stored_size = size;
}

static bool read_self(void *context, uint64_t address, void *into, size_t length)
{
    struct iovec here = {into, length}, there = {(void *)(uintptr_t)address, length};
    (void)context;
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)length;
}

static const char *symbol_of(void *context, uint64_t address)
{
    const char *name;
    uint64_t offset;
    Dl_info info;
    if (cadre_loader_describe(context, (void *)(uintptr_t)address, NULL, &name, &offset) && !offset)
        return name;
    if (dladdr((void *)(uintptr_t)address, &info) && info.dli_saddr == (void *)(uintptr_t)address)
        return info.dli_sname;
    return NULL;
}

struct value_case {
    const char *expression, *expected;
};

/* Shows every expression over `declarations` and compares. */
static void check_values(const char *compiler, const char *options, const char *declarations,
                         const struct value_case *cases, size_t count)
{
    cadre_error error = {0};
    cadre_buffer source = {0};
    cadre_buffer_puts(&source, declarations);
    cadre_buffer_puts(&source, "\nvoid test_keep(const void *, unsigned long);\n");
    for (size_t i = 0; i < count; i++) {
        cadre_buffer_printf(
            &source,
            "static __typeof__(%s) *type_%zu __attribute__((used));\n"
            "void show_%zu(void) { __auto_type v = %s; test_keep(&v, sizeof v); }\n",
            cases[i].expression, i, i, cases[i].expression);
    }
    test_object object = test_compile_with(compiler, source.data, options);
    cadre_loader *loader = cadre_loader_new(&error);
    ck_assert_msg(loader != NULL, "%s", error.message);
    cadre_loader_override(loader, "test_keep", (void *)keep_value);
    cadre_module *module =
        cadre_loader_add(loader, "values.c", object.bytes, object.length, NULL, 0, &error);
    ck_assert_msg(module != NULL, "%s", error.message);
    cadre_loader_commit(loader);
    cadre_loader_construct(module);
    cadre_types *types = cadre_types_open(object.bytes, object.length, &error);
    ck_assert_msg(types != NULL, "%s", error.message);
    for (size_t i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "show_%zu", i);
        void (*show)(void) = (void (*)(void))cadre_module_symbol(module, name);
        ck_assert_ptr_nonnull(show);
        show();
        snprintf(name, sizeof name, "type_%zu", i);
        char *text = cadre_types_format(types, name, (uint64_t)(uintptr_t)stored, stored_size,
                                        read_self, loader, symbol_of);
        const char *got = text ? text : "(nothing)";
        /* An expected text that ends in ~ is a beginning. */
        size_t length = strlen(cases[i].expected);
        bool equal = length && cases[i].expected[length - 1] == '~'
                         ? !strncmp(got, cases[i].expected, length - 1)
                         : !strcmp(got, cases[i].expected);
        ck_assert_msg(equal, "%s shows\n%s\nand not\n%s", cases[i].expression, got,
                      cases[i].expected);
        free(text);
    }
    cadre_types_free(types);
    cadre_loader_free(loader);
    free(object.bytes);
    cadre_buffer_free(&source);
}

#define CHECK_VALUES(declarations, cases)                                                          \
    check_values("gcc", NULL, declarations, cases, sizeof(cases) / sizeof *(cases))

START_TEST(numbers)
{
    static const struct value_case cases[] = {
        {"7 / 2", "3"},
        {"7 / 2.0", "3.5"},
        {"20.0", "20.0"},
        {"0.1", "0.1"},
        {"1e300", "1e+300"},
        {"-0.0", "-0.0"},
        {"1.0 / 3", "0.3333333333333333"},
        {"0.1 + 0.2", "0.30000000000000004"},
        {"5e-324", "5e-324"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"123456789.0", "123456789.0"},
        {"__builtin_inf()", "inf"},
        {"-__builtin_inf()", "-inf"},
        {"__builtin_nan(\"\")", "nan"},
        {"1.0f / 3", "0.33333334"},
        {"16777216.0f", "16777216.0"},
        {"0.1f", "0.1"},
        {"1e-45f", "1e-45"},
        {"1.0L / 3", "0.33333333333333333334"},
        {"2.0L", "2.0"},
        {"(_Float128)1 / 3", "0.3333333333333333333333333333333333"},
        {"(_Float16)1.5", "1.5"},
        {"(signed char)-5", "-5"},
        {"(unsigned char)200", "200"},
        {"(short)-300", "-300"},
        {"(unsigned short)60000", "60000"},
        {"-2147483647 - 1", "-2147483648"},
        {"4294967295u", "4294967295"},
        {"-9223372036854775807LL - 1", "-9223372036854775808"},
        {"18446744073709551615ULL", "18446744073709551615"},
        {"(__int128)1 << 100", "1267650600228229401496703205376"},
        {"(__int128)1 << 127", "-170141183460469231731687303715884105728"},
        {"~(unsigned __int128)0", "340282366920938463463374607431768211455"},
        {"(_Bool)1", "true"},
        {"(_Bool)0", "false"},
        {"1.0 + 2.0i", "1.0+2.0i"},
        {"-1.5f - 0.5fi", "-1.5-0.5i"},
        {"((void)0, 3)", "3"},
    };
    CHECK_VALUES("", cases);
}
END_TEST

START_TEST(language_cases)
{
    static const struct value_case cases[] = {
        {"r", "{.mode = MULTI, .cpus = 3, .loss = {0.5, 0.25, 0.125}, .name = \"north\"}"},
        {"a", "{1, 2, 3, 4}"},
        {"\"plain \\\"quoted\\\" text\"", "\"plain \\\"quoted\\\" text\""},
        {"city", "\"Zürich 🚀\""},
        {"c", "{19.0, 22.0, 43.0, 50.0}"},
        {"y", "\"text\""},
    };
    CHECK_VALUES("enum mode { SINGLE, MULTI };"
                 "struct run { enum mode mode; int cpus; double loss[3]; const char *name; };"
                 "struct run r = { MULTI, 3, {0.5, 0.25, 0.125}, \"north\" };"
                 "int a[4] = {1, 2, 3, 4}; const char *city = \"Zürich 🚀\";"
                 "double c[4] = {19, 22, 43, 50}; char *y = \"text\";",
                 cases);
}
END_TEST

START_TEST(characters_and_strings)
{
    static const struct value_case cases[] = {
        {"letter", "'A'"},
        {"(char)'\\n'", "'\\n'"},
        {"(char)0", "'\\0'"},
        {"(char)'\\''", "'\\''"},
        {"(char)0xe9", "'\\xe9'"},
        {"(char)27", "'\\x1b'"},
        {"buffer", "\"abc\""},
        {"full", "\"abcd\""},
        {"\"tab\\tnew\\nquote\\\"back\\\\slash\"", "\"tab\\tnew\\nquote\\\"back\\\\slash\""},
        {"\"\\xff\\xfe\" \"bad\"", "\"\\xff\\xfebad\""},
        {"\"\\xc3\"", "\"\\xc3\""},
        {"\"é\\x80ü\"", "\"é\\x80ü\""},
        {"\"\\xed\\xa0\\x80\"", "\"\\xed\\xa0\\x80\""},
        {"\"日本語\"", "\"日本語\""},
        {"(const char *)0", "NULL"},
        {"wild", "(char *) 0x10"},
        {"bytes", "{1, 2, 255}"},
        {"(unsigned char *)0x20", "(unsigned char *) 0x20"},
        {"wide", "L\"Zü🚀\""},
        {"small", "u\"aé🚀\""},
        {"letter_", "L'x'"},
        {"words", "{\"one\", \"two\", NULL}"},
        {"long_text", "\"xxxxxxxxxx~"},
    };
    CHECK_VALUES(
        "#include <wchar.h>\n#include <uchar.h>\n"
        "char letter = 'A'; char buffer[10] = \"abc\"; char full[4] = {'a', 'b', 'c', 'd'};"
        "char *wild = (char *)16; unsigned char bytes[3] = {1, 2, 255};"
        "wchar_t letter_ = L'x'; const wchar_t *wide = L\"Zü🚀\"; const char16_t *small = u\"aé🚀\";"
        "const char *words[] = {\"one\", \"two\", 0};"
        "static char text_[3000]; char *long_text = text_;"
        "__attribute__((constructor)) static void fill(void)"
        "{ __builtin_memset(text_, 'x', 2999); }"
        "char *fill_(void) { return text_; }",
        cases);
}
END_TEST

START_TEST(enumerations)
{
    static const struct value_case cases[] = {
        {"c", "GREEN"},
        {"(enum colour)7", "7"},
        {"(enum colour)-1", "4294967295"},
        {"f", "READ | EXECUTE"},
        {"(enum flags)0", "NONE"},
        {"(enum flags)16", "16"},
        {"(enum flags)9", "9"},
        {"n", "MINUS"},
        {"(enum negative)-7", "-7"},
        {"(enum big)BIG", "BIG"},
        {"p", "TINY"},
        {"both", "{RED, GREEN}"},
    };
    CHECK_VALUES("enum colour { RED, GREEN, BLUE }; enum colour c = GREEN;"
                 "enum flags { NONE, READ = 1, WRITE = 2, EXECUTE = 4 }; enum flags f = 5;"
                 "enum negative { MINUS = -3, ZERO, PLUS = 3 }; enum negative n = MINUS;"
                 "enum big { SMALL, BIG = 0x100000000 };"
                 "enum __attribute__((packed)) tiny { TINY = -1, OTHER }; enum tiny p = TINY;"
                 "enum colour both[2] = { RED, GREEN };",
                 cases);
}
END_TEST

START_TEST(structures)
{
    static const struct value_case cases[] = {
        {"point", "{.x = 1, .y = 2}"},
        {"u", "{.f = 1.0, .u = 1065353216}"},
        {"flags", "{.a = 5, .b = 17, .s = -2, .on = true, .c = GREEN, .wide = 1099511627775}"},
        {"nested", "{.p = {.x = 3, .y = 4}, .q = {{.x = 5, .y = 6}, {.x = 7, .y = 8}}}"},
        {"anonymous", "{.kind = 1, .i = 1065353216, .f = 1.0, .tail = 9}"},
        {"flexible", "{.n = 2, .items = {…}}"},
        {"none", "{}"},
        {"packed", "{.c = 'x', .i = 258}"},
        {"typed", "{.re = 1.5, .im = -2.5}"},
        {"wrapped.p", "{.x = 3, .y = 4}"},
        {"long_one",
         "{\n    .first_long_member_name = 1.25,\n    .second_long_member_name = \"text\","
         "\n    .third_long_member_name = {1, 2, 3},\n    .inner = {.x = 1, .y = 2}\n}"},
        {"list", "{.next = (struct node *) 0x~"},
        {"&point", "(struct point *) 0x~"},
        {"cell_", "{.value = 3}"},
        {"atomic", "7"},
        {"constant", "10"},
        {"volatile_", "2.5"},
    };
    CHECK_VALUES(
        "#include <stdatomic.h>\n"
        "struct point { int x, y; } point = {1, 2}; union bits { float f; unsigned u; } u = {1.0f};"
        "enum colour { RED, GREEN, BLUE };"
        "struct { unsigned a : 3, b : 5; int s : 4; _Bool on : 1; enum colour c : 2;"
        "unsigned long wide : 40; } flags = {5, 17, -2, 1, GREEN, 1099511627775ul};"
        "struct nest { struct point p; struct point q[2]; } nested = {{3, 4}, {{5, 6}, {7, 8}}};"
        "struct nest wrapped = {{3, 4}};"
        "struct { int kind; union { int i; float f; }; struct { int tail; }; } anonymous ="
        "{1, {.f = 1.0f}, {9}};"
        "struct flex { int n; int items[]; } flexible = {2}; struct {} none;"
        "struct __attribute__((packed)) { char c; int i; } packed = {'x', 258};"
        "typedef struct { double re, im; } pair; pair typed = {1.5, -2.5};"
        "struct { double first_long_member_name; const char *second_long_member_name;"
        "int third_long_member_name[3]; struct point inner; } long_one = {1.25, \"text\", {1, 2, "
        "3},"
        "{1, 2}}; struct node { struct node *next; int v; } list = {&list, 3};"
        "struct cell_ { const int value; } cell_ = {3}; atomic_int atomic = 7;"
        "const int constant = 10; volatile double volatile_ = 2.5;",
        cases);
}
END_TEST

START_TEST(arrays)
{
    static const struct value_case cases[] = {
        {"a", "{1, 2, 3, 4}"},
        {"m", "{{1, 2, 3},\n {4, 5, 6}}"},
        {"cube", "{{{1, 2},\n  {3, 4}},\n {{5, 6},\n  {7, 8}}}"},
        {"empty", "{}"},
        {"lanes", "{1.0, 2.0, 3.0, 4.0}"},
        {"rows", "{\"ab\",\n \"cd\"}"},
        {"*mp", "{1, 2, 3}"},
        {"row_type", "{{1.0, 2.0},\n {3.0, 4.0}}"},
        {"pairs", "{{.x = 1, .y = 2}, {.x = 3, .y = 4}}"},
        {"&a", "(int (*)[4]) 0x~"},
        {"mp", "(int (*)[3]) 0x~"},
        {"z", "{1.0+2.0i, 0.0-1.0i}"},
        {"flags", "{true, false}"},
        {"ld", "{0.1, 2.0}"},
    };
    CHECK_VALUES("int a[4] = {1, 2, 3, 4}; int m[2][3] = {{1, 2, 3}, {4, 5, 6}};"
                 "int cube[2][2][2] = {1, 2, 3, 4, 5, 6, 7, 8}; int empty[0];"
                 "typedef float v4 __attribute__((vector_size(16))); v4 lanes = {1, 2, 3, 4};"
                 "char rows[2][3] = {\"ab\", \"cd\"}; int (*mp)[3] = m;"
                 "typedef double row[2]; row row_type[2] = {{1, 2}, {3, 4}};"
                 "struct { int x, y; } pairs[2] = {{1, 2}, {3, 4}};"
                 "_Complex double z[2] = {1.0 + 2.0i, __builtin_complex(0.0, -1.0)}; _Bool "
                 "flags[2] = {1, 0};"
                 "long double ld[2] = {0.1L, 2};",
                 cases);
}
END_TEST

START_TEST(long_values_are_cut)
{
    static const struct value_case cases[] = {
        {"big", "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, "
                "22, 23, 24,\n 25, ~"},
    };
    static const char declarations[] =
        "int big[1000]; __attribute__((constructor)) static void fill(void)"
        "{ for (int i = 0; i < 1000; i++) big[i] = i; } struct deep { struct deep *next; int "
        "v[40]; }"
        "deep[200]; double matrix[500][500];";
    CHECK_VALUES(declarations, cases);

    cadre_error error = {0};
    test_object object = test_compile("int big[1000] = {1}; double matrix[500][500] = {{1}};"
                                      "struct wide { int v[300][300]; char t[4000]; } wide[50];"
                                      "int *kept(void) { return big; }",
                                      NULL);
    cadre_types *types = cadre_types_open(object.bytes, object.length, &error);
    static unsigned char zeros[50 * sizeof(int) * 300 * 305];
    uint64_t at = (uint64_t)(uintptr_t)zeros;
    char *text = cadre_types_format_variable(types, "big", at, read_self, NULL, NULL);
    ck_assert_msg(strstr(text, ", … (1000 elements)}") != NULL, "%s", text);
    free(text);
    text = cadre_types_format_variable(types, "matrix", at, read_self, NULL, NULL);
    ck_assert_msg(strstr(text, ", … (500 elements)},\n {") != NULL, "%s", text);
    ck_assert_uint_le(strlen(text), 110000);
    free(text);
    text = cadre_types_format_variable(types, "wide", at, read_self, NULL, NULL);
    ck_assert_uint_le(strlen(text), 110000);
    free(text);
    ck_assert_ptr_null(cadre_types_format_variable(types, "nothing", at, read_self, NULL, NULL));
    cadre_types_free(types);
    free(object.bytes);
}
END_TEST

START_TEST(pointers_and_functions)
{
    static const struct value_case cases[] = {
        {"(int *)0", "NULL"},
        {"(int *)0x7f0000001000", "(int *) 0x7f0000001000"},
        {"(void *)0x1234", "(void *) 0x1234"},
        {"(const double **)0x1238", "(const double **) 0x1238"},
        {"(int *const *)0x1238", "(int *const *) 0x1238"},
        {"half", "half"},
        {"&half", "half"},
        {"chosen", "half"},
        {"(double (*)(double))0x1234", "(double (*)(double)) 0x1234"},
        {"(int (*)(const char *, ...))0x1234", "(int (*)(const char *, ...)) 0x1234"},
        {"(void (*)(void))0x1234", "(void (*)(void)) 0x1234"},
        {"(int (*(*)(void))[3])0x1234", "(int (*(*)(void))[3]) 0x1234"},
        {"table", "{half, NULL}"},
        {"config", "{.train = half, .next = NULL}"},
        {"(struct point *)0x10", "(struct point *) 0x10"},
        {"(struct unknown *)0x10", "(struct unknown *) 0x10"},
        {"(number *)0x10", "(number *) 0x10"},
        {"(void *)&point == (void *)p", "1"},
        {"list.next", "(struct node *) 0x~"},
        {"(enum e *)0x10", "(enum e *) 0x10"},
        {"(volatile int *)0x10", "(volatile int *) 0x10"},
    };
    CHECK_VALUES(
        "typedef double (*unary)(double); double half(double x) { return x / 2; }"
        "unary chosen = half; unary table[2] = {half, 0}; enum e { E };"
        "struct config { unary train; struct config *next; } config = {half, 0};"
        "struct point { int x, y; } point, *p = &point; struct unknown; typedef int number;"
        "struct node { struct node *next; int v; } list = {&list, 3};",
        cases);
}
END_TEST

START_TEST(pointers_are_followed_once)
{
    cadre_error error = {0};
    static struct node {
        struct node *next;
        int value;
    } node = {&node, 3};
    static struct node *pointer = &node;
    test_object object = test_compile("struct node { struct node *next; int value; } *list;"
                                      "void use(void) { list = 0; }",
                                      NULL);
    cadre_types *types = cadre_types_open(object.bytes, object.length, &error);
    char expected[200];
    snprintf(expected, sizeof expected,
             "(struct node *) %p -> {.next = (struct node *) %p, .value = 3}", (void *)&node,
             (void *)&node);
    char *text = cadre_types_format_variable(types, "list", (uint64_t)(uintptr_t)&pointer,
                                             read_self, NULL, NULL);
    ck_assert_str_eq(text, expected);
    free(text);
    /* Unreadable memory of every kind. */
    text = cadre_types_format_variable(types, "list", 8, read_self, NULL, NULL);
    ck_assert_str_eq(text, "<unreadable>");
    free(text);
    pointer = (struct node *)8;
    text = cadre_types_format_variable(types, "list", (uint64_t)(uintptr_t)&pointer, read_self,
                                       NULL, NULL);
    ck_assert_str_eq(text, "(struct node *) 0x8");
    free(text);
    cadre_types_free(types);
    free(object.bytes);
}
END_TEST

START_TEST(other_compilers_and_formats)
{
    static const struct value_case cases[] = {
        {"r", "{.mode = MULTI, .cpus = 3, .loss = {0.5, 0.25, 0.125}, .name = \"north\"}"},
        {"flags", "{.a = 5, .b = -3, .c = true}"},
        {"m", "{{1, 2},\n {3, 4}}"},
        {"c", "'q'"},
        {"20.0", "20.0"},
        {"1.5 + 2.0i", "1.5+2.0i"},
        {"half", "half"},
        {"\"text\"", "\"text\""},
    };
    static const char declarations[] =
        "enum mode { SINGLE, MULTI };"
        "struct run { enum mode mode; int cpus; double loss[3]; const char *name; };"
        "struct run r = { MULTI, 3, {0.5, 0.25, 0.125}, \"north\" };"
        "struct { unsigned a : 3; int b : 5; _Bool c : 1; } flags = {5, -3, 1};"
        "int m[2][2] = {1, 2, 3, 4}; char c = 'q'; double half(double x) { return x / 2; }";
    static const char *const options[] = {"-gdwarf-4", "-gdwarf-3", "-gdwarf-5", "-O0", "-O3"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        check_values("gcc", options[i], declarations, cases, sizeof cases / sizeof *cases);
        if (test_has_program("clang"))
            check_values("clang", options[i], declarations, cases, sizeof cases / sizeof *cases);
    }
}
END_TEST

Suite *types_suite(void);
Suite *types_suite(void)
{
    const struct {
        const char *name;
        const TTest *test;
    } tests[] = {
        {"numbers", numbers},
        {"language", language_cases},
        {"strings", characters_and_strings},
        {"enums", enumerations},
        {"structures", structures},
        {"arrays", arrays},
        {"cut", long_values_are_cut},
        {"pointers", pointers_and_functions},
        {"followed", pointers_are_followed_once},
        {"formats", other_compilers_and_formats},
    };
    Suite *suite = suite_create("types");
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
    SRunner *runner = srunner_create(types_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
