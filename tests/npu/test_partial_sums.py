"""Sums over all positions in parts, which the array makes at once."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compare_points, compared, convolution, machine
from test_elementwise import NPUS, layer_of

from explorer.npu import Rescaling
from explorer.npu.layers.combining import combined_with
from explorer.npu.tiling.convolution import TiledLayer, cuttable
from explorer.targets.npu.instructions import Multiply, Vector


def total(found, random, channels, size, **fields):
    """An average over all positions: depthwise, of weights of 1."""
    layer = convolution(
        found, random, channels, channels, size, kernel=size, groups=channels, **fields
    )
    return replace(layer, weights=np.ones_like(layer.weights))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("size", [(8, 8), (25, 5), (1, 40), (3, 2)])
@pytest.mark.parametrize("channels", [3, 8, 45])
@pytest.mark.parametrize("name", NPUS)
def test_parts_add_up_to_the_sum(name, channels, size):
    found, random = machine(name), np.random.default_rng(1)
    made, _ = compared(total(found, random, channels, size), found, random)
    assert isinstance(made.tiled, TiledLayer)
    count = made.tiled.partials
    if name not in ("tiny-8", "edge-64"):
        assert count == 1
    elif channels > 3 and size == (25, 5):
        assert count > 3
    if count == 1:
        return
    taps, products = size[0] * size[1], [
        op for op in made.instructions if isinstance(op, Multiply) and not op.reset
    ]  # fmt: skip
    assert {op.batch for op in products} == {count, taps % count} - {0}
    steps = sum(op.outer * op.inner * (op.micro_end - op.micro_begin) for op in products)
    assert steps == -(-taps // count) * -(-channels // found.rows)
    adds = [op for op in made.instructions if isinstance(op, Vector) and op.operation == "add"]
    assert {op.outer for op in adds} == {count - 1}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", ["tiny-8", "edge-64"])
def test_any_tiles_add_up(name, seed):
    found, random = machine(name), np.random.default_rng(seed)
    size = tuple(int(n) for n in random.integers(3, 12, 2))
    layer = total(found, random, int(random.integers(1, 150)), size)
    compare_points(layer, found, random, 4)


@pytest.mark.parametrize("name", ["tiny-8", "edge-64"])
def test_sums_of_extremes_divided_and_combined(name):
    """All inputs at one end, sums that are divided, and what is added to them."""
    found, random = machine(name), np.random.default_rng(2)
    layer = total(found, random, 20, (16, 16))
    assert cuttable(layer, found).partials > 1
    for value in (-128, 127):
        compared(layer, found, random, [np.full(layer.input_shape, value)])
    none = np.zeros(20, np.int64)
    divided = Rescaling(how=None, multipliers=none, shifts=none, divisor=256)
    plain = replace(layer, rescaling=divided, bias=none, input_zero_point=0)
    compared(plain, found, random)
    reader = layer_of(found, "add", (layer.output_shape, layer.output_shape))
    compared(combined_with(layer, reader, 0), found, random)


def test_other_layers_have_one_sum():
    found, random = machine("tiny-8"), np.random.default_rng(3)
    layer = total(found, random, 16, (8, 8))
    assert cuttable(layer, found).partials > 1 and len(cuttable(layer, found).bands) == 1
    halved = layer.weights.copy()
    halved[:, :, ::2] = 0
    smaller = replace(layer, weights=np.ones((16, 1, 7, 8), np.int64))  # two positions
    for other in (
        replace(layer, weights=halved),
        replace(layer, weights=2 * layer.weights),
        replace(layer, rescaling=None),
        replace(layer, weights=layer.weights[:, :, :4], dilations=(2, 1), pads=(0, 0, -1, 0)),
        smaller,
    ):
        assert cuttable(other, found).partials == 1
        compared(other, found, random)
