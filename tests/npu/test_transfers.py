"""Blocks that lie at equal distances are one transfer."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))
from npu_layers import compared, convolution, machine

from explorer.npu.program.transfers import Block, transfers
from explorer.targets.npu.instructions import Load, Store

LIMITS = {"x_size": 100, "y_size": 5, "x_stride": 1000}


def moved(firsts, block, limits, **options):
    """Elements of global memory in the order in which they lie in the scratchpad."""
    found = {}
    for one in transfers(firsts, block, limits, **options):
        begin = one.index * block.size
        for y in range(one.y_size):
            for x in range(one.x_size):
                place = begin + y * one.x_size + x
                assert place not in found
                found[place] = firsts[one.index] + y * one.x_stride + x * block.step
    return [found[place] for place in sorted(found)]


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(1, 3),
    st.booleans(),
)
def test_transfers_move_each_element_of_all_blocks_once(firsts, rows, columns, gap, step, is_apart):
    block = Block(rows=rows, columns=columns, stride=columns * step + gap, step=step)
    expected = [
        first + y * block.stride + x * step
        for first in firsts
        for y in range(rows)
        for x in range(columns)
    ]
    assert moved(firsts, block, LIMITS, is_apart=is_apart) == expected
    for one in transfers(firsts, block, LIMITS, is_apart=is_apart):
        assert one.x_size <= 100 and one.y_size <= 5 and one.x_stride <= 1000


def test_blocks_at_equal_distances_are_one_transfer_while_its_fields_hold_them():
    block = Block(rows=2, columns=7, stride=7)
    assert [one.y_size for one in transfers([0, 50, 100], block, LIMITS)] == [3]
    assert [one.y_size for one in transfers(range(0, 350, 50), block, LIMITS)] == [5, 2]
    assert [one.y_size for one in transfers([0, 50, 101], block, LIMITS)] == [2, 1]
    assert [one.y_size for one in transfers([0, 50, 100], block, LIMITS, is_apart=True)] == [2] * 3
    gaps = Block(rows=2, columns=7, stride=8)
    assert [one.y_size for one in transfers([0, 50], gaps, LIMITS)] == [2, 2]
    assert [one.y_size for one in transfers([0, 1001], block, LIMITS)] == [1, 1]
    assert [one.y_size for one in transfers([50, 0], block, LIMITS)] == [1, 1]


@pytest.mark.parametrize(
    ("name", "channels", "loads"), [("edge-64", 64, 1), ("tiny-8", 16, 2), ("odd-12x20", 60, 1)]
)
def test_blocks_of_one_position_are_loaded_at_once(name, channels, loads):
    """64 channels are 16 blocks of rows on the first machine, and one block of its memory."""
    found, random = machine(name), np.random.default_rng(0)
    layer = convolution(found, random, inputs=channels, outputs=8, size=(3, 3), pads=(1, 1, 1, 1))
    sizes = (3, 3, 1, -(-channels // found.rows))
    made, _ = compared(layer, found, random, sizes=sizes)
    assert made.tiled.together > 1
    kinds = [op for op in made.instructions if isinstance(op, Load)]
    assert sum(op.memory == "activations" and op.x_size > 0 for op in kinds) == loads
    assert sum(op.memory == "micro_operations" and op.x_size > 0 for op in kinds) == 1


def test_outputs_of_whole_rows_are_stored_at_once():
    found, random = machine("vta-16"), np.random.default_rng(0)
    layer = convolution(found, random, inputs=16, outputs=64, size=(6, 5), pads=(1, 1, 1, 1))
    whole, _ = compared(layer, found, random, sizes=(2, 5, 4, 1))
    part, _ = compared(layer, found, random, sizes=(2, 3, 4, 1))
    stores = [sum(isinstance(op, Store) for op in made.instructions) for made in (whole, part)]
    assert stores == [3, 3 * 2 * 4]


@pytest.mark.parametrize(
    ("kept", "order", "content", "outer"),
    [("weight_buffers", "outputs", "weights", 2), ("input_buffers", "positions", "activations", 4)],
)
def test_what_lies_in_a_buffer_is_not_loaded_again(kept, order, content, outer):
    """3 chunks of each of 8 tiles: with as many buffers they stay for all tiles of the inner
    loop."""
    found, random = machine("vta-16"), np.random.default_rng(0)
    layer = convolution(found, random, inputs=48, outputs=64, size=(8, 5), pads=(1, 1, 1, 1))
    choices = {"rows": 2, "columns": 5, "outputs": 2, "inputs": 1, "together": 1, "order": order,
               "constants": "tile",
               "input_buffers": 2, "weight_buffers": 2, "sum_buffers": 2}  # fmt: skip
    loads = []
    for count in (2, 3):
        made, _ = compared(layer, found, random, choices={**choices, kept: count})
        loads.append(sum(isinstance(op, Load) and op.memory == content for op in made.instructions))
    assert loads == [3 * 8, 3 * outer]
