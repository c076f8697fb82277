"""Softmax and the normalizations against onnxruntime, and as C."""

import numpy as np
import pytest

from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    SoftmaxOp,
)
from explorer.ir.types import Layout

# Sums of up to 100 float32 numbers in another order, then a square root and a division.
TOLERANCE = 1e-5
BLOCKED = Layout(4, (1, 0, 2, 1), 5.0)


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 7), 1), ((2, 3, 4), 1), ((2, 3), 0)])
def test_softmax(shape, axis, logarithm, values, build, check, onnx_outputs):
    x = values(*shape, low=-20, high=20)
    op = build(SoftmaxOp, [x], axis=axis, logarithm=logarithm)
    expected = onnx_outputs("LogSoftmax" if logarithm else "Softmax", [x], axis=axis)
    check(op, [x], expected, TOLERANCE)


def test_softmax_of_large_numbers_does_not_overflow(build, check):
    x = np.array([[1e30, 1e30, -1e30]], np.float32)
    op = build(SoftmaxOp, [x], axis=1, logarithm=False)
    check(op, [x], [np.array([[0.5, 0.5, 0]], np.float32)])


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_a_row_of_minus_infinity_is_nan_or_0_as_it_says(axis, values, build, check):
    x = values(4, 5)
    x[1, :], x[2, :3], x[:, 2] = -np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis, keepdims=True))
        plain = powers / powers.sum(axis, keepdims=True)
    assert np.isnan(plain).any()
    check(build(SoftmaxOp, [x], axis=axis, logarithm=False), [x], [plain], 1e-6)
    op = build(SoftmaxOp, [x], axis=axis, logarithm=False, zero_masked=True)
    check(op, [x], [np.nan_to_num(plain)], 1e-6)
    for number in (np.nan, np.inf):  # neither is masked
        x[1, 0] = x[3, 2] = number
        (found,) = build(SoftmaxOp, [x], axis=axis, logarithm=False, zero_masked=True).evaluate(x)
        assert np.isnan(found[1, 0]) and np.isnan(found[3, 2])
        check(op, [x])


def test_a_logarithm_has_no_zero_for_masked_rows(values, build):
    with pytest.raises(ValueError, match="a logarithm of 0"):
        build(SoftmaxOp, [values(2, 3)], axis=1, logarithm=True, zero_masked=True)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8, -1e8])
def test_log_softmax_does_not_depend_on_a_common_offset(offset, values, build, check):
    x = (values(5, 7) + offset).astype(np.float32)
    apart = x.astype(np.float64) - x.max(1, keepdims=True)
    expected = apart - np.log(np.exp(apart).sum(1, keepdims=True))
    op = build(SoftmaxOp, [x], axis=1, logarithm=True)
    check(op, [x], [expected.astype(np.float32)], 1e-6)


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize("axis", [1, 3])
def test_softmax_of_blocked_channels_never_sees_the_padding_channels(
    axis, logarithm, values, build, check
):
    x = values(2, 6, 3, 4)
    op = build(
        SoftmaxOp,
        [x],
        layouts=[BLOCKED],
        result_layout=Layout(4, (0, 1, 0, 0)),
        axis=axis,
        logarithm=logarithm,
    )
    check(op, [x], tolerance=TOLERANCE)


@pytest.mark.parametrize("shape", [(4, 6), (2, 6, 5), (2, 6, 3, 4)])
def test_batch_norm(shape, values, build, check, onnx_outputs):
    arrays = [values(*shape), values(6), values(6), values(6), values(6, low=0.1)]
    op = build(BatchNormOp, arrays, epsilon=1e-3)
    check(op, arrays, onnx_outputs("BatchNormalization", arrays, epsilon=1e-3), TOLERANCE)


def test_batch_norm_of_blocked_channels(values, build, check):
    arrays = [values(2, 6, 3, 4), values(6), values(6), values(6), values(6, low=0.1)]
    op = build(
        BatchNormOp, arrays, layouts=[BLOCKED], result_layout=Layout(4, (1, 1, 1, 1)), epsilon=1e-5
    )
    check(op, arrays, tolerance=TOLERANCE)


