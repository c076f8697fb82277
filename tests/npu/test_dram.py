"""Memories with bursts and rows: what a transfer opens, predicted and simulated."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compare_points, compared, convolution, machine

from explorer.errors import InputError
from explorer.npu.cost.dram import Pieces, opened
from explorer.runtime.npu.cycles import durations
from explorer.targets.npu.encoding import encode, field_table
from explorer.targets.npu.instructions import Load

DDR = {
    "memories.dram.burst_bytes": 64,
    "memories.dram.row_bytes": 2048,
    "memories.dram.row_cycles": 20,
}


@given(
    st.integers(0, 5000), st.integers(1, 90), st.integers(1, 5), st.integers(0, 99),
    st.integers(0, 5), st.integers(0, 300), st.sampled_from([1, 3, 64, 192, 4096]),
)  # fmt: skip
def test_units_are_those_of_all_bytes_in_order(start, size, inner, step, outer, stride, unit):
    pieces = Pieces(
        start=start, size=size, inner=inner, inner_step=step, outer=outer, outer_step=stride
    )
    touched = [
        (start + row * stride + column * step + byte) // unit
        for row in range(outer)
        for column in range(inner)
        for byte in range(size)
    ]
    changes = sum(one != other for one, other in itertools.pairwise([-1, *touched]))
    assert opened(pieces, unit) == changes


@pytest.mark.parametrize(
    ("fields", "bursts", "rows"),
    [
        ({"x_size": 1}, 1, 1),
        ({"x_size": 16}, 1, 1),  # 64 bytes from byte 0 on
        ({"x_size": 16, "global_address": 1}, 2, 1),  # from byte 4 on
        ({"x_size": 2, "y_size": 3, "x_stride": 512}, 3, 3),  # a row of the memory each
        ({"x_size": 2, "y_size": 3, "x_stride": 4}, 1, 1),  # 8 of every 16 bytes of one burst
        ({"x_size": 3, "x_step": 16}, 3, 1),
        ({"x_size": 1, "global_address": 511}, 1, 1),  # the last element of a row
        ({"x_size": 2, "global_address": 511}, 2, 2),
    ],
)
def test_cycles_of_a_transfer_by_hand(fields, bursts, rows):
    """Activations of tiny-8 have 4 bytes."""
    plain, found = machine("tiny-8"), machine("tiny-8", **DDR)
    given = {"scratchpad_address": 0, "global_address": 0, **fields}
    load = Load(memory="activations", **given)
    table = field_table(encode([load], found), found)
    route = found.route["dram", found.by_content["activations"].memory, True]
    moved = -(-bursts * 64 * route.bytes_per_cycle.denominator // route.bytes_per_cycle.numerator)
    expected = route.fixed_cycles + moved + 20 * rows
    assert durations(table, found).cycles[0] == expected
    assert durations(field_table(encode([load], plain), plain), plain).cycles[0] <= expected


@pytest.mark.parametrize("name", ["tiny-8", "edge-64", "vta-16"])
@pytest.mark.parametrize("fields", [{}, {"inputs": 24, "outputs": 24, "groups": 24}],
                         ids=["dense", "depthwise"])  # fmt: skip
def test_predicted_cycles_are_simulated_ones_and_more(name, fields):
    random = np.random.default_rng(7)
    layer = convolution(machine(name), random, size=(6, 9), **fields)
    _, plain = compared(layer, machine(name), random)
    _, run = compared(layer, machine(name, **DDR), random)
    assert run.cycles > plain.cycles
    assert run.counters.loaded_bytes == plain.counters.loaded_bytes


def test_any_tiles_stay_above_their_bound():
    found, random = machine("odd-12x20", **DDR), np.random.default_rng(8)
    compare_points(convolution(found, random, size=(5, 7)), found, random, 4)


def test_coded_weights_take_whole_bursts():
    coded = {"engines.dma.decoder": "rice", "engines.dma.decoded_bytes_per_cycle": 256}
    found, random = machine("tiny-8", **DDR, **coded), np.random.default_rng(9)
    layer = convolution(found, random, size=(5, 5))
    layer.weights[:] = random.integers(-2, 3, layer.weights.shape)
    _, run = compared(layer, found, random)
    assert run.counters.loaded_bytes["weights"] < layer.weights.size


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memories.dram.burst_bytes": 64, "memories.dram.row_bytes": 100}, "multiple of burst"),
        ({"memories.dram.row_cycles": 5}, "row_bytes is missing"),
        ({"memories.local.burst_bytes": 64}, 'kind is "scratchpad"'),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        machine("tiny-8", **fields)
