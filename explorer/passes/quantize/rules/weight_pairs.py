"""Weights in pairs whose products with two bytes add up to 16 bits, whatever the bytes are.

    0 <= a, b <= 255       -32768 <= a * v + b * w <= 32767
                           where positive ones of v and w add up to 128 at most, negative ones too

    %y = top.matmul(%x, %w)                        rows 0, 1, 2, 3 ... of %w: 0 and 1 do not fit
 => %g = top.gather(%x, [0, 2, 1, 3, ...])         columns of %x, rows of %w in another order
    %y = top.matmul(%g, %v) {fits_pairs = true}

Processors without VNNI multiply unsigned with signed bytes two at a time, in 16 bits in which the
sum of two products is cut off where it does not fit (`vpmaddubsw`). Sums do not depend on their
order: rows of the weights are paired so that it always fits. That takes half the instructions of
products in 32 bits. Matrices that multiply the same bytes (queries, keys and values) take one
order, so that bytes change places once. Reference: Intel, Intrinsics Guide, _mm256_maddubs_epi16.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import element_type_of, shape_of
from explorer.passes.analysis.matching import constant, weight_name

LARGEST = 128
"""255 * 128 = 32640 fits 16 bits, 255 * 129 = 32895 does not."""
MAX_MOVED_SHARE = 0.95
"""Of all pairs: where more do not fit as they are, few others will."""
FEWEST_COLUMNS = 4
"""That are multiplied in vectors of columns; fewer are summed up along the row, in 32 bits."""
AT_ONCE = 16
"""Rows that are tried together."""


class PairWeights(Rule):
    """matmul(x, w)   =>   matmul(gather(x), w in another order) {fits_pairs}

    Applies to constant matrices of signed bytes whose rows can be paired so that products of two
    unsigned bytes with them add up to 16 bits; nothing is moved where neighbours fit already. Not
    to fewer columns than the narrowest vector has lanes. Pays on processors that multiply bytes in
    pairs of 16 bits. Exact.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        array = constant(op.right, rewriter.weights)
        if array is None or array.ndim != 2 or op.get("fits_pairs") or not op.multiplies_bytes:
            return
        if len(array) % 2:
            raise Declined(f"{identity_of(op)} adds up an odd number of products")
        if array.shape[1] < FEWEST_COLUMNS:
            raise Declined(f"{identity_of(op)} has fewer columns than vectors have lanes")
        if fits_pairs(array):
            rewriter.replace(op, op.altered(fits_pairs=True))
            return
        moved = _present_order(op, array, rewriter) or self._put_in_order(op, array, rewriter)
        order = constant(moved.indices, rewriter.weights)
        assert order is not None
        name, kind = weight_name(op, "paired"), element_type_of(op.right)
        weight = rewriter.add_weight(op, name, array[order], element_type=kind)
        rewriter.replace(op, op.altered(left=moved.output, right=weight, fits_pairs=True))

    def _put_in_order(
        self, op: MatMulOp, array: np.ndarray, rewriter: RecordedRewriter
    ) -> GatherOp:
        """The input with its columns in an order in which rows of the weights fit."""
        order = _common_order(op, array, rewriter)
        if order is None:
            raise Declined(
                f"rows of the weights of {identity_of(op)} cannot be paired so that sums of two "
                "products fit 16 bits"
            )
        dtype = np.uint16 if len(order) <= 1 << 16 else np.int64  # what has no sign costs less
        places = rewriter.add_weight(op, weight_name(op, "order"), order.astype(dtype))
        moved = GatherOp.make([op.left, places], axis=len(shape_of(op.left)) - 1)
        rewriter.insert_before(op, moved, stem=identity_of(op), like=op)
        return moved


def _present_order(op: MatMulOp, array: np.ndarray, rewriter: RecordedRewriter) -> GatherOp | None:
    """Columns of the input that another product has put into an order which fits this one, too."""
    for use in op.left.uses:
        moved = use.operation
        if not isinstance(moved, GatherOp) or moved.input != op.left:
            continue
        order = constant(moved.indices, rewriter.weights)
        is_whole = order is not None and np.array_equal(np.sort(order), np.arange(len(array)))
        along_rows = moved.get("axis") == len(shape_of(op.left)) - 1
        if not is_whole or not along_rows or not moved.is_before_in_block(op):
            continue
        assert order is not None
        if fits_pairs(array[order]):
            return moved
    return None


