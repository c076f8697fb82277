"""Normalizations of sums: onnxruntime's SkipLayerNormalization and the one without a mean."""

import numpy as np
import pytest
from onnx import helper

from explorer.importers.onnx import from_proto

MICROSOFT = "com.microsoft"


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def skip_norm(make_model, operator, x, skip, with_shift=True, with_bias=False, with_sum=False):
    dtype = x.dtype
    inputs = {"x": x, "skip": skip.astype(dtype)}
    weights = {"scale": floats(8, seed=2).astype(dtype)}
    names = ["x", "skip", "scale"]
    if operator == "SkipLayerNormalization":
        names.append("shift" if with_shift else "")
        if with_shift:
            weights["shift"] = floats(8, seed=3).astype(dtype)
    if with_bias:
        names.append("bias")
        weights["bias"] = floats(8, seed=4).astype(dtype)
    results = ["y", "", "", "sum"] if with_sum else ["y"]
    node = helper.make_node(operator, names, results, name="n", domain=MICROSOFT, epsilon=1e-5)
    return from_proto(make_model([node], inputs, weights, 17, [MICROSOFT])), inputs


@pytest.mark.sampled(10)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
@pytest.mark.parametrize("options", [{}, {"with_bias": True, "with_sum": True}])
@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_a_sum_is_normalized(make_model, compare, operator, options, skip, dtype):
    """In single precision, rounded at the end; onnxruntime's order of sums differs."""
    x = floats(2, 3, 8).astype(dtype)
    model, inputs = skip_norm(make_model, operator, x, floats(*skip, seed=1), **options)
    assert compare(model, inputs) <= (1e-6 if dtype == np.float32 else 2**-10)


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_rows_of_a_matrix_are_normalized_without_a_shift(make_model, compare, operator):
    x, skip = floats(4, 8), floats(4, 8, seed=1)
    model, inputs = skip_norm(make_model, operator, x, skip, with_shift=False)
    assert compare(model, inputs) <= 1e-6
