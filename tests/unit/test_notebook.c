/* runtime/notebook without a kernel: files, kernelspecs, outputs; what is refused before a start.
 * tests/client/test_notebook_run.py runs notebooks in kernels. */
#include "base/error_handler.h"
#include "notebook/document.h"
#include "notebook/kernelspec.h"
#include "notebook/notebook.h"
#include "notebook/outputs.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/cadre-notebook-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    cadre_set_error_handler(cadre_error_ignore);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void tear_down(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_text(const char *name, const char *text, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static json_t *read_text(const char *text, cadre_error *error)
{
    char path[256];
    write_text("n.ipynb", text, path);
    json_t *document = cadre_document_read(path, error);
    unlink(path);
    return document;
}

START_TEST(what_is_no_notebook_is_refused)
{
    static const struct {
        const char *text, *message;
        int line;
    } cases[] = {
        {"", "not JSON", 1},
        {"{\n \"cells\": [,\n", "not JSON", 2},
        {"[]", "no number nbformat", 0},
        {"{\"nbformat\": \"4\"}", "no number nbformat", 0},
        {"{\"nbformat\": 3, \"worksheets\": []}", "nbformat 3", 0},
        {"{\"nbformat\": 4}", "no cells", 0},
        {"{\"nbformat\": 4, \"cells\": [1]}", "cell 1 is no code", 0},
        {"{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"x\"}]}", "cell 1 is no code", 0},
        {"{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"code\"}]}", "no source", 0},
        {"{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"code\", \"source\": [1]}]}", "no source",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cadre_error error = {0};
        ck_assert_ptr_null(read_text(cases[i].text, &error));
        ck_assert_int_eq(error.code, CADRE_EFORMAT);
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s", error.message);
        ck_assert_ptr_nonnull(strstr(error.message, "n.ipynb"));
        ck_assert_int_eq(error.line, cases[i].line);
    }
    cadre_error error = {0};
    ck_assert_ptr_null(cadre_document_read("/nowhere/n.ipynb", &error));
    ck_assert_int_eq(error.code, CADRE_EFILE);
    ck_assert_ptr_null(cadre_document_read("/tmp", &error));
    ck_assert_int_eq(error.code, CADRE_EFILE);
}
END_TEST

START_TEST(an_old_notebook_becomes_a_new_one)
{
    cadre_error error = {0};
    json_t *document = read_text(
        "{\"nbformat\": 4, \"nbformat_minor\": 2, \"metadata\": {\"big\": 36893488147419103232},"
        " \"cells\": [{\"cell_type\": \"code\", \"source\": [\"a\\n\", \"b\"], \"outputs\": [1],"
        " \"execution_count\": 7, \"id\": \"same\", \"metadata\": {\"tags\": [\"x\"],"
        " \"execution\": {}, \"cadre\": {\"parameters\": {\"n\": 1}}}},"
        " {\"cell_type\": \"markdown\", \"source\": \"# t\", \"id\": \"same\"},"
        " {\"cell_type\": \"raw\", \"source\": \"\", \"id\": \"not good!\"}]}",
        &error);
    ck_assert_msg(document != NULL, "%s", error.message);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "nbformat_minor")), 5);
    const json_t *cells = json_object_get(document, "cells");
    const json_t *code = json_array_get(cells, 0);
    const char *ids[3];
    for (size_t i = 0; i < 3; i++) {
        ids[i] = json_string_value(json_object_get(json_array_get(cells, i), "id"));
        ck_assert_ptr_nonnull(ids[i]);
        ck_assert(json_is_object(json_object_get(json_array_get(cells, i), "metadata")));
    }
    ck_assert_str_eq(ids[0], "same");
    ck_assert_str_ne(ids[1], "same");
    ck_assert_ptr_null(strchr(ids[2], ' '));
    ck_assert_uint_eq(json_array_size(json_object_get(code, "outputs")), 0);
    ck_assert(json_is_null(json_object_get(code, "execution_count")));
    ck_assert_ptr_null(json_object_get(json_object_get(code, "metadata"), "execution"));
    ck_assert(cadre_document_has_tag(code, "x"));
    ck_assert(!cadre_document_has_tag(code, "y"));
    ck_assert_ptr_nonnull(cadre_document_parameters(code));
    ck_assert_ptr_null(cadre_document_parameters(document));
    char *source = cadre_document_source(code);
    ck_assert_str_eq(source, "a\nb");
    free(source);
    json_decref(document);
}
END_TEST

