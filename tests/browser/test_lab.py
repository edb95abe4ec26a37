"""JupyterLab in headless Chromium: a person opens the worker, runs it, sees the report, interrupts."""
import lab
from playwright.sync_api import expect
from scenes import NOTEBOOK, PATIENT, TOKEN, menu, open_notebook, outputs, prompt, wait_for_idle


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


def test_interrupt_from_the_menu(page, server, work):
    lab.notebook(work / "notebooks" / "interrupt.ipynb",
                 '#include <unistd.h>\nputs("started");\nfflush(stdout);\nsleep(600);',
                 'puts("only when asked again");')
    cells = open_notebook(page, server, "interrupt.ipynb")
    menu(page, "Run", "runmenu:run-all")
    output = page.locator(NOTEBOOK + ".jp-OutputArea-output")
    expect(output.first).to_contain_text("started")
    expect(cells.nth(0).locator(".jp-InputArea-prompt").first).to_have_text("[*]:")
    menu(page, "Kernel", "kernelmenu:interrupt")
    # The cell would end by itself after ten minutes: what ends it now is the interrupt.
    expect(output.last).to_contain_text("KeyboardInterrupt", timeout=PATIENT)
    # The cell behind it was queued and is given back as it was; the kernel is there.
    expect(prompt(cells, 1)).to_have_text("[ ]:", timeout=PATIENT)
    wait_for_idle(page)
    assert outputs(cells, 1).count() == 0
    cells.nth(1).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cells.nth(1).locator(".jp-OutputArea-output")).to_contain_text("only when asked again")
