"""Reductions, extrema positions, running sums and the k best, against onnxruntime and as C."""

import numpy as np
import pytest

from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.reduction import REDUCTIONS, ReduceOp, TopKOp
from explorer.ir.types import ELEMENT_TYPES, Layout, numpy_dtype

ONNX_NAMES = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "l1": "ReduceL1",
    "l2": "ReduceL2",
    "sum_square": "ReduceSumSquare",
    "log_sum": "ReduceLogSum",
    "log_sum_exp": "ReduceLogSumExp",
}
# Products and sums of up to 60 float32 numbers in another order.
TOLERANCE = 1e-5


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_every_kind_over_two_axes(kind, keepdims, values, build, check, onnx_outputs):
    x = values(2, 3, 4, 5, low=0.5 if kind == "log_sum" else -3)
    axes = np.array([1, 3], np.int64)
    op = build(ReduceOp, [x], kind=kind, axes=[1, 3], keepdims=keepdims)
    expected = onnx_outputs(ONNX_NAMES[kind], [x, axes], keepdims=int(keepdims))
    check(op, [x], expected, TOLERANCE)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("kind", ["mean", "log_sum_exp"])
def test_reduction_of_all_axes_gives_one_element(
    kind, keepdims, values, build, check, onnx_outputs
):
    x = values(3, 4)
    op = build(ReduceOp, [x], kind=kind, axes=[0, 1], keepdims=keepdims)
    check(op, [x], onnx_outputs(ONNX_NAMES[kind], [x], keepdims=int(keepdims)), TOLERANCE)


@pytest.mark.parametrize("kind", ["l2", "log_sum_exp"])
def test_reduction_of_no_axis_takes_every_element_by_itself(kind, values, build, check):
    x = values(3, 4)
    op = build(ReduceOp, [x], kind=kind, axes=[], keepdims=True)
    check(op, [x], [np.abs(x) if kind == "l2" else x])


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod", "l1"])
def test_reduction_of_integers_stays_exact(kind, values, build, check, onnx_outputs):
    x = values(3, 7, dtype="int32", low=-9, high=9)
    op = build(ReduceOp, [x], kind=kind, axes=[1], keepdims=True)
    check(op, [x], onnx_outputs(ONNX_NAMES[kind], [x, np.array([1])]))


def test_log_sum_exp_neither_overflows_nor_loses_infinities(build, check):
    infinity = np.inf
    x = np.array([[1000, 999], [-infinity, -infinity], [infinity, 0]], np.float32)
    expected = np.array([1000.3133, -infinity, infinity], np.float32)
    op = build(ReduceOp, [x], kind="log_sum_exp", axes=[1], keepdims=False)
    check(op, [x], [expected])


@pytest.mark.parametrize("axes", [[2, 3], [1], [1, 2, 3], [0]])
@pytest.mark.parametrize("kind", ["mean", "max", "log_sum_exp"])
def test_reduction_of_blocked_channels_never_sees_the_padding_channels(
    kind, axes, values, build, check
):
    x = values(2, 6, 3, 4)
    op = build(
        ReduceOp,
        [x],
        layouts=[Layout(4, (1, 0, 2, 1), 5.0)],
        result_layout=Layout(4, (0, 1, 0, 0)),
        kind=kind,
        axes=axes,
        keepdims=True,
    )
    check(op, [x], tolerance=TOLERANCE)


def test_reduction_from_blocked_to_plain_drops_the_padding_channels(values, build, check):
    x = values(2, 6, 3, 4)
    op = build(ReduceOp, [x], layouts=[Layout(4)], kind="mean", axes=[2, 3], keepdims=False)
    check(op, [x], [x.mean(axis=(2, 3))], TOLERANCE)


def test_reduction_keeps_symbolic_dimensions(infer):
    shape = ("batch", 16, 7, "width")
    assert infer(ReduceOp, [shape], kind="sum", axes=[2, 3], keepdims=True) == [("batch", 16, 1, 1)]
    assert infer(ReduceOp, [shape], kind="sum", axes=[1, 2], keepdims=False) == [("batch", "width")]


def test_reduction_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match=r"axes \[2\] of \(3, 4\): 0 to 1 expected"):
        infer(ReduceOp, [(3, 4)], kind="sum", axes=[2], keepdims=True)
    with pytest.raises(ValueError, match="unknown kind 'median'; known: sum, mean"):
        infer(ReduceOp, [(3, 4)], kind="median", axes=[1], keepdims=True)


