#!/usr/bin/env python3
"""clang-tidy over our C files, two at a time: tidy.py BUILD_DIR

What it checks is in .clang-tidy. A file that stays as it was (with all headers of the tree) since
it was last found clean is not read again; BUILD_DIR/tidy.json remembers. One test per file.
The analyzer's paths through whole functions take minutes a file: they are for CADRE_TEST_LONG=yes.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HINTS = ROOT / "tests" / "tools" / "tidy.h"
CHECKS = [] if os.environ.get("CADRE_TEST_LONG") == "yes" else ["--checks=-clang-analyzer-*"]


def flags(build):
    """What the compiler gets, with the folders of libraries as configure found them."""
    makefile = (build / "Makefile").read_text()
    out = [flag for name, value in re.findall(r"^([A-Z]+)_CFLAGS = (.*)$", makefile, re.M)
           if name not in ("AM", "WARN", "SANITIZE") for flag in value.split()]
    folders = [f'-D{name}="/none"' for name in sorted(set(re.findall(r"-D(CADRE_[A-Z]+)=", makefile)))]
    return ["-std=gnu17", f"-I{build}", f"-I{ROOT}", f"-I{ROOT}/runtime", f"-I{ROOT}/kernel",
            f"-I{ROOT}/tests/unit", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H", *folders, *out]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    arguments = flags(build)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    common = hashlib.sha256("\n".join([version, *CHECKS, *arguments]).encode())
    common.update((ROOT / ".clang-tidy").read_bytes() + HINTS.read_bytes())
    for folder in ("kernel", "runtime"):
        for header in sorted((ROOT / folder).rglob("*.h")):
            common.update(header.read_bytes())
    memory_file = build / "tidy.json"
    try:
        memory = json.loads(memory_file.read_text())
    except (OSError, ValueError):
        memory = {}
    sources = sorted(p for folder in ("kernel", "runtime") for p in (ROOT / folder).rglob("*.c"))

    def check(source):
        key = hashlib.sha256(common.digest() + source.read_bytes()).hexdigest()
        name = str(source.relative_to(ROOT))
        if memory.get(name) == key:
            return name, key, ""
        hints = [] if name == "runtime/base/base.c" else ["-include", str(HINTS)]
        run = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", *CHECKS, str(source), "--",
                              *hints, *arguments], capture_output=True, text=True, cwd=ROOT)
        return name, key, run.stdout + run.stderr if run.returncode else ""

    failed = 0
    clean = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, key, problems in pool.map(check, sources):
            if problems:
                failed += 1
                print(f"FAIL {name}\n{problems.strip()}")
            else:
                clean[name] = key
    memory_file.write_text(json.dumps(clean, indent=1))
    print(f"{len(sources) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
