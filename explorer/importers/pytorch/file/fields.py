"""Values of JSON, each of the type that is expected where it is read.

    field(model, "schema_version", dict)        the object of that name
    field(node, "target", str)                  ModelError: 'target' is 3, where a text was expected
    entry({"as_int": 3}, "an argument")         ("as_int", 3)

Types are those of JSON's values in Python: dict, list, str, bool, int, and float for any number.
"""

from __future__ import annotations

from typing import Any, TypeVar  # Any: JSON is of any type until it was checked

from explorer.errors import ModelError

Kind = TypeVar("Kind", dict[str, Any], list[Any], str, bool, int, float)

EXPORT_AGAIN = (
    "export it again: torch.export.save(torch.export.export(module.eval(), (example,)), 'net.pt2')"
)
DAMAGED = f"the file is damaged; {EXPORT_AGAIN}"
_WORDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
}
_LITERALS = {None: "null", True: "true", False: "false"}
_LONGEST_SHOWN = 40
_SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""JSON has no such numbers: they are written as texts."""


def checked(value: Any, kind: type[Kind], what: str) -> Kind:
    """The value itself. ModelError, which says `what`, where it is of another type."""
    # Python's bool is an int, JSON's is none.
    if isinstance(value, kind) and (kind is not int or (value is not True and value is not False)):
        return value
    raise ModelError(f"{what} is {_shown(value)}, where {_WORDS[kind]} was expected", hint=DAMAGED)


def field(json: Any, name: str, kind: type[Kind], of: str = "") -> Kind:
    """An object's field. ModelError where there is none, or it is of another type.

    of: what the object describes, as `tensor 'x'`.
    """
    value = required(json, name, of)
    if type(value) is kind:
        return value
    return checked(value, kind, _named(name, of))


def required(json: Any, name: str, of: str = "") -> Any:
    """An object's field, of any type. ModelError where there is none."""
    if not isinstance(json, dict):
        where = of or f"what should have the field {name!r}"
        raise ModelError(f"{where} is {_shown(json)}, where an object was expected", hint=DAMAGED)
    if name not in json:
        raise ModelError(f"{_named(name, of)} is missing", hint=DAMAGED)
    return json[name]


def optional(json: Any, name: str, kind: type[Kind], default: Kind, of: str = "") -> Kind:
    """The default for a field that is not there, or null."""
    if isinstance(json, dict) and json.get(name) is None:
        return default
    return field(json, name, kind, of)


def entry(json: Any, what: str) -> tuple[str, Any]:
    """Name and value of a union's only entry that is not null."""
    found = [pair for pair in checked(json, dict, what).items() if pair[1] is not None]
    if len(found) != 1:
        raise ModelError(f"{what} is {len(found)} values, where one was expected", hint=DAMAGED)
    return found[0]


def number(value: Any, what: str) -> int | float:
    """A number, or one of the texts that stand for those that JSON has not."""
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    return value if isinstance(value, int) else checked(value, float, what)


def _named(name: str, of: str) -> str:
    return f"{name!r} of {of}" if of else repr(name)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return _WORDS[type(value)]
    text = _LITERALS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
