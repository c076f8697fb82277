"""Operators that onnxruntime makes of several others: each as a model of one node.

Compared with onnxruntime where it has the operator for processors, else with the operators that it
was made of. Operands in capitals are weights. Tolerance: 2e-6 of the largest number.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

MICROSOFT = "com.microsoft"
TOLERANCE = 2e-6


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


IMAGE, FILTERS, BIAS = floats(2, 4, 6, 5), floats(6, 4, 3, 3, seed=1), floats(6, seed=2)
SUM = floats(2, 6, 6, 5, seed=3)
PADS: dict[str, Any] = {"pads": [1, 1, 1, 1]}
ACTIVATIONS = {
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
    "LeakyRelu": [0.2],
    "Clip": [-0.5, 1.5],
    "HardSigmoid": [0.3, 0.4],
}


# Any: attributes are of whatever type ONNX allows.
def one_node(
    operator: str, operands: dict, domain: str = MICROSOFT, results=("y",), **attributes: Any
):
    names = [name if array is not None else "" for name, array in operands.items()]
    node = helper.make_node(
        operator, names, list(results), name="node", domain=domain, **attributes
    )
    given = {n: a for n, a in operands.items() if a is not None}
    inputs = {n: a for n, a in given.items() if not n.isupper()}
    return [node], inputs, {n: a for n, a in given.items() if n.isupper()}


@pytest.fixture
def error(make_model: Callable, compare: Callable) -> Callable[..., float]:
    """The largest error of one node, in parts of the largest number, against onnxruntime."""

    def measure(*given, **attributes) -> float:
        nodes, inputs, weights = one_node(*given, **attributes)
        return compare(from_proto(make_model(nodes, inputs, weights, 17, [MICROSOFT])), inputs)

    return measure


@pytest.fixture
def computed(make_model: Callable, snapshot: Callable) -> Callable[..., np.ndarray]:
    def compute(nodes, inputs, weights) -> np.ndarray:
        program = snapshot(from_proto(make_model(nodes, inputs, weights, 12, [MICROSOFT])))
        (found,) = outputs_by_name(program.program, program.run(inputs)).values()
        return found

    return compute


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_fused_convolution_ends_with_its_activation(activation: str, error: Callable):
    given = {"activation": activation, "activation_params": ACTIVATIONS[activation]}
    given = {name: value for name, value in given.items() if value}
    operands = {"x": IMAGE, "W": FILTERS, "B": BIAS}
    assert error("FusedConv", operands, **given, **PADS) <= TOLERANCE


@pytest.mark.parametrize("bias", [BIAS, None], ids=["bias", "no-bias"])
@pytest.mark.parametrize("activation", ["Relu", ""])
def test_a_fused_convolution_adds_before_its_activation(bias, activation: str, error: Callable):
    operands = {"x": IMAGE, "W": FILTERS, "B": bias, "z": SUM}
    given = {"activation": activation} if activation else {}
    assert error("FusedConv", operands, **given, **PADS) <= TOLERANCE


@pytest.mark.parametrize(
    ("activation", "given"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.1}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("Selu", {"activation_alpha": 1.5, "activation_gamma": 1.1}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Elu", {"activation_alpha": 0.7}),
        ("ThresholdedRelu", {"activation_alpha": 0.3}),
    ],
)
def test_a_fused_gemm_ends_with_its_activation(activation: str, given: dict, error: Callable):
    operands = {"a": floats(3, 4), "B": floats(5, 4, seed=1), "C": floats(5, seed=2)}
    shared = {"transB": 1, "alpha": 0.5, "beta": 2.0}
    assert error("FusedGemm", operands, activation=activation, **shared, **given) <= TOLERANCE


def test_an_unknown_activation_is_refused_by_name(make_model: Callable, snapshot: Callable):
    nodes, inputs, weights = one_node("FusedConv", {"x": IMAGE, "W": FILTERS}, activation="Cube")
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(make_model(nodes, inputs, weights, 17, [MICROSOFT])))
    assert "activation Cube" in caught.value.problems[0]


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("batch", [0, 1])
def test_factors_are_transposed_with_their_batches(trans: int, batch: int, error: Callable):
    """Sizes that are all equal, where a wrong order would give wrong numbers without an error."""
    a, b = floats(3, 3, 3, 3), floats(3, 3, 3, 3, seed=1)
    mixed = {"transA": trans, "transBatchA": batch, "transB": 1 - trans, "transBatchB": batch}
    assert error("FusedMatMul", {"a": a, "B": b}, alpha=0.3, **mixed) <= TOLERANCE


def test_factors_whose_batches_stand_in_the_middle(error: Callable):
    a, b = floats(4, 2, 3, 5), floats(6, 2, 3, 5, seed=1)
    given = {"transBatchA": 1, "transBatchB": 1, "transB": 1}
    assert error("FusedMatMul", {"a": a, "B": b}, **given) <= TOLERANCE


def test_a_vector_is_not_transposed(error: Callable):
    operands = {"a": floats(4), "B": floats(4, 3, seed=1)}
    assert error("FusedMatMul", operands, transA=1) <= TOLERANCE
    assert error("TransposeMatMul", {"a": floats(4, 3), "B": operands["B"]}, transA=1) <= TOLERANCE


@pytest.mark.parametrize("axis", [-1, 1])
def test_normalization_without_a_mean(axis: int, error: Callable):
    operands = {"x": floats(2, 3, 4), "G": floats(*(2, 3, 4)[axis:], seed=1)}
    name, results = "SimplifiedLayerNormalization", ("y", "inverse")
    given = {"axis": axis, "epsilon": 1e-3}
    assert error(name, operands, "", results, **given) <= TOLERANCE


def test_channels_behind_are_those_of_a_convolution_in_front(computed: Callable):
    nodes, inputs, weights = one_node(
        "FusedConv",
        {"x": IMAGE, "W": FILTERS, "B": BIAS, "z": SUM},
        activation="Relu",
        **PADS,
    )
    behind = {name: np.moveaxis(array, 1, -1).copy() for name, array in inputs.items()}
    other, *_ = one_node("NhwcFusedConv", {**inputs, **weights}, activation="Relu", **PADS)
    other[0].input[:] = nodes[0].input
    expected = np.moveaxis(computed(nodes, inputs, weights), 1, -1)
    np.testing.assert_array_equal(computed(other, behind, weights), expected)


def test_fused_operators_of_other_devices_are_those_that_they_are_made_of(computed: Callable):
    a, b, skip = floats(2, 3, 4), floats(4, seed=1), floats(2, 3, 4, seed=2)
    inputs = {"a": a, "b": b, "s": skip}
    add = helper.make_node("Add", ["a", "b"], ["t"])
    apart = [
        [add, helper.make_node("Softmax", ["t"], ["y"], axis=2)],
        [add, helper.make_node("Add", ["t", "s"], ["y"])],
        [
            helper.make_node("FusedMatMul", ["a", "s"], ["t"], transB=1, domain=MICROSOFT),
            helper.make_node("LeakyRelu", ["t"], ["y"], alpha=0.3),
        ],
    ]
    fused = [
        helper.make_node("BiasSoftmax", ["a", "b"], ["y"], axis=2, domain=MICROSOFT),
        helper.make_node("BiasAdd", ["a", "b", "s"], ["y"], domain=MICROSOFT),
        helper.make_node(
            "FusedMatMulActivation",
            ["a", "s"],
            ["y"],
            transB=1,
            activation="LeakyRelu",
            activation_alpha=0.3,
            domain=MICROSOFT,
        ),
    ]
    for nodes, node in zip(apart, fused, strict=True):
        used = {n: inputs[n] for n in node.input}
        np.testing.assert_array_equal(computed([node], used, {}), computed(nodes, used, {}))
