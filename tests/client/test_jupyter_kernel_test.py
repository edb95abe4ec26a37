"""The kernel against jupyter_kernel_test, the Jupyter project's own tests."""
import jupyter_kernel_test


class TestCadre(jupyter_kernel_test.KernelTests):
    kernel_name = "cadre"
    language_name = "c"
    file_extension = ".c"
    code_hello_world = 'printf("hello, world\\n");'
    code_stderr = 'fprintf(stderr, "to stderr\\n");'
    code_generate_error = "undeclared_name + 1"
    code_execute_result = [
        {"code": "6 * 7", "result": "42"},
        {"code": "20.0", "result": "20.0"},
        {"code": '"text"', "result": '"text"'},
    ]
    complete_code_samples = ["1 + 1", "int x = 1;", "for (int i = 0; i < 3; i++) puts(\"\");",
                             "int f(void) { return 1; }"]
    incomplete_code_samples = ["for (int i = 0; i < 3; i++) {", "int f(void) {", "printf(\"a\",",
                               "/* a comment"]
    invalid_code_samples = ["int x = );", "}"]

    # What the kernel does not offer yet has no test here; a sample makes the test come back.
    test_completion = None
    test_pager = None
    test_display_data = None
    test_history = None
    test_inspect = None
    test_clear_output = None


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "cadre"
    support_iopub_welcome = True
