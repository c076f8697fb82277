"""A program of torch.export as records: calls by name, values with their types.

%relu = aten.relu(%conv2d)      Call("stem/relu", "aten.relu", {"self": Ref("conv2d")}, ("relu",))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from explorer.ir.types import Dim

PARTS = {"complex64": "float32", "complex128": "float64"}
"""Of complex numbers that have a form here: the element type of their two parts."""


@dataclass(frozen=True)
class Ref:
    """A value of the graph: a tensor, or a number that is computed from sizes."""

    name: str


@dataclass(frozen=True)
class ElementType:
    """NumPy's name, or one of PyTorch's for which there is none here (`complex64`)."""

    name: str


@dataclass(frozen=True)
class Word:
    """A setting that has no meaning for a tensor's numbers: layout, device, memory format."""

    text: str


@dataclass(frozen=True)
class Graph:
    """Calls in their order. Names of nested graphs are their own."""

    inputs: tuple[str, ...]
    outputs: tuple[Argument, ...]
    calls: tuple[Call, ...]
    types: Mapping[str, ValueType]
    """Of tensors; numbers have none."""


Argument = None | bool | int | float | complex | str | Ref | ElementType | Word | Graph | tuple
"""The bare tuple holds arguments."""


@dataclass(frozen=True)
class ValueType:
    """What a file says of a tensor."""

    element_type: str
    sizes: tuple[Dim | None, ...]
    """None for one that no expression of sizes says."""
    strides: tuple[Dim | None, ...]
    """In elements."""

    @property
    def is_complex(self) -> bool:
        return self.element_type in PARTS

    @property
    def of_part(self) -> ValueType:
        """Of the real part, or of the imaginary one; of real numbers this."""
        return replace(self, element_type=PARTS.get(self.element_type, self.element_type))

    @property
    def in_parts(self) -> ValueType:
        """As it is held here: both parts are a last axis; real numbers as they are."""
        if not self.is_complex:
            return self
        return replace(self.of_part, sizes=(*self.sizes, 2), strides=(*self.strides, 1))


@dataclass(frozen=True)
class Frame:
    """A line of Python that was running."""

    file: str
    """The last two parts of its path: the rest is the author's."""
    line: int
    function: str
    text: str
    is_library: bool = False
    """A line of PyTorch itself."""


@dataclass(frozen=True)
class Provenance:
    """Where in the author's program a call stands."""

    module: str = ""
    """Path of the innermost module: `layer1.0.conv1`."""
    module_class: str = ""
    frames: tuple[Frame, ...] = ()
    """From the outermost to the innermost."""

    @property
    def own_frames(self) -> tuple[Frame, ...]:
        """Lines that are not PyTorch's own; the innermost where all of them are."""
        own = tuple(frame for frame in self.frames if not frame.is_library)
        return own or self.frames[-1:]

    @property
    def frame(self) -> Frame | None:
        """The innermost line of the author's."""
        return (self.own_frames or (None,))[-1]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One node of the graph."""

    name: str
    """Unique in the file, below the path of its module: `layer1/0/conv1/conv2d`."""
    target: str
    """`aten.add.Tensor`, `aten.relu` (of overloads named default), `_operator.mul`."""
    arguments: Mapping[str, Argument]
    """By parameter; those at their defaults are left out."""
    results: tuple[str, ...]
    """Empty for one that is none."""
    provenance: Provenance = field(default=Provenance())

    def references(self) -> Iterator[str]:
        """Names of the values that it takes, in order."""
        for argument in self.arguments.values():
            yield from references(argument)


def references(argument: Argument) -> Iterator[str]:
    """Names of the values in an argument; nested graphs have their own."""
    if isinstance(argument, Ref):
        yield argument.name
    elif isinstance(argument, tuple):
        for part in argument:
            yield from references(part)


def renamed(argument: Argument, names: Mapping[str, str]) -> Argument:
    """The argument with other names for some values."""
    if isinstance(argument, Ref):
        return Ref(names.get(argument.name, argument.name))
    if isinstance(argument, tuple):
        return tuple(renamed(part, names) for part in argument)
    return argument
