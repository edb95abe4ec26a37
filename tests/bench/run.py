#!/usr/bin/env python3
"""The figures that Cadre keeps, measured against ipykernel in the same run: run.py [--only TEXT]

Speeds of a machine drift; so kernels take turns, and what is held to is the ratio, or a figure of
its own where there is nobody to compare with. A figure that misses is measured again, twice at
most: a busy moment is no regression, a slower kernel stays slow. Each is one test; ends with
`N passed, N failed`. All that was measured goes to bench.json among the artefacts.

CADRE_TEST_LONG=yes holds every figure to its goal. Otherwise a fifth less is granted to a machine that others use too;
the figures of GUARDS, which want idle CPUs or do not reach their goal yet, fail only when something is badly wrong.
docs/performance.md tells of the latter. A missed goal is said either way.
"""
import argparse
import json
import logging
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import lab  # noqa: E402

from jupyter_client import BlockingKernelClient  # noqa: E402
from jupyter_client.connect import write_connection_file  # noqa: E402
from jupyter_client.manager import KernelManager  # noqa: E402

logging.getLogger().setLevel(logging.ERROR)
MEASURED = {}


def median(values):
    return statistics.median(values)


def start_ms(name):
    """Start of the process to the first kernel_info_reply, as a client waits for it."""
    begin = time.perf_counter()
    manager = KernelManager(kernel_name=name)
    manager.start_kernel(stderr=subprocess.DEVNULL)
    client = manager.client()
    client.start_channels()
    sent = client.kernel_info()
    while client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != sent:
        pass
    took = (time.perf_counter() - begin) * 1e3
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return took


def start():
    """kernel start to first reply: at most an eighth of ipykernel's"""
    ours, theirs = [], []
    for _ in range(7):
        ours.append(start_ms("cadre"))
        theirs.append(start_ms("python3"))
    return median(theirs) / median(ours), 8.0, f"{median(ours):.1f} ms, ipykernel {median(theirs):.1f} ms"


def info_ms(kernel):
    begin = time.perf_counter()
    kernel.reply(kernel.client.kernel_info())
    return (time.perf_counter() - begin) * 1e3


def tool(name):
    return str(pathlib.Path(os.environ["CADRE_TEST_BUILD"], "tests", "bench", name))


def bench_wire(name, rounds):
    """(µs of a kernel_info round trip, what bench_wire says) for a client written in C."""
    with lab.Kernel(name) as kernel:
        kernel.run("1")
        kernel.client.stop_channels()  # the echo publishes nothing, so nobody listens here either
        kernel.client = None
        printed = subprocess.run([tool("bench_wire"), kernel.manager.connection_file, str(rounds)],
                                 capture_output=True, text=True, timeout=60, check=True).stdout
    return float(printed.split()[1]), printed.strip()


def info():
    """kernel_info round trip of a C client: at most a third of ipykernel's"""
    ours, theirs = bench_wire("cadre", 1000)[0], bench_wire("python3", 500)[0]
    return theirs / ours, 3.0, f"{ours / 1e3:.2f} ms, ipykernel {theirs / 1e3:.2f} ms"


def info_python():
    """kernel_info round trip of Python's client: at most 1.1 times that of a kernel that does nothing"""
    ours, theirs, floor = [], [], []
    with lab.Kernel("cadre") as cadre, lab.Kernel("python3") as python, Canned() as canned:
        for _ in range(300):
            ours.append(info_ms(cadre))
            theirs.append(info_ms(python))
            floor.append(info_ms(canned))
    text = (f"{median(ours):.2f} ms, canned kernel {median(floor):.2f} ms, "
            f"ipykernel {median(theirs):.2f} ms")
    return 1.1 * median(floor) / median(ours), 1.0, text


def echo():
    """kernel_info round trip: at most 1.2 times a bare ZeroMQ echo of the same frames with HMAC"""
    printed = bench_wire("cadre", 3000)[1]
    ratio = float(printed.split()[-1])
    return 1.2 / ratio, 1.0, f"{printed} times"


