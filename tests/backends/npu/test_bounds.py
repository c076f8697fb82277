"""The distance of a network and of its layers from what no schedule goes below."""

from types import SimpleNamespace
from typing import Any

import pytest

from explorer.backends.npu.roofs import network_bound
from explorer.targets import load_target
from explorer.targets.npu.machine import describe


@pytest.mark.parametrize("target", ["vta-16", "edge-64", "mac-128"])
def test_no_network_takes_fewer_cycles_or_bytes_than_its_bounds(compiled, digits, target):
    c = compiled(target)
    c.run(digits[2])
    run = c.counted
    assert 0 < run.bound_cycles <= run.cycles and 0 < run.bound_bytes <= run.bytes
    parts = sum(layer.bound_bytes for layer in run.layers)
    assert run.bound_bytes < parts or (run.bound_bytes == parts and len(run.groups) == 1)
    for layer in run.layers:
        assert layer.bound_cycles <= layer.cycles and layer.bound_bytes <= layer.bytes
        assert layer.bound_cycles <= layer.least_cycles + 1e-6
    assert sum(run.groups, ()) == tuple(layer.operation for layer in run.layers)
    assert target != "vta-16" or all(len(group) == 1 for group in run.groups)
    assert len(run.searches) == len(run.layers)
    for one in run.searches:
        assert 0 < one.bound <= one.cycles and 0 <= one.gap < 1 and one.candidates > 0


def test_a_network_moves_its_weights_inputs_and_outputs_at_least():
    def value(*shape, is_wide=False, logical_shape=None):
        return SimpleNamespace(
            stored=SimpleNamespace(
                shape=shape, logical_shape=logical_shape or shape, is_wide=is_wide
            )
        )

    found = describe(load_target("tiny-8"))
    network: Any = SimpleNamespace(
        machine=found, arguments=("x",), results=("y",), sections=(SimpleNamespace(macs=7),),
        values={"x": value(9, 30, logical_shape=(2, 30)), "y": value(5, is_wide=True),
                "inner": value(1000)},
    )  # fmt: skip
    least: Any = {n: SimpleNamespace(constant_bytes=size) for n, size in (("a", 100), ("b", 11))}
    _, size = network_bound(network, least)
    assert size == 111 + 60 * found.input_bits // 8 + 5 * found.accumulator_bits // 8
