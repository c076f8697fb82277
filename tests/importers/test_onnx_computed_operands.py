"""Operands that are inputs where most models have constants: axes, sizes of a resize, dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot
from explorer.runtime.cache import ProgramCache

Snapshots = Callable[..., Snapshot]
X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5) ** 1.5


def model_of(
    operator: str,
    inputs: Mapping[str, np.ndarray],
    names: list[str],
    results: int = 1,
    opset: int = 19,
    before: list[onnx.NodeProto] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    outputs = [f"y{index}" for index in range(results)]
    node = helper.make_node(operator, names, outputs, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    nodes, returned = [*(before or []), node], [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "one", infos, returned)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def imported(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], snapshot: Snapshots):
    made = snapshot(from_proto(proto))
    found = outputs_by_name(made.module, made.run(inputs))
    return [found[output.name] for output in proto.graph.output]


def assert_as_onnxruntime(
    proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], snapshot: Snapshots
) -> None:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected = session.run(None, dict(inputs))
    for found, wanted in zip(imported(proto, inputs, snapshot), expected, strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-5)


# -- axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes", [[0], [1], [-1], [0, 2], [1, -1], [-5, 3], [0, 1, 2, 3, 4]], ids=str
)
def test_unsqueeze_by_an_input(snapshot: Snapshots, axes: list[int]):
    x = np.zeros((2, 0, 3), np.float32) if len(axes) == 1 else np.ones((2, 7, 3), np.float32)
    inputs = {"x": x, "axes": np.array(axes, np.int64)}
    assert_as_onnxruntime(model_of("Unsqueeze", inputs, ["x", "axes"]), inputs, snapshot)


def test_unsqueeze_of_a_scalar_by_an_input(snapshot: Snapshots):
    inputs = {"x": np.array(3, np.float32), "axes": np.array([1, 0], np.int64)}
    assert_as_onnxruntime(model_of("Unsqueeze", inputs, ["x", "axes"]), inputs, snapshot)


@pytest.mark.parametrize("axes", [[1], [-1], [3, 1], [-4, -2], [1, 3, 4]], ids=str)
def test_squeeze_by_an_input(snapshot: Snapshots, axes: list[int]):
    inputs = {"x": np.ones((2, 1, 3, 1, 1), np.float32), "axes": np.array(axes, np.int64)}
    assert_as_onnxruntime(model_of("Squeeze", inputs, ["x", "axes"]), inputs, snapshot)


def test_axes_that_sizes_decide_are_known(snapshot: Snapshots):
    """axes = the size of an axis of x: arithmetic of shapes, which the import follows."""
    inputs = {"x": np.ones((2, 3), np.float32)}
    shape = helper.make_node("Shape", ["x"], ["axes"], start=0, end=1)
    proto = model_of("Unsqueeze", inputs, ["x", "axes"], before=[shape])
    assert imported(proto, inputs, snapshot)[0].shape == (2, 3, 1)
    compilation = ex.compile(from_proto(proto))
    assert compilation.run(inputs)["y0"].shape == (2, 3, 1)
    compilation.close()


def test_how_many_axes_must_be_known(snapshot: Snapshots):
    inputs = {"x": np.ones((2, 3), np.float32), "axes": np.array([1], np.int64)}
    proto = model_of("Unsqueeze", inputs, ["x", "axes"])
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "k"
    with pytest.raises(UnsupportedError, match="how many axes there are depends on the inputs"):
        snapshot(from_proto(proto))


def test_a_session_compiles_for_the_axes_that_it_gets():
    inputs = {"x": np.ones((2, 3), np.float32), "axes": np.array([1], np.int64)}
    model = from_proto(model_of("Unsqueeze", inputs, ["x", "axes"]))
    with ex.Session(model, cache=ProgramCache(None)) as session:
        assert session.run(inputs)["y0"].shape == (2, 1, 3)
        assert session.run({**inputs, "axes": np.array([0], np.int64)})["y0"].shape == (1, 2, 3)


# -- resize ----------------------------------------------------------------------------------------

COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", [*COORDINATES, "half_pixel_symmetric"])
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resize_by_an_input(snapshot: Snapshots, mode: str, coordinates: str, by: str):
    for factors in ([1, 1, 2, 1.6], [1, 1, 0.5, 0.75], [1, 1, 0.25, 3]):
        sizes = np.floor(np.array(X.shape) * factors).astype(np.int64)
        vector = np.array(factors, np.float32) if by == "scales" else sizes
        inputs = {"x": X, by: vector}
        names = ["x", "", "scales"] if by == "scales" else ["x", "", "", "sizes"]
        proto = model_of(
            "Resize", inputs, names, mode=mode, coordinate_transformation_mode=coordinates
        )
        assert_as_onnxruntime(proto, inputs, snapshot)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resize_to_the_nearest_by_an_input(snapshot: Snapshots, rounding: str):
    inputs = {"x": X.astype(np.int32), "scales": np.array([1, 1, 2, 0.6], np.float32)}
    proto = model_of("Resize", inputs, ["x", "", "scales"], nearest_mode=rounding)
    assert_as_onnxruntime(proto, inputs, snapshot)


@pytest.mark.parametrize("attributes", [{}, {"antialias": 1}], ids=str)
def test_a_resize_by_an_input_is_compiled_for_any_size(attributes: dict):
    """With what stays open on the host: computed there, or imported in the run."""
    inputs = {"x": X, "sizes": np.array([2, 3, 6, 7], np.int64)}
    proto = model_of("Resize", inputs, ["x", "", "", "sizes"], mode="linear", **attributes)
    compilation = ex.compile(from_proto(proto))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for height in (6, 3):
        given = {**inputs, "sizes": np.array([2, 3, height, 7], np.int64)}
        found, (expected,) = compilation.run(given)["y0"], session.run(None, given)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-4)
    compilation.close()


def test_resize_of_old_opsets_by_an_input(snapshot: Snapshots):
    inputs = {"x": X, "scales": np.array([1, 1, 2, 0.5], np.float32)}
    for operator, opset in (("Upsample", 9), ("Resize", 10)):
        given = {**inputs, "scales": np.array([1, 1, 2, 2.5 if opset == 9 else 0.5], np.float32)}
        for mode in ("nearest", "linear"):
            proto = model_of(operator, given, ["x", "scales"], opset=opset, mode=mode)
            assert_as_onnxruntime(proto, given, snapshot)


def test_a_linear_resize_by_an_input_keeps_infinities(snapshot: Snapshots):
    x = np.array([[np.inf, 1, 2]], np.float32)
    inputs = {"x": x, "sizes": np.array([1, 3], np.int64)}
    proto = model_of("Resize", inputs, ["x", "", "", "sizes"], mode="linear")
    np.testing.assert_array_equal(imported(proto, inputs, snapshot)[0], x)


def test_axes_that_keep_their_size_stay_as_they_are(snapshot: Snapshots):
    """sizes = (batch, channels of x, height and width as an input)"""
    inputs = {"x": X, "plane": np.array([6, 7], np.int64)}
    before = [
        helper.make_node("Shape", ["x"], ["own"], end=2),
        helper.make_node("Concat", ["own", "plane"], ["sizes"], axis=0),
    ]
    proto = model_of("Resize", inputs, ["x", "", "", "sizes"], before=before)
    made = snapshot(from_proto(proto))

    assert str(made.program).count("top.gather") == 2
    assert_as_onnxruntime(proto, inputs, snapshot)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"antialias": 1, "mode": "linear"}, "antialias of a size that the inputs decide"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "in proportion to each other"),
        ({"mode": "odd"}, "mode 'odd'"),
    ],
)
def test_what_a_resize_by_an_input_cannot_do_is_told(
    snapshot: Snapshots, attributes: dict, reason: str
):
    inputs = {"x": X, "sizes": np.array(X.shape, np.int64)}
    with pytest.raises(UnsupportedError, match=reason):
        snapshot(from_proto(model_of("Resize", inputs, ["x", "", "", "sizes"], **attributes)))


# -- dropout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [None, 0.25, 0.0])
@pytest.mark.parametrize("training", [False, True])
def test_dropout_by_an_input(snapshot: Snapshots, ratio: float | None, training: bool):
    """The mask of a seed is that of ONNX's reference: onnxruntime draws another."""
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    inputs = {"x": x, "training": np.array(training)}
    told = {**inputs, "ratio": np.array(0.5 if ratio is None else ratio, np.float32)}
    whole = model_of("Dropout", told, ["x", "ratio", "training"], results=2, opset=13, seed=7)
    expected = ReferenceEvaluator(whole).run(None, told)
    names = ["x", "", "training"]
    proto = model_of("Dropout", inputs, names, results=2, opset=13, seed=7)
    if ratio is not None:
        proto, inputs = whole, told
    for found, wanted in zip(imported(proto, inputs, snapshot), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    compilation = ex.compile(from_proto(proto))
    np.testing.assert_allclose(compilation.run(inputs)["y0"], expected[0], rtol=1e-6)
    compilation.close()
