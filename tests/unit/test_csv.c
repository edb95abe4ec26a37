/* runtime/data: CSV to tables. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error_handler.h"
#include "data/csv.h"
#include "data/number.h"
#include "data_helper.h"
#include "failing_malloc.h"

static cadre_table *read_text(const char *text)
{
    cadre_error error = {0};
    cadre_table *table = helper_table(text, &error);
    ck_assert_msg(table != NULL, "%s", error.message);
    return table;
}

static const char *text_at(const cadre_table *table, size_t column, size_t row)
{
    const int32_t *texts = cadre_table_texts(table, column);
    ck_assert_ptr_nonnull(texts);
    return cadre_table_level(table, column, texts[row]);
}

START_TEST(types_and_missing_values)
{
    cadre_table *t = read_text("whole,real,text,none\n1,1.5,a,NA\n-20,NA,NA,\n,7,b,null\n");
    ck_assert_uint_eq(cadre_table_rows(t), 3);
    ck_assert_uint_eq(cadre_table_columns(t), 4);
    ck_assert_int_eq(cadre_table_type(t, 0), CADRE_INT64);
    ck_assert_int_eq(cadre_table_type(t, 1), CADRE_DOUBLE);
    ck_assert_int_eq(cadre_table_type(t, 2), CADRE_TEXT);
    ck_assert_int_eq(cadre_table_type(t, 3), CADRE_DOUBLE);
    const int64_t *whole = cadre_table_int64s(t, 0);
    ck_assert(whole[0] == 1 && whole[1] == -20 && whole[2] == CADRE_INT64_MISSING);
    const double *real = cadre_table_doubles(t, 1);
    ck_assert(real[0] == 1.5 && isnan(real[1]) && real[2] == 7);
    ck_assert_str_eq(text_at(t, 2, 0), "a");
    ck_assert_int_eq(cadre_table_texts(t, 2)[1], -1);
    ck_assert_str_eq(text_at(t, 2, 2), "b");
    ck_assert(isnan(cadre_table_doubles(t, 3)[2]));
    ck_assert_ptr_null(cadre_table_doubles(t, 0));
    ck_assert_int_eq(cadre_table_find(t, "text"), 2);
    ck_assert_int_eq(cadre_table_find(t, "nothing"), CADRE_ENOTFOUND);
    ck_assert(cadre_table_number(t, 0, 1) == -20 && isnan(cadre_table_number(t, 0, 2)));
    ck_assert(isnan(cadre_table_number(t, 2, 0)) && isnan(cadre_table_number(t, 0, 3)));
    cadre_table_free(t);
}
END_TEST

START_TEST(quotes)
{
    cadre_table *t = read_text("\"a \"\"b\"\"\",\"c\nd\"\n\"x,y\",\"line 1\nline 2\r\n\"\n"
                               "\"he said \"\"no\"\"\",\"\"\n\"\"\"\",\"NA\"\n");
    ck_assert_str_eq(cadre_table_name(t, 0), "a \"b\"");
    ck_assert_str_eq(cadre_table_name(t, 1), "c\nd");
    ck_assert_uint_eq(cadre_table_rows(t), 3);
    ck_assert_str_eq(text_at(t, 0, 0), "x,y");
    ck_assert_str_eq(text_at(t, 1, 0), "line 1\nline 2\r\n");
    ck_assert_str_eq(text_at(t, 0, 1), "he said \"no\"");
    ck_assert_str_eq(text_at(t, 0, 2), "\"");
    ck_assert_int_eq(cadre_table_texts(t, 1)[1], -1);
    ck_assert_int_eq(cadre_table_texts(t, 1)[2], -1);
    cadre_table_free(t);
    t = read_text("n,m\n\"12\", 13 \n+5,\t-6\n");
    ck_assert(cadre_table_int64s(t, 0)[0] == 12 && cadre_table_int64s(t, 0)[1] == 5);
    ck_assert(cadre_table_int64s(t, 1)[0] == 13 && cadre_table_int64s(t, 1)[1] == -6);
    cadre_table_free(t);
}
END_TEST

START_TEST(line_ends)
{
    static const char *const files[] = {"a,b\n1,x\n2,y\n",
                                        "a,b\n1,x\n2,y",
                                        "a,b\r\n1,x\r\n2,y\r\n",
                                        "a,b\r\n1,x\r\n2,y",
                                        "\xEF\xBB\xBF"
                                        "a,b\n1,x\n2,y",
                                        "\n\na,b\n\n1,x\n\r\n2,y\n\n",
                                        "a,b\r\n1,\"x\"\r\n2,y\r"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cadre_table *t = read_text(files[i]);
        ck_assert_str_eq(cadre_table_name(t, 0), "a");
        ck_assert_uint_eq(cadre_table_rows(t), 2);
        ck_assert(cadre_table_int64s(t, 0)[1] == 2);
        ck_assert_str_eq(text_at(t, 1, 0), "x");
        ck_assert_str_eq(text_at(t, 1, 1), "y");
        cadre_table_free(t);
    }
    cadre_table *t = read_text("a,,c\n");
    ck_assert_uint_eq(cadre_table_rows(t), 0);
    ck_assert_str_eq(cadre_table_name(t, 1), "column_2");
    cadre_table_free(t);
}
END_TEST

START_TEST(numbers_at_the_edges)
{
    cadre_table *t = read_text("a,b,c,d,e,f\n9223372036854775807,-9223372036854775808,"
                               "12345678901234567890,-0,1e3,0x10\n"
                               "-9223372036854775807,1,2,3,.5,1_000\n00012,1,2,3,5.,1e\n");
    const int64_t *a = cadre_table_int64s(t, 0);
    ck_assert(a && a[0] == INT64_MAX && a[1] == -INT64_MAX && a[2] == 12);
    ck_assert(cadre_table_doubles(t, 1)[0] == -9223372036854775808.0);
    ck_assert(cadre_table_doubles(t, 2)[0] == 12345678901234567890.0);
    ck_assert(cadre_table_doubles(t, 3)[0] == 0 && signbit(cadre_table_doubles(t, 3)[0]));
    const double *e = cadre_table_doubles(t, 4);
    ck_assert(e[0] == 1000 && e[1] == 0.5 && e[2] == 5);
    ck_assert_str_eq(text_at(t, 5, 0), "0x10");
    ck_assert_str_eq(text_at(t, 5, 2), "1e");
    cadre_table_free(t);
    t = read_text("a,b\ninf,-Infinity\n1e-400,5e-324\nnan,2\n");
    ck_assert(cadre_table_doubles(t, 0)[0] == HUGE_VAL && cadre_table_doubles(t, 0)[1] == 0);
    ck_assert(isnan(cadre_table_doubles(t, 0)[2]));
    ck_assert(cadre_table_doubles(t, 1)[0] == -HUGE_VAL && cadre_table_doubles(t, 1)[1] == 5e-324);
    cadre_table_free(t);
}
END_TEST

START_TEST(numbers_are_rounded_correctly)
{
    char text[128];
    for (int i = 0; i < 300000; i++) {
        uint64_t bits = helper_random();
        double any;
        memcpy(&any, &bits, sizeof any);
        if (!isfinite(any)) any = 1;
        memset(text, 0, sizeof text);
        switch (i % 6) {
        case 0: snprintf(text, 64, "%.*g", 1 + i % 19, any); break;
        case 1: snprintf(text, 64, "%.17g", helper_uniform() * 1e4); break;
        case 2: snprintf(text, 64, "%" PRIu64 "e%d", bits >> i % 64, i % 61 - 30); break;
        case 3:
            snprintf(text, 64, "-%" PRIu64 ".%05de%d", bits >> i % 64, i % 99991, i % 19);
            break;
        case 4: snprintf(text, 64, "000%.*f", i % 25, fabs(helper_uniform())); break;
        /* half between two doubles, and one to either side */
        case 5:
            snprintf(text, 64, "%" PRIu64 "e0",
                     (uint64_t)((bits >> 2 | 1ull << 61) >> 9 << 9 | (256u + (unsigned)i % 3 - 1)));
        }
        number found;
        const char *end = cadre_number_scan(text, &found);
        double want = strtod(text, NULL);
        double value = found.kind == NUMBER_WHOLE ? (double)found.integer : found.real;
        ck_assert_msg(found.kind != NUMBER_NONE && !*end, "%s is not read whole", text);
        if (found.kind == NUMBER_TOO_LARGE) continue;
        ck_assert_msg(!memcmp(&value, &want, sizeof want), "%s: %.17g, not %.17g", text, value,
                      want);
    }
}
END_TEST

