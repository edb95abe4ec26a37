/* runtime/data: slices of tables. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error_handler.h"
#include "data/data.h"
#include "data_helper.h"
#include "failing_malloc.h"

static const char flights[] = "carrier,origin,day,delay\n"
                              "UA,EWR,10,1.5\n"
                              "AA,LGA,9,2\n"
                              "UA,JFK,10,3\n"
                              "UA,EWR,2,4\n"
                              "NA,EWR,1,5\n"
                              "AA,NA,1,6\n"
                              "UX,EWR,NA,7\n";

static cadre_table *read_text(const char *text)
{
    cadre_error error = {0};
    cadre_table *table = helper_table(text, &error);
    ck_assert_msg(table != NULL, "%s", error.message);
    return table;
}

static void expect_names(const cadre_slices *slices, const char *const *names)
{
    size_t count = 0;
    for (; names[count]; count++) {
        const cadre_slice *slice = cadre_slices_get(slices, count);
        ck_assert_ptr_nonnull(slice);
        ck_assert_str_eq(slice->name, names[count]);
        ck_assert_uint_eq(slice->index, count);
    }
    ck_assert_uint_eq(cadre_slices_count(slices), count);
    ck_assert_ptr_null(cadre_slices_get(slices, count));
}

START_TEST(by_one_and_two_columns)
{
    cadre_table *table = read_text(flights);
    cadre_slices *slices = cadre_slices_by(table, "carrier");
    expect_names(slices, (const char *const[]){"AA", "UA", "UX", NULL});
    ck_assert_uint_eq(cadre_slices_skipped(slices), 1);
    const cadre_slice *ua = cadre_slices_get(slices, 1);
    ck_assert_ptr_eq(ua->table, table);
    ck_assert_uint_eq(ua->row_count, 3);
    ck_assert(ua->rows[0] == 0 && ua->rows[1] == 2 && ua->rows[2] == 3);
    cadre_slices_free(slices);

    slices = cadre_slices_by(table, "carrier", "origin");
    expect_names(slices, (const char *const[]){"AA/LGA", "UA/EWR", "UA/JFK", "UX/EWR", NULL});
    ck_assert_uint_eq(cadre_slices_skipped(slices), 2);
    cadre_slices_free(slices);

    slices = cadre_slices_by(table, "day", "carrier");
    expect_names(slices, (const char *const[]){"1/AA", "2/UA", "9/AA", "10/UA", NULL});
    cadre_slices_free(slices);
    cadre_table_free(table);
}
END_TEST

START_TEST(selecting)
{
    cadre_table *table = read_text(flights);
    cadre_slices *all = cadre_slices_by(table, "carrier", "origin");
    cadre_slices *some = cadre_slices_select(all, "UA");
    expect_names(some, (const char *const[]){"UA/EWR", "UA/JFK", NULL});
    ck_assert(cadre_slices_get(some, 0)->rows[1] == 3);
    cadre_slices_free(some);
    some = cadre_slices_select(all, "UA/JFK");
    expect_names(some, (const char *const[]){"UA/JFK", NULL});
    cadre_slices_free(some);
    some = cadre_slices_select(all, "all");
    ck_assert_uint_eq(cadre_slices_count(some), 4);
    cadre_slices_free(all);
    ck_assert_str_eq(cadre_slices_get(some, 3)->name, "UX/EWR");
    cadre_error error;
    ck_assert_ptr_null(cadre_slices_select_with(some, "U", &error));
    ck_assert_int_eq(error.code, CADRE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "'U'; the slices are AA/LGA, UA/EWR"));
    cadre_slices *same = cadre_slices_select(some, "");
    ck_assert_uint_eq(cadre_slices_count(same), 4);
    cadre_slices_free(same);
    cadre_slices_free(some);
    cadre_table_free(table);
}
END_TEST

START_TEST(names_are_unambiguous)
{
    cadre_table *table = read_text("a,b\nx/y,z\nx,y/z\n100%,z\nx%2Fy,z\n");
    cadre_slices *slices = cadre_slices_by(table, "a", "b");
    expect_names(slices,
                 (const char *const[]){"100%25/z", "x/y%2Fz", "x%252Fy/z", "x%2Fy/z", NULL});
    cadre_slices_free(slices);
    cadre_table_free(table);
}
END_TEST

START_TEST(refusals)
{
    cadre_table *table = read_text(flights);
    cadre_error error;
    cadre_set_error_handler(cadre_error_ignore);
    ck_assert_ptr_null(cadre_slices_by(table, "carrier", "airport"));
    ck_assert_int_eq(cadre_last_error()->code, CADRE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "'airport'"));
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "carrier, origin, day, delay"));
    ck_assert_ptr_null(
        cadre_slices_by_columns_with(table, (const char *const[]){"delay", NULL}, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    ck_assert_ptr_null(cadre_slices_by_columns_with(table, (const char *const[]){NULL}, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    ck_assert_ptr_null(
        cadre_slices_by_columns_with(NULL, (const char *const[]){"delay", NULL}, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    const char *many[18] = {0};
    for (int i = 0; i < 17; i++)
        many[i] = "day";
    ck_assert_ptr_null(cadre_slices_by_columns_with(table, many, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    cadre_table_free(table);
    table = read_text("a,b\n");
    ck_assert_ptr_null(cadre_slices_by(table, "a")); /* a column without values is of doubles */
    cadre_table_free(table);
}
END_TEST

