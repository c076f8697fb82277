"""Reshape, transpose, concat, slice, pad and expand against onnxruntime, and as C."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.sizes.dimensions import expression_of
from explorer.ir.top.data import ConvertLayoutOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import (
    TO_THE_END,
    SliceOp,
    computed_slice,
    onnx_slice_range,
    slice_range,
)
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reshaping import common_pieces
from explorer.ir.types import PLAIN, Layout, with_layout

BLOCKED = Layout(4, (1, 0, 2, 1), 5.0)
HALO = Layout(0, (1, 2, 0, 1), 9.0)


def vector(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# -- reshape -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((2, 3, 4), (6, 4)),
        ((6, 4), (2, 3, -1)),
        ((4, 6), (8, 3)),
        ((4, 6), (3, 8)),  # no common pieces
        ((1, 1), ()),
        ((), (1, 1, 1)),
    ],
)
def test_reshape(source, target, values, build, check, onnx_outputs):
    x = values(*source)
    op = build(ReshapeOp, [x], shape=target)
    assert op.is_view
    check(op, [x], onnx_outputs("Reshape", [x, vector(*target)]))


@pytest.mark.parametrize("target", [(2, 72), (2, 6, 12), (8, 18), (36, 4), (4, 4, 9), (9, 16)])
@pytest.mark.parametrize("layout", [BLOCKED, HALO])
def test_reshape_reads_only_the_interior(layout, target, values, build, check):
    x = values(2, 6, 3, 4)
    op = build(ReshapeOp, [x], layouts=[layout], shape=target)
    assert not op.is_view
    check(op, [x], [x.reshape(target)])


def test_reshape_into_blocks_clears_the_padding_channels(values, build, check):
    x = values(2, 72)
    op = build(ReshapeOp, [x], result_layout=BLOCKED, shape=(2, 6, 3, 4))
    check(op, [x], [x.reshape(2, 6, 3, 4)])


def test_reshape_by_operand_follows_onnx(values, build, onnx_outputs):
    x, target = values(2, 3, 4), vector(0, -1)
    op = build(ReshapeOp, [x, target])
    (expected,) = onnx_outputs("Reshape", [x, target])
    np.testing.assert_array_equal(op.evaluate(x, target)[0], expected)
    empty = np.zeros((0, 3), np.float32)
    op = build(ReshapeOp, [empty, vector(3, 0)], allow_zero=True)
    assert op.evaluate(empty, vector(3, 0))[0].shape == (3, 0)


def test_reshape_of_symbolic_dimensions(infer):
    assert infer(ReshapeOp, [("batch", 3, 4)], shape=[-1, 12]) == [("batch", 12)]
    assert infer(ReshapeOp, [("batch", 3, 4)], shape=[-1, 6]) == [("2*batch", 6)]
    assert infer(ReshapeOp, [("batch", 3, 4)], shape=[-1, 24]) == [("batch//2", 24)]
    assert infer(ReshapeOp, [("a", "b+1", 4)], shape=[-1, 2]) == [("2*a*b+2*a", 2)]
    assert infer(ReshapeOp, [("?", 4)], shape=[-1, 2]) == [("?", 2)]
    assert infer(ReshapeOp, [("batch", 3), ((3,), "int64")]) == [("?", "?", "?")]


def test_reshape_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="3x4 has not the elements of 5x-1"):
        infer(ReshapeOp, [(3, 4)], shape=[5, -1])
    with pytest.raises(ValueError, match="3x4 has not the elements of 2x7"):
        infer(ReshapeOp, [(3, 4)], shape=[2, 7])
    with pytest.raises(ValueError, match="at most one is -1"):
        infer(ReshapeOp, [(3, 4)], shape=[-1, -1])


def test_common_pieces_are_the_factors_of_both_shapes():
    assert common_pieces((4, 6), (8, 3)) == [4, 2, 3]
    assert common_pieces((2, 3, 4), (24,)) == [2, 3, 4]
    assert common_pieces((4, 6), (3, 8)) is None
    assert common_pieces((1, 1), ()) == []


# -- transpose, concat ---------------------------------------------------------------------------


@pytest.mark.parametrize("permutation", [(1, 0, 2), (2, 1, 0), (0, 1, 2), (2, 0, 1)])
def test_transpose(permutation, values, build, check, onnx_outputs):
    x = values(2, 3, 4)
    op = build(TransposeOp, [x], permutation=permutation)
    check(op, [x], onnx_outputs("Transpose", [x], perm=permutation))


@pytest.mark.parametrize("result", [PLAIN, Layout(4, (1, 1, 0, 0))])
@pytest.mark.parametrize("permutation", [(0, 2, 3, 1), (1, 0, 2, 3), (0, 1, 3, 2)])
def test_transpose_between_layouts(permutation, result, values, build, check):
    x = values(2, 6, 3, 4)
    op = build(TransposeOp, [x], layouts=[BLOCKED], result_layout=result, permutation=permutation)
    check(op, [x], [x.transpose(permutation)])


def test_transpose_that_moves_only_single_elements_is_a_view(values, build):
    x = values(1, 6, 1, 4)
    assert build(TransposeOp, [x], permutation=(1, 0, 3, 2)).is_view
    assert not build(TransposeOp, [x], permutation=(0, 3, 2, 1)).is_view


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat(axis, values, build, check, onnx_outputs):
    shapes = [[2, 3, 4] for _ in range(3)]
    for size, shape in enumerate(shapes):
        shape[axis] = size + 1
    arrays = [values(*shape) for shape in shapes]
    op = build(ConcatOp, [arrays], axis=axis)
    check(op, arrays, onnx_outputs("Concat", arrays, axis=axis))


@pytest.mark.parametrize("axis", [1, 2])
def test_concat_of_blocked_inputs_closes_the_gaps_between_them(axis, values, build, check):
    arrays = [values(1, 6, 3, 4), values(1, 6, 3, 4)]
    op = build(
        ConcatOp,
        [arrays],
        layouts=[BLOCKED, Layout(4)],
        result_layout=Layout(8, (0, 1, 1, 0)),
        axis=axis,
    )
    check(op, arrays, [np.concatenate(arrays, axis)])


def test_concat_and_transpose_of_symbolic_dimensions(infer):
    assert infer(TransposeOp, [("n", 3, "w")], permutation=[2, 0, 1]) == [("w", "n", 3)]
    assert infer(ConcatOp, [[("n", 3), ("n", 4)]], axis=1) == [("n", 7)]
    assert infer(ConcatOp, [[("past", 3), (1, 3)]], axis=0) == [("past+1", 3)]
    assert infer(ConcatOp, [[("a", 3), ("b+2", 3), (4, "k")]], axis=0) == [("a+b+6", 3)]


def test_concat_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="cannot be joined along axis 0: axis 1"):
        infer(ConcatOp, [[(2, 3), (2, 4)]], axis=0)
    with pytest.raises(ValueError, match=r"\[0, 0\] is no order of the axes of \(2, 3\)"):
        infer(TransposeOp, [(2, 3)], permutation=[0, 0])


# -- slice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "stops", "steps"),
    [
        ([0, 2], [3, 7], [1, 1]),
        ([1, 0], [3, 8], [1, 3]),
        ([0, 7], [3, -1], [1, -1]),  # reversed
        ([2, 6], [0, 1], [-1, -2]),
        ([0, -3], [3, TO_THE_END], [1, 1]),
        ([0, -9], [3, -1], [1, -1]),
    ],
)
def test_slice(starts, stops, steps, values, build, check, onnx_outputs):
    x = values(3, 8)
    op = build(SliceOp, [x], starts=starts, stops=stops, steps=steps)
    onnx_stops = [-(2**63) if n == -1 and s < 0 else n for n, s in zip(stops, steps, strict=True)]
    bounds = [vector(*starts), vector(*onnx_stops), vector(0, 1), vector(*steps)]
    check(op, [x], onnx_outputs("Slice", [x, *bounds]))


@pytest.mark.parametrize("channels", [(0, 6, 1), (0, 3, 1), (1, 6, 1), (5, -1, -2)])
def test_slice_between_layouts(channels, values, build, check):
    x = values(2, 6, 5, 4)
    start, stop, step = channels
    op = build(
        SliceOp,
        [x],
        layouts=[BLOCKED],
        result_layout=Layout(4, (1, 1, 0, 0)),
        starts=[0, start, 1, 0],
        stops=[2, stop, 5, 3],
        steps=[1, step, 2, 1],
    )
    expected = x[:, start : None if stop < 0 else stop : step, 1:5:2, 0:3]
    check(op, [x], [expected])


@pytest.mark.parametrize(
    ("starts", "stops", "steps"),
    [
        ([-5], [TO_THE_END], [2]),
        ([6], [-(2**63)], [-1]),
        ([-100], [100], [1]),
        ([-100], [-100], [-1]),
        ([9], [1], [1]),
    ],
)
def test_slice_by_operands_follows_onnx(starts, stops, steps, values, build, onnx_outputs):
    x = values(2, 7)
    bounds = [vector(*starts), vector(*stops), vector(*steps)]
    op = build(SliceOp, [x, *bounds], axes=[1])
    (expected,) = onnx_outputs("Slice", [x, bounds[0], bounds[1], vector(1), bounds[2]])
    np.testing.assert_array_equal(op.evaluate(x, *bounds)[0], expected)


@given(
    size=st.integers(1, 9),
    start=st.integers(-12, 12),
    stop=st.integers(-12, 12),
    step=st.sampled_from([-3, -1, 1, 2]),
)
def test_onnx_bounds_mean_what_they_mean_in_numpy(size, start, stop, step):
    # Backwards, ONNX clamps a start before the first element to it; in NumPy nothing is left.
    numpy_start = max(start, -size) if step < 0 else start
    positions = onnx_slice_range(size, start, stop, step)
    assert list(positions) == list(range(size))[numpy_start:stop:step]


@given(size=st.integers(1, 9), start=st.integers(0, 9), count=st.integers(0, 9))
def test_a_stop_of_minus_one_is_before_the_first_element(size, start, count):
    first = min(start, size - 1)
    assert list(slice_range(size, start, -1, -1)) == list(range(first, -1, -1))
    assert list(slice_range(size, start, -1, 1)) == list(range(size))[start:-1]


def test_slice_of_symbolic_dimensions(infer):
    def sliced(start: int, stop: int, step: int = 1):
        return infer(SliceOp, [("n",)], starts=[start], stops=[stop], steps=[step])[0][0]

    assert sliced(0, TO_THE_END) == "n"
    assert sliced(1, TO_THE_END) == "n-1"
    assert sliced(2, TO_THE_END) == "max(0,n-2)"
    assert sliced(0, -1) == "n-1"
    assert sliced(1, 5) == "min(5,n)-1"
    assert sliced(-3, TO_THE_END) == "min(3,n)"
    assert sliced(-1, TO_THE_END) == 1
    assert sliced(0, TO_THE_END, 2) == "(n+1)//2"
    assert sliced(TO_THE_END, -1, -1) == "n"


@given(
    size=st.integers(1, 9),
    start=st.integers(-12, 12),
    stop=st.one_of(st.integers(-12, 12), st.just(TO_THE_END)),
    step=st.integers(1, 3),
)
def test_a_symbolic_slice_has_the_size_of_every_number(infer, size, start, stop, step):
    """Starts behind the axis included, from which nothing is left."""
    expected = len(range(size)[start:stop:step])
    for found in (
        infer(SliceOp, [("n",)], starts=[start], stops=[stop], steps=[step])[0][0],
        computed_slice("n", start, stop, step),
    ):
        expression = expression_of(found)
        assert expression is not None
        assert expression.value({"n": size}) == expected


def test_a_computed_start_may_lie_behind_the_axis():
    found = expression_of(computed_slice("n", "m", TO_THE_END, 1))
    assert found is not None
    assert found.value({"n": 3, "m": 5}) == 0
    assert found.value({"n": 5, "m": 3}) == 2


def test_slice_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="a step other than 0 for each axis"):
        infer(SliceOp, [(3, 4)], starts=[0], stops=[1], steps=[1])
    with pytest.raises(ValueError, match="a step other than 0 for each axis"):
        infer(SliceOp, [(3,)], starts=[0], stops=[1], steps=[0])


def test_slice_whose_bounds_are_computed_has_no_definition(values, build, compiled):
    x, bounds = values(3), [vector(0), vector(1)]
    op = build(SliceOp, [x, *bounds, None], axes=[0])
    with pytest.raises(NotImplementedError, match="depends on data"):
        compiled.run(op, [x, *bounds])


# -- pad, expand ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.5, float("-inf")])
def test_pad(value, values, build, check, onnx_outputs):
    x = values(2, 3)
    op = build(PadOp, [x], low=[1, 0], high=[0, 2], interior=[0, 0], value=value)
    assert op.keeps_finite == np.isfinite(value)
    check(op, [x], onnx_outputs("Pad", [x, vector(1, 0, 0, 2), np.array(value, np.float32)]))


def test_pad_between_elements(build, check):
    x = np.array([[1, 2, 3]], np.int32)
    op = build(PadOp, [x], low=[0, 1], high=[0, 2], interior=[0, 1], value=9.0)
    check(op, [x], [np.array([[9, 1, 9, 2, 9, 3, 9, 9]], np.int32)])


@pytest.mark.parametrize(
    ("low", "high"),
    [((0, 0, 1, 0), (0, 0, 1, 0)), ((0, 3, 0, 0), (0, 0, 1, 0)), ((0,) * 4, (0, 2, 0, 0))],
)
def test_pad_between_layouts(low, high, values, build, check):
    x = values(1, 6, 3, 4)
    op = build(
        PadOp,
        [x],
        layouts=[BLOCKED],
        result_layout=Layout(4, (1, 1, 0, 0)),
        low=low,
        high=high,
        interior=(0, 0, 0, 1),
        value=2.0,
    )
    check(op, [x])


def test_pad_by_operand_follows_onnx(values, build, onnx_outputs):
    x, amounts = values(2, 3), vector(1, 0, 0, 2)
    op = build(PadOp, [x, amounts], value=0.5)
    (expected,) = onnx_outputs("Pad", [x, amounts, np.array(0.5, np.float32)])
    np.testing.assert_array_equal(op.evaluate(x, amounts)[0], expected)


def test_pad_of_symbolic_dimensions(infer):
    shapes = infer(
        PadOp, [("n", "h", 4)], low=[0, 1, 0], high=[0, 2, 0], interior=[0, 0, 2], value=0.0
    )
    assert shapes == [("n", "h+3", 10)]
    assert infer(PadOp, [("n",)], low=[0], high=[0], interior=[1], value=0.0) == [("2*n-1",)]


def test_pad_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="need a number of 0 or more for each axis"):
        infer(PadOp, [(3, 4)], low=[0, -1], high=[0, 0], interior=[0, 0], value=0.0)


@pytest.mark.parametrize(
    ("source", "target"), [((3, 1), (3, 4)), ((1, 4), (2, 3, 1)), ((), (2, 2)), ((2, 3), (1,))]
)
def test_expand_broadcasts_both_ways(source, target, values, build, check, onnx_outputs):
    x = values(*source)
    op = build(ExpandOp, [x], shape=target)
    check(op, [x], onnx_outputs("Expand", [x, vector(*target)]))


@pytest.mark.parametrize("shape", [(2, 6, 1, 1), (1, 1, 3, 4), (2, 6, 3, 4)])
def test_expand_between_layouts(shape, values, build, check):
    x = values(*shape)
    op = build(
        ExpandOp,
        [x],
        layouts=[BLOCKED if shape[1] > 1 else HALO],
        result_layout=Layout(4, (1, 0, 0, 1)),
        shape=(2, 6, 3, 4),
    )
    check(op, [x], [np.broadcast_to(x, (2, 6, 3, 4))])


def test_expand_by_operand_and_of_symbolic_dimensions(values, build, infer):
    x, target = values(3, 1), vector(2, 1, 4)
    assert build(ExpandOp, [x, target]).evaluate(x, target)[0].shape == (2, 3, 4)
    assert infer(ExpandOp, [("n", 1)], shape=[1, 5]) == [("n", 5)]
    assert infer(ExpandOp, [("n", 1), ((3,), "int64")]) == [("?", "?", "?")]
    with pytest.raises(ValueError, match="do not broadcast"):
        infer(ExpandOp, [(3, 4)], shape=[2])


# -- layout changes ------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [PLAIN, HALO, BLOCKED])
@pytest.mark.parametrize("target", [HALO, BLOCKED, Layout(16)])
def test_convert_layout_copies_the_interior(source, target, values, build, compiled):
    x = values(1, 6, 3, 4)
    relaid = build(ExpandOp, [x], layouts=[source], shape=(1,))
    op = ConvertLayoutOp.make([relaid.input], [with_layout(relaid.input.type, target)])
    np.testing.assert_array_equal(compiled.run(op, [x])[0], x)


def test_what_remains_of_no_elements_is_none(infer):
    assert infer(ReshapeOp, [(0, 8, 8), None], shape=[-1, 64]) == [(0, 64)]
