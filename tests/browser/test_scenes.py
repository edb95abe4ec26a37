"""One scene each of a day's work in JupyterLab."""
import json

import lab
import nbformat
import pytest
from playwright.sync_api import expect
from scenes import (NOTEBOOK, PATIENT, Wire, append_cell, has_run, menu, open_notebook, outputs,
                    palette, prompt, run, wait_for_idle)


@pytest.fixture
def opened(page, server, work, request):
    """open(cell, ...): a notebook of these cells, open, its kernel idle; gives its cells."""
    def open_(*cells):
        name = request.node.name + ".ipynb"
        lab.notebook(work / "notebooks" / name, *cells)
        return open_notebook(page, server, name)
    return open_


def test_completion_tooltip_and_inspector(page, opened):
    cells = opened("/** How far. */\ndouble alpha_beta_gamma = 1.5;\nint alpha_beta_delta(int days) "
                   "{ return days; }")
    run(page, cells, 0)
    has_run(cells, 0)
    last = append_cell(page, cells)
    page.keyboard.type("alpha_be", delay=20)
    expect(cells.nth(last).locator(".cm-content")).to_have_text("alpha_be")
    page.keyboard.press("Tab")
    items = page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")
    expect(items.first).to_be_visible(timeout=PATIENT)
    names = items.locator(".jp-Completer-match").all_inner_texts()
    assert sorted(names) == ["alpha_beta_delta", "alpha_beta_gamma"], names
    # An icon with the first letter of the type.
    types = [items.nth(i).locator(".jp-Completer-type").inner_text() for i in range(2)]
    assert sorted(types) == ["f", "i"], types
    items.filter(has_text="alpha_beta_gamma").click()
    expect(cells.nth(last).locator(".cm-content")).to_have_text("alpha_beta_gamma")
    page.keyboard.press("Shift+Tab")
    tooltip = page.locator(".jp-Tooltip")
    expect(tooltip).to_contain_text("double alpha_beta_gamma", timeout=PATIENT)
    expect(tooltip).to_contain_text("How far.")
    expect(tooltip).to_contain_text("1.5")
    page.keyboard.press("Escape")
    palette(page, "contextual help", "inspector:")
    cells.nth(last).locator(".cm-content").click()
    page.keyboard.press("End")
    expect(page.locator(".jp-Inspector-content")).to_contain_text("How far.", timeout=PATIENT)


def test_restart_and_run_all(page, opened):
    cells = opened("static int n;\nint twice(int x) { return 2 * x; }", 'printf("n %d\\n", ++n);\ntwice(21)')
    menu(page, "Run", "runmenu:run-all")
    expect(outputs(cells, 1).last).to_have_text("42", timeout=PATIENT)
    run(page, cells, 1)
    expect(outputs(cells, 1).first).to_contain_text("n 2", timeout=PATIENT)
    menu(page, "Run", "runmenu:restart-and-run-all")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(outputs(cells, 1).first).to_contain_text("n 1", timeout=PATIENT)
    expect(prompt(cells, 1)).to_have_text("[2]:", timeout=PATIENT)


def test_stop_on_a_tight_loop_keeps_the_state(page, opened):
    cells = opened("volatile long count = 5;", "for (;;) count++;", "count > 5")
    run(page, cells, 0)
    has_run(cells, 0)
    run(page, cells, 1)
    expect(prompt(cells, 1)).to_have_text("[*]:", timeout=PATIENT)
    page.locator(NOTEBOOK + "[data-jp-item-name='interrupt'], " + NOTEBOOK +
                 "button[data-command='notebook:interrupt-kernel'], " + NOTEBOOK +
                 "jp-button[title*='Interrupt']").first.click()
    expect(outputs(cells, 1).last).to_contain_text("KeyboardInterrupt", timeout=PATIENT)
    run(page, cells, 2)
    expect(outputs(cells, 2).last).to_have_text("1", timeout=PATIENT)