class Canned:
    """A client of the canned kernel of this folder: what client and protocol alone cost."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "kernel.json")
        self.client = BlockingKernelClient(connection_file=path)
        write_connection_file(path, ip="127.0.0.1", key=b"a key of the bench")
        self.client.load_connection_file(path)
        self.process = subprocess.Popen([tool("canned_kernel"), path])

    def __enter__(self):
        self.client.start_channels()
        self.client.wait_for_ready(timeout=30)
        return self

    def __exit__(self, *_):
        self.client.stop_channels()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    reply = lab.Kernel.reply


def request_ms(kernel, method, *arguments):
    begin = time.perf_counter()
    content = kernel.reply(getattr(kernel.client, method)(*arguments))
    took = (time.perf_counter() - begin) * 1e3
    assert content["status"] == "ok", content
    return took, content


def with_state(kernel):
    """200 cells of state."""
    for n in range(200):
        answer = kernel.run(f"double figure_{n}(double x) {{ return x * {n}; }}\nint count_{n} = {n};")
        assert answer.status == "ok", answer.error_text


def assist(method, code, check):
    """Medians (cadre, canned) in ms with a warm libclang and 200 cells of state."""
    ours, floor = [], []
    with lab.Kernel("cadre") as kernel, Canned() as canned:
        with_state(kernel)
        for n in range(40):
            text = code.replace("NEW", f"y{n}")  # a place where nobody has asked before
            took, content = request_ms(kernel, method, text, len(text))
            if n < 5 and not check(content):
                continue
            assert check(content), content
            ours.append(took)
            floor.append(request_ms(canned, method, text, len(text))[0])
    return median(ours), median(floor)


def complete():
    """completion with 200 cells of state: at most 2 ms over a canned kernel, and under 20 ms"""
    ours, floor = assist("complete", "double NEW = figure_1", lambda c: "figure_17" in c["matches"])
    over = max(ours - floor, 0.01)
    return min(2 / over, 20 / ours), 1.0, f"{ours:.2f} ms, canned {floor:.2f} ms"


def typing():
    """the next letter of the same name: at most 2 ms over a canned kernel"""
    ours, floor = assist("complete", "double y = figure_1", lambda c: "figure_17" in c["matches"])
    return 2 / max(ours - floor, 0.01), 1.0, f"{ours:.2f} ms, canned {floor:.2f} ms"


def inspection():
    """inspection with 200 cells of state: under 30 ms"""
    ours, floor = assist("inspect", "figure_17", lambda c: c["found"])
    return 30 / ours, 1.0, f"{ours:.2f} ms, canned {floor:.2f} ms"


def cc1_ms():
    """What gcc's compiler needs to start and compile nothing."""
    begin = time.perf_counter()
    program = cc1_ms.program
    child = os.posix_spawn(program, [program, "-quiet", "/dev/null", "-o", "/dev/null"], os.environ)
    assert os.waitpid(child, 0)[1] == 0
    return (time.perf_counter() - begin) * 1e3


SMALL = """#include <math.h>
#include <stdio.h>
int x%d = 1;
for (int i = 0; i < 3; i++)
    x%d += i;
printf("value %%d\\n", x%d);"""


def cell_ms(kernel, code):
    """Request to idle."""
    begin = time.perf_counter()
    answer = kernel.run(code)
    took = (time.perf_counter() - begin) * 1e3
    assert answer.status == "ok", answer.error_text
    return took


def new_cell():
    """a new small cell (five lines, two headers) through a client: 0.7 times cc1 that compiles nothing"""
    cc1_ms.program = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True,
                                    check=True).stdout.strip()
    first, ours, theirs = random.randrange(10 ** 9), [], []
    with lab.Kernel("cadre") as kernel:
        for n in range(50):
            time.sleep(0.03)  # a person takes longer between two cells
            took = cell_ms(kernel, SMALL % ((first + n,) * 3))
            if n >= 10:
                ours.append(took)
                theirs.append(cc1_ms())
    return (0.7 * median(theirs) / median(ours), 1.0,
            f"{median(ours):.2f} ms, cc1 {median(theirs):.2f} ms")


