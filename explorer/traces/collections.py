"""Passes, kernels and knobs of a compilation: lists and mappings that are shown as tables.

c.passes        a table; c.passes[3], c.passes["fuse-bias"]
c.kernels       a table; c.kernels["conv_1"], a near name where there is none
c.knobs         a table; iterates over the knobs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol, SupportsIndex, TypeVar, overload

from explorer.calling import refuse
from explorer.errors import InputError, UnknownNameError
from explorer.results import KernelRecord, Knob
from explorer.results.displayed import Displayed
from explorer.results.names import near_name
from explorer.results.pass_names import PassName


class NamedPass(Protocol):
    """What one pass did: of a compilation, or out of a file."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=NamedPass)


def pass_of(passes: Sequence[P], key: str | int) -> P:
    """The pass of that name or number; InputError where there is none."""
    if isinstance(key, str):
        for result in passes:
            if result.name == key:
                return result
        raise InputError(f"there is no pass {key!r}", hint=near_name(key, [p.name for p in passes]))
    if not isinstance(key, SupportsIndex):
        refuse("a pass", key, "a name or a number")
    if not -len(passes) <= key.__index__() < len(passes):
        raise InputError(f"there is no pass {key}", hint=f"passes are 0 to {len(passes) - 1}")
    return list.__getitem__(passes, key) if isinstance(passes, list) else passes[key]


class Passes(list[P], Displayed):
    """The passes in order; by name, too."""

    @overload
    def __getitem__(self, key: SupportsIndex | PassName | str) -> P: ...
    @overload
    def __getitem__(self, key: slice) -> list[P]: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> P | list[P]:
        if isinstance(key, str):
            return pass_of(self, key)
        return super().__getitem__(key)

    __str__ = Displayed.__str__
    __repr__ = Displayed.__repr__

    def _ipython_key_completions_(self) -> list[str]:
        return [result.name for result in self]


class Kernels(dict[str, KernelRecord], Displayed):
    """Kernel records by name, in the order in which they are printed."""

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownNameError(f"there is no kernel {name!r}", hint=near_name(name, self))

    __str__ = Displayed.__str__
    __repr__ = Displayed.__repr__


class Knobs(tuple[Knob, ...], Displayed):
    """What may be decided otherwise."""

    __str__ = Displayed.__str__
    __repr__ = Displayed.__repr__
