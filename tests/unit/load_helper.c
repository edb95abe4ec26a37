#include "load_helper.h"

#include <stdlib.h>

cadre_loader *loader;
cadre_error error;

void set_up(void)
{
    loader = cadre_loader_new(&error);
    ck_assert_msg(loader != NULL, "%s", error.message);
}

void tear_down(void)
{
    cadre_loader_free(loader);
    loader = NULL;
}

cadre_module *add_fresh(const char *source, const char *options, const char *fresh)
{
    test_object object = test_compile(source, options);
    cadre_module *module = cadre_loader_add(loader, "cell.c", object.bytes, object.length, &fresh,
                                            fresh != NULL, &error);
    free(object.bytes);
    return module;
}

cadre_module *load_with(const char *source, const char *options, const char *fresh)
{
    cadre_module *module = add_fresh(source, options, fresh);
    ck_assert_msg(module != NULL, "%s", error.message);
    cadre_loader_commit(loader);
    cadre_loader_construct(module);
    return module;
}

cadre_module *load(const char *source)
{
    return load_with(source, NULL, NULL);
}

int call_int(const char *name)
{
    int (*function)(void) = (int (*)(void))cadre_loader_symbol(loader, name);
    ck_assert_msg(function != NULL, "no function %s", name);
    return function();
}

int run_tests(const char *name, const struct named_test *tests, size_t count)
{
    Suite *suite = suite_create(name);
    for (size_t i = 0; i < count; i++) {
        TCase *one = tcase_create(tests[i].name);
        tcase_set_timeout(one, 120);
        tcase_add_checked_fixture(one, set_up, tear_down);
        tcase_add_test(one, tests[i].test);
        suite_add_tcase(suite, one);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
