"""Casts between all element types against ONNX's reference, and as C."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference.ops.op_cast import cast_to
from xdsl.dialects.builtin import Float8E8M0FNUType, f32, i32

from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.types import ELEMENT_TYPES, numpy_dtype

FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 449.0, 464.0, 465.0, -61441.0, 1e-9]


def run_both(op, compiled, x: np.ndarray) -> np.ndarray:
    """The meaning, after the compiled form agreed with it to the last bit of every number."""
    (meaning,) = op.evaluate(x)
    (found,) = compiled.run(op, [x])
    assert found.dtype == meaning.dtype
    np.testing.assert_array_equal(found.astype(np.float64), meaning.astype(np.float64))
    return meaning


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("name", FLOAT8)
def test_float8_saturates_or_overflows_as_onnx_has_it(name, saturate, values, build, compiled):
    x = np.concatenate([SPECIAL, values(60), values(60, low=-700, high=700)]).astype(np.float32)
    dtype = numpy_dtype(ELEMENT_TYPES[name])
    op = build(CastOp, [x], to=ELEMENT_TYPES[name], saturate=saturate)
    expected = cast_to(x, onnx.helper.np_dtype_to_tensor_dtype(dtype), saturate)
    found = run_both(op, compiled, x)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
def test_powers_of_two_are_rounded_as_asked(rounding, saturate, values, build, compiled):
    x = np.abs(values(80)) * 2.0 ** np.arange(-40, 40)
    ties = np.array([0.0, 0.75, 1.5, 3.0, 2.0**-127, 1.5 * 2.0**-127, 3.4e38, np.inf, np.nan])
    x = np.concatenate([x, ties]).astype(np.float32)
    op = build(CastOp, [x], to=Float8E8M0FNUType(), saturate=saturate, rounding=rounding)
    expected = onnx.numpy_helper.to_float8e8m0(x, saturate, rounding)
    if saturate:  # ONNX's table of casts; its NumPy code has NaN
        expected[x == np.inf] = 2.0**127
    np.testing.assert_array_equal(op.evaluate(x)[0].view(np.uint8), expected.view(np.uint8))
    run_both(op, compiled, x)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("source", ["float32", "float16", "int32", "uint8", "bool", "float64"])
@pytest.mark.parametrize(
    "target", ["bfloat16", "float16", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"]
)
def test_casts_to_narrow_types(source, target, values, build, compiled):
    low, high = (0, 1) if target in ("uint2", "int2") else (0, 7)
    x = values(30, dtype=source, low=low, high=high)
    op = build(CastOp, [x], to=ELEMENT_TYPES[target])
    expected = np.asarray(x, np.float32)
    if "int" in target:
        expected = np.trunc(expected)
    expected = expected.astype(numpy_dtype(ELEMENT_TYPES[target]))
    np.testing.assert_array_equal(run_both(op, compiled, x), expected)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("source", ["int4", "uint4", "int2", "uint2", *FLOAT8, "bfloat16"])
@pytest.mark.parametrize("target", ["float32", "int8", "bool", "float16", "int64"])
def test_casts_from_narrow_types(source, target, build, compiled):
    dtype = numpy_dtype(ELEMENT_TYPES[source])
    is_unsigned = source.startswith("u")
    x = np.array([0, 1, 1, 0] if is_unsigned else [0, 1, -1, -2], np.float32).astype(dtype)
    op = build(CastOp, [x], to=ELEMENT_TYPES[target])
    expected = x.astype(np.float32).astype(target)
    np.testing.assert_array_equal(run_both(op, compiled, x), expected)


def test_integers_lose_their_upper_bits(build, compiled):
    x = np.array([7, 8, -9, 200, -200], np.int32)
    op = build(CastOp, [x], to=ELEMENT_TYPES["int4"])
    np.testing.assert_array_equal(run_both(op, compiled, x).astype(np.int32), [7, -8, 7, -8, -8])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("int32", "float32"),
        ("float64", "uint64"),
        ("uint64", "float64"),
        ("uint16", "int16"),
        ("float16", "uint16"),
        ("int16", "bfloat16"),
        ("uint8", "float8_e4m3fn"),
        ("bool", "uint8"),
    ],
)
def test_a_bitcast_keeps_every_bit(source, target, values, build, compiled):
    low = 0 if source.startswith(("u", "b")) else -3
    x = values(20, dtype=source, low=low)
    op = build(BitcastOp, [x], to=ELEMENT_TYPES[target])
    (meaning,) = op.evaluate(x)
    assert meaning.tobytes() == x.tobytes()
    assert compiled.run(op, [x])[0].tobytes() == x.tobytes()


def test_a_bitcast_of_a_single_number(build):
    (bits,) = build(BitcastOp, [np.array(1.0, np.float32)], to=i32).evaluate(np.float32(1.0))
    assert bits.shape == () and bits == 0x3F800000


def test_what_does_not_fit_is_named(infer):
    with pytest.raises(ValueError, match="f32 and i64 are not equally wide"):
        infer(BitcastOp, [(3,)], to=ELEMENT_TYPES["int64"])
    with pytest.raises(ValueError, match="up, down or nearest expected"):
        infer(CastOp, [(3,)], to=Float8E8M0FNUType(), rounding="odd")
    assert infer(CastOp, [("n", 2)], to=f32, dtype="int8") == [("n", 2)]


def test_arrays_of_small_integers_hold_one_in_a_byte(build):
    x = np.array([1, -2, 3], np.int8)
    (found,) = build(CastOp, [x], to=ELEMENT_TYPES["int4"]).evaluate(x)
    assert found.dtype == ml_dtypes.int4 and found.nbytes == 3
