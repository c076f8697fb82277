"""Sums over all positions in parts, of which the array makes as many at once as it takes positions.

    64 positions, one at a time        64 steps for each block
    8 sums of 8 positions each         8 steps, and 7 sums are added to the first

A sum or an average over all positions has one position, and of an array that takes a batch of them
the rest would stay idle. Its weights are the same for every tap, and its taps lie side by side.
"""

from __future__ import annotations

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.tensors import blocks
from explorer.npu.tiling.layouts import Repeated
from explorer.targets.npu.machine import Machine

LEAST = 4
"""Of fewer sums the steps that are saved are fewer than those that tiles of one block hide."""


def is_total(layer: Convolution, machine: Machine) -> bool:
    """Whether a layer has one position, and the array takes a batch of them."""
    is_batched = machine.batch >= LEAST and not machine.instruction_set.elements_hold_batch
    return is_batched and layer.output_shape[1:] == (1, 1) and layer.dilations == (1, 1)


def partial_sums(layer: Convolution, machine: Machine, held: Repeated | None) -> int:
    """How many sums of each block take the fewest cycles; 1 where there is one sum. `held`: the
    weights of the layer, if they are repeated."""
    taps = layer.kernel[0] * layer.kernel[1]
    most = min(machine.batch, taps)
    if held is None or not is_total(layer, machine) or layer.output.is_wide:
        return 1
    by_tap = held.index.reshape(-1, taps)
    if np.any(by_tap != by_tap[:, :1]):
        return 1
    inputs = blocks(min(layer.weights.shape[0], machine.columns), machine.rows)
    counts = (1, *range(LEAST, most + 1))
    return min(counts, key=lambda count: _cycles(taps, inputs, count, machine))


def _cycles(taps: int, inputs: int, count: int, machine: Machine) -> int:
    """Of a block of outputs, which reads so many blocks of inputs."""
    vector, matrix = machine.vector, machine.matrix
    assert vector is not None
    if count == 1:
        return taps * inputs * machine.multiply_step_cycles
    whole, rest = divmod(taps, count)
    fixed = matrix.start_cycles + matrix.latency_cycles
    multiplied = (whole + (rest > 0)) * inputs * machine.multiply_step_cycles
    multiplied += fixed * (1 + (rest > 0))  # more sums begin at 0
    added = vector.start_cycles + vector.latency_cycles + (count - 1) * machine.vector_step_cycles
    return multiplied + added
