"""One saved program in one file: a seal over JSON.

    explorer kept program 1\\n
    <SHA-256 of all that follows, 64 hexadecimal digits>\\n
    {"model": {...}, "sizes": ..., "circumstances": ..., "program": {...}, "binary": ..., ...}

The schema is `results.runs.saved_program.SavedProgram`; reading checks every field of it.
Texts are left out: the kernels' source lies with the binary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from explorer.files import sealed, unsealed
from explorer.results.encoding import from_json, to_json
from explorer.results.program import Program
from explorer.results.runs.saved_program import SavedProgram
from explorer.results.source import SourceText
from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.keys import digest_of
from explorer.runtime.cache.requests import SHORT, ProgramRequest
from explorer.runtime.element_types import element_bytes

MAGIC = b"explorer kept program 1\n"
SUFFIX = ".kept"
MAX_BYTES = 64 << 20


class DamagedProgram(Exception):
    """The file is not what was written; the text says how."""


def name_of(kept: SavedProgram) -> str:
    """`MODEL-ASKED-REST.kept`: what was asked is a prefix, as `ProgramRequest.prefix` has it."""
    request = ProgramRequest(kept.model.digest, Path(kept.path), kept.target, kept.options)
    rest = json.dumps([to_json(kept.contents), to_json(kept.circumstances)])
    return f"{request.prefix(kept.sizes)}{digest_of(rest.encode())[:SHORT]}{SUFFIX}"


def to_bytes(kept: SavedProgram) -> bytes:
    body = json.dumps(to_json(kept), sort_keys=True, separators=(",", ":")).encode()
    return sealed(MAGIC, body)


def read_saved(content: bytes) -> SavedProgram:
    """The program in a file's content. Raises `DamagedProgram`; nothing in it is executed."""
    try:
        body = unsealed(MAGIC, content, "kept program")
    except ValueError as error:
        raise DamagedProgram(str(error)) from error
    # The seal fits, yet anybody can compute one: what it holds is still checked.
    try:
        kept = from_json(SavedProgram, json.loads(body))
        for content_of in kept.contents:
            bytes.fromhex(content_of.content or "")
        for digest in (*kept.binaries, kept.binary, kept.weights, kept.model.digest):
            if digest and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
                raise ValueError("a digest is none")
        if bool(kept.weights) != bool(kept.block_bytes):
            raise ValueError("weights: their digest and their size do not fit")
        check_parts(kept)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedProgram(f"it cannot be read: {error}") from error
    return kept


def check_parts(kept: SavedProgram) -> None:
    """ValueError where parts are not the program's, or weights lie outside of their block."""
    if [part.function for part in kept.parts] != [part.function for part in kept.program.parts]:
        raise ValueError("parts: they are not those of the program")
    for part, of_program in zip(kept.parts, kept.program.parts, strict=True):
        if of_program.program is None or bool(part.binary) == bool(part.text):
            raise ValueError(f"parts: nothing runs {part.function}")
        end = part.weights_at + of_program.program.weights_bytes
        if part.weights_at < 0 or end > kept.program.weights_bytes:
            raise ValueError(f"parts: the weights of {part.function} lie outside of the others")
    for array in kept.arrays:
        elements = 1 if array.is_splat else math.prod(array.shape)
        if array.offset_bytes < 0 or min(array.shape, default=0) < 0:
            raise ValueError(f"arrays: {array.name} lies nowhere")
        if array.size_bytes != elements * element_bytes(array.element_type):
            raise ValueError(f"arrays: {array.name} has {array.size_bytes} bytes")


def without_text(program: Program) -> Program:
    """The program as it is kept: sources lie with the binary, schedules with nobody."""
    kernels = tuple(
        replace(
            kernel,
            steps=(),
            calls=(),
            source=SourceText(kernel.source.language, (), ()),
            assembly=None,
            assembly_lines=(),
            assembly_note="",
        )
        for kernel in program.kernels
    )
    parts = tuple(
        part if part.program is None else replace(part, program=without_text(part.program))
        for part in program.parts
    )
    source = SourceText(program.source.language, (), ())
    return replace(program, kernels=kernels, parts=parts, source=source)


def with_text(kept: SavedProgram, binary: Entry) -> SavedProgram:
    """With the source that lies with the binary; its lines belong to nothing any more."""
    lines = tuple(binary.source.removesuffix("\n").split("\n")) if binary.source else ()
    source = SourceText(kept.language, lines, ((),) * len(lines))
    return replace(kept, program=replace(kept.program, source=source))


def fits_contents(kept: SavedProgram, inputs: Mapping[str, np.ndarray]) -> bool:
    """Whether inputs that decide a shape hold what the program was made for; where it was made
    without contents, whether there are none to compare."""
    for fixed in kept.contents:
        given = inputs.get(fixed.name)
        found = None if given is None else given.tobytes().hex()
        if found != fixed.content:
            return False
    return True
