"""What a layer loads while the layer before it ends."""

import numpy as np
import pytest

import explorer
from explorer.backends.npu.network import network_of
from explorer.ir.functions.calls import functions_on
from explorer.npu.program.heads import meets
from explorer.targets import load_target
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.instructions import Load
from explorer.targets.npu.machine import describe


def sections_of(c, target):
    machine = describe(load_target(target) if isinstance(target, str) else target)
    (function,) = functions_on(c.final.program, machine.name)
    return network_of(function, c.final.weights, machine)


@pytest.mark.parametrize("target", ["vta-16", "edge-64", "tiny-8", "mac-128", "odd-12x20"])
def test_constants_are_loaded_ahead_and_no_queue_races(compiled, digits, target):
    c = compiled(target)
    network = sections_of(c, target)
    ahead = 0
    for section in network.sections[1:]:
        idle = [
            index
            for index, op in enumerate(section.instructions)
            if isinstance(op, Load) and not op.x_size
        ]
        before = section.instructions[: idle[0]]
        assert all(isinstance(op, Load) and op.memory != "activations" for op in before)
        ahead += len(before)
    assert ahead >= len(network.sections) // 2
    is_prefetched = any(getattr(op, "prefetch", False) for op in network.instructions)
    assert is_prefetched == (target != "vta-16")
    c.run(digits[2])
    parts = [np.zeros(v.stored.logical_shape, v.stored.element_type)
             for v in map(network.values.__getitem__, network.arguments)]  # fmt: skip
    assert check_program(network.program, network.image_with(parts), network.machine) == []
    assert c.counted.cycles == c.counted.predicted_cycles


@pytest.mark.parametrize(("room", "is_prefetched"), [(600, False), (8192, True)])
def test_micro_operations_are_prefetched_next_to_those_of_the_layer_before(
    digits, room, is_prefetched
):
    model, table, given = digits
    target = load_target("tiny-8", {"memories.static.size_bytes": room})
    c = explorer.compile(model, target, quantization=table)
    try:
        network = sections_of(c, target)
        loads = [
            op
            for op in network.instructions
            if isinstance(op, Load) and op.memory == "micro_operations" and op.x_size
        ]
        assert any(op.prefetch and op.scratchpad_address for op in loads) == is_prefetched
        c.run(given)
        assert c.counted.cycles == c.counted.predicted_cycles
        parts = [np.zeros(v.stored.logical_shape, v.stored.element_type)
                 for v in map(network.values.__getitem__, network.arguments)]  # fmt: skip
        assert check_program(network.program, network.image_with(parts), network.machine) == []
        assert c.accuracy(given).report.bit_exact
    finally:
        c.close()


def test_bytes_meet_where_they_share_one_of_the_same_memory():
    assert meets((0, 10, 20), [(0, 19, 30)]) and meets((0, 10, 20), [(1, 0, 9), (0, 0, 11)])
    assert not meets((0, 10, 20), [(0, 20, 30), (0, 0, 10), (1, 10, 20)])
