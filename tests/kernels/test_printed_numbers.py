"""Printing kernels as C and OpenCL C: what they compute, by scalars and by vectors."""

import math as python_math
import operator
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import affine, arith, func, math, memref, vector
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FloatAttr,
    StringAttr,
    VectorType,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from explorer.ir.compute import KernelBuilder, make_loop
from explorer.ir.loop_dialect import CompareIntegerLanesOp, CompareLanesOp, SelectLanesOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.opencl import print_opencl

sys.path.insert(0, str(Path(__file__).parent))
from printed_samples import RUNNERS, body_lines, elementwise, f16, f64, gather, u8


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[..., dict[str, np.ndarray]]:
    return request.getfixturevalue(request.param)


SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.8, -104.0, 0.5]
UNARY = {
    "abs": (math.AbsFOp, np.abs),
    "ceil": (math.CeilOp, np.ceil),
    "cos": (math.CosOp, np.cos),
    "erf": (math.ErfOp, np.vectorize(python_math.erf)),
    "exp": (math.ExpOp, np.exp),
    "floor": (math.FloorOp, np.floor),
    "log": (math.LogOp, np.log),
    "roundeven": (math.RoundEvenOp, np.rint),
    "rsqrt": (math.RsqrtOp, lambda x: 1 / np.sqrt(x)),
    "sin": (math.SinOp, np.sin),
    "sqrt": (math.SqrtOp, np.sqrt),
    "tanh": (math.TanhOp, np.tanh),
}


