"""A call of ATen for its converter: operands, settings, element types.

    x = node.operand("self")            a tensor
    sizes = node.sizes("size")          numbers, or values that are computed from sizes
    left, right = promoted(node, ["self", "other"], build)      in one element type

Numbers that a program computes from sizes are i64 scalars in the imported program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeGuard

import numpy as np

from explorer.importers.building.build import Build, Undecided, Unsupported
from explorer.importers.building.expr import Expr, Size
from explorer.importers.building.flat import FileNode
from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    ElementType,
    Graph,
    Ref,
    ValueType,
)
from explorer.importers.pytorch.file.versions import Step
from explorer.ir.types import ELEMENT_TYPES, numpy_dtype

Number = bool | int | float
FLOAT = np.dtype(np.float32)
"""What PyTorch makes of whole numbers where a function gives others."""


@dataclass(frozen=True, kw_only=True)
class AtenNode(FileNode):
    """One call, with the values of what it takes."""

    step: Step
    types: Mapping[str, ValueType] = field(default_factory=dict)
    """Of the results, by their names."""
    numbers: frozenset[str] = frozenset()
    """Values of the graph that are no tensors."""
    complexes: frozenset[str] = frozenset()
    """Values of the graph that are complex: their two parts are a last axis of their own."""
    used: frozenset[str] = frozenset()
    """Values of the graph that something takes."""
    given: Mapping[str, Expr] = field(default_factory=dict)
    """The values of `inputs`."""
    convert: Callable[[AtenNode, Build], Sequence[Expr]] | None = None
    """What converts the calls of graphs that it takes."""

    @property
    def call(self) -> Call:
        return self.step.call

    def argument(self, name: str) -> Argument:
        return self.call.arguments.get(name)

    def has(self, name: str) -> bool:
        return self.argument(name) is not None

    def first(self) -> str:
        """The name of the first argument."""
        return self.one_of(*self.call.arguments)

    def one_of(self, *names: str) -> str:
        """The first of these that was given. ValueError where none was."""
        found = next(filter(self.has, names), None)
        if found is None:
            raise ValueError(f"{' or '.join(names) or 'an operand'} is missing")
        return found

    def require_unused(self, first: int, what: str) -> None:
        """Unsupported where something takes the results from `first` on, which are not made."""
        if self.results_used(first):
            raise Unsupported(what)

    def results_used(self, first: int) -> bool:
        """Whether something takes a result from `first` on."""
        return any(name in self.used for name in self.call.results[first:])

    # -- tensors -----------------------------------------------------------------------------------
    def operand(self, name: str) -> Expr:
        """A tensor that must be there."""
        found = self.optional(name)
        if found is None:
            raise ValueError(f"operand {name} is missing")
        return found

    def optional(self, name: str) -> Expr | None:
        argument = self.argument(name)
        if argument is None:
            return None
        if not isinstance(argument, Ref):
            raise ValueError(f"{name} is {argument!r}; a tensor expected")
        return self.given[argument.name]

    def tensors(self, name: str) -> list[Expr]:
        """A list of tensors, all of which must be there."""
        found = self.optional_tensors(name)
        if any(value is None for value in found):
            raise ValueError(f"a tensor of {name} is missing")
        return [value for value in found if value is not None]

    def optional_tensors(self, name: str) -> list[Expr | None]:
        return [None if a is None else self._value(a, name) for a in self._list(name)]

    def graph(self, name: str) -> Graph:
        found = self.argument(name)
        if not isinstance(found, Graph):
            raise ValueError(f"{name} is no graph")
        return found

    def _value(self, argument: Argument, name: str) -> Expr:
        if not isinstance(argument, Ref):
            raise ValueError(f"{name} holds {argument!r}; a tensor expected")
        return self.given[argument.name]

    def is_number(self, name: str) -> bool:
        """Whether an argument counts as a number of Python where element types are found."""
        argument = self.argument(name)
        if isinstance(argument, Ref):
            return argument.name in self.numbers
        return isinstance(argument, bool | int | float)

    # -- complex numbers ---------------------------------------------------------------------------
    def is_complex(self, name: str) -> bool:
        """Whether an argument is complex, or a list with something that is."""
        return self._holds_complex(self.argument(name))

    def has_complex(self) -> bool:
        """Whether any argument is complex, or any result."""
        kinds = [kind for name in self.call.results if (kind := self.types.get(name))]
        return any(kind.is_complex for kind in kinds) or any(
            map(self.is_complex, self.call.arguments)
        )

    def _holds_complex(self, argument: Argument) -> bool:
        if isinstance(argument, tuple):
            return any(map(self._holds_complex, argument))
        if isinstance(argument, Ref):
            return argument.name in self.complexes
        return isinstance(argument, complex)

    # -- settings ----------------------------------------------------------------------------------
    def integer(self, name: str, build: Build, default: int | None = None) -> int:
        """A number that must be known while importing."""
        found = self.argument(name)
        found = default if found is None else found
        return self._known(found, name, build)

    def integers(self, name: str, build: Build, default: Sequence[int] | None = None) -> list[int]:
        if self.argument(name) is None:
            if default is None:
                raise ValueError(f"{name} is missing")
            return list(default)
        return [self._known(found, name, build) for found in self._list(name)]

    def size(self, name: str, default: int | None = None) -> Size:
        """A number, or the value that is one in a run."""
        found = self.argument(name)
        return self._size(default if found is None else found, name)

    def sizes(self, name: str) -> list[Size]:
        return [self._size(found, name) for found in self._list(name)]

    def number(self, name: str, default: float | None = None) -> float:
        found = self.argument(name)
        found = default if found is None else found
        if isinstance(found, Ref):
            raise Undecided(f"{name}, which is computed from sizes")
        if not isinstance(found, int | float):
            raise ValueError(f"{name} is {found!r}; a number expected")
        return float(found)

    def scalar(self, name: str, default: float | None = None) -> float:
        """A number as it is written: an integer of 64 bits exactly, where `number` rounds it."""
        found = self.argument(name)
        return found if isinstance(found, int) else self.number(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        found = self.argument(name)
        return default if found is None else bool(found)

    def text(self, name: str, default: str = "") -> str:
        found = self.argument(name)
        return found if isinstance(found, str) else default

    def dtype(self, name: str = "dtype") -> np.dtype | None:
        """An element type that is asked for."""
        found = self.argument(name)
        return dtype_of(found.name) if isinstance(found, ElementType) else None

    def result_dtype(self, index: int = 0) -> np.dtype:
        """What the file says of a result."""
        kind = self.types.get(next(iter(self.call.results[index:]), ""))
        if kind is None:
            raise ValueError("the file does not say of which type the result is")
        return dtype_of(kind.element_type)

    def _list(self, name: str) -> Sequence[Argument]:
        found = self.argument(name)
        if found is None:
            return ()
        return found if isinstance(found, tuple) else (found,)

    def _known(self, found: Argument, name: str, build: Build) -> int:
        if isinstance(found, Ref):
            return build.integers(self.given[found.name], name)[0]
        if not _is_finite(found):
            raise ValueError(f"{name} is {found!r}; a whole number expected")
        return int(found)

    def _size(self, found: Argument, name: str) -> Size:
        if isinstance(found, Ref):
            return self.given[found.name].value
        if not _is_finite(found):
            raise ValueError(f"{name} is {found!r}; a size expected")
        return int(found)


def _is_finite(argument: Argument) -> TypeGuard[int | float]:
    return isinstance(argument, int) or (isinstance(argument, float) and isfinite(argument))


def dtype_of(name: str) -> np.dtype:
    """Unsupported for types that have no place here: complex numbers as elements."""
    if name not in ELEMENT_TYPES:
        raise Unsupported(f"elements of {name}")
    return numpy_dtype(ELEMENT_TYPES[name])
