"""Writes a record back as the table that it was read from, with some fields changed.

    overridden(cpu, {"memories.arena.size_bytes": 65536})
        ->  {"name": "cpu", "memories": {"arena": {"kind": "arena", "size_bytes": 65536}}, ...}

The changed table is read like a file, so that an override is checked like any other value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from explorer.results.names import suggestion
from explorer.targets.reading import FieldLocation, Value


def overridden(
    record: Any, overrides: Mapping[str, Value], place: FieldLocation
) -> dict[str, Value]:
    """The table of the record with each dotted path set to its value; None restores the default.

    Raises `InputError` for a path below something that is not there.
    """
    table = write_record(record)
    for path, value in overrides.items():
        *parents, field = path.split(".")
        inner = table
        here = place
        for parent in parents:
            inner, here = enter(inner, parent, here), here.inside(parent)
        if value is None:
            inner.pop(field, None)
        else:
            inner[field] = value
    return table


def enter(table: dict[str, Value], key: str, place: FieldLocation) -> dict[str, Value]:
    """The table below the key. One that was left out as the default is made, a record is not."""
    records = bool(table) and all(isinstance(value, dict) for value in table.values())
    if key not in table and records:
        raise place.inside(key).error(f"is not there to be overridden{suggestion(key, table)}")
    inner = table.setdefault(key, {})
    if not isinstance(inner, dict):
        raise place.inside(key).error("is a value and has no fields")
    return inner


def write_record(record: Any) -> dict[str, Value]:
    """The table that `read_record` reads as this record; defaults are left out."""
    return {
        field.name: write_value(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if getattr(record, field.name) != field.default
    }


def write_value(value: Value) -> Value:
    if dataclasses.is_dataclass(value):
        return write_record(value)
    if not isinstance(value, tuple):
        return value
    if value and dataclasses.is_dataclass(value[0]):
        tables = [write_record(record) for record in value]
        return {table.pop("name"): table for table in tables}
    if value and isinstance(value[0], tuple):
        return dict(value)
    return list(value)
