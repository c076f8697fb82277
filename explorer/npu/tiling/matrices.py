"""How products of computed matrices and transpositions are cut into tiles, and their constants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.npu.layers.layer import RoomError
from explorer.npu.layers.matrices import (
    MatrixChunk,
    MatrixLayer,
    MatrixProduct,
    Transposition,
    across_of,
    chunks_of,
    summands,
)
from explorer.npu.layers.tensors import blocks, channels_per_block, packed
from explorer.npu.tiling.convolution import BUFFERS, halves
from explorer.npu.tiling.scratchpads import Buffer, Regions, place_buffers
from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class TiledMatrices:
    """A layer with the sizes of its tiles and the places of its buffers."""

    layer: MatrixLayer
    machine: Machine
    rows: int
    """Of an output tile; of a transposition, which has those of its inputs, at most."""
    outputs: int
    """Blocks of output channels in a tile."""
    inputs: int
    """Blocks of input channels in a chunk."""
    buffers: int
    regions: Regions
    """Of activations, weights and sums one for each buffer; of constants one."""

    def region(self, name: str, buffer: int = 0) -> int:
        """Where a buffer begins, in elements of its content."""
        return dict(self.regions)[name][buffer].address

    def chunks(self) -> Iterator[MatrixChunk]:
        """In the order in which they run."""
        sizes = (self.rows, self.outputs, self.inputs)
        return chunks_of(self.layer, self.machine, sizes, self.buffers)


def constants_of(layer: MatrixLayer, machine: Machine) -> dict[str, tuple[str, np.ndarray]]:
    """By name the content of what never changes, and its bytes: zero points, factors, identity.

    Of each summand of a zero point an element, and one for the last block of channels, where that
    is not full.
    """
    rows, columns = machine.rows, machine.columns
    if isinstance(layer, Transposition):
        identity = np.eye(rows, dtype=np.int64)
        return {"identity": ("activations", packed(identity, machine.input_bits))}
    found: dict[str, tuple[str, np.ndarray]] = {}
    kept = np.arange(rows) < layer.inner % rows
    masks = [np.ones(rows, np.int64), kept.astype(np.int64)][: 1 + bool(layer.inner % rows)]
    for name, content, zero, bits, repeated in (
        ("left_zeros", "activations", layer.left_zero_point, machine.input_bits, 1),
        ("right_zeros", "weights", layer.right_zero_point, machine.weight_bits, columns),
    ):
        elements = [
            number * np.tile(mask, (repeated, 1))
            for number in summands(-zero, bits)
            for mask in masks
        ]
        if elements:
            found[name] = (content, packed(np.stack(elements), bits))
    if layer.bias is not None:
        room = blocks(layer.columns, columns) * columns - layer.columns
        found["bias"] = (
            "accumulators",
            packed(np.pad(layer.bias, (0, room)), machine.accumulator_bits),
        )
    if layer.rescaling is not None and machine.instruction_set.requantizes:
        factors = np.stack([layer.rescaling.multipliers, layer.rescaling.shifts])
        wide = np.broadcast_to(factors.reshape(2, 1), (2, columns))
        found["factors"] = ("accumulators", packed(wide, machine.accumulator_bits))
    return found


def _buffers(
    layer: MatrixLayer, machine: Machine, sizes: Sequence[int], buffers: int
) -> list[Buffer]:
    """Two of what changes from tile to tile, one of the rest, which is used with the first sums."""
    rows, outputs, inputs = sizes
    wanted = [
        ("weights", "weights", outputs * inputs, 0),
        ("sums", "accumulators", outputs * rows, 1),
    ]
    if isinstance(layer, MatrixProduct):
        wanted.append(("activations", "activations", inputs * rows, 0))
    found = [
        Buffer(name=name, content=content, elements=elements, group=2 * index + group)
        for name, content, elements, group in wanted
        for index in range(buffers)
    ]
    constants = constants_of(layer, machine)
    rest = {
        name: (content, data.size // machine.by_content[content].global_bytes)
        for name, (content, data) in constants.items()
    }
    rest.pop("bias", None)
    if {"bias", "left_zeros"} & set(constants):
        rest = {"bias": ("accumulators", outputs), **rest}
    return found + [
        Buffer(name=name, content=content, elements=elements, group=1)
        for name, (content, elements) in rest.items()
    ]


def tile_matrices(
    layer: MatrixLayer, machine: Machine, buffers: int = BUFFERS,
    sizes: Sequence[int] | None = None,
) -> TiledMatrices:  # fmt: skip
    """In the tiles that load the fewest bytes, or in those of `sizes`: rows, blocks of outputs and
    of inputs. Raises `RoomError` with the shortfall."""
    depth, across = blocks(layer.inner, machine.rows), across_of(layer, machine)
    problem = ""
    possible: list[tuple[tuple[int, int], tuple[int, int, int]]] = []
    candidates = itertools.product(halves(layer.rows), halves(across), halves(depth))
    if isinstance(layer, Transposition):
        candidates = (
            (min(inputs * machine.rows, layer.inner), outputs, inputs)
            for outputs, inputs in itertools.product(halves(across), halves(depth))
        )
    for rows, outputs, inputs in candidates if sizes is None else [sizes]:
        if found := _refusal(layer, machine, (rows, outputs, inputs)):
            problem = found
            continue
        over_rows = blocks(layer.rows, rows) if isinstance(layer, MatrixProduct) else 1
        weights = depth * across * machine.columns * over_rows
        cost = weights + depth * layer.rows * blocks(across, outputs), over_rows
        possible.append((cost, (rows, outputs, inputs)))
    for _, (rows, outputs, inputs) in sorted(possible, key=lambda entry: entry[0]):
        wanted = _buffers(layer, machine, (rows, outputs, inputs), buffers)
        regions = place_buffers(wanted, machine)
        if regions is not None:
            return TiledMatrices(layer=layer, machine=machine, rows=rows, outputs=outputs,
                                 inputs=inputs, buffers=buffers, regions=regions)  # fmt: skip
        problem = "its buffers do not lie side by side in the scratchpads"
    raise RoomError(f"{layer.name} does not fit {machine.name}: its smallest tile: {problem}")


def _refusal(layer: MatrixLayer, machine: Machine, sizes: Sequence[int]) -> str:
    """Which field of an instruction is too narrow for the sizes; empty where none is."""
    rows, outputs, inputs = sizes
    zeros = len(constants_of(layer, machine))
    micro = outputs * inputs * (1 + 2 * zeros)
    if micro > machine.depth("micro_operations"):
        room = machine.depth("micro_operations")
        return f"a chunk takes {micro} micro-operations, and there is room for {room}"
    limits = {(one.kind, f.name): f.most for one in formats_of(machine).kinds for f in one.fields}
    step = channels_per_block(machine) // machine.rows
    wide = outputs * machine.columns if machine.instruction_set.gathers_weights else outputs
    for kind, name, value in (
        ("multiply", "inner", max(rows, outputs * rows)),
        ("vector", "inner", outputs * rows),
        ("load", "x_size", max(rows, wide)),
        ("load", "x_step", step),
        ("store", "x_size", rows),
    ):
        if value > limits.get((kind, name), value):
            return f"{name} of a {kind} is {value}, expected at most {limits[kind, name]}"
    return ""
