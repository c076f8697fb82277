"""A snapshot as two files: `X.mlir`, the complete IR, and `X.weights.npz`, the arrays it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.errors import ModelError
from explorer.files import reading_file
from explorer.importers import read_meanings
from explorer.importers.arrays import arrays_as_npz, quote_name, read_arrays, unquote_name
from explorer.ir.inspection.printing import parse
from explorer.ir.weights import Weights

MAX_TEXT_BYTES = 256 * 2**20


def used_weights(module: ModuleOp) -> list[str]:
    """Names of the weights that the IR refers to, in program order, once each."""
    names = [op.get("weight") for op in module.walk() if op.name == "top.weight"]  # pyright: ignore
    return list(dict.fromkeys(names))


def weights_as_npz(weights: Mapping[str, np.ndarray], names: Sequence[str]) -> bytes:
    return arrays_as_npz({quote_name(name): weights[name] for name in names if name in weights})


def weights_path(path: Path) -> Path:
    """`dump/03-fold.mlir` -> `dump/03-fold.weights.npz`."""
    return path.with_suffix(".weights.npz")


def read_snapshot(path: Path) -> tuple[ModuleOp, Weights]:
    """IR text and, where there are some beside it, its weights. ModelError where it is no IR."""
    if not path.is_file():
        raise ModelError("no such file", file=str(path), hint="check the path")
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise ModelError(
            f"IR text has at most {MAX_TEXT_BYTES:,} bytes",
            file=str(path),
            hint="weights belong into a .weights.npz beside it",
        )
    hint = "explorer opt reads IR; to compile a model: explorer compile"
    with reading_file(path, "IR text", hint=hint):
        text = path.read_text(encoding="utf-8")
    module = parse(text, str(path))
    read_meanings(module)
    beside = weights_path(path)
    arrays = read_arrays(beside) if beside.is_file() else {}
    return module, Weights({unquote_name(name): array for name, array in arrays.items()})
