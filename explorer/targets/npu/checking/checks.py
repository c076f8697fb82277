"""All checks of a program in one walk over an order in which it can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.checking.accesses import (
    Access,
    Outside,
    global_problem,
    global_rows,
    scratchpad_accesses,
)
from explorer.targets.npu.checking.order import find_order
from explorer.targets.npu.checking.races import GlobalMemory, Race, Scratchpads
from explorer.targets.npu.encoding import decode, decode_micro, field_table
from explorer.targets.npu.instructions import (
    Finish,
    Instruction,
    Load,
    Loop,
    MicroOperation,
    Store,
    Vector,
)
from explorer.targets.npu.machine import Machine

MAX_FINDINGS = 20
Kind = Literal[
    "deadlock",
    "bounds",
    "race",
    "unwritten",
    "overwritten",
    "token",
    "engine",
    "end",
    "micro_operations",
]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a program."""

    kind: Kind
    instruction: int
    text: str
    """Sentence with number and text of the instruction."""
    other: int | None = None
    """The second instruction of a race."""

    def __str__(self) -> str:
        return self.text


def check_program(program: bytes, image: bytes | np.ndarray, machine: Machine) -> list[Finding]:
    """At most `MAX_FINDINGS`, in the order in which instructions can run; empty: all is well.

    `image`: global memory before the program runs, out of which micro-operations are read.
    Raises `InputError` for bytes that are no program of this machine.
    """
    found: list[Finding] = []
    for finding in Checker(program, image, machine).findings():
        found.append(finding)
        if len(found) == MAX_FINDINGS:
            break
    return found


