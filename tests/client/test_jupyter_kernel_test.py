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

    completion_samples = [
        {"text": "cadre_model_encod", "matches": {"cadre_model_encode"}},
        {"text": "int x = fprint", "matches": {"fprintf"}},
        {"text": "%pkg-", "matches": {"%pkg-config"}},
    ]
    code_page_something = "printf?"
    code_display_data = [
        {"code": 'cadre_display_html("<b>bold</b>", "bold");', "mime": "text/html"},
        {"code": 'cadre_display_bundle("{\\"image/svg+xml\\": \\"<svg/>\\"}", NULL);',
         "mime": "image/svg+xml"},
    ]
    supported_history_operations = ("tail", "range", "search")
    code_history_pattern = "6 ? 7"
    code_inspect_sample = "printf"
    code_clear_output = "cadre_display_clear(false);"

    def test_every_sample_is_given(self):
        """A test of the suite without a sample is skipped in silence."""
        for name in dir(jupyter_kernel_test.KernelTests):
            if name.startswith(("code_", "supported_")) or name.endswith("_samples"):
                assert getattr(self, name), name


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "cadre"
    support_iopub_welcome = True
