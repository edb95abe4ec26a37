/* kernel/session: the parts that need no client: streams, history, parameters, jobs. */
#include "session/history.h"
#include "session/parameters.h"
#include "session/streams.h"
#include "session/worker.h"

#include <check.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- streams: what was published, as "o:text|e:text|" */

static cadre_buffer published;

static void note(void *context, stream_name name, const char *text, size_t length)
{
    (void)context;
    cadre_buffer_puts(&published, name == STREAM_STDOUT ? "o:" : "e:");
    cadre_buffer_append(&published, text, length);
    cadre_buffer_puts(&published, "|");
}

static void expect(const char *wanted)
{
    ck_assert_str_eq(published.length ? published.data : "", wanted);
    cadre_buffer_clear(&published);
}

#define BAD "\xef\xbf\xbd"

START_TEST(first_bytes_go_at_once_and_later_ones_together)
{
    streams s;
    streams_init(&s, note, NULL);
    streams_add(&s, STREAM_STDOUT, "a", 1, 1000);
    expect("o:a|");
    streams_add(&s, STREAM_STDOUT, "b", 1, 1001);
    streams_add(&s, STREAM_STDOUT, "c", 1, 1005);
    expect("");
    ck_assert_int_eq(streams_timeout(&s, 1005), 15);
    streams_tick(&s, 1019);
    expect("");
    ck_assert_int_eq(streams_timeout(&s, 1020), 0);
    streams_tick(&s, 1020);
    expect("o:bc|");
    ck_assert_int_eq(streams_timeout(&s, 1020), -1);
    streams_finish(&s, 1021);
    expect("");
    streams_free(&s);
}
END_TEST

START_TEST(order_of_the_two_streams_is_kept)
{
    streams s;
    streams_init(&s, note, NULL);
    streams_add(&s, STREAM_STDOUT, "1", 1, 1000);
    expect("o:1|");
    streams_add(&s, STREAM_STDOUT, "2", 1, 1001);
    streams_add(&s, STREAM_STDERR, "3", 1, 1002);
    streams_add(&s, STREAM_STDERR, "4", 1, 1003);
    streams_add(&s, STREAM_STDOUT, "5\n", 2, 1004);
    streams_finish(&s, 1004);
    expect("o:2|e:34|o:5\\n|");
    streams_free(&s);
}
END_TEST

/* Any cut of the bytes gives the same text. */
START_TEST(cut_sequences_are_joined)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xf0\x9f\x98x\xe2\x82";
    static const char wanted[] = "aé€😀" BAD BAD "x" BAD;
    size_t length = sizeof text - 1;
    for (size_t size = 1; size <= length; size++) {
        streams s;
        cadre_buffer all = {0};
        streams_init(&s, note, NULL);
        for (size_t at = 0; at < length; at += size)
            streams_add(&s, STREAM_STDOUT, text + at, length - at < size ? length - at : size,
                        1000);
        streams_finish(&s, 1000);
        for (char *p = published.data; p && *p; p += 3) {
            char *end = strchr(p, '|');
            cadre_buffer_append(&all, p + 2, (size_t)(end - p) - 2);
            p = end - 2;
        }
        ck_assert_str_eq(all.data, wanted);
        cadre_buffer_clear(&published);
        cadre_buffer_free(&all);
        streams_free(&s);
    }
}
END_TEST

START_TEST(a_begun_sequence_waits_for_its_own_stream)
{
    streams s;
    streams_init(&s, note, NULL);
    streams_add(&s, STREAM_STDOUT, "\xc3", 1, 1000);
    streams_add(&s, STREAM_STDERR, "!", 1, 1000);
    streams_add(&s, STREAM_STDOUT, "\xa9", 1, 1000);
    streams_finish(&s, 1000);
    expect("e:!|o:é|");
    streams_add(&s, STREAM_STDERR, "\xc3", 1, 1000);
    streams_finish(&s, 1000);
    expect("e:" BAD "|");
    streams_free(&s);
}
END_TEST

START_TEST(messages_are_bounded)
{
    size_t length = 3 * STREAMS_LIMIT + 5;
    char *text = malloc(length);
    streams s;
    memset(text, 'x', length);
    streams_init(&s, note, NULL);
    streams_add(&s, STREAM_STDOUT, text, length, 1000);
    streams_finish(&s, 1000);
    int count = 0;
    for (char *p = published.data; (p = strchr(p, '|')); p++)
        count++;
    ck_assert_int_ge(count, 4);
    ck_assert_uint_eq(published.length, length + 3 * (size_t)count);
    cadre_buffer_clear(&published);
    streams_free(&s);
    free(text);
}
END_TEST

