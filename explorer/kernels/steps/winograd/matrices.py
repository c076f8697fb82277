"""The matrices of Winograd's minimal filtering F(m, 3), and what they multiply.

m outputs of a filter with 3 taps need m + 2 products instead of 3 m:

    y = AT [(G g) * (BT d)]          g: 3 taps, d: m + 2 inputs, y: m outputs, *: element by element

In two dimensions every matrix is applied to the columns and then to the rows: m x m outputs of a
3x3 filter need (m + 2) (m + 2) products per pair of channels instead of 9 m m: 36 instead of 144
for m = 4, 16 instead of 36 for m = 2.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv 1509.09308, section
4. The points at which the polynomials are evaluated are 0, 1, -1 (and 2, -2 for m = 4), infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from types import MappingProxyType

import numpy as np

from explorer.ir.scalars import Scalar

TAPS = 3
"""Rows and columns of the filters."""

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Winograd:
    """The three matrices of F(m, 3)."""

    outputs: int
    """m: outputs per row of a tile."""
    input_matrix: Matrix
    """BT, (m + 2) x (m + 2)."""
    weight_matrix: Matrix
    """G, (m + 2) x 3."""
    output_matrix: Matrix
    """AT, m x (m + 2)."""

    @property
    def points(self) -> int:
        """Inputs, and products, per row of a tile."""
        return self.outputs + TAPS - 1


def _matrix(text: str) -> Matrix:
    return tuple(tuple(Fraction(item) for item in row.split()) for row in text.split(";"))


VARIANTS: Mapping[int, Winograd] = MappingProxyType(
    {
        2: Winograd(
            2,
            _matrix("1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1"),
            _matrix("1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1"),
            _matrix("1 1 1 0; 0 1 -1 -1"),
        ),
        4: Winograd(
            4,
            _matrix(
                "4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0;"
                "0 -2 -1 2 1 0; 0 2 -1 -2 1 0; 0 4 0 -5 0 1"
            ),
            _matrix("1/4 0 0; -1/6 -1/6 -1/6; -1/6 1/6 -1/6; 1/24 1/12 1/6; 1/24 -1/12 1/6; 0 0 1"),
            _matrix("1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1"),
        ),
    }
)
"""By m."""


def transform_weights(weights: np.ndarray, outputs: int) -> np.ndarray:
    """G g GT of every filter: (O, C, 3, 3) -> (m + 2, m + 2, O, C)."""
    return transform_axes(np.moveaxis(weights, (2, 3), (0, 1)), outputs, (0, 1))


def transform_axes(weights: np.ndarray, outputs: int, axes: Sequence[int]) -> np.ndarray:
    """Multiplies G to two axes of 3, wherever they lie: each becomes m + 2 long.

    Computed in double precision and rounded once, to the type of the weights.
    """
    if any(weights.shape[axis] != TAPS for axis in axes) or len(axes) != 2:
        raise ValueError(f"axes {axes} of {weights.shape} are not the 3x3 of filters")
    matrix = np.array(VARIANTS[outputs].weight_matrix, np.float64)
    shape = [len(matrix) if k in axes else n for k, n in enumerate(weights.shape)]
    result = np.empty(shape, weights.dtype)
    is_divided = 0 not in axes
    parts = range(len(weights)) if is_divided else [slice(None)]
    for part in parts:
        values = weights[part].astype(np.float64)
        for axis in axes:
            place = axis - is_divided
            before, after = prod(values.shape[:place]), prod(values.shape[place + 1 :])
            columns = values.reshape(before, TAPS, after)
            grown = (*values.shape[:place], len(matrix), *values.shape[place + 1 :])
            values = np.matmul(matrix, columns).reshape(grown)
        result[part] = values
    return result


def multiply(matrix: Matrix, values: Sequence[Scalar]) -> list[Scalar]:
    """`matrix` times a vector of scalars, in few operations.

    Two rows that differ in signs only share what
    they have in common, and so do two columns:

        -4 a - 4 b + c + d, 4 a - 4 b - c + d   ->  e = d - 4 b, o = c - 4 a; e + o, e - o
        a + b + .., a - b + .., a + b + ..      ->  s = a + b, t = a - b
    """
    columns = [list(column) for column in zip(*matrix, strict=True)]
    values = list(values)
    for first, second in _pairs(columns):
        a, b = values[first], values[second]
        values[first], values[second] = a + b, a - b
        one, other = columns[first], columns[second]
        pairs = list(zip(one, other, strict=True))
        columns[first] = [x if x == y else Fraction(0) for x, y in pairs]
        columns[second] = [x if x != y else Fraction(0) for x, y in pairs]
    rows = [list(row) for row in zip(*columns, strict=True)]
    partners = dict(_pairs(rows))
    results: dict[int, Scalar] = {}
    for number, row in enumerate(rows):
        if number in results:
            continue
        if number not in partners:
            results[number] = _sum(row, values)
            continue
        other = rows[partners[number]]
        pairs = list(zip(row, other, strict=True))
        even = _sum([x if x == y else Fraction(0) for x, y in pairs], values)
        odd_row = [x if x != y else Fraction(0) for x, y in pairs]
        magnitudes = {abs(x) for x in odd_row if x}
        scale = magnitudes.pop() if len(magnitudes) == 1 else Fraction(1)
        odd = _scaled(_sum([x / scale for x in odd_row], values), scale)
        results[number], results[partners[number]] = even + odd, even - odd
    return [results[number] for number in range(len(rows))]


def _pairs(vectors: Sequence[Sequence[Fraction]]) -> list[tuple[int, int]]:
    """Neighbours with the same magnitudes, some entries equal and some opposite."""
    found: list[tuple[int, int]] = []
    for number, (one, other) in enumerate(pairwise(vectors)):
        nonzero = [(x, y) for x, y in zip(one, other, strict=True) if x or y]
        if found and found[-1][1] == number:
            continue
        same = sum(x == y for x, y in nonzero)
        opposite = sum(x == -y for x, y in nonzero)
        if same and opposite and same + opposite == len(nonzero):
            found.append((number, number + 1))
    return found


def _sum(coefficients: Sequence[Fraction], values: Sequence[Scalar]) -> Scalar:
    """The terms in an order in which each but the first is one multiply-add."""
    terms = [(c, v) for c, v in zip(coefficients, values, strict=True) if c]
    terms.sort(key=lambda term: (term[0] != 1, abs(term[0])))
    coefficient, value = terms[0]
    total = value.negate() if coefficient == -1 else _scaled(value, coefficient)
    for coefficient, value in terms[1:]:
        term = _scaled(value, abs(coefficient))
        total = total + term if coefficient > 0 else total - term
    return total


def _scaled(value: Scalar, factor: Fraction) -> Scalar:
    return value if factor == 1 else value * float(factor)
