"""Records of which some fields are made when they are first read.

    snapshot = deferring(SnapshotRecord, text=Later(print_it), graph=Later(draw_it))
    snapshot.graph      made now, and kept
    snapshot.text       not made yet, and never where nobody looks

Such a record is one of its kind in every other way: it equals one that was made at once, has the
same JSON, and `dataclasses.replace` and pickles give a plain one, for which all fields are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

Record = TypeVar("Record")


def deferring(kind: type[Record], **fields: Any) -> Record:  # Any: what the fields hold
    """The record of type `kind`; fields given as a `Later` are made when they are first read.

    Those are fields without a default: a default would be found instead. A default factory may be.
    """
    record = object.__new__(_deferring(kind))
    record.__dict__.update(
        {name: value for name, value in fields.items() if not isinstance(value, Later)}
    )
    later = {name: value.make for name, value in fields.items() if isinstance(value, Later)}
    record.__dict__[_LATER] = later
    return cast("Record", record)


@dataclasses.dataclass(frozen=True)
class Later:
    """What makes a field."""

    make: Callable[[], Any]  # Any: what the field holds


def made_fields(record: object) -> frozenset[str]:
    """The names of the fields that are there already."""
    names = {f.name for f in dataclasses.fields(cast("Any", record))}
    return frozenset(names - record.__dict__.get(_LATER, {}).keys())


_LATER = "_later"


@cache
def _deferring(kind: type) -> type:
    """A subclass whose missing attributes are made; all else is as its parent has it."""

    def __getattr__(self: Any, name: str) -> Any:
        later = self.__dict__.get(_LATER, {})
        make = later.get(name)
        if make is None and name in self.__dict__:  # another thread has made it meanwhile
            return self.__dict__[name]
        if make is None:
            raise AttributeError(f"{kind.__name__} has no {name!r}")
        value = make()
        self.__dict__[name] = value
        later.pop(name, None)  # what it was made from may go
        return value

    def __eq__(self: Any, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, kind):
            return NotImplemented
        names = [f.name for f in dataclasses.fields(cast("Any", kind))]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __reduce__(self: Any) -> tuple[object, ...]:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(cast("Any", kind))}
        return _made, (kind, fields)

    made = {
        "__getattr__": __getattr__,
        "__reduce__": __reduce__,
        "__eq__": __eq__,
        "__hash__": kind.__hash__,
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    return type(kind.__name__, (kind,), made)


def _made(kind: type[Record], fields: Mapping[str, Any]) -> Record:  # Any: what the fields hold
    """What a pickle holds: a plain record, for which all fields were made."""
    record = object.__new__(kind)
    record.__dict__.update(fields)
    return record
