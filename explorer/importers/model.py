"""A model as it was read, before anything is made of it: names, types and nodes of the file.

Every importer's `load` returns a `SourceModel`. What stands in it is for people (the source pane,
error messages) and for the oracle; `content` is the parsed file, which only the format's own
importer understands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.errors import InputError
from explorer.ir.sizes.symbols import parse
from explorer.results.displayed import Displayed

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from explorer.ir.rewriting import Rewrite
    from explorer.ir.types import Dim, Shape
    from explorer.ir.weights import Weights
    from explorer.results.source import SourcePlace

_BATCH_NAME = re.compile(r"batch|^n$", re.IGNORECASE)


@dataclass(frozen=True)
class SourceValue:
    """An input or output: `element_type` is NumPy's name ("float32"), dimensions may be names."""

    name: str
    element_type: str
    shape: Shape | None
    """None where the file does not say it."""


@dataclass(frozen=True)
class SourceNode:
    """One node of the file. `name` is unique: unnamed nodes are called `Operator_index`."""

    name: str
    operator: str
    text: str
    """One line: operands, attributes and results."""
    places: tuple[SourcePlace, ...] = ()
    """Lines of the author's program, from the outermost call to the one that made the node; empty
    where the format keeps none."""
    inner_operators: tuple[str, ...] = ()
    """Of the nodes in its nested graphs, each once."""


@dataclass(frozen=True, eq=False)
class State:
    """What a model remembers from one run to the next: give the output of a run as the input of
    the next."""

    input: str
    output: str
    initial: np.ndarray | None = None
    """What it holds at first; None: zeros of the size that the program has."""
    axis: int | None = None
    """Along which the output is longer than the input; None: both have one shape."""
    is_guessed: bool = False
    """It was found by its names, and is none where the program says otherwise."""


@dataclass(frozen=True, eq=False, repr=False)
class SourceModel(Displayed):
    """A model file that was read and checked, but not converted."""

    name: str
    format: str
    path: Path | None
    """None for a model that was made in memory."""
    producer: str
    opset: str
    inputs: tuple[SourceValue, ...]
    outputs: tuple[SourceValue, ...]
    nodes: tuple[SourceNode, ...]
    parameters: int
    """Elements of all weights together."""
    content: object
    """The parsed file; its type is the importer's."""
    tensors: tuple[str, ...] = ()
    """Names of what the nodes outside of nested graphs compute, in order: a program's origins
    name them, and the reference shows them. Where a format has no unique names of tensors, they
    are what the importer calls them."""
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Weights by name, as the file has them."""
    states: tuple[State, ...] = ()
    """What it remembers, in inputs and outputs of their own."""
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """The least and the greatest size of symbolic dimensions, where the file says them; None: no
    greatest."""
    assumed: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Contents that inputs are taken to have where the program's shapes depend on them: such a
    program is right for these contents only, and its entry function names the inputs
    (`specialized_inputs`)."""
    whole_pasts: frozenset[str] = frozenset()
    """Inputs of which each sequence is taken to have all rows. A mask that says how many it has is
    taken to be all ones, and as long as the past with the new rows: such a program is right for
    these masks only, and its entry function names them (`full_masks`)."""


@dataclass(frozen=True, eq=False)
class OpenedProgram:
    """A model before and after its import."""

    source: ModuleOp
    """The model as it is: see `explorer.ir.dialects.source`."""
    module: ModuleOp
    """The same in `top` operations."""
    weights: Weights
    rewrites: tuple[Rewrite, ...]
    """One for every node; replayed on `source` they give `module`."""


@dataclass(frozen=True, eq=False)
class ExaminedModel:
    """A model as far as it can be imported."""

    source: ModuleOp
    """Every node; those that cannot be imported say why."""
    problems: Mapping[str, str]
    """Why nodes (by name), inputs or weights cannot be imported."""
    rewrites: tuple[Rewrite, ...] = ()
    """Of the import, where all of it can be."""
    explanations: Mapping[str, str] = field(default_factory=dict)
    """What the import makes of nodes, in words, by their identities in `source`; without those
    that nothing converts."""


