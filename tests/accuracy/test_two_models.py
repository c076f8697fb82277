"""Two models side by side: onnxruntime computes the tensors, the test plants the differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

import explorer
from explorer.accuracy.two_models.comparing import _cancellation, _clipped
from explorer.accuracy.two_models.inputs import same_data
from explorer.accuracy.two_models.matching import distance, orders
from explorer.accuracy.two_models.sides import Side, SideNode
from explorer.errors import InputError
from explorer.results.encoding import from_json, to_json
from explorer.results.model_comparison import ModelComparison
from explorer.views.catalog.models import verdict

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
Plant = Callable[[ModelProto], str]


def digits() -> ModelProto:
    return onnx.load(SAMPLES / "digits_cnn.onnx")


def compared(a: ModelProto, b: ModelProto, tmp_path: Path, **options: object) -> ModelComparison:
    paths = []
    for name, model in (("a", a), ("b", b)):
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(model, paths[-1])
    return explorer.compare_models(*paths, **options)  # pyright: ignore[reportArgumentType]


def node(model: ModelProto, operator: str, index: int = 0) -> onnx.NodeProto:
    return [n for n in model.graph.node if n.op_type == operator][index]


def change_weight(model: ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    (held,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    held.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(held)), name))


def renamed(model: ModelProto) -> ModelProto:
    """The same with other names of all nodes and tensors but the weights."""
    held = {tensor.name for tensor in model.graph.initializer}
    for i, n in enumerate(model.graph.node):
        n.name = f"n{i}"
        n.input[:] = [x if x in held or not x else f"t_{x}" for x in n.input]
        n.output[:] = [f"t_{x}" for x in n.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = f"t_{value.name}"
    del model.graph.value_info[:]
    return model


def channels_last(model: ModelProto) -> ModelProto:
    """The same with an input of another order of axes."""
    (image,) = model.graph.input
    first = helper.make_node("Transpose", ["nhwc"], [image.name], perm=[0, 3, 1, 2])
    nodes = [first, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    sizes = [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim]
    image.CopyFrom(
        helper.make_tensor_value_info("nhwc", 1, [sizes[0], sizes[2], sizes[3], sizes[1]])
    )
    return model


def test_a_model_agrees_with_itself_under_other_names(tmp_path):
    found = compared(digits(), renamed(digits()), tmp_path)
    assert found.agrees and found.first_difference is None
    assert {match.error for match in found.matched} == {0.0}
    assert {match.how for match in found.matched} == {"values"}
    assert (found.unmatched_a, found.unmatched_b) == ((), ())
    assert [b.removeprefix("t_") for _, b in found.outputs] == [a for a, _ in found.outputs]


def test_axes_of_an_input_in_another_order_hold_the_same_data(tmp_path):
    found = compared(digits(), channels_last(digits()), tmp_path)
    assert found.agrees
    assert [unmatched.operator for unmatched in found.unmatched_b] in (["Transpose"], [])


def test_a_fused_model_agrees_and_its_missing_nodes_are_named(tmp_path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(SAMPLES / "digits_cnn.onnx", options)
    found = compared(digits(), onnx.load(tmp_path / "fused.onnx"), tmp_path)
    assert found.agrees and len(found.matched) > 6
    alone = {unmatched.operator for unmatched in found.unmatched_a}
    assert "Conv" in alone | {match.operator_a for match in found.matched}
    assert all(unmatched.reason for unmatched in found.unmatched_a)


def scaled(model: ModelProto) -> str:
    changed = node(model, "Conv", 1)
    change_weight(model, changed.input[1], lambda w: w * np.float32(1.01))
    return changed.name


def one_number(model: ModelProto) -> str:
    changed = node(model, "Conv", 2)

    def change(w: np.ndarray) -> np.ndarray:
        w = w.copy()
        w.reshape(-1)[5] += 1
        return w

    change_weight(model, changed.input[1], change)
    return changed.name


def rolled(model: ModelProto) -> str:
    changed = node(model, "Conv")
    change_weight(model, changed.input[1], lambda w: np.roll(w, 1, axis=0))
    return changed.name


def other_activation(model: ModelProto) -> str:
    changed = node(model, "Relu", 1)
    changed.op_type = "Sigmoid"
    return changed.name


def other_epsilon(model: ModelProto) -> str:
    changed = node(model, "BatchNormalization", 1)
    del changed.attribute[:]
    changed.attribute.append(helper.make_attribute("epsilon", 0.5))
    return changed.name


def last_layer(model: ModelProto) -> str:
    changed = node(model, "Gemm", -1)
    change_weight(model, changed.input[1], np.negative)
    return changed.name


@pytest.mark.parametrize(
    "plant", [scaled, one_number, rolled, other_activation, other_epsilon, last_layer]
)
def test_a_planted_difference_is_the_first_one(plant: Plant, tmp_path):
    model = digits()
    name = plant(model)
    found = compared(digits(), renamed(model), tmp_path)
    assert not found.agrees
    assert found.first_difference is not None
    assert found.first_difference.node_a == name
    assert len(found.matched) > 10


def test_errors_are_those_that_onnxruntime_s_tensors_have(tmp_path):
    model = digits()
    last_layer(model)
    image = np.random.default_rng(3).normal(size=(1, 1, 8, 8)).astype(np.float32)
    found = compared(digits(), model, tmp_path, inputs={"image": image})
    ran = [
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"image": image})[0]
        for m in (digits(), model)
    ]
    difference = ran[0].astype(np.float64) - ran[1]
    (match,) = [m for m in found.matched if m.tensor_a == found.outputs[0][0]]
    assert match.error == pytest.approx(
        np.linalg.norm(difference) / np.linalg.norm(ran[0]), rel=1e-3
    )
    assert match.max_relative == pytest.approx(
        np.abs(difference).max() / np.abs(ran[0]).max(), rel=1e-3
    )


def small(operator: str, *inputs: tuple[str, list[int]], kind: int = 1) -> ModelProto:
    graph = helper.make_graph(
        [helper.make_node(operator, [name for name, _ in inputs], ["y"])],
        "small",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_models_with_nothing_in_common_say_so(tmp_path):
    a, b = small("Sin", ("x", [2, 3])), small("ReduceSum", ("x", [2, 3]))
    found = compared(a, b, tmp_path)
    assert not found.agrees and found.matched == ()
    assert "nothing in common" in str(found)


@pytest.mark.parametrize(
    ("b", "options", "words"),
    [
        (small("Add", ("x", [2, 3]), ("z", [2, 3])), {}, "has 1 inputs, .* has 2"),
        (small("Sin", ("x", [7])), {}, "no input of .* fits 'x'"),
        (small("Sin", ("x", [2, 3])), {"inputs": {"q": np.zeros((2, 3), "f")}}, "input 'q'"),
        (small("Sin", ("x", [2, 3])), {"inputs": {"x": np.zeros((9, 9), "f")}}, "expected 2"),
        (small("Sin", ("x", [2, 3])), {"tolerance": -1.0}, "tolerance"),
        (small("Abs", ("x", [2, 3]), kind=6), {}, "no scale is known"),
    ],
)
def test_data_that_do_not_fit_are_refused(b: ModelProto, options: dict, words: str, tmp_path):
    with pytest.raises(InputError, match=words):
        compared(small("Cos", ("x", [2, 3])), b, tmp_path, **options)


def test_nan_and_infinities_in_the_same_places_are_no_difference(tmp_path):
    x = np.array([[np.nan, np.inf, -np.inf], [0, -0.0, 1]], np.float32)
    same = compared(small("Abs", ("x", [2, 3])), small("Abs", ("x", [2, 3])), tmp_path)
    assert same.agrees
    given = compared(
        small("Neg", ("x", [2, 3])), small("Abs", ("x", [2, 3])), tmp_path, inputs={"x": x}
    )
    assert not given.agrees


def test_empty_tensors_are_compared(tmp_path):
    found = compared(small("Sin", ("x", [0, 3])), small("Sin", ("x", [0, 3])), tmp_path)
    assert found.agrees and found.matched[0].error == 0


def test_inputs_of_the_second_model_are_taken_by_their_names():
    a, b = small("Sin", ("x", [2, 3])), small("Sin", ("z", [3, 2]))
    z = np.arange(6, dtype=np.float32).reshape(3, 2)
    data = same_data(*(load(model) for model in (a, b)), {"z": z}, {}, 0)
    np.testing.assert_array_equal(data.arrays_a["x"], z.T)
    assert data.pairs == (("x", "z"),)


def load(model: ModelProto) -> explorer.importers.SourceModel:  # pyright: ignore
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model.SerializeToString())
        file.flush()
        return explorer.load(file.name)


def test_a_byte_input_gets_the_quantized_numbers_of_a_float_input(tmp_path):
    """roundings_int8.tflite is judged by LiteRT, its dequantized form by onnxruntime."""
    quantized = SAMPLES / "roundings_int8.tflite"
    explorer.convert(quantized, tmp_path / "twin.onnx")
    found = explorer.compare_models(tmp_path / "twin.onnx", quantized)
    assert found.agrees
    assert "random" in found.b.inputs or "random" in found.a.inputs


def test_orders_of_axes_ignore_those_of_size_one():
    assert list(orders((1, 3, 8, 8), (1, 8, 8, 3))) == [(2, 0, 1), (2, 1, 0)]
    assert list(orders((1, 64), (1, 64, 1, 1))) == [(0,)]
    assert list(orders((6,), (2, 3))) == [()]
    assert list(orders((), ())) == [()]


def test_a_distance_is_infinite_where_nan_is_elsewhere():
    a = np.array([1.0, np.nan], np.float32)
    assert distance(a, a, (0,)).error == 0
    assert distance(a, a[::-1], (0,)).error == np.inf
    assert distance(np.zeros(2), np.ones(2), (0,)).error == np.inf


@pytest.mark.parametrize(
    ("b", "share", "error"),
    [
        ([-3, -1, 0, 1, 2, 3, 2, 2], 0.25, 0.0),  # beyond both ends of a, and nothing else
        ([-2, -1, 0, 1, 2, 2, 2, 2], 0.0, None),  # equal: no end matters
        ([-1, -1, 0, 1, 1, 1, 2, 2], 0.0, None),  # within the range: errors, no clipping
        ([-3, -3, 1, 1, 3, 3, 3, 3], 0.75, None),  # more than may be left out
        ([-3, 0, 0, 1, 2, 2, 2, 2], 0.125, 1.0),  # what is inside counts
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_elements_beyond_the_end_of_one_range_are_left_out(
    b: list[float], share: float, error: float | None, swapped: bool
):
    """a holds -2 to 2, b any number."""
    a = np.array([-2, -1, 0, 1, 2, 2, 2, 2], np.float32)
    if b[1] == -3:
        a[1] = -2
    ends: list[Any] = [lambda name: (-2.0, 2.0), lambda name: None]
    arrays = [a, np.array(b, np.float32)]
    if swapped:
        ends.reverse()
        arrays.reverse()
    data: Any = SimpleNamespace(a=SimpleNamespace(ends=ends[0]), b=SimpleNamespace(ends=ends[1]))
    pair: Any = SimpleNamespace(a="a", b="b", axes=())
    found, inside = _clipped(data, pair, *arrays)
    assert found == share
    if error is None:
        assert inside is None
    else:
        assert inside is not None and inside.max_relative == error / 2


def test_a_record_survives_json(tmp_path):
    found = compared(digits(), digits(), tmp_path)
    assert from_json(ModelComparison, to_json(found)) == found


def test_outputs_of_one_name_belong_together_although_they_are_rounded(tmp_path):
    """The unrounded tensor before the output is nearer to the other model's output."""
    model, rounded = digits(), digits()
    last = rounded.graph.output[0].name
    make = next(n for n in rounded.graph.node if last in n.output)
    make.output[0] = "before"
    held = [
        numpy_helper.from_array(np.array(0.05, np.float32), "step"),
        numpy_helper.from_array(np.array(0, np.int8), "zero"),
    ]
    rounded.graph.initializer.extend(held)
    rounded.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["before", "step", "zero"], ["steps"], "quantize"),
            helper.make_node("DequantizeLinear", ["steps", "step", "zero"], [last], "dequantize"),
        ]
    )
    found = compared(model, rounded, tmp_path)
    assert found.outputs == ((last, last),)


