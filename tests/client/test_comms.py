"""Comms both ways: a client of jupyter_client plays the front-end, C the other end."""
import time

import lab
import pytest

ECHO = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int count;
static void got(cadre_comm *comm, const cadre_comm_message *message, void *user)
{
    count++;
    printf("got %s %zu\\n", message->data, message->buffer_count);
    if (strstr(message->data, "crash")) abort();
    if (strstr(message->data, "fail")) cadre_read_csv("there is no such file");
    cadre_comm_send(comm, &(cadre_comm_message){
        .data = "{\\"seen\\": true}", .metadata = "{\\"m\\": 1}",
        .buffer_count = message->buffer_count, .buffers = message->buffers,
        .buffer_sizes = message->buffer_sizes});
}
static void closed(cadre_comm *comm, const cadre_comm_message *message, void *user)
{
    printf("closed %s\\n", cadre_comm_target(comm));
}
static void opened(cadre_comm *comm, const cadre_comm_message *message, void *user)
{
    printf("opened %s %s %s\\n", cadre_comm_target(comm), message->data, (char *)user);
    cadre_comm_on_message(comm, got, NULL);
    cadre_comm_on_close(comm, closed, NULL);
}
"""


def send(kernel, kind, content, buffers=(), metadata=None):
    """Sends on shell; everything iopub says about it until idle."""
    client = kernel.client
    message = client.session.msg(kind, content, metadata=metadata)
    client.session.send(client.shell_channel.socket, message, buffers=list(buffers))
    got = []
    while True:
        one = client.get_iopub_msg(timeout=60)
        if one["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        got.append(one)
        if one["msg_type"] == "status" and one["content"]["execution_state"] == "idle":
            return got


def of(messages, kind):
    return [m for m in messages if m["msg_type"] == kind]


def text(messages):
    return "".join(m["content"]["text"] for m in of(messages, "stream"))


@pytest.fixture
def echo(kernel):
    answer = kernel.run(ECHO + """
        cadre_comm *comm = cadre_comm_open("my.target", &(cadre_comm_message){.data = "{\\"a\\": 1}"});
        cadre_comm_on_message(comm, got, NULL);
        cadre_comm_on_close(comm, closed, NULL);""")
    assert answer.status == "ok", answer.error_text
    [opened] = of(answer.messages, "comm_open")
    assert opened["content"]["target_name"] == "my.target" and opened["content"]["data"] == {"a": 1}
    kernel.comm_id = opened["content"]["comm_id"]
    return kernel


def comms(kernel, **content):
    return kernel.reply(kernel.client.comm_info(**content))["comms"]


def test_c_opens_talks_and_is_told_of_the_end(echo):
    assert comms(echo) == {echo.comm_id: {"target_name": "my.target"}}
    assert comms(echo, target_name="other") == {}
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {"x": "ä"}},
               buffers=[b"\x00\xff\x80 binary", b""])
    assert text(got) == 'got {"x":"ä"} 2\n'
    [answer] = of(got, "comm_msg")
    assert answer["content"] == {"comm_id": echo.comm_id, "data": {"seen": True}}
    assert answer["metadata"] == {"m": 1}
    assert [bytes(b) for b in answer["buffers"]] == [b"\x00\xff\x80 binary", b""]
    assert [m["content"]["execution_state"] for m in of(got, "status")] == ["busy", "idle"]
    assert not of(got, "execute_input")
    got = send(echo, "comm_close", {"comm_id": echo.comm_id, "data": {}})
    assert text(got) == "closed my.target\n"
    assert comms(echo) == {}
    answer = echo.run("count")
    assert answer.value == "1" and answer.reply["execution_count"] == 2


def test_messages_wait_for_the_cell_that_runs(echo):
    sent = echo.send("#include <unistd.h>\nfor (int i = 0; i < 20; i++) usleep(20000);\nputs(\"cell\");")
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {"n": 1}})
    assert text(got) == 'got {"n":1} 0\n'
    assert echo.reply(sent)["status"] == "ok"


def test_a_crash_and_an_error_in_a_callback_cost_nothing(echo):
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {"do": "crash"}})
    [error] = of(got, "error")
    assert error["content"]["ename"] == "SIGABRT"
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {"do": "fail"}})
    [error] = of(got, "error")
    assert "there is no such file" in error["content"]["evalue"]
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {}})
    assert len(of(got, "comm_msg")) == 1
    assert echo.run("count").value == "2", "the crash was rolled back, the error was not"


def test_an_error_does_not_stop_the_queue(echo):
    sent = echo.client.session.msg("comm_msg", {"comm_id": echo.comm_id, "data": {"do": "crash"}})
    echo.client.session.send(echo.client.shell_channel.socket, sent)
    assert echo.run("6 * 7").value == "42"


def test_the_front_end_opens(kernel):
    assert kernel.run(ECHO + 'cadre_comm_register("c.target", opened, "user");').status == "ok"
    got = send(kernel, "comm_open", {"comm_id": "mine", "target_name": "c.target", "data": {"b": 2}})
    assert text(got) == 'opened c.target {"b":2} user\n'
    assert comms(kernel) == {"mine": {"target_name": "c.target"}}
    got = send(kernel, "comm_msg", {"comm_id": "mine", "data": {}})
    assert len(of(got, "comm_msg")) == 1
    assert text(send(kernel, "comm_close", {"comm_id": "mine", "data": {}})) == "closed c.target\n"
    assert kernel.run('cadre_comm_register("c.target", NULL, NULL);').status == "ok"
    got = send(kernel, "comm_open", {"comm_id": "again", "target_name": "c.target", "data": {}})
    assert [m["content"]["comm_id"] for m in of(got, "comm_close")] == ["again"]


def test_what_is_rolled_back_is_closed(kernel):
    answer = kernel.run('cadre_comm_open("t", NULL);\n'
                        'cadre_comm_register("u", (cadre_comm_function)cadre_comm_close, NULL);\n'
                        "*(volatile int *)0 = 1;")
    assert answer.status == "error"
    [opened], [closed] = of(answer.messages, "comm_open"), of(answer.messages, "comm_close")
    assert opened["content"]["comm_id"] == closed["content"]["comm_id"]
    assert comms(kernel) == {}
    got = send(kernel, "comm_open", {"comm_id": "x", "target_name": "u", "data": {}})
    assert len(of(got, "comm_close")) == 1


def test_unknown_targets_comms_and_broken_messages(kernel):
    got = send(kernel, "comm_open", {"comm_id": "x", "target_name": "nobody", "data": {}})
    assert len(of(got, "comm_close")) == 1
    for content in ({"comm_id": "gone", "data": {}}, {}, {"comm_id": 7}, {"comm_id": ""}):
        for kind in ("comm_msg", "comm_close", "comm_open"):
            send(kernel, kind, content)
    assert kernel.run("6 * 7").value == "42"
    answer = kernel.run('cadre_comm_open("t", &(cadre_comm_message){.data = "[1]"});')
    assert "must be a JSON object" in answer.error["evalue"]
    assert "name of its target" in kernel.run("cadre_comm_open(NULL, NULL);").error["evalue"]
    assert "needs a comm" in kernel.run("cadre_comm_send(NULL, NULL);").error["evalue"]
    assert "holds no message" in kernel.run("cadre_comm_deliver();").error["evalue"]


WIDGET = """
#include <string.h>
static char value[200];
static void changed(cadre_comm *comm, const cadre_comm_message *message, void *user)
{
    strncpy(value, message->data, sizeof value - 1);
}
cadre_comm *slider = cadre_comm_open("jupyter.widget", &(cadre_comm_message){
    .metadata = "{\\"version\\": \\"2.1.0\\"}",
    .data = "{\\"state\\": {\\"_model_module\\": \\"@jupyter-widgets/controls\\","
            "\\"_model_module_version\\": \\"2.0.0\\", \\"_model_name\\": \\"IntSliderModel\\","
            "\\"value\\": 3}, \\"buffer_paths\\": []}"});
