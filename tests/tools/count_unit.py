#!/usr/bin/env python3
"""Counts the tests of `make check`: count_unit.py BUILD_DIR

Reads the .trs and .log files that automake leaves for each test program, adds up what Check
counted in them, shows the log of every program that failed, and ends with `N passed, N failed`.
A program that ended without Check's closing line (it crashed, or uses no Check) is one test.
"""
import pathlib
import re
import sys

CLOSING = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)


def main():
    passed = failed = programs = 0
    for trs in sorted(pathlib.Path(sys.argv[1]).rglob("*.trs")):
        programs += 1
        log = trs.with_suffix(".log").read_text(errors="replace")
        good = ":test-result: PASS" in trs.read_text()
        suites = CLOSING.findall(log)
        bad = sum(int(failures) + int(errors) for _, failures, errors in suites)
        passed += sum(int(checks) for checks, _, _ in suites) - bad
        if not suites:
            passed += good
        if not good and not bad:
            bad = 1
        failed += bad
        if bad:
            print(f"---- {trs.stem}\n{log.strip()}")
    if not programs:
        print("no test program ran: look for an error of the compiler above")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
