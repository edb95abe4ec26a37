/* For the tests of loader and types: compiles a text with the system's compiler. */
#ifndef TEST_OBJECT_HELPER_H
#define TEST_OBJECT_HELPER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct test_object {
    unsigned char *bytes; /* free() */
    size_t length;
} test_object;

/* Options that cells are compiled with (kernel/cell/compile.h) and `extra`, separated by blanks.
 * Fails the running test when the compiler refuses. */
test_object test_compile(const char *source, const char *extra);
test_object test_compile_with(const char *compiler, const char *source, const char *extra);
/* Is the program on PATH? */
bool test_has_program(const char *program);
/* Links a shared library; the path of a temporary file, free() it and unlink it. */
char *test_link(const char *source, const char *extra);

#endif
