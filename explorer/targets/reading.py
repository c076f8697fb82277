"""Reads the tables of a TOML file into frozen dataclasses, and writes them back.

The dataclass is the schema: its fields are the keys, their annotations say what is legal.

    class Memory:                              [memories.local]
        name: Name                             kind = "scratchpad"
        kind: Literal["arena", ...]       <-   banks = 0
        banks: Count = 1
                                          ->   InputError: memories.local.banks is 0, expected a
                                               whole number of at least 1

What annotations mean:

    Annotated[int, Range(1)]       a number within bounds
    Annotated[str, Pattern(...)]   a string that matches as a whole
    Literal["auto"] | int | None   one of several forms; with None the key may be left out
    tuple[str, ...]                a list
    tuple[tuple[str, int], ...]    a table of values: ops_per_cycle = { int8 = 256 }
    tuple[Memory, ...]             a table of records, each under its name
    Matrix | Vector                one of several records, told apart by their field `kind`

Why by hand: what a person reads of a mistake is the reason for this file. msgspec 0.22 says neither
the value nor under which heading it stands (`$.memories[...].banks`), and takes unknown keys of
dataclasses; pydantic 2.14 tells of a union what each of its members misses, and takes 0.12 s of
every start, four times `import explorer`; to cattrs 26 bounds and patterns are hooks of one's own.
All three would leave the sentences, the nearest names and the tables under names to be written, and
that is most of what stands here.
"""

from __future__ import annotations

import dataclasses
import math
import re
import reprlib
import sys
import types
import typing
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union

from explorer.errors import InputError
from explorer.results.names import nearest, suggestion

Value = Any  # what a TOML file may hold, before it is checked
Annotation = Any  # annotations have no type in common
Record = TypeVar("Record")


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both included."""

    minimum: float
    maximum: float = math.inf

    def __str__(self) -> str:
        above = f" and at most {self.maximum}" if self.maximum < math.inf else ""
        return f"of at least {self.minimum}{above}"


@dataclass(frozen=True)
class Pattern:
    """A regular expression that a string matches as a whole, and what that means in words."""

    expression: str
    meaning: str


@dataclass(frozen=True)
class Problem:
    """What is wrong between several fields of a record, found by its method `problems`."""

    field: str
    text: str


@dataclass(frozen=True)
class FieldLocation:
    """Where in which file a value stands, for the error that names it."""

    file: str
    path: tuple[str, ...] = ()

    def inside(self, key: str) -> FieldLocation:
        return FieldLocation(self.file, (*self.path, key))

    def error(self, problem: str) -> InputError:
        return InputError(f"{'.'.join(self.path) or 'the target'} {problem}", file=self.file)


def read_record(
    schema: type[Record], table: Value, place: FieldLocation, name: str | None = None
) -> Record:
    """The record in the table. `name` is its heading, for records that have a field `name`.

    Raises `InputError` for a key that is unknown or missing, for a value that is not legal, and
    for what the record's own method `problems` finds.
    """
    if not isinstance(table, dict):
        raise place.error(f"is {reprlib.repr(table)}, expected a table")
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, schema))}
    annotations = _annotations(schema)
    values: dict[str, Value] = {}
    if name is not None:
        del fields["name"]
        values["name"] = read_value(annotations["name"], name, place)
    for key, value in table.items():
        if key not in fields:
            raise place.inside(key).error(f"is no known field{suggestion(key, fields)}")
        values[key] = read_value(annotations[key], value, place.inside(key))
    for key, field in fields.items():
        if key not in values and field.default is dataclasses.MISSING:
            raise place.inside(key).error(f"is missing, expected {expected(annotations[key])}")
    record = schema(**values)
    find_problems = getattr(record, "problems", tuple)
    for problem in find_problems():  # the first one ends the reading
        raise place.inside(problem.field).error(problem.text)
    return record


@lru_cache(maxsize=256)
def _annotations(schema: type) -> dict[str, Annotation]:
    """By field; Python evaluates the text of each, which takes longer than to read a table."""
    return typing.get_type_hints(schema, include_extras=True)


def read_value(annotation: Annotation, value: Value, place: FieldLocation) -> Value:
    """The value in one of the forms that the annotation allows."""
    forms = alternatives(annotation)
    if dataclasses.is_dataclass(forms[0]):
        return read_record(choose_record(forms, value, place), value, place)
    if typing.get_origin(forms[0]) is tuple:
        return read_sequence(typing.get_args(forms[0])[0], value, place)
    for form in forms:
        if accepts(form, value):
            return float(value) if plain(form) is float else value
    words = [word for form in forms for word in typing.get_args(form) if isinstance(word, str)]
    near = nearest(value, words) if isinstance(value, str) else []
    raise place.error(
        f"is {reprlib.repr(value)}, expected {expected(annotation)}"
        + (suggestion(value, words) if near else "")
    )


def read_sequence(element: Annotation, value: Value, place: FieldLocation) -> tuple[Value, ...]:
    """A list, or where the elements are records or pairs, a table."""
    forms = alternatives(element)
    are_records = dataclasses.is_dataclass(forms[0])
    if not are_records and typing.get_origin(element) is not tuple:
        if not isinstance(value, list):
            raise place.error(f"is {reprlib.repr(value)}, expected a list")
        items = enumerate(value)
        return tuple(read_value(element, item, place.inside(str(index))) for index, item in items)
    if not isinstance(value, dict):
        raise place.error(f"is {reprlib.repr(value)}, expected a table")
    if are_records:
        return tuple(
            read_record(choose_record(forms, item, place.inside(key)), item, place.inside(key), key)
            for key, item in value.items()
        )
    of_key, of_value = typing.get_args(element)
    return tuple(
        (read_value(of_key, key, place), read_value(of_value, item, place.inside(key)))
        for key, item in value.items()
    )


def choose_record(schemas: list[type], table: Value, place: FieldLocation) -> type:
    """Of several records the one whose field `kind` allows the table's `kind`."""
    if len(schemas) == 1:
        return schemas[0]
    by_kind = {
        kind: schema for schema in schemas for kind in typing.get_args(_annotations(schema)["kind"])
    }
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in by_kind:
        problem = "is missing" if kind is None else f"is {reprlib.repr(kind)}, which is no kind"
        raise place.inside("kind").error(problem + suggestion(str(kind), by_kind))
    return by_kind[kind]


