"""Starting, stopping, restarting, interrupting: as clients do it, and what is left afterwards."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

import pytest
from jupyter_client import BlockingKernelClient

import lab

LONG = os.environ.get("CADRE_TEST_LONG") == "yes"
ROUNDS = 1000 if LONG else 10     # with a cell, through Jupyter's manager
STARTS = 10000 if LONG else 200   # the program alone


def shared_memory():
    return {str(p) for p in pathlib.Path("/dev/shm").glob("*cadre*")}


def test_starts_and_stops_leave_nothing(tmp_path):
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    name, value = mark.split("=")
    before = shared_memory()
    for round_ in range(ROUNDS):
        with lab.Kernel(env={name: value, "TMPDIR": str(tmp_path)}) as kernel:
            assert kernel.run(f"int n = {round_}; n + 1").value == str(round_ + 1)
            assert len(lab.marked(mark)) >= 2, "front and host are two processes"
            seconds = kernel.shutdown()
            assert seconds < 2.0, f"shutdown took {seconds:.1f} s"
        assert lab.eventually(lambda: not lab.marked(mark)), \
            [lab.processes().get(pid) for pid in lab.marked(mark)]
    assert shared_memory() <= before
    assert list(tmp_path.iterdir()) == []


def bare_start(folder, number, environment):
    """The program without a manager, which takes far longer than the kernel: (process, file)."""
    path = folder / f"kernel-{number}.json"
    path.write_text(json.dumps({
        "transport": "tcp", "ip": "127.0.0.1", "key": "k", "signature_scheme": "hmac-sha256",
        "shell_port": 0, "iopub_port": 0, "stdin_port": 0, "control_port": 0, "hb_port": 0}))
    path.chmod(0o600)
    program = pathlib.Path(os.environ["CADRE_TEST_PREFIX"], "bin", "cadre-kernel")
    return subprocess.Popen([program, "-f", path], env={**os.environ, **environment},
                            stdin=subprocess.DEVNULL), path


def ports(path):
    info = json.loads(path.read_text())
    return [info[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")]


@contextlib.contextmanager
def client_of(path):
    client = BlockingKernelClient(connection_file=str(path))
    client.load_connection_file()
    client.start_channels()
    try:
        yield client
    finally:
        client.stop_channels()


def control(client, kind, content):
    message = client.session.msg(kind, content)
    client.control_channel.send(message)
    return client.control_channel.get_msg(timeout=10)["content"]


def test_very_many_starts_and_stops(tmp_path):
    """Every second one is stopped by a message, the others by a signal, at any moment."""
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**dict([mark.split("=")]), "TMPDIR": str(temporary)}
    for number in range(STARTS):
        process, path = bare_start(tmp_path, number, environment)
        if number % 2 == 0:
            assert lab.eventually(lambda: all(ports(path)), step=0.002)
            with client_of(path) as client:
                assert control(client, "shutdown_request", {"restart": False})["status"] == "ok"
        else:
            time.sleep(number % 40 * 0.002)
            process.terminate()
        status = process.wait(timeout=10)
        # A signal that comes before the program has said what it means to it ends it at once.
        assert status == 0 or number % 2 and status == -signal.SIGTERM
        path.unlink()
    assert lab.eventually(lambda: not lab.marked(mark)), \
        [lab.processes().get(pid) for pid in lab.marked(mark)]
    assert list(temporary.iterdir()) == []


def test_many_kernels_at_once(tmp_path):
    """No two choose the same port, all answer, all end."""
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    started = [bare_start(tmp_path, number, dict([mark.split("=")])) for number in range(32)]
    assert lab.eventually(lambda: all(all(ports(path)) for _, path in started), timeout=30)
    chosen = [port for _, path in started for port in ports(path)]
    assert len(chosen) == len(set(chosen)) == 32 * 5
    for process, path in started:
        with client_of(path) as client:
            assert control(client, "kernel_info_request", {})["implementation"] == "cadre"
            control(client, "shutdown_request", {"restart": False})
    for process, _ in started:
        assert process.wait(timeout=30) == 0
    assert lab.eventually(lambda: not lab.marked(mark))


def test_shutdown_while_a_cell_runs():
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    with lab.Kernel(env=dict([mark.split("=")])) as kernel:
        kernel.send("#include <unistd.h>\nfor (;;) sleep(1);")
        time.sleep(0.5)
        assert kernel.shutdown() < 4
    assert lab.eventually(lambda: not lab.marked(mark))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_everything_ends_with_the_front(number):
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    with lab.Kernel(env=dict([mark.split("=")])) as kernel:
        kernel.send("#include <unistd.h>\nfor (;;) sleep(1);")
        assert lab.eventually(lambda: len(lab.marked(mark)) >= 2)
        os.kill(kernel.pid, number)
        assert lab.eventually(lambda: not lab.marked(mark)), \
            [lab.processes().get(pid) for pid in lab.marked(mark)]


def test_restart_is_a_clean_kernel_on_the_same_ports(kernel):
    before = kernel.manager.get_connection_info()
    assert kernel.run("int gone = 1; gone").value == "1"
    kernel.restart()
    assert kernel.manager.get_connection_info() == before
    assert kernel.run("gone").error_name == "CompileError"
    answer = kernel.run("3 * 3")
    assert answer.value == "9" and answer.reply["execution_count"] == 2


def test_interrupt_keeps_the_state(kernel):
    assert kernel.run("volatile long steps = 0;").status == "ok"
    sent = kernel.send("for (;;) steps++;")
    time.sleep(0.5)
    begin = time.monotonic()
    kernel.manager.interrupt_kernel()
    answer = kernel.collect(sent, timeout=5)
    assert time.monotonic() - begin < 1.0
    assert answer.error_name == "KeyboardInterrupt"
    assert kernel.run("steps > 0").value == "1"


def test_interrupt_by_message(kernel):
    sent = kernel.send("#include <unistd.h>\nsleep(30);")
    time.sleep(0.5)
    message = kernel.client.session.msg("interrupt_request", {})
    kernel.client.control_channel.send(message)
    assert kernel.reply(message["header"]["msg_id"], channel="control")["status"] == "ok"
    assert kernel.collect(sent, timeout=5).error_name == "KeyboardInterrupt"


def test_interrupts_of_an_idle_kernel_do_nothing(kernel):
    assert kernel.run("int v = 5;").status == "ok"
    for _ in range(5):
        kernel.manager.interrupt_kernel()
        time.sleep(0.05)
    assert kernel.run("v").value == "5"


def test_queued_cells_are_aborted_after_an_error(kernel):
    failing = kernel.send("#include <unistd.h>\nusleep(300000);\nundeclared();")
    waiting = [kernel.send(f"puts(\"{n}\");") for n in range(3)]
    assert kernel.collect(failing).status == "error"
    for sent in waiting:
        answer = kernel.collect(sent)
        assert answer.status == "aborted" and answer.stdout == ""
    assert kernel.run("1 + 1").value == "2"


def test_answers_come_while_a_cell_runs(kernel):
    sent = kernel.send("#include <unistd.h>\nsleep(2);")
    time.sleep(0.3)
    message = kernel.client.session.msg("kernel_info_request", {})
    begin = time.monotonic()
    kernel.client.control_channel.send(message)
    reply = kernel.reply(message["header"]["msg_id"], channel="control")
    assert time.monotonic() - begin < 0.5
    assert reply["status"] == "ok" and reply["language_info"]["name"] == "c"
    assert kernel.client.hb_channel.is_beating()
    kernel.manager.interrupt_kernel()
    kernel.collect(sent)


def test_order_of_messages(kernel):
    answer = kernel.run('printf("a\\n"); 5')
    kinds = [m["msg_type"] for m in answer.messages]
    assert kinds[0] == "status" and kinds[-1] == "status"
    assert kinds[1] == "execute_input"
    assert kinds.index("stream") < kinds.index("execute_result")
    assert len({m["header"]["session"] for m in answer.messages}) == 1
    assert len({m["header"]["msg_id"] for m in answer.messages}) == len(answer.messages)


def test_silent_and_unstored_cells(kernel):
    count = kernel.run("1").reply["execution_count"]
    answer = kernel.run("int quiet = 3; quiet", silent=True, store_history=False)
    assert answer.value is None
    assert "execute_input" not in [m["msg_type"] for m in answer.messages]
    assert kernel.run("quiet").reply["execution_count"] == count + 1


def test_unknown_and_comm_requests(kernel):
    for kind, content in (("no_such_request", {}),
                          ("comm_open", {"comm_id": "c1", "target_name": "nobody", "data": {}}),
                          ("comm_msg", {"comm_id": "c1", "data": {}})):
        message = kernel.client.session.msg(kind, content)
        kernel.client.shell_channel.send(message)
        seen = []
        while not seen or seen[-1] != "idle":
            got = kernel.client.get_iopub_msg(timeout=5)
            if got["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                seen.append(got["content"].get("execution_state", got["msg_type"]))
        assert seen[0] == "busy"
        assert ("comm_close" in seen) == (kind == "comm_open")
    assert kernel.run("1 + 2").value == "3"


def test_what_was_printed_before_a_crash_comes_once(kernel):
    """A thread writes out what a cell has printed every 16 ms: also at the moment of a crash."""
    for number in range(100):
        answer = kernel.run(f"""
            #include <time.h>
            struct timespec begin, now;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            printf("before the crash\\n");
            do clock_gettime(CLOCK_MONOTONIC, &now);
            while ((now.tv_sec - begin.tv_sec) * 1000000000l + now.tv_nsec - begin.tv_nsec
                   < {15000000 + number * 7919 * 37 % 3000000}l);
            *(volatile int *)0 = 1;""")
        assert answer.error_name == "SIGSEGV"
        assert answer.stdout == "before the crash\n", number