def samples(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    special = [x for x in SPECIALS if name not in ("sin", "cos") or not abs(x) > 1e4]
    values = np.concatenate([special, rng.normal(size=52) * 3, rng.normal(size=64 * 15) * 20])
    return values[: 64 * 16 - len(special)].astype(np.float32)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_scalars_agree_with_numpy(run, name):
    operation, reference = UNARY[name]
    a = samples(name)
    y = np.zeros_like(a)
    function = elementwise(lambda s, a: a.unary(operation), [f32], f32, len(a))
    found = run(function, {"a": a, "y": y})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    # OpenCL allows erf 16 units in the last place, and results that are denormal to be 0.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-38)


def test_maximum_and_minimum_propagate_nan(run):
    nan = np.float32(np.nan)
    a = np.array([1, nan, 2, nan, np.inf, -3, 0, 5], np.float32)
    b = np.array([2, 1, nan, nan, 1, -np.inf, 0, 4], np.float32)
    function = elementwise(lambda s, a, b: a.maximum(b), [f32, f32], f32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.maximum(a, b))
    function = elementwise(lambda s, a: a.minimum(0.5), [f32], f32)
    found = run(function, {"a": a, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.minimum(a, np.float32(0.5)))


def test_power_and_comparisons(run):
    a = np.array([0, 1, 2, 3, 0.5, 9, 4, 10], np.float32)
    b = np.array([0, -1, 3, 0.5, 2, -0.5, 1.5, -2], np.float32)
    function = elementwise(lambda s, a, b: a.power(b), [f32, f32], f32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_allclose(found, np.power(a, b), rtol=1e-6)
    both = elementwise(
        lambda s, a, b: a.compare("lt", b).logical_or(a.compare("eq", s.constant(1.0, f32))),
        [f32, f32],
        i1,
    )
    found = run(both, {"a": a, "b": b, "y": np.zeros(8, np.uint8)})["y"]
    np.testing.assert_array_equal(found, ((a < b) | (a == 1)).astype(np.uint8))


def test_where_reads_booleans_as_bytes(run):
    function = elementwise(lambda s, a, b, c: a.select(b, c), [i1, f32, f32], f32)
    a = np.array([1, 0, 0, 1, 1, 1, 0, 0], np.uint8)
    b = np.arange(8, dtype=np.float32)
    found = run(function, {"a": a, "b": b, "c": -b - 1, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.where(a != 0, b, -b - 1))


def test_conversions_keep_signedness_and_wrap_small_integers(run):
    a = np.array([0, 1, 127, 128, 200, 255, 3, 250], np.uint8)
    zero = np.zeros(8, np.float32)
    widened = elementwise(lambda s, a: a.convert(f32) * 0.5, [u8], f32)
    np.testing.assert_array_equal(run(widened, {"a": a, "y": zero})["y"], a * np.float32(0.5))
    wrapped = elementwise(lambda s, a: (a + a).convert(i32), [u8], i32)
    found = run(wrapped, {"a": a, "y": np.zeros(8, np.int32)})["y"]
    np.testing.assert_array_equal(found, (a + a).astype(np.int32))
    signed = a.view(np.int8)
    truncated = elementwise(lambda s, a: (a.convert(f32) * 1.5).convert(i64), [i8], i64)
    found = run(truncated, {"a": signed, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, (signed * np.float32(1.5)).astype(np.int64))
    doubles = elementwise(lambda s, a: a.convert(f64) / 3.0, [i64], f64)
    found = run(doubles, {"a": np.arange(8), "y": np.zeros(8)})["y"]
    np.testing.assert_allclose(found, np.arange(8) / 3, rtol=1e-15)


def test_integer_arithmetic(run):
    a = np.array([7, -7, 9, -9, 0, 5, -1, 6], np.int64)
    b = np.array([2, 2, -4, -4, 3, 5, 7, 1], np.int64)
    function = elementwise(lambda s, a, b: a.remainder(b) * 10 + a / b, [i64, i64], i64)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, np.fmod(a, b) * 10 + np.trunc(a / b).astype(np.int64))
    function = elementwise(lambda s, a, b: a.maximum(b) - a.minimum(b).negate(), [i64, i64], i64)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, a + b)
    function = elementwise(lambda s, a: a.power(3), [i64], i64)
    found = run(function, {"a": a, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, a**3)


def test_half_is_computed_through_c(run_c):
    a = np.linspace(-4, 4, 8).astype(np.float16)
    function = elementwise(lambda s, a: (a * 2.0).unary(math.ExpOp), [f16], f16)
    found = run_c(function, {"a": a, "y": np.zeros_like(a)})["y"]
    np.testing.assert_allclose(found, np.exp(a * np.float16(2)), rtol=1e-3)


def test_gather_wraps_negative_indices_and_stays_inside(run):
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    indices = np.array([0, 4, -1, -5, 2, 2**40, -(2**40)], np.int64)
    y = np.zeros((7, 3), np.float32)
    found = run(gather(), {"data": data, "indices": indices, "y": y})["y"]
    np.testing.assert_array_equal(found, data[[0, 4, 4, 0, 2, 4, 0]])


def test_convolution_as_in_the_textbook(run):
    k = KernelBuilder("conv")
    x = k.argument("x", (1, 3, 10, 10), f32, "input")
    w = k.argument("w", (8, 3, 3, 3), f32, "weight")
    y = k.argument("y", (1, 8, 8, 8), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(n=1, o=8, i=8, j=8, c=3, p=3, q=3)
    k.generic(
        "main",
        [(x, (n, c, i + p, j + q)), (w, (o, c, p, q))],
        (y, (n, o, i, j)),
        lambda s, x, w, y: y + x * w,
        reductions="c p q",
        accumulates=True,
    )
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    at = (n, o, i, j)
    k.generic("epilogue", [(y, at)], (y, at), lambda s, y: y.maximum(0.0))
    rng = np.random.default_rng(1)
    images = rng.normal(size=(1, 3, 10, 10)).astype(np.float32)
    weights = rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    arrays = {"x": images, "w": weights, "y": np.zeros((1, 8, 8, 8), np.float32)}
    found = run(lower_to_loops(k.finish("convolution")), arrays)["y"]
    windows = np.lib.stride_tricks.sliding_window_view(images[0], (3, 3), axis=(1, 2))
    expected = np.maximum(np.einsum("cijpq,ocpq->oij", windows, weights), 0)[None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def softmax(rows: int, columns: int) -> func.FuncOp:
    k = KernelBuilder("softmax")
    x = k.argument("x", (rows, columns), f32, "input")
    top = k.argument("top", (rows,), f32, "scratch")
    total = k.argument("total", (rows,), f32, "scratch")
    y = k.argument("y", (rows, columns), f32, "output")
    (i,) = k.dimensions(i=rows)
    k.generic("plain", [], (top, (i,)), lambda s: s.constant(float("-inf")))
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(x, (i, j))],
        (top, (i,)),
        lambda s, x, top: top.maximum(x),
        reductions="j",
        accumulates=True,
    )
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(x, (i, j)), (top, (i,))],
        (y, (i, j)),
        lambda s, x, top: (x - top).unary(math.ExpOp),
    )
    (i,) = k.dimensions(i=rows)
    k.generic("plain", [], (total, (i,)), lambda s: s.constant(0.0))
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(y, (i, j))],
        (total, (i,)),
        lambda s, y, total: total + y,
        reductions="j",
        accumulates=True,
    )
    i, j = k.dimensions(i=rows, j=columns)
    k.generic("plain", [(total, (i,))], (y, (i, j)), lambda s, t, y: y / t, accumulates=True)
    return lower_to_loops(k.finish("plain"))