class Checker:
    def __init__(self, program: bytes, image: bytes | np.ndarray, machine: Machine) -> None:
        content = np.frombuffer(image, np.uint8) if isinstance(image, bytes) else image
        self.image = content.reshape(-1).view(np.uint8)
        self.machine = machine
        self.instructions = decode(program, machine)
        self.order = find_order(field_table(program, machine), machine)
        self.rows = {
            number: global_rows(op, machine) for number, op in enumerate(self.instructions)
        }
        self.scratchpads = Scratchpads(machine, self.order)
        self.memory = GlobalMemory(self.rows, self.order)
        self.micro = bytearray(
            machine.depth("micro_operations") * machine.by_content["micro_operations"].element_bytes
        )

    def findings(self) -> Iterator[Finding]:
        yield from self._ends()
        for number in self.order.executed:
            yield from self._instruction(number, self.instructions[number])
        for waiting in self.order.waiting:
            yield self._finding("deadlock", waiting.number, f"it never runs: {waiting.reason}")
        for number, queue in self.order.left_over:
            yield self._finding(
                "token", number, f"nobody takes a token that it gives to the queue {queue}"
            )

    def _finding(self, kind: Kind, number: int, text: str, other: int | None = None) -> Finding:
        where = f"instruction {number}"
        if self.instructions:
            where += f" ({line_of(self.instructions[number])})"
        return Finding(kind=kind, instruction=number, text=f"{where}: {text}", other=other)

    def _ends(self) -> Iterator[Finding]:
        ends = [n for n, op in enumerate(self.instructions) if isinstance(op, Finish)]
        last = len(self.instructions) - 1
        if not ends:
            yield self._finding("end", last, "the program has no finish")
        elif ends != [last]:
            yield self._finding("end", ends[0], "finish is not the last instruction")

    def _instruction(self, number: int, op: Instruction) -> Iterator[Finding]:
        if isinstance(op, Vector) and op.operation not in self.machine.operations:
            yield self._finding(
                "engine", number, f"the vector engine of {self.machine.name} has no {op.operation}"
            )
        if problem := global_problem(self.rows[number], self.image.size, self.machine):
            yield self._finding("bounds", number, problem)
            return
        if isinstance(op, Loop) and op.micro_end > self.machine.depth("micro_operations"):
            depth = self.machine.depth("micro_operations")
            yield self._finding(
                "bounds",
                number,
                f"micro operations have {depth} elements, and it touches {op.micro_end - 1}",
            )
            return
        micro = self._micro(op) if isinstance(op, Loop) else ()
        accesses = scratchpad_accesses(op, micro, self.machine)
        if isinstance(accesses, Outside):
            yield self._finding("bounds", number, accesses.text)
            return
        yield from self._races(number, op, accesses)
        if isinstance(op, Load) and op.memory == "micro_operations":
            yield from self._load_micro(number, op)

    def _races(self, number: int, op: Instruction, accesses: list[Access]) -> Iterator[Finding]:
        clock = self.order.clocks[number]
        if accesses and accesses[-1].is_tensor and self.scratchpads.share(*accesses):
            yield self._finding("race", number, "its two ends share bytes of the scratchpad")
        for access in accesses:
            if access.is_tensor:
                continue
            if (element := self.scratchpads.unwritten(access)) is not None:
                place = f"{access.content.replace('_', ' ')} {element}"
                text = f"reads {place}, which no instruction before it has written"
                yield self._finding("unwritten", number, text)
            elif found := self.scratchpads.overwritten(access):
                (element, content), name = found, access.content.replace("_", " ")
                text = f"reads {name} {element}, where {content.replace('_', ' ')} were written"
                yield self._finding("overwritten", number, text)
        for access in accesses:
            if found := self.scratchpads.touch(number, access, clock):
                race, element = found
                yield self._race(race, f"{access.content.replace('_', ' ')} {element}")
        touched = self.memory.touch(
            number, self.rows[number], writes=isinstance(op, Store), clock=clock
        )
        if touched:
            yield self._race(touched[0], f"byte {touched[1]} of global memory")

    def _race(self, race: Race, place: str) -> Finding:
        other = f"instruction {race.other} ({line_of(self.instructions[race.other])})"
        does = "writes" if race.writes else "reads"
        did = "write" if race.other_writes else "read"
        return self._finding(
            "race",
            race.number,
            f"{does} {place}, which {other} may still {did}: no token orders them",
            race.other,
        )

    def _micro(self, op: Loop) -> tuple[MicroOperation, ...]:
        size = self.machine.by_content["micro_operations"].element_bytes
        data = bytes(self.micro[op.micro_begin * size : op.micro_end * size])
        return decode_micro(data, self.machine) if op.micro_end > op.micro_begin else ()

    def _load_micro(self, number: int, op: Load) -> Iterator[Finding]:
        """What the scratchpad of micro-operations holds behind this load."""
        size = self.machine.by_content["micro_operations"].element_bytes
        for other in self._stores_near(self.rows[number]):
            if _overlap(self.rows[number], self.rows[other]):
                yield self._finding(
                    "micro_operations",
                    number,
                    f"it loads micro-operations that instruction {other} "
                    f"({line_of(self.instructions[other])}) writes: what they address cannot be "
                    "told before",
                )
        width = op.x_pad_before + op.x_size + op.x_pad_after
        at = op.scratchpad_address + op.y_pad_before * width
        if not op.x_size:
            return
        total = (op.y_pad_before + op.y_size + op.y_pad_after) * width
        pad = bytes([op.pad_value & 255]) * size
        start = op.scratchpad_address * size
        self.micro[start : start + total * size] = pad * total
        for y in range(op.y_size):
            first = (op.global_address + y * op.x_stride) * size
            to = (at + y * width + op.x_pad_before) * size
            self.micro[to : to + op.x_size * size] = self.image[
                first : first + op.x_size * size
            ].tobytes()

    def _stores_near(self, rows: np.ndarray) -> list[int]:
        """Numbers of the stores between whose first and last byte some of these rows may lie."""
        if not len(rows):
            return []
        numbers, firsts, ends = self._stores
        is_near = (firsts < rows[:, 1].max()) & (ends > rows[:, 0].min())
        return numbers[is_near].tolist()

    @cached_property
    def _stores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of all stores that write: their numbers, first bytes, and ends."""
        found = [
            (number, rows[:, 0].min(), rows[:, 1].max())
            for number, op in enumerate(self.instructions)
            if isinstance(op, Store) and len(rows := self.rows[number])
        ]
        numbers, firsts, ends = np.array(found, np.int64).reshape(-1, 3).T
        return numbers, firsts, ends


def _overlap(left: np.ndarray, right: np.ndarray) -> bool:
    if not len(left) or not len(right):
        return False
    order = np.argsort(left[:, 0])
    starts, ends = left[order, 0], np.maximum.accumulate(left[order, 1])
    before = np.searchsorted(starts, right[:, 1], side="left") - 1
    return bool(((before >= 0) & (ends[np.maximum(before, 0)] > right[:, 0])).any())
