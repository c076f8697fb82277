"""Damage to a file, of bytes and of what they mean: by the suffix, and by a generator's numbers.

    damage(".npz", content, np.random.default_rng(7))      the same for a seed

Some damages are to bytes (`damage_bytes`); most of those a checksum or a parser notices. The others
keep the form: a field of a message of ONNX or Caffe, a word of a flatbuffer, a value of a JSON
member whose checksum is right again, a number or name of a text is another one, is there twice, or
is gone.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verification.mutation.mutants import (
    ODD_NAMES,
    ODD_NUMBERS,
    damage_bytes,
    damage_message,
)
from verification.mutation.wire import damage_wire

Damage = Callable[[bytes, np.random.Generator], bytes]

OF_TEXT = (".prototxt", ".mlir", ".toml", ".json")
MIN_FLATBUFFER = 16
NEAR_BYTES = 1 << 14
"""Of either end, where most of a flatbuffer's structure is."""
DEEP = 3000
"""More levels than Python's own parsers nest."""
_ODD_TEXTS = ("[" * DEEP, "{" * DEEP, "(", "}", '"', "\0", "#", "nan", "-", "1e999", "9" * 5000)
_TOKENS = re.compile(r"\w+|\s+|.")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def damage(suffix: str, content: bytes, random: np.random.Generator) -> bytes:
    """A damaged copy; one damage in half of them, seldom more than three."""
    of_bytes = 0.2 if suffix in OF_TEXT else 0.5
    for _ in range(int(random.geometric(0.5))):
        damaged = damage_bytes if random.random() < of_bytes else DAMAGES[suffix]
        content = damaged(content, random)
    return content


def damage_text(content: bytes, random: np.random.Generator) -> bytes:
    """One token of a text, or one of its lines, is another, is there twice or is gone."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return damage_bytes(content, random)
    is_of_lines = random.random() < 0.3
    parts = text.splitlines(keepends=True) if is_of_lines else _TOKENS.findall(text)
    if not parts:
        return damage_bytes(content, random)
    index, other = (int(random.integers(len(parts))) for _ in range(2))
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    words = [i for i, part in enumerate(parts) if part.isidentifier()]
    match int(random.integers(8)):
        case 0:
            del parts[index]
        case 1:
            parts.insert(index, parts[other])
        case 2:
            parts[index], parts[other] = parts[other], parts[index]
        case 3 | 4 if numbers:
            place = _pick(numbers, random)
            parts[place] = str(_like_number(int(parts[place][:18]), random))
        case 5 | 6 if words:
            parts[_pick(words, random)] = parts[_pick(words, random)]
        case _:
            parts[index] = _pick((*_ODD_TEXTS, *ODD_NAMES), random)
    return "".join(parts).encode()


def damage_json(content: bytes, random: np.random.Generator) -> bytes:
    """One value of a JSON text is another, is there twice or is gone."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return damage_text(content, random)
    holder = [data]
    place: Any = holder  # a list or a dict of JSON
    key: Any = 0
    while isinstance(place[key], dict | list) and place[key] and random.random() < 0.85:
        place = place[key]
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = _pick(keys, random)
    match int(random.integers(4)):
        case 0 if place is not holder:
            del place[key]
        case 1 if isinstance(place, list):
            place.insert(key, place[key])
        case 1 if isinstance(place, dict):
            place[_pick(ODD_NAMES, random)] = place[key]
        case 2 if type(place[key]) is int:
            place[key] = _like_number(place[key], random)
        case 2 if isinstance(place[key], str):
            texts = re.findall(rb'"([\w ]*)"', content)
            place[key] = _pick(texts, random).decode() if texts else ""
        case _:
            place[key] = _odd_value(random)
    try:
        return json.dumps(holder[0]).encode()
    except RecursionError:
        return damage_bytes(content, random)


def _like_number(number: int, random: np.random.Generator) -> int:
    """One that could stand there as well, or one at an end of what numbers can be."""
    near = (0, 1, 2, 3, 4, 8, 16, number - 1, number + 1, 2 * number, number // 2)
    return _pick(near if random.random() < 0.7 else ODD_NUMBERS, random)


def _odd_value(random: np.random.Generator) -> Any:
    """A value of JSON that seldom stands where it is put."""
    values = (None, True, [], {}, [[]], {"": None}, 0.5, 1e308, "inf", "nan", float("nan"))
    return _pick((*values, *ODD_NUMBERS, *ODD_NAMES), random)


def damage_archive(
    content: bytes, random: np.random.Generator, methods: Sequence[int] = _METHODS
) -> bytes:
    """One member of a zip file is damaged, missing, there twice or under another name.

    `methods`: of compression, of which the copy has any.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # whatever an earlier damage makes of it
        return damage_bytes(content, random)
    if not members:
        return damage_bytes(content, random)
    index = int(random.integers(len(members)))
    name, data = members[index]
    match int(random.integers(8)):
        case 0:
            del members[index]
        case 1:
            members.append((name, data))
        case 2:
            members[index] = (_pick((*ODD_NAMES, *(n for n, _ in members)), random), data)
        case _:
            members[index] = (name, _damage_member(name, data, random))
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", _pick(methods, random)) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name or "x"), data)
    return made.getvalue()


def damage_stored_archive(content: bytes, random: np.random.Generator) -> bytes:
    """The same of an archive that is refused where it is compressed."""
    return damage_archive(content, random, (zipfile.ZIP_STORED,))


def _damage_member(name: str, data: bytes, random: np.random.Generator) -> bytes:
    suffix = "." + name.rpartition(".")[2]
    if suffix == ".npy":
        # Magic, version and length of the header, which is a text; then the numbers.
        end = data.find(b"\n") + 1
        return data[:10] + damage_text(data[10:end], random) + data[end:]
    return DAMAGES.get(suffix, damage_bytes)(data, random)


def _pick(choices: Any, random: np.random.Generator) -> Any:
    return choices[int(random.integers(len(choices)))]


def damage_words(content: bytes, random: np.random.Generator) -> bytes:
    """One word of a flatbuffer is another: an odd number, a neighbour's, or a little more or less.

    Nearly all of its structure is words of 32 bits at multiples of four (offsets, lengths, shapes)
    and of 16 (where fields lie), most of it far from the weights: at both ends.
    """
    if len(content) < MIN_FLATBUFFER:
        return damage_bytes(content, random)
    data = bytearray(content)
    size = 4 if random.random() < 0.7 else 2
    end = min(len(data), NEAR_BYTES) if random.random() < 0.8 else len(data)
    begin = len(data) - end if random.random() < 0.5 else 0
    place = (begin + int(random.integers(max(end - size, 1)))) // size * size
    word = int.from_bytes(data[place : place + size], "little")
    match int(random.integers(4)):
        case 0:
            word = _pick(ODD_NUMBERS, random)
        case 1:
            word += _pick((-1, 1, -4, 4), random)
        case 2:
            other = int(random.integers(len(data) - size)) // size * size
            word = int.from_bytes(data[other : other + size], "little")
        case _:
            word = int(random.integers(300))
    data[place : place + size] = (word % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(data[: len(content)])


DAMAGES: dict[str, Damage] = {
    ".onnx": damage_message,
    ".tflite": damage_words,
    ".prototxt": damage_text,
    ".caffemodel": damage_wire,
    ".zip": damage_archive,
    ".pt2": damage_stored_archive,
    ".nnx": damage_archive,
    ".npz": damage_archive,
    ".mlir": damage_text,
    ".toml": damage_text,
    ".json": damage_json,
}
"""What keeps a file's form, by its suffix."""
