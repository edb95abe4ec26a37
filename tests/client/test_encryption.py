"""CURVE encryption, when the client asks for it."""
import json

import pytest
import zmq

import lab


@pytest.fixture
def encrypted():
    with lab.Kernel(transport_encryption="required") as kernel:
        yield kernel


def test_an_encrypted_kernel_works(encrypted):
    with open(encrypted.manager.connection_file) as file:
        info = json.load(file)
    assert len(info["curve_publickey"]) == 40
    assert encrypted.run("6 * 7").value == "42"
    assert encrypted.client.hb_channel.is_beating()
    encrypted.restart()
    assert encrypted.run("5").value == "5"


def test_a_client_without_the_key_gets_nothing(encrypted):
    info = encrypted.manager.get_connection_info()
    for channel in ("shell", "control", "iopub", "stdin", "hb"):
        plain = zmq.Context.instance().socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
        plain.linger = 0
        plain.connect(f"tcp://127.0.0.1:{info[channel + '_port']}")
        if channel == "iopub":
            plain.subscribe(b"")
        else:
            plain.send_multipart([b"", b"ping"])
        assert not plain.poll(300), channel
        plain.close()
    assert encrypted.run("7").value == "7"
