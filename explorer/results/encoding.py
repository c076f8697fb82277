"""Records as JSON and back, by their annotations: no pickles, nothing executed.

    to_json(plan)                  -> dicts, lists, numbers, strings
    from_json(MemoryPlan, data)    -> the record; ValueError names the field that does not fit

Infinities and NaN, which JSON has not, are the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")


def to_json(value: object) -> Any:
    """JSON has one type for everything that it can hold; hence Any."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, tuple | list):
        return [to_json(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_json(kind: type[Record], data: object, path: str = "") -> Record:
    """The record of type `kind` in `data`. Unknown fields are refused, missing defaults filled."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{path or kind.__name__}: a {kind.__name__} expected")
    hints, defaults = _fields(kind)
    unknown = [k for k in data if k not in hints]
    missing = [k for k in hints if k not in data and k not in defaults]
    if unknown or missing:
        raise ValueError(
            f"{path or kind.__name__}: unknown fields {unknown}, missing fields {missing}"
        )
    values = {
        name: _decode(hints[name], item, f"{path}.{name}" if path else str(name))
        for name, item in data.items()
    }
    return kind(**values)


@cache
def _fields(kind: type) -> tuple[dict[str, Any], frozenset[str]]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    optional = frozenset(
        f.name
        for f in fields
        if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
    )
    return {f.name: hints[f.name] for f in fields}, optional


def _decode(kind: Any, data: object, path: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if type(data) in arguments:
            return data
        inner = [a for a in arguments if a is not type(None)]
        if len(inner) > 1:
            names = ", ".join(a.__name__ for a in inner)
            raise ValueError(f"{path}: one of {names} expected, not {type(data).__name__}")
        return _decode(inner[0], data, path)
    if origin is tuple:
        if not isinstance(data, list):
            raise ValueError(f"{path}: a list expected")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_decode(arguments[0], d, f"{path}[{i}]") for i, d in enumerate(data))
        if len(arguments) != len(data):
            raise ValueError(f"{path}: {len(arguments)} elements expected, not {len(data)}")
        pairs = zip(arguments, data, strict=True)
        return tuple(_decode(a, d, f"{path}[{i}]") for i, (a, d) in enumerate(pairs))
    if kind is float:
        return _decode_float(data, path)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return from_json(kind, data, path)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ValueError(f"{path}: {kind.__name__} expected, not {type(data).__name__}")
    return data


def _decode_float(data: object, path: str) -> float:
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    if not is_number and data not in ("inf", "-inf", "nan"):
        raise ValueError(f"{path}: a number expected, not {data!r}")
    try:
        return float(data)  # pyright: ignore[reportArgumentType]  (a number or one of these strings)
    except OverflowError as error:
        raise ValueError(f"{path}: the number is too large") from error