/* ---- history */

static char history_folder[64], history_path[160];

static void begin_folder(void)
{
    snprintf(history_folder, sizeof history_folder, "/tmp/cadre-history-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(history_folder));
    snprintf(history_path, sizeof history_path, "%s/made/history.sqlite", history_folder);
}

static int entries(const char *name)
{
    DIR *list = opendir(name);
    int count = 0;
    for (struct dirent *e; list && (e = readdir(list));)
        if (e->d_name[0] != '.') count++;
    if (list) closedir(list);
    return count;
}

static void end_folder(void)
{
    char made[100], name[400];
    snprintf(made, sizeof made, "%s/made", history_folder);
    DIR *list = opendir(made);
    for (struct dirent *e; list && (e = readdir(list));) {
        snprintf(name, sizeof name, "%s/%s", made, e->d_name);
        if (e->d_name[0] != '.') unlink(name);
    }
    if (list) closedir(list);
    rmdir(made);
    ck_assert_int_eq(rmdir(history_folder), 0);
}

static int add(history *h, int line, const char *input, const char *output, cadre_error *error)
{
    history_item value = {.line = line, .is_output = true, .text = (char *)output};
    history_item item = {.line = line, .text = (char *)input, .length = strlen(input)};
    if (output) {
        value.length = strlen(output);
        item.next = &value;
    }
    return history_write(h, &item, error);
}

static void ask(history *h, const char *request, const char *wanted)
{
    json_t *content = json_loads(request, 0, NULL);
    json_t *answer = history_answer(h, content, NULL);
    char *got = json_dumps(json_object_get(answer, "history"), JSON_COMPACT);
    ck_assert_str_eq(got, wanted);
    free(got);
    json_decref(answer);
    json_decref(content);
}

START_TEST(history_is_searched)
{
    history *h = history_new("");
    ask(h, "{\"hist_access_type\":\"tail\",\"n\":3}", "[]");
    ck_assert_int_eq(add(h, 1, "int a;", NULL, NULL), 0);
    ck_assert_int_eq(add(h, 2, "a + 1", "42", NULL), 0);
    ck_assert_int_eq(add(h, 3, "int a;", NULL, NULL), 0);
    ask(h, "{\"hist_access_type\":\"tail\",\"n\":2}", "[[1,2,\"a + 1\"],[1,3,\"int a;\"]]");
    ask(h, "{\"hist_access_type\":\"tail\",\"n\":9,\"output\":true}",
        "[[1,1,[\"int a;\",null]],[1,2,[\"a + 1\",\"42\"]],[1,3,[\"int a;\",null]]]");
    ask(h, "{\"hist_access_type\":\"range\",\"session\":1,\"start\":2,\"stop\":3}",
        "[[1,2,\"a + 1\"]]");
    ask(h, "{\"hist_access_type\":\"range\",\"session\":0,\"start\":3}", "[[1,3,\"int a;\"]]");
    ask(h, "{\"hist_access_type\":\"range\",\"session\":7}", "[]");
    ask(h, "{\"hist_access_type\":\"search\",\"pattern\":\"int*\"}",
        "[[1,1,\"int a;\"],[1,3,\"int a;\"]]");
    ask(h, "{\"hist_access_type\":\"search\",\"pattern\":\"*a*\",\"unique\":true}",
        "[[1,2,\"a + 1\"],[1,3,\"int a;\"]]");
    ask(h, "{\"hist_access_type\":\"search\",\"pattern\":\"*a*\",\"n\":1}", "[[1,3,\"int a;\"]]");
    ask(h, "{\"hist_access_type\":\"search\",\"pattern\":\"[i]*' OR 1\"}", "[]");
    ask(h, "{\"hist_access_type\":\"nonsense\",\"n\":1}", "[]");
    ask(h, "{\"hist_access_type\":\"tail\",\"n\":-1}", "[]");
    ask(h, "{\"hist_access_type\":7,\"n\":null,\"pattern\":5}", "[]");
    history_free(h);
}
END_TEST

START_TEST(history_outlives_its_session)
{
    struct stat found;
    begin_folder();
    history *first = history_new(history_path), *second = history_new(history_path);
    ck_assert_int_eq(add(first, 1, "int a;", NULL, NULL), 0);
    ck_assert_int_eq(stat(history_path, &found), 0);
    ck_assert_int_eq(found.st_mode & 0777, 0600);
    *strrchr(history_path, '/') = 0;
    ck_assert_int_eq(stat(history_path, &found), 0);
    ck_assert_int_eq(found.st_mode & 0777, 0700);
    history_path[strlen(history_path)] = '/';
    /* A session that has run nothing yet: the one before is -1, its own is empty. */
    ask(second, "{\"hist_access_type\":\"range\",\"session\":-1}", "[[1,1,\"int a;\"]]");
    ask(second, "{\"hist_access_type\":\"range\"}", "[]");
    /* Two at once. */
    ck_assert_int_eq(add(second, 1, "int b;", NULL, NULL), 0);
    ck_assert_int_eq(add(first, 2, "a", "0", NULL), 0);
    ask(second, "{\"hist_access_type\":\"tail\"}",
        "[[1,1,\"int a;\"],[1,2,\"a\"],[2,1,\"int b;\"]]");
    ask(first, "{\"hist_access_type\":\"range\"}", "[[1,1,\"int a;\"],[1,2,\"a\"]]");
    ask(second, "{\"hist_access_type\":\"range\",\"session\":-1,\"output\":true,\"start\":2}",
        "[[1,2,[\"a\",\"0\"]]]");
    ask(second, "{\"hist_access_type\":\"range\",\"session\":-9}", "[]");
    history_free(first);
    history_free(second);
    end_folder();
}
END_TEST

static void *write_many(void *argument)
{
    int *failed = argument;
    history *h = history_new(history_path);
    for (int i = 1; i <= 30; i++)
        *failed += add(h, i, "x", "1", NULL) < 0;
    history_free(h);
    return NULL;
}

START_TEST(many_kernels_write_one_history)
{
    enum { KERNELS = 6 };
    pthread_t threads[KERNELS];
    int failed[KERNELS] = {0};
    begin_folder();
    for (int i = 0; i < KERNELS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, &failed[i]), 0);
    for (int i = 0; i < KERNELS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(failed[i], 0);
    }
    history *h = history_new(history_path);
    json_t *request = json_pack("{sssi}", "hist_access_type", "tail", "n", 1000);
    json_t *answer = history_answer(h, request, NULL);
    ck_assert_int_eq(json_array_size(json_object_get(answer, "history")), KERNELS * 30);
    json_decref(answer);
    json_decref(request);
    history_free(h);
    end_folder();
}
END_TEST

