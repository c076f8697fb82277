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
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from explorer.results.names import suggestion

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
    try:
        return _decoder(kind)(data)
    except _Misfit as misfit:
        raise ValueError(misfit.described(path, kind)) from None


Decoder = Callable[[object], Any]
"""Makes a value of one type; `_Misfit` for what is none."""


class _Misfit(Exception):
    """What does not fit; the steps that lead to it are added on the way out."""

    def __init__(self, text: str, kind: type | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        """The record that is at fault as a whole."""
        self.steps: list[str | int] = []
        """Fields and indices, the innermost first."""

    def described(self, path: str, outermost: type) -> str:
        """`launches[3].operation: str expected, not int`."""
        for step in reversed(self.steps):
            if isinstance(step, int):
                path += f"[{step}]"
            else:
                path += f".{step}" if path else step
        return f"{path or (self.kind or outermost).__name__}: {self.text}"


@cache
def _decoder(kind: Any) -> Decoder:
    """Of a type: made once, so that large records are read as fast as small ones."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _sequence(arguments[0])
        return _fixed(arguments)
    if origin is Sequence:
        return _sequence(arguments[0])
    if origin is Mapping:
        return _mapping(arguments[1])
    if kind is float:
        return _decode_float
    if kind is Any or kind is object:
        return lambda data: data
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind)
    return _plain(kind)


def _record(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    names = frozenset(f.name for f in fields)
    decoders: dict[str, Decoder] = {}
    needed = frozenset(
        f.name
        for f in fields
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )

    def decode(data: object) -> object:
        if not isinstance(data, Mapping):
            raise _Misfit(f"a {kind.__name__} expected", kind)
        if not (data.keys() <= names and needed <= data.keys()):
            unknown = [k for k in data if k not in names]
            missing = [f.name for f in fields if f.name in needed and f.name not in data]
            near = suggestion(str(unknown[0]), names) if unknown else ""
            raise _Misfit(f"unknown fields {unknown}, missing fields {missing}{near}", kind)
        if not decoders:  # made with the first record: a record may hold others of its own kind
            decoders.update({f.name: _decoder(hints[f.name]) for f in fields})
        name = ""
        try:
            values = {}
            for name, item in data.items():
                values[name] = decoders[name](item)
        except _Misfit as misfit:
            misfit.steps.append(str(name))
            raise
        return kind(**values)

    return decode


def _sequence(kind: Any) -> Decoder:
    decode_item = _decoder(kind)

    def decode(data: object) -> object:
        if not isinstance(data, list):
            raise _Misfit("a list expected")
        items = []
        try:
            for item in data:
                items.append(decode_item(item))
        except _Misfit as misfit:
            misfit.steps.append(len(items))
            raise
        return tuple(items)

    return decode


def _mapping(kind: Any) -> Decoder:
    """By name, as keys of JSON and TOML are."""
    decode_item = _decoder(kind)

    def decode(data: object) -> object:
        if not isinstance(data, Mapping):
            raise _Misfit("a table expected")
        found, name = {}, ""
        try:
            for name, item in data.items():
                found[name] = decode_item(item)
        except _Misfit as misfit:
            misfit.steps.append(str(name))
            raise
        return found

    return decode


def _fixed(kinds: tuple[Any, ...]) -> Decoder:
    decoders = tuple(_decoder(kind) for kind in kinds)

    def decode(data: object) -> object:
        if not isinstance(data, list):
            raise _Misfit("a list expected")
        if len(decoders) != len(data):
            raise _Misfit(f"{len(decoders)} elements expected, not {len(data)}")
        items = []
        try:
            for decode_item, item in zip(decoders, data, strict=True):
                items.append(decode_item(item))
        except _Misfit as misfit:
            misfit.steps.append(len(items))
            raise
        return tuple(items)

    return decode


def _union(kinds: tuple[Any, ...]) -> Decoder:
    inner = [kind for kind in kinds if kind is not type(None)]
    single = _decoder(inner[0]) if len(inner) == 1 else None
    lists = [_decoder(kind) for kind in inner if typing.get_origin(kind) is tuple]

    def decode(data: object) -> object:
        if type(data) in kinds:
            return data
        if single is None and isinstance(data, list) and lists:
            return lists[0](data)
        if single is None:
            names = ", ".join(getattr(kind, "__name__", "a list") for kind in inner)
            raise _Misfit(f"one of {names} expected, not {type(data).__name__}")
        return single(data)

    return decode


def _plain(kind: type) -> Decoder:
    def decode(data: object) -> object:
        if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
            raise _Misfit(f"{kind.__name__} expected, not {type(data).__name__}")
        return data

    return decode


def _decode_float(data: object) -> float:
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    if not is_number and data not in ("inf", "-inf", "nan"):
        raise _Misfit(f"a number expected, not {data!r}")
    try:
        return float(data)  # pyright: ignore[reportArgumentType]  (a number or one of these strings)
    except OverflowError as error:
        raise _Misfit("the number is too large") from error
