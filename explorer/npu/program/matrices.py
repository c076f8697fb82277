"""Products of computed matrices as instructions: tiles, double-buffered as those of convolutions.

load     rows of the left matrix, rows of the right one as weights      behind the chunk n - 2
compute  reset, multiply ... ; of a tile's last chunk: zero points, requantize
store    the tile's outputs                                             behind its computation
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from explorer.npu.layers.matrices import (
    MatrixChunk,
    MatrixProduct,
    Transposition,
)
from explorer.npu.layers.stated_requantization import Shifted, is_stated, shifted
from explorer.npu.layers.tensors import Tensor, blocks, most_padding
from explorer.npu.program.addresses import Addresses, place
from explorer.npu.program.stream import Stream
from explorer.npu.program.transfers import Block
from explorer.npu.tiling.matrices import TiledMatrices, constants_of
from explorer.targets.npu.instructions import (
    Instruction,
    Load,
    MicroOperation,
    Multiply,
    Requantize,
    Store,
    Vector,
)


class MatrixWriter(Stream):
    """Instructions while they are written."""

    def __init__(self, tiled: TiledMatrices, addresses: Addresses) -> None:
        self.tiled, self.layer = tiled, tiled.layer
        layer, machine = tiled.layer, tiled.machine
        self.data = constants_of(layer, machine)
        sizes = {name: (content, data.size) for name, (content, data) in self.data.items()}
        places = place(layer.name, machine, (*layer.inputs, layer.output), sizes, addresses)
        self.depth = blocks(layer.inner, machine.rows)
        self.most_padding = most_padding(machine)
        super().__init__(machine, places, machine.depth("micro_operations"))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.layer.inputs, self.layer.output)

    def constants(self) -> dict[str, np.ndarray]:
        """Zero points, factors and the identity."""
        return {name: data for name, (_, data) in self.data.items()}

    def write(self) -> None:
        """All instructions but the last."""
        chunks = list(self.tiled.chunks())
        buffers, count = self.tiled.buffers, len(chunks)
        tiles = chunks[-1].tile
        self.emit(-1, list(self._constant_loads("accumulators")))
        for number, chunk in enumerate(chunks):
            loads: list[Instruction] = [*self._left(chunk), *self._right(chunk)]
            if not number:
                loads = [*self._constant_loads("activations", "weights"), *loads]
            self.emit(number, loads, after=(number >= buffers, True))
            if chunk.is_first:
                self.emit(number, self._resets(chunk), after=(chunk.tile >= buffers, False))
            products = self._products(chunk)  # micro-operations get their places in this order
            rescaling = self._rescale(chunk) if chunk.is_last else []
            ends = chunk.is_last and not rescaling
            self.emit(
                number, products, before=(True, number + buffers < count), after=(False, ends)
            )
            if chunk.is_last:
                self.emit(number, rescaling, after=(False, True)) if rescaling else None
                gives = chunk.tile + buffers <= tiles or chunk.tile == tiles
                self.emit(number, list(self._stores(chunk)), before=(True, gives))

    # ------------------------------------------------------------------------------ transfers

    def _constant_loads(self, *contents: str) -> Iterator[Load]:
        for name, (content, data) in self.data.items():
            if content in contents and name != "bias":
                elements = data.size // self.machine.by_content[content].global_bytes
                yield Load(memory=content, scratchpad_address=self.tiled.region(name),
                           global_address=self.address(name, content), x_size=elements)  # fmt: skip

    def _left(self, chunk: MatrixChunk) -> Iterator[Load]:
        """One load per block of channels."""
        if isinstance(self.layer, Transposition):
            return
        left, _ = self.layer.inputs
        first = chunk.matrix * self.layer.rows + chunk.rows.start
        start = self.tiled.region("activations", chunk.buffer)
        firsts = [self.element(left, "activations", block, 0, first) for block in chunk.inputs]
        each = self.elements_per_block("activations")
        block = Block(rows=1, columns=len(chunk.rows), stride=0, step=each)
        yield from self.load_blocks("activations", start, firsts, block, self.on_chip(left))

    def _right(self, chunk: MatrixChunk) -> Iterator[Load]:
        """One load per block of channels, of all blocks of columns; room is filled with zeros."""
        right, columns = self.layer.inputs[-1], self.machine.columns
        at = chunk.outputs.start * columns
        wanted = len(chunk.outputs) * columns
        held = max(0, min(self.layer.columns - at, wanted))
        first = chunk.matrix * self.layer.right_rows + at
        start = self.tiled.region("weights", chunk.buffer)
        firsts = [self.element(right, "activations", block, 0, first) for block in chunk.inputs]
        if not self.machine.instruction_set.gathers_weights:
            block = Block(rows=1, columns=len(chunk.outputs), stride=0)
            firsts = [first // columns for first in firsts]
            yield from self.load_blocks("weights", start, firsts, block)
            return
        room = wanted - held
        is_short = bool(held) and room <= self.most_padding
        each = self.elements_per_block("activations")
        if held:
            pads = {"x_pad_after": room} if room and is_short else {}
            pads |= self.on_chip(right)
            block = Block(rows=1, columns=held, stride=0, step=each)
            yield from self.load_blocks("gathered", start * columns, firsts, block, pads, wanted)
        if room and not is_short:
            for index, address in enumerate(firsts):
                yield Load(
                    memory="gathered",
                    scratchpad_address=(start + index * len(chunk.outputs)) * columns + held,
                    global_address=address, y_pad_before=1, y_size=0, x_size=room,
                )  # fmt: skip

    def _stores(self, chunk: MatrixChunk) -> Iterator[Store]:
        output, rows = self.layer.output, len(chunk.rows)
        content = "accumulators" if output.is_wide else "outputs"
        each = self.elements_per_block(content)
        first = chunk.matrix * self.layer.rows + chunk.rows.start
        firsts = [self.element(output, content, block, 0, first) for block in chunk.outputs]
        block = Block(rows=1, columns=rows, stride=0, step=each)
        yield from self.store_blocks(content, self._sums(chunk), firsts, block, output)

    # -------------------------------------------------------------------------------- compute

    def _sums(self, chunk: MatrixChunk) -> int:
        return self.tiled.region("sums", chunk.tile % self.tiled.buffers)

    def _resets(self, chunk: MatrixChunk) -> list[Instruction]:
        found = list(self.reset(self._sums(chunk), len(chunk.outputs) * len(chunk.rows)))
        if "bias" in self.data:
            load = Load(
                memory="accumulators", scratchpad_address=self.tiled.region("bias"),
                global_address=self.address("bias", "accumulators") + chunk.outputs.start,
                x_size=len(chunk.outputs),
            )  # fmt: skip
            return [*found, load]
        if "left_zeros" in self.data:
            found += self.reset(self.tiled.region("bias"), len(chunk.outputs))
        return found

    def _zeros(self, name: str, block: int) -> list[int]:
        """Elements of a zero point's summands that meet a block of channels."""
        if name not in self.data:
            return []
        content, data = self.data[name]
        count = data.size // self.machine.by_content[content].global_bytes
        kinds = 1 + bool(self.layer.inner % self.machine.rows)
        is_cut = kinds == 2 and block == self.depth - 1
        start = self.tiled.region(name)
        return [start + index * kinds + is_cut for index in range(count // kinds)]

    def _products(self, chunk: MatrixChunk) -> list[Instruction]:
        weights, sums = self.tiled.region("weights", chunk.buffer), self._sums(chunk)
        rows, across = len(chunk.rows), len(chunk.outputs)
        places = list(itertools.product(range(across), range(len(chunk.inputs))))
        if isinstance(self.layer, Transposition):
            found: list[Instruction] = []
            for index, _ in enumerate(chunk.inputs):  # each makes rows of its own
                mine = min(self.machine.rows, rows - index * self.machine.rows)
                for inner, batch, offset in self.batches(mine):
                    to = sums + index * self.machine.rows + offset
                    micro = [
                        MicroOperation(to + o * rows, self.tiled.region("identity") + offset,
                                       weights + index * across + o)
                        for o in range(across)
                    ]  # fmt: skip
                    found += self._multiplied(micro, inner, batch)
            return found
        sources = self.tiled.region("activations", chunk.buffer)
        found = []
        for inner, batch, offset in self.batches(rows):
            micro = [
                MicroOperation(sums + o * rows + offset, sources + k * rows + offset, weight)
                for o, k in places
                for weight in (weights + k * across + o,
                               *self._zeros("right_zeros", chunk.inputs[k]))
            ]  # fmt: skip
            found += self._multiplied(micro, inner, batch)
        if "left_zeros" in self.data:
            bias = self.tiled.region("bias")
            micro = [
                MicroOperation(bias + o, source, weight)
                for o, k in places
                for source in self._zeros("left_zeros", chunk.inputs[k])
                for weight in (weights + k * across + o,
                               *self._zeros("right_zeros", chunk.inputs[k]))
            ]  # fmt: skip
            found += self._multiplied(micro, 1, 1)
        return found

    def _multiplied(self, micro: list[MicroOperation], inner: int, batch: int) -> list[Instruction]:
        return self.loop(
            Multiply, micro, inner=inner, batch=batch, destination_inner=self.batch,
            source_inner=self.batch,
        )  # fmt: skip

    def _rescale(self, chunk: MatrixChunk) -> list[Instruction]:
        layer, sums = self.layer, self._sums(chunk)
        rows, across = len(chunk.rows), len(chunk.outputs)
        found: list[Instruction] = []
        if {"bias", "left_zeros"} & set(self.data):
            micro = [MicroOperation(sums, self.tiled.region("bias"))]
            found += self.loop(
                Vector, micro, operation="add", outer=across, destination_outer=rows,
                source_outer=1, inner=rows, destination_inner=1,
            )  # fmt: skip
        if not isinstance(layer, MatrixProduct) or layer.rescaling is None:
            return found
        scaling, whole = layer.rescaling, {"inner": across * rows, "destination_inner": 1}
        if self.machine.instruction_set.requantizes:
            micro = [MicroOperation(sums, self.tiled.region("factors"))]
            return found + self.loop(
                Requantize, micro, offset=scaling.zero_point, low=scaling.low, high=scaling.high,
                **whole,
            )  # fmt: skip
        down = [("shift_right", min(int(scaling.shifts[0]), 31))]
        if is_stated(scaling.how):
            stated = shifted(scaling, layer.largest_sum(self.machine))
            assert isinstance(stated, Shifted) and not isinstance(stated.steps, str), stated
            down = stated.steps
        steps = [*down, ("add", scaling.zero_point),
                 ("maximum", scaling.low), ("minimum", scaling.high)]  # fmt: skip
        for operation, value in steps:
            if operation != "add" or value:
                found += self.loop(
                    Vector, [MicroOperation(sums)], operation=operation, use_immediate=True,
                    immediate=value, **whole,
                )  # fmt: skip
        return found
