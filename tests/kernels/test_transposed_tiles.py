"""Tiles of copies that are turned in registers: what they move, and what is no such tile."""

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from explorer.ir.compute import KernelBuilder
from explorer.ir.loop_dialect import InterleaveHighOp, InterleaveLowOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.restructure import reorder
from explorer.kernels.steps.transpose import transpose


def turned(rows: int, columns: int, element: Attribute = f32, adds: bool = False) -> func.FuncOp:
    """y[n, c, r] = x[n, r, c]"""
    k = KernelBuilder("turn")
    x = k.argument("x", (2, rows, columns), element, "input")
    y = k.argument("y", (2, columns, rows), element, "output")
    d = k.dimensions(n=2, r=rows, c=columns)

    def body(s, value):
        return value + value if adds else value

    k.generic("plain", [(x, (d[0], d[1], d[2]))], (y, (d[0], d[2], d[1])), body)
    return k.finish("copy", {})


def relayout(channels: int, height: int, width: int) -> func.FuncOp:
    """A copy of equal logical tensors, of which one argument will be packed."""
    k = KernelBuilder("relayout")
    shape = (1, channels, height, width)
    x = k.argument("x", shape, f32, "input")
    y = k.argument("y", shape, f32, "output")
    d = k.dimensions(n=1, o=channels, i=height, j=width)
    k.generic("plain", [(x, tuple(d))], (y, tuple(d)), lambda s, value: value)
    return k.finish("copy", {})


def shuffles(function: func.FuncOp) -> Counter[str]:
    kinds = (InterleaveLowOp, InterleaveHighOp)
    return Counter(op.name for op in function.walk() if isinstance(op, kinds))


def assert_turns(run, function: func.FuncOp, side: int) -> None:
    x = np.arange(2 * side * side, dtype=np.float32).reshape(2, side, side)
    found = run(function, {"x": x, "y": np.zeros_like(x)})["y"]
    np.testing.assert_array_equal(found, np.swapaxes(x, 1, 2))


@pytest.mark.parametrize("side", [4, 8, 16])
@pytest.mark.parametrize("order", ["r c", "c r"])
def test_a_tile_is_turned_by_rounds_of_interleaving(run_c, side, order):
    nest = LoopNest(lower_to_loops(turned(side, side)))
    outer, inner = order.split()
    if outer == "c":
        reorder(nest, order="c r")
    transpose(nest, rows=outer, columns=inner)
    rounds = side.bit_length() - 1
    half = side * rounds // 2
    assert shuffles(nest.function) == {"loop.interleave_low": half, "loop.interleave_high": half}
    assert_turns(run_c, nest.function, side)


@pytest.mark.parametrize("side", [4, 8, 16])
def test_opencl_turns_tiles_alike(run_opencl, side):
    nest = LoopNest(lower_to_loops(turned(side, side)))
    transpose(nest, rows="r", columns="c")
    assert_turns(run_opencl, nest.function, side)


@pytest.mark.parametrize(
    ("function", "rows", "columns", "reason"),
    [
        (turned(8, 4), "r", "c", "a tile of 8 x 4 elements; it has 4, 8 or 16 rows and columns"),
        (turned(6, 6), "r", "c", "a tile of 6 x 6 elements"),
        (turned(8, 8, i32), "r", "c", "i32 is not transposed in registers"),
        (turned(8, 8, adds=True), "r", "c", "c does more than to copy a number"),
        (turned(8, 8), "c", "r", "c does not hold r and nothing else"),
    ],
)
def test_what_is_no_square_copy_of_floats_is_refused(function, rows, columns, reason):
    with pytest.raises(ScheduleError, match=reason):
        transpose(LoopNest(lower_to_loops(function)), rows=rows, columns=columns)


@pytest.mark.parametrize(
    ("batch", "reason"), [(2, "rows are read and written alike"), (0, "r is the outermost loop")]
)
def test_rows_that_stay_rows_and_outermost_loops_are_refused(batch, reason):
    k = KernelBuilder("same")
    shape = (batch, 8, 8) if batch else (8, 8)
    x = k.argument("x", shape, f32, "input")
    y = k.argument("y", shape, f32, "output")
    d = tuple(k.dimensions(n=batch, r=8, c=8) if batch else k.dimensions(r=8, c=8))
    k.generic("plain", [(x, d)], (y, d), lambda s, value: value)
    nest = LoopNest(lower_to_loops(k.finish("copy", {})))
    with pytest.raises(ScheduleError, match=reason):
        transpose(nest, rows="r", columns="c")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("to_blocks", [True, False])
@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize(("height", "width"), [(3, 8), (2, 13), (5, 6), (4, 3)])
def test_copies_between_rows_and_blocks_are_tiled_to_their_edges(
    run_c, to_blocks, block, height, width
):
    function = relayout(2 * block, height, width)
    packs = {"y" if to_blocks else "x": tuple(blocked_pack(block))}
    scheduled = schedule_kernel(function, Machine(vector_floats=16, language="c"), packs)
    count = sum(shuffles(scheduled.function).values())
    assert (count > 0) == (width >= 4)
    plain = np.random.default_rng(0).normal(size=(1, 2 * block, height, width))
    plain = plain.astype(np.float32)
    packed = np.moveaxis(plain.reshape(1, 2, block, height, width), 2, -1)
    given, expected = (plain, packed) if to_blocks else (packed, plain)
    arrays = {"x": np.ascontiguousarray(given), "y": np.zeros(expected.shape, np.float32)}
    np.testing.assert_array_equal(run_c(scheduled.function, arrays)["y"], expected)
