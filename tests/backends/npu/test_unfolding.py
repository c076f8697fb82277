"""Convolutions of few channels that read neighbouring positions as channels."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
from chains import measured, saved

from explorer.errors import InputError
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import from_attribute, identity_of

PASS = "unfold-inputs"


@pytest.fixture(scope="module")
def stem(tmp_path_factory):
    """By target and decisions what came of a network with a window of 7 x 7 over a tensor that the
    machine makes."""
    random = np.random.default_rng(0)
    shapes = {"i": (3, 3, 1, 1), "a": (32, 3, 7, 7), "b": (8, 32, 1, 1)}
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "i"], ["s"]),
        helper.make_node("Conv", ["s", "a"], ["c"], strides=[2, 2], pads=[3, 3, 3, 3]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["d"]),
    ]
    folder = tmp_path_factory.mktemp("stem")
    model = saved(folder, nodes, weights, "d", (1, 3, 14, 12), random)
    found = {}

    def run(target, **decisions):
        key = target, *sorted(decisions.items())
        if key not in found:
            found[key] = measured(model, target, **decisions)
        return found[key]

    return run


def layers(c, target, level=PASS):
    (function,) = functions_on(c[level].after.program, target)
    return {identity_of(op): op for op in function.body.block.ops if isinstance(op, LayerOp)}


def first_site(c):
    return next(event.site for event in c[PASS].events)


@pytest.mark.parametrize("target", ["vta-16", "mac-128"])
def test_two_layers_take_fewer_cycles_and_compute_the_same(stem, target):
    c, found, outputs = stem(target)
    _, whole, expected = stem(target, **{PASS: False})
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert found.cycles < 0.8 * whole.cycles
    (event,) = [event for event in c[PASS].events if event.applied]
    made = layers(c, target)
    moving, summing = made[f"{event.site}.unfolded"], made[event.site]
    assert summing.data[0] is moving.output
    assert moving.macs() == 0 and summing.macs() == layers_before(c, target)[event.site].macs()
    assert {record.layer for record in found.searches} == {one.operation for one in found.layers}


def layers_before(c, target):
    return layers(c, target, "tile-layers")


def test_every_level_is_executed(stem):
    c, _, _ = stem("vta-16")
    x = {"x": np.random.default_rng(3).normal(0, 1, (1, 3, 14, 12)).astype(np.float32)}
    expected = c["place-on-device"].after.run(x)
    for level in (PASS, "lay-out-constants", "emit-instructions"):
        after = c[level].after
        values = after.run(x)
        for name in after.quantized & expected.keys():
            np.testing.assert_array_equal(values[name], expected[name])


def test_an_array_of_four_rows_keeps_its_layer(stem):
    c, _, _ = stem("edge-64")
    assert not [event for event in c[PASS].events if event.applied]


def test_a_decision_names_the_neighbours(stem):
    c, found, outputs = stem("vta-16")
    site = first_site(c)
    address = f"{PASS}/unfold/{site}"
    (knob,) = [knob for knob in c.knobs if knob.address == address]
    assert knob.value == "2x2" and {"none", "7x1", "1x2"} <= set(knob.choices)
    other, more, same = stem("vta-16", **{address: "7x1"})
    np.testing.assert_array_equal(same["y"], outputs["y"])
    assert more.cycles > found.cycles
    assert layers(other, "vta-16")[site].get("strides") == (1, 2)
    for value in ("none", False):
        c, _, _ = stem("vta-16", **{address: value})
        (event,) = [event for event in c[PASS].events if event.site == site]
        assert event.reason == "declined by an override"
        assert f"{site}.unfolded" not in layers(c, "vta-16")
    with pytest.raises(InputError, match="cannot be '5x5'") as caught:
        stem("vta-16", **{address: "5x5"})
    assert "none, " in caught.value.hint


def test_tiles_of_both_layers_are_decisions(stem):
    c, _, _ = stem("vta-16")
    site = first_site(c)
    c, _, _ = stem("vta-16", **{f"{PASS}/{site}.unfolded/rows": 2, f"{PASS}/{site}/rows": 3})
    made = layers(c, "vta-16", "group-layers")
    assert from_attribute(made[site].tiles)["rows"] == 3
    assert from_attribute(made[f"{site}.unfolded"].tiles)["rows"] == 2
    c, _, _ = stem("vta-16", **{f"tile-layers/{site}/rows": 3})
    (event,) = [event for event in c[PASS].events if event.site == site]
    assert event.reason == f"the tiles of {site} are decided"
