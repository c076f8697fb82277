"""Damage to protobuf's wire format, whatever its messages mean: a field of one of them is another.

damage_wire(content, random)     fields around it keep their lengths right, mostly
"""

from __future__ import annotations

import numpy as np

from verification.mutation.mutants import ODD_NAMES, ODD_NUMBERS, damage_bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 10_000
"""Of a message; what has more is an array of numbers."""
Field = tuple[int, int, int | bytes]
"""Number, kind of the wire, value."""


def damage_wire(content: bytes, random: np.random.Generator) -> bytes:
    """One field of one message: gone, there twice, elsewhere, or with another value."""
    fields = _fields(content)
    if not fields:
        return damage_bytes(content, random)
    index = int(random.integers(len(fields)))
    number, kind, value = fields[index]
    if isinstance(value, bytes) and _fields(value) and random.random() < 0.85:
        fields[index] = (number, kind, damage_wire(value, random))
        return _written(fields)
    match int(random.integers(5)):
        case 0:
            del fields[index]
        case 1:
            fields.insert(index, fields[int(random.integers(len(fields)))])
        case 2:
            fields[index] = (int(random.integers(1, 120)), kind, value)
        case _ if isinstance(value, bytes):
            names = [name.encode() for name in ODD_NAMES]
            odd = (b"", value + value, value[: len(value) // 2], value[:-1], *names)
            fields[index] = (number, kind, odd[int(random.integers(len(odd)))])
        case _:
            among = (*ODD_NUMBERS, value + 1, value - 1, 2 * value, 3)
            fields[index] = (number, kind, among[int(random.integers(len(among)))])
    damaged = _written(fields)
    return damage_bytes(damaged, random) if random.random() < 0.1 else damaged


def _fields(content: bytes) -> list[Field]:
    """Of a message; none where the bytes are no such."""
    found: list[Field] = []
    at = 0
    while at < len(content) and len(found) < MAX_FIELDS:
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if at < 0 or number < 1 or number > 1 << 12:
            return []
        if kind == VARINT:
            value, at = _varint(content, at)
            found.append((number, kind, value))
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
            if kind == BYTES:
                size, at = _varint(content, at)
            if at < 0 or size < 0 or at + size > len(content):
                return []
            found.append((number, kind, content[at : at + size]))
            at += size
        if at < 0:
            return []
    return found if at == len(content) else []


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number and where the next begins; -1 for none."""
    result = 0
    for shift in range(0, 64, 7):
        if not 0 <= at < len(content):
            return 0, -1
        byte = content[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    return 0, -1


def _written(fields: list[Field]) -> bytes:
    made = bytearray()
    for number, kind, value in fields:
        made += _number(number << 3 | kind)
        if isinstance(value, int):
            made += _number(value % (1 << 64))
        else:
            made += (_number(len(value)) if kind == BYTES else b"") + value
    return bytes(made)


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
