"""The explorer in a cell of a real JupyterLab, over a real kernel."""

import re
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

TESTS = Path(__file__).resolve().parents[1]
browsing = SimpleNamespace(**run_path(str(TESTS / "browsing.py")))
jupyterlab = SimpleNamespace(**run_path(str(TESTS / "jupyterlab.py")))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        not browsing.CHROMIUM.is_file(), reason=f"no Chromium at {browsing.CHROMIUM}"
    ),
]

RUN_SECONDS = 120
RULE = '''class TanhForRelu(Rule):
    """relu(x)   =>   tanh(x)      (wrong)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data == "relu":
            rewriter.update(op, kind="tanh")
'''


@pytest.fixture(scope="module")
def notebook_address(
    tmp_path_factory: pytest.TempPathFactory, sample_models: Path
) -> Iterator[str]:
    """Of a notebook that compiles a model and explores it, in a JupyterLab of its own."""
    model = str(sample_models / "digits_cnn.onnx")
    cells = [
        "import explorer as ex",
        f"c = ex.compile({model!r})\nc.accuracy()\nprofile = c.profile()",
        "c.explore()",
    ]
    with jupyterlab.served(tmp_path_factory.mktemp("jupyterlab"), cells) as address:
        yield address


@pytest.fixture(scope="module")
def executed_notebook(chromium: Browser, notebook_address: str) -> Iterator[Any]:
    """The notebook after all of its cells have run, as a `browsing.Watched`."""
    with browsing.watched(chromium, timeout_seconds=30) as seen:
        page = seen.page
        page.goto(notebook_address)
        jupyterlab.run_all_cells(page)
        page.wait_for_selector(".explorer .node", timeout=1000 * RUN_SECONDS)
        yield seen


@pytest.fixture
def notebook(executed_notebook: Any) -> Iterator[Any]:  # browsing.Watched
    """The notebook. A test that asks for anything outside of this machine fails, and so does one
    that leaves an error on the console; so may the execution before it."""
    yield executed_notebook
    assert executed_notebook.is_clean(), executed_notebook


def current_pass(notebook: Any) -> str:
    return notebook.page.locator('.pass-row[aria-current="step"] .pass-name').inner_text()


def theme(notebook: Any) -> tuple[str | None, str]:
    """What the explorer says of its theme, and the colour behind it."""
    explorer = notebook.page.locator(".explorer")
    background = explorer.evaluate("element => getComputedStyle(element).backgroundColor")
    return explorer.get_attribute("data-theme"), background


def a_cell_shows_the_compilation_that_it_made(notebook: Any) -> None:
    page = notebook.page
    expect(page.locator(".explorer .model-name")).to_have_text("digits_cnn")
    # In a narrow cell only the mark of the verdict is seen; its words are still there.
    assert "equal to source" in page.locator(".explorer .verdict").text_content()
    assert current_pass(notebook) == "fuse-activation"
    assert notebook.names(".explorer .passes .pass-name")[:2] == ["model", "import"]


def keys_step_passes_and_leave_the_notebooks_cells_alone(notebook: Any) -> None:
    page = notebook.page
    active = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    page.locator(".explorer .pane-title", has_text="Passes").click()
    cell = page.evaluate(active)
    page.keyboard.press("k")
    assert current_pass(notebook) != "fuse-activation"
    page.keyboard.press("j")
    assert current_pass(notebook) == "fuse-activation"
    page.keyboard.press("j")
    page.wait_for_function(
        "name => document.querySelector('.explorer .graph .pane-title').textContent !== name",
        arg="fuse-activation",
    )
    page.keyboard.press("k")
    assert page.evaluate(active) == cell
    assert page.evaluate("window.location.hash") == ""


