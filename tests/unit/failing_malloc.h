/* Lets the k-th allocation of the code under test fail.
 *
 *     FAIL_EACH_ALLOCATION(table = cadre_read_csv_with(path, NULL, &error), !table, table)
 *
 * Works for what is linked with -Wl,--wrap=malloc and the like, so not inside of shared libraries
 * (jansson's parser drops characters of a token when it finds no memory, and does not tell).
 */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdbool.h>

/* The `after`-th allocation from now on fails, once; 0: none. */
void failing_malloc_start(unsigned long after);
/* True when one failed since the start; allocations work again. */
bool failing_malloc_stop(void);

/* Runs `statement` with the first, second, ... allocation failing until none does; then `success`
 * must hold. `failure` is run each time one failed: it must hold, and frees what there is. */
#define FAIL_EACH_ALLOCATION(statement, failure, success)                                          \
    for (unsigned long nth_ = 1;; nth_++) {                                                        \
        failing_malloc_start(nth_);                                                                \
        statement;                                                                                 \
        if (failing_malloc_stop()) {                                                               \
            ck_assert_msg(failure, "allocation %lu failed, and " #failure " does not hold", nth_); \
            continue;                                                                              \
        }                                                                                          \
        ck_assert(success);                                                                        \
        ck_assert_msg(nth_ > 1, "nothing was allocated");                                          \
        break;                                                                                     \
    }

#endif
