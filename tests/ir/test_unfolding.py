"""Pictures with neighbouring positions as channels, against loops over single numbers."""

import itertools

import numpy as np
import pytest

from explorer.ir.unfolding import Unfolding


def by_loops(unfolding, picture):
    """Number by number."""
    channels, height, width = picture.shape
    (rows, columns), (down, right) = unfolding.neighbours, unfolding.strides
    top, left, bottom, other = unfolding.pads
    tall = (height + top + bottom - rows) // down + 1
    wide = (width + left + other - columns) // right + 1
    found = np.zeros((channels * rows * columns, tall, wide), picture.dtype)
    places = itertools.product(range(tall), range(wide), range(rows), range(columns))
    for i, j, r, c in places:
        y, x = i * down + r - top, j * right + c - left
        is_inside = 0 <= y < height and 0 <= x < width
        for channel in range(channels):
            number = picture[channel, y, x] if is_inside else unfolding.padding
            found[(r * columns + c) * channels + channel, i, j] = number
    return found


CASES = {
    "permutation": ((3, 4, 6), (2, 2), (2, 2), (0, 0, 0, 0)),
    "odd sizes": ((2, 5, 7), (2, 2), (2, 2), (0, 1, 1, 0)),
    "windows": ((1, 4, 5), (3, 3), (1, 1), (1, 1, 1, 1)),
    "one axis": ((2, 1, 5), (1, 5), (1, 2), (0, 2, 0, 2)),
    "left out": ((2, 6, 5), (2, 3), (2, 1), (-1, -1, -1, 0)),
    "gaps": ((1, 7, 7), (1, 2), (3, 5), (0, 0, 0, 0)),
    "one number": ((1, 1, 1), (2, 2), (2, 2), (1, 0, 0, 1)),
    "padding only": ((1, 1, 1), (1, 1), (1, 1), (2, 0, 0, 0)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("padding", [-128, 0, 127])
def test_each_number_is_where_loops_put_it(name, padding):
    shape, neighbours, strides, pads = CASES[name]
    unfolding = Unfolding(neighbours=neighbours, strides=strides, pads=pads, padding=padding)
    picture = np.random.default_rng(0).choice([-128, -1, 0, 1, 127], shape).astype(np.int8)
    assert not unfolding.problem(shape)
    found = unfolding.apply(picture)
    assert found.dtype == np.int8 and found.shape == unfolding.shape(shape)
    np.testing.assert_array_equal(found, by_loops(unfolding, picture))


@pytest.mark.parametrize("name", CASES)
def test_what_lies_there_is_found_again(name):
    shape, neighbours, strides, pads = CASES[name]
    unfolding = Unfolding(neighbours=neighbours, strides=strides, pads=pads, padding=-1)
    picture = np.arange(np.prod(shape)).reshape(shape)
    found = unfolding.undo(unfolding.apply(picture), shape)
    is_there = np.isin(picture, unfolding.apply(picture))
    np.testing.assert_array_equal(found, np.where(is_there, picture, -1))
    assert is_there.all() == (name not in ("left out", "gaps"))


@pytest.mark.parametrize(
    ("shape", "neighbours", "strides", "message"),
    [
        ((1, 5, 4), (2, 2), (2, 2), "5 positions are no whole groups"),
        ((1, 1, 4), (2, 2), (2, 2), "1 positions are no whole groups"),
        ((1, 4, 4), (0, 2), (2, 2), "at least 1"),
        ((1, 4, 4), (2, 2), (2, -2), "at least 1"),
        ((0, 4, 4), (2, 2), (2, 2), "at least 1"),
    ],
)
def test_other_pictures_have_a_problem(shape, neighbours, strides, message):
    unfolding = Unfolding(neighbours=neighbours, strides=strides, pads=(0, 0, 0, 0), padding=0)
    assert message in unfolding.problem(shape)
