"""Compute definitions: what statements and nests look like, and what their verifier refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import func, math
from xdsl.dialects.builtin import IndexType, ModuleOp, f32, f64, i1, i8, i32, i64
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import VerifyException

from explorer.ir.compute import (
    Dimension,
    KernelBuilder,
    Scalar,
    ScalarBuilder,
    clamp_index,
    statement_dimensions,
    subscript_range,
)
from explorer.ir.inspection.printing import dump, parse, show
from explorer.ir.types import ELEMENT_TYPES


def dense_layer():
    """y = x * w, two statements."""
    k = KernelBuilder("dense")
    x = k.argument("x", (3,), f32, "input")
    w = k.argument("w", (2, 3), f32, "weight")
    y = k.argument("y", (2,), f32, "output")
    (o,) = k.dimensions(o=2)
    k.generic("init", [], (y, (o,)), lambda s: s.constant(0.0))
    o, c = k.dimensions(o=2, c=3)
    k.generic(
        "main",
        [(x, (c,)), (w, (o, c))],
        (y, (o,)),
        lambda s, x, w, y: y + x * w,
        reductions="c",
        accumulates=True,
    )
    return k.finish("matmul", {"stride": 1})


def test_a_kernel_is_a_function_of_statements():
    function = dense_layer()
    function.verify()
    first_line = show(function).lines[0]
    assert first_line == (
        "func.func @dense(%x: memref<3xf32>, %w: memref<2x3xf32>, %y: memref<2xf32>) attributes "
        '{kernel.kind = "matmul", kernel.roles = ["input", "weight", "output"], '
        'kernel.names = ["x", "w", "y"], kernel.stride = 1 : i64} {'
    )
    init, main = [op for op in function.body.block.ops if op.name == "linalg.generic"]
    assert statement_dimensions(init) == [Dimension("o", 2)]
    assert statement_dimensions(main) == [Dimension("o", 2), Dimension("c", 3)]
    assert [str(m.data) for m in main.indexing_maps] == [
        "(d0, d1) -> (d1)",
        "(d0, d1) -> (d0, d1)",
        "(d0, d1) -> (d0)",
    ]
    assert [t.data.value for t in main.iterator_types] == ["parallel", "reduction"]
    assert [op.name for op in main.body.block.ops] == ["arith.mulf", "arith.addf", "linalg.yield"]


def test_printing_and_parsing_statements_is_the_identity():
    text = dump(ModuleOp([dense_layer()]))
    assert dump(parse(text)) == text


def test_printing_and_parsing_a_nest_is_the_identity():
    text = dump(ModuleOp([running_sum()]))
    assert dump(parse(text)) == text


def running_sum():
    """y[i] = y[i] + x[max(i - 1, 0)]: an explicit nest."""
    k = KernelBuilder("running")
    x = k.argument("x", (4, 5), f32, "input")
    y = k.argument("y", (4, 5), f32, "output")

    def body(s: ScalarBuilder, row: Scalar, i: Scalar) -> None:
        before = s.load(x, [row, (i - 1).maximum(0)])
        s.store(s.load(y, [row, i]) + before, y, [row, i])

    k.nest({"row": 4, "i": 5}, body, parallel="row")
    return k.finish("explicit")


def test_a_nest_is_a_perfect_nest_of_named_loops():
    function = running_sum()
    function.verify()
    (outer,) = [op for op in function.body.block.ops if op.name == "affine.for"]
    inner, _ = outer.body.block.ops
    assert outer.attributes["loop.name"].data == "row"
    assert "loop.independent" in outer.attributes
    assert inner.attributes["loop.name"].data == "i"
    assert "loop.independent" not in inner.attributes
    assert [op.name for op in inner.body.block.ops] == [
        "arith.constant",
        "arith.subi",
        "arith.constant",
        "arith.maxsi",
        "memref.load",
        "memref.load",
        "arith.addf",
        "memref.store",
        "affine.yield",
    ]


@pytest.mark.parametrize(
    ("subscript", "message"),
    [
        (lambda i: i + 1, r"dimension 0 of x has 4 elements, and \(d0 \+ 1\) reaches from 1 to 4"),
        (lambda i: i - 1, "reaches from -1 to 2"),
        (lambda i: i * 2, "reaches from 0 to 6"),
        (lambda i: i * -1 + 2, "reaches from -1 to 2"),
    ],
)
def test_a_subscript_that_leaves_its_buffer_is_refused(subscript, message):
    k = KernelBuilder("copy")
    x, y = k.argument("x", (4,), f32, "input"), k.argument("y", (4,), f32, "output")
    (i,) = k.dimensions(i=4)
    k.generic("plain", [(x, (subscript(i),))], (y, (i,)), lambda s, x: x)
    with pytest.raises(VerifyException, match=message):
        k.finish("copy").verify()


@given(
    extents=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    factors=st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    offset=st.integers(-3, 3),
)
def test_the_range_of_a_subscript_is_reached_and_never_left(extents, factors, offset):
    i, j = AffineExpr.dimension(0), AffineExpr.dimension(1)
    values = [
        a * factors[0] + b * factors[1] + offset
        for a in range(extents[0])
        for b in range(extents[1])
    ]
    found = subscript_range(i * factors[0] + j * factors[1] + offset, extents)
    assert found == (min(values), max(values))


def recorded(element_type, body) -> list[str]:
    """Names of the operations that an expression on one scalar records."""
    block = Block(arg_types=[element_type])
    body(Scalar(block, block.args[0]))
    return [op.name for op in block.ops]


def test_arithmetic_is_chosen_by_the_element_type():
    assert recorded(f32, lambda x: x + x) == ["arith.addf"]
    assert recorded(i32, lambda x: x + 1) == ["arith.constant", "arith.addi"]
    assert recorded(i32, lambda x: x / x) == ["arith.divsi"]
    assert recorded(ELEMENT_TYPES["uint8"], lambda x: x / x) == ["arith.divui"]
    assert recorded(f64, lambda x: x.maximum(x)) == ["arith.maximumf"]
    assert recorded(i8, lambda x: x.maximum(x)) == ["arith.maxsi"]
    assert recorded(f32, lambda x: x.unary(math.ExpOp)) == ["math.exp"]
    assert recorded(IndexType(), lambda x: x * 2) == ["arith.constant", "arith.muli"]
    assert recorded(f32, lambda x: x.remainder(x)) == ["loop.remf"]
    with pytest.raises(TypeError, match=r"arith.andi is not defined for f32"):
        recorded(f32, lambda x: x.logical_and(x))


def test_arithmetic_of_types_for_storage_is_that_of_their_arithmetic_type():
    bf16, i4 = ELEMENT_TYPES["bfloat16"], ELEMENT_TYPES["int4"]
    assert recorded(bf16, lambda x: x + 1) == ["arith.extf", "arith.constant", "arith.addf"]
    assert recorded(bf16, lambda x: x.unary(math.ExpOp)) == ["arith.extf", "math.exp"]
    assert recorded(i4, lambda x: x.negate()) == ["arith.constant", "arith.extsi", "arith.subi"]
    assert recorded(bf16, lambda x: x.compare("eq", x).select(x, x))[-1] == "arith.select"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (f32, f32, []),
        (f32, f64, ["arith.extf"]),
        (f64, f32, ["arith.truncf"]),
        (f32, i8, ["arith.fptosi"]),
        (f32, ELEMENT_TYPES["uint8"], ["arith.fptoui"]),
        (i32, f32, ["arith.sitofp"]),
        (i1, f32, ["arith.uitofp"]),
        (ELEMENT_TYPES["uint8"], i32, ["arith.extui"]),
        (i64, i32, ["arith.trunci"]),
        (i64, IndexType(), ["arith.index_cast"]),
        (i32, i1, ["arith.constant", "arith.cmpi"]),
        (IndexType(), f32, ["arith.index_cast", "arith.sitofp"]),
        (ELEMENT_TYPES["bfloat16"], ELEMENT_TYPES["float16"], ["arith.extf", "arith.truncf"]),
        (i8, ELEMENT_TYPES["bfloat16"], ["arith.sitofp", "arith.truncf"]),
        (f64, ELEMENT_TYPES["float8_e5m2"], ["arith.truncf", "arith.truncf"]),
        (
            ELEMENT_TYPES["float16"],
            ELEMENT_TYPES["int4"],
            ["arith.extf", "arith.fptosi", "arith.trunci"],
        ),
        (ELEMENT_TYPES["uint4"], i64, ["arith.extui", "arith.extui"]),
    ],
)
def test_conversions_follow_the_rules_of_c(source, target, expected):
    assert recorded(source, lambda x: x.convert(target)) == expected


def test_an_index_from_data_is_wrapped_once_and_clamped():
    names = recorded(IndexType(), lambda x: clamp_index(ScalarBuilder(x.block, None), x, 7))
    steps = [name for name in names if name != "arith.constant"]
    assert steps == ["arith.cmpi", "arith.addi", "arith.select", "arith.maxsi", "arith.minsi"]


def test_a_nest_needs_a_loop_and_an_argument_one_of_four_roles():
    k = KernelBuilder("kernel")
    with pytest.raises(AssertionError, match="a nest needs at least one loop"):
        k.nest({}, lambda s: None)
    with pytest.raises(AssertionError, match="temporary"):
        k.argument("t", (1,), f32, "temporary")


def narrow_kernel(reads_result: bool) -> func.FuncOp:
    """y = x * 2 in f16, or y = sum of x."""
    f16 = ELEMENT_TYPES["float16"]
    k = KernelBuilder("k")
    x, y = k.argument("x", (4,), f16, "input"), k.argument("y", (4,), f16, "output")
    (i,) = k.dimensions(i=4)
    if reads_result:
        k.generic("init", [], (y, (i,)), lambda s: s.constant(0.0))
        k.generic("main", [(x, (i,))], (y, (i,)), lambda s, a, y: y + a, accumulates=True)
    else:
        k.generic("plain", [(x, (i,))], (y, (i,)), lambda s, a: a * 2)
    return k.finish("plain")


def test_a_narrow_result_that_is_only_written_is_rounded_where_it_is_stored():
    kernel = narrow_kernel(reads_result=False)
    kernel.verify()
    assert [str(n.data) for n in kernel.attributes["kernel.names"].data] == ["x", "y"]  # pyright: ignore
    (statement,) = [op for op in kernel.body.block.ops if isinstance(op, GenericOp)]
    names = [op.name for op in statement.body.block.ops]
    assert names == ["arith.extf", "arith.constant", "arith.mulf", "arith.truncf", "linalg.yield"]


def test_a_narrow_result_that_is_read_again_is_held_wide_until_the_end():
    kernel = narrow_kernel(reads_result=True)
    kernel.verify()
    names = [str(n.data) for n in kernel.attributes["kernel.names"].data]  # pyright: ignore
    assert names == ["x", "y", "y_wide"]
    statements = [op for op in kernel.body.block.ops if isinstance(op, GenericOp)]
    assert [op.outputs[0].name_hint for op in statements] == ["y_wide", "y_wide", "y"]
    last = [op.name for op in statements[-1].body.block.ops]
    assert last == ["arith.truncf", "linalg.yield"]
