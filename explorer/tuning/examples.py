"""Data for calibration: examples one after the other, of arrays that may be larger than memory.

    data = read_data([Path("a.npz"), Path("more/")])        rows are read when they are asked for
    examples = examples_of(program, data, Chosen(500, seed=1))
    examples.count, examples.at(0), examples.digest

Arrays are named as the model's inputs, and their first axis counts examples. All numbers are looked
at once before the model runs: what is no number is refused, and the digest tells data from others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from explorer.cases.data import read_case_arrays
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.mapped_arrays import Joined, mapped_arrays
from explorer.quantization.table import APART
from explorer.results.names import nearest

SUFFIX = ".npz"


class Rows(Protocol):
    """An array, or several behind one another, read row by row."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    def __len__(self) -> int: ...
    def __getitem__(self, row: int, /) -> Any: ...  # a row: an array, or a NumPy scalar


Data = Mapping[str, Rows]


@dataclass(frozen=True)
class LabelledData:
    """Arrays by input name, and where they are known the right classes."""

    arrays: Data
    labels: np.ndarray | None = None
    """(N,) of integers: the place of the largest output."""


@dataclass(frozen=True)
class Chosen:
    """How many examples are taken, at random; 0 for all of them."""

    examples: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Examples:
    """Inputs one after the other, each as the program takes it."""

    arrays: Data
    """(N, ...) by input, N alike."""
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, np.dtype]
    order: Sequence[int]
    """Rows of the arrays."""
    digest: str = ""
    """Of all numbers, in that order."""

    @property
    def count(self) -> int:
        return len(self.order)

    def at(self, number: int) -> dict[str, np.ndarray]:
        row = self.order[number]
        return {
            name: np.ascontiguousarray(array[row], self.types[name]).reshape(self.shapes[name])
            for name, array in self.arrays.items()
        }


# -- reading ---------------------------------------------------------------------------------------


def read_data(paths: Path | Sequence[Path]) -> Data:
    """Arrays of `.npz` files, and of those in folders, behind one another; nothing is unpickled.

    InputError where one is none, lacks an array that another has, or has numbers of another scale.
    """
    files = [f for path in ([paths] if isinstance(paths, Path) else paths) for f in _files(path)]
    read = [mapped_arrays(file) for file in files]
    first = read[0]
    for file, arrays in zip(files, read, strict=True):
        if arrays.keys() != first.keys():
            raise InputError(
                f"its arrays are {', '.join(arrays)}, those of {files[0]} {', '.join(first)}",
                file=str(file),
                hint="all files have the same arrays, named as the model's inputs",
            )
        for name, array in arrays.items():
            if array.shape[1:] != first[name].shape[1:] or array.dtype != first[name].dtype:
                raise InputError(
                    f"`{name}` is {array.dtype} of shape {array.shape}, in {files[0]} it is "
                    f"{first[name].dtype} of shape {first[name].shape}",
                    file=str(file),
                    hint="only the first axis, which counts examples, may differ",
                )
    _require_one_scale(files, read)
    if len(read) == 1:
        return dict(first)
    return {name: Joined([arrays[name] for arrays in read]) for name in first}


def read_case_data(path: Path, model: SourceModel, folder: Path | None = None) -> LabelledData:
    """The data of a model's case: its labelled examples, or its inputs as the only example.

    folder: where paths in the table of cases start, by default its own.
    """
    read = read_case_arrays(path, model, folder)
    return LabelledData(read.arrays, read.labels)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"))
    if not found:
        raise InputError(f"there is no {SUFFIX} file in it", file=str(path), hint="numpy.savez")
    return found


def _require_one_scale(files: Sequence[Path], read: Sequence[Mapping[str, np.ndarray]]) -> None:
    """InputError where the numbers of one file reach much further than those of another."""
    if len(read) == 1:
        return
    for name in read[0]:
        ranges = [_range(arrays[name]) for arrays in read]
        reach = [max(abs(low), abs(high)) for low, high in ranges]
        near, far = int(np.argmin(reach)), int(np.argmax(reach))
        if reach[near] and reach[far] > APART * reach[near]:
            raise InputError(
                f"the numbers of `{name}` lie between {ranges[far][0]:g} and {ranges[far][1]:g}, "
                f"in {files[near]} between {ranges[near][0]:g} and {ranges[near][1]:g}",
                file=str(files[far]),
                hint="scale all data as the model expects them",
            )


