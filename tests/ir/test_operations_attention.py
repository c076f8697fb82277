"""Attention and rotary embeddings against their formulas, and rotary as C."""

import numpy as np
import pytest

from explorer.ir.top.attention import AttentionOp, RotaryOp
from explorer.ir.types import Layout

# Sums of up to 100 float32 numbers in another order, then exponentials.
TOLERANCE = 1e-5
BLOCKED = Layout(4, (1, 0, 2, 1), 5.0)


def by_the_formula(query, key, value, scale, mask=None, fill=-np.inf, bias=0.0):
    """One head of one batch at a time, in float64."""
    heads, shared = query.shape[1], key.shape[1]
    result = np.zeros((*query.shape[:3], value.shape[3]))
    shape = (query.shape[0], heads, query.shape[2], key.shape[2])
    mask = np.broadcast_to(True if mask is None else mask, shape)
    bias = np.broadcast_to(bias, shape)
    for batch in range(query.shape[0]):
        for head in range(heads):
            other = head // (heads // shared)
            scores = query[batch, head].astype(float) @ key[batch, other].astype(float).T * scale
            scores = np.where(mask[batch, head], scores, fill) + bias[batch, head]
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            result[batch, head] = weights @ value[batch, other]
    return result.astype(query.dtype)


def close(op, arrays, expected, tolerance=TOLERANCE):
    (actual,) = op.evaluate(*arrays)
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("is_bias", [True, False])
def test_rows_that_are_masked_as_a_whole_are_zero_or_nan(is_bias, values, build, check):
    arrays = [values(1, 2, 5, 8), values(1, 2, 6, 8), values(1, 2, 6, 3)]
    mask = np.tril(np.ones((5, 6), bool), -1)
    mask[3] = False
    masks = [None, np.where(mask, 0, -np.inf).astype(np.float32)] if is_bias else [mask, None]
    given = [*arrays, *(m for m in masks if m is not None)]
    with np.errstate(invalid="ignore"):
        expected = by_the_formula(*arrays, 0.5, mask)
    assert np.isnan(expected[:, :, [0, 3]]).all() and np.isfinite(expected[:, :, [1, 2, 4]]).all()
    check(build(AttentionOp, [*arrays, *masks], scale=0.5), given, [expected], TOLERANCE)
    op = build(AttentionOp, [*arrays, *masks], scale=0.5, zero_masked=True)
    check(op, given, [np.nan_to_num(expected)], TOLERANCE)


@pytest.mark.parametrize("shared", [4, 2, 1])
def test_heads_of_keys_serve_as_many_heads_of_queries_each(shared, values, build):
    arrays = [values(2, 4, 5, 8), values(2, shared, 7, 8), values(2, shared, 7, 3)]
    op = build(AttentionOp, [*arrays, None, None], scale=0.25)
    close(op, arrays, by_the_formula(*arrays, 0.25))
    assert op.macs() == 2 * 4 * 5 * 7 * (8 + 3)
    assert op.group == 4 // shared


def test_masked_scores_are_filled_and_the_bias_is_added(values, build):
    arrays = [values(1, 2, 5, 8), values(1, 2, 5, 8), values(1, 2, 5, 8)]
    mask, bias = np.tril(np.ones((5, 5), bool)), values(1, 1, 1, 5)
    op = build(AttentionOp, [*arrays, mask, bias], scale=0.5, fill=-1e4)
    expected = by_the_formula(*arrays, 0.5, mask, -1e4, bias)
    close(op, [*arrays, mask, bias], expected)
    assert op.label() == "attention + mask + bias"
    without = build(AttentionOp, [*arrays, mask, None], scale=0.5)
    close(without, [*arrays, mask], by_the_formula(*arrays, 0.5, mask))


@pytest.mark.parametrize("heads", [(), (3,), (2, 3)])
def test_there_may_be_no_heads_and_no_batch(heads, values, build):
    arrays = [values(*heads, 5, 8), values(*heads, 7, 8), values(*heads, 7, 4)]
    op = build(AttentionOp, [*arrays, None, None], scale=1.0)
    full = [a.reshape(1, -1, *a.shape[-2:]) for a in arrays]
    close(op, arrays, by_the_formula(*full, 1.0).reshape(*heads, 5, 4))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4, 5, 8), (4, 7, 6), (4, 7, 8)], "sizes 8 and 6 differ"),
        ([(4, 5, 8), (4, 7, 8), (4, 6, 8)], "rows 7 and 6 differ"),
        ([(2, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8)], "axis 0 2 and 3 differ"),
        ([(4, 5, 8), (3, 7, 8), (3, 7, 8)], "4 heads cannot share 3 of keys"),
        ([(4, 5, 8), (7, 8), (7, 8)], "matrices of one rank"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, message, build):
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(ValueError, match=message):
        build(AttentionOp, [*arrays, None, None], scale=1.0)


def test_a_mask_is_bool_and_not_larger_than_the_scores(values, build):
    arrays = [values(2, 5, 8)] * 3
    with pytest.raises(ValueError, match="numbers to add are its bias"):
        build(AttentionOp, [*arrays, values(5, 5), None], scale=1.0)
    with pytest.raises(ValueError, match="does not broadcast to scores"):
        build(AttentionOp, [*arrays, np.ones((3, 2, 5, 5), bool), None], scale=1.0)


def turned(x, angles, interleaved):
    """Each pair as a complex number, multiplied by one of length 1."""
    half = x.shape[-1] // 2
    pairs = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    result = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    if interleaved:
        return np.stack([result.real, result.imag], -1).reshape(x.shape).astype(x.dtype)
    return np.concatenate([result.real, result.imag], -1).astype(x.dtype)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(6, 8), (2, 6, 8), (2, 3, 6, 8)])
def test_rotary_turns_pairs_by_the_angle_of_their_position(
    shape, interleaved, values, check, build
):
    x, angles = values(*shape), values(6, 4)
    full = np.repeat(angles, 2, -1) if interleaved else np.concatenate([angles, angles], -1)
    arrays = [x, np.cos(full), np.sin(full)]
    op = build(RotaryOp, arrays, interleaved=interleaved)
    check(op, arrays, [turned(x, angles, interleaved)], TOLERANCE)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_of_blocked_channels(interleaved, values, build, check):
    x, table = values(2, 6, 3, 4), values(3, 4)
    op = build(
        RotaryOp,
        [x, table, table],
        layouts=[BLOCKED],
        result_layout=Layout(4, (0, 1, 0, 0)),
        interleaved=interleaved,
    )
    check(op, [x, table, table], tolerance=TOLERANCE)


def test_rotary_needs_pairs_and_tables_of_their_size(values, build):
    with pytest.raises(ValueError, match="pairs along the last axis"):
        build(RotaryOp, [values(3, 5)] * 3)
    with pytest.raises(ValueError, match="cosine and the input: 1 and 4 differ"):
        build(RotaryOp, [values(3, 4), values(3, 1), values(3, 4)])
    with pytest.raises(ValueError, match="does not broadcast"):
        build(RotaryOp, [values(3, 4), values(2, 3, 4), values(3, 4)])
