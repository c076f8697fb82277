"""Second moments of what an operation's weights are multiplied with, over examples.

    moments_of(op, exact, quantized, is_centered)      -> one `Moments` for each group

A convolution's sum reads a window of each channel of its group, so that its inputs are those
(channels * window); a matrix product's are the rows of its left side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.quantization.corrections.rounding import Moments

Linear = ConvOp | MatMulOp


BATCH_BYTES = 1 << 20


def grouped(op: Linear, weights: np.ndarray) -> np.ndarray:
    """(groups, rows, inputs): a row for each sum."""
    if isinstance(op, MatMulOp):
        return weights.T[np.newaxis]
    group = op.get("group")
    return weights.reshape(group, weights.shape[0] // group, -1)


def ungrouped(op: Linear, rows: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The inverse of `grouped`."""
    return rows[0].T.reshape(shape) if isinstance(op, MatMulOp) else rows.reshape(shape)


def moments_of(
    op: Linear,
    exact: Sequence[np.ndarray],
    quantized: Sequence[np.ndarray],
    is_centered: bool,
) -> list[Moments]:
    """One for each group. exact, quantized: the first operand in all examples.

    is_centered: without the products of means, for sums whose mean error is corrected besides.
    """
    found: list[np.ndarray] = [np.zeros(())] * 3
    means: list[np.ndarray] = [np.zeros(())] * 2
    count = 0
    for some in batches(len(exact), exact[0].nbytes):
        x, y = (windows(op, np.concatenate(arrays[some])) for arrays in (exact, quantized))
        # Sums of one batch in single precision, sums of those in double.
        found = [
            total + products(a, b)
            for total, (a, b) in zip(found, ((y, y), (x, y), (x, x)), strict=True)
        ]
        means = [m + a.sum(axis=2, dtype=np.float64) for m, a in zip(means, (x, y), strict=True)]
        count += x.shape[2]
    found = [total / count for total in found]
    if is_centered:
        x, y = (mean / count for mean in means)
        pairs = ((y, y), (x, y), (x, x))
        found = [
            total - a[:, :, None] * b[:, None, :]
            for total, (a, b) in zip(found, pairs, strict=True)
        ]
    return [Moments(*parts) for parts in zip(*found, strict=True)]


def batches(count: int, each_bytes: int) -> Iterator[slice]:
    """Examples that are looked at together: products of large matrices are faster."""
    size = max(1, BATCH_BYTES // max(each_bytes, 1))
    return (slice(start, start + size) for start in range(0, count, size))


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(groups, inputs, inputs) f64: sums over the positions of both."""
    # Group by group: NumPy multiplies whole batches of transposed matrices much slower.
    return np.stack([own @ other.T for own, other in zip(a, b, strict=True)]).astype(np.float64)


def windows(op: Linear, array: np.ndarray) -> np.ndarray:
    """(groups, inputs, positions): what each of the operation's sums reads, padding included."""
    if isinstance(op, MatMulOp):
        return array.reshape(-1, array.shape[-1]).T[np.newaxis]
    rank = array.ndim - 2
    pads, steps, strides = op.get("pads"), op.get("dilations"), op.get("strides")
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    padded = np.pad(array, widths)
    sizes = op.weight.type.get_shape()[2:]  # pyright: ignore[reportAttributeAccessIssue]
    reach = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)]
    axes = tuple(range(2, 2 + rank))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    picked = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    seen = seen[(*picked, *(slice(None, None, s) for s in steps))]
    # (N, C, positions..., window...) to (C, window..., N, positions...)
    order = (1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    group = op.get("group")
    positions = array.shape[0] * int(np.prod(seen.shape[2 : 2 + rank]))
    return seen.transpose(order).reshape(group, -1, positions)
