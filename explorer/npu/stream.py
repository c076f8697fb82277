"""A stream of instructions while it is written, whatever layer it is of."""

from __future__ import annotations

import dataclasses

from explorer.errors import InputError
from explorer.npu.layer import LayerError
from explorer.npu.micro import MicroProgram
from explorer.targets.npu.encoding import encode
from explorer.targets.npu.instructions import Instruction, MicroOperation, Multiply
from explorer.targets.npu.machine import Machine


class Stream:
    """Instructions, of each the part of the layer that it belongs to, and micro-operations."""

    def __init__(self, machine: Machine, micro: MicroProgram) -> None:
        self.machine, self.micro = machine, micro
        self.instructions: list[Instruction] = []
        self.owners: list[int] = []

    @property
    def batch(self) -> int:
        """Positions that the array takes at once."""
        return self.machine.batch if self.machine.set == "full" else 1

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

    def encoded(self, name: str) -> bytes:
        """The program. LayerError where a field is too narrow; `name` is the layer's."""
        try:
            return encode(self.instructions, self.machine)
        except InputError as error:
            raise LayerError(
                f"{name} cannot be encoded for {self.machine.name}: {error.message}"
            ) from error
