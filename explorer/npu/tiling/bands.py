"""Which blocks of inputs each block of outputs of a convolution reads.

Channels are cut into blocks of as many as the array has columns (outputs) and rows (inputs). Blocks
of outputs that read the same blocks of inputs are a band: a dense convolution is one, of a grouped
one each block of outputs may have its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.tensors import blocks
from explorer.targets.npu.coding import code_bits
from explorer.targets.npu.formats import moves_on_chip
from explorer.targets.npu.machine import Machine, Route

MARGIN = 0.95
"""Zeros are kept where an estimate is less than this part of the one without them."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """Blocks of outputs that read the same blocks of inputs."""

    outputs: range
    inputs: tuple[int, ...]
    first_weight: int
    """How many elements of weights come before."""
    own: int = 0
    """Of a depthwise convolution: how many of the inputs, in order, each block of outputs reads. 0:
    each reads all."""

    def inputs_of(self, outputs: range) -> tuple[int, ...]:
        """Blocks of inputs that some blocks of outputs read, counted from the band's first."""
        return self.inputs[outputs.start * self.own : outputs.stop * self.own]


@dataclass(frozen=True, kw_only=True)
class InputBlock:
    """As many channels as the array has rows, or fewer: the last ones of an input."""

    part: int
    """Which input it belongs to."""
    block: int
    """Which block of that."""
    channels: range
    """Of the layer's inputs, side by side."""


def ranges(whole: range, size: int) -> Iterator[range]:
    """Pieces of the size; the last one may be smaller."""
    for start in range(whole.start, whole.stop, size):
        yield range(start, min(start + size, whole.stop))


def input_blocks(layer: Convolution, machine: Machine) -> tuple[InputBlock, ...]:
    """Of all inputs, one behind the other: none has channels of two."""
    found: list[InputBlock] = []
    start = 0
    for part, count in enumerate(layer.parts or layer.input_shape[:1]):
        read = layer.reads[part] if layer.reads else part
        found += [
            InputBlock(part=read, block=block, channels=range(c.start + start, c.stop + start))
            for block, c in enumerate(ranges(range(count), machine.rows))
        ]
        start += count
    return tuple(found)


def bands(layer: Convolution, machine: Machine) -> tuple[Band, ...]:
    """In order of their outputs. Blocks of zeros are left out where that takes fewer cycles."""
    found = _bands(layer, machine, layer.is_sparse)
    is_moving = layer.weights.min() >= 0 and layer.weights.max() <= 1
    if len(found) == 1 or layer.groups > 1 or is_moving:
        return found
    dense = _bands(layer, machine, False)
    kept = _cycles(layer, machine, dense) < MARGIN * _cycles(layer, machine, found)
    return dense if kept else found


def _cycles(layer: Convolution, machine: Machine, found: Sequence[Band]) -> float:
    """What loads of weights and inputs take about, once for each band, and products."""
    vector, spaces = machine.vector, machine.by_content
    taps = layer.kernel[0] * layer.kernel[1]
    _, height, width = layer.input_shape
    route = machine.route[machine.regions[-1].name, spaces["weights"].memory, True]
    weights = _moved_weights(layer, machine, route)
    start, rate = _on_chip_or_not(machine)
    starts = machine.matrix.start_cycles + (0 if vector is None else vector.start_cycles)
    batch = 1 if machine.instruction_set.elements_hold_batch else machine.batch
    _, tall, wide = layer.output_shape
    steps = blocks(tall * wide, batch) * machine.multiply_step_cycles
    loaded = computed = 0.0
    for band in found:
        inputs = len(band.inputs)
        elements = len(band.outputs) * inputs * taps
        loaded += route.fixed_cycles + sum(
            float(weights[output, list(band.inputs)].sum(axis=0).min()) for output in band.outputs
        )
        loaded += start + inputs * height * width * rate
        computed += starts + elements * steps
    return loaded + computed


