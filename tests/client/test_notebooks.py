"""The notebooks of the demo with nbclient and papermill, and their models."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import nbclient
import nbformat
import papermill
import pytest

import lab

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The layout that the notebooks expect: notebooks/ beside build/data/."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "build" / "results").mkdir(parents=True)
    (folder / "build" / "data").symlink_to(os.environ["CADRE_TEST_DATA"])
    return folder


def execute(work, name, **options):
    notebook = nbformat.read(work / "notebooks" / name, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="cadre",
                                     resources={"metadata": {"path": str(work / "notebooks")}},
                                     **options)
    client.execute()
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def worker(work, tmp_path_factory):
    """The worker, run by hand: its executed notebook."""
    return execute(work, "worker.ipynb")


def test_the_worker_by_hand(work, worker, artefacts):
    nbformat.write(worker, artefacts / "worker-nbclient.ipynb")
    report = [output for cell in worker.cells if cell.cell_type == "code"
              for output in cell.outputs if "text/html" in output.get("data", {})]
    assert report, "tables and reports are shown as HTML too"
    everything = "\n".join(lab.outputs_text(c) for c in worker.cells if c.cell_type == "code")
    assert "336776" in everything.replace(",", "") and "UA/EWR" in everything
    assert list((work / "build" / "models").glob("**/*.safetensors"))


def test_the_controller(work, artefacts):
    notebook = execute(work, "controller.ipynb")
    nbformat.write(notebook, artefacts / "controller-nbclient.ipynb")
    everything = "\n".join(lab.outputs_text(c) for c in notebook.cells if c.cell_type == "code")
    assert "yes, the same digest" in everything
    for name in ("worker-one-process.ipynb", "worker-many-processes.ipynb"):
        nbformat.validate(nbformat.read(work / "build" / "results" / name, as_version=4))
    one = sorted((work / "build" / "results" / "models-one-process").rglob("*.safetensors"))
    many = sorted((work / "build" / "results" / "models-many-processes").rglob("*.safetensors"))
    assert len(one) >= 30 and [p.name for p in one] == [p.name for p in many]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in many]


def test_papermill_with_parameters(work, tmp_path, artefacts):
    out = artefacts / "worker-papermill.ipynb"
    made = papermill.execute_notebook(
        str(work / "notebooks" / "worker.ipynb"), str(out), cwd=str(work / "notebooks"),
        parameters={"data_slice": "UA/EWR", "models_folder": str(tmp_path / "models"),
                    "alpha": 2}, progress_bar=False)
    tags = [c.metadata.get("tags", []) for c in made.cells]
    assert ["injected-parameters"] in tags
    assert len(list((tmp_path / "models").rglob("*.safetensors"))) == 1


def test_papermill_refuses_what_does_not_fit(work, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError) as failure:
        papermill.execute_notebook(
            str(work / "notebooks" / "worker.ipynb"), str(tmp_path / "out.ipynb"),
            cwd=str(work / "notebooks"), parameters={"cpu_count": "three"}, progress_bar=False)
    assert "ParameterError" in str(failure.value) and "cpu_count" in str(failure.value)


def test_papermill_help():
    run = subprocess.run(["papermill", "--help-notebook", ROOT / "notebooks" / "worker.ipynb"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0
    for name in ("is_multiple_processors: bool", "cpu_count: int", "data_path: const char *"):
        assert name in run.stdout
    assert "processes, when is_multiple_processors" in run.stdout


def test_every_model_is_that_of_pandas_and_numpy(work, worker):
    """Every slice is fitted again from the same CSV by other programs, or listed with a reason."""
    run = subprocess.run([sys.executable, ROOT / "tests" / "client" / "check_models.py",
                          work / "build" / "data" / "flights.csv", work / "build" / "models"],
                         capture_output=True, text=True, timeout=300)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    passed, failed = re.search(r"(\d+) passed, (\d+) failed$", run.stdout.strip()).groups()
    assert int(passed) > 1000 and int(failed) == 0
