"""Many clients, many messages, clients that do not read: memory stays bounded, and who is honest
is served. Small in ./check, in full with ./check --long."""
import os
import socket
import time

import pytest
import zmq
from jupyter_client import BlockingKernelClient

import lab
from test_hostile import DELIMITER, Wire

LONG = os.environ.get("CADRE_TEST_LONG") == "yes"
MESSAGES = 1_000_000 if LONG else 10_000
CLIENTS = 200
MB = 1 << 20


def memory(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def kernel():
    with lab.Kernel() as started:
        assert started.run("1").value == "1"
        yield started
        assert started.run("40 + 2").value == "42"


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_very_many_small_messages(kernel, signed):
    """A kernel_info_request each, in batches, so that the test's own memory is bounded, too."""
    wire, before = Wire(kernel), memory(kernel.pid)
    if not signed:
        wire.key = b"wrong"
    batch = 1000
    for _ in range(MESSAGES // batch):
        for _ in range(batch):
            wire.send(wire.parts())
        for _ in range(batch if signed else 0):
            assert wire.answered(20000)
            wire.socket.recv_multipart()
    wire.close()
    assert kernel.run("2 + 3", timeout=120).value == "5"
    assert memory(kernel.pid) - before < 64 * MB


def test_very_many_questions_whose_answers_nobody_reads(kernel):
    """Neither the answers nor the state messages about them: memory stays bounded, an honest client
    is served, and what it runs afterwards is published whole."""
    number = 1_000_000 if LONG else 60_000
    deaf = Wire(kernel)
    before, highest = memory(kernel.pid), 0
    for n in range(number):
        deaf.socket.send_multipart([DELIMITER, deaf.sign(parts := deaf.parts()), *parts])
        if n % 20000 == 19999:
            answer = kernel.client.session.msg("kernel_info_request", {})
            kernel.client.control_channel.send(answer)
            assert kernel.reply(answer["header"]["msg_id"], 60, "control")["status"] == "ok"
            highest = max(highest, memory(kernel.pid) - before)
    deaf.close()
    assert highest < 150 * MB, f"{highest / MB:.0f} MB"
    assert kernel.run("2 + 3", timeout=300).value == "5"


def test_a_client_that_never_reads(kernel):
    """Its subscription stands and its socket is full; another client reads all and sees all."""
    info, before = kernel.manager.get_connection_info(), memory(kernel.pid)
    context = zmq.Context()
    deaf = context.socket(zmq.SUB)
    deaf.linger = 0
    deaf.rcvhwm = 1
    deaf.setsockopt(zmq.RCVBUF, 4096)
    deaf.connect(f"tcp://127.0.0.1:{info['iopub_port']}")
    deaf.subscribe(b"")
    time.sleep(0.5)
    sent = kernel.send('for (int i = 0; i < 3000000; i++) puts("a line of forty characters, or so");')
    highest = 0
    end = time.monotonic() + 6
    while time.monotonic() < end:
        highest = max(highest, memory(kernel.pid))
        time.sleep(0.2)
    assert highest - before < 64 * MB, "the cell waits, the kernel does not grow"
    message = kernel.client.session.msg("kernel_info_request", {})
    kernel.client.control_channel.send(message)
    assert kernel.reply(message["header"]["msg_id"], 5, "control")["status"] == "ok"
    kernel.manager.interrupt_kernel()
    deaf.close()
    context.term()
    assert kernel.collect(sent, timeout=60).reply["status"] in ("ok", "error")


def test_half_open_connections(kernel):
    """Connections on which nothing, or half a greeting, was said, and that stay."""
    info, open_ = kernel.manager.get_connection_info(), []
    for channel in ("shell", "control", "stdin", "iopub", "hb"):
        for greeting in (b"", b"\xff", b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03"):
            for _ in range(5):
                raw = socket.create_connection(("127.0.0.1", info[f"{channel}_port"]), timeout=2)
                raw.sendall(greeting)
                open_.append(raw)
    assert kernel.run("6 * 7").value == "42"
    assert kernel.client.hb_channel.is_beating()
    for raw in open_:
        raw.close()


def test_many_clients_at_once(kernel):
    before = descriptors(kernel.pid)
    wires = [Wire(kernel, ("shell", "control")[n % 2]) for n in range(CLIENTS)]
    for wire in wires:
        wire.send(wire.parts())
    for wire in wires:
        assert wire.answered(20000)
        assert b"kernel_info_reply" in b"".join(wire.socket.recv_multipart())
    assert kernel.run("6 * 7").value == "42"
    for wire in wires:
        wire.close()
    assert lab.eventually(lambda: descriptors(kernel.pid) <= before + 5), "closed with its client"


def test_every_client_sees_every_output(kernel):
    """Some of many clients listen: each gets each message, once, in order."""
    # Not the manager's: those share one identity, and the newest takes the place of the others.
    clients = [BlockingKernelClient(connection_file=kernel.manager.connection_file)
               for _ in range(8)]
    for client in clients:
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=30)
    sent = kernel.send('for (int i = 0; i < 2000; i++) printf("%d\\n", i);')
    wanted = "".join(f"{n}\n" for n in range(2000))
    for client in clients:
        text = ""
        while True:
            message = client.get_iopub_msg(timeout=20)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            if message["content"].get("execution_state") == "idle":
                break
        assert text == wanted
        client.stop_channels()
    assert kernel.collect(sent).stdout == wanted
