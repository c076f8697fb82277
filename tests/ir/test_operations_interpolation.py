"""Interpolation along an axis: its meaning, as C, and what infinities reach."""

import numpy as np
import pytest

from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.types import Layout

POSITIONS = np.array([[0, 1], [1, 1], [2, 0], [0, 2], [1, 2]], np.int64)
WEIGHTS = np.array([[0.25, 0.75], [0.5, 0.5], [1.5, -0.5], [1, 2], [0, 1]], np.float32)


def matrix(positions: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    dense = np.zeros((len(positions), size))
    np.add.at(dense, (np.arange(len(positions))[:, np.newaxis], positions), weights)
    return dense


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_interpolation_is_a_product_with_a_sparse_matrix(axis, values, build, check):
    x = values(3, 3, 3)
    op = build(InterpolateOp, [x, POSITIONS, WEIGHTS], axis=axis)
    product = np.moveaxis(matrix(POSITIONS, WEIGHTS, 3) @ np.moveaxis(x, axis, -2), -2, axis)
    check(op, [x, POSITIONS, WEIGHTS], [product.astype(np.float32)])


def test_many_taps_are_added_up_in_a_loop(values, build, check):
    x, random = values(2, 40), np.random.default_rng(0)
    positions = random.integers(0, 40, (5, 33))
    weights = random.normal(size=(5, 33)).astype(np.float32)
    op = build(InterpolateOp, [x, positions, weights], axis=1)
    check(op, [x, positions, weights], [(x @ matrix(positions, weights, 40).T).astype(np.float32)])


def test_a_blocked_operand_is_read(values, build, check):
    x = values(1, 6, 3, 4)
    op = build(
        InterpolateOp, [x, POSITIONS, WEIGHTS], layouts=[Layout(4, (1, 0, 2, 1), 5.0)], axis=2
    )
    product = matrix(POSITIONS, WEIGHTS, 3) @ x
    check(op, [x, POSITIONS, WEIGHTS], [product.astype(np.float32)])


def test_infinity_reaches_what_it_is_a_tap_of(build, check):
    x = np.array([1, np.inf, 3], np.float32)
    positions, weights = np.array([[0, 2], [1, 2]]), np.array([[0.5, 0.5], [1, 1]], np.float32)
    op = build(InterpolateOp, [x, positions, weights], axis=0)
    check(op, [x, positions, weights], [np.array([2, np.inf], np.float32)])


def test_interpolation_keeps_symbolic_dimensions(infer):
    shapes = [("n", 3, 8), ((5, 2), "int64"), ((5, 2), "float32")]
    assert infer(InterpolateOp, shapes, axis=2) == [("n", 3, 5)]


def test_interpolation_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match=r"axis 2 of \(3, 4\): 0 to 1 expected"):
        infer(InterpolateOp, [(3, 4), ((5, 2), "int64"), (5, 2)], axis=2)
    with pytest.raises(ValueError, match=r"positions \(5, 2\) and weights \(5, 3\)"):
        infer(InterpolateOp, [(3, 4), ((5, 2), "int64"), (5, 3)], axis=0)
