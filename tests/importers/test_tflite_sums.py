"""Sums of signed quantized numbers: LiteRT's optimized kernels judge, whose reference is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_cases import Case, model_of_cases, numbers
from verification.conformance.tflite.models import TensorOf

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

SCALES = ((0.0471, 0.3713), (0.05, 0.05), (1.0, 0.5), (0.01, 3.7))
"""Of the operand and the result: roundings, saturation, ties."""


def model_of(dtype: str, scales: tuple[float, float], shape: tuple[int, ...], axes: list[int]):
    kept = [n for axis, n in enumerate(shape) if axis not in axes]
    along = np.array(axes, np.int32)
    operands = [
        numbers("x", shape, dtype, scales[0]),
        TensorOf(name="axes", shape=along.shape, element_type="int32", data=along),
    ]
    result = numbers("y", kept, dtype, scales[1])
    case = Case(kind="SUM", operands=operands, result=result, options="ReducerOptions")
    return read(memoryview(model_of_cases([case])), "sum")


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_sums_are_those_of_litert(dtype: str, scales: tuple[float, float]):
    model = model_of(dtype, scales, (9, 7, 5, 60), [1, 2])
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max + 1, (9, 7, 5, 60)).astype(dtype)
    x[0] = limits.min
    x[1] = limits.max
    given = {model.inputs[0].name: x}
    expected = dict(reference_of(model).tensors(model, given, [model.outputs[0].name]))
    for found in (ex.interpret(model, given), ex.compile(model).run(given)):
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


def test_the_judge_of_signed_sums_is_not_the_reference_kernel():
    model = model_of("int8", (0.05, 0.05), (2, 3), [1])
    assert "optimized kernels" in reference_of(model).title_of(model)
    model = model_of("uint8", (0.05, 0.05), (2, 3), [1])
    assert "reference kernels" in reference_of(model).title_of(model)


def test_the_sum_of_one_number_saturates():
    model = model_of("int8", (1.0, 0.25), (5, 1), [1])
    x = np.array([[-128], [-7], [-6], [0], [127]], np.int8)
    found = ex.interpret(model, {model.inputs[0].name: x})
    np.testing.assert_array_equal(found[model.outputs[0].name], [-128, -7, -3, 21, 127])
