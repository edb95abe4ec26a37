"""Messages that no honest client sends: each is dropped, none harms the kernel."""
import hashlib
import hmac
import json
import socket
import time
import uuid
from datetime import datetime, timezone

import pytest
import zmq

import lab

DELIMITER = b"<IDS|MSG>"


class Wire:
    """A DEALER of our own on one of the kernel's sockets: any frames go."""

    def __init__(self, kernel, channel="shell"):
        info = kernel.manager.get_connection_info()
        self.key = info["key"]
        self.address = ("127.0.0.1", info[f"{channel}_port"])
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(f"tcp://{self.address[0]}:{self.address[1]}")

    def close(self):
        self.socket.close()

    def parts(self, kind="kernel_info_request", content=None, **header):
        head = {"msg_id": str(uuid.uuid4()), "session": "hostile", "username": "x",
                "date": datetime.now(timezone.utc).isoformat(), "msg_type": kind,
                "version": "5.4", **header}
        return [json.dumps(p).encode() for p in (head, {}, {}, content or {})]

    def sign(self, parts):
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(part)
        return mac.hexdigest().encode()

    def send(self, parts, signature=None):
        self.socket.send_multipart([DELIMITER, signature or self.sign(parts), *parts])

    def answered(self, timeout=300):
        return self.socket.poll(timeout) != 0


@pytest.fixture(scope="module")
def kernel(shared_kernel):
    yield shared_kernel
    assert shared_kernel.run("40 + 2").value == "42", "still alive after all of it"


@pytest.fixture(params=["shell", "control"])
def wire(kernel, request):
    made = Wire(kernel, request.param)
    yield made
    made.close()


def test_this_client_is_answered_when_it_is_honest(wire):
    wire.send(wire.parts())
    assert wire.answered(5000)


def test_wrong_key(wire):
    wire.key = b"not the key"
    wire.send(wire.parts())
    wire.send(wire.parts("execute_request", {"code": "int broken_in = 1;", "silent": False}))
    assert not wire.answered()


def test_a_wrong_key_runs_nothing(kernel, wire):
    wire.key = b"not the key"
    wire.send(wire.parts("execute_request", {"code": "int broken_in = 1;", "silent": False}))
    assert not wire.answered()
    assert kernel.run("broken_in").error_name == "CompileError"


@pytest.mark.parametrize("signature", [b"", b"0", b"f" * 64, b"g" * 64, b"f" * 100000])
def test_bad_signatures(wire, signature):
    wire.socket.send_multipart([DELIMITER, signature, *wire.parts()])
    assert not wire.answered()


def test_replayed(wire):
    parts = wire.parts()
    wire.send(parts)
    assert wire.answered(5000)
    wire.socket.recv_multipart()
    wire.send(parts)
    assert not wire.answered()


def test_replayed_cell_runs_once(kernel):
    wire = Wire(kernel)
    kernel.run("int replayed = 0;")
    parts = wire.parts("execute_request", {"code": "replayed++;", "silent": False,
                                           "store_history": True})
    wire.send(parts)
    assert wire.answered(5000)
    wire.send(parts)
    time.sleep(0.3)
    wire.close()
    assert kernel.run("replayed").value == "1"


FRAMES = {
    "nothing": [],
    "empty frame": [b""],
    "only a delimiter": [DELIMITER],
    "no delimiter": [b"a", b"b", b"c", b"d", b"e", b"f"],
    "too few parts": [DELIMITER, b"0" * 64, b"{}"],
    "a thousand identities": [b"id"] * 1000 + [DELIMITER, b"0" * 64, b"{}", b"{}", b"{}", b"{}"],
    "ten thousand empty frames": [b""] * 10000,
}


@pytest.mark.parametrize("frames", FRAMES.values(), ids=FRAMES.keys())
def test_malformed_frames(wire, frames):
    wire.socket.send_multipart(frames or [b""])
    assert not wire.answered(200)


