"""One finished program in one file: a seal over JSON.

    explorer kept program 1\\n
    <SHA-256 of all that follows, 64 hexadecimal digits>\\n
    {"model": {...}, "sizes": ..., "circumstances": ..., "program": {...}, "binary": ..., ...}

The schema is `results.runs.kept.KeptProgram`; reading checks every field of it. Texts are left
out: the kernels' source lies with the binary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from explorer.files import sealed, unsealed
from explorer.results.encoding import from_json, to_json
from explorer.results.program import Program
from explorer.results.runs.kept import KeptProgram
from explorer.results.source import SourceText
from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.keys import digest_of
from explorer.runtime.cache.requests import SHORT, ProgramRequest

MAGIC = b"explorer kept program 1\n"
SUFFIX = ".kept"
MOST_BYTES = 64 << 20


class DamagedProgram(Exception):
    """The file is not what was written; the text says how."""


def name_of(kept: KeptProgram) -> str:
    """`MODEL-ASKED-REST.kept`: what was asked is a prefix, as `ProgramRequest.prefix` has it."""
    request = ProgramRequest(kept.model.digest, Path(kept.path), kept.target, kept.options)
    rest = json.dumps([to_json(kept.contents), to_json(kept.circumstances)])
    return f"{request.prefix(kept.sizes)}{digest_of(rest.encode())[:SHORT]}{SUFFIX}"


def to_bytes(kept: KeptProgram) -> bytes:
    body = json.dumps(to_json(kept), sort_keys=True, separators=(",", ":")).encode()
    return sealed(MAGIC, body)


def read_kept(content: bytes) -> KeptProgram:
    """The program in a file's content. Raises `DamagedProgram`; nothing in it is executed."""
    try:
        body = unsealed(MAGIC, content, "kept program")
    except ValueError as error:
        raise DamagedProgram(str(error)) from error
    # The seal fits, yet anybody can compute one: what it holds is still checked.
    try:
        kept = from_json(KeptProgram, json.loads(body))
        for content_of in kept.contents:
            bytes.fromhex(content_of.content)
        for digest in (kept.binary, kept.weights, kept.model.digest):
            if digest and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
                raise ValueError("a digest is none")
        if bool(kept.weights) != bool(kept.program.weights_bytes):
            raise ValueError("weights: their digest and their size do not fit")
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedProgram(f"it cannot be read: {error}") from error
    return kept


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
    return replace(program, kernels=kernels, source=SourceText(program.source.language, (), ()))


def with_text(kept: KeptProgram, binary: Entry) -> KeptProgram:
    """With the source that lies with the binary; its lines belong to nothing any more."""
    lines = tuple(binary.source.removesuffix("\n").split("\n")) if binary.source else ()
    source = SourceText(kept.language, lines, ((),) * len(lines))
    return replace(kept, program=replace(kept.program, source=source))


def fits_contents(kept: KeptProgram, inputs: Mapping[str, np.ndarray]) -> bool:
    """Whether inputs that decide a shape hold what the program was made for."""
    return all(
        fixed.name in inputs and inputs[fixed.name].tobytes() == bytes.fromhex(fixed.content)
        for fixed in kept.contents
    )
