"""Makes the pictures of README.md from real compilations, in a headless Chromium.

    python scripts/make_screenshots.py [--only explorer diff linked python notebook]
                                       [--output docs/images]

    explorer.png   ResNet-50: its passes, its graph and where its tensors lie in memory
    diff.png       one rewrite: what it did to the graph and to the IR, and the rule that did it
    linked.png     one convolution in graph, generated C, assembly and times; dark
    python.png     one line of a PyTorch module beside its kernel; needs torch (extra [pytorch])
    notebook.png   the explorer in a cell of JupyterLab

ResNet-50 is `onnx/light_resnet50.onnx` below the folder that `EXPLORER_MODELS` names (from the
repository's root; `../shared/models` if it is not set), with seeded random weights; where it isn't,
digits_resnet stands in. `EXPLORER_CHROMIUM` names another browser than /usr/bin/chromium.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

from PIL import Image
from playwright.sync_api import Browser, Page

import explorer as ex
from explorer.cli.models import load_with_weights
from explorer.results import Trace
from explorer.views.page import export_page

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLES = REPOSITORY / "sample_models"
browsing = SimpleNamespace(**run_path(str(REPOSITORY / "tests" / "browsing.py")))
jupyterlab = SimpleNamespace(**run_path(str(REPOSITORY / "tests" / "jupyterlab.py")))

MAX_BYTES = 300_000
"""Of one picture, so that the README loads quickly."""
COLOURS = 256
"""Of a picture, whose pixels take a byte each so; text and areas look as on the screen."""
SETTLE_MILLISECONDS = 700
"""Motion in the explorer takes at most 200 ms; fonts and the minimap come after it."""


def measured_trace(path: Path) -> Trace:
    """A compilation with everything that the explorer can show."""
    return measured(ex.compile(load_with_weights(str(path))))


def measured(compilation: ex.Compilation) -> Trace:
    try:
        compilation.accuracy()
        compilation.profile()
        return compilation.trace(with_assembly=True)
    finally:
        compilation.close()


@contextmanager
def explored(browser: Browser, trace: Trace, is_dark: bool = False) -> Iterator[Page]:
    """The trace's page, drawn."""
    with tempfile.TemporaryDirectory() as folder, browsing.watched(browser) as seen:
        path = Path(folder) / "trace.html"
        path.write_text(export_page(trace), encoding="utf-8")
        seen.page.emulate_media(color_scheme="dark" if is_dark else "light")
        seen.page.goto(path.as_uri())
        seen.page.wait_for_selector(".node")
        yield seen.page
        assert seen.is_clean(), seen


def pass_row(page: Page, name: str) -> None:
    page.locator(".pass-row", has=page.locator(f'.pass-name:text-is("{name}")')).click()


def picture(page: Page, path: Path) -> None:
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    shot = Image.open(io.BytesIO(page.screenshot(scale="css"))).convert("RGB")
    shot.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size_bytes = path.stat().st_size
    print(f"{path.name}: {size_bytes / 1000:.0f} kB", flush=True)
    if size_bytes > MAX_BYTES:
        sys.exit(f"{path} has {size_bytes:,} bytes; at most {MAX_BYTES:,} are wanted")


def picture_of_explorer(browser: Browser, path: Path) -> None:
    models = REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")
    model = models / "onnx" / "light_resnet50.onnx"
    trace = measured_trace(model if model.is_file() else SAMPLES / "digits_resnet.onnx")
    with explored(browser, trace) as page:
        page.get_by_role("button", name="Follow a convolution").first.click()
        page.wait_for_selector(".node.selected")
        page.wait_for_selector(".buffer.marked")
        page.mouse.move(0, 0)
        picture(page, path)


def picture_of_diff(browser: Browser, path: Path) -> None:
    with explored(browser, measured_trace(SAMPLES / "digits_mobilenet.onnx")) as page:
        pass_row(page, "fold-batch-norm")
        page.wait_for_selector(".node.removed")
        page.keyboard.press("J")
        page.keyboard.press("J")
        page.wait_for_selector(".rewrite-card")
        page.keyboard.press("2")
        page.wait_for_selector(".line.marked")
        page.keyboard.press("a")
        page.wait_for_selector(".column-mark")
        picture(page, path)


