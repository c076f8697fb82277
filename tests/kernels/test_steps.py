"""Each step against the textbook nest: the same numbers, and a reason where it is illegal."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import NameLoc, f32

from explorer.ir.compute import KernelBuilder
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError, name_of
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import blocked_pack, pack
from explorer.kernels.steps.registers import accumulate, contract, hold, is_held, rfactor
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.vectorize import vectorize

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

# Sums in another order, and contracted multiply-adds: a few units in the last place of sums of
# at most 300 products below 1.
TOLERANCE = 3e-5


def textbook(function) -> LoopNest:
    return LoopNest(lower_to_loops(function))


def matrix_product(rows=4, depth=6, columns=32, **options) -> LoopNest:
    return textbook(samples.matmul(rows, depth, columns, **options))


def loop_names(nest: LoopNest) -> list[str]:
    return [name_of(op) for op in nest.function.walk() if isinstance(op, affine.ForOp)]


def assert_same_numbers(function, nest: LoopNest, packs=None) -> None:
    """Executes the textbook nest and the transformed one on the same values."""
    arrays = samples.random_arguments(function)
    expected = samples.run_nest(lower_to_loops(function), arrays)
    actual = samples.run_nest(nest.function, arrays, packs)
    roles = samples.argument_roles(function)
    outputs = [n for n, r in zip(samples.argument_names(function), roles, strict=True)
               if r == "output"]  # fmt: skip
    for name in outputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=TOLERANCE, atol=TOLERANCE)


def shifted_sum(rows=4, columns=8):
    """y[i + 1, j] = y[i, j + 1] + x[i, j]: each row needs the one before, to the right."""
    k = KernelBuilder("recurrence")
    x = k.argument("x", (rows, columns), f32, "input")
    y = k.argument("y", (rows + 1, columns + 1), f32, "output")
    i, j = k.dimensions(i=rows, j=columns)
    k.generic("main", [(y, (i, j + 1)), (x, (i, j))], (y, (i + 1, j)), lambda s, y, x: y + x)
    return k.finish("plain")


def running_sum(length=16):
    """y[i + 1] = y[i] + x[i]."""
    k = KernelBuilder("running_sum")
    x = k.argument("x", (length,), f32, "input")
    y = k.argument("y", (length + 1,), f32, "output")
    (i,) = k.dimensions(i=length)
    k.generic("main", [(y, (i,)), (x, (i,))], (y, (i + 1,)), lambda s, y, x: y + x)
    return k.finish("plain")


def running_quotient(length=32):
    """y = x / y over d: neither associative nor commutative."""
    k = KernelBuilder("quotient")
    x = k.argument("x", (length,), f32, "input")
    y = k.argument("y", (1,), f32, "output")
    (d,) = k.dimensions(d=length)
    k.generic(
        "main", [(x, (d,))], (y, (0,)), lambda s, x, y: x / y, reductions="d", accumulates=True
    )
    return k.finish("reduce")


# -- lowering ----------------------------------------------------------------------------------


def test_lowering_gives_the_nest_that_a_textbook_would_write():
    nest = matrix_product(2, 3, 4, bias=False)
    text = [line.strip() for line in str(nest.function).splitlines()]
    assert text[7:18] == [
        "affine.for %m = 0 to 2 {",
        "affine.for %n = 0 to 4 {",
        "affine.for %k = 0 to 3 {",
        "%x_1 = affine.load %x[%m, %k] : memref<2x3xf32>",
        "%w_1 = affine.load %w[%k, %n] : memref<3x4xf32>",
        "%y_1 = affine.load %y[%m, %n] : memref<2x4xf32>",
        "%1 = arith.mulf %x_1, %w_1 : f32",
        "%2 = arith.addf %y_1, %1 : f32",
        "affine.store %2, %y[%m, %n] : memref<2x4xf32>",
        '} {loop.name = "k"}',
        '} {loop.name = "n"}',
    ]


def test_the_textbook_nest_computes_a_matrix_product():
    function = samples.matmul(5, 7, 11, residual=True, activation="relu")
    arrays = samples.random_arguments(function)
    result = samples.run_nest(lower_to_loops(function), arrays)["y"]
    product = arrays["x"] @ arrays["w"] + arrays["b"] + arrays["r"]
    np.testing.assert_allclose(result, np.maximum(product, 0), rtol=1e-5, atol=1e-5)


def test_every_operation_carries_the_tag_of_its_statement():
    nest = textbook(samples.convolution(16, 3, 4, 4, halo=1))
    tags = {op.location.desc.data for top in nest.statements() for op in top.walk()
            if isinstance(op.location, NameLoc)}  # fmt: skip
    assert tags == {
        "conv/halo", "conv/halo2", "conv/halo3", "conv/halo4",
        "conv/init", "conv/main", "conv/epilogue",
    }  # fmt: skip


def test_a_missing_loop_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(ScheduleError, match="no loop 'z'; the loops are: init_m, init_n, m, n, k"):
        split(matrix_product(), "z", "zo zi", (2,))


# -- split, cut, reorder, merge ----------------------------------------------------------------


def test_split_nests_loops_and_keeps_the_numbers():
    function = samples.matmul(4, 6, 32)
    nest = textbook(function)
    split(nest, "n", "nt nv ni", (2, 8))
    assert loop_names(nest) == ["init_m", "init_n", "m", "nt", "nv", "ni", "k"]
    assert "%w[%k, %nt * 16 + %nv * 8 + %ni]" in str(nest.function)
    assert_same_numbers(function, nest)


def test_split_by_what_does_not_divide_is_refused_and_says_where_to_cut():
    with pytest.raises(
        ScheduleError, match="5 does not divide the 32 iterations of n; cut n at 30"
    ):
        split(matrix_product(), "n", "nt ni", (5,))


def test_split_of_an_index_that_is_used_as_a_number_is_refused():
    nest = textbook(samples.gather(5, 4, 6))
    with pytest.raises(ScheduleError, match="index i is used as a number by memref"):
        split(nest, "i", "it ip", (2,))


def test_cut_leaves_a_tail_with_its_own_loops():
    function = samples.matmul(4, 6, 35)
    nest = textbook(function)
    cut(nest, "n", 32)
    assert loop_names(nest) == ["init_m", "init_n", "m", "n", "k", "n_tail", "k_tail"]
    assert "%w[%k_tail, %n_tail + 32]" in str(nest.function)
    assert_same_numbers(function, nest)


@pytest.mark.parametrize("at", [0, 35, 40])
def test_cut_outside_of_the_loop_is_refused(at):
    with pytest.raises(ScheduleError, match=f"{at} is not inside the 35 iterations of n"):
        cut(matrix_product(columns=35), "n", at)


def test_reorder_moves_a_reduction_outwards():
    function = samples.matmul(4, 6, 32)
    nest = textbook(function)
    reorder(nest, "k n m")
    assert loop_names(nest) == ["init_m", "init_n", "k", "n", "m"]
    assert_same_numbers(function, nest)


def test_reorder_of_a_recurrence_is_refused():
    nest = textbook(shifted_sum())
    with pytest.raises(ScheduleError, match="dependent iterations that update y"):
        reorder(nest, "j i")


def test_reorder_of_a_reduction_that_is_not_associative_is_refused():
    nest = textbook(running_quotient())
    split(nest, "d", "dt di", (4,))
    with pytest.raises(ScheduleError, match="dependent iterations that update y"):
        reorder(nest, "di dt")


def test_reorder_of_loops_that_are_not_nested_is_refused():
    with pytest.raises(ScheduleError, match="not nested perfectly"):
        reorder(matrix_product(), "init_m k")


def test_merge_joins_rows_and_keeps_the_numbers():
    function = samples.softmax(6, 10)
    nest = textbook(function)
    merge(nest, "m plain2_m plain3_m plain4_m plain5_m plain6_m")
    assert [name_of(top) for top in nest.statements()] == ["m"]
    assert_same_numbers(function, nest)


def test_merge_with_a_consumer_of_other_iterations_is_refused():
    k = KernelBuilder("blur")
    x = k.argument("x", (8,), f32, "input")
    t = k.argument("t", (9,), f32, "scratch")
    y = k.argument("y", (8,), f32, "output")
    (i,) = k.dimensions(i=8)
    k.generic("plain", [(x, (i,))], (t, (i,)), lambda s, x: x * 2.0)
    (i,) = k.dimensions(i=8)
    k.generic("plain", [(t, (i,)), (t, (i + 1,))], (y, (i,)), lambda s, a, b: a + b)
    nest = textbook(k.finish("plain"))
    with pytest.raises(ScheduleError, match="plain2_i needs elements of t that other iterations"):
        merge(nest, "i plain2_i")


# -- accumulate, rfactor, contract -------------------------------------------------------------


def test_accumulate_keeps_a_tile_in_a_register_array():
    function = samples.matmul(4, 6, 32)
    nest = textbook(function)
    split(nest, "n", "nt ni", (16,))
    reorder(nest, "nt k m ni")
    accumulate(nest, "k", "y")
    (array,) = [op for op in nest.function.walk() if isinstance(op, memref.AllocaOp)]
    assert array.memref.type.get_shape() == (4, 16)
    assert_same_numbers(function, nest)


def test_accumulate_at_a_loop_that_is_not_reduced_is_refused():
    nest = matrix_product()
    with pytest.raises(ScheduleError, match="every iteration of n updates other elements of y"):
        accumulate(nest, "n", "y")


def test_hold_reads_once_what_an_iteration_uses_several_times():
    function = samples.matmul(4, 6, 32)
    nest = textbook(function)
    split(nest, "n", "nt nv ni", (2, 8))
    reorder(nest, "nt k m nv ni")
    accumulate(nest, "k", "y")
    hold(nest, "k", "w")
    (array,) = [op for op in nest.function.walk() if getattr(op, "memref", None) is not None
                and isinstance(op, memref.AllocaOp) and is_held(op.memref)]  # fmt: skip
    assert array.memref.type.get_shape() == (2, 8)
    assert len(nest.accesses("w")) == 1
    vectorize(nest, "ni")
    (vectors,) = [op for op in nest.function.walk() if isinstance(op, memref.AllocaOp)
                  and is_held(op.memref)]  # fmt: skip
    assert vectors.memref.type.get_shape() == (2,), "an array of vectors"
    assert_same_numbers(function, nest)


def test_hold_of_what_is_written_or_of_one_element_is_refused():
    nest = matrix_product()
    with pytest.raises(ScheduleError, match="k does not just read y at one place"):
        hold(nest, "k", "y")
    with pytest.raises(ScheduleError, match="an iteration of k reads one element of x"):
        hold(nest, "k", "x")


def test_rfactor_gives_each_lane_its_own_sum():
    function = samples.global_mean(3, 8, 32)
    nest = textbook(function)
    split(nest, "j", "jt ji", (16,))
    rfactor(nest, "jt", "ji", "y")
    vectorize(nest, "ji")
    vectorize(nest, "ji_sum")
    assert "vector.reduction" in str(nest.function)
    assert_same_numbers(function, nest)


def test_rfactor_of_what_is_not_associative_is_refused():
    nest = textbook(running_quotient())
    split(nest, "d", "dt di", (4,))
    with pytest.raises(ScheduleError, match="the update of y is not an associative reduction"):
        rfactor(nest, "dt", "di", "y")


def test_contract_makes_scratch_local_to_a_row():
    function = samples.softmax(6, 10)
    nest = textbook(function)
    merge(nest, "m plain2_m plain3_m plain4_m plain5_m plain6_m")
    contract(nest, "t")
    contract(nest, "u")
    assert not nest.accesses("t")
    assert not nest.accesses("u")
    assert_same_numbers(function, nest)


def test_contract_before_merging_is_refused():
    with pytest.raises(ScheduleError, match="3 loop nests use t; merge them first"):
        contract(textbook(samples.softmax(6, 10)), "t")


def test_contract_of_a_result_is_refused():
    with pytest.raises(ScheduleError, match="y is not a scratch buffer"):
        contract(textbook(samples.softmax(6, 10)), "y")


# -- fuse --------------------------------------------------------------------------------------


def test_fuse_takes_bias_and_activation_into_the_tile():
    function = samples.matmul(4, 6, 32, residual=True, activation="relu6")
    nest = textbook(function)
    accumulate(nest, "k", "y")
    fuse_producer(nest, "init", "y")
    fuse_consumer(nest, "epilogue", "y")
    assert nest.stages() == ["main"]
    assert_same_numbers(function, nest)


def test_fuse_beside_a_halo_keeps_the_border():
    function = samples.convolution(4, 3, 5, 5, halo=1)
    nest = textbook(function)
    accumulate(nest, "c", "y")
    fuse_producer(nest, "init", "y")
    fuse_consumer(nest, "epilogue", "y")
    assert nest.stages() == ["halo", "halo2", "halo3", "halo4", "main"]
    assert_same_numbers(function, nest)


@pytest.mark.parametrize(
    ("step", "statement"), [(fuse_producer, "init"), (fuse_consumer, "epilogue")]
)
def test_fuse_before_the_sum_stays_in_registers_is_refused(step, statement):
    nest = matrix_product(activation="relu")
    with pytest.raises(ScheduleError, match="loop k touches the same elements of y repeatedly"):
        step(nest, statement, "y")


def test_fuse_of_an_epilogue_that_is_not_pointwise_is_refused():
    k = KernelBuilder("shares")
    x = k.argument("x", (4, 8), f32, "input")
    y = k.argument("y", (4, 8), f32, "output")
    z = k.argument("z", (4, 8), f32, "output")
    i, j = k.dimensions(i=4, j=8)
    k.generic("main", [(x, (i, j))], (y, (i, j)), lambda s, x: x * x)
    i, j = k.dimensions(i=4, j=8)
    k.generic("epilogue", [(y, (i, 0))], (z, (i, j)), lambda s, y: y * 2.0)
    nest = textbook(k.finish("plain"))
    with pytest.raises(ScheduleError, match="epilogue is not pointwise: a loop does not index y"):
        fuse_consumer(nest, "epilogue", "y")


def test_fuse_of_a_part_only_is_refused():
    k = KernelBuilder("part")
    x = k.argument("x", (8,), f32, "input")
    y = k.argument("y", (8,), f32, "output")
    (i,) = k.dimensions(i=8)
    k.generic("init", [], (y, (i,)), lambda s: s.constant(1.0))
    (i,) = k.dimensions(i=6)
    k.generic("main", [(x, (i,))], (y, (i,)), lambda s, x, y: y + x, accumulates=True)
    nest = textbook(k.finish("plain"))
    with pytest.raises(ScheduleError, match="init has 8 points, and y is used at 6"):
        fuse_producer(nest, "init", "y")


def test_fuse_into_a_loop_that_reads_what_it_wrote_is_refused():
    k = KernelBuilder("running_sum")
    y = k.argument("y", (9,), f32, "output")
    (i,) = k.dimensions(i=8)
    k.generic("init", [], (y, (i,)), lambda s: s.constant(1.0))
    (i,) = k.dimensions(i=8)
    k.generic("main", [(y, (i,))], (y, (i + 1,)), lambda s, y: y * 2.0)
    nest = textbook(k.finish("plain"))
    with pytest.raises(ScheduleError, match="y is written before it is read"):
        fuse_producer(nest, "init", "y")


# -- pack --------------------------------------------------------------------------------------


def test_pack_blocks_channels_and_keeps_the_shift_of_a_halo():
    function = samples.convolution(32, 16, 4, 5, halo=1, shift=1)
    nest = textbook(function)
    for name in ("c", "init_o", "o", "epilogue_o", "halo_o", "halo2_o", "halo3_o", "halo4_o"):
        split(nest, name, f"{name}t {name}i", (16,))
    layouts = {name: blocked_pack(16) for name in "xy"}
    for name, layout in layouts.items():
        pack(nest, name, layout)
    assert "%x[%n, %ct, %i + %p + 1, %j + %q + 1, %ci]" in str(nest.function)
    assert nest.buffer("y").type.get_shape() == (1, 2, 6, 7, 16)
    assert_same_numbers(function, nest, layouts)


def test_pack_of_a_loop_that_is_not_split_is_refused():
    nest = textbook(samples.convolution(32, 16, 4, 5))
    with pytest.raises(ScheduleError, match="y: dimension 1 is not aligned to 16; split its loop"):
        pack(nest, "y", blocked_pack(16))


# -- vectorize, unroll, parallel ---------------------------------------------------------------


def test_vectorize_broadcasts_what_the_loop_does_not_index():
    function = samples.matmul(4, 6, 32, activation="leaky")
    nest = textbook(function)
    for prefix in ("", "init_", "epilogue_"):
        split(nest, f"{prefix}n", f"{prefix}nt {prefix}ni", (16,))
    reorder(nest, "m nt k ni")
    for prefix in ("", "init_", "epilogue_"):
        vectorize(nest, f"{prefix}ni")
    text = str(nest.function)
    assert "vector.broadcast %x_1 : f32 to vector<16xf32>" in text
    assert "loop.select" in text
    assert_same_numbers(function, nest)


def test_vectorize_of_a_strided_access_is_refused():
    with pytest.raises(ScheduleError, match="k is not contiguous in w; pack it or choose another"):
        vectorize(matrix_product(), "k")


def test_vectorize_of_a_loop_around_another_is_refused():
    with pytest.raises(ScheduleError, match="n is not innermost: it holds k"):
        vectorize(matrix_product(), "n")


def test_vectorize_of_the_only_loop_is_refused():
    with pytest.raises(ScheduleError, match="i is the outermost loop; split it first"):
        vectorize(textbook(samples.elementwise((16,))), "i")


def test_vectorize_of_a_recurrence_is_refused():
    nest = textbook(running_sum())
    split(nest, "i", "it ii", (8,))
    with pytest.raises(ScheduleError, match="iterations of ii depend on one another through y"):
        vectorize(nest, "ii")


def test_parallel_marks_independent_leading_loops():
    nest = matrix_product(bias=False)
    parallel(nest, "m n")
    assert str(nest.function).count('loop.kind = "parallel"') == 2


def test_parallel_of_a_reduction_is_refused():
    nest = matrix_product()
    reorder(nest, "k m n")
    with pytest.raises(ScheduleError, match="iterations of k touch the same elements of y"):
        parallel(nest, "k")


def test_parallel_of_a_recurrence_is_refused():
    with pytest.raises(ScheduleError, match="iterations of i touch the same elements of y"):
        parallel(textbook(running_sum()), "i")


def test_parallel_of_an_inner_loop_is_refused():
    with pytest.raises(ScheduleError, match="n does not lead its loop nest"):
        parallel(matrix_product(), "n")


def test_unroll_of_a_long_loop_is_refused():
    nest = matrix_product(columns=600)
    with pytest.raises(ScheduleError, match="n has 600 iterations, at most 512"):
        unroll(nest, "n")


def test_settled_sums_leave_their_registers_before_they_are_used():
    """Sums that a function is applied to are handed over; the numbers are the same."""
    function = samples.matmul(7, 8, 32, activation="exponential")
    machine = Machine(vector_floats=8, language="c")
    scheduled = schedule_kernel(function, machine, {})
    (call,) = [step for step in scheduled.steps if step.name == "settle"]
    arrays = samples.random_arguments(function)
    before, after = scheduled.steps[scheduled.steps.index(call) - 1 :][:2]
    outputs = [samples.run_nest(step.function, dict(arrays))["y"] for step in (before, after)]
    np.testing.assert_array_equal(*outputs)
    assert "settled" in str(after.function)
    assert "settled" not in str(before.function)
    plain = schedule_kernel(samples.matmul(7, 8, 32, activation="relu"), machine, {})
    assert "settle" not in [step.name for step in plain.steps]
