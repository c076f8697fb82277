"""Weights that lie coded in global memory, and that loads decode."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compare_points, compared, convolution, machine

from explorer.errors import InputError
from explorer.npu import compile_layer
from explorer.npu.cost.bounds import least_of_layer
from explorer.npu.program.ir_layers import tiles_of
from explorer.runtime.npu import SimulationFault, simulate
from explorer.targets.npu.assembly import assemble, disassemble
from explorer.targets.npu.coding import coded, decoded
from explorer.targets.npu.encoding import decode, encode, encode_micro
from explorer.targets.npu.instructions import Load

DECODER = {"engines.dma.decoder": "rice", "engines.dma.decoded_bytes_per_cycle": 256}
NO_DECODER = {"engines.dma.decoder": "none"}


def small(layer, random, scale=2.0):
    """The same layer with weights of which most are near 0, and the ends of their range."""
    most = int(np.abs(layer.weights).max(initial=1))
    numbers = np.rint(random.laplace(0, scale, layer.weights.shape)).astype(np.int64)
    numbers.reshape(-1)[:2] = (-most, most - 1)[: numbers.size]
    layer.weights[:] = np.clip(numbers, -most, most - 1)
    return layer


# -------------------------------------------------------------------------------- the code itself


@given(st.data(), st.sampled_from([4, 8, 16]))
def test_numbers_come_back(data, bits):
    half = 1 << bits - 1
    near = st.integers(-3, 3) | st.integers(-half, half - 1) | st.sampled_from([-half, half - 1])
    numbers = np.array(data.draw(st.lists(near, max_size=60)), np.int64)
    block = coded(numbers, bits)
    np.testing.assert_array_equal(decoded(block, numbers.size, bits), numbers)


def test_the_code_is_the_documented_one():
    """k = 1: z = 0, 1, 2, 5 as 0 0, 0 1, 10 0, 110 1; -64 is z = 127, an escape and eight bits."""
    numbers = np.array([0, -1, 1, -3, 0, -1, 1, -3, 0, -64])
    bits = "00000001" + ("00011001101") * 2 + "00" + "1" * 12 + "01111111"
    bits += "0" * (-len(bits) % 8)
    assert "".join(f"{byte:08b}" for byte in coded(numbers, 8)) == bits


@pytest.mark.parametrize(
    ("change", "reason"),
    [(lambda b: b[:-1], "ends within"), (lambda b: np.append(b, np.uint8(0)), "1 bytes follow"),
     (lambda b: b[:0], "parameter"), (lambda b: np.append(np.uint8(8), b[1:]), "parameter 8")],
    ids=["cut", "longer", "empty", "parameter"],
)  # fmt: skip
def test_a_damaged_block_is_refused(change, reason):
    block = coded(np.arange(-20, 20), 8)
    with pytest.raises(ValueError, match=reason):
        decoded(change(block), 40, 8)


# --------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize("name", ["mac-128", "tiny-8", "edge-64", "odd-12x20"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"kernel": (1, 1)}, {"inputs": 24, "outputs": 24, "groups": 24}, {"inputs": 1},
     {"inputs": 24, "groups": 2, "outputs": 6}],
    ids=["3x3", "1x1", "depthwise", "one channel", "groups"],
)  # fmt: skip
def test_a_layer_loads_fewer_bytes_and_computes_the_same(name, fields):
    found, random = machine(name, **DECODER), np.random.default_rng(5)
    layer = small(convolution(found, random, size=(5, 6), **fields), random)
    _, run = compared(layer, found, random)
    _, plain = compared(layer, machine(name, **NO_DECODER), random)
    contents = ("weights", "diagonals")
    moved, whole = (
        sum(one.counters.loaded_bytes.get(content, 0) for content in contents)
        for one in (run, plain)
    )
    assert 0 < moved < whole
    assert least_of_layer(layer, found).constant_bytes <= moved


@pytest.mark.parametrize("groups", [1, 16])
def test_weights_of_a_layer_may_lie_as_they_are(groups):
    found, random = machine("mac-128", **DECODER), np.random.default_rng(6)
    layer = small(convolution(found, random, inputs=16, outputs=16, groups=groups), random)
    made, coded = compared(layer, found, random)
    choices = {**tiles_of(made.tiled), "uncoded": 1}
    other, run = compared(layer, found, random, choices=choices)
    _, expected = compared(layer, machine("mac-128", **NO_DECODER), random,
                           choices=tiles_of(made.tiled))  # fmt: skip
    assert tiles_of(other.tiled) == choices
    assert (run.cycles, run.counters) == (expected.cycles, expected.counters)
    assert sum(coded.counters.loaded_bytes.values()) < sum(run.counters.loaded_bytes.values())


def test_weights_of_four_bits_are_coded():
    found = machine("mac-128", **DECODER, **{"engines.matrix.weight_bits": 4})
    random = np.random.default_rng(2)
    layer = small(convolution(found, random, inputs=16, outputs=16), random, 0.4)
    _, run = compared(layer, found, random)
    assert run.counters.loaded_bytes["weights"] < 16 * 16 * 9 // 2


def test_what_does_not_get_smaller_lies_as_it_is():
    """The ends of the range only: every code is longer than the number."""
    random = np.random.default_rng(3)
    for overrides in (DECODER, {**DECODER, "engines.dma.decoded_bytes_per_cycle": 0.01}):
        found = machine("mac-128", **overrides)
        layer = convolution(found, random)
        layer.weights[:] = np.resize((-128, 127), layer.weights.shape)
        if overrides is not DECODER:  # small ones, which the decoder is too slow for
            layer = small(layer, random)
        made, run = compared(layer, found, random)
        assert not any(isinstance(op, Load) and op.coded_bytes for op in made.instructions)
        assert run.counters.loaded_bytes["weights"] % 64 == 0


def test_a_slow_decoder_is_waited_for():
    """Flash moves 0.94 bytes in a cycle: a decoder of one byte is what a load takes."""
    random = np.random.default_rng(4)
    cycles = {}
    for rate in (1, 8):
        fields = {**DECODER, "engines.dma.decoded_bytes_per_cycle": rate}
        found = machine("mac-128", **fields)
        random = np.random.default_rng(4)
        layer = small(
            convolution(found, random, inputs=64, outputs=64, kernel=(1, 1), size=(2, 2)), random
        )
        cycles[rate] = compared(layer, found, random)[1].cycles
    assert cycles[1] > cycles[8]


@settings(max_examples=4, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from([(8, 8), (8, 4), (16, 16)]),
    st.sampled_from([0.7, 8, 256]), st.integers(1, 40), st.integers(1, 40),
)  # fmt: skip
def test_any_tiles_of_any_array_compute_the_same(rows, columns, widths, rate, inputs, outputs):
    even = 2 if 4 in widths else 1
    found = machine(
        "odd-12x20",
        **{
            "engines.matrix.rows": rows * even,
            "engines.matrix.columns": columns * even,
            "engines.matrix.input_bits": widths[0],
            "engines.matrix.weight_bits": widths[1],
            "engines.dma.decoder": "rice",
            "engines.dma.decoded_bytes_per_cycle": rate,
        },
    )
    random = np.random.default_rng(rows + 10 * columns)
    layer = convolution(found, random, inputs=inputs, outputs=outputs, size=(3, 4))
    compare_points(small(layer, random, 1.0), found, random, 2)


# ------------------------------------------------------------------------- instructions, targets


def test_text_and_bytes_keep_the_size_of_a_block():
    found, random = machine("mac-128", **DECODER), np.random.default_rng(1)
    made = compile_layer(small(convolution(found, random), random), found)
    assert any(isinstance(op, Load) and op.coded_bytes for op in made.instructions)
    assert decode(made.program, found) == made.instructions
    assert assemble(disassemble(made.instructions)).instructions == made.instructions


@pytest.mark.parametrize("change", ["shorter", "longer", "damaged"])
def test_a_block_that_does_not_hold_the_numbers_is_a_fault(change):
    found, random = machine("mac-128", **DECODER), np.random.default_rng(1)
    made = compile_layer(small(convolution(found, random), random), found)
    number = next(n for n, op in enumerate(made.instructions) if getattr(op, "coded_bytes", 0))
    op, image = made.instructions[number], made.image.copy()
    by = {"shorter": -1, "longer": 1, "damaged": 0}[change]
    changed = list(made.instructions)
    changed[number] = dataclasses.replace(op, coded_bytes=op.coded_bytes + by)
    if change == "damaged":
        image[op.global_address * 64] = 255
    with pytest.raises(SimulationFault, match=f"instruction {number} .*its block of"):
        simulate(encode(changed, found), image, found)


def test_other_loads_are_not_coded():
    found = machine("mac-128", **DECODER)
    fields = {"scratchpad_address": 0, "global_address": 0, "x_size": 1, "coded_bytes": 9}
    with pytest.raises(InputError, match="activations are not coded"):
        encode([Load(memory="activations", **fields)], found)
    with pytest.raises(InputError, match="have no padding"):
        encode([Load(memory="weights", y_pad_before=1, **fields)], found)
    with pytest.raises(InputError, match="has no such field"):
        encode([Load(memory="weights", **fields)], machine("mac-128", **NO_DECODER))
    assert encode_micro([], found) == b""


def test_fields_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="decoded_bytes_per_cycle is missing"):
        machine("tiny-8", **{"engines.dma.decoder": "rice"})
    with pytest.raises(InputError, match="no field for coded weights"):
        machine("vta-16", **DECODER)
