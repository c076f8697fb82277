"""Formulas of importers: which operations an operator appends, and with which constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.building.knowledge import Knowledge
from explorer.ir.evaluation import entry_function, evaluate_function
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import element_type_from_numpy, tensor_type
from explorer.ir.weights import Weights


def computed(formula: Callable[..., Expr], *arrays: np.ndarray) -> np.ndarray:
    """What a formula of arguments gives for arrays."""
    weights = Weights()
    types = [tensor_type(element_type_from_numpy(a.dtype), a.shape) for a in arrays]
    block = Block(arg_types=types)
    build = Build(weights, Knowledge(weights), block)
    result = formula(*build.arguments(block))
    block.add_op(ReturnOp.make([[result.value]], []))
    module = ModuleOp([func.FuncOp("main", (types, [result.type]), Region(block))])
    module.verify()
    (found,), _ = evaluate_function(entry_function(module), weights, list(arrays))
    return found


X = np.array([[-3, -0.0, 0.5, np.inf], [2, 7, np.nan, -1]], np.float32)
Y = np.array([2, -1, 4, 3], np.float32)
M = np.array([[7, -7, 8, -9], [0, 1, -128, 127]], np.int8)
N = np.array([3, 3, -3, -4], np.int8)

FLOATS = {
    "add": lambda x, y: (x + y, 1 + x),
    "sub": lambda x, y: (x - y, 1 - x),
    "mul": lambda x, y: (x * y, 2 * x),
    "div": lambda x, y: (x / y, 1 / y),
    "pow": lambda x, y: (y**2, 2**y),
    "neg": lambda x, y: (-x, abs(x)),
    "less": lambda x, y: (x < y, x < 0),
    "less_equal": lambda x, y: (x <= y, x >= 0),
    "greater": lambda x, y: (x > y, x < 0),
    "greater_equal": lambda x, y: (x >= y, x >= 0),
    "equal": lambda x, y: (x == y, x == 0.5),
    "logical": lambda x, y: ((x < y) & (x > 0), (x < y) | ~(x > 0)),
    "exclusive": lambda x, y: ((x < y) ^ (x > 0), ~(x < y)),
}
INTEGERS = {
    "bits": lambda m, n: (m & n, m | n, m ^ n, ~m),
    "shifts": lambda m, n: (m << 1, m >> 2),
    "floor": lambda m, n: (m // n, m % n),
    "wraps": lambda m, n: (m + n, m * n, 1 - m),
}


@pytest.mark.parametrize("name", FLOATS)
def test_an_operator_of_floats_means_what_it_means_in_numpy(name):
    formula = FLOATS[name]
    with np.errstate(all="ignore"):
        expected = formula(X, Y)
    for index, right in enumerate(expected):
        found = computed(lambda x, y, index=index: formula(x, y)[index], X, Y)
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, rtol=1e-6)


@pytest.mark.parametrize("name", INTEGERS)
def test_an_operator_of_integers_means_what_it_means_in_numpy(name):
    formula = INTEGERS[name]
    with np.errstate(all="ignore"):
        expected = formula(M, N)
    for index, right in enumerate(expected):
        found = computed(lambda m, n, index=index: formula(m, n)[index], M, N)
        assert found.dtype == right.dtype
        np.testing.assert_array_equal(found, right)


def test_a_quotient_of_integers_is_truncated():
    np.testing.assert_array_equal(computed(lambda m, n: m / n, M, N)[0], [2, -2, -2, 2])


def test_a_condition_chooses_between_a_value_and_a_number():
    found = computed(lambda x, y: where(x > 0, x, 0), X, Y)
    np.testing.assert_array_equal(found, np.where(X > 0, X, np.float32(0)))
    found = computed(lambda x, y: where(x > 0, 1, y), X, Y)
    np.testing.assert_array_equal(found, np.where(X > 0, np.float32(1), Y))


def test_the_larger_and_the_smaller_of_a_value_and_a_number():
    np.testing.assert_array_equal(computed(lambda m: maximum(m, 3), M), np.maximum(M, 3))
    np.testing.assert_array_equal(computed(lambda m: minimum(3, m), M), np.minimum(3, M))
    np.testing.assert_array_equal(computed(minimum, M, N), np.minimum(M, N))


def test_a_reduction_and_a_shape():
    clean = np.nan_to_num(X, posinf=1)
    found = computed(lambda x: x.mean([0], keepdims=True).reshape([4]), clean)
    np.testing.assert_allclose(found, clean.mean(0), rtol=1e-6)
    found = computed(lambda x: x.transpose([1, 0]).slice(0, 1, 3).sum([1]), clean)
    np.testing.assert_allclose(found, clean.T[1:3].sum(1), rtol=1e-6)


def test_a_value_has_no_truth_value_while_a_program_is_built():
    with pytest.raises(TypeError, match="neither true nor false"):
        computed(lambda x: x if x == 0 else -x, X)
    with pytest.raises(TypeError, match="neither true nor false"):
        computed(lambda x: x if x != 0 else -x, X)
    with pytest.raises(TypeError, match="unhashable"):
        computed(lambda x: {x: x}[x], X)
    with pytest.raises(TypeError, match="NoneType"):
        computed(lambda x: x == None, X)  # noqa: E711