/* ---- kernelspecs ---- */

static void make_spec(const char *name, const char *json)
{
    char path[256];
    snprintf(path, sizeof path, "%s/share", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/share/jupyter", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/share/jupyter/kernels", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/share/jupyter/kernels/%s", folder, name);
    mkdir(path, 0700);
    char file[120];
    snprintf(file, sizeof file, "share/jupyter/kernels/%s/kernel.json", name);
    write_text(file, json, path);
    snprintf(path, sizeof path, "%s/share/jupyter", folder);
    setenv("JUPYTER_PATH", path, 1);
}

START_TEST(a_kernelspec_is_found_and_filled_in)
{
    make_spec("My-Kernel",
              "{\"argv\": [\"run\", \"-f={connection_file}\", \"{resource_dir}/x\", \"{prefix}\","
              " \"{other}\"], \"env\": {\"CADRE_T\": \"<${CADRE_A}${CADRE_NONE}>\"},"
              " \"display_name\": \"d\"}");
    cadre_kernelspec spec;
    cadre_error error = {0};
    setenv("CADRE_A", "value", 1);
    setenv("CADRE_T", "old", 1);
    setenv("CADRE_GONE", "1", 1);
    ck_assert_int_eq(cadre_kernelspec_find("my-kernel", &spec, &error), 0);
    ck_assert_str_eq(spec.name, "My-Kernel");
    ck_assert_str_eq(spec.prefix, folder);
    char **argv = cadre_kernelspec_argv(&spec, "/c.json", &error), expected[256];
    ck_assert_str_eq(argv[1], "-f=/c.json");
    snprintf(expected, sizeof expected, "%s/share/jupyter/kernels/My-Kernel/x", folder);
    ck_assert_str_eq(argv[2], expected);
    ck_assert_str_eq(argv[3], folder);
    ck_assert_str_eq(argv[4], "{other}");
    ck_assert_ptr_null(argv[5]);
    cadre_words_free(argv);
    char **environment =
        cadre_kernelspec_environment(&spec, (const char *const[]){"B=2", NULL}, "CADRE_GONE");
    int found = 0;
    for (char **word = environment; *word; word++) {
        found += strcmp(*word, "CADRE_T=<value${CADRE_NONE}>") == 0;
        found += strcmp(*word, "B=2") == 0;
        ck_assert_ptr_null(strstr(*word, "CADRE_GONE"));
        ck_assert_str_ne(*word, "CADRE_T=old");
    }
    ck_assert_int_eq(found, 2);
    cadre_words_free(environment);
    cadre_kernelspec_clear(&spec);
}
END_TEST

START_TEST(kernelspecs_that_cannot_be_used)
{
    cadre_kernelspec spec;
    cadre_error error = {0};
    make_spec("good", "{\"argv\": [\"x\", \"{connection_file}\"]}");
    make_spec("bad", "{");
    make_spec("empty", "{\"argv\": []}");
    make_spec("nofile", "{\"argv\": [\"x\"]}");
    ck_assert_int_eq(cadre_kernelspec_find("none", &spec, &error), CADRE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "'none' is not installed"));
    ck_assert_ptr_nonnull(strstr(error.message, "good"));
    ck_assert_int_eq(cadre_kernelspec_find("bad", &spec, &error), CADRE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "kernel.json"));
    static const char *const names[] = {"empty", "nofile"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(cadre_kernelspec_find(names[i], &spec, &error), 0);
        ck_assert_ptr_null(cadre_kernelspec_argv(&spec, "/c.json", &error));
        ck_assert_int_eq(error.code, CADRE_EFORMAT);
        cadre_kernelspec_clear(&spec);
    }
}
END_TEST

