"""Parts of a saved program: binaries by digest, the host's as text, all weights.

main_cpu, main_host   ->   SavedPart("main_cpu", binary="5f3a..."),
                           SavedPart("main_host", text="func.func @main_host ...")
                           the block: weights of main_cpu, then those that the text names
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.inspection.printing import dump
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.top.data import WeightOp
from explorer.ir.weights import is_splat
from explorer.kernels.program.build import ALIGNMENT_BYTES, BuiltProgram, aligned_zeros
from explorer.kernels.program.parts import weight_bases
from explorer.results.runs.saved_program import SavedArray, SavedPart


@dataclass(frozen=True, eq=False)
class SavedParts:
    """What a kept program has besides its launches."""

    parts: tuple[SavedPart, ...]
    arrays: tuple[SavedArray, ...]
    weights: np.ndarray
    """The block: of the device first, then of the host."""


def saved_parts(built: BuiltProgram, binaries: Mapping[str, str]) -> SavedParts:
    """`binaries`: the digest of every part of a device, by its function."""
    if not built.parts:
        return SavedParts((), (), built.weights)
    bases = dict(zip(built.parts, weight_bases(built.program.parts), strict=True))
    parts = tuple(
        SavedPart(function=name, binary=binaries[name], weights_at=bases[name])
        if part.host is None
        else SavedPart(function=name, text=_text(part.host))
        for name, part in built.parts.items()
    )
    arrays, end = {}, built.program.weights_bytes
    for host in _hosts(built):
        for name in _weight_names(host):
            if name not in arrays:
                end = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
                found = _saved_array(name, host.weights[name], end)
                arrays[name], end = (found, host.weights[name]), end + found.size_bytes
    block = aligned_zeros(end)
    block[: built.program.weights_bytes] = built.weights
    for kept, array in arrays.values():
        dense = array.reshape(-1)[:1] if kept.is_splat else np.ascontiguousarray(array).reshape(-1)
        place = block[kept.offset_bytes : kept.offset_bytes + kept.size_bytes]
        place[...] = dense.view(np.uint8)
    return SavedParts(parts, tuple(kept for kept, _ in arrays.values()), block)


def _hosts(built: BuiltProgram) -> Iterator[HostFunction]:
    return (part.host for part in built.parts.values() if part.host is not None)


def _text(host: HostFunction) -> str:
    return dump(ModuleOp([copy_operation(host.function)]))


def _weight_names(host: HostFunction) -> list[str]:
    return [op.weight.data for op in host.function.walk() if isinstance(op, WeightOp)]


def _saved_array(name: str, array: np.ndarray, offset_bytes: int) -> SavedArray:
    one = is_splat(array)
    kept = SavedArray(
        name=name,
        element_type=array.dtype.name,
        shape=array.shape,
        offset_bytes=offset_bytes,
        size_bytes=array.dtype.itemsize if one else array.nbytes,
    )
    return replace(kept, is_splat=one)