def _common_order(op: MatMulOp, array: np.ndarray, rewriter: RecordedRewriter) -> np.ndarray | None:
    """An order for all matrices that multiply what `op` does; one for its own if there is none."""
    matrices = [array]
    for use in op.left.uses:
        other = use.operation
        if other is op or not isinstance(other, MatMulOp) or other.left != op.left:
            continue
        weights = constant(other.right, rewriter.weights)
        if weights is not None and weights.ndim == 2 and other.multiplies_bytes:
            matrices.append(weights)
    common = paired(np.concatenate(matrices, axis=1)) if len(matrices) > 1 else None
    return paired(array) if common is None else common


def fits_pairs(weights: np.ndarray) -> bool:
    """Whether products with rows 2i and 2i + 1 add up to 16 bits."""
    pairs = weights.astype(np.int16).reshape(-1, 2, weights.shape[1])
    most, least = np.maximum(pairs, 0).sum(axis=1), np.minimum(pairs, 0).sum(axis=1)
    return bool(np.all(most <= LARGEST) and np.all(least >= -LARGEST))


def paired(weights: np.ndarray) -> np.ndarray | None:
    """An order of the rows in which neighbours 2i and 2i + 1 fit; None where none was found.

    Rows that fit their neighbour stay. The others take the first row that fits; one that finds
    none takes a place in a pair whose other row fits what is left over.
    """
    wide = weights.astype(np.int16)
    up, down = np.maximum(wide, 0), np.minimum(wide, 0)

    def fitting(row: int, others: np.ndarray) -> np.ndarray:
        most, least = (up[others] + up[row]).max(axis=1), (down[others] + down[row]).min(axis=1)
        return (most <= LARGEST) & (least >= -LARGEST)

    pairs = np.arange(len(weights)).reshape(-1, 2)
    most = (up[pairs[:, 0]] + up[pairs[:, 1]]).max(axis=1, initial=0)
    least = (down[pairs[:, 0]] + down[pairs[:, 1]]).min(axis=1, initial=0)
    fits = (most <= LARGEST) & (least >= -LARGEST)
    if fits.mean() < 1 - MAX_MOVED_SHARE:
        return None
    waiting, alone = pairs[~fits].reshape(-1), list[int]()
    made: list[tuple[int, int]] = []
    while len(waiting):
        row, waiting = int(waiting[0]), waiting[1:]
        found = _first(lambda others, row=row: fitting(row, others), waiting)
        if found is None:
            alone.append(row)
        else:
            made.append((row, int(waiting[found])))
            waiting = np.delete(waiting, found)
    present = [(int(a), int(b)) for a, b in pairs[fits]] + made
    for first, second in zip(alone[::2], alone[1::2], strict=True):
        place = _exchange(first, second, np.array(present).reshape(-1, 2), fitting)
        if place is None:
            return None
        a, b = present.pop(place[0])
        left, right = (a, b) if place[1] == 0 else (b, a)
        present += [(first, left), (second, right)]
    return _in_place(np.array(present).reshape(-1, 2), pairs)


def _first(fits: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> int | None:
    """The place of the first row that fits, which mostly is one of a few."""
    for start in range(0, len(rows), AT_ONCE):
        fitting = fits(rows[start : start + AT_ONCE])
        if fitting.any():
            return start + int(np.argmax(fitting))
    return None


def _exchange(
    first: int, second: int, pairs: np.ndarray, fitting: Callable[..., np.ndarray]
) -> tuple[int, int] | None:
    """A pair, and which of its rows fits `first` while the other one fits `second`."""
    for side in (0, 1):
        both = fitting(first, pairs[:, side]) & fitting(second, pairs[:, 1 - side])
        if both.any():
            return int(np.argmax(both)), side
    return None


def _in_place(present: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The order of all rows: pairs that are neighbours already stay where they are."""
    order = np.full(pairs.shape, -1)
    stay = (present[:, 0] % 2 == 0) & (present[:, 1] == present[:, 0] + 1)
    order[present[stay][:, 0] // 2] = present[stay]
    order[order[:, 0] < 0] = present[~stay]
    return order.reshape(-1)