/* Bytes of the file from `from` on become 0x5a. */
static void damage(long from)
{
    FILE *file = fopen(history_path, "r+e");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    fseek(file, from, SEEK_SET);
    for (long i = from; i < end; i++)
        fputc(0x5a, file);
    fclose(file);
}

START_TEST(a_damaged_history_is_set_aside)
{
    static const long from[] = {0, 100, 4096};
    cadre_error error = {0};
    begin_folder();
    history *h = history_new(history_path);
    ck_assert_int_eq(add(h, 1, "int a;", NULL, NULL), 0);
    history_free(h);
    damage(from[_i]);
    h = history_new(history_path);
    ck_assert_int_eq(add(h, 1, "int b;", NULL, &error), CADRE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, ".damaged-"));
    ck_assert_int_eq(add(h, 2, "int c;", NULL, &error), 0);
    ask(h, "{\"hist_access_type\":\"tail\"}", "[[1,1,\"int b;\"],[1,2,\"int c;\"]]");
    history_free(h);
    *strrchr(history_path, '/') = 0;
    ck_assert_int_eq(entries(history_path), 2);
    end_folder();
}
END_TEST

START_TEST(a_damaged_history_is_set_aside_by_one_kernel_only)
{
    cadre_error error = {0};
    begin_folder();
    history *first = history_new(history_path), *second = history_new(history_path);
    ck_assert_int_eq(add(first, 1, "int a;", NULL, NULL), 0);
    ck_assert_int_eq(add(second, 1, "int b;", NULL, NULL), 0);
    damage(0);
    ck_assert_int_eq(add(first, 2, "int c;", NULL, &error), CADRE_EFORMAT);
    ck_assert_int_eq(add(second, 2, "int d;", NULL, &error), 0);
    ask(first, "{\"hist_access_type\":\"tail\"}", "[[1,2,\"int c;\"],[2,2,\"int d;\"]]");
    history_free(first);
    history_free(second);
    *strrchr(history_path, '/') = 0;
    ck_assert_int_eq(entries(history_path), 2);
    end_folder();
}
END_TEST

