"""Einsum: two operands at a time, each pair as a matrix product.

    "bij,bjk->bik"       matmul
    "ij,kj->ik"          matmul(x, transpose(y))
    "ii->i"              every (n + 1)-th element of the flattened operand
    "...a,b->...ab"      x[..., :, None] * y

Labels of an ellipsis are positions counted from the right. Reference: ONNX operators, Einsum-12,
which follows `numpy.einsum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.importers.building.build import Unsupported
from explorer.importers.building.expr import Expr, Size


@dataclass(frozen=True)
class _Term:
    """A value with a label for each axis."""

    value: Expr
    labels: tuple[str, ...]

    def axis(self, label: str) -> int:
        return self.labels.index(label)


def einsum(equation: str, operands: Sequence[Expr]) -> Expr:
    """What the equation says of the operands. ValueError where it does not fit them."""
    inputs, output = _equation(equation, [operand.rank for operand in operands])
    terms = [
        _diagonal(_Term(value, labels)) for value, labels in zip(operands, inputs, strict=True)
    ]
    result = terms[0]
    for position, term in enumerate(terms[1:], 1):
        later = {label for t in terms[position + 1 :] for label in t.labels}
        result = _product(result, term, later | {*output})
    result = _summed(result, output)
    order = [result.axis(label) for label in output]
    return result.value.transpose(order)


def _equation(text: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of every operand and of the result; those of an ellipsis are called 0, 1 ..."""
    left, arrow, right = text.replace(" ", "").partition("->")
    pieces = left.split(",")
    if len(pieces) != len(ranks):
        raise ValueError(f"equation {text!r} for {len(ranks)} operands")
    inputs = [_labels(piece, rank) for piece, rank in zip(pieces, ranks, strict=True)]
    longest = max(sum(label.isdigit() for label in labels) for labels in inputs)
    broadcast = tuple(str(number) for number in reversed(range(longest)))
    if arrow:
        before, dots, after = right.partition("...")
        output = (*before, *(broadcast if dots else ()), *after)
    else:
        letters = [label for labels in inputs for label in labels if not label.isdigit()]
        output = (*broadcast, *sorted(label for label in letters if letters.count(label) == 1))
    unknown = set(output) - {label for labels in inputs for label in labels}
    if unknown or len(set(output)) != len(output):
        raise ValueError(f"the result of equation {text!r} is not made of its operands' labels")
    return inputs, output


def _labels(piece: str, rank: int) -> tuple[str, ...]:
    before, dots, after = piece.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise ValueError(f"{piece!r} for an operand with {rank} dimensions")
    return (*before, *(str(number) for number in reversed(range(hidden))), *after)


def _diagonal(term: _Term) -> _Term:
    """Axes with the same label become one: (..., n, n) flattened, every (n + 1)-th element."""
    while len(set(term.labels)) < len(term.labels):
        label = next(label for label in term.labels if term.labels.count(label) > 1)
        first, second = [axis for axis, own in enumerate(term.labels) if own == label][:2]
        order = [a for a in range(len(term.labels)) if a not in (first, second)]
        moved = term.value.transpose([*order, first, second])
        rows, columns = moved.sizes([-2, -1], "a diagonal")
        if rows != columns:
            raise ValueError(f"label {label!r} has the sizes {rows} and {columns}")
        sizes: list[Size] = [moved.dim(axis) for axis in range(len(order))]
        flat = moved.reshape([*sizes, rows * columns])
        diagonal = flat.take(np.arange(rows) * (rows + 1), len(order))
        term = _Term(diagonal, (*(term.labels[a] for a in order), label))
    return term


def _summed(term: _Term, kept: Sequence[str] | set[str]) -> _Term:
    """The term without the labels that nobody needs."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
    value = term.value.sum(axes)
    return _Term(value, tuple(label for label in term.labels if label in kept))


def _product(left: _Term, right: _Term, needed: set[str]) -> _Term:
    """Both multiplied, summed over what they share and nobody needs."""
    left = _summed(left, needed | {*right.labels})
    right = _summed(right, needed | {*left.labels})
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    labels = (*batch, *rows, *columns)
    if not inner:
        a = _spread(left, (*batch, *rows), len(columns))
        return _Term(a * _spread(right, (*batch, *([""] * len(rows)), *columns), 0), labels)
    for label in inner:
        sizes = (t.value.size(t.axis(label)) for t in (left, right))
        if len({*sizes}) > 1:
            raise Unsupported(f"a sum over label {label!r}, whose sizes differ")
    a = _matrix(left, batch, rows, inner)
    b = _matrix(right, batch, inner, columns)
    product = a @ b
    outer: list[Size] = [product.dim(axis) for axis in range(len(batch))]
    sizes = [left.value.dim(left.axis(label)) for label in rows]
    sizes += [right.value.dim(right.axis(label)) for label in columns]
    return _Term(product.reshape([*outer, *sizes]), labels)


def _spread(term: _Term, labels: Sequence[str], trailing: int) -> Expr:
    """The term with the axes of `labels`, new ones of size 1 for "", and others behind."""
    present = [label for label in labels if label]
    moved = term.value.transpose([term.axis(label) for label in present])
    new = [axis for axis, label in enumerate(labels) if not label]
    new += range(len(labels), len(labels) + trailing)
    return moved.unsqueeze(new) if new else moved


def _matrix(term: _Term, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> Expr:
    """The term as (batch..., rows, columns), the labels of each merged into one axis."""
    order = [term.axis(label) for label in (*batch, *rows, *columns)]
    moved = term.value.transpose(order)
    if len(rows) == 1 and len(columns) == 1:
        return moved
    sizes: list[Size] = [moved.dim(axis) for axis in range(len(batch))]
    for begin, count in ((len(batch), len(rows)), (len(batch) + len(rows), len(columns))):
        sizes.append(_merged_size(moved, begin, count, -1 not in sizes))
    return moved.reshape(sizes)


def _merged_size(x: Expr, begin: int, count: int, can_infer: bool) -> Size:
    if count == 1:
        return x.dim(begin)
    found = [x.size(axis) for axis in range(begin, begin + count)]
    known = [size for size in found if size is not None]
    if len(known) == len(found):
        return prod(known)
    if not can_infer:
        raise Unsupported("a product over several axes of unknown size (give them a size)")
    return -1
