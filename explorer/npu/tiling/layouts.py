"""Constants of convolutions as the array takes them, in the order in which bands are computed.

    weights     [band, block of columns, block of rows, ky, kx, column, row]
    diagonals   [block of columns, ky, kx, column]          of depthwise convolutions
    constants   [block of columns, biases by class of position, factors, column]
                after them factors of what outputs are combined with, the same in each column

Channels that a block has too many are zeros. Averages and sums multiply with 0 and 1, and few of
their blocks of columns x rows differ: these lie in memory once, and so they do in the scratchpad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.borders import borders
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Rescaling
from explorer.npu.layers.stated_requantization import bounds_of, half_steps, is_stated, reduced
from explorer.npu.layers.tensors import blocks, packed
from explorer.npu.tiling.bands import Band, InputBlock, bands, input_blocks
from explorer.targets.npu.machine import Machine

MAX_DISTINCT, MAX_PATTERNS = 16, 4
"""Of repeated weights: elements, and orders in which bands have them. Each order takes
micro-operations of its own."""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Elements of weights that a layer uses again and again."""

    elements: np.ndarray
    """i64 of [distinct, column, row]."""
    index: np.ndarray
    """i64 of [all elements]: which one each of them is."""


def has_diagonals(layer: Convolution, machine: Machine) -> bool:
    """Whether each output reads one input, that of its own number: a load makes the zeros then."""
    is_depthwise = layer.groups == layer.weights.shape[0] == layer.input_shape[0] > 1
    return "diagonals" in machine.by_content and is_depthwise and len(layer.parts or (0,)) == 1