cadre_comm_on_message(slider, changed, NULL);
"""


def test_widgets_and_their_control_comm(kernel):
    answer = kernel.run(WIDGET)
    assert answer.status == "ok", answer.error_text
    [opened] = of(answer.messages, "comm_open")
    assert opened["metadata"]["version"] == "2.1.0"
    slider = opened["content"]["comm_id"]
    got = send(kernel, "comm_msg", {"comm_id": slider, "data": {
        "method": "update", "state": {"value": 5}, "buffer_paths": []}})
    [echoed] = of(got, "comm_msg")
    assert echoed["content"]["data"] == {"method": "echo_update", "state": {"value": 5},
                                         "buffer_paths": []}
    assert '"value":5' in kernel.run("value").value.replace("\\", "")
    # A page that is loaded now learns of all widgets.
    send(kernel, "comm_open", {"comm_id": "ctl", "target_name": "jupyter.widget.control", "data": {}})
    got = send(kernel, "comm_msg", {"comm_id": "ctl", "data": {"method": "request_states"}})
    [states] = of(got, "comm_msg")
    data = states["content"]["data"]
    assert states["content"]["comm_id"] == "ctl" and data["method"] == "update_states"
    assert data["states"][slider]["model_name"] == "IntSliderModel"
    assert data["states"][slider]["state"]["value"] == 5
    send(kernel, "comm_close", {"comm_id": "ctl", "data": {}})
    assert list(comms(kernel)) == [slider]


def test_many_messages(echo):
    begin = time.monotonic()
    for n in range(200):
        message = echo.client.session.msg("comm_msg", {"comm_id": echo.comm_id, "data": {"n": n}})
        echo.client.session.send(echo.client.shell_channel.socket, message)
    assert echo.run("count").value == "200"
    print(f"{(time.monotonic() - begin) / 200 * 1e3:.1f} ms a message")
    big = "x" * 300000
    got = send(echo, "comm_msg", {"comm_id": echo.comm_id, "data": {"big": big}})
    assert big in text(got)
