"""JupyterLab in headless Chromium: a person opens the worker, runs it, sees the report, interrupts."""
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
from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import lab  # noqa: E402

TOKEN = "browser-test"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden) "


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """notebooks/ beside build/data/, as in the source tree, and folders for Jupyter's settings."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "build").mkdir()
    (folder / "build" / "data").symlink_to(os.environ["CADRE_TEST_DATA"])
    lab.notebook(folder / "notebooks" / "interrupt.ipynb",
                 '#include <unistd.h>\nputs("started");\nfflush(stdout);\nsleep(60);',
                 'puts("only when asked again");')
    return folder


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
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


def open_notebook(page, server, name):
    page.goto(f"{server}/lab/tree/notebooks/{name}?token={TOKEN}&reset")
    page.wait_for_selector(NOTEBOOK + ".jp-CodeCell")
    # The toolbar's indicator says idle before a kernel is attached; the status bar does not.
    page.wait_for_function(
        """() => [...document.querySelectorAll('#jp-main-statusbar .jp-StatusBar-TextItem')]
              .some(e => / \\| Idle$/.test(e.innerText) && !/^No Kernel/.test(e.innerText))""")
    return page.locator(NOTEBOOK + ".jp-Notebook .jp-CodeCell")


def menu(page, top, command):
    page.locator(".lm-MenuBar-item", has_text=top).first.click()
    page.locator(f".lm-Menu-item[data-command='{command}']").click()


def test_the_launcher_shows_the_kernel(page, server):
    page.goto(f"{server}/lab?token={TOKEN}&reset")
    card = page.locator(".jp-LauncherCard[title='C (Cadre)']").first
    expect(card).to_be_visible(timeout=30000)
    expect(card.locator("img")).to_be_visible()


def test_worker_runs_and_shows_its_report(page, server, artefacts):
    cells = open_notebook(page, server, "worker.ipynb")
    menu(page, "Run", "runmenu:run-all")
    report = page.locator(NOTEBOOK + ".jp-OutputArea-output.jp-RenderedHTMLCommon table",
                          has_text="UA/EWR").last
    expect(report).to_be_visible(timeout=180000)
    refused = page.locator(NOTEBOOK + ".jp-OutputArea-output", has_text="OO/EWR").last
    expect(refused).to_be_visible()
    count = cells.count()
    for index in range(count):
        expect(cells.nth(index).locator(".jp-InputArea-prompt").first).to_have_text(
            f"[{index + 1}]:", timeout=60000)
    assert page.locator(NOTEBOOK + "[data-mime-type='application/vnd.jupyter.error']").count() == 0
    report.scroll_into_view_if_needed()
    page.screenshot(path=artefacts / "lab-worker-report.png")


def test_interrupt_from_the_menu(page, server):
    cells = open_notebook(page, server, "interrupt.ipynb")
    menu(page, "Run", "runmenu:run-all")
    output = page.locator(NOTEBOOK + ".jp-OutputArea-output")
    expect(output.first).to_contain_text("started")
    expect(cells.nth(0).locator(".jp-InputArea-prompt").first).to_have_text("[*]:")
    begin = time.monotonic()
    menu(page, "Kernel", "kernelmenu:interrupt")
    expect(output.last).to_contain_text("KeyboardInterrupt", timeout=15000)
    assert time.monotonic() - begin < 5
    # The cell behind it was queued and does not run; the kernel is there.
    page.wait_for_timeout(500)
    assert cells.nth(1).locator(".jp-OutputArea-output").count() == 0
    cells.nth(1).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cells.nth(1).locator(".jp-OutputArea-output")).to_contain_text("only when asked again")
