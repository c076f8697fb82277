"""Pow of a base and an exponent of different types: neither is rounded to the other's."""

import ml_dtypes
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import explorer
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.operators.elementwise import _type_that_has_both

NAMES = {"float32": "float", "float64": "double"}

CASES = {
    # float32 has no 2^24 + 1, which is odd; float16 no 2049; bfloat16 no 257.
    "float32 int64": ([-1, -1, 1.0000001, 2], [2**24 + 1, 2**24, 2**26 + 1, -3]),
    "float32 int32": ([-1, -1, 0, 2], [2**24 + 1, -(2**24) - 1, 0, -3]),
    "float32 float64": ([-1, 2, 1.0000001, 0], [2.0**24 + 1, 0.1, 2.0**26 + 1, -0.0]),
    "float16 int32": ([-1, -1, 1.001, 2], [2049, 100_001, 2049, 15]),
    "float16 float32": ([-1, 2, 1.001, np.inf], [2049, 0.1, 2049, -1]),
    "float16 int64": ([-1, -2, 0, 2], [2**31 + 1, 3, 5, -24]),
    "int32 float32": ([2**24 + 1, 3, -2, 0], [1, 3, 3, 0]),
    "int64 float32": ([2**31 + 1, 3, -2, 7], [1, 3, 3, 0.5]),
    "int32 int64": ([2, 3, -3, 0], [30, 5, 3, 0]),
    "float16 float64": ([], []),
}


def model(base: str, exponent: str, count: int) -> onnx.ModelProto:
    first, second = (NAMES.get(name, name) for name in (base, exponent))
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 15]> g ({first}[{count}] x, {second}[{count}] y) '
        f"=> ({first}[{count}] z) {{ z = Pow(x, y) }}"
    )


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_onnxruntime_and_the_reference(case: str):
    base, exponent = case.split()
    x, y = CASES[case]
    inputs = {"x": np.array(x, base), "y": np.array(y, exponent)}
    proto = model(base, exponent, len(x))
    found = explorer.compile(from_proto(proto)).run(inputs)["z"]
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    reference = ReferenceEvaluator(proto)
    assert found.dtype == base
    for judge in (session, reference):
        (wanted,) = judge.run(None, inputs)
        if found.dtype.kind == "i":
            np.testing.assert_array_equal(found, np.asarray(wanted))
        else:
            np.testing.assert_allclose(found, np.asarray(wanted), rtol=float(np.finfo(base).eps))


def test_a_constant_that_the_type_of_the_base_has_is_converted():
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 15]> g (float[2] x) => (float[2] z) '
        "<int64 y = {3}> { z = Pow(x, y) }"
    )
    compiled = explorer.compile(from_proto(proto))
    assert "f64" not in str(compiled.passes[0].after)
    np.testing.assert_array_equal(
        compiled.run({"x": np.array([2, -3], np.float32)})["z"], np.array([8, -27], np.float32)
    )


@pytest.mark.parametrize(
    ("base", "exponent", "common"),
    [
        ("float32", "int16", "float32"),
        ("float32", "int32", "float64"),
        ("float16", "int8", "float16"),
        ("float16", "int16", "float32"),
        ("bfloat16", "int8", "bfloat16"),
        ("bfloat16", "float16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("int32", "float16", "float64"),
        ("int8", "float32", "float32"),
        ("int32", "int64", "int64"),
        ("uint64", "int64", "uint64"),
    ],
)
def test_the_common_type_is_the_narrowest_that_has_all_numbers(base, exponent, common):
    def dtype(name: str) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, name, name))

    assert _type_that_has_both(dtype(base), dtype(exponent)) == dtype(common)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_negative_powers_of_whole_numbers_are_truncated_down_to_the_least(dtype: str, target: str):
    least = np.iinfo(dtype).min
    x = np.array([2, -1, -1, 1, -2, 0, -1, 1, least, least], dtype)
    y = np.array([-1, -3, -4, -5, -1, 0, least, least, least, 1], dtype)
    wanted = np.array([0, -1, 1, 1, 0, 1, 1, 1, 0, least], dtype)
    compiled = explorer.compile(from_proto(model(dtype, dtype, len(x))), target)
    np.testing.assert_array_equal(compiled.run({"x": x, "y": y})["z"], wanted)
    found = compiled.passes[0].after.run({"x": x, "y": y})
    np.testing.assert_array_equal(next(reversed(found.values())), wanted)
