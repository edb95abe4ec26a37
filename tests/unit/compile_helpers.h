/* What the tests of the compile service share. Every helper fails the test itself. */
#ifndef COMPILE_HELPERS_H
#define COMPILE_HELPERS_H

#include "kernel/cell/compile.h"

#include <check.h>

cadre_compiler *helper_compiler(const char *program, const char *cache_dir);
cadre_compile_request helper_request(const char *headers, const char *source);
void helper_compile(cadre_compiler *compiler, const cadre_compile_request *request,
                    cadre_compile_result *result);
bool helper_has_symbol(const cadre_compile_result *result, const char *name);
/* Opens the library and calls `int name(void)`. */
int helper_call(const char *library, const char *name);
void helper_contains(const char *text, const char *part);

char *helper_folder(void); /* a new folder; helper_remove deletes it and frees */
void helper_remove(char *folder);
void helper_write(const char *path, const char *text);
void helper_script(const char *path, const char *body); /* executable, for /bin/sh */

int helper_count_files(void); /* open descriptors of this process */
double helper_now(void);      /* milliseconds */

#endif
