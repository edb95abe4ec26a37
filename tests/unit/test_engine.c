/* Whole cells: the cases of tests/cases and what they do not cover. */
#include "cell_helper.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cell_case *language, *more, *parameters;

START_TEST(language_case)
{
    cell_case_run(&language[_i]);
}
END_TEST

START_TEST(more_case)
{
    cell_case_run(&more[_i]);
}
END_TEST

START_TEST(parameter_case)
{
    /* Channels other than the request are the session's. */
    if (strstr(parameters[_i].text, "--- env")) return;
    setenv("CADRE_VCPUS", "4", 1); /* outside an environment the session counts them */
    cell_case_run(&parameters[_i]);
}
END_TEST

static cell_outcome run(cell_session *session, const char *code)
{
    return cell_session_run(session, code, NULL);
}

static void want_result(cell_session *session, const char *code, const char *wanted)
{
    cell_outcome got = run(session, code);
    ck_assert_msg(!got.error_name, "%s\nfailed: %s", code, got.message ? got.message : "");
    ck_assert_msg(got.result && !strcmp(got.result, wanted), "%s\nwanted %s, got %s", code, wanted,
                  got.result ? got.result : "nothing");
    cell_outcome_free(&got);
}

static void want_error(cell_session *session, const char *code, const char *part)
{
    cell_outcome got = run(session, code);
    ck_assert_msg(got.error_name != NULL, "%s\ndid not fail", code);
    ck_assert_msg(strstr(got.message, part) != NULL, "no %s in %s", part, got.message);
    cell_outcome_free(&got);
}

START_TEST(a_failed_cell_leaves_nothing)
{
    cell_session *session = cell_session_new();
    want_error(session,
               "%cflags -DFROM_FLAGS=1\n#include <complex.h>\n#define LEFT 1\n"
               "typedef int left_type;\nint left = 1;\nleft = nope;",
               "nope");
    want_error(session, "left", "left");
    want_error(session, "LEFT", "LEFT");
    want_error(session, "left_type x = 1;", "left_type");
    want_error(session, "FROM_FLAGS", "FROM_FLAGS");
    want_result(session, "double creal = 2.5;\ncreal", "2.5");
    cell_session_free(session);
}
END_TEST

START_TEST(a_rewound_session_forgets)
{
    cell_session *session = cell_session_new();
    cadre_engine *engine = cell_session_engine(session);
    want_result(session, "int x = 1;\nx", "1");
    cell_outcome got = run(session, "%cflags -DHERE=7\n#define M 3\ndouble y = 2.5;");
    ck_assert_ptr_null(got.error_name);
    cell_outcome_free(&got);
    want_result(session, "y + M + HERE", "12.5");
    cadre_engine_rewind(engine, 1);
    want_error(session, "y", "y");
    want_error(session, "M", "M");
    want_error(session, "HERE", "HERE");
    want_result(session, "x", "1");
    cell_session_free(session);
}
END_TEST

START_TEST(messages_hold_no_generated_text)
{
    static const char *const cells[] = {
        "nope",
        "int a = nope;",
        "double v[nope];",
        "struct missing s;",
        "f(1",
        "int x = 1 +;",
        "return nope;",
        "for (;;) nope;",
        "int main(void) { return nope; }",
        "static int g(void) { return nope; }",
        "#include <no_such_header.h>",
        "#error stop here",
        "int n = 3; double grid[n]; grid.x",
        "char s[2] = \"long\"; s.x",
    };
    cell_session *session = cell_session_new();
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        cell_outcome got = run(session, cells[i]);
        ck_assert_msg(got.error_name && !strcmp(got.error_name, "CompileError"), "%s: %s", cells[i],
                      got.error_name ? got.error_name : "did not fail");
        ck_assert_msg(!strstr(got.message, "/tmp/"), "%s", got.message);
        ck_assert_msg(!strstr(got.message, "cadre_"), "%s", got.message);
        ck_assert_msg(!strstr(got.message, "cadre-"), "%s", got.message);
        ck_assert_msg(strstr(got.message, "In["), "%s", got.message);
        cell_outcome_free(&got);
    }
    cell_session_free(session);
}
END_TEST

