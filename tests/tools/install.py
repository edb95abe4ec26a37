#!/usr/bin/env python3
"""Installing by hand, as the README says it: install.py SOURCE WORK

From a release archive (make dist), out of tree: configure, make, make install DESTDIR=..., then
what a user of the library meets: headers that compile alone, cadre.pc, a C program; and make
uninstall, which leaves nothing. Ends with `N passed, N failed`.
"""
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE, WORK = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
BUILD, STAGE, PREFIX = WORK / "build", WORK / "stage", "/opt/cadre"

PROGRAM = r"""
#include <cadre.h>
#include <stdio.h>
int main(void)
{
    cadre_error error = {0};
    if (cadre_read_csv_with("no/such.csv", NULL, &error)) return 1;
    printf("%s\n", error.message);
    return cadre_cpu_count() < 1;
}
"""


def run(*command, cwd=WORK, env=None):
    print("$", *command, flush=True)
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def release_archive_builds_out_of_tree():
    run("make", "-C", SOURCE / "build" / "check", "dist-gzip")
    archive = next((SOURCE / "build" / "check").glob("cadre-*.tar.gz"))
    shutil.move(archive, WORK / "cadre.tar.gz")
    run("tar", "xzf", "cadre.tar.gz")
    source = next(p.parent for p in WORK.glob("*/configure"))
    BUILD.mkdir()
    run(source / "configure", f"--prefix={PREFIX}", cwd=BUILD)
    run("make", "-j2", cwd=BUILD)


def staged_installation_is_whole():
    run("make", "install", f"DESTDIR={STAGE}", cwd=BUILD)
    root = STAGE / PREFIX.lstrip("/")
    for name in ("bin/cadre", "bin/cadre-kernel", "libexec/cadre/cadre-host", "lib/libcadre.so",
                 "include/cadre/cadre.h", "lib/pkgconfig/cadre.pc",
                 "share/jupyter/kernels/cadre/kernel.json",
                 "share/jupyter/kernels/cadre/logo-64x64.png"):
        assert (root / name).is_file(), f"{name} was not installed"
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert str(STAGE).encode() not in data, f"{path} holds the staging path"
            assert path.stat().st_mode & 0o022 == 0, f"{path} can be written by others"
    kernel = (root / "share/jupyter/kernels/cadre/kernel.json").read_text()
    assert f'"{PREFIX}/bin/cadre-kernel"' in kernel


def headers_compile_alone():
    folder = STAGE / PREFIX.lstrip("/") / "include" / "cadre"
    headers = sorted(folder.rglob("*.h"))
    assert headers
    for header in headers:
        for compiler in (["gcc", "-std=gnu17", "-xc"], ["g++", "-std=gnu++17", "-xc++"]):
            run(*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder}", header)


def a_c_program_builds_with_pkg_config():
    # pkg-config moves the prefix to where the .pc file is.
    pc = STAGE / PREFIX.lstrip("/") / "lib" / "pkgconfig"
    lib = STAGE / PREFIX.lstrip("/") / "lib"
    env = {"PKG_CONFIG_PATH": str(pc)}
    flags = run("pkg-config", "--define-prefix", "--cflags", "--libs", "cadre", env=env).split()
    (WORK / "user.c").write_text(PROGRAM)
    run("gcc", "-std=gnu17", "-Wall", "-Werror", "user.c", "-o", "user", *flags)
    said = run(WORK / "user", env={"LD_LIBRARY_PATH": str(lib)})
    assert "no/such.csv" in said, said


def library_exports_only_its_own_names():
    lib = STAGE / PREFIX.lstrip("/") / "lib" / "libcadre.so"
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", lib).splitlines()]
    assert names
    foreign = [n for n in names if not n.startswith("cadre_")]
    assert not foreign, f"exported: {foreign}"


def uninstall_leaves_nothing():
    run("make", "uninstall", f"DESTDIR={STAGE}", cwd=BUILD)
    left = [str(p) for p in STAGE.rglob("*") if not p.is_dir()]
    assert not left, f"left: {left}"


TESTS = [release_archive_builds_out_of_tree, staged_installation_is_whole, headers_compile_alone,
         a_c_program_builds_with_pkg_config, library_exports_only_its_own_names,
         uninstall_leaves_nothing]


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    failed = 0
    for test in TESTS:
        try:
            test()
            print("ok  ", test.__name__)
        except Exception as problem:
            failed += 1
            print("FAIL", test.__name__, problem)
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
