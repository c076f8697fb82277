"""Sizes and symbols of a WebAssembly object file.

    parse_wasm(data)   ->   WasmObject with bytes of code, constants and written memory, and symbols

After the WebAssembly Core Specification, 1.0, section 5.5, and "WebAssembly Object File Linking"
(tool-conventions): only what is needed of imports, bodies, data segments and the symbol table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, CODE, DATA = 0, 2, 10, 11
SEGMENTS, SYMBOLS = 5, 8
"""Kinds of subsections of the section `linking`."""
FUNCTION_SYMBOL, DATA_SYMBOL, SECTION_SYMBOL = 0, 1, 3
LOCAL, UNDEFINED, NAMED = 2, 0x10, 0x40
"""Flags of a symbol: bound in this file; from another one; with a name of its own there."""
END = 0x0B
WRITTEN = (".data", ".bss", ".tdata", ".tbss")
"""What names of segments begin with that are no constants."""


@dataclass
class WasmObject:
    """What the parts of the file say, in bytes; functions by index, imported ones first."""

    imported: list[str] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    segment_names: list[str] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)

    @property
    def code_bytes(self) -> int:
        return sum(self.bodies)

    @property
    def written_bytes(self) -> int:
        pairs = zip(self.segment_names, self.segments, strict=True)
        return sum(size for name, size in pairs if name.startswith(WRITTEN))

    @property
    def constant_bytes(self) -> int:
        return sum(self.segments) - self.written_bytes


def parse_wasm(data: bytes) -> WasmObject:
    """ValueError or IndexError where the bytes are no object file."""
    if not data.startswith(MAGIC):
        raise ValueError("it has no WebAssembly header of version 1")
    found = WasmObject()
    reader = _Reader(data, len(MAGIC), len(data))
    linking: list[_Reader] = []
    while reader.has_more:
        kind = reader.byte()
        section = reader.inner(reader.number())
        if kind == IMPORT:
            _read_imports(section, found)
        elif kind == CODE:
            for _ in range(section.number()):
                size = section.number()
                section.skip(size)
                found.bodies.append(size)
        elif kind == DATA:
            _read_segments(section, found)
        elif kind == CUSTOM and section.text() == "linking":
            linking.append(section)
    for section in linking:  # it may stand before what it names
        _read_linking(section, found)
    if len(found.segment_names) != len(found.segments):
        raise ValueError("its data segments have no names")
    return found


class _Reader:
    """Bytes from a place to an end; reading beyond it is an error."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        if end > len(data):
            raise ValueError("it is cut off")
        self.data, self.at, self.end = data, at, end

    @property
    def has_more(self) -> bool:
        return self.at < self.end

    def byte(self) -> int:
        if not self.has_more:
            raise ValueError("it is cut off")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Unsigned LEB128 of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number is longer than 32 bits")

    def skip(self, count: int) -> None:
        if self.at + count > self.end:
            raise ValueError("it is cut off")
        self.at += count

    def text(self) -> str:
        count = self.number()
        self.skip(count)
        return self.data[self.at - count : self.at].decode("utf-8", "replace")

    def inner(self, count: int) -> _Reader:
        """A reader of the next bytes, which are passed."""
        self.skip(count)
        return _Reader(self.data, self.at - count, self.at)

    def limits(self) -> None:
        has_maximum = self.byte() & 1
        self.number()
        if has_maximum:
            self.number()


def _read_imports(section: _Reader, found: WasmObject) -> None:
    for _ in range(section.number()):
        section.text()
        name, kind = section.text(), section.byte()
        if kind == 0:
            section.number()
            found.imported.append(name)
        elif kind == 1:
            section.byte()
            section.limits()
        elif kind == 2:
            section.limits()
        elif kind == 3:
            section.skip(2)
        else:
            raise ValueError(f"an import of kind {kind}")


def _read_segments(section: _Reader, found: WasmObject) -> None:
    for _ in range(section.number()):
        kind = section.number()
        if kind == 2:
            section.number()
        if kind != 1:  # a place, by an instruction with one operand
            section.byte()
            section.number()
            if section.byte() != END:
                raise ValueError("the place of a data segment is no number")
        size = section.number()
        section.skip(size)
        found.segments.append(size)


def _read_linking(section: _Reader, found: WasmObject) -> None:
    section.number()  # version
    while section.has_more:
        kind = section.byte()
        part = section.inner(section.number())
        if kind == SEGMENTS:
            for _ in range(part.number()):
                found.segment_names.append(part.text())
                part.number()
                part.number()
        elif kind == SYMBOLS:
            for _ in range(part.number()):
                _read_symbol(part, found)


def _read_symbol(part: _Reader, found: WasmObject) -> None:
    kind, flags = part.byte(), part.number()
    if kind == SECTION_SYMBOL:
        part.number()
        return
    is_undefined = bool(flags & UNDEFINED)
    if kind == DATA_SYMBOL:
        name = part.text()
        if is_undefined:
            found.undefined.add(name)
            return
        part.number()
        part.number()
        found.constants[name] = part.number()
    else:
        index = part.number()
        if is_undefined and not flags & NAMED:
            if kind == FUNCTION_SYMBOL:
                found.undefined.add(found.imported[index])
            return
        name = part.text()
        if is_undefined:
            if kind == FUNCTION_SYMBOL:
                found.undefined.add(name)
            return
        if kind != FUNCTION_SYMBOL:
            return
        found.functions[name] = found.bodies[index - len(found.imported)]
    if not flags & LOCAL:
        found.defined.add(name)