START_TEST(a_history_without_a_file_is_kept_in_memory)
{
    static const char *const paths[] = {"/proc/none/history.sqlite", "/dev/null/history.sqlite",
                                        "/dev/null", "relative.sqlite", "/tmp"};
    cadre_error error = {0};
    history *h = history_new(paths[_i]);
    ck_assert_int_eq(add(h, 1, "int a;", NULL, &error), CADRE_EFILE);
    ck_assert_ptr_nonnull(strstr(error.message, paths[_i]));
    ck_assert_int_eq(add(h, 2, "int b;", NULL, &error), 0);
    ask(h, "{\"hist_access_type\":\"tail\"}", "[[1,1,\"int a;\"],[1,2,\"int b;\"]]");
    history_free(h);
}
END_TEST

START_TEST(a_history_that_another_holds_is_not_waited_for_long)
{
    sqlite3 *other;
    cadre_error error = {0};
    begin_folder();
    history *h = history_new(history_path);
    ck_assert_int_eq(add(h, 1, "int a;", NULL, NULL), 0);
    ck_assert_int_eq(sqlite3_open(history_path, &other), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    history_hurry(h);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ck_assert_int_eq(add(h, 2, "int b;", NULL, &error), CADRE_EFILE);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_int_le(end.tv_sec - begin.tv_sec, 2);
    sqlite3_close(other);
    ck_assert_int_eq(add(h, 3, "int c;", NULL, &error), 0);
    ask(h, "{\"hist_access_type\":\"tail\"}", "[[1,1,\"int a;\"],[1,3,\"int c;\"]]");
    history_free(h);
    end_folder();
}
END_TEST

START_TEST(patterns)
{
    ck_assert(history_matches("*", ""));
    ck_assert(history_matches("a*b?d", "axxbbcd"));
    ck_assert(history_matches("a?c", "abc"));
    ck_assert(!history_matches("abc", "abcd"));
    ck_assert(!history_matches("", "a"));
    ck_assert(!history_matches("a?", "a"));
    ck_assert(!history_matches("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
END_TEST

START_TEST(history_is_bounded)
{
    history *h = history_new("");
    size_t length = 8 << 20;
    char *text = calloc(1, length + 1);
    memset(text, 'x', length);
    for (int i = 1; i <= 20; i++)
        add(h, i, text, NULL, NULL);
    json_t *content = json_pack("{sssi}", "hist_access_type", "tail", "n", 100);
    json_t *answer = history_answer(h, content, NULL), *list = json_object_get(answer, "history");
    size_t count = json_array_size(list);
    ck_assert(count >= 1 && count <= 8);
    ck_assert_int_eq(json_integer_value(json_array_get(json_array_get(list, count - 1), 1)), 20);
    json_decref(answer);
    json_decref(content);
    free(text);
    history_free(h);
}
END_TEST

/* ---- parameters */

static json_t *json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_msg(value != NULL, "%s", text);
    return value;
}

static void is(json_t *got, const char *wanted)
{
    char *text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
    ck_assert_str_eq(text, wanted);
    free(text);
    json_decref(got);
}

static void request_with(parameters *p, const char *metadata)
{
    cadre_error error = {0};
    json_t *value = json(metadata);
    ck_assert_int_eq(parameters_request(p, value, &error), 0);
    json_decref(value);
}

static void unchanged(parameters *p, const char *wanted)
{
    json_t *merged = parameters_merged(p);
    is(parameters_unchanged(p, merged), wanted);
    json_decref(merged);
}

static void used(parameters *p, const char *names, uint64_t generation)
{
    json_t *merged = parameters_merged(p), *flags = json(names);
    parameters_used(p, merged, flags, generation);
    json_decref(merged);
    json_decref(flags);
}

START_TEST(later_channels_win_and_values_are_applied_once)
{
    char folder[] = "/tmp/cadre-session-XXXXXX", path[100];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/kernel.json", folder);
    FILE *file = fopen(path, "w");
    fputs("{\"metadata\":{\"parameters\":{\"cpu_count\":1,\"slice\":\"all\",\"spec\":1}}}", file);
    fclose(file);
    parameters p;
    ck_assert_int_eq(parameters_init(&p, folder, "{\"cpu_count\":2,\"slice\":\"north\"}"), 0);
    ck_assert_ptr_null(p.problem);
    is(parameters_merged(&p), "{\"cpu_count\":2,\"slice\":\"north\",\"spec\":1}");
    request_with(&p, "{\"tags\":[],\"cadre\":{\"parameters\":{\"cpu_count\":4}}}");
    is(parameters_merged(&p), "{\"cpu_count\":4,\"slice\":\"north\",\"spec\":1}");
    unchanged(&p, "{}");
    used(&p, "{\"cpu_count\":true}", 1);
    unchanged(&p, "{\"cpu_count\":true}");
    /* The same again, or nothing: applied is applied, and the environment does not come back. */
    request_with(&p, "{\"cadre\":{\"parameters\":{\"cpu_count\":4}}}");
    unchanged(&p, "{\"cpu_count\":true}");
    request_with(&p, "{}");
    unchanged(&p, "{\"cpu_count\":true}");
    request_with(&p, "{\"cadre\":{\"parameters\":{\"cpu_count\":5}}}");
    unchanged(&p, "{}");
    used(&p, "{\"cpu_count\":true,\"slice\":true}", 2);
    unchanged(&p, "{\"cpu_count\":true,\"slice\":true}");
    /* A roll-back to before cell 2: its values have not been applied. */
    parameters_rewind(&p, 1);
    unchanged(&p, "{}");
    parameters_free(&p);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(a_refused_value_does_not_stay)
{
    parameters p;
    cadre_error error = {0};
    parameters_init(&p, "/nonexistent", NULL);
    request_with(&p, "{\"cadre\":{\"parameters\":{\"n\":3}}}");
    request_with(&p, "{\"cadre\":{\"parameters\":{\"n\":null,\"m\":1}}}");
    parameters_refuse(&p);
    is(parameters_merged(&p), "{\"n\":3}");
    json_t *bad = json("{\"cadre\":{\"parameters\":[1]}}");
    ck_assert_int_eq(parameters_request(&p, bad, &error), CADRE_EINPUT);
    json_decref(bad);
    is(parameters_merged(&p), "{\"n\":3}");
    parameters_free(&p);
}
END_TEST

static int inline_of(parameters *p, const char *code, cadre_error *error)
{
    return parameters_inline(p, code, strlen(code), error);
}

START_TEST(lines_of_a_cell_are_a_channel_of_their_own)
{
    parameters p;
    cadre_error error = {0};
    parameters_init(&p, NULL, "{\"a\":1,\"b\":1}");
    request_with(&p, "{\"cadre\":{\"parameters\":{\"b\":2}}}");
    ck_assert_int_eq(
        inline_of(&p, "// Parameters\n%parameters {\"b\": 3, \"c\": \"x\"}\nint d;", &error), 0);
    is(parameters_merged(&p), "{\"a\":1,\"b\":3,\"c\":\"x\"}");
    /* It stays above what later requests bring, and a comment says the same. */
    request_with(&p, "{\"cadre\":{\"parameters\":{\"b\":4}}}");
    ck_assert_int_eq(inline_of(&p, "  //% parameters {\"c\": 5}", &error), 0);
    is(parameters_merged(&p), "{\"a\":1,\"b\":3,\"c\":5}");
    parameters_refuse(&p);
    is(parameters_merged(&p), "{\"a\":1,\"b\":3,\"c\":\"x\"}");
    static const char *const bad[] = {"%parameters", "%parameters [1]", "%parameters {\"a\": }",
                                      "%parameters {\"a\":\n1}"};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(inline_of(&p, bad[i], &error), CADRE_EINPUT);
    parameters_free(&p);
}
END_TEST

START_TEST(only_lines_of_code_are_parameters)
{
    static const char *const none[] = {"/*\n%parameters {\"a\": 1}\n*/",
                                       "// \\\n%parameters {\"a\": 1}",
                                       "x %parameters {\"a\": 1}",
                                       "\"a\\\n%parameters {}\"",
                                       "%parametersx {\"a\": 1}",
                                       "//% parameter {\"a\": 1}",
                                       "%",
                                       "",
                                       "//%"};
    parameters_line line;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        line = (parameters_line){0};
        ck_assert_msg(!parameters_inline_next(none[i], strlen(none[i]), &line), "%s", none[i]);
    }
    char code[] =
        "int a;\n%parameters {\"a\": 1}\r\nchar *s = \"\\\"\"; // it's\n//%parameters {}\n'";
    size_t length = strlen(code);
    parameters_inline_hide(code, length);
    ck_assert_str_eq(code, "int a;\n                    \r\nchar *s = \"\\\"\"; // it's\n"
                           "                \n'");
}
END_TEST

START_TEST(a_bad_environment_is_told)
{
    static const char *const bad[] = {"[1]", "{", "7"};
    for (int i = 0; i < 3; i++) {
        parameters p;
        parameters_init(&p, NULL, bad[i]);
        ck_assert_ptr_nonnull(strstr(p.problem, "CADRE_PARAMETERS"));
        parameters_free(&p);
    }
}
END_TEST

START_TEST(cpus_are_checked_with_both_numbers)
{
    cadre_error error = {0};
    json_t *merged = json("{\"cpu_count\":8}"), *all = json("{\"cpu_count\":true}"),
           *none = json("{}"), *zero = json("{\"cpu_count\":0}");
    ck_assert_int_eq(parameters_check_cpus(merged, all, 6, &error), CADRE_EINPUT);
    ck_assert(strstr(error.message, "8") && strstr(error.message, "6 vCPUs"));
    ck_assert_int_eq(parameters_check_cpus(merged, all, 8, &error), 0);
    ck_assert_int_eq(parameters_check_cpus(merged, none, 6, &error), 0);
    ck_assert_int_eq(parameters_check_cpus(zero, all, 6, &error), CADRE_EINPUT);
    json_decref(merged);
    json_decref(all);
    json_decref(none);
    json_decref(zero);
}
END_TEST

/* ---- jobs */

typedef struct sum_job {
    job job;
    int *order, number;
} sum_job;

static void run_sum(job *base)
{
    sum_job *work = (sum_job *)base;
    *work->order = *work->order * 10 + work->number;
}

START_TEST(jobs_run_in_order_and_come_back)
{
    cadre_error error = {0};
    int order = 0, back = 0;
    sum_job jobs[3];
    worker *w = worker_start(&error);
    ck_assert_ptr_nonnull(w);
    for (int i = 0; i < 3; i++) {
        jobs[i] = (sum_job){.job.run = run_sum, .order = &order, .number = i + 1};
        worker_post(w, &jobs[i].job);
    }
    while (back < 3) {
        struct pollfd wait = {.fd = worker_fd(w), .events = POLLIN};
        ck_assert_int_eq(poll(&wait, 1, 5000), 1);
        for (job *done; (done = worker_take(w)); back++)
            ck_assert_ptr_eq(done, &jobs[back].job);
    }
    ck_assert_int_eq(order, 123);
    ck_assert(worker_is_idle(w));
    worker_post(w, &jobs[0].job);
    worker_stop(w);
    ck_assert_ptr_eq(worker_take(w), &jobs[0].job);
    worker_free(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, first_bytes_go_at_once_and_later_ones_together);
    tcase_add_test(parts, order_of_the_two_streams_is_kept);
    tcase_add_test(parts, cut_sequences_are_joined);
    tcase_add_test(parts, a_begun_sequence_waits_for_its_own_stream);
    tcase_add_test(parts, messages_are_bounded);
    tcase_add_test(parts, history_is_searched);
    tcase_add_test(parts, patterns);
    tcase_add_test(parts, history_is_bounded);
    tcase_add_test(parts, history_outlives_its_session);
    tcase_add_test(parts, many_kernels_write_one_history);
    tcase_add_loop_test(parts, a_damaged_history_is_set_aside, 0, 3);
    tcase_add_test(parts, a_damaged_history_is_set_aside_by_one_kernel_only);
    tcase_add_loop_test(parts, a_history_without_a_file_is_kept_in_memory, 0, 5);
    tcase_add_test(parts, a_history_that_another_holds_is_not_waited_for_long);
    tcase_add_test(parts, later_channels_win_and_values_are_applied_once);
    tcase_add_test(parts, a_refused_value_does_not_stay);
    tcase_add_test(parts, lines_of_a_cell_are_a_channel_of_their_own);
    tcase_add_test(parts, only_lines_of_code_are_parameters);
    tcase_add_test(parts, a_bad_environment_is_told);
    tcase_add_test(parts, cpus_are_checked_with_both_numbers);
    tcase_add_test(parts, jobs_run_in_order_and_come_back);
    tcase_set_timeout(parts, 30);
    suite_add_tcase(suite, parts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