CONTENTS = {
    "not JSON": [b"{", b"{}", b"{}", b"{}"],
    "arrays for objects": [b"[]", b"[]", b"[]", b"[]"],
    "null parts": [b"null"] * 4,
    "header without a type": [b'{"msg_id": "1", "session": "s"}', b"{}", b"{}", b"{}"],
    "a number for the type": [b'{"msg_id": 1, "msg_type": 5, "session": []}', b"{}", b"{}", b"{}"],
    "deep nesting": [b'{"a":' * 100000 + b"1" + b"}" * 100000, b"{}", b"{}", b"{}"],
    "not UTF-8": [b'{"msg_id": "\xff\xfe"}', b"{}", b"{}", b"{}"],
}


@pytest.mark.parametrize("parts", CONTENTS.values(), ids=CONTENTS.keys())
def test_malformed_parts_with_a_good_signature(kernel, wire, parts):
    wire.send(parts)
    time.sleep(0.1)
    assert kernel.manager.is_alive()


WRONG = {
    "code is a number": {"code": 5},
    "code is missing": {},
    "code is null": {"code": None, "silent": None, "store_history": "yes"},
    "flags of the wrong kind": {"code": "1", "silent": [], "user_expressions": 4,
                                "allow_stdin": {}, "stop_on_error": "x"},
    "a NUL in the code": {"code": "int a\u0000b = 1;"},
    "a lone surrogate": {"code": "puts(\"\ud83d\");"},
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG.keys())
def test_execute_requests_of_the_wrong_shape(kernel, content):
    wire = Wire(kernel)
    wire.send(wire.parts("execute_request", content))
    assert wire.answered(10000), "answered, be it with an error"
    wire.close()
    assert kernel.manager.is_alive()


def test_oversized(kernel, wire):
    wire.send(wire.parts(content={"padding": "x" * (80 << 20)}))
    assert not wire.answered(1000)
    assert kernel.manager.is_alive()


@pytest.mark.parametrize("bytes_", [b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096, b"\x00" * 64])
def test_bytes_that_are_no_zeromq(kernel, wire, bytes_):
    with socket.create_connection(wire.address, timeout=2) as raw:
        raw.sendall(bytes_)
        raw.settimeout(0.3)
        try:
            while raw.recv(4096):
                pass
        except OSError:
            pass
    assert kernel.manager.is_alive()


def test_a_reconnecting_client_with_the_same_name_is_heard(kernel):
    for _ in range(3):
        wire = Wire(kernel)
        wire.socket.close()
        wire.socket = zmq.Context.instance().socket(zmq.DEALER)
        wire.socket.linger = 0
        wire.socket.setsockopt(zmq.IDENTITY, b"same name")
        wire.socket.connect(f"tcp://{wire.address[0]}:{wire.address[1]}")
        wire.send(wire.parts())
        assert wire.answered(5000)
        # Not closed in order: the next one comes while the kernel still knows this one.


@pytest.mark.parametrize("broken", ["shell_port", "key", "transport", "signature_scheme", "all"])
def test_broken_connection_files_are_refused(tmp_path, broken):
    import os
    import pathlib
    import subprocess
    good = {"shell_port": 0, "iopub_port": 0, "stdin_port": 0, "control_port": 0, "hb_port": 0,
            "ip": "127.0.0.1", "key": "k", "transport": "tcp", "signature_scheme": "hmac-sha256"}
    bad = {"shell_port": 70000, "key": ["k"], "transport": "pigeon",
           "signature_scheme": "hmac-none"}
    path = tmp_path / "connection.json"
    path.write_text("not JSON" if broken == "all" else json.dumps({**good, broken: bad[broken]}))
    path.chmod(0o600)
    program = pathlib.Path(os.environ["CADRE_TEST_PREFIX"], "bin", "cadre-kernel")
    run = subprocess.run([program, path], capture_output=True, text=True, timeout=10)
    assert run.returncode not in (0, -11, -6)
    assert str(path) in run.stderr and (broken == "all" or broken in run.stderr)


def test_the_key_is_in_no_log_and_no_other_can_read_the_file(kernel):
    import os
    assert os.stat(kernel.manager.connection_file).st_mode & 0o077 == 0
    key = kernel.manager.session.key
    for pid in (kernel.pid,):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert key not in file.read()
