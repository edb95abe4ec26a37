"""`cadre run`: notebooks of any kernel from the shell, and everything that is wrong with one."""
import json

import nbformat
import pytest

import lab


@pytest.fixture
def run(cadre, tmp_path):
    """Runs a notebook; (CompletedProcess, executed notebook or None)."""
    def go(path, *arguments):
        out = tmp_path / "out.ipynb"
        done = cadre("run", path, "-o", out, *arguments)
        executed = None
        if out.exists():
            executed = nbformat.read(out, as_version=4)
            nbformat.validate(executed)
            assert (executed.nbformat, executed.nbformat_minor) == (4, 5)
        return done, executed
    return go


def test_parameters_and_outputs(run, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb",
                        'int cpu_count = 1;\nconst char *label = "none";\ndouble rate = 0.5;',
                        'printf("%d %s %g\\n", cpu_count, label, rate);', "cpu_count * 2")
    done, executed = run(path, "-p", "cpu_count=2", "-p", "label=a b", "-p", "rate=0.25")
    assert done.returncode == 0, done.stderr
    first, second, third = executed.cells
    assert "2 a b 0.25" in lab.outputs_text(second)
    assert lab.outputs_text(third).strip() == "4"
    assert [c.execution_count for c in executed.cells] == [1, 2, 3]
    assert third.outputs[0].execution_count == 3
    for cell in executed.cells:
        times = cell.metadata.execution
        assert times["iopub.status.busy"] <= times["iopub.execute_input"] \
            <= times["iopub.status.idle"]
    before = nbformat.read(path, as_version=4)
    assert [c.source for c in before.cells] == [c.source for c in executed.cells]
    assert [c.id for c in before.cells] == [c.id for c in executed.cells]
    assert executed.metadata.language_info.name == "c"


def test_the_notebooks_own_parameters_are_weaker(run, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", "int a = 1, b = 1, c = 1;",
                        'printf("%d %d %d\\n", a, b, c);')
    made = nbformat.read(path, as_version=4)
    made.metadata["cadre"] = {"parameters": {"a": 5, "b": 6}}
    nbformat.write(made, path)
    done, executed = run(path, "-p", "b=7")
    assert done.returncode == 0, done.stderr
    assert "5 7 1" in lab.outputs_text(executed.cells[1])


def test_an_unknown_parameter_is_refused_before_anything_runs(run, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", 'int epochs = 1; puts("ran");')
    done, executed = run(path, "-p", "epoch=3")
    assert done.returncode != 0 and "epoch" in done.stderr
    assert executed is None


def test_a_failed_cell_stops_the_run(run, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", 'puts("one");', "nonsense();", 'puts("three");')
    done, executed = run(path)
    assert done.returncode != 0
    assert "CompileError" in done.stderr and "nonsense" in done.stderr
    assert "one" in lab.outputs_text(executed.cells[0])
    assert executed.cells[1].outputs[0].output_type == "error"
    assert not executed.cells[2].outputs and executed.cells[2].execution_count is None


def test_a_python_notebook_too(run, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", "print(6 * 7)", "{'a': 1}", kernel="python3",
                        language="python")
    done, executed = run(path)
    assert done.returncode == 0, done.stderr
    assert lab.outputs_text(executed.cells[0]).strip() == "42"


def test_a_worker_returns_a_value_to_its_controller(kernel, tmp_path):
    worker = lab.notebook(tmp_path / "worker.ipynb", "int n = 1;",
                          'char text[80]; snprintf(text, sizeof text, "{\\"square\\": %d}", n * n);',
                          "cadre_notebook_return(text);")
    answer = kernel.run(f"""
        cadre_notebook_result *r = cadre_notebook_run("{worker}",
            (cadre_notebook_options){{.parameters = "{{\\"n\\": 12}}", .quiet = true}});
        printf("%d %s %zu\\n", r->ok, r->value, r->cells);
        cadre_notebook_result_free(r);""", timeout=60)
    assert answer.status == "ok", answer.error_text
    ok, value = answer.stdout.split(" ", 1)
    value, cells = value.strip().rsplit(" ", 1)
    assert (ok, json.loads(value), cells) == ("1", {"square": 144}, "3")


def test_a_worker_that_fails_is_an_error_of_the_controllers_cell(kernel, tmp_path):
    worker = lab.notebook(tmp_path / "worker.ipynb", "*(volatile int *)0 = 1;")
    answer = kernel.run(f'cadre_notebook_run("{worker}", (cadre_notebook_options){{0}});',
                        timeout=60)
    assert answer.status == "error"
    assert "SIGSEGV" in answer.error_text and "In[1]" in answer.error_text
    assert kernel.run("1").value == "1"


def broken(tmp_path, what):
    path = tmp_path / "broken.ipynb"
    good = json.loads(lab.notebook(tmp_path / "good.ipynb", "1").read_text())
    if what == "not there":
        return path
    if what == "not JSON":
        path.write_text('{"cells": [')
    elif what == "empty":
        path.write_text("")
    elif what == "a list":
        path.write_text("[]")
    elif what == "nbformat 3":
        path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {},
                                    "worksheets": []}))
    elif what == "no cells":
        del good["cells"]
        path.write_text(json.dumps(good))
    elif what == "a cell that is a number":
        good["cells"] = [5]
        path.write_text(json.dumps(good))
    elif what == "a folder":
        path.mkdir()
    elif what == "kernel not installed":
        good["metadata"]["kernelspec"]["name"] = "no-such-kernel"
        path.write_text(json.dumps(good))
    return path


@pytest.mark.parametrize("what", [
    "not there", "not JSON", "empty", "a list", "nbformat 3", "no cells",
    "a cell that is a number", "a folder", "kernel not installed"])
def test_what_is_no_notebook(run, tmp_path, what):
    path = broken(tmp_path, what)
    done, executed = run(path)
    assert done.returncode not in (0, -6, -11)
    expected = "no-such-kernel" if what == "kernel not installed" else "broken.ipynb"
    assert expected in done.stderr
    assert executed is None, "nothing half-written"
    assert [p.name for p in tmp_path.iterdir() if "out" in p.name] == []


def test_an_output_that_cannot_be_written(cadre, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", 'puts("1");')
    done = cadre("run", path, "-o", path / "nowhere" / "out.ipynb")
    assert done.returncode != 0 and "nowhere" in done.stderr


def test_help_and_wrong_use(cadre):
    assert cadre("--help").returncode == 0 and "run" in cadre("--help").stdout
    assert cadre("run").returncode == 2
    assert cadre("nonsense").returncode == 2
    assert cadre("--version").stdout.startswith("cadre ")