START_TEST(a_run_that_cannot_start_leaves_nothing)
{
    char notebook[256], output[300];
    make_spec("absent", "{\"argv\": [\"/no/such/program\", \"{connection_file}\"]}");
    make_spec("quick", "{\"argv\": [\"/bin/sh\", \"-c\", \"echo why it ended >&2; exit 3\","
                       " \"{connection_file}\"]}");
    snprintf(output, sizeof output, "%s/runtime", folder);
    setenv("JUPYTER_RUNTIME_DIR", output, 1);
    write_text("n.ipynb",
               "{\"nbformat\": 4, \"nbformat_minor\": 5, \"metadata\": {}, \"cells\": []}",
               notebook);
    snprintf(output, sizeof output, "%s/out/o.ipynb", folder);
    static const struct {
        const char *kernel, *environment, *parameters, *message;
    } cases[] = {
        {NULL, NULL, NULL, "names no kernel"},
        {"none", NULL, NULL, "not installed"},
        {NULL, "none", NULL, "no environment 'none'"},
        {"quick", "quick", NULL, "not both"},
        {"quick", NULL, "{", "not JSON"},
        {"quick", NULL, "[1]", "JSON object"},
        {"absent", NULL, NULL, "/no/such/program"},
        {"quick", NULL, NULL, "exit status 3; it wrote: why it ended"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cadre_notebook_result *result = cadre_notebook_run(
            notebook, (cadre_notebook_options){.kernel = cases[i].kernel,
                                               .environment = cases[i].environment,
                                               .parameters = cases[i].parameters,
                                               .output = output,
                                               .quiet = true});
        ck_assert(!result->ok);
        ck_assert_msg(strstr(result->error, cases[i].message) != NULL, "%s", result->error);
        ck_assert_ptr_null(result->output);
        ck_assert_int_ne(access(output, F_OK), 0);
        cadre_notebook_result_free(result);
    }
    ck_assert_ptr_null(cadre_notebook_run(NULL, (cadre_notebook_options){0}));
    snprintf(output, sizeof output, "%s/runtime", folder);
    struct stat info;
    ck_assert_int_eq(stat(output, &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0700);
    ck_assert_int_eq(rmdir(output), 0); /* no connection file was left */
}
END_TEST

/* ---- outputs ---- */

static void take(cadre_outputs *outputs, const char *type, const char *content)
{
    cadre_message message = {.type = type, .content = json_loads(content, 0, NULL)};
    ck_assert_ptr_nonnull(message.content);
    cadre_outputs_take(outputs, &message);
    json_decref(message.content);
}

static void expect(const json_t *list, const char *expected)
{
    char *text = json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(streams_are_joined_and_kept_in_order)
{
    cadre_outputs outputs = {0};
    json_t *list = json_array();
    cadre_outputs_begin(&outputs, list);
    take(&outputs, "stream", "{\"name\": \"stdout\", \"text\": \"a\\nb\"}");
    take(&outputs, "stream", "{\"name\": \"stdout\", \"text\": \"c\\n\"}");
    take(&outputs, "stream", "{\"name\": \"stderr\", \"text\": \"e\"}");
    cadre_outputs_flush(&outputs);
    take(&outputs, "stream", "{\"name\": \"stderr\", \"text\": \"f\\ng\"}");
    cadre_outputs_flush(&outputs);
    expect(list, "[{\"name\":\"stdout\",\"output_type\":\"stream\",\"text\":[\"a\\n\",\"bc\\n\"]},"
                 "{\"name\":\"stderr\",\"output_type\":\"stream\",\"text\":[\"ef\\n\",\"g\"]}]");
    json_decref(list);
    cadre_outputs_clear(&outputs);
}
END_TEST

START_TEST(displays_results_errors_and_returns)
{
    cadre_outputs outputs = {0};
    json_t *list = json_array();
    cadre_outputs_begin(&outputs, list);
    take(&outputs, "display_data",
         "{\"data\": {\"text/plain\": 5, \"application/json\": {\"a\": 1}}, \"metadata\": null}");
    take(&outputs, "execute_result",
         "{\"execution_count\": 3, \"data\": {\"text/plain\": [\"x\", \"y\"]}, \"metadata\": {}}");
    take(&outputs, "display_data",
         "{\"data\": {\"application/vnd.cadre.return+json\": [1]}, \"metadata\": {}}");
    take(&outputs, "display_data", "{\"data\": 7}");
    take(&outputs, "error", "{\"ename\": \"E\", \"evalue\": \"v\", \"traceback\": [\"t\", 1]}");
    take(&outputs, "unknown", "{}");
    expect(list,
           "[{\"data\":{\"application/json\":{\"a\":1},\"text/plain\":\"5\"},\"metadata\":{},"
           "\"output_type\":\"display_data\"},"
           "{\"data\":{\"text/plain\":[\"x\",\"y\"]},\"execution_count\":3,\"metadata\":{},"
           "\"output_type\":\"execute_result\"},"
           "{\"data\":{\"application/vnd.cadre.return+json\":[1]},\"metadata\":{},"
           "\"output_type\":\"display_data\"},"
           "{\"data\":{},\"metadata\":{},\"output_type\":\"display_data\"},"
           "{\"ename\":\"E\",\"evalue\":\"v\",\"output_type\":\"error\",\"traceback\":[\"t\"]}]");
    expect(outputs.returned, "[1]");
    ck_assert_str_eq(outputs.error_name, "E");
    json_t *next = json_array();
    cadre_outputs_begin(&outputs, next);
    ck_assert_ptr_null(outputs.error_name);
    json_decref(next);
    json_decref(list);
    cadre_outputs_clear(&outputs);
}
END_TEST

START_TEST(updates_reach_earlier_cells_and_clears_wait)
{
    cadre_outputs outputs = {0};
    json_t *first = json_array(), *second = json_array();
    cadre_outputs_begin(&outputs, first);
    take(&outputs, "display_data",
         "{\"data\": {\"text/plain\": \"old\"}, \"transient\": {\"display_id\": \"d\"}}");
    cadre_outputs_begin(&outputs, second);
    take(&outputs, "update_display_data",
         "{\"data\": {\"text/plain\": \"new\"}, \"transient\": {\"display_id\": \"d\"}}");
    take(&outputs, "update_display_data",
         "{\"data\": {\"text/plain\": \"?\"}, \"transient\": {\"display_id\": \"none\"}}");
    take(&outputs, "stream", "{\"name\": \"stdout\", \"text\": \"1\"}");
    take(&outputs, "clear_output", "{\"wait\": true}");
    cadre_outputs_flush(&outputs);
    ck_assert_uint_eq(json_array_size(second), 1);
    take(&outputs, "stream", "{\"name\": \"stdout\", \"text\": \"2\"}");
    cadre_outputs_flush(&outputs);
    expect(first, "[{\"data\":{\"text/plain\":\"new\"},\"metadata\":{},"
                  "\"output_type\":\"display_data\"}]");
    expect(second, "[{\"name\":\"stdout\",\"output_type\":\"stream\",\"text\":[\"2\"]}]");
    take(&outputs, "clear_output", "{\"wait\": false}");
    ck_assert_uint_eq(json_array_size(second), 0);
    json_decref(first);
    json_decref(second);
    cadre_outputs_clear(&outputs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notebook");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, set_up, tear_down);
    tcase_set_timeout(files, 60);
    tcase_add_test(files, what_is_no_notebook_is_refused);
    tcase_add_test(files, an_old_notebook_becomes_a_new_one);
    tcase_add_test(files, a_kernelspec_is_found_and_filled_in);
    tcase_add_test(files, kernelspecs_that_cannot_be_used);
    tcase_add_test(files, a_run_that_cannot_start_leaves_nothing);
    suite_add_tcase(suite, files);
    TCase *outputs = tcase_create("outputs");
    tcase_add_test(outputs, streams_are_joined_and_kept_in_order);
    tcase_add_test(outputs, displays_results_errors_and_returns);
    tcase_add_test(outputs, updates_reach_earlier_cells_and_clears_wait);
    suite_add_tcase(suite, outputs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
