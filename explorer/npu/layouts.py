"""Constants of convolutions as the array takes them, in the order in which bands are computed.

    weights     [band, block of columns, block of rows, ky, kx, column, row]
    constants   [block of columns, biases by class of position, multipliers, shifts, column]

Channels that a block has too many are zeros.
"""

from __future__ import annotations

import numpy as np

from explorer.npu.bands import Band, InputBlock, bands, input_blocks
from explorer.npu.borders import borders
from explorer.npu.layer import Convolution
from explorer.npu.tensors import blocks, packed
from explorer.targets.npu.machine import Machine


def weights(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of a layer's weights."""
    ins = input_blocks(layer, machine)
    parts = [
        _of_block(layer, machine, band, block, ins).reshape(-1)
        for band in bands(layer, machine)
        for block in band.outputs
    ]
    return packed(np.concatenate(parts), machine.weight_bits)


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


def constants(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of biases and factors."""
    values = list(borders(layer, machine).biases(layer))
    scaling = layer.rescaling
    if scaling is not None and layer.is_scaled:
        is_vta = machine.set == "vta"
        values += [np.minimum(scaling.shifts, 31)] if is_vta else [scaling.multipliers,
                                                                   scaling.shifts]  # fmt: skip
    stacked = np.stack([np.asarray(v, np.int64) for v in values])
    count = blocks(stacked.shape[1], machine.columns)
    room = count * machine.columns - stacked.shape[1]
    split = np.pad(stacked, ((0, 0), (0, room))).reshape(len(values), count, machine.columns)
    return packed(split.transpose(1, 0, 2), machine.accumulator_bits)
