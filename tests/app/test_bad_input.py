"""Files that are damaged, foreign, huge or full of hostile names, given to the app by a person."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"
REVERSED = "\u202egnp.\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
"""Hebrew and Arabic after a mark that turns round whatever follows."""
LONG = "n" * 2_000
DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def choose_file(seen: Any, path: Path) -> None:
    seen.page.get_by_label("model file").set_input_files(str(path))


def refusal(seen: Any) -> str:
    banner = seen.page.get_by_role("alert")
    banner.wait_for(timeout=60_000)
    return banner.inner_text()


def cut_off(folder: Path, models: Path) -> Path:
    path = folder / "cut.onnx"
    path.write_bytes((models / "digits_cnn.onnx").read_bytes()[:30_000])
    return path


def empty(folder: Path, models: Path) -> Path:
    path = folder / "empty.onnx"
    path.write_bytes(b"")
    return path


def picture(folder: Path, models: Path) -> Path:
    path = folder / "picture.onnx"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    return path


def renamed_trace(folder: Path, models: Path) -> Path:
    return shutil.copy(folder / "saved.nnx", folder / "trace.onnx")


def one_node_too_many(folder: Path, models: Path) -> Path:
    names = ["x", *(f"v{i}" for i in range(20_000)), "y"]
    graph = helper.make_graph(
        [helper.make_node("Relu", names[i : i + 1], names[i + 1 : i + 2]) for i in range(20_001)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    path = folder / "huge.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def model_as_trace(folder: Path, models: Path) -> Path:
    path = folder / "a model.nnx"
    path.write_bytes((models / "digits_mlp.onnx").read_bytes())
    return path


def foreign_zip(folder: Path, models: Path) -> Path:
    path = folder / "foreign.nnx"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", b"cos\nsystem\n.")
    return path


BAD_FILES = {
    model_as_trace: "traces are zip files, and this is none, or cut off",
    foreign_zip: "a zip file, but not a saved trace",
    cut_off: "not an ONNX model, or cut off after 30,000 bytes",
    empty: "the file is empty",
    picture: "not an ONNX model",
    renamed_trace: "a saved trace (.nnx) of this program, not a model",
    one_node_too_many: "the model has 20,001 nodes; at most 20,000 can be compiled",
}


@pytest.fixture
def hostile_model(tmp_path: Path) -> Path:
    """Two convolutions with activations, whose names attack the page that shows them."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.normal(size=(4, 3, 3, 3)).astype(np.float32), "w1"),
        numpy_helper.from_array(random.normal(size=(4, 4, 3, 3)).astype(np.float32), "w2"),
    ]
    pads = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", [MARKUP, "w1"], ["c1" + MARKUP], name=MARKUP, pads=pads),
        helper.make_node("Relu", ["c1" + MARKUP], [REVERSED], name=REVERSED),
        helper.make_node("Conv", [REVERSED, "w2"], [LONG], name=LONG, pads=pads),
        helper.make_node("Relu", [LONG], ["y" + MARKUP], name=f"{LONG}/{LONG}"),
    ]
    graph = helper.make_graph(
        nodes,
        "graph" + MARKUP,
        [helper.make_tensor_value_info(MARKUP, TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y" + MARKUP, TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name=LONG)
    # A file's name may hold anything but a slash.
    path = tmp_path / f"\u202e<img src=x onerror=alert(3)>{'m' * 150}.onnx"
    onnx.save(model, path)
    return path


OVERLONG = """most => {
  const found = [];
  const visit = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (element.shadowRoot) visit(element.shadowRoot);
      if (element.closest('style, script, .line') || element.children.length) continue;
      const {overflowX, whiteSpace} = getComputedStyle(element);
      const isCut = overflowX !== 'visible' && whiteSpace === 'nowrap';
      if (element.textContent.length > most && !isCut) found.push(element.outerHTML.slice(0, 200));
    }
  };
  visit(document);
  return found;
}"""
"""Elements outside of code that show more text than a person reads in one place."""


def test_bad_files_say_why_what_was_shown_stays_and_hostile_names_are_text(
    visit: Callable[..., Any],
    sample_models: Path,
    saved_trace: Path,
    hostile_model: Path,
    tmp_path: Path,
):
    shutil.copy(saved_trace, tmp_path / "saved.nnx")
    seen = visit()
    page = seen.page
    for make, message in BAD_FILES.items():
        file = make(tmp_path, sample_models)
        choose_file(seen, file)
        page.get_by_role("alert").filter(has_text=message).wait_for(timeout=60_000)
        said = refusal(seen)
        assert "Try: " in said, make.__name__
        assert file.name in said, make.__name__
        assert "upload" not in said, make.__name__
        assert page.locator(".node").count() > 3
        page.get_by_role("button", name="dismiss").click()
        page.get_by_role("alert").wait_for(state="detached")
    before = page.locator('.pass-row[aria-current="step"] .pass-name').inner_text()
    page.keyboard.press("j")
    assert page.locator('.pass-row[aria-current="step"] .pass-name').inner_text() != before
    with seen.step("hostile names are shown as text and shortened"):
        choose_file(seen, hostile_model)
        page.locator(".document.current .document-label", has_text="img src").wait_for(
            timeout=60_000
        )
        assert len(seen.shown_model()) <= 60
        page.wait_for_selector(".node.fused", timeout=60_000)
        page.locator(".verdict", has_text="equal to source").wait_for(timeout=90_000)
        page.wait_for_selector(".fact-name:text('latency')", timeout=90_000)
        seen.wait_until_done()  # a picture drawn anew between press and release loses the click
        texts = []
        for index in range(2):
            page.locator(".node.fused").nth(index).click()
            page.wait_for_selector(".origin")
            for key in ("1", "2", "3", "4", "5", "6", "m", "a", "t", "n"):
                page.keyboard.press(key)
                page.wait_for_timeout(100)
                texts.append(page.locator(".explorer").inner_text())
                assert page.evaluate(OVERLONG, 300) == []
            page.locator(".node.fused").nth(index).hover()
            texts.append(page.locator(".explorer").inner_text())
        shown = "\n".join(texts)
        assert "<script>alert(1)</script>" in shown
        assert "\u05e9\u05dc\u05d5\u05dd" in shown
        assert "nnnnn\u2026" in shown
        assert not set(shown) & set(DIRECTION_MARKS)
        expect(page.locator(".explorer script, .explorer img")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert seen.is_clean(), seen