def alternatives(annotation: Annotation) -> list[Annotation]:
    """The members of a union but None; else the annotation alone."""
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return [annotation]
    return [form for form in typing.get_args(annotation) if form is not types.NoneType]


def plain(form: Annotation) -> Annotation:
    """The type below its bounds."""
    return typing.get_args(form)[0] if typing.get_origin(form) is Annotated else form


def accepts(form: Annotation, value: Value) -> bool:
    """Whether a string, number or truth value has the form."""
    if typing.get_origin(form) is Literal:
        return isinstance(value, str) and value in typing.get_args(form)
    kind = plain(form)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        legal = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    else:
        legal = isinstance(value, kind)
    return legal and all(satisfies(limit, value) for limit in getattr(form, "__metadata__", ()))


def satisfies(limit: Range | Pattern, value: Value) -> bool:
    if isinstance(limit, Range):
        return limit.minimum <= value <= limit.maximum
    return re.fullmatch(limit.expression, value) is not None


def expected(annotation: Annotation) -> str:
    """What an annotation allows, in words."""
    words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    texts: list[str] = []
    for form in alternatives(annotation):
        limits = getattr(form, "__metadata__", ())
        if typing.get_origin(form) is Literal:
            texts += [f'"{word}"' for word in typing.get_args(form)]
        elif plain(form) not in words:
            texts.append("a table" if dataclasses.is_dataclass(form) else "a list or table")
        elif limits and isinstance(limits[0], Pattern):
            texts.append(limits[0].meaning)
        else:
            texts.append(" ".join([words[plain(form)], *map(str, limits)]))
    return " or ".join(texts)
