/* Units for completion and inspection from half-typed cells, and what the front does when
 * cadre-assist is ill. */
#include "assist/assist.h"
#include "cell_helper.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static cell_session *session;

static void run(const char *code)
{
    cell_outcome outcome = cell_session_run(session, code, NULL);
    ck_assert_msg(!outcome.error_name, "%s: %s", code, outcome.message);
    cell_outcome_free(&outcome);
}

static void set_up(void)
{
    session = cell_session_new();
    ck_assert_ptr_nonnull(session);
    run("/* How it learns. */\nstruct optimiser { double rate; int epochs; };\n");
    run("#define STEPS 10\nstruct optimiser opt = {0.5, 3};\n");
    run("// Mean of\n// n values.\ndouble mean(const double *v, int n) { return n ? v[0] : 0; }\n");
}

static void tear_down(void)
{
    cell_session_free(session);
}

/* The text of the unit from the cursor on, back to the start of its line. */
static const char *line_of(const cadre_assist_unit *unit)
{
    const char *line = unit->source;
    for (unsigned i = 1; i < unit->line; i++) {
        line = strchr(line, '\n');
        ck_assert_ptr_nonnull(line);
        line++;
    }
    ck_assert_uint_le(unit->column - 1, strcspn(line, "\n"));
    return line;
}

static const struct half_typed {
    const char *text, *before; /* what stands before the cursor on its line */
    bool in_function;          /* statements are */
} half_typed[] = {
    {"", "", true},
    {"opt.", "opt.", true},
    {"int x = 1; ", " ", true},
    {"int x = ", "int x = ", true},
    {"double f(double x) {\n  double y = x * ", "  double y = x * ", false},
    {"double f(double x) { return x; }\nf(", "f(", true},
    {"for (int i = 0; i < 3; i++) { double lo = 1; ", "lo = 1; ", true},
    {"if (opt.rate > 1) puts(\"a\"); else ", "else ", true},
    {"#include <std", "#include <std", true},
    {"#include <string.h>\n#define N ", "#define N ", true},
    {"struct ", "struct ", true},
    {"}}}} ", " ", true},
    {")]; opt.", "opt.", true},
    {"puts(\"never ends", "puts(\"never ends", true},
    {"/* never ends", "/* never ends", true},
    {"char c = 'x", "char c = 'x", true},
    {"int a;\r\nopt.", "opt.", true},
    {"\xef\xbb\xbfopt.", "opt.", true},
    {"puts(\"\xf0\x9f\x9a\x80 \xe6\x97\xa5\"); opt.", "opt.", true},
    {"#if 0\nopt.", "", true},
    {"#if STEPS\nopt.", "opt.", true},
    {"%cflags -O3\nopt.", "opt.", true},
    {"R\"(raw", "raw", true},
    {"enum { A, B, ", "enum { A, B, ", true},
    {"switch (opt.epochs) { case ", "case ", true},
    {"((((((((((", "((((((((((", true},
    {"\\\n\\\n", "", true},
};

START_TEST(half_typed_text_has_a_place)
{
    const struct half_typed *one = &half_typed[_i];
    cadre_assist_unit unit;
    size_t length = strlen(one->text);
    ck_assert_int_eq(cadre_engine_assist_unit(cell_session_engine(session), one->text, length,
                                              length, "", &unit),
                     0);
    const char *line = line_of(&unit), *cursor = line + unit.column - 1;
    size_t before = strlen(one->before);
    ck_assert_msg((size_t)(cursor - unit.source) >= before &&
                      !strncmp(cursor - before, one->before, before),
                  "%s: the cursor is after '%.*s'", one->text, (int)(cursor - line), line);
    const char *function = strstr(unit.source, "void cadre_cell(void) {");
    ck_assert_msg((function != NULL && function < cursor) == one->in_function, "%s", one->text);
    ck_assert_uint_gt(unit.head, 0);
    ck_assert_int_eq(unit.source[unit.head], ';');
    ck_assert_ptr_nonnull(json_object_get(unit.names, "mean"));
    cadre_assist_unit_free(&unit);
}
END_TEST

START_TEST(any_prefix_of_a_cell_makes_a_unit)
{
    static const char text[] =
        "#include <math.h>\n/* doc */ struct p { int x, y; } a[3] = {{1, 2}};\n"
        "#define TWICE(v) ((v) + (v))\nint f(struct p *q)\n{\n    return "
        "TWICE(q->x) ? '\\'' : \"}{\"[0];\n}\nfor (int i = 0; i < 3; i++) {\n"
        "    a[i].x = f(&a[i]); // {\n}\na[0].x";
    cadre_engine *engine = cell_session_engine(session);
    for (size_t length = 0; length < sizeof text; length++)
        for (size_t cursor = length; cursor <= length && cursor + 7 > length; cursor -= 3) {
            cadre_assist_unit unit;
            ck_assert_int_eq(cadre_engine_assist_unit(engine, text, length, cursor, "a", &unit), 0);
            (void)line_of(&unit);
            cadre_assist_unit_free(&unit);
        }
}
END_TEST

