/* runtime/model: the container; runtime/store: safetensors and atomic files. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data_helper.h"
#include "failing_malloc.h"
#include "store/store.h"

static cadre_model *example(bool turned)
{
    const double weights[] = {1, -0.0, 1e-310, HUGE_VAL}, bias = 3;
    cadre_model *model = cadre_model_new("UA/EWR");
    ck_assert_ptr_nonnull(model);
    for (int i = 0; i < 4; i++) {
        switch (turned ? 3 - i : i) {
        case 0: ck_assert_int_eq(cadre_model_set(model, "weights", weights, 4), 0); break;
        case 1: ck_assert_int_eq(cadre_model_set(model, "bias", &bias, 1), 0); break;
        case 2:
            ck_assert_int_eq(cadre_model_set_text(model, "unit", "d\xC3\xA9lai \"min\""), 0);
            break;
        case 3: ck_assert_int_eq(cadre_model_set_text(model, "empty", ""), 0); break;
        }
    }
    ck_assert_int_eq(cadre_model_set(model, "none", NULL, 0), 0);
    ck_assert_int_eq(cadre_model_set_metric(model, "rows", 46087), 0);
    ck_assert_int_eq(cadre_model_set_metric(model, "error", 0.1 + 0.2), 0);
    ck_assert_int_eq(cadre_model_set_metric(model, "bad", (double)NAN), 0);
    return model;
}

START_TEST(container)
{
    cadre_model *model = example(false);
    size_t count;
    ck_assert_str_eq(cadre_model_name(model), "UA/EWR");
    const double *weights = cadre_model_get(model, "weights", &count);
    ck_assert(count == 4 && weights[0] == 1 && signbit(weights[1]));
    ck_assert_ptr_null(cadre_model_get(model, "weight", &count));
    ck_assert_uint_eq(count, 0);
    const double two[2] = {5, 6};
    ck_assert_int_eq(cadre_model_set(model, "weights", two, 2), 0);
    ck_assert(cadre_model_get(model, "weights", &count)[1] == 6 && count == 2);
    ck_assert_int_eq(cadre_model_set_text(model, "unit", "s"), 0);
    ck_assert_str_eq(cadre_model_get_text(model, "unit"), "s");
    ck_assert_ptr_null(cadre_model_get_text(model, "units"));
    ck_assert_uint_eq(cadre_model_metric_count(model), 3);
    ck_assert_str_eq(cadre_model_metric_name(model, 1), "error");
    ck_assert_ptr_null(cadre_model_metric_name(model, 3));
    ck_assert(cadre_model_metric(model, "rows") == 46087);
    ck_assert(isnan(cadre_model_metric(model, "nothing")));
    ck_assert_int_eq(cadre_model_set(model, "", two, 2), CADRE_EINPUT);
    ck_assert_int_eq(cadre_model_set(model, "__metadata__", two, 2), CADRE_EINPUT);
    ck_assert_int_eq(cadre_model_set(model, "x", NULL, 2), CADRE_EINPUT);
    ck_assert_int_eq(cadre_model_set(model, "x", two, SIZE_MAX / 4), CADRE_EINPUT);
    ck_assert_int_eq(cadre_model_set_text(model, "name", "x"), CADRE_EINPUT);
    ck_assert_int_eq(cadre_model_set_text(model, "metrics", "x"), CADRE_EINPUT);
    cadre_model_free(model);
}
END_TEST

static void check_equal_to_example(const cadre_model *model)
{
    size_t count;
    const double *weights = cadre_model_get(model, "weights", &count);
    ck_assert(count == 4 && weights[2] == 1e-310 && weights[3] == HUGE_VAL && signbit(weights[1]));
    ck_assert(cadre_model_get(model, "none", &count) && count == 0);
    ck_assert_str_eq(cadre_model_name(model), "UA/EWR");
    ck_assert_str_eq(cadre_model_get_text(model, "unit"), "d\xC3\xA9lai \"min\"");
    ck_assert_str_eq(cadre_model_metric_name(model, 0), "rows");
    ck_assert(cadre_model_metric(model, "error") == 0.1 + 0.2);
    ck_assert_uint_eq(cadre_model_metric_count(model), 3);
    ck_assert(isnan(cadre_model_metric(model, "bad")));
}

START_TEST(equal_models_give_equal_bytes)
{
    cadre_error error = {0};
    size_t length, other_length, again_length;
    cadre_model *model = example(false), *other = example(true);
    unsigned char *bytes = cadre_model_encode(model, &length, &error);
    unsigned char *other_bytes = cadre_model_encode(other, &other_length, &error);
    ck_assert(bytes && other_bytes && length == other_length &&
              !memcmp(bytes, other_bytes, length));
    uint64_t header;
    memcpy(&header, bytes, 8);
    ck_assert(header % 8 == 0 && length == 8 + header + 5 * sizeof(double));
    cadre_model *back = cadre_model_decode(bytes, length, &error);
    ck_assert_msg(back != NULL, "%s", error.message);
    check_equal_to_example(back);
    unsigned char *again = cadre_model_encode(back, &again_length, &error);
    ck_assert(again_length == length && !memcmp(again, bytes, length));
    free(again);
    free(bytes);
    free(other_bytes);
    cadre_model_free(model);
    cadre_model_free(other);
    cadre_model_free(back);

    model = cadre_model_new("caf\xE9");
    ck_assert_ptr_null(cadre_model_encode(model, &length, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    cadre_model_free(model);
}
END_TEST

static cadre_model *decode(const char *header, size_t data, cadre_error *error)
{
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + data);
    uint64_t stored = length;
    memcpy(bytes, &stored, 8);
    memcpy(bytes + 8, header, length);
    cadre_model *model = cadre_model_decode(bytes, 8 + length + data, error);
    free(bytes);
    return model;
}

START_TEST(malformed_files_are_refused)
{
    static const struct {
        const char *header;
        size_t data;
    } cases[] = {
        {"", 0},
        {"[]", 0},
        {"{", 0},
        {"{}", 8},
        {"{\"a\":1}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}", 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,16]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[-1],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1.0],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8,16]}}", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
         8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}",
         16},
        {"{\"\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8},
        {"{\"__metadata__\":[]}", 0},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":{\"metrics\":\"1\"}}", 0},
        {"{\"__metadata__\":{\"metrics\":\"{\\\"a\\\":\\\"b\\\"}\"}}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cadre_error error = {0};
        ck_assert_msg(!decode(cases[i].header, cases[i].data, &error), "case %zu is read", i);
        ck_assert_msg(error.code == CADRE_EFORMAT || error.code == CADRE_EINPUT, "case %zu: %d", i,
                      error.code);
        ck_assert_msg(*error.message, "case %zu", i);
    }
    cadre_error error = {0};
    cadre_model *model = decode("{\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                                "\"a\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[8,8]}}  ",
                                8, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    cadre_model_free(model);
    ck_assert_ptr_null(
        cadre_model_decode((const unsigned char *)"\x10\0\0\0\0\0\0\0{}", 10, &error));
    ck_assert_ptr_null(cadre_model_decode(
        (const unsigned char *)"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10, &error));
    ck_assert_ptr_null(cadre_model_decode((const unsigned char *)"\0\0\0", 3, &error));
}
END_TEST

/* Any change of any bytes: read or refused, never worse. Run with the sanitizers too. */
START_TEST(damaged_files)
{
    cadre_error error = {0};
    size_t length;
    cadre_model *model = example(false);
    unsigned char *bytes = cadre_model_encode(model, &length, &error);
    unsigned char *damaged = malloc(length);
    size_t refused = 0;
    for (int i = 0; i < 20000; i++) {
        memcpy(damaged, bytes, length);
        for (uint64_t n = helper_random() % 4; n < 4; n++)
            damaged[helper_random() % length] = (unsigned char)helper_random();
        size_t cut = i % 4 ? length : helper_random() % length;
        cadre_model *back = cadre_model_decode(damaged, cut, &error);
        refused += !back;
        cadre_model_free(back);
    }
    ck_assert(refused > 1000);
    free(damaged);
    free(bytes);
    cadre_model_free(model);
}
END_TEST

