"""cadre_loop and cadre_notebook_run in cells: interrupts, what stays, progress and output."""
import os
import time

import pytest

import lab

TRAIN = """
#include <sys/wait.h>
#include <unistd.h>
int slow(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user; (void)error;
    double one = 1;
    %s
    return cadre_model_set(model, "x", &one, 1);
}
cadre_slices *slices = cadre_slices_by(cadre_read_csv("%s"), "key");
int kept = 5;"""
LOOP = """kept++;
cadre_report *report = cadre_loop(slices, (cadre_loop_options){
    .train = slow, .is_multiple_processors = %d, .cpu_count = 1});"""


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("key,v\n" + "".join(f"k{i},{i}\n" for i in range(20)))
    return path


def interrupt(kernel, sent, after):
    """Interrupts a running cell; the answer and how long that took."""
    time.sleep(after)
    begin = time.monotonic()
    kernel.manager.interrupt_kernel()
    answer = kernel.collect(sent, timeout=20)
    return answer, time.monotonic() - begin


@pytest.mark.parametrize("work", ["sleep(60);", "for (volatile long i = 0; i < 90000000000; i++);"])
def test_an_interrupt_ends_a_loop_at_once(kernel, data, work):
    answer = kernel.run(TRAIN % (work, data))
    assert answer.status == "ok", answer.error_text
    for many in (0, 1):
        answer, seconds = interrupt(kernel, kernel.send(LOOP % many), 0.7)
        assert answer.error_name == "KeyboardInterrupt"
        assert seconds < 1, "100 ms on an idle machine"
        assert kernel.run("kept").value == str(6 + many), "state is kept"
        assert kernel.run("waitpid(-1, 0, 1)").value == "-1", "no worker is left"


def test_an_interrupt_ends_the_worker_notebook(kernel, tmp_path):
    runtime = tmp_path / "runtime"
    path = lab.notebook(tmp_path / "slow.ipynb", "#include <unistd.h>\nsleep(100);")
    kernel.run(f'setenv("JUPYTER_RUNTIME_DIR", "{runtime}", 1);')
    sent = kernel.send(f'cadre_notebook_run("{path}", (cadre_notebook_options){{0}});')
    assert lab.eventually(lambda: list(runtime.glob("*.json")), timeout=20)
    answer, seconds = interrupt(kernel, sent, 1.5)
    assert answer.error_name == "KeyboardInterrupt" and seconds < 1.5
    assert not list(runtime.glob("*"))
    found = [command for _, command in lab.processes().values()
             if "cadre-kernel" in command and str(runtime) in command]
    assert found == []


def test_progress_is_one_display_that_ends_full(kernel, data):
    assert kernel.run(TRAIN % ("usleep(30000);", data)).status == "ok"
    answer = kernel.run(LOOP % 1)
    shown = [m for m in answer.messages if m["msg_type"] == "display_data"]
    updates = [m for m in answer.messages if m["msg_type"] == "update_display_data"]
    assert len(shown) == 1 and 2 <= len(updates) <= 10
    ids = {m["content"]["transient"]["display_id"] for m in shown + updates}
    assert len(ids) == 1
    assert "20/20" in updates[-1]["content"]["data"]["text/plain"]
    assert "<progress" in updates[-1]["content"]["data"]["text/html"]
    assert answer.messages[-1]["content"] == {"execution_state": "idle"}


def test_what_workers_print_comes_whole(kernel, data):
    work = r'printf("one %s\n", slice->name); fprintf(stderr, "two %s\n", slice->name);'
    assert kernel.run(TRAIN % (work, data)).status == "ok"
    answer = kernel.run(LOOP % 1)
    assert sorted(answer.stdout.split("\n")[:-1]) == sorted(f"one k{i}" for i in range(20))
    assert sorted(answer.stderr.split("\n")[:-1]) == sorted(f"two k{i}" for i in range(20))


def test_cpu_count_above_the_environment_is_refused(kernel, data):
    assert kernel.run(TRAIN % ("", data)).status == "ok"
    cpus = int(kernel.run("cadre_cpu_count()").value)
    for count in (0, -3, cpus + 1):
        answer = kernel.run((LOOP % 1).replace(".cpu_count = 1", f".cpu_count = {count}"))
        assert answer.status == "error"
        assert str(count) in answer.error_text and str(cpus) in answer.error_text
    assert os.cpu_count() >= cpus