def _range(array: np.ndarray) -> tuple[float, float]:
    """Lowest and highest finite number, row by row."""
    low, high = np.inf, -np.inf
    for row in array:
        numbers = np.asarray(row).reshape(-1)
        finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
        if finite.size and finite.dtype.kind in "fiu":
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return (low, high) if low <= high else (0.0, 0.0)


# -- fitting ---------------------------------------------------------------------------------------


def examples_of(program: Compilation, data: Data, chosen: Chosen | None = None) -> Examples:
    """The examples in `data`; InputError says what does not fit."""
    ports = {port.name: port for port in program.program.inputs}
    for name in data:
        if name not in ports:
            near = nearest(name, list(ports))
            raise InputError(
                f"the model has no input `{name}`; its inputs are {', '.join(ports)}",
                hint=f"`{near[0]}`" if near else "arrays are named as the model's inputs",
            )
    missing = [name for name in ports if name not in data]
    if missing:
        raise InputError(f"the data have no array `{missing[0]}`", hint="one array for each input")
    arrays: dict[str, Rows] = {}
    counts: dict[str, int] = {}
    types = {name: np.dtype(port.element_type) for name, port in ports.items()}
    for name, port in ports.items():
        array = data[name] if isinstance(data[name], Joined) else np.asarray(data[name])
        wanted = _example_shapes(tuple(port.shape))
        if not array.shape or array.shape[1:] not in wanted:
            shown = " or ".join(f"(N, {', '.join(map(str, shape))})" for shape in wanted)
            raise InputError(
                f"the data of `{name}` have shape {array.shape}; expected is {shown}",
                hint="the first axis counts examples",
            )
        if not len(array):
            raise InputError(f"the data of `{name}` are empty", hint="at least one example")
        _require_type(array.dtype, types[name], name)
        arrays[name] = array
        counts[name] = len(array)
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the inputs have different numbers of examples: {shown}")
    order = _order(min(counts.values()), chosen or Chosen())
    digest = _looked_at(arrays, types, order)
    return Examples(arrays, {n: tuple(p.shape) for n, p in ports.items()}, types, order, digest)


def _order(count: int, chosen: Chosen) -> Sequence[int]:
    """Which rows, in the order of the data."""
    if not chosen.examples:
        return range(count)
    if chosen.examples > count:
        raise InputError(f"there are {count} examples, not {chosen.examples}")
    random = np.random.default_rng(chosen.seed)
    return np.sort(random.choice(count, chosen.examples, replace=False)).tolist()


def _example_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Of one example: the whole input, and without a leading 1 the rest of it."""
    return [shape[1:], shape] if shape[:1] == (1,) else [shape]


def _require_type(given: np.dtype, wanted: np.dtype, name: str) -> None:
    """Numbers that a conversion changes by more than rounding are none of the model's."""
    if wanted.kind == "f" and given.kind in "fiu":
        return
    if not np.can_cast(given, wanted):
        raise InputError(f"the data of `{name}` are {given}; the model takes {wanted}")


def _looked_at(arrays: Data, types: Mapping[str, np.dtype], order: Sequence[int]) -> str:
    """The digest of all numbers; InputError where some are none, or too large for the model."""
    hashed = hashlib.sha256(repr(sorted((n, str(a.dtype)) for n, a in arrays.items())).encode())
    for name, array in arrays.items():
        lost, beyond = 0, 0
        largest = np.finfo(types[name]).max if types[name].kind == "f" else np.inf
        for row in order:
            numbers = np.ascontiguousarray(array[row])
            hashed.update(numbers.tobytes())
            if numbers.dtype.kind == "f":
                lost += int(numbers.size - np.isfinite(numbers).sum())
                beyond += int(np.count_nonzero(np.isfinite(numbers) & (np.abs(numbers) > largest)))
        if lost:
            raise InputError(f"the data of `{name}` have {lost} numbers that are NaN or infinite")
        if beyond:
            raise InputError(
                f"the data of `{name}` have {beyond} numbers beyond {types[name]}, whose range is "
                f"-{largest:g} to {largest:g}"
            )
    return hashed.hexdigest()
