#!/usr/bin/env python3
"""Runs random C programs as cells and compares what they print with what gcc makes of the same file.

    csmith_cells.py [--kernel cadre] [--count 30] [--seed 1]

Each program of csmith is built by gcc with the options of a cell, then run in a kernel twice: as one cell with its
main, and cut so that every type, variable and function is a cell of its own. All must print the same checksum. Programs
that do not end within three seconds say nothing about a kernel and are replaced by the next seed. Ends with
"N passed, N failed"; the exit status is 1 when one failed.
"""
import argparse, os, queue, subprocess, sys, tempfile, time
from jupyter_client.manager import KernelManager

INCLUDE = "/usr/include/csmith"
FLAGS = ["-std=gnu17", "-O2", "-march=native", "-w", "-I" + INCLUDE]


def generate(seed, folder):
    """The program's text and what it prints, or None when it runs for too long."""
    source, program = os.path.join(folder, "p.c"), os.path.join(folder, "p")
    subprocess.run(["csmith", "--seed", str(seed), "--no-argc", "--max-funcs", "6", "-o", source],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder)
    subprocess.run(["gcc", *FLAGS, source, "-o", program], check=True)
    try:
        done = subprocess.run([program], timeout=3, stdout=subprocess.PIPE, text=True)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    with open(source, encoding="utf-8") as file:
        return file.read(), done.stdout


def cut(text):
    """Top-level pieces: each directive, and each declaration or function up to its ; or }."""
    pieces, start, depth, i = [], 0, 0, 0
    while i < len(text):
        if text.startswith("/*", i):
            i = text.index("*/", i) + 2
            continue
        if text.startswith("//", i):
            i = text.index("\n", i)
            continue
        c = text[i]
        if c in "\"'":
            i += 1
            while text[i] != c:
                i += 2 if text[i] == "\\" else 1
        elif c == "#" and depth == 0 and not text[start:i].strip():
            end = text.index("\n", i)
            pieces.append(text[start:end])
            start = i = end
            continue
        elif c in "({[":
            depth += 1
        elif c in ")}]":
            depth -= 1
        ends = depth == 0 and (c == ";" or (c == "}" and text[i + 1:].lstrip()[:1] != ";" and is_function(text[start:i])))
        if ends:
            pieces.append(text[start:i + 1])
            start = i + 1
        i += 1
    return [p.strip() for p in pieces if p.strip()]


def is_function(piece):
    """Not `int a[2] = {1, 2}` and not `struct S { ... }`: a parameter list right before the brace."""
    return piece[:piece.index("{")].rstrip().endswith(")")


class Kernel:
    def __init__(self, name):
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.run("%cflags -w -I" + INCLUDE)

    def run(self, code):
        """What the cell printed, and its error."""
        request, printed, error = self.client.execute(code), "", None
        end = time.time() + 120
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.time()))
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed += content["text"]
            elif message["msg_type"] == "error":
                error = content["ename"] + ": " + content["evalue"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed, error

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def try_cells(kernel_name, cells):
    kernel, printed = Kernel(kernel_name), ""
    try:
        for number, cell in enumerate(cells, 1):
            text, error = kernel.run(cell)
            printed += text
            if error:
                return f"cell {number} of {len(cells)}: {error}\n       {cell[:200]!r}"
        return printed
    except queue.Empty:
        return "no answer within 120 s"
    finally:
        kernel.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="cadre")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    passed = failed = 0
    seed = options.seed
    with tempfile.TemporaryDirectory() as folder:
        while passed + failed < 2 * options.count:
            program = generate(seed, folder)
            if program:
                text, wanted = program
                for name, cells in (("one cell", [text]), ("a cell each", cut(text))):
                    got = try_cells(options.kernel, cells)
                    if got == wanted:
                        passed += 1
                    else:
                        failed += 1
                        print(f"FAIL seed {seed}, {name}: wanted {wanted.strip()!r}, got {got.strip()!r}", flush=True)
            seed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