def test_softmax_runs_its_phases_one_after_another(run):
    x = np.random.default_rng(2).normal(size=(4, 33)).astype(np.float32) * 5
    row = np.zeros(4, np.float32)
    arrays = {"x": x, "top": row, "total": row, "y": np.zeros_like(x)}
    function = softmax(4, 33)
    assert len(print_c(function, "softmax").phases) >= 4
    found = run(function, arrays)["y"]
    shifted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, shifted / shifted.sum(1, keepdims=True), rtol=1e-5)


# -- vectors -----------------------------------------------------------------------------------


class NestBuilder:
    """Writes the body of a loop by hand: subscripts are (coefficient, index) sums plus a number."""

    def __init__(self):
        self.operations: list[Operation] = []

    def add(self, operation: Operation) -> SSAValue:
        self.operations.append(operation)
        return operation.results[0]

    def load(self, buffer: SSAValue, index: SSAValue, factor: int, kind: VectorType) -> SSAValue:
        return self.add(affine.VectorLoadOp(buffer, [index], scaled(factor), kind))

    def store(self, value: SSAValue, buffer: SSAValue, index: SSAValue, factor: int) -> None:
        self.operations.append(affine.VectorStoreOp(value, buffer, [index], scaled(factor)))


def scaled(factor: int) -> AffineMapAttr:
    return AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0) * factor,)))