/* Every row with its keys in exactly the slice of that name, in order; many groups. */
START_TEST(random_tables)
{
    for (int round = 0; round < 6; round++) {
        cadre_buffer file = {0};
        const uint64_t spread =
            (const uint64_t[]){2, 10, 1000, 100000, 1u << 30, 1ull << 62}[round];
        const int rows = 20000;
        cadre_buffer_puts(&file, "text,whole\n");
        for (int i = 0; i < rows; i++)
            cadre_buffer_printf(&file, "t%llu,%lld\n",
                                (unsigned long long)(helper_random() % spread),
                                (long long)(helper_random() % spread) - 5);
        cadre_error error;
        cadre_table *table = helper_table(file.data, &error);
        ck_assert_msg(table != NULL, "%s", error.message);
        cadre_slices *slices = cadre_slices_by(table, "text", "whole");
        size_t seen = 0;
        const int32_t *texts = cadre_table_texts(table, 0);
        const int64_t *wholes = cadre_table_int64s(table, 1);
        for (size_t i = 0; i < cadre_slices_count(slices); i++) {
            const cadre_slice *slice = cadre_slices_get(slices, i);
            for (size_t j = 0; j < slice->row_count; j++, seen++) {
                char name[64];
                uint32_t row = slice->rows[j];
                snprintf(name, sizeof name, "%s/%lld", cadre_table_level(table, 0, texts[row]),
                         (long long)wholes[row]);
                ck_assert_str_eq(name, slice->name);
                ck_assert(j == 0 || slice->rows[j - 1] < row);
            }
            if (i == 0) continue;
            const cadre_slice *before = cadre_slices_get(slices, i - 1);
            uint32_t a = before->rows[0], b = slice->rows[0];
            int order = strcmp(cadre_table_level(table, 0, texts[a]),
                               cadre_table_level(table, 0, texts[b]));
            ck_assert(order < 0 || (order == 0 && wholes[a] < wholes[b]));
        }
        ck_assert_uint_eq(seen, rows);
        cadre_slices_free(slices);
        cadre_table_free(table);
        cadre_buffer_free(&file);
    }
}
END_TEST

START_TEST(no_memory)
{
    cadre_table *table = read_text(flights);
    cadre_slices *slices, *chosen;
    cadre_error error;
    const char *const columns[] = {"carrier", "day", NULL};
    /* The table that makes looking up whole numbers fast may be missing. */
    FAIL_EACH_ALLOCATION(slices = cadre_slices_by_columns_with(table, columns, &error),
                         slices ? (cadre_slices_free(slices), true) : error.code == CADRE_EMEMORY,
                         slices)
    FAIL_EACH_ALLOCATION(chosen = cadre_slices_select_with(slices, "UA", &error),
                         !chosen && error.code == CADRE_EMEMORY, chosen)
    expect_names(chosen, (const char *const[]){"UA/2", "UA/10", NULL});
    cadre_slices_free(chosen);
    cadre_slices_free(slices);
    cadre_table_free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slices");
    TCase *tests = tcase_create("slices");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, by_one_and_two_columns);
    tcase_add_test(tests, selecting);
    tcase_add_test(tests, names_are_unambiguous);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, random_tables);
    tcase_add_test(tests, no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
