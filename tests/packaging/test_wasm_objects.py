"""Sizes and symbols of WebAssembly object files, which are written byte by byte here."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.errors import InputError
from explorer.packaging.objects import read_object

HEADER = b"\0asm\1\0\0\0"
FUNCTION, DATA, GLOBAL, SECTION = 0, 1, 2, 3
WEAK_LOCAL, UNDEFINED, NAMED = 2, 0x10, 0x40


def number(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def text(words: str) -> bytes:
    return number(len(words)) + words.encode()


def section(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + number(len(content)) + content


def vector(*items: bytes) -> bytes:
    return number(len(items)) + b"".join(items)


def body(size: int) -> bytes:
    return number(size) + bytes(size)


def segment(size: int, place: int = 0) -> bytes:
    return b"\0\x41" + number(place) + b"\x0b" + number(size) + bytes(size)


IMPORTS = section(2, vector(
    text("env") + text("__linear_memory") + b"\2\0\1",
    text("env") + text("expf") + b"\0\0",
    text("env") + text("__stack_pointer") + b"\3\x7f\1",
    text("env") + text("table") + b"\1\x70\1\0\5",
))  # fmt: skip
CODES = section(10, vector(body(300), body(20)))
SEGMENTS = section(11, vector(segment(200), segment(8, 200), b"\1" + number(5) + bytes(5)))
NAMES = section(5, vector(
    text(".rodata.net_weights") + b"\2\0", text(".bss.counter") + b"\2\0",
    text(".rodata.text") + b"\0\0",
))  # fmt: skip
SYMBOLS = section(8, vector(
    bytes([FUNCTION, UNDEFINED]) + number(0),
    bytes([FUNCTION, 0]) + number(1) + text("net_run"),
    bytes([FUNCTION, WEAK_LOCAL]) + number(2) + text("run_conv"),
    bytes([FUNCTION, UNDEFINED | NAMED]) + number(0) + text("sqrtf"),
    bytes([GLOBAL, UNDEFINED]) + number(0),
    bytes([DATA, WEAK_LOCAL]) + text("net_weights") + b"\0\0" + number(180),
    bytes([DATA, UNDEFINED]) + text("errno"),
    bytes([SECTION, 0]) + number(3),
))  # fmt: skip
LINKING = section(0, text("linking") + b"\2" + NAMES + SYMBOLS)
WHOLE = HEADER + IMPORTS + CODES + SEGMENTS + section(0, text("producers") + b"xyz") + LINKING


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "net.o"
    path.write_bytes(data)
    return path


def test_sizes_and_symbols_are_read(tmp_path):
    found = read_object(written(tmp_path, WHOLE))
    assert found.code_bytes == 320
    assert (found.constant_bytes, found.written_bytes) == (205, 8)
    assert found.functions == {"net_run": 300, "run_conv": 20}
    assert found.constants == {"net_weights": 180}
    assert found.defined == ("net_run",)
    assert found.undefined == ("errno", "expf", "sqrtf")


def test_an_empty_module_has_nothing(tmp_path):
    found = read_object(written(tmp_path, HEADER))
    assert found.code_bytes == found.constant_bytes == found.written_bytes == 0
    assert found.functions == {} and found.undefined == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HEADER[:7], "no WebAssembly header of version 1"),
        (b"\0asm\2\0\0\0", "no WebAssembly header of version 1"),
        (WHOLE[:-1], "cut off"),
        (HEADER + b"\x0a\xff\xff\xff\xff\xff\xff", "longer than 32 bits"),
        (HEADER + section(2, vector(text("env") + text("f") + b"\7")), "import of kind 7"),
        (HEADER + SEGMENTS, "have no names"),
        (HEADER + section(11, vector(b"\0\x23\0\x05")), "no number"),
        (HEADER + LINKING, "out of range"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, data, reason):
    with pytest.raises(InputError, match=reason):
        read_object(written(tmp_path, data))


def test_a_file_that_ends_early_is_refused_wherever_it_ends(tmp_path):
    ends = {len(HEADER)}
    for part in (IMPORTS, CODES, SEGMENTS, section(0, text("producers") + b"xyz"), LINKING):
        ends.add(max(ends) + len(part))
    nameless = sorted(ends)[3:5]  # segments without the names of the last section
    for length in range(len(WHOLE)):
        path = written(tmp_path, WHOLE[:length])
        if length in ends and length not in nameless:
            read_object(path)
            continue
        with pytest.raises(InputError):
            read_object(path)
