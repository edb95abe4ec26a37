"""`cadre doctor` and `cadre kernelspec`: what they say of a good and of a damaged installation."""
import os
import shutil

import pytest


def test_a_good_installation(cadre):
    run = cadre("doctor")
    assert run.returncode == 0, run.stdout
    assert "FAIL" not in run.stdout and "ok    kernelspec" in run.stdout
    for part in ("kernel", "host", "compiler", "cc1", "headers", "library", "cache",
                 "processors", "/dev/shm", "python"):
        assert any(line.split()[1:2] == [part] for line in run.stdout.splitlines()), part


def test_no_compiler(cadre, tmp_path):
    for name in ("python3", "jupyter", "ldd"):
        found = shutil.which(name)
        (tmp_path / name).symlink_to(found)
    run = cadre("doctor", env={**os.environ, "PATH": str(tmp_path)})
    assert run.returncode == 1
    assert "FAIL  compiler" in run.stdout and "apt-get install gcc" in run.stdout


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_that_others_may_write(cadre, tmp_path, mode):
    folder = tmp_path / "cadre"
    folder.mkdir()
    folder.chmod(mode)
    run = cadre("doctor", env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert run.returncode == 1 and "chmod 700" in run.stdout


def test_kernelspec_install_and_remove(cadre, tmp_path):
    place = tmp_path / "share" / "jupyter" / "kernels" / "cadre"
    run = cadre("kernelspec", "install", "--prefix", tmp_path)
    assert run.returncode == 0, run.stderr
    assert {p.name for p in place.iterdir()} == {"kernel.json", "logo-32x32.png",
                                                 "logo-64x64.png", "logo-svg.svg"}
    assert cadre("kernelspec", "remove", "--prefix", tmp_path).returncode == 0
    assert not place.exists()
    assert cadre("kernelspec", "remove", "--prefix", tmp_path).returncode == 1


def test_sys_prefix_is_the_active_environment(cadre, tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    assert cadre("kernelspec", "install", "--sys-prefix", env=env).returncode == 1
    run = cadre("kernelspec", "install", "--sys-prefix", env={**env, "VIRTUAL_ENV": str(tmp_path)})
    assert run.returncode == 0
    assert (tmp_path / "share/jupyter/kernels/cadre/kernel.json").exists()


def test_a_place_that_cannot_be_written(cadre, tmp_path):
    (tmp_path / "share").write_text("a file where a folder should be")
    run = cadre("kernelspec", "install", "--prefix", tmp_path)
    assert run.returncode == 1 and "share" in run.stderr
