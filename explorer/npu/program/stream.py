"""A stream of instructions while it is written, whatever layer it is of."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.errors import InputError
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.tensors import Tensor, channels_per_block
from explorer.npu.program.addresses import Placed
from explorer.npu.program.heads import opened
from explorer.npu.program.micro_operations import MicroProgram, join_micro_loads
from explorer.npu.program.transfers import Block, transfers
from explorer.targets.npu.encoding import encode
from explorer.targets.npu.formats import limits_of
from explorer.targets.npu.instructions import (
    Finish,
    Instruction,
    Load,
    Loop,
    MicroOperation,
    Multiply,
    Store,
    Vector,
)
from explorer.targets.npu.machine import Machine


def barrier(is_prefetched: bool = False) -> list[Instruction]:
    """What makes everything wait until all is stored, and perhaps until something is prefetched
    that gives a token: two moves of nothing."""
    return [
        Load(memory="micro_operations", scratchpad_address=0, global_address=0, x_size=0,
             pop_before=is_prefetched, pop_after=True, push_before=True),
        Load(memory="activations", scratchpad_address=0, global_address=0, x_size=0,
             pop_after=True),
    ]  # fmt: skip


class Stream(ABC):
    """Instructions, of each the part of the layer that it belongs to, and micro-operations."""

    def __init__(self, machine: Machine, places: Mapping[str, Placed], micro_depth: int) -> None:
        self.machine, self.places = machine, places
        start = places["micro_operations"].offset_bytes
        size = machine.by_content["micro_operations"].global_bytes
        self.micro_depth = micro_depth
        self.micro = MicroProgram(micro_depth, start // size)
        self.instructions: list[Instruction] = []
        self.owners: list[int] = []
        self.opening = -1
        """Where the two instructions are that make loads wait for the head; -1: there are none."""

    @abstractmethod
    def write(self) -> None:
        """All instructions but the last."""

    @abstractmethod
    def constants(self) -> dict[str, np.ndarray]:
        """Bytes of what never changes, by place, without micro-operations."""

    @property
    def constant_names(self) -> frozenset[str]:
        """The places of what never changes."""
        tensors = {tensor.name for tensor in self.tensors}
        return frozenset(self.places) - tensors

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs and the output of the layer."""

    @property
    def batch(self) -> int:
        """Positions that the array takes at once."""
        return 1 if self.machine.instruction_set.elements_hold_batch else self.machine.batch

    def address(self, name: str, content: str) -> int:
        """The first element of a place in global memory."""
        return self.places[name].offset_bytes // self.machine.by_content[content].global_bytes

    def element(self, tensor: Tensor, content: str, block: int, y: int = 0, x: int = 0) -> int:
        """In global memory: that of a block of channels at a position."""
        per_block = self.elements_per_block(content)
        _, height, width = tensor.shape
        whole, part = divmod(block, per_block)
        inside = ((whole * height + y) * width + x) * per_block + part
        return self.address(tensor.name, content) + inside

    def on_chip(self, tensor: Tensor) -> dict[str, bool]:
        """The field of a transfer of a tensor that lies on the chip."""
        return {"on_chip": True} if self.places[tensor.name].on_chip else {}

    def elements_per_block(self, content: str) -> int:
        """Elements that lie between those of two positions side by side."""
        is_input = content in ("activations", "gathered")
        each = self.machine.rows if is_input else self.machine.columns
        return channels_per_block(self.machine) // each

    def emit(
        self, owner: int, instructions: list[Instruction], **tokens: tuple[bool, bool]
    ) -> None:
        """`tokens`: whether the first takes (pop_...), and whether the last gives (push_...)."""
        instructions = list(instructions)
        for name, (on_first, on_last) in tokens.items():
            if on_first:
                instructions[0] = dataclasses.replace(instructions[0], **{f"pop_{name}": True})
            if on_last:
                instructions[-1] = dataclasses.replace(instructions[-1], **{f"push_{name}": True})
        self.instructions += instructions
        self.owners += [owner] * len(instructions)

    def loop(
        self, record: type[Instruction], micro: list[MicroOperation], **fields: object
    ) -> list[Instruction]:
        """The instruction behind the load of its micro-operations, where they are not there."""
        begin, loads = self.micro.place(micro)
        values = {"micro_begin": begin, "micro_end": begin + len(micro), **fields}
        if record is Multiply and self.batch == 1:
            values.pop("batch", None)
        # Of one iteration a step means nothing, and it may be too large for its field.
        for axis in ("outer", "inner"):
            if values.get(axis, 1) == 1:
                for side in ("destination", "source"):
                    values.pop(f"{side}_{axis}", None)
        return [*loads, record(**values)]  # pyright: ignore[reportArgumentType]

    def flat(
        self, record: type[Loop], first: int, size: int, source: int | None = None, **fields: Any
    ) -> list[Instruction]:
        """On accumulators in a row; with a source, of as many others."""
        micro = [MicroOperation(first, 0 if source is None else source)]
        step = {} if source is None else {"source_inner": 1}
        return self.loop(record, micro, inner=size, destination_inner=1, **step, **fields)

    def immediate(self, first: int, size: int, operation: str, value: int) -> list[Instruction]:
        """An operation with one number."""
        return self.flat(Vector, first, size, operation=operation, use_immediate=True,
                         immediate=value)  # fmt: skip

    def reset(self, first: int, elements: int) -> Iterator[Instruction]:
        """Accumulators from the first on become 0."""
        for inner, batch, offset in self.batches(elements):
            yield from self.loop(
                Multiply, [MicroOperation(destination=first + offset)], reset=True, inner=inner,
                destination_inner=self.batch, batch=batch,
            )  # fmt: skip

    def batches(self, count: int) -> Iterator[tuple[int, int, int]]:
        """How often the array takes whole batches of positions, and what is left."""
        whole, rest = divmod(count, self.batch)
        for inner, batch, offset in ((whole, self.batch, 0), (1, rest, whole * self.batch)):
            if inner and batch:
                yield inner, batch, offset

    def store_blocks(
        self, content: str, scratchpad: int, firsts: Sequence[int], block: Block, tensor: Tensor
    ) -> Iterator[Store]:
        """Blocks of a tensor that lie densely in the scratchpad; `firsts`: where each begins in
        the memory of the tensor."""
        if block.step > 1 and not self.machine.instruction_set.skips_elements:
            for index, first in enumerate(firsts):
                for row in range(block.rows):  # every position is a row of its own
                    yield Store(
                        memory=content,
                        scratchpad_address=scratchpad + (index * block.rows + row) * block.columns,
                        global_address=first + row * block.stride, y_size=block.columns, x_size=1,
                        x_stride=block.step,
                    )  # fmt: skip
            return
        step: dict[str, Any] = {} if block.step == 1 else {"x_step": block.step}
        step |= self.on_chip(tensor)
        for moved in transfers(firsts, block, limits_of(self.machine, "store")):
            yield Store(
                memory=content, scratchpad_address=scratchpad + moved.index * block.size,
                global_address=firsts[moved.index], y_size=moved.y_size, x_size=moved.x_size,
                x_stride=moved.x_stride, **step,
            )  # fmt: skip

    def load_blocks(
        self, content: str, scratchpad: int, firsts: Sequence[int], block: Block,
        padding: Mapping[str, int] | None = None, apart: int = 0,
    ) -> Iterator[Load]:  # fmt: skip
        """Blocks that lie one after the other in the scratchpad; `firsts`: where each begins in
        global memory. `padding`: fields of a load that each block has; `apart`: elements from one
        block to the next in the scratchpad, with padding."""
        step: dict[str, Any] = {} if block.step == 1 else {"x_step": block.step}
        fields: dict[str, Any] = dict(padding or {})
        limits = limits_of(self.machine, "load")
        pads = any(value for name, value in fields.items() if name != "on_chip")
        is_apart = pads or apart not in (0, block.size)
        for moved in transfers(firsts, block, limits, is_apart):
            yield Load(
                memory=content,
                scratchpad_address=scratchpad + moved.index * (apart or block.size),
                global_address=firsts[moved.index], y_size=moved.y_size, x_size=moved.x_size,
                x_stride=moved.x_stride, **step, **fields,
            )  # fmt: skip

    def complete(self) -> None:
        """Writes all instructions, the end included."""
        self.write()
        self.instructions, self.owners = join_micro_loads(self.instructions, self.owners)
        self.instructions, self.owners, self.opening = opened(self)
        self.emit(-1, [Finish(pop_after=True)])

    def finished(self, name: str) -> bytes:
        """The program, its end included. LayerError where a field is too narrow; `name`: the
        layer's."""
        self.complete()
        try:
            return encode(self.instructions, self.machine)
        except InputError as error:
            raise LayerError(
                f"{name} cannot be encoded for {self.machine.name}: {error.message}"
            ) from error
