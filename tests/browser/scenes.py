"""What a person does in JupyterLab, and how a scene waits for it: never for a time, always for a
sight, with a limit that only a hang reaches."""
import contextlib
import re
import socket
import threading

from playwright.sync_api import expect

TOKEN = "browser-test"
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden) "
PATIENT = 120000  # ms


def wait_for_idle(page):
    # The toolbar's indicator says idle before a kernel is attached; the status bar does not.
    page.wait_for_function(
        """() => [...document.querySelectorAll('#jp-main-statusbar .jp-StatusBar-TextItem')]
              .some(e => / \\| Idle$/.test(e.innerText) && !/^No Kernel/.test(e.innerText))""",
        timeout=PATIENT)


def open_notebook(page, server, name):
    page.goto(f"{server}/lab/tree/notebooks/{name}?token={TOKEN}&reset")
    page.wait_for_selector(NOTEBOOK + ".jp-CodeCell")
    wait_for_idle(page)
    return page.locator(NOTEBOOK + ".jp-Notebook .jp-CodeCell")


def menu(page, top, command):
    page.locator(".lm-MenuBar-item", has_text=top).first.click()
    page.locator(f".lm-Menu-item[data-command='{command}']").click()


def palette(page, words, command):
    """A command that begins so, found by these words."""
    page.keyboard.press("Control+Shift+C")
    page.locator(".lm-CommandPalette-input").fill(words)
    page.locator(f".lm-CommandPalette-item[data-command^='{command}']").first.click()


def outputs(cells, index):
    return cells.nth(index).locator(".jp-OutputArea-output")


def prompt(cells, index):
    return cells.nth(index).locator(".jp-InputArea-prompt").first


def run(page, cells, index):
    cells.nth(index).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def has_run(cells, index):
    """Waits until the cell has a number."""
    expect(prompt(cells, index)).to_have_text(re.compile(r"^\[\d+\]:$"), timeout=PATIENT)


def append_cell(page, cells):
    """A new cell at the end, with the cursor in it; its index."""
    count = cells.count()
    cells.nth(count - 1).locator(".cm-content").click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    expect(cells).to_have_count(count + 1)
    cells.nth(count).locator(".cm-content").click()
    return count


class Wire:
    """Stands between browser and server; cut() breaks every connection there is, as a network that
    goes away does. New ones are made as soon as the browser tries again."""

    def __init__(self, server):
        host, _, port = server.rpartition("//")[2].partition(":")
        self.target, self.open, self.lock = (host, int(port)), [], threading.Lock()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.door.accept()[0]
                far = socket.create_connection(self.target)
                with self.lock:
                    self.open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    @staticmethod
    def carry(source, sink):
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            broken, self.open = self.open, []
        for end in broken:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self):
        self.door.close()
        self.cut()