/* Types that only show late: after blocks were written out. */
START_TEST(types_found_late)
{
    cadre_buffer file = {0};
    const int rows = 5000;
    cadre_buffer_puts(&file, "real,text,late,empty\n");
    for (int i = 0; i < rows; i++) {
        cadre_buffer_printf(&file, i == 4000 ? "0.25," : "%d,", i);
        cadre_buffer_printf(&file, i == 3000 ? "end," : "%03d,", i % 50);
        cadre_buffer_puts(&file, i < 2000 ? "," : i == 2000 ? "first," : "NA,");
        cadre_buffer_puts(&file, "\n");
    }
    cadre_error error;
    cadre_table *t = cadre_read_csv_with(helper_file(file.data, file.length), NULL, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    for (int i = 0; i < rows; i++) {
        char want[16];
        snprintf(want, sizeof want, i == 3000 ? "end" : "%03d", i % 50);
        ck_assert(cadre_table_doubles(t, 0)[i] == (i == 4000 ? 0.25 : i));
        ck_assert_str_eq(text_at(t, 1, (size_t)i), want);
        ck_assert_int_eq(cadre_table_texts(t, 2)[i], i == 2000 ? 0 : -1);
    }
    ck_assert_uint_eq(cadre_table_levels(t, 1), 51);
    ck_assert_str_eq(text_at(t, 2, 2000), "first");
    ck_assert_int_eq(cadre_table_type(t, 3), CADRE_DOUBLE);
    cadre_table_free(t);
    cadre_buffer_free(&file);
}
END_TEST

/* Random fields against what was written; three windows, rows cut anywhere. */
START_TEST(any_fields_across_windows)
{
    static const char *const pieces[] = {"a", "\"", ",",  "\n",         "\xC3\xA9",
                                         " ", "7",  "\t", "longer text"};
    enum { ROWS = 120000, COLUMNS = 4 };
    char(*want)[40] = calloc(ROWS * COLUMNS, sizeof *want);
    cadre_buffer file = {0};
    cadre_buffer_puts(&file, "a,b,c,d\r\n");
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        char *text = want[i];
        size_t length = (size_t)snprintf(text, sizeof *want, "x");
        for (uint64_t n = helper_random() % 4; n; n--)
            length += (size_t)snprintf(text + length, sizeof *want - length, "%s",
                                       pieces[helper_random() % 9]);
        bool quote = strpbrk(text, "\",\n") || helper_random() % 4 == 0;
        if (quote) cadre_buffer_puts(&file, "\"");
        for (const char *at = text; *at; at++)
            cadre_buffer_printf(&file, *at == '"' ? "\"\"" : "%c", *at);
        cadre_buffer_puts(&file, quote ? "\"" : "");
        cadre_buffer_puts(&file, i % COLUMNS < COLUMNS - 1 ? "," : i % 3 ? "\n" : "\r\n");
    }
    ck_assert(file.length > 2 * CSV_WINDOW);
    cadre_error error;
    cadre_table *t = cadre_read_csv_with(helper_file(file.data, file.length), NULL, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    ck_assert_uint_eq(cadre_table_rows(t), ROWS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        ck_assert_str_eq(text_at(t, (size_t)i % COLUMNS, (size_t)i / COLUMNS), want[i]);
    cadre_table_free(t);
    cadre_buffer_free(&file);
    free(want);
}
END_TEST

START_TEST(a_row_longer_than_the_window)
{
    cadre_buffer file = {0};
    cadre_buffer_puts(&file, "a,b\n1,\"");
    for (size_t i = 0; i < 5 * CSV_WINDOW / 2; i += 8)
        cadre_buffer_puts(&file, "1234567\n");
    cadre_buffer_puts(&file, "\"\n2,x\n3\n");
    cadre_error error;
    const char *path = helper_file(file.data, file.length);
    ck_assert_ptr_null(cadre_read_csv_with(path, NULL, &error));
    ck_assert_int_eq(error.line, (long)(5 * CSV_WINDOW / 16) + 4);
    cadre_table *t = cadre_read_csv_with(helper_file(file.data, file.length - 2), NULL, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    ck_assert_uint_eq(strlen(text_at(t, 1, 0)), 5 * CSV_WINDOW / 2);
    ck_assert_str_eq(text_at(t, 1, 1), "x");
    cadre_table_free(t);
    cadre_buffer_free(&file);
}
END_TEST

START_TEST(bad_files_are_refused_with_their_place)
{
    static const struct {
        const char *bytes;
        size_t length; /* 0: that of the text */
        long line, column;
        const char *says;
    } cases[] = {
        {"", 0, 1, 1, "empty"},
        {"\n\r\n", 0, 1, 1, "empty"},
        {"\xEF\xBB\xBF", 0, 1, 1, "empty"},
        {"a,b,c\n1,2,3\n1,2\n", 0, 3, 4, "has 2 fields, the header has 3"},
        {"a,b,c\n1,2,3,4\n", 0, 2, 7, "has 4 fields, the header has 3"},
        {"a,b,c\n1,2,3,,\n", 0, 2, 7, "has 5 fields, the header has 3"},
        {"a,b\n1,2\n\n3", 0, 4, 2, "has 1 field, the header has 2"},
        {"a,b\n\"x\ny\",1\nz\n", 0, 4, 2, "has 1 field"},
        {"a,b\nx\0y,1\n", 10, 2, 2, "NUL"},
        {"a,b\n1,\"x\0y\"\n", 12, 2, 5, "NUL"},
        {"a\0,b\n", 5, 1, 2, "NUL"},
        {"a,b\n1,2\0\n", 9, 2, 4, "NUL"},
        {"a,b,a\n1,2,3\n", 0, 1, 5, "two columns have the name 'a'"},
        {"a,b\n1,\"two\n3,4\n", 0, 2, 3, "not closed"},
        {"a,\"b\n", 0, 1, 3, "not closed"},
        {"a,b\n1,\"x\"y\n", 0, 2, 6, "after a closing quote"},
        {"a,b\n1,x\ry\n", 0, 2, 4, "carriage return"},
        {"a,b\n1,1e400\n", 0, 2, 3, "too large"},
        {"a,b\n1,caf\xE9\n", 0, 2, 3, "not UTF-8"},
        {"a,b\n1,\xC0\x80\n", 0, 2, 3, "not UTF-8"},
        {"a,b\n1,\xED\xA0\x80\n", 0, 2, 3, "not UTF-8"},
        {"\xFF\xFE"
         "a\0,\0",
         6, 1, 1, "UTF-16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cadre_error error;
        size_t length = cases[i].length ? cases[i].length : strlen(cases[i].bytes);
        const char *path = helper_file(cases[i].bytes, length);
        ck_assert_msg(!cadre_read_csv_with(path, NULL, &error), "case %zu is read", i);
        ck_assert_int_eq(error.code, CADRE_EFORMAT);
        ck_assert_msg(error.line == cases[i].line && error.column == cases[i].column,
                      "case %zu: %s", i, error.message);
        ck_assert_msg(strstr(error.message, cases[i].says) && strstr(error.message, path),
                      "case %zu: %s", i, error.message);
        ck_assert_str_eq(error.file, path);
    }
}
END_TEST

static void expect_file_error(const char *path, const char *says)
{
    cadre_error error;
    ck_assert_ptr_null(cadre_read_csv_with(path, NULL, &error));
    ck_assert_int_eq(error.code, CADRE_EFILE);
    ck_assert_msg(strstr(error.message, says) && strstr(error.message, path), "%s", error.message);
}

START_TEST(files_that_cannot_be_read)
{
    char path[128];
    snprintf(path, sizeof path, "%s/nothing.csv", helper_folder());
    expect_file_error(path, "No such file");
    expect_file_error(helper_folder(), "folder");
    snprintf(path, sizeof path, "%s", helper_file("a\n1\n", 4));
    ck_assert_int_eq(chmod(path, 0), 0);
    chmod(helper_folder(), 0755);
    if (getuid() == 0) ck_assert_int_eq(seteuid(65534), 0);
    expect_file_error(path, "Permission denied");
    if (getuid() == 0) ck_assert_int_eq(seteuid(0), 0);
    cadre_error error;
    ck_assert_ptr_null(cadre_read_csv_with(NULL, NULL, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    cadre_set_error_handler(cadre_error_ignore);
    snprintf(path, sizeof path, "%s/nothing.csv", helper_folder());
    ck_assert_ptr_null(cadre_read_csv(path));
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "nothing.csv"));
}
END_TEST

START_TEST(a_pipe)
{
    char path[128];
    snprintf(path, sizeof path, "%s/pipe", helper_folder());
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    pid_t writer = fork();
    if (writer == 0) {
        FILE *file = fopen(path, "we");
        for (int i = 0; file && i < 200000; i++)
            fprintf(file, i ? "%d,text\n" : "a,b\n", i);
        _exit(file && fclose(file) == 0 ? 0 : 1);
    }
    cadre_error error;
    cadre_table *t = cadre_read_csv_with(path, NULL, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    ck_assert_uint_eq(cadre_table_rows(t), 199999);
    ck_assert(cadre_table_int64s(t, 0)[199998] == 199999);
    waitpid(writer, NULL, 0);
    cadre_table_free(t);
}
END_TEST

START_TEST(delimiters_and_wanted_types)
{
    cadre_error error;
    const char *text = "zip;n\n00501;1\n10001;-\n";
    char path[96];
    snprintf(path, sizeof path, "%s", helper_file(text, strlen(text)));
    cadre_csv_options options = {.delimiter = ';',
                                 .missing = (const char *const[]){"-", NULL},
                                 .text_columns = (const char *const[]){"zip", NULL},
                                 .number_columns = (const char *const[]){"n", NULL}};
    cadre_table *t = cadre_read_csv_with(path, &options, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    ck_assert_str_eq(text_at(t, 0, 0), "00501");
    ck_assert(cadre_table_int64s(t, 1)[1] == CADRE_INT64_MISSING);
    cadre_table_free(t);

    options.missing = NULL;
    ck_assert_ptr_null(cadre_read_csv_with(path, &options, &error));
    ck_assert(error.line == 3 && error.column == 7);
    ck_assert_ptr_nonnull(strstr(error.message, "column 'n' must hold numbers; '-' is none"));

    options = (cadre_csv_options){.delimiter = ';', .text_columns = (const char *const[]){"x", 0}};
    ck_assert_ptr_null(cadre_read_csv_with(path, &options, &error));
    ck_assert_int_eq(error.code, CADRE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "'x'"));
    ck_assert_ptr_nonnull(strstr(error.message, "zip, n"));

    options.text_columns = options.number_columns = (const char *const[]){"n", NULL};
    ck_assert_ptr_null(cadre_read_csv_with(path, &options, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    for (const char *bad = "\"\n\r.+-e5Z\x01\x80"; *bad; bad++) {
        options = (cadre_csv_options){.delimiter = *bad};
        ck_assert_ptr_null(cadre_read_csv_with(path, &options, &error));
        ck_assert_int_eq(error.code, CADRE_EINPUT);
    }
    t = read_text("a\tb\n1\t2\n");
    ck_assert_uint_eq(cadre_table_columns(t), 1);
    cadre_table_free(t);
    options = (cadre_csv_options){.delimiter = '\t'};
    t = cadre_read_csv_with(helper_file("a\tb\nx y\tz\n", 10), &options, &error);
    ck_assert_uint_eq(cadre_table_columns(t), 2);
    ck_assert_str_eq(text_at(t, 0, 0), "x y");
    cadre_table_free(t);
}
END_TEST

START_TEST(wide_files)
{
    cadre_buffer file = {0};
    const int columns = 5000, rows = 40;
    for (int row = -1; row < rows; row++)
        for (int i = 0; i < columns; i++)
            cadre_buffer_printf(&file, row < 0 ? "c%d%c" : "%d%c", row < 0 ? i : row * i,
                                i + 1 < columns ? ',' : '\n');
    cadre_error error;
    cadre_table *t = cadre_read_csv_with(helper_file(file.data, file.length), NULL, &error);
    ck_assert_msg(t != NULL, "%s", error.message);
    for (int i = 0; i < columns; i++)
        ck_assert(cadre_table_int64s(t, (size_t)i)[rows - 1] == (rows - 1) * i);
    cadre_table_free(t);
    cadre_buffer_clear(&file);
    for (int i = 0; i <= CSV_COLUMN_LIMIT; i++)
        cadre_buffer_printf(&file, "%d,", i);
    ck_assert_ptr_null(cadre_read_csv_with(helper_file(file.data, file.length), NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "more than 65536 columns"));
    cadre_buffer_free(&file);
}
END_TEST

/* What /proc/self/smaps says of the mapping of an address: its permissions, its private pages. */
static long private_kilobytes(const void *address, char permissions[5])
{
    char line[512];
    bool within = false;
    long sum = 0;
    FILE *maps = fopen("/proc/self/smaps", "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        long kilobytes;
        char flags[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, flags) == 3) {
            within = (uintptr_t)address >= start && (uintptr_t)address < end;
            if (within) strcpy(permissions, flags);
        } else if (within && sscanf(line, "Private_%*5s %ld", &kilobytes) == 1) {
            sum += kilobytes;
        }
    }
    fclose(maps);
    return sum;
}

/* Processes share a column's pages, and nobody can write to it: a small and a large table. */
START_TEST(columns_are_shared_and_read_only)
{
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, "a\n1\n");
    for (int i = 0; _i && i < 1 << 20; i++)
        cadre_buffer_puts(&text, "2\n");
    cadre_table *t = read_text(text.data);
    cadre_buffer_free(&text);
    const int64_t *column = cadre_table_int64s(t, 0);
    int told[2];
    ck_assert(pipe(told) == 0);
    pid_t child = fork();
    if (child == 0) {
        char permissions[5] = "";
        int64_t sum = 0;
        for (size_t i = 0; i < cadre_table_rows(t); i++)
            sum += column[i];
        long kilobytes = private_kilobytes(column, permissions);
        dprintf(told[1], "%s %ld %" PRId64, permissions, kilobytes, sum);
        signal(SIGSEGV, SIG_DFL);
        *(volatile int64_t *)(uintptr_t)column = 7;
        _exit(0);
    }
    char line[100] = "", permissions[5] = "";
    long kilobytes = -1;
    ck_assert(read(told[0], line, sizeof line - 1) > 0);
    ck_assert_int_eq(sscanf(line, "%4s %ld", permissions, &kilobytes), 2);
    ck_assert_msg(permissions[0] == 'r' && permissions[1] == '-', "%s", line);
    ck_assert_msg(kilobytes == 0, "%s", line);
    close(told[0]);
    close(told[1]);
    int status;
    waitpid(child, &status, 0);
    ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    ck_assert(column[0] == 1);
    cadre_table_free(t);
}
END_TEST

START_TEST(no_memory)
{
    const char *text = "a,b,c,d\n1,x,1.5,\"q\"\"\"\n2,y,2,\"r\"\nz,z,3,\"s\n\"\n,,,\n";
    char path[96];
    snprintf(path, sizeof path, "%s", helper_file(text, strlen(text)));
    cadre_csv_options options = {.text_columns = (const char *const[]){"d", NULL}};
    cadre_error error;
    cadre_table *table;
    FAIL_EACH_ALLOCATION(table = cadre_read_csv_with(path, &options, &error),
                         !table && error.code == CADRE_EMEMORY && *error.message,
                         table && cadre_table_rows(table) == 4)
    ck_assert_str_eq(text_at(table, 0, 2), "z");
    cadre_table_free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("csv");
    TCase *tests = tcase_create("csv");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, types_and_missing_values);
    tcase_add_test(tests, quotes);
    tcase_add_test(tests, line_ends);
    tcase_add_test(tests, numbers_at_the_edges);
    tcase_add_test(tests, numbers_are_rounded_correctly);
    tcase_add_test(tests, types_found_late);
    tcase_add_test(tests, any_fields_across_windows);
    tcase_add_test(tests, a_row_longer_than_the_window);
    tcase_add_test(tests, bad_files_are_refused_with_their_place);
    tcase_add_test(tests, files_that_cannot_be_read);
    tcase_add_test(tests, a_pipe);
    tcase_add_test(tests, delimiters_and_wanted_types);
    tcase_add_test(tests, wide_files);
    tcase_add_loop_test(tests, columns_are_shared_and_read_only, 0, 2);
    tcase_add_test(tests, no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