def a_convolution_is_found_in_every_pane(notebook: Any) -> None:
    page = notebook.page
    page.locator(".explorer .pass-row", has_text="fuse-activation").click()
    page.wait_for_selector(".explorer .node.fused.family-convolution")
    convolution = page.locator(".explorer .node.fused.family-convolution").first
    name = convolution.get_attribute("data-id")
    convolution.click()
    page.wait_for_selector(f'.explorer .node.selected[data-id="{name}"]')
    page.wait_for_selector(".explorer .origin")
    origins = [f"/stage1/{name}" for name in ("conv1", "norm1", "relu1")]
    assert notebook.names(".explorer .origin") == origins

    page.keyboard.press("2")  # its IR
    page.wait_for_selector(".explorer .line.marked")
    assert any(f"%{name} = top.conv" in line for line in notebook.names(".explorer .line.marked"))

    page.keyboard.press("m")  # its place in memory
    page.wait_for_selector(".explorer .buffer.marked")
    expect(page.locator(".explorer .buffer.marked")).to_have_count(1)

    page.keyboard.press("a")  # its errors
    page.wait_for_selector(".explorer .column-mark")

    page.keyboard.press("n")  # its kernel among all
    page.wait_for_selector(".explorer .dock tr.marked")
    (kernel,) = notebook.names(".explorer .dock tr.marked td:first-child")

    page.keyboard.press("4")  # the kernel's source
    page.wait_for_selector(".explorer .inspector .kernel-line")
    expect(page.locator(".explorer .inspector .kernel-line")).to_contain_text(kernel)
    assert any(kernel in line for line in notebook.names(".explorer .inspector .line"))


def lists_are_laid_out_as_everywhere_and_not_as_jupyterlab_does(notebook: Any) -> None:
    page = notebook.page
    page.locator(".explorer .tab", has_text="memory").click()
    term = page.locator(".explorer .facts dt", has_text="peak").first
    style = "element => [getComputedStyle(element).float, getComputedStyle(element).fontWeight]"
    assert term.evaluate(style) == ["none", "400"]
    assert term.bounding_box()["height"] < 30, "one line"


def the_theme_of_jupyterlab_is_followed(notebook: Any) -> None:
    page = notebook.page
    shown = {}
    for name in ("JupyterLab Dark", "JupyterLab Light"):
        jupyterlab.change_theme(page, name)
        shown[name] = theme(notebook)
    assert shown["JupyterLab Dark"][0] == "dark"
    assert shown["JupyterLab Light"][0] == "light"
    assert _brightness(shown["JupyterLab Dark"][1]) < 80
    assert _brightness(shown["JupyterLab Light"][1]) > 200


def letters_that_mean_nothing_here_do_not_reach_the_notebook(notebook: Any) -> None:
    page = notebook.page
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = page.evaluate(cells)
    page.locator(".explorer .pane-title", has_text="Passes").click()
    page.keyboard.press("x")  # cuts a cell
    page.keyboard.press("Shift+Enter")  # runs it
    assert page.evaluate(cells) == before
    assert page.locator(".explorer").count() == 1


def the_wheel_scrolls_the_notebook_and_with_control_zooms_the_graph(notebook: Any) -> None:
    page = notebook.page
    graph = page.locator(".explorer .graph svg.canvas")
    camera = "document.querySelector('.explorer .graph svg.canvas g').getAttribute('transform')"
    graph.hover()
    before, top = page.evaluate(camera), graph.bounding_box()["y"]
    page.mouse.wheel(0, -60)
    page.mouse.wheel(0, 90)
    place = "document.querySelector('.explorer .graph svg.canvas').getBoundingClientRect().y"
    page.wait_for_function(f"top => {place} !== top", arg=top)
    assert page.evaluate(camera) == before
    graph.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    page.wait_for_function(f"before => {camera} !== before", arg=before)


def what_is_painted_follows_the_theme_while_it_is_shown(notebook: Any) -> None:
    page = notebook.page
    page.locator(".explorer .tab", has_text="memory").click()
    page.wait_for_selector(".explorer .plot canvas")
    brightest = """() => {
      const canvas = document.querySelector('.explorer .plot canvas');
      const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let filled = 0, light = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] < 250) continue;
        filled += 1;
        if (data[at] + data[at + 1] + data[at + 2] > 600) light += 1;
      }
      return light / filled;
    }"""
    for name, is_dark in (("JupyterLab Dark", True), ("JupyterLab Light", False)):
        jupyterlab.change_theme(page, name)
        page.wait_for_function(f"({brightest})() {'<' if is_dark else '>'} 0.5")


