"""Instructions and micro-operations as bytes, and back without loss.

    encode([Load(...), Finish()], machine)   -> 2 x 16 bytes on VTA
    decode(data, machine)                    -> (Load(...), Finish())
    field_table(data, machine)               -> one row of numbers per instruction, for programs
                                                that read millions of them

Bytes are little-endian. What no encoder writes is refused, with the instruction's number: an
opcode or memory that there is not, bits outside of all fields, a length that is no multiple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from explorer.errors import InputError
from explorer.targets.npu.formats import WORD_BITS, Field, Format, Formats, formats_of
from explorer.targets.npu.instructions import (
    RECORDS,
    VECTOR_OPERATIONS,
    Instruction,
    MicroOperation,
)
from explorer.targets.npu.machine import CONTENTS, Machine

NAMES = {"memory": CONTENTS, "operation": VECTOR_OPERATIONS}
"""Fields that records hold as names and formats as numbers."""

COLUMNS = (
    "opcode", "pop_before", "pop_after", "push_before", "push_after",
    "memory", "scratchpad_address", "global_address", "y_size", "x_size", "x_stride", "x_step",
    "y_pad_before", "y_pad_after", "x_pad_before", "x_pad_after", "pad_value",
    "reset", "micro_begin", "micro_end", "outer", "inner",
    "destination_outer", "destination_inner", "source_outer", "source_inner",
    "weight_outer", "weight_inner", "batch", "destination_step", "source_step",
    "operation", "use_immediate", "immediate", "table", "wide", "offset", "low", "high",
    "count", "step", "valid", "centered", "shift", "on_chip", "prefetch", "biased",
    "replace", "coded_bytes",
)  # fmt: skip
COLUMN = {name: index for index, name in enumerate(COLUMNS)}
DEFAULTS = {"batch": 1, "destination_step": 1, "source_step": 1, "x_step": 1}
"""Of fields that a format may leave out; of all others 0."""


MOVED_ON_CHIP = ("activations", "accumulators", "outputs", "widened", "gathered")
"""What tensors are loaded and stored as."""
CODED = ("weights", "diagonals")
"""What is loaded coded."""
PADS = tuple(f"{axis}_pad_{side}" for axis in "yx" for side in ("before", "after"))


@lru_cache(maxsize=64)
def cached_formats(machine: Machine) -> Formats:
    return formats_of(machine)


def encode(instructions: Iterable[Instruction], machine: Machine) -> bytes:
    """The bytes of a program. InputError with the instruction's number, the field and its bound."""
    formats = cached_formats(machine)
    return b"".join(
        _encode_one(instruction, number, formats, machine)
        for number, instruction in enumerate(instructions)
    )


