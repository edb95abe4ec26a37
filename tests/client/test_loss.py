"""The host was killed from outside: the user learns why, in the next reply and in a log."""
import os
import re
import signal

import lab


def hosts(kernel):
    return [pid for pid, (_, command) in lab.processes().items()
            if "cadre-host" in command.split(" ")[0] and descends(pid, kernel.pid)]


def descends(pid, ancestor):
    known = lab.processes()
    while pid in known and pid != ancestor:
        pid = known[pid][0]
    return pid == ancestor


def end(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def logged(text, folder):
    path = re.search(r"\(log: (.*?)\)", text).group(1)
    assert path == str(folder / "cadre" / "kernel.log")
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as file:
        return file.read()


def killed_while_running(kernel):
    """The answer of a cell whose processes are killed, once, as soon as it is heard of."""
    victims = []

    def kill(answer):
        if "begun" in answer.stdout and not victims:
            victims.extend(hosts(kernel))
            end(victims)

    return kernel.run('#include <unistd.h>\nputs("begun"); fflush(stdout); sleep(20);', timeout=15,
                      during=kill)


def goes_on(kernel):
    """The kernel answers. A copy that took over and was killed then is told to the next cell."""
    answer = kernel.run("1 + 1")
    if answer.error:
        assert "killed" in answer.error["evalue"]
        answer = kernel.run("1 + 1")
    assert answer.value == "2"


def test_while_a_cell_runs(tmp_path):
    with lab.Kernel(env={"XDG_STATE_HOME": str(tmp_path)}) as kernel:
        kernel.run("int a = 1;")
        answer = killed_while_running(kernel)
        assert answer.error_name == "SIGKILL" and "killed" in answer.error["evalue"]
        assert "killed" in logged(answer.reply["evalue"], tmp_path)
        goes_on(kernel)


def test_between_two_cells(tmp_path):
    with lab.Kernel(env={"XDG_STATE_HOME": str(tmp_path)}) as kernel:
        kernel.run("int a = 1;")
        end(hosts(kernel))
        lab.eventually(lambda: (tmp_path / "cadre" / "kernel.log").exists())
        answer = kernel.run("a")
        assert "killed" in answer.stderr
        text = logged(answer.stderr, tmp_path)
        assert "killed" in text and str(kernel.pid) in text
        assert kernel.run("2 + 2").stderr == "", "told once"


def test_without_a_folder_for_the_log(tmp_path):
    (tmp_path / "file").write_text("")
    with lab.Kernel(env={"XDG_STATE_HOME": str(tmp_path / "file")}) as kernel:
        answer = killed_while_running(kernel)
        assert answer.error_name == "SIGKILL" and "log:" not in answer.error_text


def test_the_kernel_itself_was_killed(tmp_path):
    """The one that is started in its place, with the same connection file, says so; once."""
    with lab.Kernel(env={"XDG_STATE_HOME": str(tmp_path)}) as kernel:
        assert kernel.run("int kept = 4;").status == "ok"
        marks = tmp_path / "cadre" / "running"
        [mark] = list(marks.iterdir())
        assert mark.stat().st_mode & 0o777 == 0o600
        first = kernel.pid
        kernel.manager.restart_kernel(now=True)  # SIGKILL
        kernel.client.wait_for_ready(timeout=60)
        answer = kernel.run("1 + 1")
        assert answer.value == "2"
        assert f"The kernel before this one (process {first}) ended without a word" in answer.stderr
        assert "all variables are lost" in answer.stderr
        assert f"process {first}) ended without a word" in logged(answer.stderr, tmp_path)
        assert kernel.run("1 + 1").stderr == ""
        # One that ends in order says nothing, and leaves no mark.
        kernel.manager.restart_kernel(now=False)
        kernel.client.wait_for_ready(timeout=60)
        assert kernel.run("1 + 1").stderr == ""
        assert len(list(marks.iterdir())) == 1
        kernel.shutdown()
        assert lab.eventually(lambda: not list(marks.iterdir()), 10)


def test_marks_of_kernels_that_are_gone_are_swept(tmp_path):
    marks = tmp_path / "cadre" / "running"
    marks.mkdir(parents=True)
    (marks / "0123").write_text("999999999 1 0 0 /nowhere/kernel-x.json\n")
    (marks / "broken").write_bytes(b"\xff\x00 no mark")
    (marks / "empty").write_text("")
    with lab.Kernel(env={"XDG_STATE_HOME": str(tmp_path)}) as kernel:
        assert kernel.run("1 + 1").stderr == ""
        assert len(list(marks.iterdir())) == 1
