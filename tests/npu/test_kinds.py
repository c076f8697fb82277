"""Random layers of all kinds on random machines: bit-equal, within memories, predicted exactly."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.test import TestOp

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine
from npu_machines import machines

from explorer.ir.requantization import Requantization, fixed_point
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.integer_normalizations import layer_norm_factors
from explorer.ir.types import QuantizedType, tensor_type
from explorer.npu import (
    Convolution,
    Elementwise,
    ElementwiseOperand,
    LayerError,
    NormalizationLayer,
    Placement,
    Rescaling,
    SoftmaxLayer,
    WindowLayer,
)
from explorer.npu.layers.averages import average
from explorer.npu.layers.lines import MAX_IMMEDIATE
from explorer.npu.layers.partition import merged, over_pictures
from explorer.npu.program.compiling import tile_layer
from explorer.npu.program.ir_layers import tiles_of

# Shrinking would run thousands of simulations.
PHASES = set(Phase) - {Phase.shrink}


def sizes(data, least=1, most=9):
    return tuple(data.draw(st.integers(least, most)) for _ in range(2))


def elementwise(data, found, random):
    how = Requantization(found.scheme, found.rounding)
    half = 1 << found.input_bits - 1
    # Products of 16 bits may have more than 32, and are no operation of a program.
    products = ["mul"] if found.input_bits < 16 else []
    kind = data.draw(st.sampled_from(["add", "sub", "max", "min", "scale", *products]))
    shape = (data.draw(st.integers(1, 20)), *sizes(data))
    other = (shape[0], *(size if data.draw(st.booleans()) else 1 for size in shape[1:]))

    def factor(ratio):
        made = fixed_point(np.array(ratio), how)
        return int(made.multipliers), int(made.shifts)

    def operand(shape, is_constant):
        return ElementwiseOperand(
            shape=shape,
            zero_point=data.draw(st.integers(-half // 2, half // 2)),
            factor=None if kind in ("mul", "scale") else factor(random.uniform(0.01, 0.5)),
            constant=random.integers(-half, half, shape) if is_constant else None,
        )

    lift = 31 - found.input_bits - 3 if kind in ("add", "sub") else 0
    ratio = {0: random.uniform(0.001, 0.4)}.get(lift, random.uniform(0.5, 2) / 2**lift)
    right = None if kind == "scale" else operand(other, data.draw(st.booleans()))
    return Elementwise(
        name="layer", kind=kind, left=operand(shape, False), right=right, how=how, lift=lift,
        factor=None if kind in ("max", "min") else factor(ratio),
        zero_point=data.draw(st.integers(-3, 3)), low=-half + 1, high=half - 1,
    )  # fmt: skip


def windows(data, found, random):
    half = 1 << found.input_bits - 1
    has_table = found.input_bits <= 8 and data.draw(st.booleans())
    if has_table and found.set == "vta":  # a sum of lines
        waves = np.sin(np.arange(-half, half) * data.draw(st.floats(0.5, 4)) / half)
        return WindowLayer(
            name="layer", input_shape=(data.draw(st.integers(1, 20)), *sizes(data)),
            bits=found.input_bits, table=np.rint((half - 1) * waves).astype(np.int64),
        )  # fmt: skip
    kernel = sizes(data, most=3)
    return WindowLayer(
        name="layer", input_shape=(data.draw(st.integers(1, 20)), *sizes(data, least=3)),
        bits=found.input_bits, kernel=kernel, strides=sizes(data, most=3),
        pads=tuple(data.draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)),
        table=random.integers(-half, half, 2 * half) if has_table else None,
    )  # fmt: skip


def pieces(data, found, random):
    """Channels of two inputs, mixed, that are repeated or spread."""
    counts = [data.draw(st.integers(1, 12)) for _ in range(2)]
    height, width = sizes(data, least=2, most=6)
    down, right = sizes(data, most=2)
    outputs = data.draw(st.integers(1, 20))
    layers = []
    for y in range(down):
        for x in range(right):
            chosen = random.integers(0, sum(counts), outputs)
            weights = np.eye(sum(counts), dtype=np.int64)[chosen][:, :, None, None]
            scaling = Rescaling(how=None, multipliers=np.ones(outputs), shifts=np.zeros(outputs))
            layers.append((
                Convolution(
                    name="piece", input_shape=(sum(counts), height, width), weights=weights,
                    bias=np.zeros(outputs, np.int64), rescaling=scaling, parts=tuple(counts),
                    placement=Placement(size=(height * down, width * right), offset=(y, x),
                                        steps=(down, right)),
                ), (0, 1),
            ))  # fmt: skip
    return merged("layer", layers)


def wide(data, found, random):
    """Sums that stay, of weights that have a bit more than the array multiplies."""
    half = 1 << found.weight_bits - 1
    layer = convolution(found, random, inputs=data.draw(st.integers(1, 12)),
                        outputs=data.draw(st.integers(1, 12)), size=sizes(data, least=3),
                        kernel=sizes(data, most=3), pads=(1, 0, 0, 1), rescaling=None)  # fmt: skip
    weights = random.integers(-2 * half, 2 * half, layer.weights.shape)
    return replace(layer, weights=weights)


def averages(data, found, random):
    """Windows that may reach into the padding, of numbers divided as whole ones are."""
    assume(found.set == "full")  # shifts alone divide by nothing exactly
    half, window = 1 << found.input_bits - 1, sizes(data, most=3)
    kind = QuantizedType.get(IntegerType(found.input_bits), [0.1], [0])
    shape = (1, data.draw(st.integers(1, 20)), *sizes(data, least=3))
    op = IntegerAverageOp.make(
        [TestOp(result_types=[tensor_type(kind, shape)]).results[0]],
        window=list(window), strides=list(sizes(data, most=3)), low=-half + 1, high=half - 1,
        pads=[data.draw(st.integers(0, window[i % 2] - 1)) for i in range(4)],
    )  # fmt: skip
    return average(op, "layer")


def pictures(data, found, random):
    """Convolutions of pictures of a batch, which may be padded each by itself."""
    kernel = sizes(data, most=3)
    return over_pictures(
        convolution(
            found, random, inputs=data.draw(st.integers(1, 12)), size=sizes(data, least=3),
            outputs=data.draw(st.integers(1, 12)), kernel=kernel, strides=sizes(data, most=2),
            pads=tuple(data.draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)),
        ),
        data.draw(st.integers(2, 4)),
    )  # fmt: skip


def softmax(data, found, random):
    """Of any numbers and scales; rows of one number, and of more than a block has, too."""
    assume("softmax" in found.operations and found.input_bits <= 8)
    half = 1 << found.input_bits - 1
    exponentials = np.rint(np.exp(-random.uniform(0, 0.3) * np.arange(2 * half)) * 2**30)
    # Up to every share in the result's own steps, and more steps than it has.
    ratio = random.uniform(0.5, 3) * 2 * half / 2**30
    made = fixed_point(np.array(ratio), Requantization("multiplier_shift", "nearest_up"))
    return SoftmaxLayer(
        name="layer", input_shape=(data.draw(st.integers(1, 40)), *sizes(data)),
        bits=found.input_bits, exponentials=exponentials.astype(np.int64),
        multiplier=int(made.multipliers), shift=int(made.shifts),
        zero_point=data.draw(st.integers(-half, half - 1)), low=-half, high=half - 1,
    )  # fmt: skip


def normalization(data, found, random):
    """Of any factors, with and without a mean that is taken off; rows of one number, too."""
    assume("normalize" in found.operations)
    half, channels = 1 << found.input_bits - 1, data.draw(st.integers(1, 40))
    lowest = max(-half, -MAX_IMMEDIATE)  # what is taken off is an immediate of 16 bits
    kind = QuantizedType.get(IntegerType(found.input_bits), [0.1], [0])
    multipliers, biases, bits = layer_norm_factors(
        random.normal(0, data.draw(st.sampled_from([0.01, 5])), channels),
        random.normal(0, 5, channels), channels, kind,
    )  # fmt: skip
    return NormalizationLayer(
        name="layer", input_shape=(channels, *sizes(data)), bits=found.input_bits,
        multipliers=multipliers.astype(np.int64), biases=biases, shift=bits,
        epsilon=int(random.integers(1, data.draw(st.sampled_from([2, 2**40])))),
        input_zero_point=data.draw(st.integers(lowest, half - 1)),
        centered=data.draw(st.booleans()),
        zero_point=data.draw(st.integers(-half, half - 1)), low=-half, high=half - 1,
    )  # fmt: skip


KINDS = {
    "averages": averages,
    "pictures": pictures,
    "elementwise": elementwise,
    "windows": windows,
    "pieces": pieces,
    "wide": wide,
    "softmax": softmax,
    "normalization": normalization,
}


def compared_random(data, kind, seed):
    """Any layer on any machine, or the refusal of one that does not fit."""
    found, random = data.draw(machines()), np.random.default_rng(seed)
    layer = KINDS[kind](data, found, random)
    try:
        compared(layer, found, random, buffers=data.draw(st.sampled_from([None, 1, 2])))
    except LayerError as error:
        event("it does not fit")
        assert "fit" in str(error)  # noqa: PT017  the other ending that is right


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=4, phases=PHASES)
def test_random_layers_of_every_kind(kind, data, seed):
    compared_random(data, kind, seed)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60, phases=PHASES)
def test_many_random_layers_of_every_kind(kind, data, seed):
    compared_random(data, kind, seed)


@pytest.mark.parametrize("target", ["mac-128", "tiny-8", "vta-16"])
def test_pieces_have_the_tiles_that_each_has_by_itself(target):
    """They read one or both of two channels of different blocks, and two parts at once."""
    found, ones = machine(target), np.eye(40, dtype=np.int64)
    pieces = []
    for _number, rows in enumerate(([0], [9], [17, 3], [39], [1], [30, 31], [8, 0])):
        for parts in ((), (24, 16)):
            scaling = Rescaling(how=None, multipliers=np.ones(1), shifts=np.zeros(1))
            pieces.append((
                Convolution(
                    name="piece", input_shape=(40, 2, 9), bias=np.zeros(1, np.int64),
                    weights=ones[rows].sum(axis=0)[None, :, None, None], rescaling=scaling,
                    parts=parts, placement=Placement(size=(28, 9), offset=(len(pieces) * 2, 0)),
                ), (0, 1) if parts else (2,),
            ))  # fmt: skip
    layer = merged("layer", pieces)
    tiled = tile_layer(layer, found)
    for piece, mine in zip(layer.pieces, tiled.tiled, strict=True):
        alone = tile_layer(piece.layer, found, buffers=tiled.buffers)
        assert tiles_of(mine) == tiles_of(alone) and mine.regions == alone.regions
        assert mine.bands == alone.bands and mine.layer.placement == piece.layer.placement