def softmax_of_rounded(scale: float | None) -> ModelProto:
    """A product, rounded to steps of `scale`, and its softmax; None: not rounded."""
    weights = np.random.default_rng(3).normal(size=(16, 32)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"], name="product")]
    held = [numpy_helper.from_array(weights, "w")]
    if scale is not None:
        held += [
            numpy_helper.from_array(np.float32(scale), "scale"),
            numpy_helper.from_array(np.int8(0), "zero"),
        ]
        nodes += [
            helper.make_node("QuantizeLinear", ["logits", "scale", "zero"], ["q"], name="to"),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["back"], name="from"),
        ]
    last = "logits" if scale is None else "back"
    nodes.append(helper.make_node("Softmax", [last], ["y"], name="softmax"))
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, size])
        for name, size in (("x", 16), ("y", 32))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("size", "scale", "has_grown"), [(4, 0.5, False), (4, 2.5, False), (12, 7.0, True)]
)
def test_an_error_that_a_softmax_amplifies_is_more_than_roundings_explain(
    size: int, scale: float, has_grown: bool, tmp_path: Path
):
    """Logits 4 * size, with errors of scale / sqrt(12): 0.04, 0.2 and 2 in parts of the softmax."""
    x = {"x": size * np.random.default_rng(4).normal(size=(4, 16)).astype(np.float32)}
    plain = softmax_of_rounded(None)
    found = compared(plain, softmax_of_rounded(scale), tmp_path, inputs=x)
    (last,) = (match for match in found.matched if match.tensor_a == "y")
    assert last.roundings and not last.differs, last
    assert last.has_grown == has_grown, last
    said = verdict(found)
    assert ("errors grow from layer to layer: at softmax" in said) == has_grown, said
    assert ("no tensor differs by more than rounding explains" in said) != has_grown
    # Float models have no roundings that could add up.
    assert compared(plain, plain, tmp_path, inputs=x).first_grown is None


