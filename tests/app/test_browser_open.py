"""The dialog before a model is compiled: sizes, values, labels; what does not fit; and models of
two files."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save
from playwright.sync_api import expect

from verification.conformance.caffe.models import one_layer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NET, WEIGHTS = one_layer(
    "InnerProduct", "inner_product_param { num_output: 2 bias_term: false }", [(3, 5)],
    [np.ones((2, 5), np.float32)],
)  # fmt: skip
FILES = "files of values and labels, or a model"


def model_file(path: Path, nodes: list[Any], shape: list[Any], weights: dict[str, Any]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.ravel().tolist())
            for name, array in weights.items()
        ],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def ask(page: Any) -> Any:
    page.get_by_label("open a model or a saved trace").select_option(value="ask")
    dialog = page.get_by_role("dialog", name="open a model")
    dialog.wait_for()
    return dialog


def test_a_size_that_does_not_fit_is_asked_about_again_and_answers_are_counted_beside_labels(
    visit: Callable[..., Any], tmp_path: Path
):
    window = model_file(
        tmp_path / "window.onnx",
        [helper.make_node("Conv", ["x", "w"], ["y"], "window")],
        [1, 1, "length"],
        {"w": np.ones((1, 1, 5), np.float32)},
    )
    seen = visit()
    page = seen.page
    dialog = ask(page)
    dialog.get_by_label(FILES).set_input_files(str(window))
    field = dialog.locator('input[name="length"]')
    expect(field).to_have_value("16")
    expect(dialog.get_by_text("1x1xlength f32")).to_be_visible()
    expect(dialog.get_by_text("axis 2 of x")).to_be_visible()
    field.fill("many")
    field.press("Enter")
    expect(dialog.locator('[data-error="length"]')).to_contain_text("a whole number")
    field.fill("3")
    field.press("Enter")
    # In vain: it opens again, and says at the field what the compiler says.
    expect(dialog.locator('[data-error="length"]')).to_contain_text("a window of 5 does not fit")
    expect(page.locator(".banner.refused")).to_contain_text("window")
    expect(page.locator(".node", has_text="Conv").first).to_be_visible()
    field.fill("8")
    dialog.get_by_role("button", name="compile").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".banner.refused")).to_have_count(0)
    expect(page.locator(".pass-row").nth(9)).to_be_visible()

    # Scores are the inputs themselves: the largest of three is the answer.
    scores = model_file(
        tmp_path / "scores.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"], "scores")],
        ["batch", 3],
        {"w": np.eye(3, dtype=np.float32)},
    )
    np.savez(tmp_path / "values.npz", x=np.eye(3, dtype=np.float32)[[0, 1, 2, 1]])
    (tmp_path / "labels.txt").write_text("0\n1\n2\n2\n")
    dialog = ask(page)
    dialog.get_by_label(FILES).set_input_files(str(scores))
    dialog.locator('input[name="batch"]').wait_for()
    for name in ("values.npz", "labels.txt"):
        dialog.get_by_label(FILES).set_input_files(str(tmp_path / name))
        dialog.locator(".chip", has_text=name).wait_for()
    dialog.get_by_role("button", name="compile").click()
    page.locator(".document.current", has_text="scores.onnx").wait_for()
    page.locator(".totals, .facts, .top-bar", has_text="3 of 4 right").first.wait_for()
    with seen.step("both files of a net become one model, one after the other and in a zip file"):
        files = {
            "deploy.prototxt": NET.encode(),
            "iter_10.caffemodel": WEIGHTS,
            "b.caffemodel": WEIGHTS,
        }
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
            for name in ("deploy.prototxt", "iter_10.caffemodel"):
                archive.writestr(name, files[name])

        def send(*names: str) -> None:
            chosen = [str(tmp_path / name) for name in names]
            page.get_by_label("model file").set_input_files(chosen)

        send("deploy.prototxt")
        expect(page.locator(".banner.notice")).to_contain_text("came without its weights")
        page.get_by_role("button", name="dismiss").click()
        expect(page.locator(".banner.refused")).to_contain_text("its weights are missing")
        send("b.caffemodel")
        expect(page.locator(".document.current")).to_contain_text("deploy.prototxt + b.caffemodel")
        expect(page.locator(".pass-row").nth(9)).to_be_visible()
        expect(page.locator(".banner")).to_have_count(0)
        send("deploy.prototxt", "iter_10.caffemodel")
        expect(page.locator(".document.current")).to_contain_text(
            "deploy.prototxt + iter_10.caffemodel"
        )
        expect(page.locator(".pass-row").nth(9)).to_be_visible()
        send("net.zip")
        expect(page.locator(".document.current")).to_contain_text("net.zip")
        expect(page.locator(".pass-row").nth(9)).to_be_visible()
    assert seen.is_clean(), seen
