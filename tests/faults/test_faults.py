"""Kills at any time, full disks, caches that cannot be written."""
import os
import pathlib
import random
import signal
import subprocess
import time
import uuid

import pytest

import lab

LONG = os.environ.get("CADRE_TEST_LONG") == "yes"
KILLS = 200 if LONG else 12


@pytest.fixture
def marked_kernel():
    """A kernel whose processes can all be found, and `hosts()`, those that run cells."""
    mark = f"CADRE_TEST_MARK={uuid.uuid4()}"
    with lab.Kernel(env=dict([mark.split("=")])) as kernel:
        def hosts():
            found = lab.processes()
            return [pid for pid in lab.marked(mark)
                    if pid in found and "cadre-host" in found[pid][1]]
        kernel.mark, kernel.hosts = mark, hosts
        yield kernel


def test_the_host_is_killed_while_a_cell_runs(marked_kernel):
    kernel = marked_kernel
    assert kernel.run("int kept = 7;").status == "ok"
    running = []

    def kill(answer):
        if "started" in answer.stdout and not running:
            time.sleep(0.3)
            running.append(max(kernel.hosts(), key=switches))
            os.kill(running[0], signal.SIGKILL)

    answer = kernel.run("""
        #include <unistd.h>
        kept = 8;
        puts("started");
        for (;;) usleep(1000);""", timeout=20, during=kill)
    assert answer.error_name == "SIGKILL"
    assert kernel.run("kept").value == "7"


def switches(pid):
    """How often a process waited. The one that runs the cell above has done it hundreds of times,
    the copy once."""
    text = pathlib.Path("/proc", str(pid), "status").read_text()
    return int(text.split("voluntary_ctxt_switches:")[1].split()[0])


def test_hosts_are_killed_at_any_instant(marked_kernel):
    kernel = marked_kernel
    seed = int(os.environ.get("CADRE_TEST_SEED", random.randrange(1 << 30)))
    print("CADRE_TEST_SEED", seed)
    chance = random.Random(seed)
    kernel.run("int total = 0;")
    for round_ in range(KILLS):
        sent = kernel.send("#include <unistd.h>\nusleep(20000);\ntotal++;\nusleep(20000);")
        time.sleep(chance.random() * 0.08)
        victims = kernel.hosts()
        if victims:
            try:
                os.kill(chance.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                pass
        answer = kernel.collect(sent, timeout=15)
        assert answer.status in ("ok", "error"), f"round {round_}"
        # A host that was killed as its cell ended may take the next cell with it, and no more.
        answers = [kernel.run("1 + 1", timeout=15) for _ in range(2)]
        assert answers[1].value == "2", f"round {round_}: {answers[1].error_text}"
        assert answers[0].value == "2" or "SIGKILL" in answers[0].error_text, f"round {round_}"


def test_all_hosts_are_killed_at_once_while_idle(marked_kernel):
    kernel = marked_kernel
    kernel.run("int kept = 1;")
    for pid in kernel.hosts():
        os.kill(pid, signal.SIGKILL)
    # State may be lost here, the kernel is not: it says so and goes on.
    for _ in range(2):
        answer = kernel.run("40 + 2", timeout=15)
        if answer.value == "42":
            break
    assert answer.value == "42"


def test_the_front_is_killed_and_nothing_stays(marked_kernel):
    kernel = marked_kernel
    kernel.send("""
        #include <unistd.h>
        if (fork() == 0) for (;;) usleep(1000);
        for (;;) usleep(1000);""")
    time.sleep(0.7)
    os.kill(kernel.pid, signal.SIGKILL)
    assert lab.eventually(lambda: not lab.marked(kernel.mark), timeout=10), \
        [lab.processes().get(pid) for pid in lab.marked(kernel.mark)]


def test_the_compiler_is_killed(marked_kernel):
    kernel = marked_kernel
    for round_ in range(3):
        sent = kernel.send(f"#include <complex.h>\n#include <tgmath.h>\nint c{round_} = 1; c{round_}")
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            found = lab.processes()
            for pid in lab.marked(kernel.mark):
                if pid in found and found[pid][1].split(" ")[0].endswith("/cc1"):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            time.sleep(0.002)
        assert kernel.collect(sent, timeout=20).status in ("ok", "error")
        assert kernel.run(f"{round_} + 1", timeout=20).value == str(round_ + 1)


def test_a_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "cadre").write_text("a file where the folder should be")
    with lab.Kernel(env={"XDG_CACHE_HOME": str(tmp_path)}) as kernel:
        assert kernel.run("int a = 20; a + 1").value == "21"
        assert kernel.run("a + 2").value == "22"


