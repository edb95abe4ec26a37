/* Read before every file by clang-tidy (not by the compiler): tells the analyser what it cannot
 * see across files, that an error's code comes back as it was given. */
#ifndef CADRE_TIDY_H
#define CADRE_TIDY_H
#include "base/base.h"
/* gcc's, and not clang's. */
#define _Float128 long double
#define cadre_error_set(error, code, ...) (cadre_error_set((error), (code), __VA_ARGS__), (code))
#define cadre_error_set_at(error, code, file, line, column, ...)                                   \
    (cadre_error_set_at((error), (code), (file), (line), (column), __VA_ARGS__), (code))
#endif
