"""Chains of convolutions that run slice by slice."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from chains import chain, measured, separable

import explorer
from explorer.backends.npu.slicing import sliced, slices_of
from explorer.errors import InputError
from explorer.npu import Convolution
from explorer.passes.lower.bands import NotInBands
from explorer.targets import load_target

SLICED = {"slice-layers/chain/conv5": "depthwise2:3:recompute"}


@st.composite
def chains_of_layers(draw):
    """Wide sums, so that no difference is clipped away."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (2, draw(st.integers(1, 19)), draw(st.integers(1, 5)))
    found = []
    for index in range(draw(st.integers(2, 4))):
        kernel = draw(st.sampled_from([(1, 1), (3, 3), (2, 1), (5, 2)]))
        layer = Convolution(
            name=f"layer{index}", input_shape=shape, rescaling=None,
            weights=random.integers(-128, 128, (2, shape[0], *kernel)),
            bias=random.integers(-9, 9, 2), input_zero_point=int(random.integers(-128, 128)),
            strides=(draw(st.integers(1, 3)), draw(st.integers(1, 2))),
            dilations=(draw(st.integers(1, 2)), 1),
            pads=(draw(st.integers(-1, 3)), 1, draw(st.integers(-1, 3)), 2),
        )  # fmt: skip
        if min(layer.output_shape) < 1:
            break
        found.append(layer)
        shape = layer.output_shape
    return found, random


@settings(max_examples=150, deadline=None)
@given(chains_of_layers(), st.sampled_from([2, 2, 3, 4, 7]))
def test_slices_compute_what_their_layers_compute(made, count):
    layers, random = made
    if not layers:
        return
    x = random.integers(-128, 128, layers[0].input_shape)
    whole = x
    for layer in layers:
        whole = layer.run(whole)
    try:
        slices = slices_of(layers, count)
    except NotInBands:  # few rows, or windows in the padding alone
        return
    found, lines = np.zeros_like(whole), []
    for rows in slices:
        value = x
        for place, layer in enumerate(layers):
            is_last = layer is layers[-1]
            one = sliced(layer, rows[place], rows[place + 1], not place, is_last, "slice")
            assert one.pictures[0].shape[1] == value.shape[1]
            value = one.run(value)
            assert is_last or value.shape[1] == len(rows[place + 1])
        lines += rows[-1]
        found += value
    np.testing.assert_array_equal(found, whole)
    assert lines == list(range(whole.shape[1]))  # each once


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Its tensors have an odd number of rows."""
    return separable(tmp_path_factory.mktemp("separable"), 8, (9, 4), 1)


@pytest.mark.parametrize(
    "target", ["mac-128", *(pytest.param(t, marks=pytest.mark.sweep)
                            for t in ("tiny-8", "edge-64", "odd-12x20", "vta-16", "vta-32"))]
)  # fmt: skip
def test_a_sliced_chain_is_equal_to_the_bit_at_every_level(model, target):
    first, last = ("depthwise3", "conv6") if "vta" in target else ("depthwise2", "conv5")
    chosen = {f"slice-layers/chain/{last}": f"{first}:3:recompute"}
    c, found, _ = measured(model, target, **chosen)
    assert c.accuracy(model[2]).report.bit_exact  # after every pass, and in the program
    names = [layer.operation for layer in found.layers]
    slices = [f"{name}.slice{number}" for number in range(3) for name in (first, last)]
    assert names[:6] == [*slices[:5], last] and len(names) == 7
    assert {record.layer for record in found.searches} <= set(names)
    (event,) = c["slice-layers"].events
    assert event.rule == "slice" and event.site == last


@pytest.mark.sweep
def test_a_chain_that_does_not_fit_moves_fewer_bytes_in_slices(tmp_path):
    model = separable(tmp_path, 8, (20, 10), 1)
    target = load_target("mac-128", {"memories.buffers.size_bytes": 3072})
    _, plain, expected = measured(model, target)
    _, found, outputs = measured(model, target, **SLICED)
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert found.bytes < plain.bytes
    assert max(map(len, found.groups)) > max(map(len, plain.groups))


def test_every_end_of_a_chain_is_a_knob(model):
    path, table, _ = model
    c = explorer.compile(path, "mac-128", quantization=table)
    ends = [knob.address for knob in c.knobs if knob.address.startswith("slice-layers/chain/")]
    assert ends == ["slice-layers/chain/conv5"]
    assert not c["slice-layers"].changed


@pytest.mark.parametrize(
    ("last", "value", "reason"),
    [
        ("conv5", "depthwise2:2:roll", "computed again"),
        ("conv5", "conv5:2:recompute", "two layers or more"),
        ("depthwise2", "conv5:2:recompute", "no layer that depthwise2 is made from"),
        ("conv5", "depthwise2:10:recompute", "9 rows make no 10 slices"),
        ("conv5", "depthwise2:1:recompute", "9 rows make no 1 slices"),
        ("conv5", "conv9", "cannot be 'conv9'"),
        ("conv5", 4, "cannot be 4"),
    ],
)
def test_other_chains_are_refused_with_the_reason(model, last, value, reason):
    path, table, _ = model
    decisions = {f"slice-layers/chain/{last}": value}
    with pytest.raises(InputError, match=re.escape(reason)):
        explorer.compile(path, "mac-128", quantization=table, decisions=decisions)


def test_a_sum_is_no_part_of_a_chain(tmp_path):
    path, table, _ = chain(tmp_path, count=3)
    decisions = {"slice-layers/chain/conv10": "conv8:2:recompute"}
    with pytest.raises(InputError, match="add2 reads several tensors"):
        explorer.compile(path, "mac-128", quantization=table, decisions=decisions)
