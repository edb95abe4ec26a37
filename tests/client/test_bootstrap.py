"""./bootstrap without root, and when everything is there."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def somebody(tmp_path):
    """A copy of what bootstrap reads, on a machine where this user is not root: `id` and
    `dpkg-query` are ours. somebody(installed) -> CompletedProcess."""
    for name in ("bootstrap", "kernelspec/requirements.txt", "tests/requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "id").write_text("#!/bin/sh\necho 1000\n")
    (tools / "apt-get").write_text("#!/bin/sh\necho apt-get was called >&2\nexit 1\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)

    def run(installed, *arguments):
        query = tools / "dpkg-query"
        query.write_text("#!/bin/sh\nshift 2\nfor p; do\n"
                         f"case ' {installed} ' in *\" $p \"*) echo \"installed $p\";; esac\n"
                         "done\nexit 1\n")
        query.chmod(0o755)
        return subprocess.run([tmp_path / "bootstrap", *arguments], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "PATH": f"{tools}:/usr/bin:/bin"})
    return run


def test_without_root_it_prints_the_one_line_to_run(somebody):
    run = somebody("gcc python3")
    assert run.returncode == 1
    lines = [line for line in run.stdout.splitlines() if line.startswith("apt-get install")]
    assert len(lines) == 1
    words = lines[0].split()
    assert "libzmq3-dev" in words and "gcc" not in words and "chromium" not in words
    assert "apt-get was called" not in run.stderr


def test_the_tests_need_more(somebody):
    words = somebody("gcc python3", "--tests").stdout.split()
    assert "check" in words and "chromium" in words


def test_it_says_how_it_is_called():
    run = subprocess.run([ROOT / "bootstrap", "--nonsense"], capture_output=True, text=True)
    assert run.returncode == 2 and "./bootstrap --tests" in run.stdout


def test_when_everything_is_there_it_ends_at_once():
    begin = time.monotonic()
    run = subprocess.run([ROOT / "bootstrap", "--tests"], capture_output=True, text=True)
    assert run.returncode == 0 and time.monotonic() - begin < 2