def bind_dimensions(model: SourceModel, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes for all symbolic dimensions of the inputs.

    What `sizes` does not say is 1 for a batch: a name that is some input's first dimension, or
    that reads like one; more where the model asks for more. InputError for any other, and for a
    name that the model does not have.
    """
    check_dimension_names(model, sizes)
    bound = dict(sizes)
    for name in symbolic_dimensions(model):
        if is_batch(model, name):
            bound.setdefault(name, max(model.ranges.get(name, (1, None))[0], 1))
    for value in model.inputs:
        for axis, size in enumerate(value.shape or ()):
            if isinstance(size, str) and not {*names_of(model, size)} <= bound.keys():
                name = names_of(model, size)[0]
                raise InputError(
                    f"axis {axis} of input {value.name!r} has no size of its own: {size!r}",
                    node=value.name,
                    hint=f"give one, as --dim {name}=16 (dimensions=), or inputs that tell it: "
                    "--input FILE.npz",
                )
    return bound


def sizes_of_inputs(model: SourceModel, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sizes of the symbolic dimensions that arrays for some inputs have.

    InputError for an array that is for no input, or does not have its shape, and where two arrays
    have different sizes of one dimension.
    """
    known = {value.name: value for value in model.inputs}
    sizes: dict[str, int] = {}
    for name, array in inputs.items():
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise InputError(f"the model has no input {name!r}", hint=f"its inputs: {listed}")
        shape = known[name].shape
        if shape is None:
            continue
        if len(shape) != array.ndim:
            raise InputError(
                f"input {name!r}: expected {len(shape)} axes, got {array.ndim}", node=name
            )
        for dimension, size in zip(shape, array.shape, strict=True):
            if isinstance(dimension, str):
                _see_size(model, dimension, size, sizes)
    # A size such as h//2 is known where another input says h.
    for name, array in inputs.items():
        shape = known[name].shape or ()
        for axis, (dimension, size) in enumerate(zip(shape, array.shape, strict=False)):
            (expected,) = with_sizes((dimension,), sizes)
            if isinstance(expected, str) and expected not in sizes:
                continue
            if size != expected:
                is_named = isinstance(dimension, str)
                what = f"as {dimension!r} has elsewhere" if is_named else "as the model says"
                raise InputError(
                    f"input {name!r}: axis {axis} has size {size}, expected {expected} {what}",
                    node=name,
                )
    return sizes


def _see_size(model: SourceModel, dimension: str, size: int, sizes: dict[str, int]) -> None:
    """Adds the name that a dimension says, where it is not known yet."""
    names = names_of(model, dimension)
    if names == (dimension,):
        sizes.setdefault(dimension, size)
        return
    found = parse(dimension).substituted(sizes).solved(size)
    if found is not None:
        sizes.setdefault(*found)


def sizes_of_examples(model: SourceModel, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sizes of the symbolic dimensions that arrays of examples have, those of a batch left out.

    An array of N examples has the input's axes, or one more before them. What does not fit tells
    nothing.
    """
    known = {value.name: value for value in model.inputs}
    sizes: dict[str, int] = {}
    for name, array in inputs.items():
        shape = known[name].shape if name in known else None
        if shape is None or not 0 <= array.ndim - len(shape) <= 1:
            continue
        for dimension, size in zip(shape, array.shape[array.ndim - len(shape) :], strict=True):
            if isinstance(dimension, str) and not _BATCH_NAME.search(dimension):
                _see_size(model, dimension, size, sizes)
    return sizes


def is_batch(model: SourceModel, name: str) -> bool:
    """Whether a dimension is some input's first one, or its name reads like a batch."""
    return bool(_BATCH_NAME.search(name)) or any(
        value.shape and value.shape[0] == name for value in model.inputs
    )


def check_dimension_names(model: SourceModel, sizes: Mapping[str, int]) -> None:
    """InputError for a dimension that no input has, or for a size that it cannot have."""
    known = symbolic_dimensions(model)
    for name, size in sizes.items():
        if name not in known:
            listed = ", ".join(repr(k) for k in known) or "none"
            raise InputError(
                f"the model has no dimension {name!r}", hint=f"its symbolic dimensions: {listed}"
            )
        low, high = model.ranges.get(name, (0, None))
        if size < low or (high is not None and size > high):
            hint = f"give {low} or more" if high is None else f"give {low} to {high}"
            raise InputError(f"dimension {name!r} cannot be {size}", hint=hint)


def symbolic_dimensions(model: SourceModel) -> tuple[str, ...]:
    """Names of the inputs' symbolic dimensions, in order, once each."""
    named = [d for value in model.inputs for d in value.shape or () if isinstance(d, str)]
    return tuple(dict.fromkeys(name for d in named for name in names_of(model, d)))


def names_of(model: SourceModel, dimension: str) -> tuple[str, ...]:
    """The dimension itself, or the names that it is computed from: `2*h` or `h//2` where PyTorch
    has a range of h, or an input has a dimension h."""
    names = parse(dimension).names
    if not names or names == (dimension,):
        return (dimension,)
    shown = {d for value in model.inputs for d in value.shape or ()}
    return names if all(name in model.ranges or name in shown for name in names) else (dimension,)


def with_sizes(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """The shape with the names that have a size replaced by it."""

    def size_of(dimension: Dim) -> Dim:
        if not isinstance(dimension, str) or dimension in sizes:
            return sizes[dimension] if isinstance(dimension, str) else dimension
        found = parse(dimension).substituted(sizes)
        return found.constant if found.is_number else dimension

    return tuple(size_of(d) for d in shape)
