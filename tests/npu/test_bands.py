"""Blocks of zero weights are left out where that takes fewer cycles."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine

from explorer.npu.search.searching import search_layer
from explorer.npu.tiling import bands as module
from explorer.npu.tiling.bands import bands


def sparse(found, kept, size=(6, 6), channels=64):
    """A product of which each block of outputs reads a part of the inputs."""
    random = np.random.default_rng(1)
    layer = convolution(found, random, channels, channels, size, (1, 1))
    weights = layer.weights.copy()
    for first in range(0, channels, found.columns):
        left = random.permutation(channels)[: int(channels * (1 - kept))]
        weights[first : first + found.columns, left // found.rows * found.rows] = 0
        for block in random.permutation(channels // found.rows)[
            : int(channels // found.rows * (1 - kept))
        ]:
            weights[
                first : first + found.columns, block * found.rows : (block + 1) * found.rows
            ] = 0
    weights[np.abs(weights) < 90] = 0
    return replace(layer, weights=weights)


@pytest.mark.parametrize("name", ["tiny-8", "mac-128", "odd-12x20", "vta-16"])
@pytest.mark.parametrize("kept", [0.2, 0.6])
def test_the_cheaper_bands_are_taken_and_make_the_same_numbers(name, kept, monkeypatch):
    found, random = machine(name), np.random.default_rng(2)
    layer = sparse(found, kept)  # bands are chosen by bytes of weights as they are
    assert layer.is_sparse
    chosen, cycles = bands(layer, found), {}
    x = [random.integers(-128, 128, layer.input_shape)]
    for made in {module._bands(layer, found, way) for way in (True, False)}:
        for user in ("convolution", "layouts"):
            monkeypatch.setattr(f"explorer.npu.tiling.{user}.bands", lambda *_, made=made: made)
        compared(layer, found, random, x)
        record = search_layer(layer, found).record
        assert record is not None
        cycles[made] = record.cycles
    assert len(cycles) == 2 and cycles[chosen] <= 1.1 * min(cycles.values()), cycles.values()


def test_few_blocks_that_are_left_keep_bands():
    found = machine("tiny-8")
    many, few = sparse(found, 0.9), sparse(found, 0.05, channels=128)
    assert len(bands(many, found)) == 1 < len(bands(few, found))
    for layer in (many, few):
        compared(layer, found, np.random.default_rng(3))
