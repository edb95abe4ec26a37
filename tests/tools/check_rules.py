#!/usr/bin/env python3
"""Rules of the source tree that a program can check: check_rules.py [-v]

    banned       functions that our own C code does not call
    directions   folders include only the folders that docs/architecture.md lets them know
    tree         no path of some machine, no address of a package registry, no mark of unfinished work
    links        what a Markdown file of the tree links to is in the tree

Each rule is one test; ends with `N passed, N failed`.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

BANNED = {
    "strcpy": "snprintf or memcpy with a checked length",
    "strcat": "cadre_buffer_puts",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "gets": "getline",
    "atoi": "strtol, with its end and range checked",
    "atol": "strtol, with its end and range checked",
    "atof": "strtod, with its end checked",
    "system": "posix_spawn or fork and exec",
    "popen": "posix_spawn with a pipe",
    "mktemp": "mkstemp",
    "tmpnam": "mkstemp",
    "strtok": "strtok_r or strcspn",
    "usleep": "poll or nanosleep; never to wait for another thread",
    "alloca": "malloc",
}

# Where a function is offered to the cells under its own name, it may be called.
OFFERED = {("kernel/host/process.c", "popen")}

# folder -> folders whose headers it may include beside its own and runtime/base, as the table in
# docs/architecture.md has it. A name that ends in /* stands for every folder below.
KNOWS = {
    "runtime": ["runtime/*"],
    "runtime/base": [],
    "runtime/cpu": [],
    "runtime/data": ["runtime/cpu"],
    "runtime/model": ["runtime/data", "runtime/cpu"],
    "runtime/store": ["runtime/data", "runtime/model"],
    "runtime/loop": ["runtime/data", "runtime/model", "runtime/store", "runtime/cpu",
                     "runtime/show"],
    "runtime/show": ["runtime/data", "runtime/loop"],
    "runtime/notebook": ["runtime/*", "kernel/wire"],
    "runtime/cli": ["runtime/*", "kernel/cell"],
    "kernel": ["kernel/*", "runtime/*"],
    "kernel/wire": [],
    "kernel/cell": [],
    "kernel/host": ["kernel/cell", "runtime/*"],
    "kernel/assist": ["kernel/cell"],
    "kernel/debug": ["kernel/host", "kernel/cell"],
    "kernel/session": ["kernel/*", "runtime/cpu"],
}

# A path below a home or below the folder of this very tree. It must begin as an absolute one does, and the folder must
# have a name that says something: a tree that lies in /check or /build does not forbid build/check/logs or /build/.
HOMES = ["/home", "/root"] + ([str(ROOT)] if len(ROOT.parts) > 2 else [])

TREE_BANNED = [
    (r"(?<![\w.)}>*~-])(" + "|".join(map(re.escape, HOMES)) + ")/", "a path of some machine"),
    (r"https?://[a-z.]*(debian|pypi|npmjs|crates|pythonhosted)[a-z]*\.", "an address of a registry"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", "a mark of unfinished work"),
]

FOLDERS = ("kernel", "runtime", "notebooks", "kernelspec", "tests", "docs", ".ci")
TOP = ("bootstrap", "check", "demo", "configure.ac", "Makefile.am", "README.md", "CHANGELOG.md",
       "CONTRIBUTING.md", "LICENSE")


def files(*suffixes):
    """What git tracks or would track; without git (a release), what lies in the source folders."""
    run = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True)
    if run.returncode == 0:
        names = run.stdout.splitlines()
    else:
        names = [p.relative_to(ROOT).as_posix() for folder in FOLDERS
                 for p in (ROOT / folder).rglob("*") if "__pycache__" not in p.parts]
        names += [n for n in TOP if (ROOT / n).exists()]
    return [n for n in names if (ROOT / n).is_file() and (not suffixes or n.endswith(suffixes))]


def code_of(text):
    """The text with comments and string contents blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] * 2
        return re.sub(r"[^\n]", " ", token)

    return pattern.sub(blank, text)


def banned():
    call = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for name in files(".c", ".h"):
        if name.startswith("tests/"):
            continue
        for number, line in enumerate(code_of((ROOT / name).read_text()).splitlines(), 1):
            for function in call.findall(line):
                if (name, function) in OFFERED:
                    continue
                yield f"{name}:{number}: {function} is not used here: take {BANNED[function]}"


def folder_of(path):
    parts = pathlib.PurePosixPath(path).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def allowed(folder, target):
    for name in [folder, "runtime/base", *KNOWS.get(folder, KNOWS[folder.split("/")[0]])]:
        if target == name or (name.endswith("/*") and target.startswith(name[:-1])):
            return True
    return False


def directions():
    include = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]', re.M)
    sources = [n for n in files(".c", ".h") if n.startswith(("kernel/", "runtime/"))]
    for name in sources:
        folder = folder_of(name)
        for target in include.findall((ROOT / name).read_text()):
            here = pathlib.PurePosixPath(name).parent
            # As the compiler looks: beside the file, then -I. and -Iruntime and -Ikernel.
            for base in (here, "", "runtime", "kernel"):
                found = (ROOT / base / target).resolve()
                if found.is_file() and found.is_relative_to(ROOT):
                    break
            else:
                continue  # a header of the system or a library
            other = folder_of(found.relative_to(ROOT).as_posix())
            if other in ("runtime", "config.h") or not other.startswith(("kernel", "runtime")):
                continue
            if not allowed(folder, other):
                yield f"{name}: {folder} may not include {target} ({other})"


def tree():
    me = pathlib.Path(__file__).resolve().relative_to(ROOT).as_posix()
    for name in files():
        if name == me:
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        for pattern, what in TREE_BANNED:
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: {what}: {match.group()}"


def links():
    names = set(files())
    for name in files(".md"):
        for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            found = (ROOT / name).parent.joinpath(target).resolve()
            if not found.is_relative_to(ROOT) or found.relative_to(ROOT).as_posix() not in names:
                yield f"{name}: there is no {target}"


def main():
    failed = 0
    rules = (banned, directions, tree, links)
    for rule in rules:
        problems = list(rule())
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {rule.__name__}")
        for problem in problems:
            print("     " + problem)
    print(f"{len(rules) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
