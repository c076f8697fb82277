"""Rounding weights in blocks so that sums err least: GPTQ.

    moments = X X^T / count                     (k, k), of what the weights are multiplied with
    found = gptq(weights, moments, form, unseen)        (k, n) floats to `BlockNumbers`
    errors(weights, found, moments)             (n,) mean squared errors of the sums

Row by row a weight is rounded, and those behind it make up for its error as well as they can. With
F the rows that are left, k the first of them, and H_F the moments of these:

    e = (w_k - q(w_k)) / [H_F^-1]_kk            w_F := w_F - e [H_F^-1]_:k

All inverses that this takes are in one Cholesky factor: with H^-1 = U^T U, U upper triangular,
[H_F^-1]_k: / sqrt([H_F^-1]_kk) is row k of U from its diagonal on. A block gets its scale when its
first row's turn comes, of the weights as they are by then.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023, equations 2 to 5 and algorithm 1; the damping of 1 % is theirs.
"""

from __future__ import annotations

import numpy as np

from explorer.quantization.block_numbers import (
    BlockForm,
    BlockNumbers,
    assembled,
    nearest,
    parameters,
    rounded,
)

DAMPING = 0.01
"""Of the mean of the diagonal, added to it: inverses of moments of few examples exist then."""
MIN_BLOCK_ROWS = 128
"""Rows whose errors reach those behind them in one product of matrices."""


def gptq(
    weights: np.ndarray, moments: np.ndarray, form: BlockForm, unseen: np.ndarray | None = None
) -> BlockNumbers:
    """The numbers of each column, or the nearest ones where these make a column's sums err less.

    unseen: moments of other examples, by which that is judged; otherwise the same are. (Of fewer
    examples than rows numbers can be found that make up for each other on these alone.) Rows that
    are multiplied with nothing but zeros get the nearest numbers.
    """
    found = _in_order(weights.astype(np.float64), factor(moments), form)
    plain = nearest(weights, form)
    judged = moments if unseen is None else unseen
    is_better = errors(weights, found, judged) < errors(weights, plain, judged)
    zeros = None
    if found.zeros is not None and plain.zeros is not None:
        zeros = np.where(is_better, found.zeros, plain.zeros)
    return BlockNumbers(
        form=form,
        numbers=np.where(is_better, found.numbers, plain.numbers),
        scales=np.where(is_better, found.scales, plain.scales),
        zeros=zeros,
    )


def factor(moments: np.ndarray) -> np.ndarray:
    """U (k, k), upper triangular: U^T U is the inverse of the damped moments."""
    damped = moments.astype(np.float64)
    diagonal = np.diagonal(damped)
    alive = diagonal[diagonal > 0]
    # Inputs that are always zero have a row of zeros: any number on the diagonal will do.
    extra = DAMPING * alive.mean() if alive.size else 1.0
    damped = damped + extra * np.eye(len(damped))
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.T) / 2).T


def errors(weights: np.ndarray, found: BlockNumbers, moments: np.ndarray) -> np.ndarray:
    """(n,) the mean over examples of the squared error of each column's sum."""
    difference = weights.astype(np.float64) - found.real()
    return np.einsum("kn,kn->n", difference, moments @ difference)


def _in_order(weights: np.ndarray, upper: np.ndarray, form: BlockForm) -> BlockNumbers:
    depth, columns = weights.shape
    left = weights.copy()
    numbers = np.empty_like(left)
    together = form.block * -(-MIN_BLOCK_ROWS // form.block)
    grids: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, depth, together):
        stop = min(start + together, depth)
        spread = np.empty((stop - start, columns))
        for row in range(start, stop):
            if row % form.block == 0:
                grids.append(parameters(left[row : row + form.block], form))
            scales, zeros = grids[-1]
            numbers[row] = rounded(left[row], scales, zeros, form)
            real = (numbers[row] - zeros) * scales
            error = (left[row] - real) / upper[row, row]
            left[row + 1 : stop] -= np.outer(upper[row, row + 1 : stop], error)
            spread[row - start] = error
        left[stop:] -= upper[start:stop, stop:].T @ spread
    scales, zeros = (np.stack(each) for each in zip(*grids, strict=True))
    return assembled(numbers, scales, zeros, form)
