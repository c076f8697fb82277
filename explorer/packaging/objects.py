"""Sizes and symbols of an object file in the Executable and Linkable Format, or of WebAssembly.

    read_object(path)   ->   ObjectFile(code_bytes=9243, constant_bytes=126720, written_bytes=0,
                                        functions={"conv_1_phase0": 812}, undefined=("expf",))

After "Tool Interface Standard: Executable and Linking Format", version 1.2, and the 64-bit form of
the System V gABI: only what is needed of sections and symbols.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import InputError
from explorer.packaging.wasm_objects import MAGIC as WASM_MAGIC
from explorer.packaging.wasm_objects import parse_wasm

MAGIC = b"\x7fELF"
SYMBOL_TABLE, NO_BITS = 2, 8
WRITE, ALLOCATE, EXECUTE = 1, 2, 4
OBJECT, FUNCTION = 1, 2
UNDEFINED = 0
HIGHEST_SECTION = 0xFF00
GLOBAL = 1


@dataclass(frozen=True, kw_only=True)
class ObjectFile:
    code_bytes: int
    """Of instructions."""
    constant_bytes: int
    """Of memory that is only read."""
    written_bytes: int
    """`.data` and `.bss`."""
    functions: Mapping[str, int]
    """Bytes by name; local ones too."""
    constants: Mapping[str, int]
    """The same of objects."""
    defined: tuple[str, ...]
    """What other files can refer to, sorted."""
    undefined: tuple[str, ...]
    """What it takes from other files, sorted."""


@dataclass(frozen=True, kw_only=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    entry: int


def read_object(path: Path) -> ObjectFile:
    """InputError where the file has another format, or is damaged."""
    data = path.read_bytes()
    is_wasm = data[:4] == WASM_MAGIC[:4]
    if data[:4] != MAGIC and not is_wasm:
        raise InputError("it has no header of ELF or WebAssembly", file=str(path))
    try:
        return _parse_wasm(data) if is_wasm else _parse(data)
    except (struct.error, IndexError, ValueError) as error:
        raise InputError(f"not a readable object file: {error}", file=str(path)) from error


def _parse_wasm(data: bytes) -> ObjectFile:
    found = parse_wasm(data)
    return ObjectFile(
        code_bytes=found.code_bytes,
        constant_bytes=found.constant_bytes,
        written_bytes=found.written_bytes,
        functions=found.functions,
        constants=found.constants,
        defined=tuple(sorted(found.defined)),
        undefined=tuple(sorted(found.undefined)),
    )


def _parse(data: bytes) -> ObjectFile:
    is_64, order = data[4] == 2, "<" if data[5] == 1 else ">"
    sections = _sections(data, is_64, order)
    loaded = [s for s in sections if s.flags & ALLOCATE]
    code = sum(s.size for s in loaded if s.flags & EXECUTE)
    written = sum(s.size for s in loaded if s.flags & WRITE and not _is_constant(s.name))
    constant = sum(s.size for s in loaded) - code - written
    functions: dict[str, int] = {}
    constants: dict[str, int] = {}
    defined: set[str] = set()
    undefined: set[str] = set()
    for name, kind, is_global, section, size in _symbols(data, sections, is_64, order):
        if section == UNDEFINED:
            undefined |= {name} if name else set()
            continue
        if is_global:
            defined.add(name)
        if kind == FUNCTION:
            functions[name] = size
        if kind == OBJECT:
            constants[name] = size
    return ObjectFile(
        code_bytes=code,
        constant_bytes=constant,
        written_bytes=written,
        functions=functions,
        constants=constants,
        defined=tuple(sorted(defined)),
        undefined=tuple(sorted(undefined)),
    )


def _is_constant(name: str) -> bool:
    """Constants that hold addresses are written once, by whoever loads a shared library."""
    return name.startswith((".data.rel.ro", ".eh_frame", ".init_array", ".fini_array"))


def _sections(data: bytes, is_64: bool, order: str) -> list[_Section]:
    if is_64:
        (table,) = struct.unpack_from(order + "Q", data, 0x28)
        size, count, names = struct.unpack_from(order + "HHH", data, 0x3A)
    else:
        (table,) = struct.unpack_from(order + "I", data, 0x20)
        size, count, names = struct.unpack_from(order + "HHH", data, 0x2E)
    form = order + ("IIQQQQIIQQ" if is_64 else "IIIIIIIIII")
    rows = [struct.unpack_from(form, data, table + i * size) for i in range(count)]
    texts = rows[names][4]
    return [
        _Section(
            name=_text(data, texts + row[0]),
            kind=row[1],
            flags=row[2],
            offset=row[4],
            size=row[5],
            link=row[6],
            entry=row[9],
        )
        for row in rows
    ]


def _symbols(
    data: bytes, sections: list[_Section], is_64: bool, order: str
) -> list[tuple[str, int, bool, int, int]]:
    """(name, kind, is global, section, bytes) of every symbol."""
    found: list[tuple[str, int, bool, int, int]] = []
    for section in sections:
        if section.kind != SYMBOL_TABLE:
            continue
        texts = sections[section.link].offset
        for place in range(section.offset, section.offset + section.size, section.entry):
            if is_64:
                name, info, _, where, _, size = struct.unpack_from(order + "IBBHQQ", data, place)
            else:
                name, _, size, info, _, where = struct.unpack_from(order + "IIIBBH", data, place)
            if where >= HIGHEST_SECTION:
                continue  # the file's name, and absolute values
            found.append((_text(data, texts + name), info & 15, info >> 4 == GLOBAL, where, size))
    return found


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")
