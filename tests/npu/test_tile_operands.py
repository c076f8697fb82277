"""Rectangles that tiles make and read, against the positions that their layers name."""

import numpy as np
import pytest

from explorer.npu import Convolution
from explorer.npu.cost.steps import steps_of
from explorer.npu.cost.tile_operands import Parts, parts_of
from explorer.npu.layers.convolution import Placement
from explorer.npu.layers.matrices import MatrixProduct, Transposition
from explorer.npu.layers.windows import WindowLayer
from explorer.npu.program.compiling import tile_layer, write_layer
from explorer.targets import load_target
from explorer.targets.npu.machine import describe


def convolution(**fields):
    values = {
        "name": "conv",
        "input_shape": (24, 11, 13),
        "weights": np.ones((20, 24, 3, 3), np.int64),
        "bias": np.zeros(20, np.int32),
        "rescaling": None,
        "strides": (2, 1),
        "dilations": (1, 2),
        "pads": (1, 2, 0, 2),
        **fields,
    }
    return Convolution(**values)


def parts(layer, sizes) -> Parts:
    stream = write_layer(tile_layer(layer, describe(load_target("odd-12x20")), sizes=sizes))
    steps_of(stream)
    found = parts_of(stream)
    assert {owner for owner in stream.owners if owner >= 0} == set(range(len(found.steps)))
    assert set(found.steps) == set(range(len(found.tiles)))
    return found


def covered(found: Parts, channels: int) -> np.ndarray:
    times = np.zeros((channels, *found.size), int)
    for tile in found.tiles:
        times[np.ix_(tile.channels, tile.rows, tile.columns)] += 1
    return times


def test_tiles_of_a_convolution_read_their_windows_and_no_more():
    layer = convolution()
    found = parts(layer, (2, 5, 1, 1))
    assert found.size == (5, 13) and len(found.tiles) == 3 * 3
    assert (covered(found, 20) == 1).all()
    for tile in found.tiles:
        (read,) = tile.reads
        rows = [2 * y - 1 + ky for y in tile.rows for ky in range(3)]
        columns = [x - 2 + 2 * kx for x in tile.columns for kx in range(3)]
        assert (read.rows.start, read.rows.stop - 1) == (min(rows), max(rows))
        assert (read.columns.start, read.columns.stop - 1) == (min(columns), max(columns))
        assert read.size == (11, 13)


def test_tiles_of_windows_read_them():
    layer = WindowLayer(
        name="pool", input_shape=(24, 9, 9), bits=8, kernel=(3, 3), strides=(2, 2), pads=(1,) * 4
    )
    found = parts(layer, (2, 5, 1))
    assert (covered(found, 24) == 1).all()
    for tile in found.tiles:
        (read,) = tile.reads
        assert read.rows == range(2 * tile.rows[0] - 1, 2 * tile.rows[-1] + 2)


def test_what_is_placed_between_others_counts_its_own_rows():
    layer = convolution(
        strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1),
        placement=Placement(size=(22, 26), offset=(1, 0), steps=(2, 2)),
    )  # fmt: skip
    found = parts(layer, (4, 13, 1, 2))
    times = covered(found, 20)
    assert (times[:, 1::2, ::2] == 1).all() and times.sum() == 20 * 11 * 13


def test_tiles_of_a_product_of_matrices_read_rows_of_both():
    layer = MatrixProduct(name="qk", left_shape=(24, 1, 2 * 30), right_shape=(24, 1, 2 * 45),
                          batch=2, zeros=2)  # fmt: skip
    found = parts(layer, (16, 1, 1))
    assert found.size == (1, 60) and (covered(found, 45) == 1).all()
    for tile in found.tiles:
        left, right = tile.reads
        assert left.columns == tile.columns
        matrix = tile.columns.start // 30
        assert [p - 45 * matrix for p in right.columns] == list(tile.channels)


def test_tiles_of_a_transposition_turn_what_they_read():
    layer = Transposition(name="turn", input_shape=(24, 1, 2 * 12), batch=2)
    found = parts(layer, None)
    # Channels are filled to whole blocks: 12 of the array's rows, 20 of its columns.
    times = covered(found, 20)
    assert found.size == (1, 48) and (times[:12] == 1).all()
    for tile in found.tiles:
        (read,) = tile.reads
        matrix = tile.columns.start // 24
        assert [p - 12 * matrix for p in read.columns] == [c for c in tile.channels if c < 12]


@pytest.mark.parametrize("name", ["odd-12x20", "tiny-8"])
def test_a_plain_product_is_one_row_of_positions(name):
    layer = convolution(
        weights=np.ones((20, 24, 1, 1), np.int64), strides=(1, 1), dilations=(1, 1), pads=(0,) * 4
    )
    stream = write_layer(tile_layer(layer, describe(load_target(name))))
    steps_of(stream)
    assert parts_of(stream).size == (1, 11 * 13)