def the_kernel_compiles_what_is_wanted_otherwise(notebook: Any) -> None:
    """A rewrite is left out, the IR edited, a rule written: each is a branch that is shown."""
    page = notebook.page
    page.locator(".explorer .pane-title", has_text="Passes").click()
    page.keyboard.press("x")
    page.wait_for_selector(".explorer .changing")
    branches = page.get_by_label("branch").locator("option")
    before = branches.count()  # more than one where this test runs again
    if before > 1:
        page.get_by_label("branch").select_option("0")
    page.locator(".explorer .pass-row", has_text="fuse-activation").click()
    page.keyboard.press("J")
    page.wait_for_selector(".explorer .rewrite-card")
    page.get_by_role("button", name="without this rewrite").click()
    expect(branches).to_have_count(before + 1, timeout=1000 * RUN_SECONDS)

    page.locator(".explorer .changing button", has_text="edit").click()
    written = page.get_by_label("IR", exact=True).and_(page.locator("textarea"))
    expect(written).to_be_visible()
    written.fill("no IR")
    page.get_by_role("button", name="compile from here").click()
    expect(page.locator(".explorer .ir-editor .ink-wrong")).to_contain_text("line 1: not valid IR")
    page.keyboard.press("Escape")
    expect(branches).to_have_count(before + 1)

    rule = page.get_by_label("rule", exact=True)
    rule.fill(RULE)
    page.get_by_role("button", name="insert", exact=True).click()
    expect(branches).to_have_count(before + 2, timeout=1000 * RUN_SECONDS)
    # The rewrite that was left out left one.
    page.wait_for_selector(".explorer .pass-name >> text=tanh-for-relu")
    page.get_by_label("branch").select_option("0")
    expect(page.locator(".explorer .pass-name", has_text="tanh-for-relu")).to_have_count(0)


STEPS = (
    a_cell_shows_the_compilation_that_it_made,
    keys_step_passes_and_leave_the_notebooks_cells_alone,
    a_convolution_is_found_in_every_pane,
    lists_are_laid_out_as_everywhere_and_not_as_jupyterlab_does,
    the_theme_of_jupyterlab_is_followed,
    letters_that_mean_nothing_here_do_not_reach_the_notebook,
    the_wheel_scrolls_the_notebook_and_with_control_zooms_the_graph,
    what_is_painted_follows_the_theme_while_it_is_shown,
    the_kernel_compiles_what_is_wanted_otherwise,
)


def test_the_explorer_works_in_a_cell(notebook: Any):
    """One page, for it takes longer to start JupyterLab than to do all of this."""
    for step in STEPS:
        with notebook.step(step.__name__.replace("_", " ")):
            step(notebook)
            assert notebook.is_clean(), notebook


def test_a_saved_notebook_shows_a_picture_without_its_kernel(
    chromium: Browser, notebook: Any, notebook_address: str
):
    """Last of this file: it ends the kernel."""
    assert notebook.page.locator(".explorer-picture").count() == 1
    assert not notebook.page.locator(".explorer-picture").is_visible(), "the explorer is there"
    jupyterlab.run_command(notebook.page, "docmanager:save")
    shutdown = "window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
    notebook.page.evaluate(shutdown)
    with browsing.watched(chromium, timeout_seconds=30) as seen:
        seen.page.goto(notebook_address)
        shown = seen.page.locator(".explorer-picture")
        expect(shown).to_be_visible(timeout=1000 * RUN_SECONDS)
        expect(seen.page.locator(".explorer-picture img")).to_be_visible()
        expect(seen.page.get_by_text("model not found")).to_be_hidden()
        # The new kernel has started: a server that starts one does not end in time.
        seen.page.wait_for_function(jupyterlab.KERNEL_IS_IDLE, timeout=1000 * RUN_SECONDS)


def _brightness(colour: str) -> float:
    """Mean of red, green and blue of `rgb(17, 19, 24)`, from 0 to 255."""
    channels = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    return sum(channels) / 3
