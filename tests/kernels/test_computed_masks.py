"""Masks that kernels compute: below which element each is true only."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import affine, arith, builtin, func
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.parser import Parser

from explorer.ir.sizes.symbols import name, number
from explorer.kernels.loops.computed_masks import ComputedMasks
from explorer.kernels.loops.extents import Bounds

LENGTH = name("length")


def kernel(body: str, result: str = "i1") -> func.FuncOp:
    """A kernel over eight elements of x, or over one."""
    size = 8 if result == "i1" else 1
    text = f"""func.func @k(%x: memref<8xi64>, %w: memref<1xi64>, %y: memref<{size}x{result}>) {{
      affine.for %i = 0 to {size} {{
        {body}
        affine.store %0, %y[%i] : memref<{size}x{result}>
      }}
      func.return
    }}"""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, affine.Affine, arith.Arith):
        context.load_dialect(dialect)
    (made,) = Parser(context, text).parse_module().body.block.ops
    assert isinstance(made, func.FuncOp)
    for op in made.walk():
        if isinstance(op, affine.LoadOp | affine.StoreOp) and op.indices:
            op.properties["map"] = AffineMapAttr(AffineMap.identity(1))  # the parser names symbols
    return made


def masks(function: func.FuncOp, places: np.ndarray) -> ComputedMasks:
    x, w, _ = function.body.block.args

    def constants(buffer: SSAValue) -> np.ndarray | None:
        return places if buffer is x else None

    return ComputedMasks(
        lambda buffer: LENGTH if buffer is w else None,
        constants,
        lambda buffer: None,
        Bounds({"length": (0, 7)}),
    )


READ = """%a = affine.load %x[%i] : memref<8xi64>
        %b = affine.load %w[0] : memref<1xi64>"""


@pytest.mark.parametrize(
    ("compare", "first", "end"),
    [
        ("slt, %a, %b", 0, LENGTH),
        ("sle, %a, %b", 0, LENGTH + 1),
        ("sgt, %b, %a", 0, LENGTH),
        ("sge, %b, %a", 3, LENGTH - 2),
        ("slt, %a, %b", -2, LENGTH + 2),
    ],
)
def test_a_count_is_below_a_number_up_to_that_element(compare: str, first: int, end: object):
    function = kernel(f"{READ}\n%0 = arith.cmpi {compare} : i64")
    found = masks(function, np.arange(first, first + 8)).mask(function)
    assert found == ((end,), True)


@pytest.mark.parametrize(
    ("compare", "places"),
    [
        ("sgt, %a, %b", np.arange(8)),  # true from there on
        ("slt, %b, %a", np.arange(8)),
        ("eq, %a, %b", np.arange(8)),
        ("ult, %a, %b", np.arange(8)),  # a negative number is above all others
        ("slt, %a, %b", np.arange(8)[::-1]),
        ("slt, %a, %b", 2 * np.arange(8)),
        ("slt, %a, %b", np.array([0, 1, 2, 3, 4, 5, 6, 8])),
        ("slt, %a, %b", np.arange(8.0)),
        ("slt, %a, %a", np.arange(8)),
    ],
)
def test_nothing_else_says_where_a_mask_ends(compare: str, places: np.ndarray):
    function = kernel(f"{READ}\n%0 = arith.cmpi {compare} : i64")
    assert masks(function, places).mask(function) is None


def test_a_mask_of_two_conditions_is_true_below_one_but_not_wherever_it_is():
    function = kernel(f"""{READ}
        %c = arith.cmpi slt, %a, %b : i64
        %d = arith.cmpi ne, %a, %b : i64
        %0 = arith.andi %c, %d : i1""")
    assert masks(function, np.arange(8)).mask(function) == ((LENGTH,), False)


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        ("%0 = arith.addi %b, %c : i64", LENGTH + 5),
        ("%0 = arith.subi %c, %b : i64", number(5) - LENGTH),
        ("%0 = arith.muli %c, %b : i64", LENGTH * 5),
        ("%0 = arith.muli %b, %b : i64", None),
        ("%0 = arith.divsi %b, %c : i64", None),
    ],
)
def test_numbers_are_sums_and_multiples(compute: str, expected: object):
    read = "%b = affine.load %w[0] : memref<1xi64>\n%c = arith.constant 5 : i64"
    function = kernel(f"{read}\n{compute}", "i64")
    assert masks(function, np.arange(8)).number(function) == expected


@pytest.mark.parametrize(("factor", "fits"), [(2**28, True), (2**30, False)])
def test_a_number_is_narrowed_only_where_it_fits(factor: int, fits: bool):
    function = kernel(
        f"""%b = affine.load %w[0] : memref<1xi64>
        %c = arith.constant {factor} : i64
        %d = arith.muli %b, %c : i64
        %0 = arith.trunci %d : i64 to i32""",
        "i32",
    )
    assert masks(function, np.arange(8)).number(function) == (LENGTH * factor if fits else None)


def test_a_product_that_wraps_around_is_no_number():
    function = kernel(
        f"""%b = affine.load %w[0] : memref<1xi64>
        %d = arith.trunci %b : i64 to i32
        %c = arith.constant {2**30} : i32
        %0 = arith.muli %d, %c : i32""",
        "i32",
    )
    assert masks(function, np.arange(8)).number(function) is None


def test_bounds_of_sums_are_exact_however_many_sizes_there_are():
    bounds = Bounds({"length": (0, 10**6), "batch": (1, 3)})
    other = name("batch")
    assert bounds.interval(LENGTH * 2 - other + 1) == (-2, 2 * 10**6)
    assert bounds.more(LENGTH, number(1)) is None  # either may be more
    assert bounds.more(LENGTH + 1, number(1)) == LENGTH + 1
    assert bounds.interval(name("unknown")) == (None, None)
