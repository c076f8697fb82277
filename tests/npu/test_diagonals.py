"""Weights of depthwise convolutions that lie dense in global memory."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine, rescaling

from explorer.npu import compile_layer
from explorer.npu.layers.layer import LayerError
from explorer.runtime.npu import simulate
from explorer.targets.npu.assembly import assemble, disassemble
from explorer.targets.npu.encoding import decode, encode, encode_micro
from explorer.targets.npu.instructions import Load

ENDS = (-128, 127, 0, -1)
NO_DECODER = {"engines.dma.decoder": "none"}


def depthwise(found, channels, random, kernel=(3, 3), **fields):
    return convolution(
        found, random, inputs=channels, outputs=channels, groups=channels, size=(7, 9),
        kernel=kernel, pads=(1, 1, 1, 1), **fields,
    )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["edge-64", "mac-128", "tiny-8"])
@pytest.mark.parametrize("channels", [2, 8, 13, 70])
def test_a_load_makes_the_zeros(name, channels):
    found, random = machine(name, **NO_DECODER), np.random.default_rng(channels)
    made, run = compared(depthwise(found, channels, random), found, random)
    blocks = -(-channels // found.columns)
    assert run.counters.loaded_bytes["diagonals"] % (blocks * 9 * found.columns) == 0
    assert "weights" not in run.counters.loaded_bytes
    assert made.tiled.has_diagonals


@pytest.mark.parametrize(
    ("name", "outputs", "together"),
    [("tiny-8", 1, 2), ("tiny-8", 3, 1), ("tiny-8", 3, 2), ("mac-128", 2, 1), ("edge-64", 2, 16)],
)
def test_a_tile_has_blocks_with_inputs_of_their_own(name, outputs, together):
    """The last tile has fewer blocks, and its last block fewer channels."""
    found, random = machine(name, **NO_DECODER), np.random.default_rng(6)
    channels = (2 * outputs + 1) * found.columns - 5
    own = found.columns // found.rows
    choices = {"rows": 3, "columns": 4, "outputs": outputs, "inputs": own, "together": together}
    _, run = compared(depthwise(found, channels, random), found, random, choices=choices)
    blocks = -(-channels // found.columns)
    assert run.counters.loaded_bytes["diagonals"] >= blocks * 9 * found.columns


def test_ends_of_the_range_and_zeros_arrive_whole():
    found, random = machine("tiny-8"), np.random.default_rng(1)
    layer = depthwise(found, 20, random)
    layer.weights[:] = np.resize(ENDS, layer.weights.shape)
    compared(layer, found, random, given=[np.full(layer.input_shape, -128)])


def test_weights_of_four_bits_share_bytes():
    found = machine("tiny-8", **{"engines.matrix.weight_bits": 4})
    random = np.random.default_rng(2)
    _, run = compared(depthwise(found, 8, random), found, random)
    assert run.counters.loaded_bytes["diagonals"] == 9 * 4


@pytest.mark.parametrize("fields", [{"outputs": 16}, {"groups": 4}], ids=["twice", "groups of 2"])
def test_other_groups_are_read_with_their_zeros(fields):
    found, random = machine("mac-128"), np.random.default_rng(3)
    given = {"inputs": 8, "outputs": 8, "groups": 8, **fields}
    _, run = compared(convolution(found, random, **given), found, random)
    assert "diagonals" not in run.counters.loaded_bytes


@pytest.mark.parametrize("name", ["odd-12x20", "vta-16"])
def test_machines_without_it_load_blocks(name):
    found, random = machine(name), np.random.default_rng(4)
    layer = depthwise(found, 24, random, rescaling=rescaling(found, 24, random))
    _, run = compared(layer, found, random)
    assert "diagonals" not in found.by_content and run.counters.loaded_bytes["weights"]


def test_a_tile_has_all_inputs_of_its_outputs():
    found, random = machine("tiny-8"), np.random.default_rng(5)
    layer = depthwise(found, 16, random)
    with pytest.raises(LayerError, match="has 1 blocks of inputs, expected 2"):
        compile_layer(layer, found, sizes=(7, 9, 1, 1))


def test_the_text_of_a_load_reads_back():
    found = machine("mac-128")
    load = Load(memory="diagonals", scratchpad_address=1, global_address=2, x_size=3)
    (read,) = decode(encode([load], found), found)
    assert read == load
    assert assemble(disassemble([load], [])).instructions == (load,)


def test_an_element_is_a_diagonal_in_blocks_of_rows():
    """On tiny-8: eight numbers become two elements of 8 columns x 4 rows."""
    found = machine("tiny-8")
    text = """
    micro destination=8 source=0 weight=2
    micro destination=8 source=1 weight=3
    load micro_operations scratchpad_address=0 global_address=16 x_size=2
    multiply micro_begin=0 micro_end=1 reset
    load activations scratchpad_address=0 global_address=0 x_size=2
    load diagonals scratchpad_address=1 global_address=1 x_size=1 push_after
    multiply micro_begin=0 micro_end=2 pop_before push_after
    store accumulators scratchpad_address=8 global_address=2 x_size=1 pop_before push_before
    finish pop_after
    """
    assembly = assemble(text)
    image = np.zeros(160, np.uint8)
    image[:8] = np.arange(1, 9)
    image[8:16] = np.array([-128, 127, 3, -4, 5, 0, 7, -1], np.int8).view(np.uint8)
    micro = np.frombuffer(encode_micro(assembly.micro_operations, found), np.uint8)
    size = found.by_content["micro_operations"].global_bytes
    image[16 * size : 16 * size + micro.size] = micro
    run = simulate(encode(assembly.instructions, found), image, found)
    sums = np.frombuffer(run.image, np.int32)[16:24]
    expected = np.arange(1, 9) * np.array([-128, 127, 3, -4, 5, 0, 7, -1])
    np.testing.assert_array_equal(sums, expected)
