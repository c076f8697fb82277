"""Taps as loops of one instruction."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine

from explorer.npu import compile_layer
from explorer.npu.program.taps import loops_of_taps
from explorer.targets.npu.instructions import MicroOperation, Multiply


@pytest.mark.parametrize("target", ["vta-16", "edge-64", "tiny-8", "mac-128", "odd-12x20"])
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_a_kernel_as_large_as_its_input_is_multiplied_in_loops_over_its_taps(target, is_depthwise):
    found, random = machine(target), np.random.default_rng(3)
    channels = 64
    layer = convolution(
        found, random, inputs=channels, outputs=64, size=(9, 5), kernel=(9, 5),
        groups=channels if is_depthwise else 1,
    )  # fmt: skip
    compared(layer, found, random)
    made = compile_layer(layer, found)
    products = [op for op in made.instructions if isinstance(op, Multiply) and not op.reset]
    assert {(op.outer, op.inner) for op in products} == {(9, 5)}


def test_taps_are_loops_where_they_lie_at_equal_distances():
    micro = [
        MicroOperation(destination=d, source=10 * d + 7 * y + 2 * x, weight=100 * d + 3 * y + x)
        for d in range(2)
        for y in range(2)
        for x in range(3)
    ]
    loops = loops_of_taps(micro, (2, 3))
    assert loops is not None and len(loops.micro) == 2
    assert loops.fields == {
        "outer": 2, "source_outer": 7, "weight_outer": 3,
        "inner": 3, "source_inner": 2, "weight_inner": 1,
    }  # fmt: skip
    assert loops_of_taps(micro[:1], (1, 1)) is None
    moved = MicroOperation(micro[8].destination, micro[8].source, micro[8].weight + 1)
    assert loops_of_taps([*micro[:8], moved, *micro[9:]], (2, 3)) is None
    assert loops_of_taps(micro[::-1], (2, 3)) is None
