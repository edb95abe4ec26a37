"""jupyter_client 7, which distributions still ship, against the kernel: a process of its own."""
import os
import pathlib
import subprocess
import sys

SCRIPT = r'''
import jupyter_client, sys, time
assert jupyter_client.__version__.startswith("7."), jupyter_client.__version__
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="cadre", startup_timeout=60)

def run(code, **more):
    got = []
    reply = client.execute_interactive(code, timeout=60, output_hook=got.append, **more)
    text = "".join(m["content"]["text"] for m in got if m["msg_type"] == "stream")
    value = [m["content"]["data"]["text/plain"] for m in got if m["msg_type"] == "execute_result"]
    return reply["content"], text, value

try:
    assert client.kernel_info(reply=True, timeout=30)["content"]["language_info"]["name"] == "c"
    assert run('int n = 20; puts("hello"); n + 1') [1:] == ("hello\n", ["21"])
    reply, _, _ = run("*(volatile int *)0 = 1;")
    assert reply["status"] == "error" and reply["ename"] == "SIGSEGV", reply
    assert run("n")[2] == ["20"]
    reply, text, _ = run('int m; scanf("%d", &m); printf("%d\\n", m * 2);', allow_stdin=True,
                         stdin_hook=lambda message: client.input("4"))
    assert reply["status"] == "ok" and text == "8\n", (reply, text)
    assert "printf" in client.complete("prin", reply=True, timeout=30)["content"]["matches"]
    assert client.inspect("n", 1, reply=True, timeout=30)["content"]["found"]
    sent = client.is_complete("int f() {")
    while True:
        reply = client.get_shell_msg(timeout=30)
        if reply["parent_header"]["msg_id"] == sent:
            break
    assert reply["content"]["status"] == "incomplete", reply["content"]
    assert client.history(reply=True, timeout=30, hist_access_type="tail", n=1)["content"]["history"]
    sent = client.execute("for (;;) ;")
    while True:
        message = client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "execute_input":
            break
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"]["msg_id"] == sent:
            break
    assert reply["content"]["ename"] == "KeyboardInterrupt", reply["content"]
    manager.restart_kernel()
    client.wait_for_ready(timeout=60)
    assert run("int n = 3; n")[2] == ["3"]
finally:
    client.stop_channels()
    manager.shutdown_kernel()
assert not manager.is_alive()
print("all well")
'''


def test_jupyter_client_7():
    old = pathlib.Path(os.environ["CADRE_TEST_DATA"]).parent / "client7"
    assert (old / "jupyter_client").is_dir(), f"{old} is missing: ./bootstrap --tests makes it"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], text=True, timeout=180,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(old)})
    assert done.returncode == 0 and done.stdout.strip() == "all well", done.stdout + done.stderr
