"""What a wrong call is answered with: one sentence that has the names there are.

@named_arguments
def compile(model, *, disable=()): ...
compile(model, disabel=["fuse-bias"])     InputError: compile has no option 'disabel';
                                          try: did you mean 'disable'?
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from types import NoneType
from typing import Any, NoReturn, TypeVar, cast

from explorer.errors import InputError
from explorer.results.names import near_name

Function = TypeVar("Function", bound=Callable[..., Any])  # Any: functions of all kinds


def named_arguments(function: Function) -> Function:
    """The function, which answers a wrong call with an InputError before anything is done."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        check_call(function, arguments, named)
        return function(*arguments, **named)

    return cast(Function, call)


def check_call(
    function: Callable[..., object], arguments: Sequence[object], named: Mapping[str, object]
) -> None:
    """InputError for a keyword that the function does not have, and for a value of another kind
    than a number, a path, a list or a mapping where its annotation is one of these."""
    known, kinds = _parameters(function)
    require_known(function.__name__, named, known)
    positional = known[: function.__code__.co_argcount]  # others may follow: compare(d, e)
    for name, value in (*zip(positional, arguments, strict=False), *named.items()):
        if (kind := kinds.get(name)) is not None and not isinstance(value, kind.types):
            refuse(name, value, kind.words)


def parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Names of all parameters, those that collect others left out."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def require_known(called: str, named: Mapping[str, object], known: Collection[str]) -> None:
    """InputError for the first keyword that is not known."""
    for name in named:
        if name not in known:
            options = [option for option in known if option != "self"]
            raise InputError(f"{called} has no option {name!r}", hint=near_name(name, options))


def require_arrays(inputs: object, names: Iterable[str], call: str) -> None:
    """InputError where inputs are no mapping; `call`: `c.run`, to show how they are given."""
    if not isinstance(inputs, Mapping):
        example = ", ".join(f'"{name}": ...' for name in names)
        refuse("inputs", inputs, "arrays by the names of inputs", f"{call}({{{example}}})")


def refuse(what: str, given: object, expected: str, hint: str = "") -> NoReturn:
    """InputError for a value of another kind: `target cannot be 3: a name or a file`."""
    text = " ".join(reprlib.repr(given).split())
    raise InputError(f"{what} cannot be {text}: expected {expected}", hint=hint)


@dataclass(frozen=True)
class _Kind:
    types: tuple[type, ...]
    words: str


_KINDS = {
    "int": _Kind((Integral,), "a whole number"),
    "float": _Kind((Real,), "a number"),
    "str": _Kind((str,), "a text"),
    "Path": _Kind((PathLike,), "a path"),
    "Mapping": _Kind((Mapping,), "a mapping"),
    "Sequence": _Kind((Collection,), "a list"),
    "None": _Kind((NoneType,), "None"),
}
"""By the first word of an annotation. A string is a collection, too: what takes a list of names
refuses a single one itself."""


@cache
def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], dict[str, _Kind]]:
    """The names of parameters, and the kinds of those of which all alternatives are known."""
    names = parameters(function)
    kinds = {}
    for name in names:
        written = str(function.__annotations__.get(name, ""))
        words = [part.split("[")[0] for part in _alternatives(written)]
        if words and all(word in _KINDS for word in words):
            found = [_KINDS[word] for word in words]
            types = tuple(kind for known in found for kind in known.types)
            kinds[name] = _Kind(types, " or ".join(known.words for known in found))
    return names, kinds


def _alternatives(annotation: str) -> list[str]:
    """`Mapping[str, int | None] | None` -> `Mapping[str, int | None]`, `None`"""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
