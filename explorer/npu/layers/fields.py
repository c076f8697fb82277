"""Layers as attributes of the IR and arrays beside it, and back.

    described(layer) -> Described("Convolution",
                                  fields={"strides": (2, 2), "rescaling.low": -128, ...},
                                  arrays={"weights": ..., "rescaling.shifts": ...})
    layer_of("conv1", described(layer)) == layer, but for its name

A layer is a dataclass of numbers, words, tuples, arrays, other such dataclasses and tuples of them
(`pieces.0.layer.strides`); what has its default is left out.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np

from explorer.errors import InputError
from explorer.npu.layers.layer import Layer

NAME = "name"
"""Field that is not described: a layer is called as its operation."""


@dataclass(frozen=True, kw_only=True)
class Described:
    kind: str
    """Its class."""
    fields: Mapping[str, Any]
    """int, bool, str or a tuple of int by the path of the field."""
    arrays: Mapping[str, np.ndarray]


def described(layer: Layer) -> Described:
    """The layer as plain data."""
    fields: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    _describe(layer, "", fields, arrays)
    return Described(kind=type(layer).__name__, fields=fields, arrays=arrays)


def _describe(record: Any, prefix: str, fields: dict, arrays: dict) -> None:
    for field in dataclasses.fields(record):
        value, path = getattr(record, field.name), f"{prefix}{field.name}"
        if path == NAME or value is None:
            continue
        if isinstance(value, np.ndarray):
            arrays[path] = narrowed(value)
        elif dataclasses.is_dataclass(value):
            _describe(value, f"{path}.", fields, arrays)
        elif isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
            for index, one in enumerate(value):
                _describe(one, f"{path}.{index}.", fields, arrays)
        elif value != field.default:
            fields[path] = tuple(map(int, value)) if isinstance(value, tuple) else value


def narrowed(numbers: np.ndarray) -> np.ndarray:
    """Integers in the narrowest type that holds them, of 8, 16, 32 or 64 bits."""
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    kinds = (np.int8, np.int16, np.int32, np.int64)
    fits = (k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return numbers.astype(next(fits))


def layer_of(name: str, plain: Described, kinds: Mapping[str, type]) -> Layer:
    """The layer of the class `plain.kind`, one of `kinds`. InputError for what makes none."""
    if plain.kind not in kinds:
        raise InputError(f"{name}: there is no layer of the kind {plain.kind!r}")
    try:
        parts = _parts_of((*plain.fields, *plain.arrays))
        return _made(kinds[plain.kind], "", {NAME: name, **plain.fields}, plain.arrays, parts)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no {plain.kind}: {error}") from error


def _parts_of(paths: Iterable[str]) -> frozenset[str]:
    """Where the fields of inner records begin: `rescaling.` and `pieces.`, `pieces.0.`, ..."""
    return frozenset(
        path[: end + 1] for path in paths for end, letter in enumerate(path) if letter == "."
    )


def _made(
    kind: type, prefix: str, fields: Mapping[str, Any], arrays: Mapping, parts: frozenset[str]
) -> Any:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        path = f"{prefix}{field.name}"
        inner = _record_type(kind, field.name)
        if path in arrays:
            values[field.name] = np.asarray(arrays[path]).astype(np.int64)
        elif path in fields:
            values[field.name] = fields[path]
        elif inner is not None and f"{path}.0." in parts:
            numbered = (f"{path}.{index}." for index in itertools.count())
            mine = itertools.takewhile(parts.__contains__, numbered)
            values[field.name] = tuple(_made(inner, part, fields, arrays, parts) for part in mine)
        elif inner is not None and f"{path}." in parts:
            values[field.name] = _made(inner, f"{path}.", fields, arrays, parts)
        elif field.default is dataclasses.MISSING:
            if type(None) not in get_args(get_type_hints(kind)[field.name]):
                raise TypeError(f"it has no {path}")
            values[field.name] = None
    return kind(**values)


@cache
def _record_type(kind: type, name: str) -> type | None:
    """The dataclass that a field holds, one or a tuple of them, if it holds any."""
    hint = get_type_hints(kind)[name]
    options = (hint, *get_args(hint))
    return next((o for o in options if isinstance(o, type) and dataclasses.is_dataclass(o)), None)