def same_cell():
    """the same cell again: at most 1.5 times a canned kernel that executes nothing"""
    ours, floor = [], []
    number = random.randrange(10 ** 9)
    with lab.Kernel("cadre") as kernel, Canned() as canned:
        canned.send, canned.run = lab.Kernel.send.__get__(canned), lab.Kernel.run.__get__(canned)
        canned.collect = lab.Kernel.collect.__get__(canned)
        for n in range(60):
            ours.append(cell_ms(kernel, SMALL % ((number,) * 3)))
            floor.append(cell_ms(canned, SMALL % ((number,) * 3)))
    return (1.5 * median(floor[10:]) / median(ours[10:]), 1.0,
            f"{median(ours[10:]):.2f} ms, canned {median(floor[10:]):.2f} ms")


def gcc_seconds(folder, text, out="/dev/null"):
    """The least time that a program of this text takes, built with the options of a cell."""
    source, program = os.path.join(folder, "p.c"), os.path.join(folder, "p")
    pathlib.Path(source).write_text(text)
    subprocess.run(["gcc", "-O2", "-march=native", "-w", source, "-o", program, "-lm"], check=True)
    least = 1e9
    for _ in range(7):
        with open(out, "w") as file:
            begin = time.perf_counter()
            subprocess.run([program], stdout=file, check=True)
            least = min(least, time.perf_counter() - begin)
    return least


def printf_lines():
    """a million printf lines through a client: at most 3 times the time of writing them to a file"""
    with tempfile.TemporaryDirectory() as folder, lab.Kernel("cadre") as kernel:
        floor = gcc_seconds(folder, f"#include <stdio.h>\nint main() {{ {MILLION} }}", folder + "/out")
        ours = min(cell_ms(kernel, MILLION) for _ in range(5)) / 1e3
    return 3 * floor / ours, 1.0, f"{ours * 1e3:.0f} ms, to a file {floor * 1e3:.0f} ms"


TIMED = """
#include <stdio.h>
#include <time.h>
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
"""
MATMUL = TIMED + """
enum { N = 300 };
double a[N][N], b[N][N], c[N][N];
void matmul(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
}
volatile double sink = 1.5;
double work(void)
{
    double least = 1e9;
    for (int i = 0; i < N * N; i++) a[i / N][i % N] = b[i % N][i / N] = sink * i;
    for (int i = 0; i < 9; i++) {
        double begin = now();
        matmul();
        sink = c[17][4];
        double took = now() - begin;
        if (took < least) least = took;
    }
    return least;
}
"""
HELPERS = TIMED + """
static unsigned step(unsigned x) { return x * 1664525u + 1013904223u; }
int is_odd(unsigned x) { return x >> 16 & 1; }
volatile unsigned sink;
double work(void)
{
    double least = 1e9;
    for (int i = 0; i < 9; i++) {
        double begin = now();
        unsigned x = 1, odd = 0;
        for (int k = 0; k < 10000000; k++) {
            x = step(x);
            odd += is_odd(x);
        }
        sink = odd;
        double took = now() - begin;
        if (took < least) least = took;
    }
    return least;
}
"""


def against_gcc(text, allowed):
    """(ratio, text) of `work` in a cell against the same file built by gcc."""
    with tempfile.TemporaryDirectory() as folder, lab.Kernel("cadre") as kernel:
        source, program = os.path.join(folder, "p.c"), os.path.join(folder, "p")
        pathlib.Path(source).write_text(text + 'int main(void) { printf("%.9f", work()); }')
        subprocess.run(["gcc", "-O2", "-march=native", source, "-o", program], check=True)
        answer = kernel.run(text)
        assert answer.status == "ok", answer.error_text
        ours, theirs = [], []
        for _ in range(3):
            ours.append(value(kernel, "work()"))
            theirs.append(float(subprocess.run([program], capture_output=True, check=True).stdout))
    return (allowed * min(theirs) / min(ours),
            f"{min(ours) * 1e3:.2f} ms in a cell, {min(theirs) * 1e3:.2f} ms by gcc")


def matmul():
    """a C matmul in a cell: as fast as the same file by gcc -O2 -march=native"""
    ratio, text = against_gcc(MATMUL, 1.05)
    return ratio, 1.0, text


def helpers():
    """small helpers in a hot loop of their own cell: at most 1.05 times the same file by gcc"""
    ratio, text = against_gcc(HELPERS, 1.05)
    return ratio, 1.0, text


