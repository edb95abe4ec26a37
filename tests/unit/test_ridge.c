/* runtime/model: ridge regression against a slow reference and certified results. */
#include <check.h>
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_helper.h"
#include "failing_malloc.h"
#include "model/model.h"
#include "store/store.h"

static bool every_fifth(const cadre_table *table, size_t row, void *user)
{
    (void)table, (void)user;
    return row % 5 == 4;
}

static cadre_slice whole_slice(const cadre_table *table)
{
    static uint32_t rows[100000];
    for (uint32_t i = 0; i < cadre_table_rows(table); i++)
        rows[i] = i;
    return (cadre_slice){
        .table = table, .name = "all", .rows = rows, .row_count = cadre_table_rows(table)};
}

/* The stated model, word for word, in long double: a dense design matrix and elimination. */
typedef struct reference {
    size_t features, train, test;
    long double coefficients[64], intercept, error, error_mean;
} reference;

enum { MOST = 64 };

static void design(const cadre_table *table, const cadre_ridge_options *options, size_t row,
                   const long double *mean, const long double *deviation, char levels[][32],
                   size_t level_count, size_t level_column[], long double *x)
{
    size_t numeric = 0;
    for (; options->numeric[numeric]; numeric++) {
        size_t column = (size_t)cadre_table_find(table, options->numeric[numeric]);
        long double value = cadre_table_number(table, column, row);
        x[numeric] = deviation[numeric] > 0 ? (value - mean[numeric]) / deviation[numeric] : 0;
    }
    for (size_t l = 0; l < level_count; l++) {
        size_t column = level_column[l];
        char text[32];
        if (cadre_table_type(table, column) == CADRE_TEXT)
            snprintf(text, sizeof text, "%s",
                     cadre_table_level(table, column, cadre_table_texts(table, column)[row]));
        else
            snprintf(text, sizeof text, "%" PRId64, cadre_table_int64s(table, column)[row]);
        x[numeric + l] = !strcmp(text, levels[l]);
    }
}