START_TEST(a_declaration_conflict_names_the_earlier_cell)
{
    cell_session *session = cell_session_new();
    want_result(session, "int f(int a) { return a; }\nf(1)", "1");
    want_error(session, "double f(double);\nf(1)", "In[1]:1:5");
    cell_session_free(session);
}
END_TEST

static void collect(void *context, const char *name, const char *kind, const char *declaration,
                    int execution_count)
{
    cadre_buffer_printf(context, "%s/%s/%s/%d;", name, kind, declaration, execution_count);
}

START_TEST(names_are_listed)
{
    cell_session *session = cell_session_new();
    cell_outcome got = run(session, "int cpu_count = 1; double f(double x) { return x; }\n"
                                    "#define TWICE(a) ((a) * 2)\ntypedef int number;\n"
                                    "struct p { int x; };\nenum e { RED };");
    ck_assert_ptr_null(got.error_name);
    cell_outcome_free(&got);
    cadre_buffer text = {0};
    cadre_engine_names(cell_session_engine(session), collect, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "cpu_count/variable/int cpu_count/1;"));
    ck_assert_ptr_nonnull(strstr(text.data, "f/function/double f(double x)/1;"));
    ck_assert_ptr_nonnull(strstr(text.data, "TWICE/macro/#define TWICE(a) ((a) * 2)/1;"));
    ck_assert_ptr_nonnull(strstr(text.data, "number/type/int number/1;"));
    ck_assert_ptr_nonnull(strstr(text.data, "p/type/struct p { int x; }/1;"));
    ck_assert_ptr_nonnull(strstr(text.data, "RED/enumerator/"));
    cadre_buffer_free(&text);
    cell_session_free(session);
}
END_TEST

START_TEST(parameters_are_checked)
{
    static const struct {
        const char *json, *part; /* NULL: it fits */
    } table[] = {
        {"{\"small\": 255}", NULL},
        {"{\"small\": 256}", "from 0 to 255"},
        {"{\"small\": 3.0}", NULL},
        {"{\"small\": -1}", "small"},
        {"{\"flag\": true}", NULL},
        {"{\"flag\": 1}", "true or false"},
        {"{\"rate\": [1, 2.5]}", NULL},
        {"{\"rate\": [1]}", "a list of 2"},
        {"{\"rate\": 1}", "rate"},
        {"{\"label\": \"1234567\"}", NULL},
        {"{\"label\": \"12345678\"}", "at most 7 bytes"},
        {"{\"kind\": \"FAST\"}", NULL},
        {"{\"kind\": \"OTHER\"}", "constants"},
        {"{\"name\": null}", "name"},
        {"{\"grid\": [[1, 2], [3, 4]]}", NULL},
        {"{\"grid\": [[1, 2], [3]]}", "grid"},
        {"{\"size\": 123456789012}", NULL},
        {"{\"cpu_count\": 0}", "1 or more"},
        {"{\"single\": 1e300}", "single"},
        {"{\"not_declared\": {}}", NULL},
    };
    const char *code =
        "uint8_t small = 1; bool flag = false; float rate[2] = {1, 2}, single = 1;\n"
        "char label[8] = \"x\"; enum kind { SLOW, FAST } kind = SLOW;\n"
        "const char *name = \"n\"; int grid[2][2]; size_t size = 1; int cpu_count = 1;";
    cell_session *session = cell_session_new();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        json_t *given = json_loads(table[i].json, 0, NULL);
        cell_outcome got = cell_session_run(session, code, given);
        if (table[i].part) {
            ck_assert_msg(got.error_name && !strcmp(got.error_name, "ParameterError"), "%s",
                          table[i].json);
            ck_assert_msg(strstr(got.message, table[i].part), "%s: %s", table[i].json, got.message);
        } else {
            ck_assert_msg(!got.error_name, "%s: %s", table[i].json, got.message);
        }
        cell_outcome_free(&got);
        json_decref(given);
    }
    cell_session_free(session);
}
END_TEST

