"""What layers move and take at least."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))
from npu_layers import convolution, machine

from explorer.npu import LayerError, MatrixProduct, compile_layer, predict
from explorer.npu.cost.bounds import least_of_layer, product_bytes

NO_DECODER = {"engines.dma.decoder": "none"}


@given(
    st.sampled_from(["vta-16", "edge-64", "tiny-8", "mac-128", "odd-12x20"]),
    st.integers(1, 40), st.integers(1, 40), st.sampled_from([(1, 1), (3, 3)]),
    st.tuples(st.integers(4, 9), st.integers(4, 9)), st.sampled_from([1, 2, 3]),
    st.integers(0, 2), st.booleans(), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_no_layer_moves_fewer_bytes(name, inputs, outputs, kernel, size, stride, pad, alone, seed):
    found, random = machine(name), np.random.default_rng(seed)
    groups = inputs if alone else 1
    layer = convolution(
        found, random, inputs=inputs, outputs=groups * outputs if alone else outputs,
        kernel=kernel, size=size, strides=(stride, stride), pads=(pad, pad, pad, 0), groups=groups,
    )  # fmt: skip
    try:
        moved = predict(compile_layer(layer, found).tiled).traffic
    except LayerError:
        return
    least = least_of_layer(layer, found)
    loaded, stored = moved.loaded_bytes, moved.stored_bytes
    assert least.constant_bytes <= loaded.get("weights", 0) + loaded.get("diagonals", 0)
    assert least.read_bytes <= loaded["activations"]
    assert least.written_bytes <= sum(stored.values())
    assert least.traffic_bytes <= sum(loaded.values()) + sum(stored.values())


def test_the_bound_of_a_dense_layer_is_its_numbers():
    found, random = machine("mac-128", **NO_DECODER), np.random.default_rng(0)
    layer = convolution(found, random, inputs=6, outputs=5, size=(8, 9), strides=(2, 2),
                        kernel=(1, 1))  # fmt: skip
    least = least_of_layer(layer, found)
    assert (least.constant_bytes, least.read_bytes, least.written_bytes) == (30, 6 * 4 * 5, 100)
    assert (least.product_bytes, least.traffic_bytes) == (0, 250)
    ones = dataclasses.replace(layer, weights=np.ones_like(layer.weights))
    assert least_of_layer(ones, found).constant_bytes == 0


def test_a_large_product_moves_more_than_its_operands():
    small = machine("mac-128", **NO_DECODER, **{"memories.buffers.size_bytes": 3072,
                                                "memories.static.size_bytes": 1024})  # fmt: skip
    assert product_bytes(1024, 1024, 1024, small) == int(2 * 1024**3 / 64 - 2 * 4096)
    assert product_bytes(8, 8, 8, small) == 0
    layer = MatrixProduct(name="product", left_shape=(1024, 1, 1024), right_shape=(1024, 1, 1024))
    least = least_of_layer(layer, small)
    assert least.product_bytes > least.read_bytes + least.written_bytes


@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 0, 0, 0), (-1, 0, 0, -2)])
def test_rows_that_no_output_needs_are_not_counted(pads):
    found, random = machine("mac-128"), np.random.default_rng(0)
    layer = convolution(found, random, inputs=1, outputs=1, kernel=(3, 3), size=(7, 8), pads=pads,
                        strides=(4, 4))  # fmt: skip
    x = random.integers(-9, 9, layer.input_shape)
    needed = 0
    for place in np.ndindex(layer.input_shape):
        other = x.copy()
        other[place] += 1
        needed += not np.array_equal(layer.sums(x), layer.sums(other))
    weights = np.count_nonzero(layer.weights)
    assert weights == layer.weights.size
    assert least_of_layer(layer, found).read_bytes == needed
