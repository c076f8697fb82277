"""Gradients, against central differences of the imported forward graph in float64."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import ModelError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

TRAINING = "ai.onnx.preview.training"
RNG = np.random.default_rng(11)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape)


def gradient_node(
    xs: Sequence[str], y: str, operands: Sequence[str] = (), zs: Sequence[str] = ()
) -> onnx.NodeProto:
    made = [f"d{y}_d{x}" for x in xs]
    held: dict[str, Any] = {"zs": list(zs)} if zs else {}
    operands = operands or [*xs, *zs]
    return helper.make_node("Gradient", operands, made, domain=TRAINING, xs=xs, y=y, **held)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    stored = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "gradients", infos, results, stored)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=opsets)


def run(model: onnx.ModelProto, inputs: Mapping, snapshot: Callable) -> dict[str, np.ndarray]:
    made = snapshot(from_proto(model))
    return outputs_by_name(made.module, made.run(inputs))


def assert_is_derivative(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    snapshot: Callable,
    weights: Mapping[str, np.ndarray] | None = None,
    xs: Sequence[str] | None = None,
) -> None:
    """Of the sum of `y`, times fixed numbers so that no symmetry hides a mistake."""
    xs = list(xs or inputs)
    shape = run(model_of(nodes, inputs, ["y"], weights), inputs, snapshot)["y"].shape
    factor = np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    scaled = [*nodes, helper.make_node("Mul", ["y", "factor"], ["loss"])]
    stored = {**(weights or {}), "factor": factor}
    zs = [name for name in inputs if name not in xs]
    both = [*scaled, gradient_node(xs, "loss", zs=zs)]
    outputs = [f"dloss_d{x}" for x in xs]
    found = run(model_of(both, inputs, outputs, stored), inputs, snapshot)
    forward = snapshot(from_proto(model_of(scaled, inputs, ["loss"], stored)))

    def loss(changed: Mapping[str, np.ndarray]) -> float:
        return outputs_by_name(forward.module, forward.run(changed))["loss"].sum()

    step = 1e-5
    for name, output in zip(xs, outputs, strict=True):
        x = inputs[name]
        assert found[output].shape == x.shape
        for place in np.ndindex(*x.shape):
            moved = np.zeros_like(x)
            moved[place] = step
            up, down = ({**inputs, name: x + sign * moved} for sign in (1, -1))
            slope = (loss(up) - loss(down)) / (2 * step)
            # Rounding of a loss of some tens, divided by the step, is below 1e-8.
            np.testing.assert_allclose(found[output][place], slope, rtol=2e-6, atol=2e-7)


def node(operator: str, *operands: str, **attributes: Any) -> onnx.NodeProto:
    """Any, here and below: whatever attributes an operator has."""
    return helper.make_node(operator, operands, ["y"], **attributes)


POSITIVE = {"x": numbers(2, 3, low=0.3)}
INSIDE = {"x": numbers(2, 3, low=-0.9, high=0.9)}
ANY = {"x": numbers(2, 3)}
UNARY = {
    "Relu": ANY,
    "LeakyRelu": ANY,
    "Sigmoid": ANY,
    "HardSigmoid": {"x": numbers(2, 6, low=-5, high=5)},
    "HardSwish": {"x": numbers(2, 6, low=-5, high=5)},
    "Mish": ANY,
    "Tanh": ANY,
    "Erf": ANY,
    "Elu": ANY,
    "Softplus": ANY,
    "Neg": ANY,
    "Abs": ANY,
    "Sign": ANY,
    "Floor": ANY,
    "Sin": ANY,
    "Cos": ANY,
    "Tan": INSIDE,
    "Atan": ANY,
    "Asinh": ANY,
    "Asin": INSIDE,
    "Acos": INSIDE,
    "Acosh": {"x": numbers(2, 3, low=1.2, high=3)},
    "Atanh": INSIDE,
    "Sinh": ANY,
    "Cosh": ANY,
    "Exp": ANY,
    "Log": POSITIVE,
    "Sqrt": POSITIVE,
    "Reciprocal": POSITIVE,
    "Celu": ANY,
    "Selu": ANY,
    "Softsign": ANY,
    "Shrink": ANY,
}


@pytest.mark.parametrize("operator", UNARY)
def test_unary_functions(operator: str, snapshot: Callable) -> None:
    inputs = UNARY[operator]
    attributes = {"lambd": 0.4, "bias": 0.1} if operator == "Shrink" else {}
    assert_is_derivative([node(operator, "x", **attributes)], inputs, snapshot)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str, snapshot: Callable) -> None:
    assert_is_derivative([node("Gelu", "x", approximate=approximate)], ANY, snapshot)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"])
def test_broadcast_operands(operator: str, snapshot: Callable) -> None:
    """Axes in which an operand was repeated are summed."""
    low = 0.3 if operator in ("Pow", "Div") else -2.0
    inputs = {"a": numbers(2, 3, 4, low=low), "b": numbers(3, 1, low=low)}
    assert_is_derivative([node(operator, "a", "b")], inputs, snapshot)


def test_remainder(snapshot: Callable) -> None:
    inputs = {"a": np.array([5.3, -5.3, 5.3, -5.3]), "b": np.array([2.1, 2.1, -2.1, -2.1])}
    assert_is_derivative([node("Mod", "a", "b", fmod=1)], inputs, snapshot)


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((1, 2, 3), (4, 3, 2))]
)
def test_products_of_matrices(a: tuple, b: tuple, snapshot: Callable) -> None:
    inputs = {"a": numbers(*a), "b": numbers(*b)}
    assert_is_derivative([node("MatMul", "a", "b")], inputs, snapshot)


def test_gemm_with_every_operand(snapshot: Callable) -> None:
    inputs = {"a": numbers(3, 2), "b": numbers(4, 3), "c": numbers(4)}
    gemm = node("Gemm", "a", "b", "c", transA=1, transB=1, alpha=0.5, beta=2.0)
    assert_is_derivative([gemm], inputs, snapshot)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    "kind", ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]
)
def test_reductions(kind: str, keepdims: int, snapshot: Callable) -> None:
    inputs = {"x": numbers(2, 3, 4, low=0.2)}
    reduce = node(f"Reduce{kind}", "x", "axes", keepdims=keepdims)
    assert_is_derivative([reduce], inputs, snapshot, {"axes": np.array([0, 2])})


def test_equal_extremes_share_the_gradient(snapshot: Callable) -> None:
    x = np.array([3.0, 1.0, 3.0])
    nodes = [node("ReduceMax", "x", keepdims=0), gradient_node(["x"], "y")]
    found = run(model_of(nodes, {"x": x}, ["dy_dx"]), {"x": x}, snapshot)["dy_dx"]
    assert found.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_softmax(operator: str, snapshot: Callable) -> None:
    assert_is_derivative([node(operator, "x", axis=1)], {"x": numbers(2, 4, 3)}, snapshot)


def test_layer_normalization(snapshot: Callable) -> None:
    inputs = {"x": numbers(2, 3, 4), "s": numbers(3, 4), "b": numbers(3, 4)}
    layer = node("LayerNormalization", "x", "s", "b", axis=1)
    assert_is_derivative([layer], inputs, snapshot)


def test_batch_normalization(snapshot: Callable) -> None:
    names = ["x", "s", "b", "m", "v"]
    shapes = [(2, 3, 2, 2), (3,), (3,), (3,), (3,)]
    inputs = {n: numbers(*shape, low=0.5) for n, shape in zip(names, shapes, strict=True)}
    assert_is_derivative([node("BatchNormalization", *names)], inputs, snapshot)


MOVEMENT = {
    "Reshape": (node("Reshape", "x", "p"), [6, 4]),
    "Transpose": (node("Transpose", "x", perm=[2, 0, 1]), [0]),
    "Slice": (
        helper.make_node("Slice", ["x", "p", "e", "a", "s"], ["y"]),
        [1, -1],
    ),
    "Pad": (node("Pad", "x", "p"), [0, 1, 2, 1, 0, 0]),
    "Expand": (node("Expand", "x", "p"), [5, 2, 3, 4]),
    "Gather": (node("Gather", "x", "p", axis=2), [[0, 3], [-1, 3]]),
    "GatherElements": (node("GatherElements", "x", "p", axis=1), [[[2, -1, 0, 0]]]),
    "Tile": (node("Tile", "x", "p"), [1, 2, 2]),
    "Flatten": (node("Flatten", "x"), [0]),
}


@pytest.mark.parametrize("operator", MOVEMENT)
def test_movement(operator: str, snapshot: Callable) -> None:
    made, operand = MOVEMENT[operator]
    weights = {
        "p": np.array(operand),
        "e": np.array([3, -5]),
        "a": np.array([1, 2]),
        "s": np.array([1, -2]),
    }
    used = {n: weights[n] for n in made.input if n in weights}
    assert_is_derivative([made], {"x": numbers(2, 3, 4)}, snapshot, used)


def test_concatenation_and_choice(snapshot: Callable) -> None:
    inputs = {"a": numbers(2, 3), "b": numbers(2, 1)}
    nodes = [
        helper.make_node("Concat", ["a", "b", "a"], ["c"], axis=1),
        helper.make_node("Greater", ["c", "zero"], ["is_positive"]),
        helper.make_node("Mul", ["c", "c"], ["square"]),
        node("Where", "is_positive", "square", "c"),
    ]
    assert_is_derivative(nodes, inputs, snapshot, {"zero": np.array(0.0)})


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 2, 5, 6), (3, 2, 3, 2), {"pads": [1, 0, 2, 1]}),
        ((2, 1, 7, 8), (2, 1, 3, 3), {"strides": [2, 3], "pads": [1, 1, 1, 1]}),
        ((1, 4, 8), (6, 2, 2), {"group": 2, "dilations": [3], "strides": [2]}),
        ((1, 3, 4, 4), (3, 1, 1, 1), {"group": 3, "strides": [2, 2]}),
        ((1, 2, 3, 3), (2, 2, 1, 1), {"pads": [1, 1, 1, 1]}),
        ((1, 1, 3, 3, 4), (2, 1, 2, 2, 2), {}),
    ],
)
def test_convolutions(x: tuple, w: tuple, attributes: dict, snapshot: Callable) -> None:
    inputs = {"x": numbers(*x), "w": numbers(*w), "b": numbers(w[0])}
    assert_is_derivative([node("Conv", "x", "w", "b", **attributes)], inputs, snapshot)


# -- what a gradient is of -------------------------------------------------------------------------


def test_of_a_gradient(snapshot: Callable) -> None:
    """y = x^3: the derivative of dy/dx = 3 x^2 is 6 x."""
    x = numbers(3)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Mul", ["square", "x"], ["y"]),
        gradient_node(["x"], "y"),
        helper.make_node("Gradient", ["x"], ["second"], domain=TRAINING, xs=["x"], y="dy_dx"),
    ]
    found = run(model_of(nodes, {"x": x}, ["second"]), {"x": x}, snapshot)["second"]
    np.testing.assert_allclose(found, 6 * x, rtol=1e-12)


def test_at_other_values_than_those_of_the_graph(snapshot: Callable) -> None:
    inputs = {"a": numbers(3), "b": numbers(3), "other": numbers(3)}
    nodes = [node("Mul", "a", "b"), gradient_node(["a"], "y", ["a", "other"], zs=["b"])]
    found = run(model_of(nodes, inputs, ["dy_da", "y"]), inputs, snapshot)
    np.testing.assert_array_equal(found["dy_da"], inputs["other"])


def test_equal_operands_are_variables_of_their_own(snapshot: Callable) -> None:
    """y = a * b at a = b = v: each derivative is v, and not 2 v."""
    inputs = {"a": numbers(3), "b": numbers(3), "v": numbers(3)}
    nodes = [node("Mul", "a", "b"), gradient_node(["a", "b"], "y", ["v", "v"])]
    found = run(model_of(nodes, inputs, ["dy_da", "dy_db"]), inputs, snapshot)
    np.testing.assert_array_equal(found["dy_da"], inputs["v"])
    np.testing.assert_array_equal(found["dy_db"], inputs["v"])


def test_with_respect_to_a_tensor_inside(snapshot: Callable) -> None:
    x = numbers(3)
    nodes = [
        helper.make_node("Exp", ["x"], ["inner"]),
        helper.make_node("Mul", ["inner", "inner"], ["y"]),
        gradient_node(["inner"], "y"),
    ]
    found = run(model_of(nodes, {"x": x}, ["dy_dinner"]), {"x": x}, snapshot)["dy_dinner"]
    np.testing.assert_allclose(found, 2 * np.exp(x), rtol=1e-12)


def test_what_does_not_reach_y_has_no_influence(snapshot: Callable) -> None:
    inputs = {"a": numbers(3), "b": numbers(2)}
    nodes = [node("Exp", "a"), gradient_node(["a", "b"], "y")]
    found = run(model_of(nodes, inputs, ["dy_db"]), inputs, snapshot)["dy_db"]
    assert found.tolist() == [0.0, 0.0]


def test_stands_before_the_node_that_makes_y(snapshot: Callable) -> None:
    x = numbers(3)
    nodes = [gradient_node(["x"], "y"), node("Exp", "x")]
    found = run(model_of(nodes, {"x": x}, ["dy_dx"]), {"x": x}, snapshot)["dy_dx"]
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-12)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_runs_as_generated_code(target: str) -> None:
    """One step of a small net's training: dloss/dw of a layer with relu and mean."""
    inputs = {n: numbers(*s).astype(np.float32) for n, s in {"x": (4, 8), "w": (8, 3)}.items()}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        node("ReduceMean", "r", keepdims=0),
        gradient_node(["w"], "y", zs=["x"]),
    ]
    compiled = explorer.compile(from_proto(model_of(nodes, inputs, ["dy_dw"])), target)
    h = inputs["x"] @ inputs["w"]
    expected = inputs["x"].T @ ((h > 0) / np.float32(h.size))
    found = compiled.run(inputs)["dy_dw"]
    # Sums of four products in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