def test_nodes_that_quantize_are_no_layers_with_weights_of_bytes(tmp_path):
    """x -> Q -> DQ -> Conv (weights: bytes -> DQ, transposed -> MatMul of bytes) -> Q -> DQ"""
    held = {
        "scale": np.float32(0.25),
        "zero": np.int8(3),
        "each": np.array([0.1, 0.2], np.float32),
        "zeros": np.zeros(2, np.int8),
        "w": np.ones((2, 1, 1, 1), np.int8),
        "m": np.ones((1, 2), np.int8),
        "floats": np.ones((4, 4), np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"], "quantize"),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"], "dequantize"),
        helper.make_node("DequantizeLinear", ["w", "each", "zeros"], ["wd"], "weights", axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"], "conv"),
        helper.make_node("QuantizeLinear", ["c", "each", "zeros"], ["cq"], "by_channel", axis=1),
        helper.make_node("DequantizeLinear", ["cq", "each", "zeros"], ["cd"], "back", axis=1),
        helper.make_node("MatMul", ["cd", "floats"], ["f"], "product"),
        helper.make_node("DequantizeLinear", ["m", "scale", "zero"], ["md"], "matrix"),
        helper.make_node("Transpose", ["md"], ["mt"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["mt", "f1"], ["y"], "product of bytes"),
        helper.make_node("ReduceMean", ["f"], ["f1"], "mean", axes=[1, 2], keepdims=0),
    ]
    nodes[-2:] = nodes[:-3:-1]
    graph = helper.make_graph(
        nodes,
        "qdq",
        [helper.make_tensor_value_info("x", 1, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", 1, [2, 4])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "qdq.onnx",
    )
    model = explorer.load(tmp_path / "qdq.onnx")
    side = Side(model, {})
    small = [node.name for node in side.nodes if node.has_small_weights]
    assert small == ["conv", "product of bytes"]
    assert "weights" not in [node.name for node in side.nodes], "no input changes it"
    # Random numbers fill the range that the first node keeps, (-128 - 3) / 4 to (127 - 3) / 4.
    data = same_data(model, model, None, {}, seed=1)
    drawn = data.arrays_a["x"]
    assert np.array_equal(drawn, data.arrays_b["x"]) and drawn.dtype == np.float32
    assert -32.75 <= drawn.min() < -16 and 16 < drawn.max() <= 31
    assert "in the range to which inputs are quantized" in data.words_a
    given = {"x": np.full((1, 1, 4, 4), 99, np.float32)}
    assert same_data(model, model, given, {}, seed=1).arrays_b["x"].max() == 99


@pytest.mark.parametrize(
    ("operator", "operand", "result", "expected"),
    [
        ("Softmax", [30.0, 40.0], [0.0, 1.0], np.sqrt(1250)),  # e**-10: not a sum of 30 and 40
        ("SOFTMAX", [0.3, 0.4], [0.5, 0.5], 1.0),
        ("LogSoftmax", [300.0, 300.0], [-0.7, -0.7], 300 / 0.7),
        ("ReduceMean", [-8.0, 9.0], [0.5], np.sqrt(72.5) / 0.5),
        ("MEAN", [-8.0, 8.0], [0.0], 1.0),  # nothing is a part of zero
        ("ReduceMax", [-8.0, 0.5], [0.5], 1.0),
        ("ArgMax", [7.0, 8.0], [1.0], 1.0),
        ("ReduceSum", [], [0.0], 1.0),
    ],
)
def test_errors_of_operands_grow_by_what_an_operator_takes_away(
    operator: str, operand: list[float], result: list[float], expected: float
):
    node = SideNode(operator, operator, "reduction", ("x", "weights"), ("y",), False)
    grown = _cancellation(node, {"x": np.array(operand)}, np.array(result))
    assert grown == pytest.approx(expected, rel=1e-12)