def vector_kernel(
    lanes: int, types: Sequence, result_type, body: Callable, extent: int
) -> func.FuncOp:
    """y[i * lanes ..] = body(builder, a, b, ...) over whole vectors."""
    k = KernelBuilder("kernel_1")
    buffers = [
        k.argument(name, (extent,), t, "input") for name, t in zip("abc", types, strict=False)
    ]
    y = k.argument("y", (extent,), result_type, "output")
    k.nest({"i": extent // lanes}, lambda s, i: None, parallel="i")
    function = k.finish("explicit")
    loop = next(op for op in function.walk() if isinstance(op, affine.ForOp))
    index = loop.body.block.args[0]
    builder = NestBuilder()
    values = [
        builder.load(b.value, index, lanes, VectorType(t, [lanes]))
        for b, t in zip(buffers, types, strict=True)
    ]
    builder.store(body(builder, *values), y.value, index, lanes)
    loop.body.block.insert_ops_before(builder.operations, loop.body.block.last_op)
    return function


def unary_vector(operation: type[Operation], lanes: int, extent: int) -> func.FuncOp:
    def body(b: NestBuilder, a: SSAValue) -> SSAValue:
        created = operation.create(operands=[a], result_types=[a.type])
        created.properties = {"fastmath": arith.FastMathFlagsAttr("none")}
        return b.add(created)

    return vector_kernel(lanes, [f32], f32, body, extent)


# Every function at one width, and at the others those that have a form of their own.
WIDTHS = [*((name, 16) for name in UNARY)]
WIDTHS += [(name, lanes) for name in ("erf", "exp", "log", "tanh") for lanes in (4, 8)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("name", "lanes"), WIDTHS)
def test_functions_of_vectors_agree_with_numpy(run_c, name, lanes):
    operation, reference = UNARY[name]
    a = samples(name)
    a = a[: len(a) // 16 * 16]
    found = run_c(unary_vector(operation, lanes, len(a)), {"a": a, "y": np.zeros_like(a)})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=5e-7)


@pytest.mark.sampled(3)
@pytest.mark.opencl
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_opencl_vectors_agree_with_numpy(run_opencl, name):
    operation, reference = UNARY[name]
    a = samples(name)
    a = a[: len(a) // 16 * 16]
    found = run_opencl(unary_vector(operation, 16, len(a)), {"a": a, "y": np.zeros_like(a)})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-38)


def test_vectors_are_loaded_repeated_and_stored():
    def body(b: NestBuilder, a: SSAValue) -> SSAValue:
        two = b.add(arith.ConstantOp(FloatAttr(2.0, f32)))
        repeated = b.add(vector.BroadcastOp(two, VectorType(f32, [16])))
        return b.add(arith.MaximumfOp(a, repeated))

    function = vector_kernel(16, [f32], f32, body, 64)
    assert body_lines(print_c(function, "k")) == [
        "for (long i = 0; i < 4; i++) {",
        "    store_float16("
        "maximum_float16(splat_float16(2.0f), load_float16(a + i * 16)), y + i * 16);",
        "}",
    ]
    assert body_lines(print_opencl(function, "k"))[2:] == [
        "for (int i = 0; i < 4; i++) {",
        "    vstore16(maximum_float16((float16)(2.0f), vload16(0, a + i * 16)), 0, y + i * 16);",
        "}",
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vector_maximum_propagates_nan_and_selects_by_mask(run, lanes):
    nan = np.nan
    a = np.array([1, nan, 2, nan, np.inf, -3, 0, 5] * 4, np.float32)
    b = np.array([2, 1, nan, nan, 1, -np.inf, 0, 4] * 4, np.float32)
    y = np.zeros_like(a)

    def largest(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return builder.add(arith.MaximumfOp(a, b))

    function = vector_kernel(lanes, [f32, f32], f32, largest, 32)
    np.testing.assert_array_equal(run(function, {"a": a, "b": b, "y": y})["y"], np.maximum(a, b))

    def select(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        condition = builder.add(CompareLanesOp(a, b, "ult"))
        return builder.add(SelectLanesOp(condition, a, b))

    function = vector_kernel(lanes, [f32, f32], f32, select, 32)
    expected = np.where(~(a >= b), a, b)
    np.testing.assert_array_equal(run(function, {"a": a, "b": b, "y": y})["y"], expected)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", [i32, i8], ids=str)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
def test_vectors_of_integers_are_compared(run, predicate, kind):
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, 32).astype(f"int{kind.width.data}") for _ in range(2))

    def body(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return builder.add(CompareIntegerLanesOp(a, b, predicate))

    function = vector_kernel(8, [kind, kind], i1, body, 32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(32, np.uint8)})["y"]
    left, right = (x.view(f"uint{kind.width.data}") if predicate[0] == "u" else x for x in (a, b))
    compare = getattr(operator, predicate[-2:])
    np.testing.assert_array_equal(found, compare(left, right))


def test_masks_are_stored_and_read_as_bytes(run):
    a = np.array([1, 0] * 16, np.uint8)
    b = np.linspace(-1, 1, 32).astype(np.float32)

    def body(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        is_number = builder.add(CompareLanesOp(b, b, "oeq"))
        return builder.add(arith.AndIOp(a, is_number))

    function = vector_kernel(8, [i1, f32], i1, body, 32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(32, np.uint8)})["y"]
    np.testing.assert_array_equal(found, a)


def test_vector_conversions(run):
    a = np.arange(224, 256).astype(np.uint8)

    def body(builder: NestBuilder, a: SSAValue) -> SSAValue:
        target = VectorType(f32, [16])
        return builder.add(arith.UIToFPOp.create(operands=[a], result_types=[target]))

    function = vector_kernel(16, [i8], f32, body, 32)
    found = run(function, {"a": a, "y": np.zeros(32, np.float32)})["y"]
    np.testing.assert_array_equal(found, a.astype(np.float32))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    ("kind", "reference"), [("add", np.sum), ("maximumf", np.max), ("mul", np.prod)]
)
def test_vector_reductions(run, lanes, kind, reference):
    function = tile_kernel(lanes, kind)
    a = np.random.default_rng(3).normal(size=(3, lanes)).astype(np.float32)
    y = np.full(3, 2.0, np.float32)
    found = run(function, {"a": a, "y": y})["y"]
    combine = {"add": np.add, "maximumf": np.maximum, "mul": np.multiply}[kind]
    np.testing.assert_allclose(found, combine(y, reference(a, axis=1)), rtol=1e-5)


def tile_kernel(lanes: int, kind: str) -> func.FuncOp:
    """Rows into a register array of vectors, then y[i] = y[i] <kind> all lanes of acc[i]."""
    k = KernelBuilder("kernel_1")
    a = k.argument("a", (3, lanes), f32, "input")
    y = k.argument("y", (3,), f32, "output")
    function = k.finish("explicit")
    row = VectorType(f32, [lanes])
    array = memref.AllocaOp.get(row, 64, [3])
    array.memref.name_hint = "acc"
    fill, drain, outer = make_loop(0, 3, "r"), make_loop(0, 3, "r2"), make_loop(0, 1, "t")
    fill.attributes["loop.kind"] = StringAttr("unroll")
    one, other = fill.body.block.args[0], drain.body.block.args[0]
    identity = AffineMapAttr(AffineMap.identity(1))
    start = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(0))))
    load = affine.VectorLoadOp(a.value, [one], start, row)
    keep = affine.StoreOp(load.result, array.memref, [one], identity)
    fill.body.block.insert_ops_before([load, keep], fill.body.block.last_op)
    whole = affine.LoadOp(array.memref, [other], identity)
    old = affine.LoadOp(y.value, [other], identity)
    reduced = vector.ReductionOp.create(
        operands=[whole.result, old.result],
        result_types=[f32],
        properties={
            "kind": vector.CombiningKindAttr(vector.CombiningKindFlag(kind)),
            "fastmath": arith.FastMathFlagsAttr("none"),
        },
    )
    new = affine.StoreOp(reduced.results[0], y.value, [other], identity)
    drain.body.block.insert_ops_before([whole, old, reduced, new], drain.body.block.last_op)
    outer.body.block.insert_ops_before([array, fill, drain], outer.body.block.last_op)
    function.body.block.insert_op_before(outer, function.body.block.last_op)
    return function


def test_register_arrays_of_vectors_and_unrolled_loops():
    assert body_lines(print_c(tile_kernel(16, "add"), "k")) == [
        "for (long t = 0; t < 1; t++) {",
        "    float16 acc[3];",
        "    UNROLL(3)",
        "    for (long r = 0; r < 3; r++) {",
        "        acc[r] = load_float16(a + r * 16);",
        "    }",
        "    for (long r2 = 0; r2 < 3; r2++) {",
        "        y[r2] += reduce_add_float16(acc[r2]);",
        "    }",
        "}",
    ]
