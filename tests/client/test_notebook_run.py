"""Running notebooks in kernels of any language: outputs, failures, time limits, what is left."""
import json
import os
import pathlib
import signal
import subprocess
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import lab

MARK = "CADRE_TEST_MARK"


@pytest.fixture
def place(tmp_path, monkeypatch, request):
    """A folder whose kernels can be found by a mark and whose runtime folder is its own."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv(MARK, request.node.name + str(os.getpid()))
    yield tmp_path
    mark = f"{MARK}={os.environ[MARK]}"
    assert lab.eventually(lambda: not lab.marked(mark)), "a process was left"
    assert not list((tmp_path / "runtime").glob("*")), "a connection file was left"


def python_notebook(path, *cells):
    made = new_notebook(cells=[c if isinstance(c, dict) else new_code_cell(c) for c in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "P", "language": "python"}
    nbformat.write(made, path)
    return path


def run(place, path, *arguments, out="out.ipynb"):
    done = lab.cadre("run", path, "-o", place / out, *arguments)
    executed = None
    if (place / out).exists():
        executed = nbformat.read(place / out, as_version=4)
        nbformat.validate(executed)
    return done, executed


def test_outputs_of_every_kind(place):
    path = python_notebook(
        place / "in.ipynb", new_markdown_cell("# text"),
        "import sys; print('out'); print('err', file=sys.stderr)",
        "",
        "from IPython.display import *\n"
        "h = display(HTML('<b>first</b>'), display_id='d')",
        "update_display(HTML('<b>second</b>'), display_id='d')",
        "print('gone'); clear_output(wait=True); print('kept')",
        new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}),
        new_code_cell("no such thing", metadata={"tags": ["skip-execution"]}),
        "{'a': 1}",
        "display({'application/vnd.cadre.return+json': {'answer': 42}}, raw=True)")
    done, executed = run(place, path)
    assert done.returncode == 0, done.stderr
    cells = executed.cells
    assert [c.get("execution_count") for c in cells] == [None, 1, None, 2, 3, 4, 5, None, 6, 7]
    assert {o.name: o.text for o in cells[1].outputs} == {"stdout": "out\n", "stderr": "err\n"}
    assert cells[3].outputs[0].data["text/html"] == "<b>second</b>"
    assert [o.text for o in cells[5].outputs] == ["kept\n"]
    assert cells[6].outputs[0].ename == "ZeroDivisionError"
    assert cells[7].outputs == []
    assert cells[8].outputs[0].output_type == "execute_result"
    assert executed.metadata.language_info.name == "python"
    assert executed.metadata.kernelspec.name == "python3"
    assert json.loads(done.stdout.splitlines()[-1]) == {"answer": 42}
    assert "out\n" in done.stdout and "err\n" in done.stderr
    assert list(cells[1].metadata.execution) == sorted(
        ["iopub.status.busy", "iopub.execute_input", "iopub.status.idle", "shell.execute_reply"])


def test_parameters_are_in_the_metadata_of_every_request(place):
    made = new_notebook(cells=[
        new_code_cell("get_ipython().parent_header"),
        new_code_cell("m = get_ipython().kernel.get_parent('shell')['metadata']\n"
                      "print(m['cadre']['parameters'], m['cellId'], m['tags'])",
                      metadata={"tags": ["t"], "cadre": {"parameters": {"b": 20, "c": 30}}})])
    made.metadata.kernelspec = {"name": "python3", "display_name": "P"}
    made.metadata.cadre = {"parameters": {"a": 1, "b": 2, "c": 3}}
    nbformat.write(made, place / "in.ipynb")
    (place / "more.json").write_text('{"c": 300, "d": [1, null]}')
    done, executed = run(place, place / "in.ipynb", "-f", place / "more.json", "-p", "e=x=y",
                         "-r", "f=7", "-p", 'g="7"', "-p", "h=-1.5e3")
    assert done.returncode == 0, done.stderr
    expected = {"a": 1, "b": 20, "c": 300, "d": [1, None], "e": "x=y", "f": "7", "g": "7",
                "h": -1500.0}
    assert executed.cells[1].outputs[0].text == f"{expected} {made.cells[1].id} ['t']\n"


def test_a_failed_cell(place):
    path = python_notebook(place / "in.ipynb", "print(1)", "raise ValueError('bad')", "print(3)")
    done, executed = run(place, path)
    assert done.returncode == 1
    assert "In[2] ValueError: bad" in done.stderr and str(place / "out.ipynb") in done.stderr
    assert executed.cells[1].outputs[0].output_type == "error"
    assert executed.cells[2].execution_count is None and executed.cells[2].outputs == []


def test_a_kernel_that_dies(place):
    path = python_notebook(place / "in.ipynb", "print('last words', flush=True)",
                           "import os; os.kill(os.getpid(), 9)")
    done, executed = run(place, path)
    assert done.returncode == 1
    assert "In[2] the kernel died: killed by SIGKILL" in done.stderr
    assert executed.cells[0].outputs[0].text == "last words\n"


def test_a_cell_that_takes_too_long(place):
    path = python_notebook(place / "in.ipynb", "print('begun'); import time; time.sleep(100)")
    begin = time.monotonic()
    done, executed = run(place, path, "--timeout", "1.5")
    assert done.returncode == 1 and "In[1] did not end within 1.5 s" in done.stderr
    assert time.monotonic() - begin < 15
    assert executed.cells[0].outputs[0].text == "begun\n"


def test_a_child_that_the_kernel_left_is_ended_too(place):
    path = python_notebook(
        place / "in.ipynb",
        "import subprocess; subprocess.Popen(['sleep', '1000']).pid")
    done, executed = run(place, path)
    assert done.returncode == 0
    child = int(executed.cells[0].outputs[0].data["text/plain"])
    assert lab.eventually(lambda: not pathlib.Path("/proc", str(child)).exists())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_kernel(place, number):
    path = python_notebook(place / "in.ipynb", "print(1)", "import time; time.sleep(100)")
    program = pathlib.Path(os.environ["CADRE_TEST_PREFIX"], "bin", "cadre")
    process = subprocess.Popen([program, "run", path, "-o", place / "out.ipynb"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "1\n"
    time.sleep(0.3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130 and "interrupted in In[2]" in errors
    executed = nbformat.read(place / "out.ipynb", as_version=4)
    assert executed.cells[0].outputs[0].text == "1\n"


def test_the_kernel_ends_when_its_controller_is_killed(place):
    path = python_notebook(place / "in.ipynb", "print(1)", "import time; time.sleep(100)")
    program = pathlib.Path(os.environ["CADRE_TEST_PREFIX"], "bin", "cadre")
    process = subprocess.Popen([program, "run", path, "-o", place / "out.ipynb"],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "1\n"
    process.kill()
    process.wait()
    mark = f"{MARK}={os.environ[MARK]}"
    assert lab.eventually(lambda: not lab.marked(mark), timeout=10)
    for left in (place / "runtime").glob("*"):  # nobody was there to remove it
        left.unlink()


def test_the_notebook_stays_as_it_was_without_an_output(place):
    path = python_notebook(place / "in.ipynb", "print(1)")
    before = path.read_bytes()
    done = lab.cadre("run", path, "--quiet")
    assert done.returncode == 0 and done.stdout == ""
    assert path.read_bytes() == before
    executed = nbformat.read(place / "in-executed.ipynb", as_version=4)
    assert executed.cells[0].outputs[0].text == "1\n"


def test_an_output_over_the_notebook_itself(place):
    path = python_notebook(place / "in.ipynb", "print(1)")
    done, executed = run(place, path, out="in.ipynb")
    assert done.returncode == 0 and executed.cells[0].outputs[0].text == "1\n"
    assert [p.name for p in place.iterdir() if p.name != "runtime"] == ["in.ipynb"]


@pytest.mark.parametrize("arguments", [
    [], ["a.ipynb", "b.ipynb"], ["-p", "x", "a.ipynb"], ["-p", "=1", "a.ipynb"],
    ["--timeout", "soon", "a.ipynb"], ["--timeout", "0", "a.ipynb"], ["--nonsense", "a.ipynb"],
    ["-f", "/no/such/file.json", "a.ipynb"]])
def test_wrong_calls(arguments):
    done = lab.cadre("run", *arguments)
    assert done.returncode == 2 and done.stderr and not done.stdout
