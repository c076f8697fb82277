"""Functions of one argument in generated code, against double precision.

Arguments: zeros, infinities, NaN, every power of two with its neighbours, and a seeded sample of
all bit patterns; `benchmarks/function_errors.py` goes through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer

MIN_NORMAL = float(np.finfo(np.float32).tiny)
MIN_SUBNORMAL = 2.0**-149
FORMS = ["scalar", "own scalar", "vectors", pytest.param("opencl", marks=pytest.mark.opencl)]


def each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return np.vectorize(function, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def expm1_below(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, x, np.expm1(np.minimum(x, 0)))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def selu(x: np.ndarray) -> np.ndarray:
    alpha, gamma = np.float32([1.6732632, 1.050701]).astype(np.float64)
    return gamma * np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


# Meaning in double precision; the error that generated code may have, in units of the last place.
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "Sigmoid": (sigmoid, 3),
    "Tanh": (np.tanh, 5),
    "Erf": (each(math.erf), 6),
    "Exp": (np.exp, 2),
    "Log": (np.log, 2),
    "Gelu": (lambda x: x * (each(math.erfc)(-x * math.sqrt(0.5)) / 2), 8),
    "Gelu tanh": (gelu_tanh, 200),  # the cube is rounded, and exp makes much of that
    "Swish": (lambda x: x * sigmoid(x), 4),
    "Mish": (lambda x: x * np.tanh(softplus(x)), 5),
    "Softplus": (softplus, 3),
    "Elu": (expm1_below, 3),
    "Selu": (selu, 4),
    "Celu": (expm1_below, 3),
    "HardSwish": (lambda x: x * (np.clip(x + 3, 0, 6) / 6), 3),
    "Softsign": (lambda x: x / (1 + np.abs(x)), 2),
    "Sinh": (np.sinh, 4),
    "Cosh": (np.cosh, 4),
    "Asinh": (np.arcsinh, 4),
    "Atan": (np.arctan, 5),
    "Sqrt": (np.sqrt, 3),
    "Reciprocal": (lambda x: 1 / x, 3),
}


def arguments() -> np.ndarray:
    powers = (np.arange(1, 255, dtype=np.uint32) << 23).view(np.float32)
    near = [powers, np.nextafter(powers, np.float32(0)), np.nextafter(powers, np.float32(np.inf))]
    denormal = (np.uint32(1) << np.arange(23, dtype=np.uint32)).view(np.float32)
    positive = np.concatenate([*near, denormal, np.float32([0, np.inf, np.nan])])
    patterns = np.random.default_rng(0).integers(0, 2**32, 1500, np.uint32)
    inside = np.random.default_rng(1).uniform(-110, 110, 1500).astype(np.float32)
    found = np.concatenate([positive, -positive, patterns.view(np.float32), inside])
    return found[: len(found) // 16 * 16 - 3]  # the last of them do not fill a vector


X = arguments()


def model_of_all() -> onnx.ModelProto:
    """All functions of one input: a program per form is compiled once."""
    nodes, outputs = [], []
    for name in FUNCTIONS:
        operator, _, manner = name.partition(" ")
        attributes = {"approximate": manner} if manner else {}
        nodes.append(helper.make_node(operator, ["x"], [name], name=name, **attributes))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    graph = helper.make_graph(nodes, "functions", ports, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Callable[[str], dict[str, np.ndarray]]:
    """The results of a form."""
    path = tmp_path_factory.mktemp("functions") / "functions.onnx"
    onnx.save(model_of_all(), path)
    known: dict[str, dict[str, np.ndarray]] = {}

    def results(form: str) -> dict[str, np.ndarray]:
        if form not in known:
            target = "opencl" if form == "opencl" else "cpu"
            c = explorer.compile(path, target, tuned=False)
            if form == "own scalar":  # of a target without vectors, which calls no library
                c = c.fork(target={"vector_floats": 1})
            if form == "scalar":
                addresses = [k.address for k in c.knobs if k.address.endswith("/vectorize")]
                c = explorer.compile(path, tuned=False, decisions=dict.fromkeys(addresses, "no"))
            known[form] = c.run({"x": X})
        return known[form]

    return results


@pytest.mark.sampled(17)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_a_few_units_in_the_last_place(found, form, name):
    meaning, allowed = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        y = found(form)[name].astype(np.float64)
        exact = meaning(X.astype(np.float64))
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(exact))
    is_finite = np.isfinite(exact) & np.isfinite(rounded)
    np.testing.assert_array_equal(y[~is_finite], rounded[~is_finite])
    error = np.abs(y[is_finite] - exact[is_finite])
    size = np.abs(exact[is_finite])
    unit = np.spacing(np.maximum(size, MIN_NORMAL).astype(np.float32)).astype(np.float64)
    # Where a result is next to the least normal number one of its factors may be below it.
    bound = np.where(
        size < 128 * MIN_NORMAL, np.maximum(allowed * unit, 100 * MIN_SUBNORMAL), allowed * unit
    )
    worst = int(np.argmax(error / bound))
    assert error[worst] <= bound[worst], f"{name}({X[is_finite][worst]}) is {y[is_finite][worst]}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["Gelu", "Gelu tanh", "Swish", "Mish", "Tanh", "Erf", "Sqrt"])
def test_zeros_keep_their_sign(found, form, name):
    zeros = X == 0
    np.testing.assert_array_equal(np.signbit(found(form)[name][zeros]), np.signbit(X[zeros]))


@pytest.mark.parametrize("form", FORMS)
def test_the_tail_of_gelu_is_zero(found, form):
    is_far = np.isfinite(X) & (X < -15)
    assert not found(form)["Gelu"][is_far].any()
