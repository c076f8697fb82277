"""Where a value comes from: the source model's tensor, and how to get from that to this value.

    #top.origin<"conv1_out">                                    equal to the source tensor
    #top.origin<"conv1_out", permute [0, 2, 3, 1]>         its transpose

Every value of the IR carries an origin, or none (helpers such as folded scales). Whatever a pass
does to a value's form is appended to its origin's steps, so that any snapshot's tensor can be
compared, element by element, with the source model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import dropwhile, takewhile
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, OpResult, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

ORIGIN = "origin"


@dataclass(frozen=True)
class Origin:
    """`tensor` names the source tensor; each step is (kind, *integers):

    permute p...       transpose by the permutation p
    reshape s...       the same elements in shape s
    slice axis a b     elements a to b of an axis
    pad axis a b       a elements of zero before and b after, of an axis
    scale axis e...    each slice of an axis times 2^(e / 8)
    """

    tensor: str
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def then(self, kind: str, numbers: Sequence[int]) -> Origin:
        return Origin(self.tensor, (*self.steps, (kind, tuple(numbers))))

    def apply(self, source: np.ndarray) -> np.ndarray:
        """The source tensor in this value's form."""
        result = source
        for kind, numbers in self.steps:
            result = _APPLY[kind](result, numbers)
        return result

    def scaled(self, axis: int, eighths: Sequence[int]) -> Origin:
        """With a factor 2^(e / 8) for each slice of an axis; factors of one axis become one."""
        if self.steps and self.steps[-1][0] == SCALE and self.steps[-1][1][0] == axis:
            *others, (_, (_, *known)) = self.steps
            eighths = [a + b for a, b in zip(known, eighths, strict=True)]
            return Origin(self.tensor, tuple(others)).then(SCALE, (axis, *eighths))
        return self.then(SCALE, (axis, *eighths))

    @property
    def only_scaled(self) -> bool:
        """Whether it has the tensor's elements in their places."""
        return all(kind == SCALE for kind, _ in self.steps)

    @property
    def moved(self) -> Origin:
        """Where elements go, without the factors."""
        return Origin(self.tensor, tuple(step for step in self.steps if step[0] != SCALE))

    @property
    def key(self) -> str:
        """The tensor with the factors that stand first: different ones are different tensors."""
        first = [numbers for _, numbers in takewhile(lambda step: step[0] == SCALE, self.steps)]
        return f"{self.tensor} scaled {first}" if first else self.tensor

    def found_in(self, tensors: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The value's form of what there is under its key, else of the tensor; None without."""
        if self.key in tensors:
            rest = dropwhile(lambda step: step[0] == SCALE, self.steps)
            return Origin(self.tensor, tuple(rest)).apply(tensors[self.key])
        source = tensors.get(self.tensor)
        return None if source is None else self.apply(source)

    def undone(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
        """The source tensor of that shape, with the factors of `key`, of which an array is this
        value's form; None where elements were left out or added, or scaled where they lie."""
        steps = tuple(dropwhile(lambda step: step[0] == SCALE, self.steps))
        if any(kind not in REORDERS for kind, _ in steps) or prod(shape) != array.size:
            return None
        if not steps:
            return array
        places = Origin(self.tensor, steps).apply(np.arange(array.size).reshape(shape))
        source = np.empty(array.size, array.dtype)
        source[places.reshape(-1)] = array.reshape(-1)
        return source.reshape(shape)

    def to_attribute(self) -> OriginAttr:
        steps = [
            ArrayAttr([StringAttr(kind), *[IntAttr(n) for n in numbers]])
            for kind, numbers in self.steps
        ]
        return OriginAttr(StringAttr(self.tensor), ArrayAttr(steps))


def _slice(array: np.ndarray, numbers: tuple[int, ...]) -> np.ndarray:
    axis, start, stop = numbers
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _pad(array: np.ndarray, numbers: tuple[int, ...]) -> np.ndarray:
    axis, before, after = numbers
    widths = [(0, 0)] * array.ndim
    widths[axis] = (before, after)
    return np.pad(array, widths)


def _scale(array: np.ndarray, numbers: tuple[int, ...]) -> np.ndarray:
    axis, *eighths = numbers
    factors = np.exp2(np.array(eighths) / 8).astype(array.dtype)
    return array * factors.reshape([-1 if a == axis else 1 for a in range(array.ndim)])


SCALE = "scale"
REORDERS = ("permute", "reshape")
"""Steps behind which every element is there once."""
_UNKNOWN = UnknownLoc()
"""The location of what comes from no node; all share it, for making one takes time."""
_APPLY = {
    "permute": lambda array, numbers: np.transpose(array, numbers),
    "reshape": lambda array, numbers: np.reshape(array, numbers),
    "slice": _slice,
    "pad": _pad,
    SCALE: _scale,
}


@irdl_attr_definition
class OriginAttr(ParametrizedAttribute):
    """Textual form of an Origin."""

    name = "top.origin"

    tensor: StringAttr
    steps: ArrayAttr[ArrayAttr]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.tensor.data)
            for kind, numbers in self.origin.steps:
                printer.print_string(f", {kind} [{', '.join(map(str, numbers))}]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        steps: list[tuple[str, tuple[int, ...]]] = []
        with parser.in_angle_brackets():
            tensor = parser.parse_str_literal()
            while parser.parse_optional_punctuation(",") is not None:
                kind = parser.parse_identifier()
                numbers = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_integer
                )
                steps.append((kind, tuple(numbers)))
        return list(Origin(tensor, tuple(steps)).to_attribute().parameters)

    @property
    def origin(self) -> Origin:
        steps = []
        for step in self.steps.data:
            kind, *numbers = step.data
            assert isinstance(kind, StringAttr)
            steps.append((kind.data, tuple(n.data for n in numbers if isinstance(n, IntAttr))))
        return Origin(self.tensor.data, tuple(steps))


def origin_of(value: SSAValue) -> Origin | None:
    """The origin of a result; None where it has none (and for block arguments)."""
    if not isinstance(value, OpResult):
        return None
    origins = value.op.attributes.get(ORIGIN)
    if not isinstance(origins, ArrayAttr):
        return None
    attribute = origins.data[value.index]
    return attribute.origin if isinstance(attribute, OriginAttr) else None


def set_origins(op: Operation, origins: Sequence[Origin | None]) -> None:
    """Sets the origins of all results; an operation without any carries no attribute."""
    assert len(origins) == len(op.results)
    if all(o is None for o in origins):
        op.attributes.pop(ORIGIN, None)
        return
    attributes: list[Attribute] = [NoneAttr() if o is None else o.to_attribute() for o in origins]
    op.attributes[ORIGIN] = ArrayAttr(attributes)


def origins_of(op: Operation) -> list[Origin | None]:
    return [origin_of(r) for r in op.results]


def set_inner_origins(op: Operation, origins: Sequence[Origin | None]) -> None:
    """Notes what values inside an operation are, behind the origins of its results.

    An operation that stands for several says so for what it computes on the way: where it is taken
    apart again, those values can be compared with the source model once more.
    """
    everything = [*origins_of(op), *origins]
    op.attributes[ORIGIN] = ArrayAttr(
        [NoneAttr() if o is None else o.to_attribute() for o in everything]
    )


def inner_origins(op: Operation, count: int) -> list[Origin | None]:
    """What `set_inner_origins` noted; None for each where nothing was."""
    attribute = op.attributes.get(ORIGIN)
    kept = attribute.data[len(op.results) :] if isinstance(attribute, ArrayAttr) else ()
    if len(kept) != count:
        return [None] * count
    return [a.origin if isinstance(a, OriginAttr) else None for a in kept]


def sources_of(op: Operation) -> tuple[str, ...]:
    """Names of the source model's nodes that the operation comes from, in order, once each."""
    return tuple(dict.fromkeys(_names(op.location)))


def location_of(sources: Sequence[str]) -> LocationAttr:
    """A NameLoc for one source, a FusedLoc for several, unknown for none."""
    return _location(tuple(dict.fromkeys(sources)))


@lru_cache(maxsize=4096)
def _location(names: tuple[str, ...]) -> LocationAttr:
    """Of different names; locations are immutable, so that operations share them."""
    if not names:
        return _UNKNOWN
    locations = [NameLoc(StringAttr(n), _UNKNOWN) for n in names]
    if len(locations) == 1:
        return locations[0]
    return FusedLoc(ArrayAttr(locations), NoneAttr())


def _names(location: Attribute) -> list[str]:
    if isinstance(location, NameLoc):
        return [location.desc.data]
    if isinstance(location, FusedLoc):
        inner = location.locations
        assert isinstance(inner, ArrayAttr)
        return [n for part in inner.data for n in _names(part)]
    return []