# -- refusals --------------------------------------------------------------------------------------


def test_an_operation_without_a_rule_is_named(snapshot: Callable) -> None:
    x = numbers(1, 1, 4, 4)
    nodes = [node("MaxPool", "x", kernel_shape=[2, 2]), gradient_node(["x"], "y")]
    with pytest.raises(UnsupportedError) as caught:
        run(model_of(nodes, {"x": x}, ["dy_dx"]), {"x": x}, snapshot)
    assert "the derivative of top.pool" in caught.value.problems[0]


@pytest.mark.parametrize(
    ("xs", "y", "message"),
    [(["x"], "nothing", "no node makes 'nothing'"), (["x", "x"], "y", "operands for the tensors")],
)
def test_a_node_that_names_nothing_is_refused(
    xs: list, y: str, message: str, snapshot: Callable
) -> None:
    x = numbers(3)
    made = helper.make_node("Gradient", ["x"] * len(xs), ["d"], domain=TRAINING, xs=xs, y=y)
    with pytest.raises(ModelError, match=message):
        run(model_of([node("Exp", "x"), made], {"x": x}, ["d"]), {"x": x}, snapshot)


def test_whole_numbers_have_no_gradient(snapshot: Callable) -> None:
    x = numbers(3)
    nodes = [node("Cast", "x", to=TensorProto.INT64), gradient_node(["x"], "y")]
    with pytest.raises(ModelError, match="no tensor of floats"):
        run(model_of(nodes, {"x": x}, ["dy_dx"]), {"x": x}, snapshot)
