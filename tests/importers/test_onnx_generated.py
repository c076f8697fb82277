"""Small models of what random models have found: shapes and numbers are onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import entry_function, entry_return, outputs_by_name
from explorer.ir.program import Snapshot
from explorer.ir.types import shape_of

RANDOM = np.random.default_rng(0)


def named_sizes(model: onnx.ModelProto, name: str, sizes: tuple[int | str, ...]) -> None:
    """Gives an input of the model names for sizes."""
    (value,) = [i for i in model.graph.input if i.name == name]
    kind = value.type.tensor_type
    value.type.CopyFrom(helper.make_tensor_type_proto(kind.elem_type, sizes))


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_celu_of_a_scalar_is_a_scalar(make_model: Callable, compare: Callable, snapshot) -> None:
    inputs = {"x": np.array(-0.7, np.float32)}
    node = helper.make_node("Celu", ["x"], ["y"], alpha=1.5)
    model = from_proto(make_model([node], inputs, {}, 21))
    (output,) = entry_return(entry_function(snapshot(model).program)).operands
    assert shape_of(output) == ()
    assert compare(model, inputs) < 1e-6


def test_same_padding_of_a_transposed_convolution_that_leaves_gaps(
    make_model: Callable, compare: Callable
) -> None:
    """A stride above the window: the last gap is no part of the result."""
    inputs, weights = {"x": numbers(1, 2, 3, 4)}, {"w": numbers(2, 3, 2, 1)}
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_LOWER"
    )
    assert compare(from_proto(make_model([node], inputs, weights, 19)), inputs) < 1e-6


def test_scale_of_a_normalization_over_a_named_size(
    make_model: Callable, compare: Callable
) -> None:
    inputs, weights = {"x": numbers(2, 3, 6)}, {"scale": numbers(6)}
    model = make_model(
        [helper.make_node("LayerNormalization", ["x", "scale"], ["y"])], inputs, weights, 21
    )
    named_sizes(model, "x", ("batch", 3, "width"))
    assert compare(from_proto(model), inputs) < 1e-5


def test_boxes_whose_sizes_have_names(make_model: Callable, compare: Callable) -> None:
    corners = RANDOM.integers(0, 6, (1, 5, 2))
    boxes = np.concatenate([corners, corners + 3], -1).astype(np.float32)
    inputs = {"boxes": boxes, "scores": np.abs(numbers(1, 1, 5))}
    weights = {"most": np.array([3])}
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])
    model = make_model([node], inputs, weights, 21)
    named_sizes(model, "boxes", ("batch", "count", "corners"))
    assert compare(from_proto(model), inputs) == 0


def test_an_affine_grid_for_a_batch_of_one(make_model: Callable, compare: Callable) -> None:
    for align, sizes in ((0, [1, 2, 3, 4]), (1, [1, 2, 3, 4]), (0, [1, 1, 2, 3, 4])):
        axes = len(sizes) - 2
        inputs, weights = {"theta": numbers(1, axes, axes + 1)}, {"sizes": np.array(sizes)}
        node = helper.make_node("AffineGrid", ["theta", "sizes"], ["y"], align_corners=align)
        assert compare(from_proto(make_model([node], inputs, weights, 20)), inputs) < 1e-6


def test_a_tile_of_nothing_beside_a_named_size(make_model: Callable, compare: Callable) -> None:
    inputs, weights = {"x": numbers(2, 3)}, {"times": np.array([0, 3])}
    model = make_model([helper.make_node("Tile", ["x", "times"], ["y"])], inputs, weights, 13)
    named_sizes(model, "x", (2, "width"))
    snapshot = Snapshot(*to_top(from_proto(model)))
    outputs = outputs_by_name(snapshot.program, snapshot.run(inputs))
    assert outputs["y"].shape == (0, 9)