START_TEST(a_unit_declares_what_the_text_names)
{
    cadre_assist_unit unit;
    ck_assert_int_eq(
        cadre_engine_assist_unit(cell_session_engine(session), "opt.", 4, 4, "x", &unit), 0);
    ck_assert_ptr_nonnull(strstr(unit.source, "/* How it learns. */"));
    ck_assert_ptr_nonnull(strstr(unit.source, "struct optimiser opt;"));
    ck_assert_ptr_null(strstr(unit.source, "mean("));
    ck_assert_uint_eq(json_object_size(unit.names), 0);
    cadre_assist_unit_free(&unit);
}
END_TEST

START_TEST(a_unit_changes_nothing)
{
    static const char text[] =
        "#define STEPS 11\nstruct optimiser { char c; }; int opt, brand_new;";
    cadre_assist_unit unit;
    cadre_name_facts facts;
    cadre_engine *engine = cell_session_engine(session);
    ck_assert_int_eq(cadre_engine_assist_unit(engine, text, strlen(text), strlen(text), "", &unit),
                     0);
    cadre_assist_unit_free(&unit);
    ck_assert(!cadre_engine_describe(engine, "brand_new", 9, &facts));
    run("opt.rate = STEPS");
}
END_TEST

START_TEST(facts_hold_comment_and_source)
{
    cadre_name_facts facts;
    cadre_engine *engine = cell_session_engine(session);
    ck_assert(cadre_engine_describe(engine, "mean", 4, &facts));
    ck_assert_str_eq(facts.comment, "// Mean of\n// n values.");
    ck_assert_str_eq(facts.source, "double mean(const double *v, int n) { return n ? v[0] : 0; }");
    ck_assert_int_eq(facts.execution_count, 3);
    ck_assert_ptr_null(facts.symbol);
    cadre_name_facts_free(&facts);
    ck_assert(cadre_engine_describe(engine, "opt", 3, &facts));
    ck_assert_str_eq(facts.symbol, "opt");
    ck_assert_uint_gt(facts.object_length, 0);
    cadre_name_facts_free(&facts);
}
END_TEST

/* --- the front's side ----------------------------------------------------------------------- */

static char program[] = "/tmp/cadre-fake-assist-XXXXXX";

static void write_program(const char *text)
{
    memcpy(program + sizeof program - 7, "XXXXXX", 6);
    int file = mkstemp(program);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(file, 0700);
    close(file);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static json_t *wait_for_answer(cadre_assist *assist)
{
    for (;;) {
        json_t *answer = cadre_assist_next(assist);
        if (answer) return answer;
        struct pollfd fd = {.fd = cadre_assist_fd(assist), .events = POLLIN};
        ck_assert_int_ge(poll(&fd, 1, cadre_assist_timeout(assist)), 0);
    }
}

static void expect_nothing(cadre_assist *assist, uint64_t id, double within)
{
    const cadre_assist_question question = {.source = "int x;\n", .line = 1, .column = 1};
    double start = seconds();
    ck_assert_int_eq(cadre_assist_ask(assist, id, CADRE_ASSIST_COMPLETE, &question), 0);
    json_t *answer = wait_for_answer(assist);
    ck_assert_int_eq(json_integer_value(json_object_get(answer, "id")), (json_int_t)id);
    ck_assert_uint_eq(json_object_size(answer), 1);
    json_decref(answer);
    ck_assert_msg(seconds() - start < within, "%f s", seconds() - start);
}

START_TEST(a_process_that_dies_costs_an_answer)
{
    write_program("#!/bin/sh\nexit 1\n");
    cadre_assist *assist = cadre_assist_new(program);
    expect_nothing(assist, 7, 1);
    expect_nothing(assist, 8, 1); /* started anew */
    cadre_assist_free(assist);
    unlink(program);
}
END_TEST

START_TEST(a_process_that_hangs_is_killed)
{
    write_program("#!/bin/sh\nexec sleep 1000\n");
    cadre_assist *assist = cadre_assist_new(program);
    expect_nothing(assist, 1, 7); /* the first one has time to read the headers */
    double start = seconds();
    expect_nothing(assist, 2, 7);
    cadre_assist_free(assist);
    ck_assert(seconds() - start < 8);
    unlink(program);
}
END_TEST

START_TEST(no_program_is_no_assist)
{
    const cadre_assist_question question = {.source = "", .line = 1, .column = 1};
    cadre_assist *assist = cadre_assist_new("/nowhere/cadre-assist");
    ck_assert_int_lt(cadre_assist_ask(assist, 1, CADRE_ASSIST_INSPECT, &question), 0);
    ck_assert_int_eq(cadre_assist_fd(assist), -1);
    cadre_assist_free(assist);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assist");
    TCase *units = tcase_create("units"), *front = tcase_create("front");
    tcase_add_checked_fixture(units, set_up, tear_down);
    tcase_set_timeout(units, 60);
    tcase_add_loop_test(units, half_typed_text_has_a_place, 0,
                        (int)(sizeof half_typed / sizeof *half_typed));
    tcase_add_test(units, any_prefix_of_a_cell_makes_a_unit);
    tcase_add_test(units, a_unit_declares_what_the_text_names);
    tcase_add_test(units, a_unit_changes_nothing);
    tcase_add_test(units, facts_hold_comment_and_source);
    suite_add_tcase(suite, units);
    tcase_set_timeout(front, 30);
    tcase_add_test(front, a_process_that_dies_costs_an_answer);
    tcase_add_test(front, a_process_that_hangs_is_killed);
    tcase_add_test(front, no_program_is_no_assist);
    suite_add_tcase(suite, front);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
