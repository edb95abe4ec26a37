/* kernel/cell/load: compiled texts are loaded, bound, redefined and called. */
#include "cell/load.h"
#include "object_helper.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

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

Suite *load_suite(void);
Suite *load_suite(void)
{
    Suite *suite = suite_create("load");
    TCase *binding = tcase_create("binding");
    tcase_set_timeout(binding, 60);
    tcase_add_checked_fixture(binding, set_up, tear_down);
    tcase_add_test(binding, calls_and_data);
    tcase_add_test(binding, redefinition_reaches_old_callers);
    tcase_add_test(binding, fresh_names_keep_the_old);
    suite_add_tcase(suite, binding);
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
