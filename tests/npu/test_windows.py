"""Maxima of windows and functions by table: bit-equal on every machine that has the operations."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared as compared_layer
from npu_layers import machine

from explorer.errors import InputError
from explorer.npu import LayerError, WindowLayer, compile_layer
from explorer.npu.layers.lines import lines_of

FULL = ["edge-64", "mac-128", "odd-12x20", "tiny-8"]
NPUS = [*FULL, "vta-16", "vta-32"]
POOLS = {
    "plain": {"kernel": (2, 2), "strides": (2, 2)},
    "padded": {"kernel": (3, 3), "strides": (2, 1), "pads": (1, 1, 0, 2)},
    "dilated": {"kernel": (2, 3), "dilations": (3, 2), "pads": (2, 1, 3, 4)},
    "over everything": {"kernel": (13, 11)},
}


def compared(layer, machine, **options):
    return compared_layer(layer, machine, np.random.default_rng(1), **options)


def layer_of(machine, **fields):
    return WindowLayer(**{"name": "pool", "input_shape": (45, 13, 11),
                          "bits": machine.input_bits, **fields})  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("name", NPUS)
def test_maxima_are_bit_equal_on_every_machine(name, kind):
    found = machine(name)
    compared(layer_of(found, **POOLS[kind]), found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sizes", [None, (2, 4, 2)])
@pytest.mark.parametrize("name", FULL)
def test_functions_by_table_are_bit_equal(name, sizes):
    found = machine(name)
    table = np.random.default_rng(2).integers(-128, 128, 256)
    compared(layer_of(found, table=table), found, sizes=sizes)
    compared(layer_of(found, table=table, **POOLS["padded"]), found, sizes=sizes)


@pytest.mark.parametrize("bits", [4, 16])
def test_numbers_of_other_widths(bits):
    widths = {"engines.matrix.input_bits": bits}
    found = machine("odd-12x20", **widths)
    compared(layer_of(found, **POOLS["padded"]), found)
    if bits == 4:
        compared(layer_of(found, table=np.arange(16)[::-1] - 8), found)


def test_results_are_double_buffered():
    """The store of a tile and the computation of the next one overlap."""
    found = machine("tiny-8")
    layer = layer_of(found, input_shape=(40, 28, 28), kernel=(3, 3), strides=(2, 2))
    (_, one), (double, two) = (
        compared(layer, found, sizes=(7, 7, 1), buffers=count) for count in (1, 2)
    )
    assert sorted(set(double.owners)) == [-1, *range(5 * 2 * 2)]
    assert one.counters.loaded_bytes["widened"] == two.counters.loaded_bytes["widened"]
    assert one.counters.stored_bytes == two.counters.stored_bytes
    assert two.cycles < one.cycles


def test_small_scratchpads_give_small_tiles():
    small = machine("odd-12x20", **{"memories.accumulators.size_bytes": 2800})
    made, _ = compared(layer_of(small, **POOLS["padded"]), small)
    assert len(list(made.tiled.tiles())) > 10


def test_what_a_machine_lacks_is_refused_by_name():
    vta, odd = machine("vta-16"), machine("odd-12x20")
    table = (np.arange(256) - 128) ** 2 // 129
    for layer, where, message in (
        (
            layer_of(vta, table=table, kernel=(2, 2)),
            vta,
            "by vta-16: its vector engine has no table",
        ),
        (layer_of(odd, bits=16), odd, "its numbers have 16 bits, those of the machine 8"),
        (layer_of(odd, kernel=(2, 2), pads=(2, 0, 0, 0)), odd, "lies in the padding altogether"),
    ):
        with pytest.raises(LayerError, match=f"pool cannot be computed .*{message}"):
            compile_layer(layer, where)
    tiny = machine("odd-12x20", **{"memories.accumulators.size_bytes": 560})
    with pytest.raises(LayerError, match="pool does not fit odd-12x20: its smallest tile: 144 acc"):
        compile_layer(layer_of(tiny, kernel=(13, 11)), tiny)
    with pytest.raises(InputError, match=r"pool takes \(45, 13, 11\), not \(3,\)"):
        compile_layer(layer_of(odd, **POOLS["plain"]), odd).image_with(np.zeros(3))


@pytest.mark.parametrize("ratio", [1.0, 0.37, -1.6])
def test_a_function_that_is_a_line_needs_no_table(ratio):
    """Where the vector engine has none, as on VTA; all 256 numbers are in the input."""
    found = machine("vta-16")
    numbers = np.arange(256) - 128
    table = np.clip(np.rint((numbers - 9) * ratio) + 40, -128, 127).astype(np.int64)
    layer = WindowLayer(name="layer", input_shape=(19, 4, 64), bits=8, table=table)
    (line,) = layer.lines(found)
    assert len(line.steps) <= 12
    np.testing.assert_array_equal(line.at(numbers), table)
    x = np.broadcast_to(numbers.reshape(1, 4, 64), layer.input_shape)
    compared(layer, found, given=[x])


NUMBERS = np.arange(256) - 128
FUNCTIONS = {
    "sigmoid": 200 / (1 + np.exp(-NUMBERS / 20)) - 100,
    "gelu": NUMBERS * 0.25 * (1 + np.tanh(NUMBERS / 30)),
    "a hard swish": NUMBERS * np.clip(NUMBERS / 60 + 0.5, 0, 1),
    "squares": NUMBERS**2 / 130.0,
    "jumps": np.random.default_rng(0).integers(-128, 128, 256),
    "one number": np.full(256, -7),
    "a step": np.where(NUMBERS < 3, -128, 127),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("sizes", [None, (3, 8, 1)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_other_functions_are_sums_of_lines_where_there_are_no_tables(function, sizes):
    found = machine("vta-16")
    table = np.clip(np.rint(FUNCTIONS[function]), -128, 127).astype(np.int64)
    lines = lines_of(table)
    np.testing.assert_array_equal(np.sum([line.at(NUMBERS) for line in lines], axis=0), table)
    layer = WindowLayer(name="layer", input_shape=(19, 2, 8), bits=8, table=table)
    compared(layer, found, given=[np.resize(NUMBERS, layer.input_shape)], sizes=sizes)


@pytest.mark.parametrize("function", ["sigmoid", "gelu", "a hard swish", "squares"])
def test_a_function_takes_few_lines(function):
    assert len(lines_of(np.rint(FUNCTIONS[function]).astype(np.int64))) <= 24


@given(entries=st.lists(st.integers(-8, 7), min_size=16, max_size=16))
def test_every_table_is_a_sum_of_lines(entries):
    x, lines = np.arange(16) - 8, lines_of(np.array(entries))
    np.testing.assert_array_equal(np.sum([line.at(x) for line in lines], axis=0), entries)
