"""What the tests with real clients share: kernels, processes, notebooks.

The environment says which installation is meant (./check sets it): JUPYTER_PATH finds the kernel,
CADRE_TEST_PREFIX its programs, CADRE_TEST_DATA the example data, CADRE_TEST_ARTEFACTS where to
keep what a person may want to look at.
"""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))

import lab  # noqa: E402  (a folder of ours)


@pytest.fixture
def kernel():
    """A started kernel of its own: kernel.run("6 * 7").value == "42"."""
    with lab.Kernel("cadre") as started:
        yield started


@pytest.fixture(scope="module")
def shared_kernel():
    """One kernel for the tests of a file that leave it as they found it."""
    with lab.Kernel("cadre") as started:
        yield started


@pytest.fixture
def cadre():
    """Runs the command line: cadre("env", "list") -> CompletedProcess with text."""
    return lab.cadre


@pytest.fixture(scope="session")
def artefacts():
    folder = pathlib.Path(os.environ.get("CADRE_TEST_ARTEFACTS", ROOT / "build" / "artefacts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