def _moved_weights(layer: Convolution, machine: Machine, route: Route) -> np.ndarray:
    """Cycles of each block without starts, of [blocks of outputs, blocks of inputs, ways]: as it
    lies, and coded with each parameter. Blocks are filled up with zeros."""
    bits, ins = machine.weight_bits, input_blocks(layer, machine)
    outputs = list(ranges(range(layer.weights.shape[0]), machine.columns))
    size = machine.rows * machine.columns * layer.kernel[0] * layer.kernel[1]
    whole, rate = size * bits / 8, float(route.bytes_per_cycle)
    plain = np.full((len(outputs), len(ins), 1), whole / rate)
    decoded = route.decoded_bytes_per_cycle
    if decoded is None:
        return plain
    coded = np.empty((len(outputs), len(ins), bits))
    for index, out in enumerate(outputs):
        for number, one in enumerate(ins):
            block = np.zeros(size, np.int64)
            mine = layer.weights[out.start : out.stop, one.channels.start : one.channels.stop]
            block[: mine.size] = mine.reshape(-1)
            coded[index, number] = code_bits(block, bits).sum(axis=1)
    coded = np.maximum(coded / 8 / rate, whole / float(decoded))
    return np.concatenate([plain, coded], axis=2)


def _on_chip_or_not(machine: Machine) -> tuple[int, float]:
    """Start, and cycles for each element, of a load of inputs that stayed on the chip; from global
    memory where nothing stays."""
    if moves_on_chip(machine):
        return machine.on_chip_start_cycles, 1 / float(machine.on_chip_rate("activations"))
    space = machine.by_content["activations"]
    route = machine.route[machine.regions[0].name, space.memory, True]
    return route.fixed_cycles, space.global_bytes / float(route.bytes_per_cycle)


def _bands(layer: Convolution, machine: Machine, is_sparse: bool) -> tuple[Band, ...]:
    found: list[Band] = []
    count, taps = layer.weights.shape[0], layer.kernel[0] * layer.kernel[1]
    ins, first = input_blocks(layer, machine), 0
    for block, channels in enumerate(ranges(range(count), machine.columns)):
        needed = tuple(range(len(ins)))
        if is_sparse:
            needed = tuple(i for i in needed if _reads(layer, channels, ins[i].channels)) or (0,)
        first += len(needed) * taps
        if found and found[-1].inputs == needed:
            band = found.pop()
            outputs, start = range(band.outputs.start, block + 1), band.first_weight
        else:
            outputs, start = range(block, block + 1), first - len(needed) * taps
        found.append(Band(outputs=outputs, inputs=needed, first_weight=start))
    return tuple(found)


def band_of_diagonals(layer: Convolution, machine: Machine) -> Band:
    """All blocks of a depthwise convolution."""
    return Band(
        outputs=range(output_blocks(layer, machine)),
        inputs=tuple(range(len(input_blocks(layer, machine)))),
        first_weight=0,
        own=machine.columns // machine.rows,
    )


def _reads(layer: Convolution, outputs: range, inputs: range) -> bool:
    """Whether a weight between them may be another number than 0."""
    if layer.groups == 1:
        mine = layer.weights[outputs.start : outputs.stop, inputs.start : inputs.stop]
        return bool(np.any(mine))
    of_group, to_group = layer.weights.shape[1], layer.weights.shape[0] // layer.groups
    first, last = outputs.start // to_group, (outputs.stop - 1) // to_group
    return inputs.start < (last + 1) * of_group and inputs.stop > first * of_group


def output_blocks(layer: Convolution, machine: Machine) -> int:
    return blocks(layer.weights.shape[0], machine.columns)


def most_inputs(found: Sequence[Band]) -> tuple[int, int]:
    """Blocks of outputs of the largest bands, and of inputs that each of them reads."""
    inputs = max(band.own or len(band.inputs) for band in found)
    return max(len(band.outputs) for band in found), inputs
