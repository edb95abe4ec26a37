"""Parts of the protocol that jupyter_kernel_test does not ask for."""
import datetime


def ask(kernel, kind, content=None, channel="control"):
    message = kernel.client.session.msg(kind, content or {})
    getattr(kernel.client, f"{channel}_channel").send(message)
    return kernel.reply(message["header"]["msg_id"], channel=channel)


def test_user_expressions_are_cells_of_their_own(shared_kernel):
    kernel = shared_kernel
    answer = kernel.run("int u = 20;", user_expressions={
        "sum": "u + 22", "wrong": "u +", "crash": "*(volatile int *)8", "kept": "u", "number": 5})
    got = answer.reply["user_expressions"]
    assert got["sum"] == {"status": "ok", "data": {"text/plain": "42"}, "metadata": {}}
    assert got["kept"]["data"] == {"text/plain": "20"}, "a crash of one leaves the others"
    for name, error in {"wrong": "CompileError", "crash": "SIGSEGV", "number": "ValueError"}.items():
        assert got[name]["status"] == "error" and got[name]["ename"] == error
        assert got[name]["evalue"] and got[name]["traceback"]
    assert answer.status == "ok" and answer.value is None and answer.error is None
    assert kernel.run("u").value == "20"
    failed = kernel.run("undeclared;", user_expressions={"u": "u"})
    assert failed.status == "error" and failed.reply["user_expressions"] == {}


def test_replies_say_when_they_were_started(shared_kernel):
    message = shared_kernel.client.session.msg("execute_request", {
        "code": "#include <unistd.h>\nusleep(200000);", "silent": False, "store_history": True,
        "user_expressions": {}, "allow_stdin": False, "stop_on_error": True})
    shared_kernel.client.shell_channel.send(message)
    while True:
        reply = shared_kernel.client.get_shell_msg(timeout=20)
        if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
            break
    started = datetime.datetime.fromisoformat(reply["metadata"]["started"].replace("Z", "+00:00"))
    assert started <= reply["header"]["date"] - datetime.timedelta(seconds=0.2)


DISPLAYS = r"""
#include <cadre.h>
cadre_display_bundle("{\"text/plain\": \"first\"}", "an id");
printf("between\n");
cadre_display_update("{\"text/plain\": \"second\"}", "an id");
cadre_display_clear(true);
cadre_display_html("<b>last</b>", "last");
"""


def test_displays_have_ids_updates_and_an_order(shared_kernel):
    answer = shared_kernel.run(DISPLAYS)
    assert answer.status == "ok", answer.error_text
    shown = [(m["msg_type"], m["content"]) for m in answer.messages
             if m["msg_type"] not in ("status", "execute_input")]
    assert [kind for kind, _ in shown] == \
        ["display_data", "stream", "update_display_data", "clear_output", "display_data"]
    for at, text in ((0, "first"), (2, "second")):
        assert shown[at][1]["data"] == {"text/plain": text}
        assert shown[at][1]["transient"] == {"display_id": "an id"}
    assert shown[3][1] == {"wait": True}
    assert shown[4][1]["data"] == {"text/html": "<b>last</b>", "text/plain": "last"}


def test_usage_has_every_process(shared_kernel):
    shared_kernel.run("1")
    usage = ask(shared_kernel, "usage_request")
    names = [p["name"] for p in usage["processes"]]
    assert "cadre-kernel" in names and "cadre-host" in names
    assert usage["pid"] == shared_kernel.pid
    assert abs(sum(p["memory"] for p in usage["processes"]) - usage["kernel_memory"]) < 10
    assert all(p["memory"] >= 0 and p["cpu_seconds"] >= 0 for p in usage["processes"])
    # One that is just ending has no memory any more; these two live.
    assert all(p["memory"] > 0 for p in usage["processes"]
               if p["name"] == "cadre-kernel" or p["pid"] == usage["pid"])


def test_no_subshells_are_promised(shared_kernel):
    info = ask(shared_kernel, "kernel_info_request")
    assert info["protocol_version"] == "5.5" and info["supported_features"] == []


def test_numbers_beyond_64_bits_cost_nothing(shared_kernel):
    big = {"strange": 2 ** 70, "deep": [{"n": -2 ** 65}]}
    assert shared_kernel.run("1 + 2", metadata=big).value == "3"