def tree_pss_mb(mark):
    """(PSS of all processes of a kernel in MB, a text that names each)"""
    total, parts = 0.0, []
    for pid in lab.marked(mark):
        try:
            rollup = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text()
            name = pathlib.Path("/proc", str(pid), "comm").read_text().strip()
        except OSError:
            continue
        pss = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        total += pss / 1024
        parts.append(f"{name} {pss / 1024:.1f}")
    return total, ", ".join(sorted(parts))


IPYKERNEL_MB = 103.0  # on the machine where the goal was set; here it may hold less than half


def idle_mb(name, seconds, **env):
    """PSS of all processes of a kernel that was started and left alone, and who holds it."""
    mark = f"cadre-bench-memory-{name}-{seconds}-{os.getpid()}"
    with lab.Kernel(name, env={"CADRE_BENCH_MARK": mark, **env}):
        time.sleep(seconds)
        return tree_pss_mb(mark)


def idle_memory():
    """memory of an idle kernel, all its processes by PSS: at most 0.65 times ipykernel's 103 MB"""
    ours, parts = idle_mb("cadre", 3)
    return 0.65 * IPYKERNEL_MB / ours, 1.0, f"{ours:.1f} MB ({parts})"


def resting_memory():
    """the same when nobody has asked it anything for a while: at most 0.65 times ipykernel's here"""
    ours, parts = idle_mb("cadre", 4, CADRE_REST_SECONDS="1")
    theirs, _ = idle_mb("python3", 3)
    return 0.65 * theirs / ours, 1.0, f"{ours:.1f} MB ({parts}), ipykernel {theirs:.1f} MB"


MILLION = "for (int i = 0; i < 1000000; i++) printf(\"line %d\\n\", i);"


def stream():
    """a million printed lines: none lost, at least 1 million lines a second at the client"""
    with lab.Kernel("cadre") as kernel:
        kernel.run("1")
        pieces = []
        begin = time.perf_counter()
        sent = kernel.send(MILLION)
        while True:
            message = kernel.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                pieces.append(content["text"])
            elif content.get("execution_state") == "idle":
                break
        seconds = time.perf_counter() - begin
        expected = "".join(f"line {i}\n" for i in range(1000000))
        assert "".join(pieces) == expected, "lines were lost or changed"
    return 1.0 / seconds, 1.0, f"{1 / seconds:.2f} million lines/s, none lost"


WORKER = """
cadre_table *flights = cadre_read_csv("%s/flights.csv");
cadre_slices *slices = cadre_slices_by(flights, "carrier", "origin");
size_t day = cadre_table_find(flights, "day");
bool held_out(const cadre_table *table, size_t row, void *user)
{
    (void)user;
    return cadre_table_int64s(table, day)[row] %% 5 == 0;
}
int train(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    cadre_ridge_options options = {
        .target = "arr_delay",
        .numeric = (const char *const[]){"dep_delay", "distance", "hour", "month", NULL},
        .categorical = (const char *const[]){"dest", NULL},
        .alpha = 1,
        .holdout = held_out,
    };
    return cadre_ridge_fit(slice, &options, model, error);
}
double seconds_of(cadre_train_function function, cadre_slices *over, int processes)
{
    cadre_report *report = cadre_loop(over, (cadre_loop_options){
        .train = function, .is_multiple_processors = processes > 1, .cpu_count = processes,
        .quiet = true});
    double seconds = cadre_report_seconds(report);
    cadre_report_free(report);
    return seconds;
}
"""


def with_worker():
    kernel = lab.Kernel("cadre")
    kernel.start()
    answer = kernel.run(WORKER % os.environ["CADRE_TEST_DATA"], timeout=60)
    assert answer.status == "ok", answer.error_text
    return kernel


def value(kernel, code, timeout=120):
    answer = kernel.run(code, timeout=timeout)
    assert answer.status == "ok", answer.error_text
    return float(answer.value)


def two_processes():
    """two processes on two idle CPUs: at least 1.8 times as fast as one on the demo's loop"""
    kernel = with_worker()
    try:
        one, two = [], []
        for _ in range(25):  # a loop takes some 50 ms: the least of many is that of a quiet moment
            one.append(value(kernel, "seconds_of(train, slices, 1)"))
            two.append(value(kernel, "seconds_of(train, slices, 2)"))
    finally:
        kernel.__exit__()
    return min(one) / min(two), 1.8, f"{min(one) * 1e3:.0f} ms in one, {min(two) * 1e3:.0f} ms in two"


