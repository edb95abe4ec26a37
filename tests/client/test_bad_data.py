"""Data that is not what a cell hoped for: an error that names file, line and column."""
import pytest

# file contents, where the error must point (None: line and column do not apply), words in it
BAD = {
    "ragged, too few": (b"a,b,c\n1,2,3\n4,5\n6,7,8\n", 3, ["2", "3"]),
    "ragged, too many": (b"a,b\n1,2\n3,4,5\n", 3, ["3", "2"]),
    "an open quote": (b'a,b\n1,"never closed\n2,3\n', 2, ["quote"]),
    "text after a quote": (b'a,b\n1,"x"y\n', 2, ["quote"]),
    "a NUL": (b"a,b\n1,2\n3,\x004\n", 3, ["NUL"]),
    "two columns of one name": (b"a,b,a\n1,2,3\n", 1, ["a"]),
    "an empty file": (b"", None, ["empty"]),
}


@pytest.mark.parametrize("name", BAD)
def test_csv_files_that_are_refused(shared_kernel, tmp_path, name):
    contents, line, words = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(contents)
    answer = shared_kernel.run(f'cadre_read_csv("{path}");')
    assert answer.status == "error", "refused"
    assert "bad.csv" in answer.error_text
    if line:
        assert f"bad.csv:{line}:" in answer.error_text
    for word in words:
        assert word in answer.error_text


def test_a_wrong_type_names_its_place(shared_kernel, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text("n,v\n1,2\n2,oops\n3,4\n")
    answer = shared_kernel.run(f"""
        cadre_error wrong = {{0}};
        cadre_table *none = cadre_read_csv_with("{path}", &(cadre_csv_options){{
            .number_columns = (const char *const[]){{"v", NULL}}}}, &wrong);
        printf("%d %s %ld %ld\\n", none == NULL, wrong.message, wrong.line, wrong.column);""")
    assert answer.status == "ok", answer.error_text
    assert answer.stdout.startswith("1 ") and answer.stdout.strip().endswith(" 3 3")
    assert "types.csv:3:3" in answer.stdout and "oops" in answer.stdout


@pytest.mark.parametrize("contents", [b"a,b\n1,2\n3,4", b"a,b\r\n1,2\r\n3,4\r\n",
                                      b"\xef\xbb\xbfa,b\n1,2\n3,4\n", b'a,b\n1,"2"\n"3",4\n'])
def test_csv_files_that_are_fine(shared_kernel, tmp_path, contents):
    path = tmp_path / "good.csv"
    path.write_bytes(contents)
    answer = shared_kernel.run(f"""
        cadre_table *good = cadre_read_csv("{path}");
        printf("%zu %zu %g\\n", cadre_table_rows(good), cadre_table_columns(good),
               cadre_table_number(good, 1, 1));
        cadre_table_free(good);""")
    assert answer.stdout == "2 2 4\n", answer.error_text


def test_a_file_that_is_not_there(shared_kernel):
    answer = shared_kernel.run('cadre_read_csv("no/such/file.csv");')
    assert answer.status == "error" and "no/such/file.csv" in answer.error_text


def test_an_unknown_slice_column(shared_kernel, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("carrier,v\nUA,1\n")
    answer = shared_kernel.run(
        f'cadre_slices_by(cadre_read_csv("{path}"), "carrier", "airport");')
    assert answer.status == "error"
    assert "airport" in answer.error_text and "carrier" in answer.error_text


def test_a_slice_with_fewer_rows_than_features_is_listed(shared_kernel, tmp_path):
    path = tmp_path / "t.csv"
    rows = ["key,x,y,z,t"] + ["small,1,2,3,4"] * 2 + [f"big,{i},{i * i % 7},{i % 3},{2 * i}"
                                                      for i in range(50)]
    path.write_text("\n".join(rows) + "\n")
    answer = shared_kernel.run(f"""
        int few(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
        {{
            (void)user;
            cadre_ridge_options options = {{.target = "t", .alpha = 1,
                .numeric = (const char *const[]){{"x", "y", "z", NULL}}}};
            return cadre_ridge_fit(slice, &options, model, error);
        }}
        cadre_report *listed = cadre_loop(cadre_slices_by(cadre_read_csv("{path}"), "key"),
                                          (cadre_loop_options){{.train = few, .quiet = true}});
        for (size_t i = 0; i < cadre_report_slices(listed); i++)
            printf("%s|%s\\n", cadre_report_name(listed, i), cadre_report_message(listed, i));""")
    assert answer.status == "ok", answer.error_text
    lines = dict(line.split("|", 1) for line in answer.stdout.splitlines())
    assert "2" in lines["small"] and "4" in lines["small"], "with both numbers"


def test_a_crash_of_one_slice_is_reported_and_the_others_go_on(shared_kernel, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("key,v\na,1\nb,2\nc,3\n")
    answer = shared_kernel.run(f"""
        int crashing(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
        {{
            (void)user; (void)error;
            if (slice->name[0] == 'b') *(volatile int *)0 = 1;
            double one = 1;
            return cadre_model_set(model, "x", &one, 1);
        }}
        cadre_report *crashed = cadre_loop(cadre_slices_by(cadre_read_csv("{path}"), "key"),
            (cadre_loop_options){{.train = crashing, .is_multiple_processors = true,
                                  .cpu_count = 1, .quiet = true}});
        printf("%zu of %zu, b: %s\\n", cadre_report_models(crashed), cadre_report_slices(crashed),
               cadre_report_message(crashed, 1));""")
    assert answer.status == "ok", answer.error_text
    assert "2 of 3, b: " in answer.stdout and "SIGSEGV" in answer.stdout
