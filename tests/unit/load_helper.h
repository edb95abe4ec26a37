/* For the tests of the loader: a loader per test, cells made of text. */
#ifndef TEST_LOAD_HELPER_H
#define TEST_LOAD_HELPER_H

#include "cell/load.h"
#include "object_helper.h"

#include <check.h>

extern cadre_loader *loader;
extern cadre_error error;

void set_up(void);
void tear_down(void);
/* Compiles and adds; `fresh` is a name or NULL. NULL with `error`: refused. */
cadre_module *add_fresh(const char *source, const char *options, const char *fresh);
/* Loads and commits, as a cell that ran. */
cadre_module *load_with(const char *source, const char *options, const char *fresh);
cadre_module *load(const char *source);
int call_int(const char *name);

struct named_test {
    const char *name;
    const TTest *test;
};
/* Runs them, each with a loader of its own; the exit status. */
int run_tests(const char *suite, const struct named_test *tests, size_t count);

#endif
