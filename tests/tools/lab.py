"""Helpers of the tests with real clients: a kernel, what it answered, what is left of it.

    with Kernel("cadre") as kernel:
        answer = kernel.run("6 * 7")
        assert answer.value == "42" and answer.status == "ok"
"""
import os
import pathlib
import queue
import re
import subprocess
import time

import nbformat
from jupyter_client.manager import KernelManager

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Answer:
    """Everything that came for one execute_request."""

    def __init__(self):
        self.stdout = self.stderr = ""
        self.value = self.reply = self.error = None
        self.messages = []
        self.seconds = 0.0

    @property
    def status(self):
        return self.reply["status"]

    @property
    def error_name(self):
        return self.error["ename"] if self.error else None

    @property
    def error_text(self):
        """ename, evalue and traceback without colours."""
        if not self.error:
            return ""
        return ANSI.sub("", "\n".join([self.error["ename"], self.error["evalue"],
                                       *self.error["traceback"]]))

    def take(self, message):
        kind, content = message["msg_type"], message["content"]
        self.messages.append(message)
        if kind == "stream":
            setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
        elif kind == "execute_result":
            self.value = content["data"].get("text/plain")
        elif kind == "error":
            self.error = content


class Kernel:
    """A kernel and a client of it. Ends with the block, by force if it must."""

    def __init__(self, name="cadre", env=None, **manager):
        self.manager = KernelManager(kernel_name=name, **manager)
        self.env = {**os.environ, **(env or {})}
        self.client = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.client:
            self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def start(self):
        self.manager.start_kernel(env=self.env)
        self.attach()

    def attach(self):
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=30)

    def restart(self, now=False):
        self.client.stop_channels()
        self.manager.restart_kernel(now=now)
        self.attach()

    def shutdown(self):
        """As a client asks for it; how many seconds it took."""
        begin = time.monotonic()
        self.client.stop_channels()
        self.client = None
        self.manager.shutdown_kernel(now=False)
        return time.monotonic() - begin

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def send(self, code, metadata=None, **content):
        message = self.client.session.msg("execute_request", {
            "code": code, "silent": False, "store_history": True, "user_expressions": {},
            "allow_stdin": False, "stop_on_error": True, **content}, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def collect(self, sent, timeout=30, during=None):
        """Waits for the idle and the reply of one request. `during(answer)` is called for each
        message of it."""
        answer, begin = Answer(), time.monotonic()
        while True:
            left = begin + timeout - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no idle within {timeout} s; came: "
                                   f"{[m['msg_type'] for m in answer.messages]}")
            try:
                message = self.client.get_iopub_msg(timeout=min(left, 0.2))
            except queue.Empty:
                if not self.manager.is_alive():
                    raise RuntimeError("the kernel is dead") from None
                continue
            if message["parent_header"].get("msg_id") != sent:
                continue
            answer.take(message)
            if during:
                during(answer)
            if message["msg_type"] == "status" and \
                    message["content"]["execution_state"] == "idle":
                break
        answer.seconds = time.monotonic() - begin
        answer.reply = self.reply(sent, max(1.0, timeout - answer.seconds))
        return answer

    def reply(self, sent, timeout=10, channel="shell"):
        get = getattr(self.client, f"get_{channel}_msg")
        end = time.monotonic() + timeout
        while True:
            message = get(timeout=max(0.01, end - time.monotonic()))
            if message["parent_header"].get("msg_id") == sent:
                return message["content"]

    def run(self, code, timeout=30, metadata=None, during=None, **content):
        return self.collect(self.send(code, metadata, **content), timeout, during)


def cadre(*arguments, **options):
    """The installed command line, with its output as text."""
    program = pathlib.Path(os.environ["CADRE_TEST_PREFIX"], "bin", "cadre")
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=options.pop("timeout", 120), stdin=subprocess.DEVNULL, **options)


def notebook(path, *cells, kernel="cadre", language="c"):
    """Writes a notebook of code cells; a cell is its text or (text, metadata)."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {
        "name": kernel, "display_name": kernel, "language": language}})
    for cell in cells:
        text, metadata = cell if isinstance(cell, tuple) else (cell, {})
        made.cells.append(nbformat.v4.new_code_cell(text, metadata=metadata))
    nbformat.write(made, path)
    return path


def outputs_text(cell):
    """Streams, values and errors of an executed cell as one text."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append(ANSI.sub("", f"{output.ename}: {output.evalue}\n" +
                                  "\n".join(output.traceback)))
        else:
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(parts)


def processes():
    """{pid: (parent, command line)} of this machine."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = pathlib.Path("/proc", pid, "stat").read_text()
            command = pathlib.Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        fields = status.rsplit(")", 1)[1].split()
        if fields[0] != "Z":
            found[int(pid)] = (int(fields[1]),
                               command.replace(b"\0", b" ").decode(errors="replace").strip())
    return found


def marked(mark):
    """Pids of the processes whose environment holds `mark`: everything a kernel started, however
    deep and whoever its parent is now."""
    found = []
    for pid in processes():
        try:
            if mark.encode() in pathlib.Path("/proc", str(pid), "environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def eventually(condition, timeout=5.0, step=0.05):
    """Polls until condition() is true; its last value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)