def picture_of_links(browser: Browser, path: Path) -> None:
    with explored(browser, measured_trace(SAMPLES / "digits_cnn.onnx"), is_dark=True) as page:
        pass_row(page, "fuse-activation")
        page.locator(".node.fused.family-convolution").nth(1).click()
        page.wait_for_selector(".node.selected")
        page.keyboard.press("n")
        page.wait_for_selector(".dock tr.marked")
        for _ in range(10):
            page.get_by_role("separator", name="width of the inspector").press("ArrowLeft")
        page.keyboard.press("g")
        page.get_by_role("tab", name="C", exact=True).click()
        page.keyboard.press("b")
        page.wait_for_selector(".beside .line")
        page.locator(".tab-body:not(.beside) .line", has_text="+= x_value").first.hover()
        multiplication = page.locator(".beside .line.hovered", has_text="vfmadd")
        multiplication.first.scroll_into_view_if_needed()
        picture(page, path)


def picture_of_python(browser: Browser, path: Path) -> None:
    try:
        import torch
    except ImportError:
        sys.exit(f'{path.name} needs torch: pip install "nn-compiler-explorer[pytorch]"')
    torch.manual_seed(0)
    network = run_path(str(REPOSITORY / "scripts" / "residual.py"))["Residual"]().eval()
    trace = measured(ex.compile(network, args=(torch.rand(1, 1, 8, 8),)))
    with explored(browser, trace) as page:
        pass_row(page, "import")
        page.keyboard.press("S")
        page.get_by_role("tab", name="model", exact=True).first.click()
        page.locator(".python-line", has_text="torch.relu(x + y)").click()
        source = page.get_by_role("region", name="C", exact=True)
        largest = source.locator(".line", has_text="maximum_float8(").last
        largest.scroll_into_view_if_needed()
        largest.evaluate(
            """line => {
              const indent = line.textContent.search(/\\S/);
              line.closest('.code').scrollLeft = 7.2 * (indent - 4);
            }"""
        )
        page.keyboard.press("g")
        largest.hover(position={"x": 200, "y": 9})
        page.locator(".beside .line.hovered", has_text="vmaxps").first.scroll_into_view_if_needed()
        picture(page, path)


def picture_of_notebook(browser: Browser, path: Path) -> None:
    cells = [
        "import explorer as ex\n\n"
        f'c = ex.compile("{SAMPLES.name}/digits_cnn.onnx")\n'
        "c.accuracy(), c.profile()\n"
        'c.explore(height="630px")',
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyterlab.served(Path(folder), cells) as address,
        browsing.watched(browser) as seen,
    ):
        (Path(folder) / "notebooks" / SAMPLES.name).symlink_to(SAMPLES)
        page = seen.page
        page.goto(address)
        jupyterlab.run_all_cells(page)
        page.wait_for_selector(".explorer .node", timeout=300_000)
        jupyterlab.run_command(page, "application:toggle-left-area")
        page.locator(".explorer .node.fused.family-convolution").first.click()
        page.keyboard.press("2")
        page.wait_for_selector(".explorer .line.marked")
        page.wait_for_selector(".explorer .buffer.marked")
        page.mouse.move(0, 0)
        picture(page, path)


PICTURES: dict[str, Callable[[Browser, Path], None]] = {
    "explorer": picture_of_explorer,
    "diff": picture_of_diff,
    "linked": picture_of_links,
    "python": picture_of_python,
    "notebook": picture_of_notebook,
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Make the pictures of README.md.")
    parser.add_argument("--only", nargs="+", choices=list(PICTURES), default=list(PICTURES))
    parser.add_argument("--output", type=Path, default=REPOSITORY / "docs" / "images")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    with browsing.chromium() as browser:
        for name in chosen.only:
            PICTURES[name](browser, chosen.output / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
