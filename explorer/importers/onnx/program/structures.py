"""What exists while importing only: sequences and optionals, whose structure must be known, and
strings, which are rows of code points to all operations.

    s = SplitToSequence(x)           TensorSequence((%slice1, %slice2, %slice3))
    y = SequenceAt(s, 1)             %slice2
    o = Optional()                   OptionalValue(None)
    t = StringConcat(t1, t2)         StringTensor(%codes)
    m = ZipMap(p)                    LabeledRows(%p, labels)

No operation of the IR knows of them. Inputs and outputs of these types are flattened into tensors:
a sequence `s` of two tensors becomes the outputs `s.0` and `s.1`, a sequence of maps `m` becomes
its numbers `m` and their labels `m.labels`, strings `t` become `t.codes`. `host_values.py` puts
outputs together again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.importers.building.code_points import SUFFIX
from explorer.importers.building.expr import Expr


@dataclass(frozen=True)
class TensorSequence:
    """A sequence whose length is known: its elements in order."""

    elements: tuple[Imported, ...]


@dataclass(frozen=True)
class OptionalValue:
    """What may be there or not; which of them is known."""

    content: Expr | TensorSequence | StringTensor | LabeledRows | None


@dataclass(frozen=True)
class StringTensor:
    """Strings: (shape..., places) of i32, the code points of each filled up with zeros."""

    codes: Expr


@dataclass(frozen=True)
class LabeledRows:
    """A sequence of maps from labels to numbers, all with the same labels."""

    numbers: Expr
    """(rows, labels)"""
    labels: Expr | StringTensor
    """(labels), i64 or strings"""


LABELS = ".labels"
"""What the labels of an output are called, behind its own name."""

Imported = Expr | TensorSequence | OptionalValue | StringTensor | LabeledRows
"""What a tensor name of an ONNX graph may stand for."""

Form = tuple[str, tuple["Form", ...]]
"""A structure without its tensors; equal for values that have the same one."""


def form_of(value: Imported) -> Form:
    if isinstance(value, TensorSequence):
        return "sequence", tuple(form_of(element) for element in value.elements)
    if isinstance(value, OptionalValue):
        return "optional", () if value.content is None else (form_of(value.content),)
    if isinstance(value, LabeledRows):
        return "maps", (form_of(value.labels),)
    return ("strings" if isinstance(value, StringTensor) else "tensor"), ()


def tensors_of(value: Imported) -> list[Expr]:
    """All tensors in a structure, in order."""
    if isinstance(value, TensorSequence):
        return [tensor for element in value.elements for tensor in tensors_of(element)]
    if isinstance(value, OptionalValue):
        return [] if value.content is None else tensors_of(value.content)
    if isinstance(value, LabeledRows):
        return [value.numbers, *tensors_of(value.labels)]
    return [value.codes] if isinstance(value, StringTensor) else [value]


def with_tensors(like: Sequence[Imported], tensors: Sequence[Expr]) -> list[Imported]:
    """Values of the same forms whose tensors are others."""
    remaining = iter(tensors)
    return [_rebuilt(value, remaining) for value in like]


def named_tensors(name: str, value: Imported) -> list[tuple[str, Expr]]:
    """The tensors of an output under names of their own: `name.0`, `name.1` ... of a sequence,
    `name` and `name.labels` of maps."""
    if isinstance(value, TensorSequence):
        return [
            pair
            for index, element in enumerate(value.elements)
            for pair in named_tensors(f"{name}.{index}", element)
        ]
    if isinstance(value, OptionalValue):
        return [] if value.content is None else named_tensors(name, value.content)
    if isinstance(value, LabeledRows):
        return [(name, value.numbers), *named_tensors(name + LABELS, value.labels)]
    if isinstance(value, StringTensor):
        return [(name + SUFFIX, value.codes)]
    return [(name, value)]


def _rebuilt(value: Imported, tensors: Iterator[Expr]) -> Imported:
    if isinstance(value, TensorSequence):
        return TensorSequence(tuple(_rebuilt(element, tensors) for element in value.elements))
    if isinstance(value, OptionalValue):
        if value.content is None:
            return value
        content = _rebuilt(value.content, tensors)
        assert not isinstance(content, OptionalValue)
        return OptionalValue(content)
    if isinstance(value, LabeledRows):
        numbers, labels = next(tensors), _rebuilt(value.labels, tensors)
        assert isinstance(labels, Expr | StringTensor)
        return LabeledRows(numbers, labels)
    return StringTensor(next(tensors)) if isinstance(value, StringTensor) else next(tensors)
