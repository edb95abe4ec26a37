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

Suite *types_suite(void);
Suite *types_suite(void)
{
    Suite *suite = suite_create("types");
    TCase *values = tcase_create("values");
    tcase_set_timeout(values, 60);
    tcase_add_test(values, numbers);
    tcase_add_test(values, language_cases);
    suite_add_tcase(suite, values);
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
