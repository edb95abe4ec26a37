"""The notebooks of the demo with nbclient and papermill, and their models against numpy."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import nbclient
import nbformat
import numpy
import pandas
import papermill
import pytest
import safetensors
import safetensors.numpy

import lab

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMERIC = ["dep_delay", "distance", "hour", "month"]


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


# ---- the same models, from the same file, by pandas and numpy --------------------------------


def refit(rows, alpha=1.0):
    """The stated model, and its errors on the held-out rows."""
    rows = rows.dropna(subset=["arr_delay", *NUMERIC, "dest"])
    held = rows["day"] % 5 == 0
    train, test = rows[~held], rows[held]
    mean = train[NUMERIC].mean()
    scale = train[NUMERIC].std(ddof=0)
    levels = sorted(train["dest"].unique())

    def design(part):
        safe = scale.where(scale > 0, 1.0)
        numeric = (part[NUMERIC] - mean) / safe * (scale > 0)
        onehot = [(part["dest"] == level).to_numpy(float) for level in levels]
        return numpy.column_stack([numeric.to_numpy(), *onehot])

    x, y = design(train), train["arr_delay"].to_numpy()
    centre, middle = x.mean(axis=0), y.mean()
    gram = (x - centre).T @ (x - centre) + alpha * numpy.eye(x.shape[1])
    coefficients = numpy.linalg.solve(gram, (x - centre).T @ (y - middle))
    intercept = middle - centre @ coefficients
    coefficients[:len(NUMERIC)] *= (scale > 0).to_numpy()
    wrong = design(test) @ coefficients + intercept - test["arr_delay"].to_numpy()
    plain = middle - test["arr_delay"].to_numpy()
    return {"coefficients": coefficients, "intercept": intercept, "levels": levels,
            "rows_train": len(train), "rows_test": len(test),
            "error": numpy.sqrt(numpy.mean(wrong ** 2)),
            "error_mean": numpy.sqrt(numpy.mean(plain ** 2))}


@pytest.fixture(scope="module")
def flights():
    frame = pandas.read_csv(pathlib.Path(os.environ["CADRE_TEST_DATA"], "flights.csv"),
                            keep_default_na=False, na_values=["NA", ""])
    return {f"{carrier}/{origin}": rows for (carrier, origin), rows
            in frame.groupby(["carrier", "origin"])}


def test_pandas_sees_the_slices_that_the_issue_names(flights):
    assert len(flights) == 35
    assert min(map(len, flights.values())) == 6 and max(map(len, flights.values())) == 46087


@pytest.fixture(scope="module")
def manifest(work, worker):
    with open(work / "build" / "models" / "manifest.json") as file:
        return json.load(file)


def test_every_slice_has_a_model_or_a_reason(manifest, flights):
    text = json.dumps(manifest)
    trained = {m["name"] for m in manifest["models"]}
    assert len(trained) == len(manifest["models"]) >= 30
    for name, rows in flights.items():
        whole = rows.dropna(subset=["arr_delay", *NUMERIC, "dest"])
        train = whole[whole["day"] % 5 != 0]
        needed = len(NUMERIC) + train["dest"].nunique() + 1
        small = len(train) < needed or len(train) == len(whole)
        assert (name in trained) != small, f"{name}: {len(train)} rows, {needed} needed"
        assert json.dumps(name)[1:-1] in text, f"{name} is not listed"


def test_files_are_what_the_manifest_says(work, manifest):
    for model in manifest["models"]:
        data = (work / "build" / "models" / model["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == model["sha256"], model["name"]


def test_every_coefficient_and_error_is_numpys(work, manifest, flights):
    worst_coefficient = worst_error = 0.0
    for model in manifest["models"]:
        path = work / "build" / "models" / model["file"]
        tensors = safetensors.numpy.load_file(path)
        expected = refit(flights[model["name"]])
        ours = numpy.append(tensors["coefficients"], tensors["intercept"])
        theirs = numpy.append(expected["coefficients"], expected["intercept"])
        assert ours.shape == theirs.shape, model["name"]
        with safetensors.safe_open(path, framework="numpy") as file:
            features = json.loads(file.metadata()["features"])
        assert features == NUMERIC + [f"dest={level}" for level in expected["levels"]]
        away = numpy.max(numpy.abs(ours - theirs)) / numpy.max(numpy.abs(theirs[:-1]))
        worst_coefficient = max(worst_coefficient, away)
        for name in ("error", "error_mean"):
            away = abs(model["metrics"][name] / expected[name] - 1)
            worst_error = max(worst_error, away)
            assert away < 1e-9, (model["name"], name)
        for name in ("rows_train", "rows_test"):
            assert model["metrics"][name] == expected[name], (model["name"], name)
    print(f"largest difference: coefficients {worst_coefficient:.1e}, errors {worst_error:.1e}")
    assert worst_coefficient < 1e-9