@pytest.mark.parametrize(("shape", "axis"), [((3, 8), 1), ((2, 3, 8), 2), ((2, 3, 4, 5), 2)])
@pytest.mark.parametrize("has_shift", [True, False])
def test_layer_norm(shape, axis, has_shift, values, build, check, onnx_outputs):
    x, scale = values(*shape), values(*shape[axis:])
    shift = values(*shape[axis:]) if has_shift else None
    op = build(LayerNormOp, [x, scale, shift], axis=axis, epsilon=1e-5)
    expected = onnx_outputs("LayerNormalization", [x, scale, shift], axis=axis, epsilon=1e-5)
    check(op, [a for a in (x, scale, shift) if a is not None], expected, TOLERANCE)


def test_layer_norm_without_scale(values, build, check):
    x, shift = values(3, 8), values(8)
    expected = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) + shift
    op = build(LayerNormOp, [x, None, shift], axis=1, epsilon=0.0)
    check(op, [x, shift], [expected], TOLERANCE)


@pytest.mark.parametrize("shape", [(2, 3, 10), (2, 3, 4, 5)])
def test_instance_norm(shape, values, build, check, onnx_outputs):
    arrays = [values(*shape), values(3), values(3)]
    op = build(InstanceNormOp, arrays, epsilon=1e-4)
    check(op, arrays, onnx_outputs("InstanceNormalization", arrays, epsilon=1e-4), TOLERANCE)


def test_instance_norm_inside_halos(values, build, check):
    arrays = [values(1, 3, 4, 5), values(3), values(3)]
    halo = Layout(0, (1, 2, 0, 1), 9.0)
    op = build(InstanceNormOp, arrays, layouts=[halo], result_layout=halo, epsilon=1e-4)
    check(op, arrays, tolerance=TOLERANCE)


@pytest.mark.parametrize("size", [1, 3, 5, 11])
def test_local_response_norm(size, values, build, check, onnx_outputs):
    x = values(2, 6, 3, 4)
    properties = {"size": size, "alpha": 0.3, "beta": 0.75, "bias": 2.0}
    op = build(LocalResponseNormOp, [x], **properties)
    check(op, [x], onnx_outputs("LRN", [x], **properties), TOLERANCE)


def test_local_response_norm_of_an_even_window_reaches_ahead(build, check):
    x = np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1)
    # (size - 1) // 2 = 0 channels back, size // 2 = 1 ahead: 1 + 4, 4 + 16, 16
    expected = x / np.array([5, 20, 16], np.float32).reshape(1, 3, 1, 1)
    op = build(LocalResponseNormOp, [x], size=2, alpha=2.0, beta=1.0, bias=0.0)
    check(op, [x], [expected])


def test_local_response_norm_of_blocked_channels(values, build, check):
    x = values(1, 6, 3, 4)
    op = build(
        LocalResponseNormOp,
        [x],
        layouts=[BLOCKED],
        result_layout=Layout(4),
        size=3,
        alpha=0.1,
        beta=0.5,
        bias=1.0,
    )
    check(op, [x], tolerance=TOLERANCE)


def test_normalizations_keep_symbolic_dimensions(infer):
    shape = ("batch", 16, "height", 9)
    assert infer(SoftmaxOp, [shape], axis=3, logarithm=False) == [shape]
    assert infer(LayerNormOp, [shape, (9,), None], axis=3, epsilon=1e-5) == [shape]
    assert infer(InstanceNormOp, [shape, (16,), (16,)], epsilon=1e-5) == [shape]


def test_normalizations_name_what_does_not_fit(infer):
    with pytest.raises(ValueError, match=r"axes \[2\] of \(3, 4\)"):
        infer(SoftmaxOp, [(3, 4)], axis=2, logarithm=False)
    with pytest.raises(ValueError, match=r"one number per channel, not \(4,\)"):
        infer(InstanceNormOp, [(1, 3, 8, 8), (3,), (4,)], epsilon=1e-5)
    with pytest.raises(ValueError, match="7 does not broadcast to 3x8"):
        infer(LayerNormOp, [(3, 8), (7,), None], axis=1, epsilon=1e-5)
    with pytest.raises(ValueError, match="does not broadcast to"):
        infer(LayerNormOp, [(3, 1), (7,), None], axis=1, epsilon=1e-5)
