"""The distance of a network and of its layers from what no schedule goes below."""

import pytest

import explorer


@pytest.mark.parametrize("target", ["vta-16", "edge-64", "mac-128"])
def test_no_network_takes_fewer_cycles_or_bytes_than_its_bounds(digits, target):
    model, table, given = digits
    c = explorer.compile(model, target, quantization=table)
    try:
        c.run(given)
        run = c.counted
    finally:
        c.close()
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
