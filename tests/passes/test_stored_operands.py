"""Products of float32 with what is stored in fewer bytes; NumPy judges."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.top.casting import CastOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import element_type_of

KINDS = {"f16": (TensorProto.FLOAT16, np.float16), "i8": (TensorProto.INT8, np.int8)}


def product(kind: int, left: tuple[int, ...], right: tuple[int, ...]) -> ModelProto:
    """y = a · float(b)"""
    nodes = [
        helper.make_node("Cast", ["b"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["a", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, left),
            helper.make_tensor_value_info("b", kind, right),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def scaled(
    left: tuple[int, ...], right: tuple[int, ...], scale: tuple[int, ...], is_first: bool = False
) -> ModelProto:
    """y = a · (float(b) s), or s float(b)"""
    factors = ["s", "wide"] if is_first else ["wide", "s"]
    nodes = [
        helper.make_node("Cast", ["b"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", factors, ["scaled"]),
        helper.make_node("MatMul", ["a", "scaled"], ["y"]),
    ]
    shapes = {"a": left, "b": right, "s": scale}
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT8 if n == "b" else TensorProto.FLOAT, shape)
        for n, shape in shapes.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "scaled", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def numbers(dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(len(shape) + shape[-1])
    if dtype is np.int8:
        return random.integers(-128, 128, shape).astype(np.int8)
    return random.standard_normal(shape).astype(dtype)


def stored(compilation: ex.Compilation) -> list[str]:
    """The elements of the right sides of products, and casts that are left."""
    ops = list(compilation["eliminate-dead-code"].after.program.walk())
    found = [str(element_type_of(op.right)) for op in ops if isinstance(op, MatMulOp)]
    return found + ["cast" for op in ops if isinstance(op, CastOp)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 1, 1), (3, 64, 200), (2, 7, 5), (3, 48, 64), (16, 5, 33), (1, 128, 16), (4, 1, 40)],
)
def test_few_rows_read_what_is_stored(kind: str, rows: int, depth: int, columns: int):
    proto_kind, dtype = KINDS[kind]
    left, right = (1, 2, rows, depth), (1, 2, depth, columns)
    compilation = ex.compile(from_proto(product(proto_kind, left, right)))
    assert stored(compilation) == [kind]
    a, b = numbers(np.float32, left), numbers(dtype, right)
    expected = a @ b.astype(np.float32)
    found = compilation.run({"a": a, "b": b})["y"]
    bound = np.abs(a) @ np.abs(b.astype(np.float32)) * depth * 2**-23
    assert (np.abs(found - expected) <= bound).all()


def test_no_numbers_stay_what_they_are():
    left, right = (2, 3), (3, 20)
    a = np.array([[1, 0, 1], [-1, 1, 0]], np.float32)
    b = np.ones(right, np.float16)
    b[0, :4] = np.inf, -np.inf, np.nan, 65504
    b[2, 1] = np.inf
    compilation = ex.compile(from_proto(product(TensorProto.FLOAT16, left, right)))
    with np.errstate(invalid="ignore"):
        expected = a @ b.astype(np.float32)
    np.testing.assert_array_equal(compilation.run({"a": a, "b": b})["y"], expected)


def test_many_rows_and_other_devices_widen_once():
    model = from_proto(product(TensorProto.FLOAT16, (17, 4), (4, 8)))
    compilation = ex.compile(model)
    assert stored(compilation) == ["f32", "cast"]
    declined = [r for r in compilation["fuse-quantization"].rewrites if r.rule == "widen-operand"]
    assert "17 rows use what is widened once" in declined[0].reason
    small = from_proto(product(TensorProto.FLOAT16, (2, 4), (4, 8)))
    assert stored(ex.compile(small, "opencl")) == ["f32", "cast"]


SCALED = [
    ((1, 2, 3, 7), (1, 2, 7, 40), (1, 2, 1, 40), True),
    ((1, 2, 3, 7), (1, 2, 7, 40), (1, 2, 7, 1), False),
    ((2, 16, 5), (2, 5, 3), (1, 1, 3), False),
    ((2, 16, 5), (2, 5, 3), (1, 5, 1), True),
    ((4, 9), (9, 1), (1, 1), False),
    ((1, 3, 2, 4), (1, 1, 4, 8), (1, 1, 4, 1), False),
]
"""Left and right side, the scale, and whether it is the first factor; also one for all numbers, and
one matrix for several."""


@pytest.mark.parametrize(("left", "right", "scale", "is_first"), SCALED)
def test_scales_of_rows_and_columns_move_out_of_the_product(left, right, scale, is_first):
    compilation = ex.compile(from_proto(scaled(left, right, scale, is_first)))
    assert stored(compilation) == ["i8"]
    a, b = numbers(np.float32, left), numbers(np.int8, right)
    s = np.abs(numbers(np.float32, scale)) * 2.0 ** np.arange(np.prod(scale)).reshape(scale)
    s[..., -1, -1] = 0
    found = compilation.run({"a": a, "b": b, "s": s.astype(np.float32)})["y"]
    exact = a.astype(np.float64) @ (b * s.astype(np.float32).astype(np.float64))
    bound = np.abs(a) @ np.abs(b * s) * (right[-2] + 2) * 2.0**-23
    assert (np.abs(found - exact) <= bound).all()
    s[..., 0, 0] = np.nan
    expected = np.isnan(a @ (b * s.astype(np.float32)))
    found = compilation.run({"a": a, "b": b, "s": s.astype(np.float32)})["y"]
    np.testing.assert_array_equal(np.isnan(found), expected)
    assert expected.any()


@pytest.mark.parametrize(
    ("rows", "scale", "target"),
    [(17, (1, 8), "cpu"), (17, (6, 1), "cpu"), (2, (6, 8), "cpu"), (2, (1, 8), "opencl")],
)
def test_other_scales_stay_where_they_are(rows: int, scale: tuple[int, int], target: str):
    model = from_proto(scaled((rows, 6), (6, 8), scale))
    compilation = ex.compile(model, target)
    assert stored(compilation)[0] == "f32"
    a, b, s = numbers(np.float32, (rows, 6)), numbers(np.int8, (6, 8)), numbers(np.float32, scale)
    found = compilation.run({"a": a, "b": b, "s": s})["y"]
    np.testing.assert_allclose(found, a @ (b * s), rtol=1e-5, atol=1e-4)


def source_text(compilation: ex.Compilation) -> str:
    return "\n".join(compilation.program.source.lines)


def test_bytes_become_floats_by_way_of_32_bits():
    model = from_proto(product(TensorProto.INT8, (1, 64), (64, 256)))
    text = source_text(ex.compile(model))
    assert re.search(r"float\d+_from_char", text) is None  # gcc 12: number by number
    assert re.search(r"__builtin_convertvector\(int\d+_from_char\d+\(", text)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_every_narrow_integer_is_widened_exactly(dtype: type):
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "two"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", kind, x.shape),
        helper.make_tensor_value_info("two", TensorProto.FLOAT, (1,)),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "widened", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = ex.compile(from_proto(model)).run({"x": x, "two": np.full(1, 2, np.float32)})["y"]
    np.testing.assert_array_equal(found, 2 * x.astype(np.float32))
