/* The compile service by its results: objects, diagnostics, errors, and nothing left behind. */
#include "compile_helpers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static cadre_compiler *compiler;

static void setup(void)
{
    compiler = helper_compiler("gcc", "");
}

static void teardown(void)
{
    cadre_compiler_free(compiler);
    compiler = NULL;
}

START_TEST(good_cell)
{
    cadre_compile_request request =
        helper_request("#include <math.h>\n", "double f(double x) { return sqrt(x); }\n");
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(result.ok);
    ck_assert(!result.from_cache);
    ck_assert_str_eq(result.diagnostics, "");
    ck_assert_uint_gt(result.object_length, 64);
    ck_assert_mem_eq(result.object, "\177ELF", 4);
    ck_assert(helper_has_symbol(&result, "f"));
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(bad_cell)
{
    cadre_compile_request request = helper_request(
        "#include <math.h>\n", "#line 1 \"cell.c\"\nint f(void)\n{\n    return nope;\n}\n");
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(!result.ok);
    ck_assert_ptr_null(result.object);
    helper_contains(result.diagnostics, "cell.c:3:12: error: ‘nope’ undeclared");
    ck_assert_ptr_null(strstr(result.diagnostics, "/proc/"));
    ck_assert_ptr_null(strstr(result.diagnostics, "/tmp/"));
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(warned_cell)
{
    cadre_compile_request request = helper_request(
        "#include <stdio.h>\n", "#line 1 \"cell.c\"\nvoid f(void) { printf(\"%d\", 1.5); }\n");
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(result.ok);
    helper_contains(result.diagnostics, "cell.c:1:");
    helper_contains(result.diagnostics, "warning:");
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(caret_from_the_named_file)
{
    const char *line = "int f(void) { return nope; }\n";
    char *folder = helper_folder();
    char path[200], source[500];
    snprintf(path, sizeof path, "%s/cell.c", folder);
    helper_write(path, line);
    snprintf(source, sizeof source, "#line 1 \"%s\"\n%s", path, line);
    cadre_compile_request request = helper_request("", source);
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(!result.ok);
    helper_contains(result.diagnostics, "1 | int f(void) { return nope; }");
    helper_contains(result.diagnostics, "^~~~");
    cadre_compile_result_free(&result);
    helper_remove(folder);
}
END_TEST

START_TEST(assembler_error)
{
    cadre_compile_request request =
        helper_request("", "void f(void) { __asm__(\"no_such_instruction\"); }\n");
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(!result.ok);
    helper_contains(result.diagnostics, "no such instruction");
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(refused_flags)
{
    const char *flags[] = {"-fno-such-flag"};
    cadre_compile_request request = helper_request("", "int x;\n");
    request.flags = flags;
    request.flag_count = 1;
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert(!result.ok);
    helper_contains(result.diagnostics, "-fno-such-flag");
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(flags_are_heeded)
{
    const char *flags[] = {"-fopenmp",     "-DN=3", "-O0", "-I", "/nowhere with blank",
                           "-DT=\"a\\$b\""};
    cadre_compile_request request =
        helper_request("#include <omp.h>\n", "int f(void) { return N + omp_get_max_threads(); }\n"
                                             "#ifdef __OPTIMIZE__\n#error optimised\n#endif\n"
                                             "_Static_assert(_OPENMP && sizeof T == 4, \"\");\n");
    request.flags = flags;
    request.flag_count = 6;
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    cadre_compile_result_free(&result);

    const char *sanitize[] = {"-fsanitize=undefined", "-O3"};
    request = helper_request("", "int f(int x) { return x + 1; }\n");
    request.flags = sanitize;
    request.flag_count = 2;
    helper_compile(compiler, &request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    ck_assert(helper_has_symbol(&result, "__ubsan_handle_add_overflow"));
    cadre_compile_result_free(&result);
}
END_TEST

START_TEST(missing_compiler)
{
    cadre_compiler *missing = helper_compiler("/nowhere/gcc", "");
    cadre_compile_request request = helper_request("", "int x;\n");
    cadre_compile_result result;
    cadre_error error = {0};
    ck_assert_int_eq(cadre_compile(missing, &request, &result, &error), CADRE_ENOTFOUND);
    helper_contains(error.message, "/nowhere/gcc");
    helper_contains(error.message, "install");
    ck_assert_ptr_null(result.diagnostics);
    ck_assert_ptr_null(cadre_preprocess(missing, &request, false, false, &error));
    cadre_compiler_warm(missing, "", NULL, 0);
    cadre_compiler_free(missing);
}
END_TEST

/* A compiler that never answers, with a child of its own. */
START_TEST(hung_compiler)
{
    char *folder = helper_folder();
    char path[200];
    snprintf(path, sizeof path, "%s/hung", folder);
    helper_script(path, "case \"$*\" in *-###*) echo 'clang version 1' >&2; exit 0;; esac\n"
                        "sleep 100 & sleep 100\n");
    cadre_compiler *hung = helper_compiler(path, "");
    cadre_compile_request request = helper_request("", "int x;\n");
    request.timeout_ms = 200;
    cadre_compile_result result;
    cadre_error error = {0};
    double before = helper_now();
    ck_assert_int_eq(cadre_compile(hung, &request, &result, &error), CADRE_ETIMEOUT);
    ck_assert_double_lt(helper_now() - before, 2000);
    helper_contains(error.message, "time limit");

    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    request.timeout_ms = 0;
    request.cancel_fd = ends[0];
    before = helper_now();
    ck_assert_int_eq(cadre_compile(hung, &request, &result, &error), CADRE_EINTERRUPT);
    ck_assert_double_lt(helper_now() - before, 1000);
    close(ends[0]);
    close(ends[1]);
    cadre_compiler_free(hung);
    helper_remove(folder);
}
END_TEST

START_TEST(killed_compiler)
{
    char *folder = helper_folder();
    char path[200];
    snprintf(path, sizeof path, "%s/killed", folder);
    helper_script(path, "case \"$*\" in *-###*) echo 'clang version 1' >&2; exit 0;; esac\n"
                        "kill -9 $$\n");
    cadre_compiler *killed = helper_compiler(path, "");
    cadre_compile_request request = helper_request("", "int x;\n");
    cadre_compile_result result;
    cadre_error error = {0};
    ck_assert_int_eq(cadre_compile(killed, &request, &result, &error), CADRE_ECHILD);
    helper_contains(error.message, "killed by signal 9");
    cadre_compiler_free(killed);
    helper_remove(folder);
}
END_TEST

START_TEST(clang_compiles)
{
    if (system("command -v clang > /dev/null") != 0) return; /* only where it is installed */
    cadre_compiler *clang = helper_compiler("clang", "");
    cadre_compile_request request =
        helper_request("#include <math.h>\n", "double f(double x) { return sqrt(x); }\n");
    cadre_compile_result result;
    helper_compile(clang, &request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    ck_assert(helper_has_symbol(&result, "f"));
    ck_assert_str_eq(result.diagnostics, "");
    cadre_compile_result_free(&result);
    request = helper_request("", "#line 5 \"cell.c\"\nint f(void) { return nope; }\n");
    helper_compile(clang, &request, &result);
    ck_assert(!result.ok);
    helper_contains(result.diagnostics, "cell.c:5:22: error:");
    cadre_compile_result_free(&result);
    cadre_error error = {0};
    char *text = cadre_preprocess(clang, &request, false, false, &error);
    ck_assert_msg(text != NULL, "%s", error.message);
    free(text);
    cadre_compiler_free(clang);
}
END_TEST

START_TEST(shared_library)
{
    cadre_compile_request request = helper_request(
        "", "_Thread_local int counter = 41;\nint next(void) { return ++counter; }\n");
    request.make_shared = true;
    cadre_compile_result result;
    helper_compile(compiler, &request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    ck_assert_ptr_null(result.object);
    ck_assert_ptr_nonnull(result.library_path);
    ck_assert_int_eq(helper_call(result.library_path, "next"), 42);
    struct stat info;
    char *slash = strrchr(result.library_path, '/');
    char *library = strdup(result.library_path);
    *slash = '\0';
    ck_assert_int_eq(stat(result.library_path, &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0700);
    cadre_compile_result_free(&result);

    const char *link_flags[] = {"-lno_such_library"};
    request.link_flags = link_flags;
    request.link_flag_count = 1;
    helper_compile(compiler, &request, &result);
    ck_assert(!result.ok);
    ck_assert_ptr_null(result.library_path);
    helper_contains(result.diagnostics, "cannot find -lno_such_library");
    ck_assert_ptr_null(strstr(result.diagnostics, "cadre-compile"));
    cadre_compile_result_free(&result);
    cadre_compiler_free(compiler);
    compiler = NULL;
    ck_assert_int_ne(access(library, F_OK), 0);
    free(library);
}
END_TEST

START_TEST(preprocessed)
{
    cadre_error error = {0};
    cadre_compile_request request = helper_request("#include <stddef.h>\n#define TWO 2\n",
                                                   "#if TWO == 2\nint a = TWO;\n#endif\n");
    char *text = cadre_preprocess(compiler, &request, false, false, &error);
    ck_assert_msg(text != NULL, "%s", error.message);
    helper_contains(text, "int a = 2;");
    helper_contains(text, "size_t;");
    ck_assert_ptr_null(strstr(text, "#define TWO"));
    free(text);
    text = cadre_preprocess(compiler, &request, true, false, &error);
    ck_assert_ptr_nonnull(text);
    helper_contains(text, "#define TWO 2");
    helper_contains(text, "int a = 2;");
    free(text);
    text = cadre_preprocess(compiler, &request, false, true, &error);
    ck_assert_ptr_nonnull(text);
    helper_contains(text, "int a = TWO;");
    free(text);
    request = helper_request("#include <no_such_header.h>\n", "");
    ck_assert_ptr_null(cadre_preprocess(compiler, &request, false, false, &error));
    ck_assert_int_eq(error.code, CADRE_EINPUT);
    helper_contains(error.message, "no_such_header.h: No such file");
}
END_TEST

START_TEST(nothing_left_behind)
{
    cadre_compile_request good = helper_request("", "int x = 1;\n");
    cadre_compile_request bad = helper_request("", "int x = ;\n");
    cadre_compile_result result;
    helper_compile(compiler, &good, &result);
    cadre_compile_result_free(&result);
    int before = helper_count_files();
    for (int i = 0; i < 200; i++) {
        char source[60];
        snprintf(source, sizeof source, "int x = %d;\n", i);
        good.source = source;
        good.length = strlen(source);
        helper_compile(compiler, i % 10 ? &good : &bad, &result);
        ck_assert_int_eq(result.ok, i % 10 != 0);
        cadre_compile_result_free(&result);
    }
    ck_assert_int_eq(helper_count_files(), before);
    cadre_compiler_free(compiler);
    compiler = NULL;
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile");
    TCase *plain = tcase_create("verdicts");
    tcase_add_checked_fixture(plain, setup, teardown);
    tcase_set_timeout(plain, 60);
    tcase_add_test(plain, good_cell);
    tcase_add_test(plain, bad_cell);
    tcase_add_test(plain, warned_cell);
    tcase_add_test(plain, caret_from_the_named_file);
    tcase_add_test(plain, assembler_error);
    tcase_add_test(plain, refused_flags);
    tcase_add_test(plain, flags_are_heeded);
    tcase_add_test(plain, missing_compiler);
    tcase_add_test(plain, hung_compiler);
    tcase_add_test(plain, killed_compiler);
    tcase_add_test(plain, clang_compiles);
    tcase_add_test(plain, shared_library);
    tcase_add_test(plain, preprocessed);
    tcase_add_test(plain, nothing_left_behind);
    suite_add_tcase(suite, plain);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
