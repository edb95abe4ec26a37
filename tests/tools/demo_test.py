#!/usr/bin/env python3
"""./demo as a person runs it: twice, and what it leaves. Ends with `N passed, N failed`."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "results"


def demo():
    """Without the folders and variables of the tests, and without those of the user."""
    with tempfile.TemporaryDirectory(prefix="cadre-demo-home-") as home:
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("CADRE_", "JUPYTER", "VIRTUAL_ENV", "XDG_"))}
        env["HOME"] = home
        begin = time.monotonic()
        done = subprocess.run([ROOT / "demo"], capture_output=True, text=True, env=env,
                              stdin=subprocess.DEVNULL)
        return done, time.monotonic() - begin


def texts(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error", f"{path}: {output.evalue}"
            found.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(found)


def first_run_ends_well():
    done, seconds = demo()
    print(done.stdout, done.stderr)
    print(f"first run: {seconds:.1f} s")
    assert done.returncode == 0
    assert "build/results" in done.stdout and "./demo --lab" in done.stdout
    assert "byte-equal" in done.stdout, "the table is shown"


def second_run_takes_less_than_a_minute():
    done, seconds = demo()
    print(f"NOTE: second ./demo: {seconds:.1f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert seconds < 60


def controller_shows_both_modes():
    shown = texts(RESULTS / "controller.ipynb")
    assert "yes, the same digest" in shown
    figure = re.search(r"speed-up.*?([0-9]+\.[0-9]+)", shown)
    print("NOTE: speed-up with 2 processes:", figure.group(1) if figure else "not found")
    assert re.search(r"slices\D+35\D+35", shown), shown
    assert "OO/EWR" in shown, "the slice that is too small is listed with the reason"


def workers_are_kept_with_their_reports():
    for name in ("worker-one-process.ipynb", "worker-many-processes.ipynb"):
        shown = texts(RESULTS / name)
        assert "UA/EWR" in shown, name


def models_of_both_modes_are_equal():
    one, many = (sorted((RESULTS / f"models-{name}").rglob("*.safetensors"))
                 for name in ("one-process", "many-processes"))
    assert len(one) >= 30 and [p.name for p in one] == [p.name for p in many]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in many]
    manifest = json.loads((RESULTS / "models-one-process" / "manifest.json").read_text())
    assert len(manifest["models"]) == len(one)


def source_tree_stays_as_it_was():
    changed = subprocess.run(["git", "status", "--porcelain", "notebooks", "kernelspec"], cwd=ROOT,
                             capture_output=True, text=True)
    if changed.returncode == 0:
        assert changed.stdout == BEFORE, changed.stdout


BEFORE = subprocess.run(["git", "status", "--porcelain", "notebooks", "kernelspec"], cwd=ROOT,
                        capture_output=True, text=True).stdout
TESTS = [first_run_ends_well, second_run_takes_less_than_a_minute, controller_shows_both_modes,
         workers_are_kept_with_their_reports, models_of_both_modes_are_equal,
         source_tree_stays_as_it_was]


def main():
    failed = 0
    for test in TESTS:
        try:
            test()
            print("ok  ", test.__name__)
        except Exception as problem:
            failed += 1
            print("FAIL", test.__name__, f"{type(problem).__name__}: {problem}"[:3000])
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
