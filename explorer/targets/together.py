"""Several targets of one program: `cpu+opencl`, or a list.

    load_targets("cpu+boards/my.toml")        (Target("cpu"), Target("my_board"))
    load_targets(["cpu", "opencl"])
    joined(targets)                           "cpu+opencl"

The first one is the fallback of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explorer.errors import InputError
from explorer.targets import load_target
from explorer.targets.names import TargetName as Named
from explorer.targets.schema import Target

SEPARATOR = "+"
OneTarget = Named | str | Path | Target
TargetsChoice = OneTarget | Sequence[OneTarget]
"""A name, a file, a target, several names in one text, or a list of these."""
RESERVED = ("device", "host", "sized")
"""Names of places that are no device's."""


def load_targets(choice: TargetsChoice) -> tuple[Target, ...]:
    """The targets in order. InputError where one is unknown or named twice, or where there is none.

    A text that is the path of a file names this file, even where it has a `+`.
    """
    found = tuple(_load(one) for one in _listed(choice))
    if not found:
        raise InputError("the list of targets is empty", hint='name one: target=["cpu", "opencl"]')
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two targets are called {name!r}",
                hint="name each once; a target file of your own has a name of its own",
            )
        if len(names) > 1 and name in RESERVED:
            raise InputError(f"a target among several cannot be called {name!r}")
    return found


def single_choices(choice: str) -> dict[str, str]:
    """By the name of each target: the name or file that alone stands for it."""
    names = [target.name for target in load_targets(choice)]
    return dict(zip(names, map(str, _listed(choice)), strict=True))


def joined(targets: Sequence[Target]) -> str:
    return SEPARATOR.join(target.name for target in targets)


def _listed(choice: TargetsChoice) -> list[OneTarget]:
    if isinstance(choice, str):
        is_file = choice.endswith(".toml") and Path(choice).is_file()
        pieces = [choice] if is_file else choice.split(SEPARATOR)
        if len(pieces) > 1 and not all(pieces):
            raise InputError(
                f"a target is missing in {choice!r}", hint="name one on both sides of each +"
            )
        return list(pieces)
    if isinstance(choice, Path | Target):
        return [choice]
    if not isinstance(choice, Sequence):
        raise InputError(f"{choice!r} is no target", hint="a name, a file, or a list of them")
    return list(choice)


def _load(one: OneTarget) -> Target:
    if isinstance(one, Target):
        return one
    if not isinstance(one, str | Path):
        raise InputError(f"{one!r} is no target", hint="a name, or the path of a .toml file")
    return load_target(one)
