"""One JupyterLab and one headless Chromium for all scenes; each scene has a page of its own."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import lab  # noqa: E402
from scenes import TOKEN  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """notebooks/ beside build/data/, as in the source tree, and folders for Jupyter's settings."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "build").mkdir()
    (folder / "build" / "data").symlink_to(os.environ["CADRE_TEST_DATA"])
    return folder


@pytest.fixture(scope="session")
def server(work):
    settings = work / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    environment = dict(os.environ, JUPYTER_CONFIG_DIR=str(work / "config"),
                       JUPYTERLAB_SETTINGS_DIR=str(work / "settings"),
                       JUPYTERLAB_WORKSPACES_DIR=str(work / "workspaces"))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    log = open(work / "lab.log", "w")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
         "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
         f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={work}"],
        env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 60
        while True:
            assert process.poll() is None and time.monotonic() < end, \
                (work / "lab.log").read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{base}/api/status?token={TOKEN}", timeout=2).read()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        yield base
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, "there is no Chromium; install it (apt-get install chromium) or leave this out"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, headless=True,
                                             args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser, artefacts, request):
    made = browser.new_page(viewport={"width": 1400, "height": 1000})
    made.set_default_timeout(60000)
    yield made
    made.screenshot(path=artefacts / f"{request.node.name}.png")
    made.close()


@pytest.fixture(scope="session")
def artefacts():
    folder = pathlib.Path(os.environ.get("CADRE_TEST_ARTEFACTS", ROOT / "build" / "artefacts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
