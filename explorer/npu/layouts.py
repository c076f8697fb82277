"""Arrays as elements of global memory: channels in blocks of the array's rows or columns.

    activations   [group, block of rows, height, width, row]
    weights       [group, block of columns, block of rows, ky, kx, column, row]
    outputs       [group, block of columns, height, width, column]

Channels that a block has too many are zeros; what they compute is stored and not read back.
"""

from __future__ import annotations

import numpy as np

from explorer.npu.layer import Convolution
from explorer.targets.npu.machine import Machine


def blocks(count: int, size: int) -> int:
    return -(-count // size)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Integers as bytes, of 4 bits the low half of a byte first."""
    if bits == 4:
        pairs = numbers.reshape(-1, 2).astype(np.uint8) & 15
        return pairs[:, 0] | pairs[:, 1] << 4
    return numbers.astype(f"<i{bits // 8}").reshape(-1).view(np.uint8)


def unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """The signed integers that `packed` made bytes of."""
    if bits == 4:
        pairs = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int64)
        return pairs - 16 * (pairs > 7)
    return data.view(f"<i{bits // 8}").astype(np.int64)


def _blocked(x: np.ndarray, axis: int, size: int) -> np.ndarray:
    """One axis as two: blocks of the size, the last one filled up with zeros."""
    count = blocks(x.shape[axis], size)
    room = [(0, 0)] * x.ndim
    room[axis] = (0, count * size - x.shape[axis])
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return np.pad(x, room).reshape(shape)


def activations(x: np.ndarray, layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of an input of [inputs, height, width]."""
    grouped = x.reshape(layer.groups, -1, *x.shape[1:])
    return packed(np.moveaxis(_blocked(grouped, 1, machine.rows), 2, -1), machine.input_bits)


def weights(layer: Convolution, machine: Machine) -> np.ndarray:
    """Bytes of a layer's weights."""
    outputs, inputs, *kernel = layer.weights.shape
    grouped = layer.weights.reshape(layer.groups, outputs // layer.groups, inputs, *kernel)
    split = _blocked(_blocked(grouped, 2, machine.rows), 1, machine.columns)
    return packed(split.transpose(0, 1, 3, 5, 6, 2, 4), machine.weight_bits)


def per_output(values: np.ndarray, layer: Convolution, machine: Machine) -> np.ndarray:
    """i32 of [blocks of all groups, column]: one number per output channel."""
    grouped = values.reshape(layer.groups, -1)
    return _blocked(grouped, 1, machine.columns).reshape(-1, machine.columns).astype(np.int32)


def outputs(data: np.ndarray, layer: Convolution, machine: Machine) -> np.ndarray:
    """The output of [outputs, height, width] out of its bytes, i64."""
    channels, height, width = layer.output_shape
    each = channels // layer.groups
    shape = (layer.groups, blocks(each, machine.columns), height, width, machine.columns)
    found = np.moveaxis(unpacked(data, machine.input_bits).reshape(shape), -1, 2)
    found = found.reshape(layer.groups, -1, height, width)[:, :each]
    return found.reshape(channels, height, width)


def in_columns(x: np.ndarray, machine: Machine) -> np.ndarray:
    """Bytes of [channels, height, width] in blocks as outputs lie."""
    return packed(np.moveaxis(_blocked(x, 0, machine.columns), 1, -1), machine.input_bits)


def out_of_columns(data: np.ndarray, shape: tuple[int, int, int], machine: Machine) -> np.ndarray:
    """i64 of [channels, height, width] out of the bytes that `in_columns` made."""
    blocked = (blocks(shape[0], machine.columns), *shape[1:], machine.columns)
    found = np.moveaxis(unpacked(data, machine.input_bits).reshape(blocked), -1, 1)
    return found.reshape(-1, *shape[1:])[: shape[0]]