@pytest.mark.parametrize("select_last", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("kind", "axis"), [("max", 1), ("min", 0), ("max", 2)])
def test_arg_breaks_ties_as_told(
    kind, axis, keepdims, select_last, values, build, check, onnx_outputs
):
    x = values(3, 4, 5, low=-1.4, high=1.4).round()  # many ties: -1, 0 and 1
    op = build(ArgOp, [x], kind=kind, axis=axis, keepdims=keepdims, select_last=select_last)
    expected = onnx_outputs(
        "ArgMax" if kind == "max" else "ArgMin",
        [x],
        axis=axis,
        keepdims=int(keepdims),
        select_last_index=int(select_last),
    )
    check(op, [x], expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("select_last", [False, True])
@pytest.mark.parametrize(("kind", "axis"), [("max", 1), ("min", 1), ("max", 2), ("min", 0)])
def test_arg_of_narrow_integers_breaks_ties_as_told(kind, axis, select_last, dtype, build, check):
    limits = np.iinfo(dtype)
    few = [limits.min, limits.min + 1, limits.max - 1, limits.max]
    x = np.random.default_rng(axis).choice(few, (3, 21, 17)).astype(dtype)
    op = build(ArgOp, [x], kind=kind, axis=axis, keepdims=False, select_last=select_last)
    find = np.argmax if kind == "max" else np.argmin
    expected = find(np.flip(x, axis) if select_last else x, axis)
    check(op, [x], [x.shape[axis] - 1 - expected if select_last else expected])


def test_arg_of_narrow_integers_on_an_axis_too_long_for_32_bits(build, check):
    x = np.zeros((1 << 16, 2), np.int16)
    x[40_000:, 1] = 5
    op = build(ArgOp, [x], kind="max", axis=0, keepdims=False, select_last=False)
    check(op, [x], [np.array([0, 40_000])])


def test_arg_of_a_vector_is_a_scalar(build, check):
    x = np.array([3, 9, 4], np.int32)
    op = build(ArgOp, [x], kind="max", axis=0, keepdims=False, select_last=False)
    check(op, [x], [np.array(1, np.int64)])


def test_arg_over_blocked_channels(values, build, check):
    x = values(1, 6, 3, 2)
    op = build(
        ArgOp,
        [x],
        layouts=[Layout(4, (1, 1, 0, 0))],
        kind="max",
        axis=1,
        keepdims=True,
        select_last=False,
    )
    check(op, [x])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 4), 1), ((3, 4, 2), 0)])
def test_cumulative_sum(shape, axis, reverse, exclusive, values, build, check, onnx_outputs):
    x = values(*shape)
    op = build(CumulativeOp, [x], kind="sum", axis=axis, exclusive=exclusive, reverse=reverse)
    expected = onnx_outputs(
        "CumSum", [x, np.array(axis)], exclusive=int(exclusive), reverse=int(reverse)
    )
    check(op, [x], expected)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_cumulative_product(reverse, exclusive, dtype, values, build, check):
    x = values(3, 4, dtype=dtype)
    op = build(CumulativeOp, [x], kind="prod", axis=1, exclusive=exclusive, reverse=reverse)
    ordered = x[:, ::-1] if reverse else x
    expected = np.cumprod(ordered, axis=1, dtype=dtype)
    if exclusive:
        expected = np.concatenate([np.ones((3, 1), dtype), expected[:, :-1]], axis=1)
    check(op, [x], [expected[:, ::-1] if reverse else expected])


def test_cumulative_sum_inside_halos(values, build, check):
    x = values(1, 6, 3, 4)
    layout = Layout(4, (1, 1, 1, 1))
    op = build(
        CumulativeOp,
        [x],
        layouts=[layout],
        result_layout=layout,
        kind="sum",
        axis=1,
        exclusive=False,
        reverse=False,
    )
    check(op, [x], [np.cumsum(x, axis=1)])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "axis", "count"), [((9,), 0, 4), ((3, 6), 0, 3), ((2, 8), 1, 8)])
def test_top_k_is_ordered_and_takes_the_first_of_equals(
    shape, axis, count, largest, values, build, check, onnx_outputs
):
    x = values(*shape, low=-2.4, high=2.4).round()
    op = build(TopKOp, [x], k=count, axis=axis, largest=largest)
    expected = onnx_outputs(
        "TopK", [x, np.array([count])], outputs=2, axis=axis, largest=int(largest), sorted=1
    )
    check(op, [x], expected)


def test_top_k_of_integers_at_the_end_of_their_range(build, check):
    x = np.array([-(2**31), 2**31 - 1, 0, -(2**31)], np.int32)
    op = build(TopKOp, [x], k=2, axis=0, largest=False)
    check(op, [x], [np.array([-(2**31), -(2**31)], np.int32), np.array([0, 3])])


def test_top_k_of_more_than_there_are_is_refused(infer):
    with pytest.raises(ValueError, match="the best 5 of 4 elements: 0 to 4 expected"):
        infer(TopKOp, [(3, 4)], k=5, axis=1, largest=True)
    assert infer(TopKOp, [("batch", 10)], k=5, axis=1, largest=True) == [("batch", 5)] * 2


@pytest.mark.parametrize(("kind", "expected"), [("max", -np.inf), ("min", np.inf), ("prod", 1)])
def test_a_reduction_of_nothing_is_its_neutral_number(kind, expected, build, check):
    x = np.zeros((2, 0, 3), np.float32)
    op = build(ReduceOp, [x], kind=kind, axes=[1], keepdims=False)
    check(op, [x], [np.full((2, 3), expected, np.float32)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_summed_in_single_precision(dtype, build, compiled):
    """4096 + 1 is 4096 in both: summed in them, the ones would be lost one by one."""
    kind = numpy_dtype(ELEMENT_TYPES[dtype])
    x = np.ones((2, 4097), kind)
    x[:, 0] = 4096
    op = build(ReduceOp, [x], kind="sum", axes=[1], keepdims=False)
    expected = np.full(2, 8192, kind)
    np.testing.assert_array_equal(op.evaluate(x)[0], expected)
    np.testing.assert_array_equal(compiled.run(op, [x])[0], expected)


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_the_meaning_of_a_sum_keeps_the_digits_of_what_nearly_cancels(kind, build):
    """Large numbers that cancel and a small one: a float32 sum would have nothing of it left."""
    large = np.array([3e7, 1 / 3, -3e7] * 64, np.float32)
    op = build(ReduceOp, [large], kind=kind, axes=[0], keepdims=False)
    exact = np.sum(large.astype(np.float64)) / (1 if kind == "sum" else large.size)
    (result,) = op.evaluate(large)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=1e-7)