def test_input_and_password(page, opened):
    cells = opened('char name[40];\nprintf("Name? ");\nscanf("%39s", name);\nprintf("hello %s\\n", name);',
                   'char *secret = cadre_read_password("Password: ");\nprintf("%zu letters\\n", '
                   "strlen(secret));")
    run(page, cells, 0)
    box = page.locator(NOTEBOOK + ".jp-Stdin-input")
    expect(box).to_be_visible(timeout=PATIENT)
    box.fill("Ada")
    box.press("Enter")
    expect(outputs(cells, 0).last).to_contain_text("hello Ada", timeout=PATIENT)
    run(page, cells, 1)
    expect(box).to_be_visible(timeout=PATIENT)
    assert box.get_attribute("type") == "password"
    box.fill("geheim")
    box.press("Enter")
    expect(outputs(cells, 1).last).to_contain_text("6 letters", timeout=PATIENT)
    assert "geheim" not in cells.nth(1).inner_text()


def test_progress_is_live(page, opened):
    # It goes on only when the person has seen the bar move.
    cells = opened("""
        #include <unistd.h>
        cadre_progress *bar = cadre_progress_new("models", 4);
        for (int i = 1; i <= 2; i++) { cadre_progress_set(bar, i, NULL); usleep(300000); }
        int answer;
        scanf("%d", &answer);
        for (int i = 3; i <= 4; i++) cadre_progress_set(bar, i, NULL);
        cadre_progress_free(bar);""")
    run(page, cells, 0)
    expect(outputs(cells, 0).first).to_contain_text("2/4", timeout=PATIENT)
    box = page.locator(NOTEBOOK + ".jp-Stdin-input")
    expect(box).to_be_visible(timeout=PATIENT)
    box.fill("1")
    box.press("Enter")
    expect(outputs(cells, 0).first).to_contain_text("4/4", timeout=PATIENT)
    assert outputs(cells, 0).filter(has_text="2/4").count() == 0, "one bar, not a line each"


def test_a_crash_is_told_in_colour_and_costs_nothing(page, opened):
    cells = opened("int kept = 7;\nstatic void deep(int *p) { *p = 1; }", "kept = 8;\ndeep(NULL);", "kept")
    run(page, cells, 0)
    has_run(cells, 0)
    run(page, cells, 1)
    error = outputs(cells, 1).last
    expect(error).to_contain_text("SIGSEGV", timeout=PATIENT)
    expect(error).to_contain_text("deep")
    expect(error).to_contain_text("In[1]")
    assert error.locator("span[class*='ansi-']").count() > 0, "colours"
    run(page, cells, 2)
    expect(outputs(cells, 2).last).to_have_text("7", timeout=PATIENT)


CHART = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "width": 300, "height": 150,
         "data": {"values": [{"x": 1, "y": 3}, {"x": 2, "y": 5}, {"x": 3, "y": 4}]}, "mark": "bar",
         "encoding": {"x": {"field": "x", "type": "ordinal"},
                      "y": {"field": "y", "type": "quantitative"}}}
SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='40'><circle r='15' cx='20' cy='20'/></svg>"


def display(bundle):
    return f"cadre_display_bundle({json.dumps(json.dumps(bundle))}, NULL);"


def test_a_vega_lite_chart(page, opened):
    cells = opened(display({"application/vnd.vegalite.v5+json": CHART, "text/plain": "a chart"}))
    run(page, cells, 0)
    expect(cells.nth(0).locator("canvas, svg.marks").first).to_be_visible(timeout=PATIENT)


