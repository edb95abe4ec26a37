"""Clients that people use beside JupyterLab: console, nbconvert, papermill."""
import html
import subprocess

import nbformat
import papermill
import pytest

import lab

CELLS = ("#include <stdio.h>\nint n = 3;", 'printf("%d < %d\\n", n, n + 1);', "n * 14")


def call(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=120, **options)


def test_console():
    run = call("jupyter", "console", "--kernel=cadre", "--simple-prompt",
               input='int n = 20;\nprintf("printed %d\\n", n);\nn + 22\nwrong(\nquit\n')
    text = lab.ANSI.sub("", run.stdout)
    assert run.returncode == 0, run.stderr
    assert "Cadre" in text and "printed 20" in text
    assert "Out[3]: 42" in text
    assert "error:" in lab.ANSI.sub("", run.stdout + run.stderr)


def test_nbconvert_runs_and_shows(tmp_path):
    path = lab.notebook(tmp_path / "note.ipynb", *CELLS)
    run = call("jupyter", "nbconvert", "--execute", "--to", "html", path)
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "note.html").read_text()
    assert html.escape("3 < 4") in text and "42" in text
    assert 'class="highlight' in text, "the lexer is known"


def test_nbconvert_writes_a_c_file(tmp_path):
    path = lab.notebook(tmp_path / "note.ipynb", *CELLS)
    run = call("jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", path)
    assert run.returncode == 0, run.stderr
    assert nbformat.read(path, 4).metadata.language_info["file_extension"] == ".c"
    run = call("jupyter", "nbconvert", "--to", "script", path)
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "note.c").read_text()
    assert [text.index(cell) for cell in CELLS] == sorted(text.index(cell) for cell in CELLS)


DEFAULTS = r'''int whole = 1;
long long large = 1;
unsigned char small = 1;
double real = 0.5;
float single = 0.5f;
bool flag = false;
char letter = 'a';
const char *text = "none";
char room[16] = "none";
int list[] = {1, 2};
double reals[3] = {0};
const char *words[] = {"a", "b", "c"};
'''
VALUES = {"whole": -7, "large": 2 ** 62, "small": 255, "real": 1e-3, "single": 0.25, "flag": True,
          "letter": "z", "text": 'quote " backslash \\ and € \n', "room": "short",
          "list": [5, 6], "reals": [0.5, 1, 2.25], "words": ["x", "y z", ""]}
SHOW = r'''printf("%d %lld %d %g %g %d %c\n", whole, large, small, real, single, flag, letter);
puts(text); puts(room);
for (size_t i = 0; i < sizeof list / sizeof *list; i++) printf("%d ", list[i]);
for (size_t i = 0; i < 3; i++) printf("%g ", reals[i]);
for (size_t i = 0; i < sizeof words / sizeof *words; i++) printf("[%s]", words[i]);
'''


def parameterised(path):
    lab.notebook(path, DEFAULTS, SHOW)
    notebook = nbformat.read(path, 4)
    notebook.cells[0].metadata.tags = ["parameters"]
    nbformat.write(notebook, path)
    return path


def test_papermill_gives_every_type(tmp_path):
    made = papermill.execute_notebook(parameterised(tmp_path / "in.ipynb"), tmp_path / "out.ipynb",
                                      parameters=VALUES, progress_bar=False)
    assert lab.outputs_text(made.cells[-1]) == (
        f"-7 {2 ** 62} 255 0.001 0.25 1 z\n" + VALUES["text"] + "\nshort\n"
        "5 6 0.5 1 2.25 [x][y z][]")
    assert made.metadata.papermill.parameters == VALUES


@pytest.mark.parametrize("name, value", [
    ("whole", 2 ** 31), ("whole", "seven"), ("whole", 1.5), ("small", 256), ("letter", "ab"),
    ("room", "longer than sixteen bytes"), ("reals", [1, 2, 3, 4]), ("list", 5), ("text", [1])])
def test_papermill_hears_what_does_not_fit(tmp_path, name, value):
    with pytest.raises(papermill.PapermillExecutionError) as failure:
        papermill.execute_notebook(parameterised(tmp_path / "in.ipynb"), tmp_path / "out.ipynb",
                                   parameters={name: value}, progress_bar=False)
    assert failure.value.ename == "ParameterError" and name in failure.value.evalue


def test_papermill_shows_what_can_be_given(tmp_path):
    run = call("papermill", "--help-notebook", parameterised(tmp_path / "in.ipynb"))
    assert run.returncode == 0, run.stderr
    for name, kind in {"large": "long long", "small": "unsigned char", "text": "const char *",
                       "room": "char[16]", "words": "const char *[]", "flag": "bool"}.items():
        assert f"{name}: {kind}" in run.stdout
