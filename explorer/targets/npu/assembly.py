"""Programs as text, and back.

    micro destination=0 source=0 weight=0
    load activations scratchpad_address=0 global_address=64 x_size=14 push_after
    multiply micro_begin=0 micro_end=1 inner=14 destination_inner=1 source_inner=1 pop_before
    finish

One instruction per line: its kind, for transfers the content and for vector instructions the
operation, then fields by name. A field that has its default is left out; of one that is true or
false the name alone stands there. `#` begins a comment. Lines that begin with `micro` are
micro-operations, which lie in global memory and are loaded like everything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.results.names import suggestion
from explorer.targets.npu.encoding import NAMES
from explorer.targets.npu.instructions import RECORDS, Instruction, MicroOperation

MICRO = "micro"


@dataclass(frozen=True)
class Assembly:
    """What a text holds."""

    instructions: tuple[Instruction, ...]
    micro_operations: tuple[MicroOperation, ...] = ()


def assemble(text: str) -> Assembly:
    """The instructions of a text. InputError with the line at fault and the nearest name."""
    instructions: list[Instruction] = []
    micro: list[MicroOperation] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        kind, where = words.pop(0), f"line {number}"
        if kind == MICRO:
            micro.append(_read(MicroOperation, words, where))
        elif kind in RECORDS:
            instructions.append(_read(RECORDS[kind], words, where))
        else:
            known = (*RECORDS, MICRO)
            raise InputError(f"{where}: no instruction {kind!r}{suggestion(kind, known)}")
    return Assembly(tuple(instructions), tuple(micro))


def _read(record: Any, words: list[str], where: str) -> Any:  # dataclasses have no type in common
    fields = {field.name: field for field in dataclasses.fields(record)}
    values: dict[str, Any] = {}
    named = next((name for name in fields if name in NAMES), None)
    if named is not None:
        word = words.pop(0) if words else ""
        if word not in NAMES[named]:
            raise InputError(f"{where}: no {named} {word!r}{suggestion(word, NAMES[named])}")
        values[named] = word
    for word in words:
        name, equals, value = word.partition("=")
        if name not in fields or name == named:
            raise InputError(f"{where}: no field {name!r}{suggestion(name, fields)}")
        if name in values:
            raise InputError(f"{where}: {name} stands there twice")
        is_flag = fields[name].type == "bool"
        if is_flag != (not equals):
            expected = "its name alone" if is_flag else f"{name}=NUMBER"
            raise InputError(f"{where}: {word!r}, expected {expected}")
        values[name] = True if is_flag else _number(value, name, where)
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            raise InputError(f"{where}: {name} is missing")
    return record(**values)


def _number(text: str, name: str, where: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise InputError(f"{where}: {name} is {text!r}, expected a whole number") from None


def disassemble(
    instructions: Iterable[Instruction], micro_operations: Iterable[MicroOperation] = ()
) -> str:
    """The text that `assemble` reads as the same."""
    lines = [_write(MICRO, operation) for operation in micro_operations]
    lines += [_write(instruction.kind, instruction) for instruction in instructions]
    return "".join(f"{line}\n" for line in lines)


def line_of(instruction: Instruction) -> str:
    """One instruction as text."""
    return _write(instruction.kind, instruction)


def _write(kind: str, record: Any) -> str:
    named, words = [], []
    tokens = {field.name for field in dataclasses.fields(Instruction)}
    fields = dataclasses.fields(record)
    for field in sorted(fields, key=lambda field: field.name in tokens):  # tokens come last
        value = getattr(record, field.name)
        if field.name in NAMES:
            named.append(value)
        elif value != field.default:
            words.append(field.name if field.type == "bool" else f"{field.name}={value}")
    return " ".join([kind, *named, *words])
