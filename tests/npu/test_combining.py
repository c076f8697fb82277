"""Convolutions that combine their outputs with another tensor before they are stored."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compare_points, compared, convolution, machine, rescaling
from test_elementwise import NPUS, layer_of

from explorer.ir.requantization import fixed_point
from explorer.npu import Convolution, Elementwise
from explorer.npu.layers.combining import combined_with, combining_problem
from explorer.npu.layers.fields import described
from explorer.npu.layers.fields import layer_of as layer_from
from explorer.npu.layers.layer import Layer
from explorer.npu.search.searching import search_layer
from explorer.targets.npu.instructions import Load

KINDS = ["add", "sub", "mul", "max", "min"]


def combined(found, random, kind="add", side=0, outputs=37, **fields):
    made = convolution(found, random, outputs=outputs, **fields)
    reader = layer_of(found, kind, (made.output_shape, made.output_shape))
    assert combining_problem(made, reader, side) == ""
    return made, reader, combined_with(made, reader, side)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NPUS)
def test_one_layer_makes_the_numbers_of_two(name, kind, side):
    found, random = machine(name), np.random.default_rng(3)
    made, reader, layer = combined(found, random, kind, side, pads=(1, 1, 1, 1))
    x = random.integers(-128, 128, layer.inputs[0].shape)
    other = random.integers(-128, 128, made.output_shape)
    operands = [made.run(x), other]
    np.testing.assert_array_equal(layer.run(x, other), reader.run(*operands[:: 1 - 2 * side]))
    compared(layer, found, random, [x, other])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("form", ["pointwise", "depthwise", "strided", "wide weights", "parts"])
@pytest.mark.parametrize("name", NPUS)
def test_every_form_of_a_convolution_combines(name, form):
    found, random = machine(name), np.random.default_rng(4)
    fields = {
        "pointwise": {"kernel": (1, 1)},
        "depthwise": {"inputs": 37, "groups": 37},
        "strided": {"strides": (2, 2), "pads": (0, 1, 1, 0)},
        "wide weights": {"kernel": (1, 1), "size": (3, 5)},
        "parts": {"parts": (8, 12)},
    }[form]
    _, _, layer = combined(found, random, **fields)
    if form == "wide weights":
        half = 1 << found.weight_bits - 1
        layer = replace(layer, weights=random.integers(-half, half + 1, layer.weights.shape))
        layer.weights[0, 0] = half
    compared(layer, found, random)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NPUS)
def test_all_pairs_of_bytes_are_combined_bit_by_bit(name):
    """A convolution that makes each byte, with each byte next to it: ends of ranges and ties."""
    found, random = machine(name), np.random.default_rng(5)
    outputs = 2
    scaling = rescaling(found, outputs, random, zero_point=0, low=-128, high=127)
    assert scaling.how is not None
    one = fixed_point(np.ones(outputs), scaling.how)
    scaling = replace(scaling, multipliers=one.multipliers, shifts=one.shifts)
    made = replace(
        convolution(found, random, 2, outputs, (256, 256), (1, 1), zero_point=0, rescaling=scaling),
        weights=np.eye(2, dtype=np.int64)[:, :, None, None], bias=np.zeros(2, np.int64),
    )  # fmt: skip
    every = np.arange(-128, 128)
    x = np.broadcast_to(every[None, :, None], (2, 256, 256))
    other = np.broadcast_to(every[None, None, :], (2, 256, 256))
    assert (made.run(x) == x).all()
    reader = layer_of(found, "add", (made.output_shape, made.output_shape), low=-128, high=127)
    layer = combined_with(made, reader, 1)
    np.testing.assert_array_equal(layer.run(x, other), reader.run(other, x))
    results = layer.run(x, other)
    assert len(np.unique(results)) > 100
    compared(layer, found, random, [np.array(x), np.array(other)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", NPUS)
def test_any_tiles_combine(name, seed):
    """Also where the queue that loads may not know when a buffer is free."""
    found, random = machine(name), np.random.default_rng(seed)
    _, _, layer = combined(found, random, size=(7, 6), outputs=int(random.integers(9, 60)))
    compare_points(layer, found, random, 3)


def test_both_queues_bring_the_other_tensor():
    found, random = machine("tiny-8"), np.random.default_rng(6)
    _, _, layer = combined(found, random, size=(8, 8))
    sizes = {
        "rows": 2,
        "columns": 6,
        "outputs": 5,
        "inputs": 5,
        "order": "outputs",
        "constants": "layer",
        "together": 1,
        "weight_buffers": 1,
        "sum_buffers": 2,
    }
    ways = {}
    for buffers in (2, 3):
        made, _ = compared(layer, found, random, choices={**sizes, "input_buffers": buffers})
        loads = [op for op in made.instructions if isinstance(op, Load) and op.memory == "widened"]
        ways[buffers] = {op.prefetch for op in loads}
    assert ways == {2: {True}, 3: {False}}


def test_fields_bring_the_layer_back():
    found, random = machine("odd-12x20"), np.random.default_rng(7)
    _, _, layer = combined(found, random, "sub", 1)
    plain = described(layer)
    again = layer_from("layer", plain, {"Convolution": type(layer)})
    assert isinstance(again, Convolution)
    assert again.combined == layer.combined and again.combined_side == 1
    x = [random.integers(-128, 128, tensor.shape) for tensor in layer.inputs]
    np.testing.assert_array_equal(again.run(*x), layer.run(*x))


def test_what_cannot_be_combined_is_refused_with_the_reason():
    found, random = machine("tiny-8"), np.random.default_rng(8)
    made, reader, layer = combined(found, random)
    assert reader.right is not None
    one_row = replace(reader.right, shape=(37, 1, 1))
    constant = replace(reader.right, constant=np.zeros(reader.right.shape, np.int64))
    cases: list[tuple[Layer, Elementwise, str]] = [
        (reader, reader, "no convolution"),
        (replace(made, rescaling=None), reader, "wide sums"),
        (layer, reader, "another tensor"),
        (made, replace(reader, right=None, kind="scale"), "one tensor"),
        (made, replace(reader, right=one_row), "several positions"),
        (made, replace(reader, right=constant), "constant"),
        (made, replace(reader, right=replace(reader.right, is_wide=True)), "wide sums"),
    ]
    for what, read, words in cases:
        assert words in combining_problem(what, read, 0)


def test_a_search_finds_tiles_at_least_as_good_as_the_rule():
    random = np.random.default_rng(9)
    for name, side in itertools.product(("mac-128", "edge-64"), (0, 1)):
        found = machine(name)
        _, _, layer = combined(found, random, side=side, size=(16, 16))
        record = search_layer(layer, found).record
        assert record is not None and record.bound <= record.cycles