def _encode_one(instruction: Instruction, number: int, formats: Formats, machine: Machine) -> bytes:
    format = formats.of(instruction.kind)
    where = f"instruction {number} ({instruction.kind})"
    if format is None:
        raise InputError(f"{where}: {machine.name} has no such instruction")
    given = {"opcode": format.opcode, **_numbers(instruction, where)}
    words = [0] * (formats.bits // WORD_BITS)
    for field in format.fields:
        _put(words, field, given.pop(field.name, 0), where)
    for name, value in given.items():
        if value != DEFAULTS.get(name, 0):
            raise InputError(f"{where}: {name} is {value}, and {machine.name} has no such field")
    _check_memory(instruction, where, machine)
    return b"".join(word.to_bytes(8, "little") for word in words)


def _numbers(instruction: Instruction, where: str) -> dict[str, int]:
    found = {}
    for field in dataclasses.fields(instruction):
        value: Any = getattr(instruction, field.name)
        if field.name in NAMES:
            if value not in NAMES[field.name]:
                known = ", ".join(NAMES[field.name])
                raise InputError(f"{where}: {field.name} is {value!r}, expected one of {known}")
            value = NAMES[field.name].index(value)
        found[field.name] = int(value)
    return found


def _put(words: list[int], field: Field, value: int, where: str) -> None:
    if not field.least <= value <= field.most:
        raise InputError(
            f"{where}: {field.name} is {value}, expected {field.least} to {field.most} "
            f"({field.bits} bits)"
        )
    words[field.word] |= (value & ((1 << field.bits) - 1)) << field.shift


def _check_memory(instruction: Instruction, where: str, machine: Machine) -> None:
    memory = getattr(instruction, "memory", None)
    if memory is not None and memory not in legal_contents(instruction.kind, machine):
        raise InputError(f"{where}: {machine.name} has no {instruction.kind} of {memory}")
    if getattr(instruction, "on_chip", False) and memory not in MOVED_ON_CHIP:
        raise InputError(f"{where}: {memory} are not moved on the chip")
    if getattr(instruction, "prefetch", False) and memory not in prefetched_contents(machine):
        raise InputError(f"{where}: the queue that loads activations loads {memory} anyway")
    if getattr(instruction, "coded_bytes", 0) and memory not in CODED:
        raise InputError(f"{where}: {memory} are not coded")
    if getattr(instruction, "coded_bytes", 0) and any(getattr(instruction, one) for one in PADS):
        raise InputError(f"{where}: coded weights have no padding")


def legal_contents(kind: str, machine: Machine) -> tuple[str, ...]:
    """What a load or store can move."""
    if kind == "store":
        return machine.instruction_set.stored
    return tuple(c for c in CONTENTS if c in machine.by_content and c != "outputs")


def prefetched_contents(machine: Machine) -> tuple[str, ...]:
    """What another queue than that of activations loads, so that `prefetch` means something."""
    ahead = machine.queue_of("activations", True)
    contents = legal_contents("load", machine)
    return tuple(c for c in contents if machine.queue_of(c, True) != ahead)


def decode(data: bytes, machine: Machine) -> tuple[Instruction, ...]:
    """The records of a program's bytes. InputError, with the instruction's number, for damage."""
    table = field_table(data, machine)
    formats = cached_formats(machine)
    return tuple(_record(row, formats) for row in table.tolist())


def _record(row: Sequence[int], formats: Formats) -> Instruction:
    format = formats.of_opcode(row[0])
    assert format is not None
    record = RECORDS[format.kind]
    values: dict[str, Any] = {}
    types = {field.name: field.type for field in dataclasses.fields(record)}
    for name, type_name in types.items():
        value = row[COLUMN[name]]
        if name in NAMES:
            values[name] = NAMES[name][value]
        else:
            values[name] = bool(value) if type_name == "bool" else value
    return record(**values)


def field_table(data: bytes, machine: Machine) -> np.ndarray:
    """i64 of [instructions, len(COLUMNS)]: the fields of every instruction, defaults elsewhere."""
    formats = cached_formats(machine)
    size = formats.size_bytes
    if len(data) % size:
        raise InputError(
            f"the program has {len(data)} bytes, expected a multiple of {size}: "
            f"instruction {len(data) // size} is cut off"
        )
    words = np.frombuffer(data, "<u8").reshape(-1, size // 8)
    table = np.zeros((len(words), len(COLUMNS)), np.int64)
    for name, value in DEFAULTS.items():
        table[:, COLUMN[name]] = value
    opcodes = words[:, 0] & np.uint64((1 << machine.instruction_set.opcode_bits) - 1)
    refused: list[tuple[int, str]] = []
    known = [format.opcode for format in formats.kinds]
    for number in np.flatnonzero(~np.isin(opcodes, known))[:1]:
        refused.append((int(number), f"opcode {opcodes[number]} is none of {machine.name}"))
    for format in formats.kinds:
        chosen = np.flatnonzero(opcodes == format.opcode)
        refused += _fill(table, words, chosen, format, machine)
    if refused:
        number, reason = min(refused)
        raise InputError(f"instruction {number}: {reason}")
    return table


def _fill(
    table: np.ndarray, words: np.ndarray, chosen: np.ndarray, format: Format, machine: Machine
) -> list[tuple[int, str]]:
    """Writes the fields of the chosen instructions, which have one format; what is refused."""
    mine = words[chosen]
    covered = np.zeros(words.shape[1], np.uint64)
    for field in format.fields:
        mask = np.uint64((1 << field.bits) - 1)
        values = ((mine[:, field.word] >> np.uint64(field.shift)) & mask).astype(np.int64)
        if field.is_signed:
            values -= (values >> (field.bits - 1)) << field.bits
        table[chosen, COLUMN[field.name]] = values
        covered[field.word] |= mask << np.uint64(field.shift)
    refused: list[tuple[int, str]] = []
    outside = (mine & ~covered).any(axis=1)
    unused = [(outside, "has bits outside of the fields of {kind}")]
    pads = [COLUMN[name] for name in PADS]
    if format.kind in ("load", "store"):
        legal = [CONTENTS.index(c) for c in legal_contents(format.kind, machine)]
        memories = table[chosen, COLUMN["memory"]]
        unused.append((~np.isin(memories, legal), "memory is none that {kind} knows"))
        moved = [CONTENTS.index(content) for content in MOVED_ON_CHIP]
        unused.append(((table[chosen, COLUMN["on_chip"]] != 0) & ~np.isin(memories, moved),
                       "memory is none that is moved on the chip"))  # fmt: skip
        others = [CONTENTS.index(content) for content in prefetched_contents(machine)]
        unused.append(((table[chosen, COLUMN["prefetch"]] != 0) & ~np.isin(memories, others),
                       "memory is none that is prefetched"))  # fmt: skip
        weights = [CONTENTS.index(content) for content in CODED]
        is_coded = table[chosen, COLUMN["coded_bytes"]] != 0
        unused += [
            (is_coded & ~np.isin(memories, weights), "memory is none that is coded"),
            (is_coded & table[chosen][:, pads].any(axis=1), "coded weights have no padding"),
        ]
    if format.kind == "store":
        unused.append((table[chosen][:, pads].any(axis=1), "{kind} cannot pad"))
    if format.kind == "vector":
        unused.append((table[chosen, COLUMN["operation"]] >= len(VECTOR_OPERATIONS),
                       "operation is none that {kind} knows"))  # fmt: skip
        unused.append((table[chosen, COLUMN["reset"]] != 0, "{kind} has a bit set that is unused"))
    for wrong, reason in unused:
        refused += [(int(chosen[i]), reason.format(kind=format.kind))
                    for i in np.flatnonzero(wrong)[:1]]  # fmt: skip
    return refused


def encode_micro(operations: Iterable[MicroOperation], machine: Machine) -> bytes:
    """Micro-operations as they lie in global memory and their scratchpad."""
    format = cached_formats(machine).micro_operation
    size = machine.by_content["micro_operations"].element_bytes
    found = []
    for number, operation in enumerate(operations):
        words = [0]
        for field in format.fields:
            _put(words, field, getattr(operation, field.name), f"micro-operation {number}")
        found.append(words[0].to_bytes(size, "little"))
    return b"".join(found)


def decode_micro(data: bytes, machine: Machine) -> tuple[MicroOperation, ...]:
    """Micro-operations of bytes; bits outside of their fields are not looked at."""
    format = cached_formats(machine).micro_operation
    size = machine.by_content["micro_operations"].element_bytes
    if len(data) % size:
        raise InputError(f"micro-operations have {size} bytes each, and there are {len(data)}")
    words = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    return tuple(
        _micro({f.name: (word >> f.shift) & ((1 << f.bits) - 1) for f in format.fields})
        for word in words
    )


def _micro(values: dict[str, int]) -> MicroOperation:
    first = bool(values.pop("first", 0))
    return MicroOperation(**values, first=first)