def small_loops():
    """a loop of nearly nothing: two processes at most 3 ms slower than one"""
    kernel = with_worker()
    try:
        kernel.run("""
            int nothing(const cadre_slice *slice, cadre_model *model, void *user,
                        cadre_error *error)
            {
                (void)user; (void)error;
                double rows = slice->row_count;
                return cadre_model_set(model, "rows", &rows, 1);
            }""")
        late = []
        for _ in range(15):
            one = value(kernel, "seconds_of(nothing, slices, 1)")
            late.append((value(kernel, "seconds_of(nothing, slices, 2)") - one) * 1e3)
    finally:
        kernel.__exit__()
    return 3.0 / max(median(late), 0.01), 1.0, f"{median(late):.2f} ms later"


def private_mib(pid):
    """What only this process holds: the pages it wrote in mappings of its own. (Pages of the data,
    shared, count for nobody; nor do a library's pages that nobody else has touched yet.)"""
    own, total = False, 0
    for line in pathlib.Path("/proc", str(pid), "smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            own = words[1].endswith("p")
        elif own and words[0] == "Private_Dirty:":
            total += int(words[1])
    return total / 1024


def memory():
    """memory of two workers: at most the data plus 16 MB each"""
    kernel = with_worker()
    seen, stop = {}, threading.Event()
    try:
        answer = kernel.run("""
            #include <unistd.h>
            int slow(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
            {
                if (slice->row_count > 20000) usleep(300000);
                int status = train(slice, model, user, error);
                if (slice->row_count > 20000) usleep(300000);
                return status;
            }
            getpid()""")
        assert answer.status == "ok", answer.error_text
        host = int(answer.value)

        def watch():
            while not stop.wait(0.02):
                for pid, (parent, _) in lab.processes().items():
                    if parent == host:
                        try:
                            seen[pid] = max(seen.get(pid, 0), private_mib(pid))
                        except OSError:
                            pass

        watcher = threading.Thread(target=watch)
        watcher.start()
        value(kernel, "seconds_of(slow, slices, 2)")
    finally:
        stop.set()
        kernel.__exit__()
    watcher.join()
    assert len(seen) >= 2, "two workers were seen"
    largest = max(seen.values())
    return 16.0 / largest, 1.0, f"{largest:.1f} MiB of its own in the larger of {len(seen)} workers"


STRICT = os.environ.get("CADRE_TEST_LONG") == "yes"
# What ./check holds where a fifth less than the goal cannot be promised: idle CPUs are wanted, or the goal is still missed.
GUARDS = {"new_cell": 0.3, "same_cell": 0.3, "printf_lines": 0.4, "helpers": 0.3,
          "two_processes": 0.5, "small_loops": 0.3, "echo": 0.8, "complete": 0.35}
FIGURES = [start, info, info_python, echo, complete, typing, inspection, idle_memory, resting_memory, stream,
           printf_lines, new_cell, same_cell, matmul, helpers, two_processes, small_loops, memory]


def measure(figure):
    """(reached, text); three tries."""
    for attempt in range(3):
        try:
            ratio, wanted, text = figure()
        except Exception as problem:
            return False, f"{type(problem).__name__}: {problem}"
        MEASURED.setdefault(figure.__name__, []).append(
            {"ratio": ratio, "wanted": wanted, "text": text})
        if ratio >= wanted:
            break
    guarded = wanted if STRICT else GUARDS.get(figure.__name__, 0.8 * wanted)
    missed = "" if ratio >= wanted else ": GOAL MISSED"
    return ratio >= guarded, f"{text} (ratio {ratio:.2f}, wanted {wanted:.2f}{missed})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    wanted = [f for f in FIGURES if arguments.only in f.__name__]
    failed = 0
    for figure in wanted:
        good, text = measure(figure)
        failed += not good
        print("ok  " if good else "FAIL", figure.__doc__)
        print(f"NOTE: {figure.__name__}: {text}", flush=True)
    folder = pathlib.Path(os.environ.get("CADRE_TEST_ARTEFACTS", ROOT / "build" / "artefacts"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(MEASURED, indent=1) + "\n")
    print(f"{len(wanted) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