def test_no_home_at_all(tmp_path):
    (tmp_path / "home").write_text("a file where a home should be")
    with lab.Kernel(env={"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}) as kernel:
        assert kernel.run("2 + 2").value == "4"


def test_a_home_that_does_not_exist_is_not_made(tmp_path):
    nowhere = {"XDG_CACHE_HOME": "", "XDG_DATA_HOME": "", "XDG_STATE_HOME": ""}
    with lab.Kernel(env={"HOME": str(tmp_path / "home"), **nowhere}) as kernel:
        assert kernel.run("int kept = 4; kept").value == "4"
        assert "needs a home" in kernel.run("%store kept").error_text
    assert not (tmp_path / "home").exists()


def test_a_cache_that_lies(tmp_path):
    """Files of the cache that were cut, emptied or filled with something else are not believed."""
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    code = "int square(int a) { return a * a; }\nsquare(12)"
    with lab.Kernel(env=env) as kernel:
        assert kernel.run(code).value == "144"
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    for damage in (b"", b"\x7fELF" + b"\xff" * 5000, None):
        for path in files:
            if path.exists():
                data = path.read_bytes()
                path.write_bytes(data[:len(data) // 2] if damage is None else damage)
        with lab.Kernel(env=env) as kernel:
            assert kernel.run(code).value == "144"
            assert kernel.run("square(3)").value == "9"


@pytest.fixture
def small_disk(tmp_path):
    """A full-able disk of 3 MB: a tmpfs of our own where root may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "cadre-test", place])
    assert mount.returncode == 0, "mounting a tmpfs needs root (or run in a user namespace)"
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place):
    """Fills the disk to its last byte."""
    with open(place / "filler", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_a_full_disk_for_the_cache(small_disk):
    fill(small_disk)
    with lab.Kernel(env={"XDG_CACHE_HOME": str(small_disk)}) as kernel:
        assert kernel.run("int a = 5; a * 2").value == "10"
        assert kernel.run("a * 3").value == "15"


def test_a_full_disk_for_temporary_files(small_disk):
    fill(small_disk)
    with lab.Kernel(env={"TMPDIR": str(small_disk)}) as kernel:
        assert kernel.run("int a = 5; a * 2").value == "10"


def test_a_full_disk_for_models_leaves_no_half_of_one(kernel, small_disk):
    data = small_disk.parent / "t.csv"
    data.write_text("key,x,y\n" + "".join(f"{'ab'[i % 2]},{i},{2 * i}\n" for i in range(100)))
    fill(small_disk)
    answer = kernel.run(f"""
        int fit(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
        {{
            (void)user;
            cadre_ridge_options options = {{.target = "y", .alpha = 1,
                .numeric = (const char *const[]){{"x", NULL}}}};
            return cadre_ridge_fit(slice, &options, model, error);
        }}
        cadre_loop(cadre_slices_by(cadre_read_csv("{data}"), "key"),
                   (cadre_loop_options){{.train = fit, .models = "{small_disk}/models"}});""")
    whole = answer.error_text + answer.stdout + answer.stderr + (answer.value or "")
    assert "No space left" in whole
    assert not list(small_disk.rglob("*.safetensors"))
    assert kernel.run("1").value == "1"


def test_a_full_disk_for_the_executed_notebook(cadre, small_disk, tmp_path):
    path = lab.notebook(tmp_path / "in.ipynb", 'puts("1");')
    fill(small_disk)
    run = cadre("run", path, "-o", small_disk / "out.ipynb")
    assert run.returncode != 0 and "No space left" in run.stderr
    assert [p.name for p in small_disk.iterdir()] == ["filler"]


def test_a_disk_that_fills_while_a_cell_writes(kernel, small_disk):
    answer = kernel.run(f"""
        FILE *file = fopen("{small_disk}/out", "w");
        int failed = 0;
        for (int i = 0; i < 1000000; i++) if (fprintf(file, "line %d\\n", i) < 0) failed = 1;
        failed |= fclose(file) != 0;
        failed""")
    assert answer.value == "1"


@pytest.mark.parametrize("depth", [4, 6, 8, 10])
def test_macros_that_multiply(depth):
    """Ten to the power of `depth` tokens: the compiler has a limit, and so has the kernel itself."""
    cell = ("#define TEN(x) x x x x x x x x x x\n#define MANY(x) " + "TEN(" * depth + "x" +
            ")" * depth + "\nint many = 0 MANY(+ 1);\nmany")
    with lab.Kernel(env={"CADRE_COMPILER_MEGABYTES": "300"}) as kernel:
        kernel.run("int kept = 5;")
        answer = kernel.run(cell, timeout=120)
        if depth == 4:
            assert answer.value == "10000"
        elif depth >= 8:
            assert answer.status == "error" and "out of memory" in answer.error_text
        assert kernel.run("kept").value == "5"
        completed = kernel.reply(kernel.client.complete(cell + "\nkep"))
        assert completed["status"] == "ok"
        assert kernel.run("kept + 1").value == "6"