static size_t files_in(const char *folder)
{
    size_t count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(open);
    return count;
}

START_TEST(files)
{
    cadre_error error = {0};
    char path[256], folder[64];
    snprintf(folder, sizeof folder, "%s", helper_folder());
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    cadre_model *model = example(false);
    umask(022);
    ck_assert_int_eq(cadre_model_save(model, path, &error), 0);
    struct stat info;
    ck_assert(stat(path, &info) == 0 && (info.st_mode & 0777) == 0644);
    cadre_model *back = cadre_model_load(path, &error);
    ck_assert_msg(back != NULL, "%s", error.message);
    check_equal_to_example(back);
    cadre_model_free(back);
    ck_assert_uint_eq(files_in(folder), 1);
    ck_assert_int_eq(cadre_write_file(path, "half", 4, &error), 0);
    ck_assert_ptr_null(cadre_model_load(path, &error));
    ck_assert_int_eq(error.code, CADRE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    /* The name is taken by a folder: the error leaves nothing behind. */
    snprintf(path, sizeof path, "%s/taken", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(cadre_model_save(model, path, &error), CADRE_EFILE);
    ck_assert_uint_eq(files_in(folder), 2);
    ck_assert_ptr_null(cadre_model_load(path, &error));
    ck_assert_int_eq(error.code, CADRE_EFILE);
    rmdir(path);
    snprintf(path, sizeof path, "%s/no/such/folder", folder);
    ck_assert_int_eq(cadre_model_save(model, path, &error), CADRE_EFILE);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    ck_assert_ptr_null(cadre_model_load(path, &error));
    /* A name as long as the file system takes. */
    snprintf(path, sizeof path, "%s/%0*d", folder, 90, 0);
    ck_assert_int_eq(cadre_write_file(path, "", 0, &error), 0);
    ck_assert_int_eq(cadre_write_file("", "x", 1, &error), CADRE_EINPUT);
    cadre_model_free(model);
}
END_TEST

START_TEST(no_memory)
{
    cadre_error error = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/model", helper_folder());
    cadre_model *model = example(false), *back;
    int status;
    FAIL_EACH_ALLOCATION(status = cadre_model_save(model, path, &error), status < 0 && error.code,
                         status == 0)
    FAIL_EACH_ALLOCATION(error.code = 0;
                         back = cadre_model_load(path, &error), !back && error.code, back)
    check_equal_to_example(back);
    cadre_model_free(back);
    const double value = 1;
    FAIL_EACH_ALLOCATION(status = cadre_model_set(model, "fresh", &value, 1),
                         status == CADRE_EMEMORY && !cadre_model_get(model, "fresh", NULL),
                         status == 0)
    FAIL_EACH_ALLOCATION(status = cadre_model_set_text(model, "fresh", "x"),
                         status == CADRE_EMEMORY && !cadre_model_get_text(model, "fresh"),
                         status == 0)
    FAIL_EACH_ALLOCATION(status = cadre_model_set_metric(model, "fresh", 1),
                         status == CADRE_EMEMORY && cadre_model_metric_count(model) == 3,
                         status == 0)
    cadre_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, container);
    tcase_add_test(tests, equal_models_give_equal_bytes);
    tcase_add_test(tests, malformed_files_are_refused);
    tcase_add_test(tests, damaged_files);
    tcase_add_test(tests, files);
    tcase_add_test(tests, no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
