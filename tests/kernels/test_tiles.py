"""Register tiles: chosen by their numbers alone, in agreement with the nests that they make."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.kernels.cost import CostMachine, estimate
from explorer.kernels.cost.rules import (
    FOLDED_USES,
    conflict_cycles,
    executed_loads,
    overlapped,
    spill_cycles,
)
from explorer.kernels.cost.tiles import (
    Tile,
    Window,
    Work,
    body_cycles,
    choose,
    choose_order,
    choose_row,
    tile_cycles,
)
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.targets.schema import Core

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

MACHINE = Machine(vector_floats=16, language="c").costs


def with_registers(registers: int, fuses_products: bool = True) -> CostMachine:
    core = Core(vector_registers=registers, fuses_products=fuses_products)
    return CostMachine(registers // 2, core=core, caches=MACHINE.caches)


def body_spills(tile: Tile, machine: CostMachine) -> float:
    return spill_cycles(tile.sums, machine)


@given(
    st.integers(1, 64), st.integers(1, 128), st.integers(1, 32), st.integers(1, 5000),
    st.sampled_from([16, 32]), st.booleans(),
)  # fmt: skip
def test_tiles_of_convolutions_fit_into_the_registers(
    height, width, blocks, steps, registers, can_hold
):
    machine = with_registers(registers)
    work = Work(height=height, width=width, blocks=blocks, steps=steps, can_hold=can_hold)
    tile = choose(work, machine)
    assert tile.fits(machine)
    assert body_spills(tile, machine) == 0
    assert blocks % tile.vectors == 0
    assert tile.pixels <= width
    assert tile.rows <= height
    assert tile.rows == 1 or tile.pixels == width


@given(st.integers(1, 300), st.integers(0, 64), st.integers(1, 5000), st.sampled_from([16, 32]))
def test_tiles_of_products_fit_into_the_registers(rows, blocks, depth, registers):
    row = 4 * depth
    tile = choose(
        Work(
            height=1,
            width=rows,
            blocks=blocks,
            steps=depth,
            divides=False,
            point_stride_bytes=row,
            point_bytes=row,
        ),
        with_registers(registers),
    )
    assert tile.fits(with_registers(registers))
    assert tile.pixels <= rows
    assert tile.vectors <= max(blocks, 1)


@given(st.integers(1, 200), st.integers(1, 7), st.integers(1, 2))
def test_tiles_of_depthwise_filters_are_no_wider_than_the_row(width, taps, stride):
    assert 1 <= choose_row(Window(width, taps, taps, stride, 256), MACHINE) <= width


@pytest.mark.parametrize(
    ("height", "width", "channels", "blocks", "tile"),
    [(56, 56, 64, 4, (1, 14, 2)), (28, 28, 128, 8, (1, 14, 2)), (14, 14, 256, 16, (1, 14, 2)),
     (7, 7, 512, 32, (2, 7, 2))],
)  # fmt: skip
def test_tiles_of_resnet_are_those_that_measured_best(height, width, channels, blocks, tile):
    work = Work(
        height=height, width=width, blocks=blocks, steps=9 * channels, point_bytes=4 * channels
    )
    chosen = choose(work, MACHINE)
    assert (chosen.rows, chosen.pixels, chosen.vectors) == tile


def test_a_tile_beyond_the_registers_costs_several_times_as_much():
    work = Work(height=56, width=56, blocks=16, steps=576)
    assert body_cycles(14, 8, work, MACHINE) / (14 * 8) > 2 * body_cycles(14, 2, work, MACHINE) / 28


def test_few_uses_of_a_vector_load_it_for_each_of_them():
    machine = with_registers(32)
    assert executed_loads(4, 4 * FOLDED_USES, machine) == 4 * FOLDED_USES
    assert executed_loads(4, 4 * (FOLDED_USES + 1), machine) == 4
    assert executed_loads(4, 4, machine) == 4
    assert executed_loads(4, 4 * FOLDED_USES, machine, can_hold=True) == 4


def test_a_vector_for_which_there_is_no_register_is_loaded_for_each_use():
    """7 x 2 sums in 16 registers leave room for one vector and a broadcast input."""
    few = with_registers(16)
    assert executed_loads(2, 6, few) == 6
    assert executed_loads(2, 8, few) == 2, "4 x 2 sums: gcc reads each vector once"
    assert executed_loads(2, 12, few) == 2
    assert executed_loads(2, 14, few) == 1 + 7
    assert executed_loads(3, 12, few, can_hold=True) == 3
    assert executed_loads(4, 12, few, can_hold=True) == 12, "3 x 4 leaves no room for four"


@pytest.mark.parametrize(
    ("width", "blocks", "fuses", "tile"),
    [
        (128, 96, True, (6, 2)),
        (28, 16, True, (6, 2)),
        (14, 32, True, (5, 2)),
        (4, 48, True, (4, 3)),
        (128, 96, False, (4, 2)),
    ],
)
def test_tiles_of_16_registers_keep_what_they_multiply_in_registers(width, blocks, fuses, tile):
    machine = with_registers(16, fuses)
    work = Work(height=1, width=width, blocks=blocks, steps=512, divides=False, can_hold=True)
    chosen = choose(work, machine)
    assert (chosen.pixels, chosen.vectors) == tile
    products = 0 if fuses else 1
    assert chosen.sums + chosen.vectors + 1 + products <= 16


def test_a_tile_that_leaves_its_vectors_no_room_waits_for_a_sum_in_memory():
    """7 x 2 sums, both vectors and an input are 17: gcc adds one sum up on the stack."""
    machine = with_registers(16)
    work = Work(height=7, width=7, blocks=64, steps=2048, can_hold=True)
    assert body_cycles(7, 2, work, machine) > 1.8 * 7
    assert body_cycles(6, 2, work, machine) < 1.1 * 6
    chosen = choose(work, machine)
    assert (chosen.rows, chosen.pixels, chosen.vectors) == (2, 7, 1)


@pytest.mark.parametrize(
    ("size", "channels", "outputs", "order"),
    [
        (28, 512, 128, "rows"),  # 1.6 MB of inputs, read from far for each of 4 tiles of channels
        (28, 128, 512, "channels"),  # 0.4 MB stay in the second cache
        (7, 512, 2048, "channels"),  # 4 MB of weights, read from far for each row
    ],
)
def test_the_outer_loop_goes_through_what_the_second_cache_does_not_hold(
    size, channels, outputs, order
):
    work = Work(
        height=size, width=size, blocks=outputs // 16, steps=channels, point_bytes=4 * channels
    )
    tile = choose(work, MACHINE)
    assert choose_order(tile, work, MACHINE)[0] == order


def test_rows_that_share_their_place_in_the_cache_evict_one_another():
    ways = MACHINE.caches[0].ways
    way_bytes = MACHINE.caches[0].size_bytes // ways
    crowded = range(0, (ways + 1) * way_bytes, way_bytes)
    assert conflict_cycles(crowded, MACHINE) == (ways + 1) * 64 / 32
    assert conflict_cycles(range(0, ways * way_bytes, way_bytes), MACHINE) == 0
    shifted = range(0, (ways + 1) * (way_bytes + 64), way_bytes + 64)
    assert conflict_cycles(shifted, MACHINE) == 0


def test_a_product_with_rows_in_one_place_takes_fewer_of_them():
    def work(depth: int) -> Work:
        return Work(
            height=1,
            width=128,
            blocks=48,
            steps=depth,
            divides=False,
            point_stride_bytes=4 * depth,
            point_bytes=4 * depth,
        )

    crowded, spread = work(3072), work(3072 + 16)  # 12 KiB: three whole ways
    assert body_cycles(15, 2, crowded, MACHINE) > 1.2 * body_cycles(15, 2, spread, MACHINE)
    assert choose(crowded, MACHINE).pixels <= MACHINE.caches[0].ways


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_what_goes_on_at_once_takes_at_least_the_longer_and_less_than_both(a, b):
    both = overlapped(a, b)
    assert max(a, b) <= both <= max(a, b) + 0.3 * min(a, b) + 1e-6


def test_numbers_alone_rank_tiles_as_the_nests_that_they_make():
    channels, size = 64, 28
    function = samples.convolution(channels, channels, size, size)
    packs = {"x": blocked_pack(16), "y": blocked_pack(16)}
    work = Work(
        height=size, width=size, blocks=channels // 16, steps=9 * channels, point_bytes=4 * channels
    )
    by_numbers, by_nest = [], []
    for vectors, pixels in ((1, 1), (1, 4), (1, 14), (2, 2), (2, 7), (2, 14), (4, 1), (4, 7),
                            (4, 14), (2, 28)):  # fmt: skip
        choices = {"schedule": "direct", "vectors": vectors, "pixels": pixels, "rows": 1}
        kernel = schedule_kernel(function, Machine(vector_floats=16, language="c"), packs, choices)
        by_nest.append(estimate(kernel.function, MACHINE).microseconds)
        by_numbers.append(tile_cycles(Tile(pixels, vectors), work, MACHINE))
    ranks = [np.argsort(np.argsort(values)) for values in (by_numbers, by_nest)]
    assert np.corrcoef(*ranks)[0, 1] > 0.95
