"""What a choice of modes was made of, beside the quantization table that came out of it.

    write_precision(path, found)            beside it: net.qtable.sensitivity.json
    read_precision(path, "net.onnx")        the same again; None where there is none

A quantization table decides what is compiled, and this only explains it: it is in no digest, and a
table without it compiles to the same program.
"""

from __future__ import annotations

import json
from pathlib import Path

from explorer.errors import InputError
from explorer.files import reading_file, write_file
from explorer.results.encoding import from_json, to_json
from explorer.results.runs.sensitivity import MixedPrecision

MAX_BYTES = 64 << 20
"""Of a file that is read."""


def path_beside(table: Path) -> Path:
    """Where it lies: `net.qtable` has it in `net.qtable.sensitivity.json`."""
    return table.with_name(f"{table.name}.sensitivity.json")


def write_precision(path: Path, found: MixedPrecision) -> None:
    """What `read_precision` reads again."""
    write_file(path, json.dumps(to_json(found), indent=1) + "\n")


def read_precision(path: Path, model: str) -> MixedPrecision | None:
    """That of a model; None where there is no such file, or it is about another model.

    Raises:
        InputError: where there is a file and it cannot be read.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MiB are no sensitivities", file=str(path))
    hint = "explorer mixed writes it anew; a quantization table is taken without it, too"
    with reading_file(path, "file of sensitivities", hint=hint, kind=InputError):
        found = from_json(MixedPrecision, json.loads(path.read_text(encoding="utf-8")))
    if not 0 <= found.chosen < len(found.points):
        raise InputError("it chooses a point that it has not", file=str(path), hint=hint)
    return found if found.model == model else None