def test_trust_and_svg(page, opened, server, work):
    html = "<b id='mark'>bold</b><script>document.title = 'ran'</script>"
    cells = opened(display({"image/svg+xml": SVG, "text/plain": "a circle"}),
                   f"cadre_display_html({json.dumps(html)}, \"bold\");")
    run(page, cells, 0)
    expect(cells.nth(0).locator("circle, img").first).to_be_visible(timeout=PATIENT)
    run(page, cells, 1)
    expect(cells.nth(1).locator("b")).to_have_text("bold", timeout=PATIENT)
    # The same notebook from a stranger: SVG is not drawn before it is trusted, scripts never.
    name = "stranger.ipynb"
    shown = nbformat.v4.new_code_cell("1", execution_count=1, outputs=[nbformat.v4.new_output(
        "display_data", data={"image/svg+xml": SVG, "text/plain": "a circle"})])
    stranger = nbformat.v4.new_notebook(cells=[shown], metadata={
        "kernelspec": {"name": "cadre", "display_name": "C", "language": "c"}})
    nbformat.write(stranger, work / "notebooks" / name)
    cells = open_notebook(page, server, name)
    expect(outputs(cells, 0)).to_contain_text("a circle", timeout=PATIENT)
    assert cells.nth(0).locator("circle, img").count() == 0
    palette(page, "trust notebook", "notebook:trust")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(cells.nth(0).locator("circle, img").first).to_be_visible(timeout=PATIENT)


def test_two_tabs_on_one_kernel(page, opened, browser, server):
    cells = opened("int shared = 1;", "shared += 10;\nshared")
    run(page, cells, 0)
    has_run(cells, 0)
    other = browser.new_page(viewport={"width": 1400, "height": 1000})
    try:
        other.set_default_timeout(PATIENT)
        theirs = open_notebook(other, server, "test_two_tabs_on_one_kernel.ipynb")
        run(other, theirs, 1)
        expect(outputs(theirs, 1).last).to_have_text("11", timeout=PATIENT)
        run(page, cells, 1)
        expect(outputs(cells, 1).last).to_have_text("21", timeout=PATIENT)
    finally:
        other.close()


def test_the_socket_drops_while_a_cell_runs(page, server, work):
    """What the cell prints meanwhile comes when the connection is there again."""
    name = "test_the_socket_drops.ipynb"
    lab.notebook(work / "notebooks" / name,
                 '#include <unistd.h>\nint kept = 3;\nfor (int i = 0; i < 30; i++) '
                 '{ printf("line %d\\n", i); usleep(100000); }', "kept + 1")
    wire = Wire(server)
    try:
        cells = open_notebook(page, wire.url, name)
        run(page, cells, 0)
        expect(outputs(cells, 0).first).to_contain_text("line 3", timeout=PATIENT)
        wire.cut()
        expect(outputs(cells, 0).first).to_contain_text("line 29", timeout=PATIENT)
        wait_for_idle(page)
        run(page, cells, 1)
        expect(outputs(cells, 1).last).to_have_text("4", timeout=PATIENT)
    finally:
        wire.close()


def test_a_reload_while_a_cell_runs(page, opened, server):
    cells = opened('#include <unistd.h>\nint done = 0;\nputs("begun");\nfflush(stdout);\n'
                   "for (int i = 0; i < 40; i++) usleep(50000);\ndone = 1;", "done")
    run(page, cells, 0)
    expect(outputs(cells, 0).first).to_contain_text("begun", timeout=PATIENT)
    page.keyboard.press("Control+s")
    page.on("dialog", lambda dialog: dialog.accept())
    cells = open_notebook(page, server, "test_a_reload_while_a_cell_runs.ipynb")
    run(page, cells, 1)
    expect(outputs(cells, 1).last).to_have_text("1", timeout=PATIENT)


def test_c_is_highlighted(page, opened):
    cells = opened("#include <stdio.h>\nstatic int main_count = 42; // a comment")
    run(page, cells, 0)
    has_run(cells, 0)
    colours = page.evaluate("""() => {
        const line = [...document.querySelectorAll('.jp-CodeCell .cm-line')][1];
        return [...line.querySelectorAll('span')].map(s => [s.innerText, getComputedStyle(s).color]);
    }""")
    by_text = {text.strip(): colour for text, colour in colours}
    assert {"static", "42", "// a comment"} <= set(by_text), colours
    assert len({by_text[part] for part in ("static", "42", "// a comment")}) == 3, colours