START_TEST(local_headers_are_part_of_the_cell)
{
    char folder[] = "/tmp/cadre-test-XXXXXX", path[100];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    FILE *out = fopen("shape.h", "we");
    fputs("#ifndef SHAPE_H\n#define SHAPE_H\n#include <ctype.h>\n#include \"inner.h\"\n"
          "typedef struct { int sides; } shape;\n"
          "static inline int area(shape s) { return s.sides * FACTOR; }\n#endif\n",
          out);
    fclose(out);
    out = fopen("inner.h", "we");
    fputs("#define FACTOR 10\n", out);
    fclose(out);
    out = fopen("numbers.inc", "we");
    fputs("1, 2, 3\n", out);
    fclose(out);
    cell_session *session = cell_session_new();
    want_result(session, "#include \"shape.h\"\narea((shape){4})", "40");
    want_result(session, "area((shape){5}) + toupper('a')", "115");
    want_result(session, "int list[] = {\n#include \"numbers.inc\"\n};\nlist[2]", "3");
    out = fopen("inner.h", "we");
    fputs("#define FACTOR nope\n", out);
    fclose(out);
    want_error(session, "#include \"missing.h\"\n", "missing.h");
    cell_session_free(session);
    ck_assert_int_eq(chdir("/"), 0);
    static const char *const files[] = {"shape.h", "inner.h", "numbers.inc"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}
END_TEST

START_TEST(many_names_and_long_cells)
{
    cell_session *session = cell_session_new();
    cadre_buffer code = {0};
    for (int i = 0; i < 2000; i++)
        cadre_buffer_printf(&code, "int v%d = %d;\nint f%d(int a) { return a + v%d; }\n", i, i, i,
                            i);
    cadre_buffer_puts(&code, "f1999(1)");
    want_result(session, code.data, "2000");
    cadre_buffer_free(&code);
    want_result(session, "f7(1) + v8", "16");
    cell_session_free(session);
}
END_TEST

static int count_cases(const cell_case *cases)
{
    int n = 0;
    while (cases[n].name)
        n++;
    return n;
}

START_TEST(cases_are_there)
{
    ck_assert_int_gt(count_cases(language), 30);
    ck_assert_int_gt(count_cases(more), 20);
    ck_assert_int_gt(count_cases(parameters), 8);
}
END_TEST

int main(void)
{
    language = cell_cases_read("language.cells");
    more = cell_cases_read("language_more.cells");
    parameters = cell_cases_read("parameters.cells");
    Suite *suite = suite_create("engine");
    TCase *cases = tcase_create("cases");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, cases_are_there);
    tcase_add_loop_test(cases, language_case, 0, count_cases(language));
    tcase_add_loop_test(cases, more_case, 0, count_cases(more));
    tcase_add_loop_test(cases, parameter_case, 0, count_cases(parameters));
    suite_add_tcase(suite, cases);
    TCase *engine = tcase_create("engine");
    tcase_set_timeout(engine, 300);
    tcase_add_test(engine, a_failed_cell_leaves_nothing);
    tcase_add_test(engine, a_rewound_session_forgets);
    tcase_add_test(engine, messages_hold_no_generated_text);
    tcase_add_test(engine, a_declaration_conflict_names_the_earlier_cell);
    tcase_add_test(engine, names_are_listed);
    tcase_add_test(engine, parameters_are_checked);
    tcase_add_test(engine, local_headers_are_part_of_the_cell);
    tcase_add_test(engine, many_names_and_long_cells);
    suite_add_tcase(suite, engine);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
