"""Steps distribute and localize: the nest that comes out, and reasons where they are illegal."""

import pytest
from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import FloatAttr, f32

from explorer.ir.compute import KernelBuilder
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError, name_of, shape_of
from explorer.kernels.steps.distribute import distribute, localize
from explorer.kernels.steps.restructure import merge, split


def rows_of_sums(last_row: int = 0) -> LoopNest:
    """for i: for j: s[i, j] = 2 x[i, j];  for i: for j: y[i, j] = s[i, j or last_row]."""
    k = KernelBuilder("rows")
    x = k.argument("x", (8, 4), f32, "input")
    s = k.argument("s", (8, 4), f32, "scratch")
    y = k.argument("y", (8, 4), f32, "output")
    i, j = k.dimensions(i=8, j=4)
    k.generic("main", [(x, (i, j))], (s, (i, j)), lambda b, x: x * 2)
    i, j = k.dimensions(i=8, j=4)
    row = last_row or i
    k.generic("plain", [(s, (row, j))], (y, (i, j)), lambda b, s: s + 1)
    return LoopNest(lower_to_loops(k.finish("plain")))


def tiled() -> LoopNest:
    nest = rows_of_sums()
    merge(nest, "i plain_i")
    split(nest, "i", into="it ip", factors=(4,))
    return nest


def names(nest: LoopNest) -> list[str]:
    return [name_of(op) for op in nest.function.walk() if isinstance(op, affine.ForOp)]


def test_distribute_gives_every_part_a_loop_of_its_own():
    nest = tiled()
    distribute(nest, "ip", before="plain_j", into="first second")
    assert names(nest) == ["it", "first", "j", "second", "plain_j"]


def test_distribute_refuses_values_that_cross_a_cut():
    nest = tiled()
    constant = arith.ConstantOp(FloatAttr(3.0, f32))
    first = nest.loop("ip").body.block.first_op
    assert first is not None
    nest.loop("ip").body.block.insert_op_before(constant, first)
    (added,) = [op for op in nest.loop("plain_j").walk() if isinstance(op, arith.AddfOp)]
    added.operands[1] = constant.result
    with pytest.raises(ScheduleError, match="a value of ip is used in another part"):
        distribute(nest, "ip", before="plain_j", into="first second")


def test_distribute_refuses_cuts_that_are_not_there():
    with pytest.raises(ScheduleError, match="k do not divide the body of ip"):
        distribute(tiled(), "ip", before="k", into="first second")
    with pytest.raises(ScheduleError, match="1 cuts make 2 loops"):
        distribute(tiled(), "ip", before="j", into="first")


def test_distribute_refuses_a_loop_that_carries_a_dependence():
    k = KernelBuilder("carried")
    x = k.argument("x", (8, 4), f32, "input")
    s = k.argument("s", (4,), f32, "scratch")
    y = k.argument("y", (8, 4), f32, "output")
    i, j = k.dimensions(i=8, j=4)
    k.generic("main", [(x, (i, j))], (s, (j,)), lambda b, x: x)
    i, j = k.dimensions(i=8, j=4)
    k.generic("plain", [(s, (j,))], (y, (i, j)), lambda b, s: s)
    nest = LoopNest(lower_to_loops(k.finish("plain")))
    with pytest.raises(ScheduleError, match="touch the same elements of s"):
        distribute(nest, "i", before="", into="only")


def test_localize_keeps_what_one_iteration_needs():
    nest = tiled()
    distribute(nest, "ip", before="plain_j", into="first second")
    localize(nest, "s", at="it")
    (array,) = [op for op in nest.function.walk() if isinstance(op, memref.AllocaOp)]
    assert shape_of(array.memref) == (4, 4)
    assert not nest.accesses("s")


def test_localize_leaves_out_what_is_the_same_in_an_iteration():
    nest = rows_of_sums()
    merge(nest, "i plain_i")
    localize(nest, "s", at="i")
    (array,) = [op for op in nest.function.walk() if isinstance(op, memref.AllocaOp)]
    assert shape_of(array.memref) == (4,)


def test_localize_refuses_arguments_and_accesses_elsewhere():
    nest = rows_of_sums()
    with pytest.raises(ScheduleError, match="y is output, not scratch"):
        localize(nest, "y", at="i")
    with pytest.raises(ScheduleError, match="s is used outside of i"):
        localize(nest, "s", at="i")


def test_localize_refuses_iterations_that_exchange_elements():
    nest = rows_of_sums(last_row=7)
    with pytest.raises(ScheduleError, match="exchange elements of s"):
        localize(nest, "s", at="i plain_i")
