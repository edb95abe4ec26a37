"""Inputs outlive their session, and never stand in the way of running cells."""
import os
import sqlite3
import time

import lab


def ask(kernel, **content):
    sent = kernel.client.history(**content)
    return [tuple(entry) for entry in kernel.reply(sent)["history"]]


def own(path, **more):
    return {"XDG_DATA_HOME": str(path), **more}


def test_a_later_kernel_knows_the_inputs(tmp_path):
    with lab.Kernel(env=own(tmp_path)) as kernel:
        kernel.run("int a = 41;")
        kernel.run("a + 1")
        kernel.run("int hidden = 1;", store_history=False)
        kernel.run("int silent = 1;", silent=True)
        kernel.run("broken(")
        kernel.shutdown()
    file = tmp_path / "cadre" / "history.sqlite"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    with sqlite3.connect(file) as base:
        assert base.execute("SELECT session, num_cmds FROM sessions WHERE end IS NOT NULL") \
            .fetchall() == [(1, 3)]
        assert base.execute("SELECT line, source, source_raw FROM history").fetchall() == \
            [(n, text, text) for n, text in enumerate(["int a = 41;", "a + 1", "broken("], 1)]
    with lab.Kernel(env=own(tmp_path)) as kernel:
        kernel.run("int a = 41;")
        assert ask(kernel, hist_access_type="tail", n=2, raw=True, output=False) == \
            [(1, 3, "broken("), (2, 1, "int a = 41;")]
        assert ask(kernel, hist_access_type="range", session=-1, start=2, stop=3, output=True) == \
            [(1, 2, ["a + 1", "42"])]
        assert ask(kernel, hist_access_type="search", pattern="*a*", unique=True) == \
            [(1, 2, "a + 1"), (2, 1, "int a = 41;")]
        assert len(ask(kernel, hist_access_type="search", pattern="*a*")) == 3


def test_kernels_at_once_write_one_history(tmp_path):
    with lab.Kernel(env=own(tmp_path)) as one, lab.Kernel(env=own(tmp_path)) as other:
        for n in range(3):
            assert one.run(f"{n} + 1").status == other.run(f"{n} + 10").status == "ok"
        assert [entry[2] for entry in ask(one, hist_access_type="range", session=0)] == \
            ["0 + 1", "1 + 1", "2 + 1"]
        assert len(ask(other, hist_access_type="tail", n=100)) == 6


def test_a_lock_that_stays_costs_no_cell(tmp_path):
    with lab.Kernel(env=own(tmp_path)) as kernel:
        kernel.run("int first = 1;")
        assert ask(kernel, hist_access_type="tail", n=5) == [(1, 1, "int first = 1;")]
        with sqlite3.connect(tmp_path / "cadre" / "history.sqlite", isolation_level=None) as base:
            base.execute("BEGIN EXCLUSIVE")
            begin = time.monotonic()
            for n in range(5):
                assert kernel.run(f"first + {n}").value == str(1 + n)
            assert time.monotonic() - begin < 4
            assert kernel.shutdown() < 2.0
            base.execute("ROLLBACK")
        base.close()


def test_a_damaged_file_is_set_aside(tmp_path):
    folder = tmp_path / "cadre"
    folder.mkdir()
    (folder / "history.sqlite").write_bytes(b"this is no database" * 500)
    with lab.Kernel(env=own(tmp_path)) as kernel:
        assert kernel.run("1 + 1").value == "2"
        assert ask(kernel, hist_access_type="tail", n=5) == [(1, 1, "1 + 1")]
    names = sorted(p.name for p in folder.iterdir())
    assert names[0] == "history.sqlite" and names[1].startswith("history.sqlite.damaged-")


def test_without_a_folder_the_session_has_its_history(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    for env in (own(blocked), {"CADRE_HISTORY": ""}, {"XDG_DATA_HOME": "", "HOME": "/nonexistent"}):
        with lab.Kernel(env=env) as kernel:
            assert kernel.run("1 + 1").value == "2"
            assert ask(kernel, hist_access_type="tail", n=5, output=True) == [(1, 1, ["1 + 1", "2"])]
    assert os.listdir(tmp_path) == ["file"] and not os.path.exists("/nonexistent")
