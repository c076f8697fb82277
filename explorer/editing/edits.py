"""Edits as lines of text, which the command, Python, the page and its links share.

    cut conv1_out : relu3_out, pool_out     what computes the right ones from the left ones
    outputs logits, features                other outputs; what only the old ones need goes
    rename Conv_12 = stem                   a tensor, a node, or both where both have that name
    attribute conv1.strides = [1, 1]        JSON, by the attribute's type
    value conv1.bias = 0                    a number for all elements, or nested lists of the shape
    delete dropout1                         its readers read what it read

In cuts and outputs a node's name means what it makes first.
A name with a blank, `=`, `:`, `,` or a dot that is not the last one is written in double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.results.names import near_name

MAX_EDITS = 100
MAX_TEXT = 100_000
"""Characters of one edit: a value may be a list of numbers."""


@dataclass(frozen=True)
class Cut:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Outputs:
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Rename:
    old: str
    new: str


@dataclass(frozen=True)
class SetAttribute:
    node: str
    attribute: str
    value: Any
    """JSON; None takes the attribute away."""


@dataclass(frozen=True)
class SetValue:
    tensor: str
    value: Any
    """JSON: a number, or nested lists."""


@dataclass(frozen=True)
class Delete:
    node: str


Edit = Cut | Outputs | Rename | SetAttribute | SetValue | Delete
KINDS = ("cut", "outputs", "rename", "attribute", "value", "delete")
_NAME = r'"(?:[^"\\]|\\.)*"|[^\s",:=]+'


def parse_edit(text: str) -> Edit:
    """The edit of a line. InputError says what is expected."""
    if len(text) > MAX_TEXT:
        raise InputError(f"an edit of more than {MAX_TEXT:,} characters")
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if kind == "cut":
        inputs, found, outputs = _divided(rest, ":")
        if not found:
            raise _expected(text, "cut INPUT, ... : OUTPUT, ...")
        return Cut(_names(inputs, text), _names(outputs, text))
    if kind == "outputs":
        return Outputs(_names(rest, text))
    if kind == "delete":
        return Delete(_name(rest, text))
    if kind in ("rename", "attribute", "value"):
        left, found, right = _divided(rest, "=")
        if not found:
            raise _expected(text, f"{kind} NAME = ...")
        if kind == "rename":
            return Rename(_name(left, text), _name(right, text))
        if kind == "value":
            return SetValue(_name(left, text), _json(right, text))
        node, dot, attribute = left.strip().rpartition(".")
        if not dot:
            raise _expected(text, "attribute NODE.ATTRIBUTE = JSON")
        return SetAttribute(_name(node, text), attribute, _json(right, text))
    raise InputError(f"there is no edit {kind!r}", hint=near_name(kind, list(KINDS)))


def edit_text(edit: Edit) -> str:
    """The line that `parse_edit` reads."""
    if isinstance(edit, Cut):
        return f"cut {_listed(edit.inputs)} : {_listed(edit.outputs)}"
    if isinstance(edit, Outputs):
        return f"outputs {_listed(edit.outputs)}"
    if isinstance(edit, Rename):
        return f"rename {_quoted(edit.old)} = {_quoted(edit.new)}"
    if isinstance(edit, SetAttribute):
        value = json.dumps(edit.value)
        return f"attribute {_quoted(edit.node)}.{edit.attribute} = {value}"
    if isinstance(edit, SetValue):
        return f"value {_quoted(edit.tensor)} = {json.dumps(edit.value)}"
    return f"delete {_quoted(edit.node)}"


def parse_edits(texts: Sequence[str]) -> tuple[Edit, ...]:
    if len(texts) > MAX_EDITS:
        raise InputError(f"{len(texts)} edits; at most {MAX_EDITS} are made at once")
    return tuple(parse_edit(text) for text in texts)


def _divided(text: str, sign: str) -> tuple[str, bool, str]:
    """The texts before and after the first sign outside of quotes."""
    for match in re.finditer(rf'"(?:[^"\\]|\\.)*"|{re.escape(sign)}', text):
        if match.group() == sign:
            return text[: match.start()], True, text[match.end() :]
    return text, False, ""


def _names(text: str, whole: str) -> tuple[str, ...]:
    found: list[str] = []
    rest = text.strip()
    while rest:
        match = re.match(rf"({_NAME})\s*(,|$)", rest)
        if match is None:
            raise _expected(whole, "names, separated by commas")
        found.append(_unquoted(match.group(1)))
        rest = rest[match.end() :].strip()
    if not found:
        raise _expected(whole, "a name")
    return tuple(dict.fromkeys(found))


def _name(text: str, whole: str) -> str:
    names = _names(text, whole)
    if len(names) != 1:
        raise _expected(whole, "one name")
    return names[0]


def _json(text: str, whole: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _expected(whole, f"JSON on the right ({error})") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r'[^\s",:=]+', name) else json.dumps(name, ensure_ascii=False)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{text} is no name in quotes: {error}") from error


def _expected(text: str, what: str) -> InputError:
    shown = text if len(text) < 80 else f"{text[:80]} ..."
    return InputError(f"edit {shown!r}: expected {what}", hint="explorer edit --help")
