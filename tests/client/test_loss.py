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
