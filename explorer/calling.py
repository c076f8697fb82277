"""What a wrong call is answered with: one sentence that has the names there are.

@named_arguments
def compile(model, *, disable=()): ...
compile(model, disabel=["fuse-bias"])     InputError: compile has no option 'disabel';
                                          try: did you mean 'disable'?
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

from explorer.errors import InputError
from explorer.results.names import near_name

Function = TypeVar("Function", bound=Callable[..., Any])  # Any: functions of all kinds


def named_arguments(function: Function) -> Function:
    """The function, which answers an unknown keyword with an InputError that has a near name."""
    known = parameters(function)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        require_known(function.__name__, named, known)
        return function(*arguments, **named)

    return cast(Function, call)


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


def refuse(what: str, given: object, expected: str, hint: str = "") -> NoReturn:
    """InputError for a value of another kind: `target cannot be 3: a name or a file`."""
    raise InputError(f"{what} cannot be {reprlib.repr(given)}: expected {expected}", hint=hint)