def weights(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of a layer's weights: of repeated ones those that differ."""
    found = bands(layer, machine)
    return weights_of(layer, machine, found, repeated(layer, machine, found))


def weights_of(
    layer: Convolution, machine: Machine, found: Sequence[Band], held: Repeated | None
) -> np.ndarray:
    """`weights` of such bands; `held`: those that are repeated."""
    if held is not None:
        return packed(held.elements, machine.weight_bits)
    if has_diagonals(layer, machine):
        return packed(_diagonals(layer, machine), machine.weight_bits)
    return packed(_elements(layer, machine, found), machine.weight_bits)


def repeated(layer: Convolution, machine: Machine, found: Sequence[Band]) -> Repeated | None:
    """None where weights are read as they come. `found`: the layer's bands."""
    if layer.weights.min() < 0 or layer.weights.max() > 1:
        return None
    elements = _elements(layer, machine, found)
    keys = [row.tobytes() for row in np.packbits(elements.reshape(len(elements), -1) > 0, axis=1)]
    places = {key: place for place, key in enumerate(keys)}
    if len(places) > MAX_DISTINCT or 2 * len(places) > len(keys):
        return None
    numbers = {key: number for number, key in enumerate(sorted(places))}
    index = np.array([numbers[key] for key in keys])
    ends = [*(band.first_weight for band in found[1:]), len(index)]
    patterns = {
        index[band.first_weight : end].tobytes() for band, end in zip(found, ends, strict=True)
    }
    if len(patterns) > MAX_PATTERNS:
        return None
    return Repeated(elements=elements[[places[key] for key in numbers]], index=index)


def _elements(layer: Convolution, machine: Machine, found: Sequence[Band]) -> np.ndarray:
    """i64 of [element, column, row], all of them in order."""
    ins = input_blocks(layer, machine)
    parts = [
        _of_block(layer, machine, band, block, ins).reshape(-1, machine.columns, machine.rows)
        for band in found
        for block in band.outputs
    ]
    return np.concatenate(parts)


def _diagonals(layer: Convolution, machine: Machine) -> np.ndarray:
    """i64 of [block of columns, ky, kx, column]."""
    count = blocks(layer.weights.shape[0], machine.columns)
    found = np.zeros((count * machine.columns, *layer.kernel), np.int64)
    found[: layer.weights.shape[0]] = layer.weights[:, 0]
    return found.reshape(count, machine.columns, *layer.kernel).transpose(0, 2, 3, 1)


def _of_block(
    layer: Convolution, machine: Machine, band: Band, block: int, ins: tuple[InputBlock, ...]
) -> np.ndarray:
    """[block of rows, ky, kx, column, row] of one block of outputs."""
    rows, columns = machine.rows, machine.columns
    channels = range(block * columns, min((block + 1) * columns, layer.weights.shape[0]))
    mine = dense(layer, channels)
    found = np.zeros((len(band.inputs), *layer.kernel, columns, rows), np.int64)
    for index, number in enumerate(band.inputs):
        read = ins[number].channels
        part = mine[:, read.start : read.stop].transpose(2, 3, 0, 1)
        found[index, :, :, : part.shape[2], : part.shape[3]] = part
    return found


def dense(layer: Convolution, outputs: range) -> np.ndarray:
    """Weights of some outputs over all inputs: zeros between groups."""
    mine = layer.weights[outputs.start : outputs.stop]
    if layer.groups == 1:
        return mine
    inputs, each = mine.shape[1], layer.weights.shape[0] // layer.groups
    found = np.zeros((len(outputs), inputs * layer.groups, *layer.kernel), np.int64)
    for index, output in enumerate(outputs):
        start = output // each * inputs
        found[index, start : start + inputs] = mine[index]
    return found


def _factors(scaling: Rescaling, machine: Machine) -> tuple[np.ndarray, ...]:
    """Multipliers and shifts as the machine reads them, each i64 of [outputs]."""
    if machine.instruction_set.requantizes:
        return scaling.multipliers, scaling.shifts
    if not is_stated(scaling.how):
        return (np.minimum(scaling.shifts, 31),)
    multipliers, shifts = reduced(scaling.multipliers, scaling.shifts)
    return shifts, multipliers, half_steps(shifts), *bounds_of(scaling)


def adds_biases(layer: Convolution, machine: Machine) -> bool:
    """Whether the instruction that requantizes adds the biases, too: the same ones everywhere."""
    is_possible = layer.rescaling is not None and layer.is_scaled and layer.moved is None
    return (
        is_possible and machine.instruction_set.adds_biases and borders(layer, machine).count == 1
    )


def constants(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of biases and factors; biases come last where `adds_biases`. Factors of all outputs
    lie before them."""
    values = list(borders(layer, machine).biases(layer))
    scaling = layer.rescaling
    if scaling is not None and layer.is_scaled:
        factors = list(_factors(scaling, machine))
        values = [*factors, *values] if adds_biases(layer, machine) else [*values, *factors]
    if layer.moved is not None:
        values += [layer.moved.multipliers, layer.moved.addends]
    stacked = np.stack([np.asarray(v, np.int64) for v in values])
    count = blocks(stacked.shape[1], machine.columns)
    room = count * machine.columns - stacked.shape[1]
    split = np.pad(stacked, ((0, 0), (0, room))).reshape(len(values), count, machine.columns)
    numbers = split.transpose(1, 0, 2).reshape(-1, machine.columns)
    return packed(np.concatenate([_shared(layer, machine), numbers]), machine.accumulator_bits)


def shared_constants(layer: Convolution, machine: Machine) -> int:
    """Elements of factors that all outputs have: of what they are combined with. None of a machine
    that shifts by immediates."""
    if layer.combined is None or not machine.instruction_set.requantizes:
        return 0
    return layer.combined.elements_of_factor(machine) * len(layer.combined.factors)


def _shared(layer: Convolution, machine: Machine) -> np.ndarray:
    """i64 of [factors, column]."""
    if not shared_constants(layer, machine):
        return np.zeros((0, machine.columns), np.int64)
    assert layer.combined is not None
    numbers = np.array(layer.combined.machine_factors(machine), np.int64).reshape(-1, 1)
    return np.broadcast_to(numbers, (len(numbers), machine.columns))
