"""Environments: kernels of a fixed size, and what they refuse."""
import json
import os
import subprocess

import pytest

import lab

MACHINE = len(os.sched_getaffinity(0))


@pytest.fixture
def environment(cadre):
    """Adds an environment for one test: environment("one", "--vcpus", 1)."""
    added = []

    def add(name, *options):
        run = cadre("env", "add", name, *options)
        assert run.returncode == 0, run.stderr
        if name not in added:
            added.append(name)
        return f"cadre-{name}"

    yield add
    for name in added:
        run = cadre("env", "remove", name)
        assert run.returncode == 0, run.stderr


def test_add_list_remove(cadre, environment):
    environment("two-cpu", "--vcpus", "2", "--memory", "4G")
    listed = cadre("env", "list").stdout
    assert any(line.split()[:4] == ["two-cpu", "2", "4", "GiB"] for line in listed.splitlines())
    found = json.loads(subprocess.run(["jupyter", "kernelspec", "list", "--json"],
                                          capture_output=True, text=True).stdout)
    spec = found["kernelspecs"]["cadre-two-cpu"]["spec"]
    assert spec["display_name"] == "C (Cadre, 2 vCPU, 4 GiB)" and spec["language"] == "c"
    assert cadre("env", "remove", "two-cpu").returncode == 0
    assert "two-cpu" not in cadre("env", "list").stdout
    environment("two-cpu", "--vcpus", "2")


@pytest.mark.parametrize("arguments", [
    ("add", "../up", "--vcpus", "1"), ("add", "a b", "--vcpus", "1"), ("add", "", "--vcpus", "1"),
    ("add", "x" * 65, "--vcpus", "1"), ("add", "ok"), ("add", "ok", "--vcpus", "0"),
    ("add", "ok", "--vcpus", "-2"), ("add", "ok", "--vcpus", "1", "--memory", "lots"),
    ("remove", "never-there"), ("remove",),
])
def test_what_cannot_be_is_refused(cadre, arguments):
    before = cadre("env", "list").stdout
    run = cadre("env", *arguments)
    assert run.returncode in (1, 2) and run.stderr.startswith(f"cadre env {arguments[0]}: ")
    assert cadre("env", "list").stdout == before


def test_one_vcpu_is_one(environment):
    with lab.Kernel(environment("one", "--vcpus", "1")) as kernel:
        assert kernel.run("cadre_cpu_count()").value == "1"
        assert kernel.run('getenv("OPENBLAS_NUM_THREADS")').value == '"1"'
        assert kernel.run('getenv("CADRE_ENVIRONMENT")').value == '"one"'


def test_cpu_count_above_the_environment_is_refused_with_both_numbers(environment):
    with lab.Kernel(environment("one", "--vcpus", "1")) as kernel:
        answer = kernel.run("int cpu_count = 1;", metadata={"cadre": {"parameters":
                                                                      {"cpu_count": 2}}})
        assert answer.error_name == "ParameterError"
        assert "cpu_count" in answer.error_text and "2" in answer.error_text \
            and "1" in answer.error_text
        kernel.run(LOOP)
        answer = kernel.run(RUN % "true, .cpu_count = 2")
        assert answer.status == "error"
        assert "cpu_count" in answer.error_text and "2" in answer.error_text
        assert kernel.run(RUN % "true, .cpu_count = 1").status == "ok"


LOOP = r"""
#include <stdio.h>
FILE *made = fopen("/tmp/cadre-environment-test.csv", "w");
fprintf(made, "key,x,y\n");
for (int i = 0; i < 400; i++) fprintf(made, "%c,%d,%d\n", 'a' + i % 2, i, 3 * i + i % 7);
fclose(made);
cadre_table *table = cadre_read_csv("/tmp/cadre-environment-test.csv");
remove("/tmp/cadre-environment-test.csv");
cadre_slices *slices = cadre_slices_by(table, "key");
int train(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    cadre_ridge_options options = {.target = "y", .alpha = 1,
                                   .numeric = (const char *const[]){"x", NULL}};
    return cadre_ridge_fit(slice, &options, model, error);
}
"""
RUN = """
cadre_report *report = cadre_loop(slices, (cadre_loop_options){
    .train = train, .is_multiple_processors = %s});
"""


@pytest.mark.parametrize("count", [0, -1, MACHINE + 1, 100000])
def test_cpu_counts_that_cannot_be(shared_kernel, count):
    assert shared_kernel.run(LOOP).status == "ok"
    answer = shared_kernel.run(RUN % f"true, .cpu_count = {count}")
    assert answer.status == "error", "refused"
    assert "cpu_count" in answer.error_text and str(count) in answer.error_text
    if count > 0:
        assert str(MACHINE) in answer.error_text


def test_larger_than_the_machine_starts_and_says_so_once(environment):
    with lab.Kernel(environment("huge", "--vcpus", "512", "--memory", "8192G")) as kernel:
        answer = kernel.run("cadre_cpu_count()")
        assert answer.value == str(MACHINE)
        assert "512" in answer.stderr and str(MACHINE) in answer.stderr
        assert kernel.run("1").stderr == ""


def test_memory_is_limited_and_the_kernel_lives(environment):
    with lab.Kernel(environment("small", "--vcpus", "1", "--memory", "512M")) as kernel:
        kernel.run("int kept = 7;")
        greedy = kernel.run("""
            #include <stdlib.h>
            #include <string.h>
            size_t got = 0;
            for (int i = 0; i < 64; i++) {
                char *block = malloc(64 << 20);
                if (!block) break;
                memset(block, 1, 64 << 20);
                got += 64;
            }
            """, timeout=60)
        if greedy.error_name == "SIGKILL":
            assert "the memory limit: 0.5 of 0.5 GB" in greedy.error_text
            assert "kernel.log" in greedy.error_text
        answer = kernel.run("kept", timeout=30)
        assert answer.value == "7", "the cell ends or is rolled back; the kernel stays"


def test_an_environment_for_cadre_run(cadre, environment, tmp_path):
    environment("one", "--vcpus", "1")
    path = lab.notebook(tmp_path / "count.ipynb", 'printf("%d vCPU\\n", cadre_cpu_count());')
    run = cadre("run", path, "--environment", "one", "-o", tmp_path / "out.ipynb")
    assert run.returncode == 0, run.stderr
    executed = lab.nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert "1 vCPU" in lab.outputs_text(executed.cells[0])
    run = cadre("run", path, "--environment", "nowhere", "-o", tmp_path / "none.ipynb")
    assert run.returncode != 0 and "nowhere" in run.stderr
    assert not (tmp_path / "none.ipynb").exists()
