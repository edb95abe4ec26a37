"""`name?` in a cell: the page payload; and what manual pages say in short."""
import gzip

import lab
import pytest


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    pages = tmp_path_factory.mktemp("man")
    (pages / "man3").mkdir()
    (pages / "man2").mkdir()
    (pages / "man3" / "qsort.3").write_text(
        '.TH QSORT 3\n.SH NAME\nqsort, \\fBqsort_r\\fR \\- puts an array\n.B in order\n.SH SYNOPSIS\nno\n')
    (pages / "man3" / "qsort_r.3.gz").write_bytes(gzip.compress(b".so man3/qsort.3\n"))
    (pages / "man2" / "getpid.2.gz").write_bytes(gzip.compress(b".TH\n.SH NAME\ngetpid \\- own number\n.SH X\n"))
    (pages / "man3" / "puts.3").write_bytes(b".so ../../../etc/passwd\n")
    (pages / "man3" / "free.3.gz").write_bytes(b"\x1f\x8bbroken")
    with lab.Kernel("cadre", env={"MANPATH": str(pages)}) as kernel:
        kernel.run("/** Doubles. */\nint twice(int x) { return 2 * x; }\nint five = 5;")
        yield kernel


def page(kernel, code):
    answer = kernel.run(code)
    assert answer.status == "ok", (code, answer.error_text)
    [payload] = answer.reply["payload"]
    assert payload["source"] == "page" and payload["start"] == 0
    return payload["data"]["text/plain"]


def test_names_of_the_session(asked):
    text = page(asked, "twice?")
    assert "int twice(int x)" in text and "Doubles." in text and "return 2 * x" not in text
    assert page(asked, "  ?twice\n") == text
    assert "return 2 * x" in page(asked, "twice??") and "return 2 * x" in page(asked, "??twice")
    assert "Value: 5" in page(asked, "five?")
    assert "%timeit" in page(asked, "%timeit?")


def test_functions_of_the_library_with_their_manual(asked):
    assert "Manual: puts an array in order (man 3 qsort)" in page(asked, "qsort?")
    assert "Manual: puts an array in order (man 3 qsort_r)" in page(asked, "qsort_r?")
    asked.run("#include <unistd.h>")
    assert "Manual: own number (man 2 getpid)" in page(asked, "getpid?")
    assert "Declared in" in page(asked, "free?")
    assert "root" not in page(asked, "puts?")


def test_what_is_no_question_or_no_name(asked):
    for code, why in (("nothing_of_this_name?", "nothing is known of nothing_of_this_name"),
                      ("%nothing?", "no such magic"), ("??", "expected"), ("twice???", "expected"),
                      ("?twice?", "expected")):
        answer = asked.run(code)
        assert answer.status == "error" and why in answer.error_text, (code, answer.error_text)
    assert asked.run("five ? 1 : 2").value == "1"
    for code in ("twice?", "?twice", "twice??"):
        assert asked.reply(asked.client.is_complete(code))["status"] == "complete"
