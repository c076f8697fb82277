"""What a layer moves at least, whatever its tiles, and on whatever schedule.

    bound = least_of_layer(layer, machine)
    bound.constant_bytes, bound.read_bytes, bound.written_bytes, bound.product_bytes

Weights are read once (coded ones: each number with its best parameter), each number of an input
that some output needs is read once, each number of the output is written once. A product of m x k
by k x n numbers with room for s of them moves at least 2 m n k / sqrt(s) - 2 s (J.-W. Hong and
H. T. Kung: I/O complexity, STOC 1981; the constant of T. M. Smith and others: A Tight I/O Lower
Bound for Matrix Multiplication, arXiv:1702.02017). Room
is what all scratchpads hold together, in numbers of the narrower operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Layer
from explorer.npu.layers.matrices import MatrixProduct
from explorer.npu.layers.partition import Pieces
from explorer.npu.tiling.coded import least_bytes
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class LayerBytes:
    """Bytes of a layer, without blocks that are filled up."""

    constant_bytes: int
    """Weights."""
    read_bytes: int
    written_bytes: int
    product_bytes: int = 0
    """Of all of them together, where the layer is a product."""

    @property
    def traffic_bytes(self) -> int:
        """Between global memory and scratchpads."""
        return max(self.constant_bytes + self.read_bytes + self.written_bytes, self.product_bytes)


def least_of_layer(
    layer: Layer, machine: Machine, on_chip: frozenset[str] = frozenset()
) -> LayerBytes:
    """Of one layer by itself; `on_chip`: its tensors that stay there, which it does not move."""
    inputs, outputs = machine.input_bits, _output_bits(layer, machine)
    written = 0 if "output" in on_chip else _bytes(prod(_written(layer)), outputs)
    if isinstance(layer, Pieces):  # parts of one result, of which each may read what another does
        found = [
            least_of_layer(
                piece.layer, machine,
                frozenset(
                    tensor.name
                    for number, tensor in zip(piece.reads, piece.layer.inputs, strict=True)
                    if f"input{number}" in on_chip
                )
                | (on_chip & {"output"}),
            )
            for piece in layer.pieces
        ]  # fmt: skip
        return LayerBytes(
            constant_bytes=0,
            read_bytes=max(one.read_bytes for one in found),
            written_bytes=sum(one.written_bytes for one in found),
        )
    if isinstance(layer, Convolution):
        weights = _weights(layer)
        positions = prod(_read(layer, axis) for axis in range(2))
        channels = sum(t.shape[0] for t in layer.pictures if t.name not in on_chip)
        read = 0 if layer.is_sparse and layer.groups == 1 else channels * positions
        if layer.other is not None and layer.other.name not in on_chip:
            read += prod(layer.other.shape)
        product = 0
        is_dense = layer.kernel == (1, 1) and layer.groups == 1 and not layer.is_sparse
        if is_dense and not on_chip:
            outs, height, width = layer.output_shape
            product = product_bytes(height * width, layer.input_shape[0], outs, machine)
        return LayerBytes(
            constant_bytes=_constant_bytes(layer, weights, machine),
            read_bytes=_bytes(read, inputs),
            written_bytes=written,
            product_bytes=product,
        )
    read = 0
    for tensor in layer.inputs:
        bits = machine.accumulator_bits if tensor.is_wide else inputs
        is_moved = tensor.name not in on_chip and _reads_all(layer)
        read += _bytes(prod(tensor.shape), bits) if is_moved else 0
    product = 0
    if isinstance(layer, MatrixProduct):
        sides = {"left": layer.rows, "right": layer.columns}
        moved = sum(count for name, count in sides.items() if name not in on_chip)
        read = _bytes(layer.inner * layer.batch * moved, inputs)
    if isinstance(layer, MatrixProduct) and not on_chip:
        mine = product_bytes(layer.rows, layer.inner, layer.columns, machine)
        product = mine * layer.batch
    return LayerBytes(
        constant_bytes=0, read_bytes=read, written_bytes=written, product_bytes=product
    )


def product_bytes(rows: int, inner: int, columns: int, machine: Machine) -> int:
    """What a product moves at least; 0 where all of it fits, and where weights are coded, which
    have no size of their own."""
    if machine.decodes_weights:
        return 0
    bits = min(machine.input_bits, machine.weight_bits)
    room = sum((pad.size_bytes or 0) * 8 // bits for pad in machine.scratchpads)
    numbers = 2 * rows * inner * columns / sqrt(room) - 2 * room
    return max(0, int(numbers)) * bits // 8


def _bytes(count: int, bits: int) -> int:
    return count * bits // 8


def _output_bits(layer: Layer, machine: Machine) -> int:
    return machine.accumulator_bits if layer.output.is_wide else machine.input_bits


def _written(layer: Layer) -> tuple[int, ...]:
    return layer.output_shape if isinstance(layer, Convolution) else layer.output.shape


def _weights(layer: Convolution) -> int:
    """Numbers that have to be read: none of weights that are 0 and 1, which may be repeated, and
    of sparse ones those that are not 0."""
    if layer.weights.min(initial=0) >= 0 and layer.weights.max(initial=0) <= 1:
        return 0
    is_sparse = layer.is_sparse and layer.groups == 1
    return int(np.count_nonzero(layer.weights)) if is_sparse else int(layer.weights.size)


def _constant_bytes(layer: Convolution, count: int, machine: Machine) -> int:
    """Of so many weights that have to be read."""
    if machine.decodes_weights and count:
        is_sparse = layer.is_sparse and layer.groups == 1
        read = layer.weights[layer.weights != 0] if is_sparse else layer.weights
        return int(least_bytes(read, machine))
    return _bytes(count, machine.weight_bits)


def _read(layer: Convolution, axis: int) -> int:
    """Rows, or columns, of the input that some output needs."""
    first = np.arange(layer.output_shape[1 + axis]) * layer.strides[axis] - layer.pads[axis]
    taps = np.arange(layer.kernel[axis]) * layer.dilations[axis]
    found = np.unique(first[:, None] + taps)
    return int(np.count_nonzero((found >= 0) & (found < layer.input_shape[1 + axis])))


def _reads_all(layer: Layer) -> bool:
    """Whether a layer of the vector engine needs every number of its inputs."""
    accesses = getattr(layer, "accesses", ())
    return all(access.strides == (1, 1) and min(access.pads) >= 0 for access in accesses)
