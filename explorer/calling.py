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
from inspect import CO_VARKEYWORDS
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
    signature = _signature(function)
    for index, name, kind in signature.positional:  # few have a kind: calls are to cost nothing
        if index < len(arguments) and not kind.has(arguments[index]):
            refuse(name, arguments[index], kind.words)
    if not named:
        return
    if not function.__code__.co_flags & CO_VARKEYWORDS:  # else the function knows what it takes
        require_known(function.__name__, named, signature.names)
    for name, value in named.items():
        kind = signature.kinds.get(name)
        if kind is not None and not kind.has(value):
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
    """Values that a parameter takes: of these types, or of classes with these names, which are not
    loaded here."""

    types: tuple[Any, ...]  # also classes of `collections.abc`, which are no types to pyright
    words: str
    classes: frozenset[str] = frozenset()

    def has(self, value: object) -> bool:
        if isinstance(value, self.types):
            return True
        return any(base.__name__ in self.classes for base in type(value).__mro__)


_KINDS = {
    "bool": _Kind((bool, Integral), "True or False", frozenset({"bool"})),
    "int": _Kind((Integral,), "a whole number"),
    "float": _Kind((Real,), "a number"),
    "str": _Kind((str,), "a text"),
    "Path": _Kind((PathLike,), "a path"),
    "Mapping": _Kind((Mapping,), "a mapping"),
    "Sequence": _Kind((Collection,), "a list"),
    "ModelPath": _Kind((str, PathLike), "a path", frozenset({"ModelFiles"})),
    "SourceModel": _Kind((), "what load returns", frozenset({"SourceModel"})),
    "Callable": _Kind((Callable,), "a function"),
    "None": _Kind((NoneType,), "None"),
    **{
        name: _Kind((), f"a {name}", frozenset({name}))
        for name in ("Chosen", "MixedPrecision", "PassResult", "ProgramCache", "ThresholdTable")
    },
}
"""By the first word of an annotation. A string is a collection, too: what takes a list of names
refuses a single one itself."""

_ALIASES = {
    "Data": ("Mapping",),
    "Schedules": ("Mapping",),
    "ModesChoice": ("Mapping", "MixedPrecision", "str", "Path", "None"),
    "TableChoice": ("ThresholdTable", "str", "Path", "None"),
    **dict.fromkeys(("OnProgress", "Progress", "Report", "Told"), ("Callable",)),
    **dict.fromkeys(
        ("Arithmetic", "BlockType", "ComparisonKind", "FrameKind", "IntegerForm", "Literal",
         "Method", "PassName", "Rounding", "SampleName", "ViewName", "WeightType"),
        ("str",),
    ),
}  # fmt: skip
"""What names of types stand for."""


@dataclass(frozen=True)
class _Signature:
    names: tuple[str, ...]
    kinds: Mapping[str, _Kind]
    """Of parameters of which all alternatives are known."""
    positional: tuple[tuple[int, str, _Kind], ...]
    """Those of them that have a place; others may follow it, as in compare(d, e)."""


@cache
def _signature(function: Callable[..., object]) -> _Signature:
    names = parameters(function)
    kinds = {}
    for name in names:
        written = str(function.__annotations__.get(name, ""))
        heads = [part.split("[")[0] for part in _alternatives(written)]
        words = list(dict.fromkeys(word for head in heads for word in _ALIASES.get(head, (head,))))
        if words and all(word in _KINDS for word in words):
            found = [_KINDS[word] for word in words]
            kinds[name] = _Kind(
                types=tuple(kind for known in found for kind in known.types),
                words=" or ".join(known.words for known in found),
                classes=frozenset().union(*(known.classes for known in found)),
            )
    placed = enumerate(names[: function.__code__.co_argcount])
    positional = tuple((index, name, kinds[name]) for index, name in placed if name in kinds)
    return _Signature(names, kinds, positional)


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
