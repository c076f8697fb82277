"""Exported pages of real compilations: small, complete, and without any request."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import explorer as ex
from explorer.cli.models import load_with_weights
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.importers import SourceModel

browsing = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "browsing.py")))

needs_chromium = pytest.mark.skipif(
    not browsing.CHROMIUM.is_file(), reason=f"no Chromium at {browsing.CHROMIUM}"
)
MEGABYTE = 2**20


def measured(model: SourceModel | Path) -> Compilation:
    """A compilation that was compared with its source and timed, so that every pane has data."""
    compilation = ex.compile(model)
    compilation.accuracy()
    compilation.profile()
    return compilation


@pytest.fixture(scope="module")
def digits_page(tmp_path_factory: pytest.TempPathFactory, sample_models: Path) -> Path:
    compilation = measured(sample_models / "digits_cnn.onnx")
    try:
        folder = tmp_path_factory.mktemp("page")
        return compilation.export_html(folder / "digits.html")
    finally:
        compilation.close()


@pytest.fixture
def seen(chromium: Browser) -> Iterator[Any]:  # browsing.Watched
    with browsing.watched(chromium) as watched:
        yield watched


def chunks_of(page: Path) -> dict[str, Any]:
    """The data in a page, by the keys under which the explorer asks for them."""
    found = re.search(
        r'<script type="application/json" id="payload">(.*?)</script>',
        page.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert found is not None
    return json.loads(found.group(1))["chunks"]


def current_pass(seen: Any) -> str:
    return seen.page.locator('.pass-row[aria-current="step"] .pass-name').inner_text()


def test_a_small_models_page_is_small_and_has_everything(digits_page: Path):
    assert digits_page.stat().st_size < 2 * MEGABYTE
    kinds = {key.split("/")[0] for key in chunks_of(digits_page)}
    assert {"graph", "text", "pass", "kernel", "memory", "accuracy", "profile", "source"} <= kinds


def test_nothing_is_left_of_a_page_that_could_not_be_written(tmp_path: Path, sample_models: Path):
    compilation = ex.compile(sample_models / "digits_mlp.onnx", dimensions={"batch": 1})
    with pytest.raises(InputError, match="its folder does not exist"):
        compilation.export_html(tmp_path / "no such folder" / "page.html")
    path = compilation.export_html(tmp_path / "page.html")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert path == tmp_path / "page.html"


@pytest.mark.browser
@needs_chromium
def test_a_convolution_of_a_page_from_a_file_is_followed_to_its_code(seen: Any, digits_page: Path):
    page = seen.page
    page.goto(digits_page.as_uri())
    page.wait_for_selector(".node")
    with seen.step("all passes are scrubbed through"):
        slider = page.get_by_role("slider", name="pass", exact=True)
        last = int(slider.get_attribute("max"))
        names = []
        for index in range(last + 1):
            slider.fill(str(index))
            seen.wait_until(
                "name => document.querySelector('.graph .pane-title').textContent === name",
                arg=slider.get_attribute("aria-valuetext"),
            )
            page.wait_for_selector(".node")
            names.append(current_pass(seen))
        assert names[:2] == ["model", "import"]
        assert names[-1] == "plan-memory"
        assert len(set(names)) == last + 1
    page.locator(".pass-row", has_text="fuse-activation").click()
    page.locator(".node.fused.family-convolution").first.click()
    page.wait_for_selector(".origin")
    assert seen.names(".origin") == ["/stage1/conv1", "/stage1/norm1", "/stage1/relu1"]
    page.wait_for_selector(".buffer.marked")
    page.keyboard.press("2")
    page.wait_for_selector(".line.marked")
    assert any("top.conv" in line for line in seen.names(".line.marked"))
    page.keyboard.press("a")
    page.wait_for_selector(".column-mark")
    page.keyboard.press("t")
    page.wait_for_selector(".bar.marked")
    page.keyboard.press("n")
    page.wait_for_selector(".dock tr.marked")
    (kernel,) = seen.names(".dock tr.marked td:first-child")
    page.keyboard.press("3")
    page.wait_for_selector(".rung[aria-current]")
    page.keyboard.press("4")
    seen.wait_until(
        "kernel => [...document.querySelectorAll('.inspector .line')]"
        ".some(line => line.textContent.includes(`${kernel}_phase0(`))",
        arg=kernel,
    )
    with seen.step("its own kernel, and not the copy before it"):
        # Before activations are fused it has another identity than in the program that runs.
        page.locator(".pass-row", has_text="fold-batch-norm").click()
        page.locator(".node.fused.family-convolution").first.click()
        page.keyboard.press("4")
        page.wait_for_selector(".inspector .kernel-line")
        expect(page.locator(".inspector .kernel-line")).to_contain_text("conv_3x3_1")
        page.keyboard.press("n")
        page.wait_for_selector(".dock tr.marked")
        assert "conv_3x3_1" in seen.names(".dock tr.marked td:first-child")
    with seen.step("a difference of the IR marks no line that stayed"):
        page.locator(".pass-row", has_text="fold-batch-norm").click()
        page.keyboard.press("2")
        page.wait_for_selector(".line.added")
        added, removed = (set(seen.names(f".line.{kind}")) for kind in ("added", "removed"))
        assert any("top.batch_norm" in line for line in removed)
        # Weights that nothing uses any more stay until dead code is eliminated.
        assert not any("norm_bias1" in line and "top.weight" in line for line in added | removed)
        assert added.isdisjoint(removed)
    assert seen.requests == [digits_page.as_uri()]
    assert seen.is_clean(), seen


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.browser
@needs_chromium
def test_the_page_of_a_resnet50_stays_below_8_megabytes(
    seen: Any, models_folder: Path, tmp_path: Path
):
    # Its file has constant weights; random ones give real errors and a page of real size.
    path = models_folder / "onnx" / "light_resnet50.onnx"
    compilation = measured(load_with_weights(str(path)))
    try:
        exported = compilation.export_html(tmp_path / "resnet50.html")
    finally:
        compilation.close()
    assert exported.stat().st_size < 8 * MEGABYTE
    page = seen.page
    page.goto(exported.as_uri())
    page.wait_for_selector(".node")
    expect(page.locator(".model-name")).to_have_text("light_resnet50")
    page.keyboard.press("j")
    page.wait_for_selector(".node")
    assert seen.requests == [exported.as_uri()]
    assert seen.is_clean(), seen
