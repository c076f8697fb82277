"""Tensors that stay in the scratchpad of activations from layer to layer."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chains import TARGETS, chain, measured, separable

from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.network import network_of
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import from_attribute, identity_of
from explorer.targets import load_target
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.machine import describe


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_that_stay_change_no_number_and_save_traffic(residual, target):
    _, kept, outputs = residual(target)
    _, plain, expected = residual(target, **{"group-layers": False})
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert kept.cycles < plain.cycles and kept.bytes < plain.bytes
    assert max(map(len, kept.groups)) > 1 and {len(group) for group in plain.groups} == {1}
    assert sorted(name for group in kept.groups for name in group) == sorted(
        layer.operation for layer in kept.layers
    )
    assert any(layer.kept_bytes for layer in kept.layers)
    assert not any(layer.kept_bytes for layer in plain.layers)


@pytest.mark.parametrize("target", TARGETS)
def test_programs_with_tensors_that_stay_pass_all_checks(residual, target):
    c, _, _ = residual(target)
    machine = describe(load_target(target))
    (function,) = functions_on(c.final.program, machine.name)
    network = network_of(function, c.final.weights, machine)
    inputs = [np.zeros(network.values[name].stored.logical_shape, np.int8)
              for name in network.arguments]  # fmt: skip
    assert check_program(network.program, network.image_with(inputs), machine) == []
    assert any(getattr(op, "on_chip", False) for op in network.instructions)


@pytest.mark.parametrize("level", ["group-layers", "assign-addresses", "emit-instructions"])
def test_every_level_with_tensors_on_the_chip_is_executed(residual, level):
    c, _, _ = residual("tiny-8")
    after, top = c[level].after, c["place-on-device"].after
    random = np.random.default_rng(3)
    x = {"x": random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)}
    values, expected = after.run(x), top.run(x)
    assert after.quantized
    for name in after.quantized:
        np.testing.assert_array_equal(values[name], expected[name])


def layers_in(c, target="tiny-8"):
    (function,) = functions_on(c["group-layers"].after.program, target)
    return [op for op in function.body.block.ops if isinstance(op, LayerOp)]


def test_tensors_and_tiles_of_one_layer_share_no_byte(residual):
    c, _, _ = residual("tiny-8")
    for op in layers_in(c):
        if op.on_chip is not None:
            assert op.get("room") <= op.get("on_chip")
    assert all(op.room is not None for op in layers_in(c))


def test_one_tensor_can_be_sent_to_global_memory(residual):
    c, before, _ = residual("tiny-8")
    kept = [event for event in c["group-layers"].events if event.rule == "keep"]
    name = kept[0].site
    c, after, _ = residual("tiny-8", **{f"group-layers/keep/{name}": False})
    (event,) = [e for e in c["group-layers"].events if e.rule == "keep" and e.site == name]
    assert event.reason and after.bytes > before.bytes


def test_a_tensor_without_room_is_declined_with_the_reason(tmp_path):
    model = chain(tmp_path, size=40, count=2)
    c, found, _ = measured(model, "odd-12x20")
    declined = [e.reason for e in c["group-layers"].events if e.reason]
    assert declined and all("fit" in reason or "cycles" in reason for reason in declined)
    assert {len(group) for group in found.groups} == {1}


def test_layers_with_tiles_in_other_scratchpads_need_no_room(residual):
    c, _, _ = residual("odd-12x20")
    layers = layers_in(c, "odd-12x20")
    sums = [op for op in layers if op.name == "npu.elementwise"]
    assert any(op.on_chip is not None for op in layers)
    assert sums and all(op.room is None for op in sums)
    assert any(op.room is not None for op in layers)


def test_chosen_tiles_stay_as_they_are(residual):
    c, _, _ = residual("tiny-8")
    name = identity_of(layers_in(c)[0])
    decision = {f"tile-layers/{name}/rows": 3}
    c, found, _ = residual("tiny-8", **decision)
    assert from_attribute(layers_in(c)[0].tiles)["rows"] == 3
    assert max(map(len, found.groups)) > 1


@pytest.mark.parametrize(
    ("channels", "size"), [(32, (20, 10)), pytest.param(64, (25, 5), marks=pytest.mark.sweep)]
)
def test_coded_weights_cost_no_tensor_that_stays(tmp_path, channels, size):
    """Tiles that are searched for coded weights leave such tensors no room."""
    model = separable(tmp_path, channels, size, 1)
    found = [
        measured(model, load_target("mac-128", {"engines.dma.decoder": decoder}))
        for decoder in ("rice", "none")
    ]
    (_, coded, outputs), (_, plain, expected) = found
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert (coded.cycles, coded.bytes) <= (plain.cycles, plain.bytes)
    assert 0 < coded.coded_weights[0] < coded.coded_weights[1]
    assert coded.groups == plain.groups


def test_weights_are_not_coded_where_a_program_would_take_more_cycles(tmp_path):
    """59 cycles of 4,635 more, with 53 bytes fewer."""
    model = separable(tmp_path, 16, (20, 10), 1)
    targets = [load_target("mac-128", {"engines.dma.decoder": d}) for d in ("rice", "none")]
    (c, found, outputs), (_, plain, expected) = [measured(model, target) for target in targets]
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert (found.cycles, found.bytes) == (plain.cycles, plain.bytes)
    read = LoweredLayers(describe(targets[0]))
    for op in layers_in(c, "mac-128"):
        if op.name == "npu.convolution":
            assert from_attribute(op.tiles)["uncoded"] == 1
            assert read.layer_of(op, c.final.weights).tiled.is_uncoded
    texts = [e.explanation for e in c["group-layers"].events if e.applied]
    assert any("not coded" in text for text in texts)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", TARGETS)
def test_chains_are_equal_with_groups_and_without(tmp_path, target, seed):
    random = np.random.default_rng(seed)
    model = chain(tmp_path, seed, int(random.integers(3, 40)), int(random.integers(5, 20)), 6)
    _, kept, outputs = measured(model, target)
    _, plain, expected = measured(model, target, **{"group-layers": False})
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert kept.cycles <= plain.cycles
