"""A kernel that nobody asks anything gives back its compiler's memory and takes it again."""
import os
import pathlib

import lab


def names(mark):
    found = []
    for pid in lab.marked(mark):
        try:
            found.append(pathlib.Path("/proc", str(pid), "comm").read_text().strip())
        except OSError:
            pass
    return found


def test_compiler_and_libclang_rest_and_come_back():
    mark = f"cadre-test-rest-{os.getpid()}"
    with lab.Kernel("cadre", env={"CADRE_BENCH_MARK": mark, "CADRE_REST_SECONDS": "1"}) as kernel:
        assert kernel.run("int kept = 3;").status == "ok"
        kernel.reply(kernel.client.complete("kep", 3))
        assert lab.eventually(lambda: "cc1" not in names(mark), 20)
        assert "cadre-assist" in names(mark), "libclang rests later than the compiler"
        # Any request on shell says that somebody is there.
        kernel.reply(kernel.client.is_complete("kept"))
        assert lab.eventually(lambda: "cc1" in names(mark), 20)
        assert lab.eventually(lambda: "cadre-assist" not in names(mark), 60)
        assert "cc1" not in names(mark)
        # A cell that comes first waits for the compiler.
        answer = kernel.run(f"static int fresh_{os.getpid()} = 4;\nkept + fresh_{os.getpid()}")
        assert answer.status == "ok" and answer.value == "7"
        assert kernel.reply(kernel.client.complete("kep", 3))["matches"] == ["kept"]


def test_a_long_cell_is_no_rest():
    mark = f"cadre-test-busy-{os.getpid()}"
    with lab.Kernel("cadre", env={"CADRE_BENCH_MARK": mark, "CADRE_REST_SECONDS": "1"}) as kernel:
        kernel.run("1")
        sent = kernel.send("#include <unistd.h>\nusleep(2500000);")
        assert lab.eventually(lambda: "cc1" in names(mark), 20)
        seen = set()
        while not kernel.client.shell_channel.msg_ready():
            seen.add("cc1" in names(mark))
        assert kernel.reply(sent)["status"] == "ok"
        assert seen == {True}


def test_never():
    mark = f"cadre-test-never-{os.getpid()}"
    settings = {"CADRE_BENCH_MARK": mark, "CADRE_REST_SECONDS": "0"}
    with lab.Kernel("cadre", env=settings) as kernel:
        kernel.run("1")
        assert not lab.eventually(lambda: "cc1" not in names(mark), 2)