static bool is_complete(const cadre_table *table, const cadre_ridge_options *options, size_t row)
{
    size_t target = (size_t)cadre_table_find(table, options->target);
    if (isnan(cadre_table_number(table, target, row))) return false;
    for (size_t i = 0; options->numeric[i]; i++)
        if (isnan(cadre_table_number(table, (size_t)cadre_table_find(table, options->numeric[i]),
                                     row)))
            return false;
    for (size_t i = 0; options->categorical[i]; i++) {
        size_t column = (size_t)cadre_table_find(table, options->categorical[i]);
        if (cadre_table_type(table, column) == CADRE_TEXT
                ? cadre_table_texts(table, column)[row] < 0
                : cadre_table_int64s(table, column)[row] == CADRE_INT64_MISSING)
            return false;
    }
    return true;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int compare_numbers(const void *a, const void *b)
{
    return (int)strtol(a, NULL, 10) - (int)strtol(b, NULL, 10);
}

static void eliminate(size_t n, long double a[][MOST + 1])
{
    for (size_t i = 0; i < n; i++) {
        size_t best = i;
        for (size_t r = i + 1; r < n; r++)
            if (fabsl(a[r][i]) > fabsl(a[best][i])) best = r;
        for (size_t c = 0; c <= n; c++) {
            long double other = a[i][c];
            a[i][c] = a[best][c];
            a[best][c] = other;
        }
        for (size_t r = 0; r < n; r++) {
            if (r == i || a[r][i] == 0) continue;
            long double factor = a[r][i] / a[i][i];
            for (size_t c = i; c <= n; c++)
                a[r][c] -= factor * a[i][c];
        }
    }
}

static reference reference_fit(const cadre_table *table, const cadre_ridge_options *options)
{
    reference out = {0};
    size_t rows = cadre_table_rows(table), numeric = 0, level_count = 0, level_column[MOST];
    size_t target = (size_t)cadre_table_find(table, options->target);
    long double mean[MOST] = {0}, deviation[MOST] = {0}, target_mean = 0;
    char levels[MOST][32];
    for (size_t row = 0; row < rows; row++) {
        if (!is_complete(table, options, row)) continue;
        if (options->holdout(table, row, NULL)) {
            out.test++;
            continue;
        }
        out.train++;
        target_mean += cadre_table_number(table, target, row);
    }
    target_mean /= out.train;
    for (; options->numeric[numeric]; numeric++) {
        size_t column = (size_t)cadre_table_find(table, options->numeric[numeric]);
        for (int pass = 0; pass < 2; pass++)
            for (size_t row = 0; row < rows; row++) {
                if (!is_complete(table, options, row) || options->holdout(table, row, NULL))
                    continue;
                long double value = cadre_table_number(table, column, row);
                if (pass)
                    deviation[numeric] +=
                        (value - mean[numeric]) * (value - mean[numeric]) / out.train;
                else
                    mean[numeric] += value / out.train;
            }
        deviation[numeric] = sqrtl(deviation[numeric]);
        if (deviation[numeric] < 1e-15L * fabsl(mean[numeric])) deviation[numeric] = 0;
    }
    for (size_t i = 0; options->categorical[i]; i++) {
        size_t column = (size_t)cadre_table_find(table, options->categorical[i]),
               first = level_count;
        bool text = cadre_table_type(table, column) == CADRE_TEXT;
        for (size_t row = 0; row < rows; row++) {
            if (!is_complete(table, options, row) || options->holdout(table, row, NULL)) continue;
            char level[32];
            if (text)
                snprintf(level, sizeof level, "%s",
                         cadre_table_level(table, column, cadre_table_texts(table, column)[row]));
            else
                snprintf(level, sizeof level, "%" PRId64, cadre_table_int64s(table, column)[row]);
            size_t l = first;
            while (l < level_count && strcmp(levels[l], level))
                l++;
            if (l < level_count) continue;
            level_column[level_count] = column;
            memcpy(levels[level_count++], level, sizeof level);
        }
        qsort(levels[first], level_count - first, sizeof *levels,
              text ? compare_strings : compare_numbers);
    }
    size_t features = out.features = numeric + level_count;
    ck_assert_uint_lt(features, MOST);
    /* Unknowns: coefficients, then the intercept. */
    static long double a[MOST][MOST + 1];
    memset(a, 0, sizeof a);
    long double x[MOST];
    for (size_t row = 0; row < rows; row++) {
        if (!is_complete(table, options, row) || options->holdout(table, row, NULL)) continue;
        design(table, options, row, mean, deviation, levels, level_count, level_column, x);
        x[features] = 1;
        for (size_t i = 0; i <= features; i++) {
            for (size_t j = 0; j <= features; j++)
                a[i][j] += x[i] * x[j];
            a[i][features + 1] += x[i] * cadre_table_number(table, target, row);
        }
    }
    for (size_t i = 0; i < features; i++)
        a[i][i] += options->alpha;
    for (size_t i = 0; i < numeric; i++)
        if (deviation[i] == 0) a[i][i] = 1;
    eliminate(features + 1, a);
    for (size_t i = 0; i < features; i++)
        out.coefficients[i] = a[i][features + 1] / a[i][i];
    out.intercept = a[features][features + 1] / a[features][features];
    for (size_t row = 0; row < rows; row++) {
        if (!is_complete(table, options, row) || !options->holdout(table, row, NULL)) continue;
        design(table, options, row, mean, deviation, levels, level_count, level_column, x);
        long double value = cadre_table_number(table, target, row), off = value - out.intercept;
        for (size_t i = 0; i < features; i++)
            off -= out.coefficients[i] * x[i];
        out.error += off * off / out.test;
        out.error_mean += (value - target_mean) * (value - target_mean) / out.test;
    }
    out.error = sqrtl(out.error);
    out.error_mean = sqrtl(out.error_mean);
    return out;
}

static cadre_table *random_table(int rows, double offset)
{
    cadre_buffer file = {0};
    cadre_buffer_puts(&file, "y,a,b,constant,group,number,letter,unseen\n");
    for (int i = 0; i < rows; i++) {
        double a = helper_uniform(), b = offset + helper_uniform();
        unsigned group = (unsigned)(helper_random() % 12), letter = (unsigned)(helper_random() % 5);
        if (helper_random() % 40 == 0)
            cadre_buffer_puts(&file, "NA,");
        else
            cadre_buffer_printf(&file, "%.17g,",
                                3 * a - 2 * (b - offset) + group + helper_uniform());
        cadre_buffer_printf(&file, helper_random() % 40 ? "%.17g," : ",", a);
        cadre_buffer_printf(&file, "%.17g,0.1,g%u,%u,%c,%s\n", b, group, 8 + letter,
                            "vwxyz"[helper_random() % 5],
                            i % 5 == 4 ? "new"
                            : i % 2    ? "p"
                                       : "q");
    }
    cadre_error error;
    cadre_table *table = helper_table(file.data, &error);
    ck_assert_msg(table != NULL, "%s", error.message);
    cadre_buffer_free(&file);
    return table;
}

static void compare_with_reference(const cadre_table *table, const cadre_ridge_options *options,
                                   double tolerance)
{
    cadre_error error = {0};
    const cadre_slice slice = whole_slice(table);
    cadre_model *model = cadre_model_new("x");
    ck_assert_msg(cadre_ridge_fit(&slice, options, model, &error) == 0, "%s", error.message);
    reference want = reference_fit(table, options);
    size_t count;
    const double *coefficients = cadre_model_get(model, "coefficients", &count);
    ck_assert_uint_eq(count, want.features);
    ck_assert(cadre_model_metric(model, "rows_train") == (double)want.train);
    ck_assert(cadre_model_metric(model, "rows_test") == (double)want.test);
    long double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (fabsl(want.coefficients[i]) > largest) largest = fabsl(want.coefficients[i]);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabsl(coefficients[i] - want.coefficients[i]) <= tolerance * largest,
                      "%zu rows, alpha %g: coefficient %zu is %.17g, not %.17Lg (largest %Lg)",
                      want.train, options->alpha, i, coefficients[i], want.coefficients[i],
                      largest);
    long double intercept = cadre_model_get(model, "intercept", NULL)[0];
    ck_assert(fabsl(intercept - want.intercept) <= tolerance * (largest + fabsl(want.intercept)));
    ck_assert(fabsl(cadre_model_metric(model, "error") - want.error) <= tolerance * want.error);
    ck_assert(fabsl(cadre_model_metric(model, "error_mean") - want.error_mean) <=
              tolerance * want.error_mean);
    cadre_model_free(model);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

START_TEST(agrees_with_a_slow_reference)
{
    for (int round = 0; round < 8; round++) {
        cadre_table *table = random_table(80 + 300 * round, round % 2 ? 1e6 : 0);
        /* The second column is near 1e6 in the odd rounds: 6 digits of it are its offset. */
        double tolerance = round % 2 ? 1e-9 : 1e-11;
        for (double alpha = 1e-3; alpha < 1e4; alpha *= 30) {
            cadre_ridge_options options = {.target = "y",
                                           .alpha = alpha,
                                           .holdout = every_fifth,
                                           .numeric = NAMES("a", "constant", "b"),
                                           .categorical = NAMES("group")};
            compare_with_reference(table, &options, tolerance);
            options.categorical = NAMES();
            compare_with_reference(table, &options, tolerance);
            options.categorical = NAMES("letter", "group", "number", "unseen");
            /* Several sets of one-hot columns add up to the same ones: only alpha tells them
             * apart, and the system is as ill-conditioned as rows / alpha. */
            compare_with_reference(table, &options, 1e-9);
            options.numeric = NAMES("constant");
            compare_with_reference(table, &options, 1e-9);
            options.numeric = NAMES();
            options.categorical = NAMES("number");
            compare_with_reference(table, &options, tolerance);
        }
        cadre_table_free(table);
    }
}
END_TEST

START_TEST(what_the_model_says)
{
    cadre_error error = {0};
    cadre_table *table = random_table(400, 0);
    const cadre_slice slice = whole_slice(table);
    cadre_ridge_options options = {.target = "y",
                                   .alpha = 0.5,
                                   .holdout = every_fifth,
                                   .numeric = NAMES("a", "constant"),
                                   .categorical = NAMES("number", "unseen")};
    cadre_model *model = cadre_model_new("x");
    ck_assert_msg(cadre_ridge_fit(&slice, &options, model, &error) == 0, "%s", error.message);
    ck_assert_str_eq(cadre_model_get_text(model, "features"),
                     "[\"a\",\"constant\",\"number=8\",\"number=9\",\"number=10\",\"number=11\","
                     "\"number=12\",\"unseen=p\",\"unseen=q\"]");
    ck_assert_str_eq(cadre_model_get_text(model, "target"), "y");
    ck_assert_str_eq(cadre_model_get_text(model, "alpha"), "0.5");
    ck_assert(cadre_model_get(model, "coefficients", NULL)[1] == 0);
    ck_assert(cadre_model_get(model, "mean", NULL)[1] == 0.1);
    ck_assert(cadre_model_get(model, "deviation", NULL)[1] == 0);
    options.holdout = NULL;
    ck_assert_int_eq(cadre_ridge_fit(&slice, &options, model, &error), 0);
    ck_assert(cadre_model_metric(model, "rows_test") == 0);
    ck_assert(isnan(cadre_model_metric(model, "error")));
    cadre_model_free(model);
    cadre_table_free(table);
}
END_TEST

/* NIST StRD, linear regression, Longley (higher difficulty): certified coefficients. */
START_TEST(longley)
{
    static const char data[] =
        "y,x1,x2,x3,x4,x5,x6\n"
        "60323,83.0,234289,2356,1590,107608,1947\n61122,88.5,259426,2325,1456,108632,1948\n"
        "60171,88.2,258054,3682,1616,109773,1949\n61187,89.5,284599,3351,1650,110929,1950\n"
        "63221,96.2,328975,2099,3099,112075,1951\n63639,98.1,346999,1932,3594,113270,1952\n"
        "64989,99.0,365385,1870,3547,115094,1953\n63761,100.0,363112,3578,3350,116219,1954\n"
        "66019,101.2,397469,2904,3048,117388,1955\n67857,104.6,419180,2822,2857,118734,1956\n"
        "68169,108.4,442769,2936,2798,120445,1957\n66513,110.8,444546,4681,2637,121950,1958\n"
        "68655,112.6,482704,3813,2552,123366,1959\n69564,114.2,502601,3931,2514,125368,1960\n"
        "69331,115.7,518173,4806,2572,127852,1961\n70551,116.9,554894,4007,2827,130081,1962\n";
    static const double certified[] = {15.0618722713733,  -0.358191792925910e-01, -2.02022980381683,
                                       -1.03322686717359, -0.511041056535807e-01, 1829.15146461355};
    cadre_error error = {0};
    cadre_table *table = helper_table(data, &error);
    const cadre_slice slice = whole_slice(table);
    cadre_ridge_options options = {.target = "y",
                                   .numeric = NAMES("x1", "x2", "x3", "x4", "x5", "x6")};
    cadre_model *model = cadre_model_new("longley");
    ck_assert_msg(cadre_ridge_fit(&slice, &options, model, &error) == 0, "%s", error.message);
    const double *coefficients = cadre_model_get(model, "coefficients", NULL);
    const double *mean = cadre_model_get(model, "mean", NULL);
    const double *deviation = cadre_model_get(model, "deviation", NULL);
    double intercept = cadre_model_get(model, "intercept", NULL)[0];
    for (int i = 0; i < 6; i++) {
        double value = coefficients[i] / deviation[i];
        intercept -= value * mean[i];
        ck_assert_msg(fabs(value - certified[i]) < 1e-9 * fabs(certified[i]), "%.15g, not %.15g",
                      value, certified[i]);
    }
    ck_assert(fabs(intercept + 3482258.63459582) < 1e-9 * 3482258.63459582);
    cadre_model_free(model);
    cadre_table_free(table);
}
END_TEST

static void expect(const char *text, const cadre_ridge_options *options, int code, const char *says)
{
    cadre_error error = {0};
    cadre_table *table = helper_table(text, &error);
    ck_assert_msg(table != NULL, "%s", error.message);
    const cadre_slice slice = whole_slice(table);
    cadre_model *model = cadre_model_new("x");
    int status = cadre_ridge_fit(&slice, options, model, &error);
    ck_assert_msg(status == code, "%d: %s", status, error.message);
    ck_assert_msg(code == 0 || strstr(error.message, says), "%s", error.message);
    cadre_model_free(model);
    cadre_table_free(table);
}

START_TEST(refusals)
{
    static const char small[] = "y,a,g\n1,2,p\n2,3,q\nNA,4,p\n3,5,p\n";
    cadre_ridge_options options = {.target = "y",
                                   .alpha = 1,
                                   .holdout = every_fifth,
                                   .numeric = NAMES("a"),
                                   .categorical = NAMES("g")};
    expect(small, &options, CADRE_EINPUT, "3 complete training rows for 3 features; it needs 4");
    options.categorical = NULL;
    expect(small, &options, CADRE_EINPUT, "0 complete held-out rows beside 3 training rows");
    options.holdout = NULL;
    expect(small, &options, 0, "");
    options.target = "z";
    expect(small, &options, CADRE_ENOTFOUND, "no column 'z'; the columns of");
    options.target = "g";
    expect(small, &options, CADRE_EINPUT, "column 'g' holds text");
    options.target = NULL;
    expect(small, &options, CADRE_EINPUT, "target");
    options.target = "y";
    options.categorical = NAMES("a");
    expect("y,a\n1,1.5\n2,2\n", &options, CADRE_EINPUT, "holds numbers with fractions");
    options.categorical = NULL;
    for (int i = 0; i < 3; i++) {
        options.alpha = (const double[]){-1, (double)NAN, HUGE_VAL}[i];
        expect(small, &options, CADRE_EINPUT, "alpha");
    }
    options.alpha = 1;
    expect("y,a\n1,1\n2,-inf\n3,2\n", &options, CADRE_ENUMERIC, "column 'a' is infinite in row 2");
    expect("y,a\n1,1\ninf,2\n3,2\n", &options, CADRE_ENUMERIC, "column 'y' is infinite in row 2");
    expect("y,a\n1,1e308\n2,-1e308\n3,1.7e308\n4,1.7e308\n", &options, CADRE_ENUMERIC, "too large");
    expect("y,a\n1,1e200\n2,-1e200\n3,2e200\n", &options, 0, "");
    expect("y,a\n1,1e-200\n2,-1e-200\n3,2e-200\n", &options, 0, "");
    options.alpha = 0;
    options.numeric = NAMES("a", "b");
    expect("y,a,b\n1,1,2\n2,2,4\n3,3,6\n5,4,8\n", &options, CADRE_ENUMERIC, "determine each other");
    options.numeric = NULL;
    options.categorical = NAMES("a");
    expect("y,a\n1,p\n2,p\n3,q\n5,q\n", &options, CADRE_ENUMERIC, "determine each other");
    cadre_error error = {0};
    ck_assert_int_eq(cadre_ridge_fit(NULL, &options, NULL, &error), CADRE_EINPUT);
}
END_TEST

START_TEST(bits_do_not_depend_on_threads)
{
    cadre_error error = {0};
    cadre_table *table = random_table(20000, 3);
    const cadre_slice slice = whole_slice(table);
    cadre_ridge_options options = {.target = "y",
                                   .alpha = 1,
                                   .holdout = every_fifth,
                                   .numeric = NAMES("a", "b"),
                                   .categorical = NAMES("group", "letter")};
    unsigned char *first = NULL;
    size_t first_length = 0;
    for (int threads = 1; threads <= 4; threads++) {
        openblas_set_num_threads(threads);
        int before = openblas_get_num_threads();
        cadre_model *model = cadre_model_new("x");
        ck_assert_int_eq(cadre_ridge_fit(&slice, &options, model, &error), 0);
        ck_assert_int_eq(openblas_get_num_threads(), before);
        size_t length;
        unsigned char *bytes = cadre_model_encode(model, &length, &error);
        cadre_model_free(model);
        if (first) {
            ck_assert(length == first_length && !memcmp(bytes, first, length));
            free(bytes);
        } else {
            first = bytes;
            first_length = length;
        }
    }
    free(first);
    cadre_table_free(table);
}
END_TEST

START_TEST(no_memory)
{
    cadre_error error = {0};
    cadre_table *table = random_table(300, 0);
    const cadre_slice slice = whole_slice(table);
    cadre_ridge_options options = {.target = "y",
                                   .alpha = 1,
                                   .holdout = every_fifth,
                                   .numeric = NAMES("a", "b"),
                                   .categorical = NAMES("group", "number")};
    cadre_model *model = cadre_model_new("x");
    int status;
    FAIL_EACH_ALLOCATION(status = cadre_ridge_fit(&slice, &options, model, &error),
                         status == CADRE_EMEMORY && strstr(error.message, "memory"), status == 0)
    cadre_model_free(model);
    cadre_table_free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ridge");
    TCase *tests = tcase_create("ridge");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, agrees_with_a_slow_reference);
    tcase_add_test(tests, what_the_model_says);
    tcase_add_test(tests, longley);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, bits_do_not_depend_on_threads);
    tcase_add_test(tests, no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
