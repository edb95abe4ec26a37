"""%store keeps values over a restart: the second kernel has another process and the same files."""
import pathlib

import lab
import pytest


@pytest.fixture
def home(tmp_path):
    return {"XDG_DATA_HOME": str(tmp_path)}


def test_values_come_back_in_another_kernel(home, tmp_path):
    with lab.Kernel("cadre", env=home) as kernel:
        assert kernel.run("double weights[3] = {1.5, -2, 3};\nint epoch = 7;\n"
                          "struct point { int x, y; } where = {4, 5};\n"
                          'char text[20] = "ä\\n\\"";\n_Bool done = 1; long long big = -5e18;').status == "ok"
        answer = kernel.run("epoch = 8;\n%store weights epoch where text done big\nepoch = 9;")
        assert answer.status == "ok", answer.error_text
        assert answer.stdout.splitlines()[:2] == ["Stored double weights[3] (24 bytes)",
                                                  "Stored int epoch (4 bytes)"]
        listed = kernel.run("%store").stdout
        assert len(listed.splitlines()) == 6 and "struct point where" in listed
    folder = tmp_path / "cadre" / "store"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in folder.iterdir())
    with lab.Kernel("cadre", env=home) as kernel:
        answer = kernel.run("%store -r weights epoch text done big\nweights[1] + epoch")
        assert answer.status == "ok", answer.error_text
        assert answer.value == "6.0", "the value at the time of %store"
        assert kernel.run("text").value == '"ä\\n\\""'
        assert kernel.run("big").value == "-5000000000000000000"
        # A structure only where its layout can be compared.
        assert "define that type" in kernel.run("%store -r where").error_text
        kernel.run("struct point { int x, y; } where;")
        assert kernel.run("%store -r where\nwhere.x * 10 + where.y").value == "45"
        kernel.run("struct point { long x, y; } where;")
        assert "another type or layout" in kernel.run("%store -r where").error_text
        kernel.run("float weights[3];")
        assert "another type or layout" in kernel.run("%store -r weights").error_text
        assert kernel.run("%store -d epoch").status == "ok"
        assert "nothing is stored" in kernel.run("%store -r epoch").error_text
        assert "nothing is stored" in kernel.run("%store -d epoch").error_text


def test_what_cannot_be_stored_is_refused(home):
    with lab.Kernel("cadre", env=home) as kernel:
        kernel.run("char *text = \"a\";\nstruct node { struct node *next; int n; } list;\n"
                   "int f(void) { return 1; }\nint n = 3;\ndouble grid[n];\nconst int c = 5;")
        for name, why in (("text", "holds pointers"), ("list", "holds pointers"),
                          ("f", "only variables"), ("grid", "run-time bounds"),
                          ("missing", "no variable missing"), ("../x", "no variable"),
                          ("-x n", "it is %store")):
            answer = kernel.run(f"%store {name}")
            assert answer.status == "error" and why in answer.error_text, (name, answer.error_text)
        assert kernel.run("%store c").status == "ok"
        assert "constant cannot be restored" in kernel.run("%store -r c").error_text
        assert "no name of a variable" in kernel.run("%store -r ../../etc/passwd").error_text


def test_damaged_files_and_full_disks(home, tmp_path):
    with lab.Kernel("cadre", env=home) as kernel:
        kernel.run("int kept = 5;\ndouble other = 1.5;")
        assert kernel.run("%store kept other").status == "ok"
        file = tmp_path / "cadre" / "store" / "kept.value"
        whole = file.read_bytes()
        for broken in (b"", whole[:-1], whole[:40], whole.replace(b"int", b"Int"), whole + b"x",
                       bytes([whole[0] ^ 1]) + whole[1:]):
            file.write_bytes(broken)
            answer = kernel.run("%store -r kept")
            assert answer.status == "error" and "damaged" in answer.error_text
            assert "damaged" in kernel.run("%store").stdout
        file.unlink()
        file.mkdir()
        assert "is no file" in kernel.run("%store -r kept").error_text
        assert kernel.run("%store -r other\nother").value == "1.5"
        # No room: an error, the old file whole, nothing left behind.
        answer = kernel.run("#include <sys/resource.h>\n#include <signal.h>\nsignal(SIGXFSZ, SIG_IGN);\n"
                            "struct rlimit small = {100, 100};\nsetrlimit(RLIMIT_FSIZE, &small);\n"
                            "double wide[1000] = {2};")
        assert answer.status == "ok", answer.error_text
        assert "File too large" in kernel.run("%store wide").error_text
        assert kernel.run("%store -r other\nother").value == "1.5"
        assert sorted(f.name for f in file.parent.iterdir()) == ["kept.value", "other.value"]
