"""Narrow types in generated code: every code of every format, both ways, exactly as ml_dtypes."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, f32, f64
from xdsl.ir import Block

from explorer.errors import UnsupportedError
from explorer.ir.compute import KernelBuilder
from explorer.ir.types import ELEMENT_TYPES, numpy_dtype
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest
from explorer.kernels.printing.c import CLanguage, print_c
from explorer.kernels.printing.expressions import Expression, ExpressionWriter
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.restructure import split
from explorer.kernels.steps.vectorize import vectorize

FLOATS = [
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
]
INTEGERS = ["int4", "uint4", "int2", "uint2"]
RUNNERS = ["run_c", pytest.param("run_opencl", marks=pytest.mark.opencl)]


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[..., dict[str, np.ndarray]]:
    return request.getfixturevalue(request.param)


def converting(source, target, extent: int):
    """y[i] = x[i] in another type."""
    k = KernelBuilder("kernel_1")
    x = k.argument("x", (extent,), source, "input")
    y = k.argument("y", (extent,), target, "output")
    (i,) = k.dimensions(i=extent)
    k.generic("plain", [(x, (i,))], (y, (i,)), lambda s, a: a.convert(target))
    return lower_to_loops(k.finish("elementwise"))


def all_codes(name: str) -> np.ndarray:
    """Every element of a type, from its bits."""
    dtype = numpy_dtype(ELEMENT_TYPES[name])
    if dtype.itemsize == 2:
        return np.arange(65536, dtype=np.uint16).view(dtype)
    info = ml_dtypes.finfo if name.startswith("float") else ml_dtypes.iinfo
    return np.arange(2 ** info(dtype).bits, dtype=np.uint8).view(dtype)


def numbers_around(codes: np.ndarray) -> np.ndarray:
    """All numbers of a type, what lies between two of them, and what is too large or too small."""
    numbers = codes.astype(np.float32)
    own = np.unique(numbers[np.isfinite(numbers)].astype(np.float64))
    between = (own[1:] + own[:-1]) / 2
    near = np.concatenate([np.nextafter(np.float32(between), np.float32(sign)) for sign in (-9, 9)])
    largest = own[-1]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, *(largest * np.array([1.01, -2]))]
    with np.errstate(over="ignore"):
        return np.concatenate([own, between, near, special]).astype(np.float32)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*FLOATS, "float8_e8m0fnu", *INTEGERS])
def test_every_code_is_read(name, run):
    codes = all_codes(name)
    kernel = converting(ELEMENT_TYPES[name], f32, len(codes))
    found = run(kernel, {"x": codes, "y": np.zeros(len(codes), np.float32)})["y"]
    np.testing.assert_array_equal(found, codes.astype(np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_rounded_to_the_nearest_with_ties_to_even(name, run):
    codes = all_codes(name)
    x = numbers_around(codes)
    kernel = converting(f32, ELEMENT_TYPES[name], len(x))
    found = run(kernel, {"x": x, "y": np.zeros(len(x), codes.dtype)})["y"]
    with np.errstate(over="ignore"):
        expected = x.astype(codes.dtype)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    numbers = ~np.isnan(x)
    bits = f"u{codes.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(bits)[numbers], expected.view(bits)[numbers])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_vectors_are_converted_as_single_numbers_are(name, lanes, run):
    codes = all_codes(name)
    numbers = numbers_around(codes)
    numbers = np.pad(numbers, (0, -len(numbers) % lanes))
    kind = ELEMENT_TYPES[name]

    def converted(source, target, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        function = converting(source, target, len(x))
        nest = LoopNest(function)
        split(nest, "i", "step lane", (lanes,))
        vectorize(nest, "lane")
        return run(function, {"x": x, "y": np.zeros(len(x), dtype)})["y"]

    wide = converted(kind, f32, codes, np.dtype(np.float32))
    np.testing.assert_array_equal(wide, codes.astype(np.float32))
    narrow = converted(f32, kind, numbers, codes.dtype)
    with np.errstate(over="ignore"):
        expected = numbers.astype(codes.dtype)
    np.testing.assert_array_equal(narrow.astype(np.float32), expected.astype(np.float32))
    known = ~np.isnan(numbers)
    np.testing.assert_array_equal(narrow.view("u2")[known], expected.view("u2")[known])


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_keep_their_lowest_bits(name, run):
    wide = np.arange(-40, 40, dtype=np.int32)
    dtype = numpy_dtype(ELEMENT_TYPES[name])
    kernel = converting(ELEMENT_TYPES["int32"], ELEMENT_TYPES[name], len(wide))
    found = run(kernel, {"x": wide, "y": np.zeros(len(wide), dtype)})["y"]
    np.testing.assert_array_equal(found.view(np.uint8), wide.astype(dtype).view(np.uint8))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_sum_is_held_in_single_precision_until_it_is_stored(name, run):
    kind = ELEMENT_TYPES[name]
    k = KernelBuilder("kernel_1")
    x = k.argument("x", (4097,), kind, "input")
    y = k.argument("y", (1,), kind, "output")
    (i,) = k.dimensions(i=1)
    k.generic("init", [], (y, (i,)), lambda s: s.constant(4096))
    i, j = k.dimensions(i=1, j=4097)
    k.generic(
        "main",
        [(x, (j,))],
        (y, (i,)),
        lambda s, a, y: y + a,
        reductions="j",
        accumulates=True,
    )
    function = lower_to_loops(k.finish("reduce"))
    dtype = numpy_dtype(kind)
    arrays = {
        "x": np.ones(4097, dtype),
        "y": np.zeros(1, dtype),
        "y_wide": np.zeros(1, np.float32),
    }
    assert run(function, arrays)["y"].astype(np.float32) == np.float32(8193).astype(dtype)


def test_a_copy_moves_bits_without_converting_them():
    kind = ELEMENT_TYPES["float8_e4m3fn"]
    printed = print_c(converting(kind, kind, 8), "kernel_1")
    assert not [need.section for need in printed.needs if "float" in need.section]
    assert any("y[i] = x[i];" in line for line in printed.lines)


def test_vectors_of_formats_without_an_instruction_are_refused():
    block = Block(arg_types=[VectorType(ELEMENT_TYPES["float8_e5m2"], [8])])
    widened = arith.ExtFOp(block.args[0], VectorType(f32, [8]))
    with pytest.raises(UnsupportedError, match="in vectors of 8"):
        ExpressionWriter(CLanguage()).write(widened, [Expression("x")])


def test_doubles_are_rounded_through_floats(run):
    x = np.array([1.0, 1 / 3, -1e300, 2.0**-20])
    kernel = converting(f64, ELEMENT_TYPES["bfloat16"], len(x))
    found = run(kernel, {"x": x, "y": np.zeros(len(x), ml_dtypes.bfloat16)})["y"]
    with np.errstate(over="ignore"):
        expected = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_what_several_conversions_need_stands_once():
    needs = [Requirement("float_from_bf16", "ushort", 16), Requirement("float_from_bf16", "ushort")]
    needs += [
        Requirement("float_from_f8e5m2", "uchar"),
        Requirement("f4e2m1fn_from_float", "uchar"),
    ]
    text = "\n".join(prelude_lines(CLanguage(), needs))
    assert text.count("INLINE float as_float(") == 1
    assert text.count("INLINE float float_of_code(") == 1
