"""Arrays of any sizes within bounds for a program of the largest sizes, and back.

    batch 1..4, seq 1..8      ids: (2, 5) -> (4, 8)      size.seq: 5
                              logits: (4, 8, 10) -> (2, 5, 10)

The entry function notes which axes are open (`sizes`), and has an input for each number of the
call that it computes with. Elements beyond a size are zeros in inputs and anything in outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from explorer.errors import InputError
from explorer.ir.sizes.symbols import parse, relation_holds
from explorer.results.program import CallMask, OpenAxis, OpenSizes


def sizes_of_call(sizes: OpenSizes, inputs: Mapping[str, np.ndarray]) -> dict[str, int] | None:
    """The size of every dimension, from the arrays of a call; None where a caller gives arrays of
    the largest sizes and the numbers.

    InputError where inputs disagree, a size is outside its bounds, or a relation is not met.
    """
    if sizes.added and all(name in inputs for name in sizes.added):
        return None
    found: dict[str, tuple[int, str]] = {}
    derived: list[tuple[OpenAxis, str, int]] = []
    for axis in sizes.inputs:
        array = inputs.get(axis.name)
        if not isinstance(array, np.ndarray) or array.ndim <= axis.axis:
            continue  # a missing or ill-shaped input is reported where all inputs are checked
        ((_, text),) = axis.factors
        size, expression = array.shape[axis.axis], parse(text)
        if not expression.is_name:
            derived.append((axis, text, size))
            continue
        (name,) = expression.names
        known, giver = found.setdefault(name, (size, axis.name))
        if known != size:
            raise InputError(
                f"dimension {name!r} is {known} in input {giver!r}, but {size} in {axis.name!r}",
                node=axis.name,
                hint=f"give inputs in which {name} is the same",
            )
    call = {name: size for name, (size, _) in found.items()}
    for axis, text, size in derived:
        solved = parse(text).substituted(call).solved(size)
        if solved is not None:
            call.setdefault(*solved)
        elif not set(parse(text).names) <= call.keys():
            raise InputError(
                f"dimension {axis.axis} of input {axis.name!r} is {size}, which is no {text}",
                node=axis.name,
                hint=f"give {axis.name} with a size of {text}",
            )
    _check_bounds(sizes, call)
    for axis, text, size in derived:
        if set(parse(text).names) <= call.keys() and parse(text).value(call) != size:
            raise InputError(
                f"dimension {axis.axis} of input {axis.name!r} is {size}, but {text} is "
                f"{parse(text).value(call)} for the other inputs",
                node=axis.name,
                hint=f"give {axis.name} with a size of {parse(text).value(call)}",
            )
    for relation in sizes.relations:
        _check_relation(relation, call)
    return call


def _check_bounds(sizes: OpenSizes, call: Mapping[str, int]) -> None:
    for name, lowest, highest in sizes.ranges:
        size = call.get(name, lowest)
        if not lowest <= size <= highest:
            raise InputError(
                f"{name} is {size} in the inputs, and the program is for {name} = "
                f"{lowest}..{highest}",
                hint=f"compile with --dim {name}={min(lowest, size)}..{max(highest, size)}",
            )


def _check_relation(relation: tuple[str, str, str, str], call: Mapping[str, int]) -> None:
    kind, left, right, operation = relation
    names = tuple(dict.fromkeys((*parse(left).names, *parse(right).names)))
    if any(name not in call for name in names):
        return
    if not relation_holds(kind, parse(left).value(call), parse(right).value(call)):
        given = ", ".join(f"{name} = {call[name]}" for name in names)
        raise InputError(
            f"the inputs have {given}, but the model needs {left} {kind} {right} "
            f"(operation {operation})",
            node=operation,
            hint=f"give inputs for which {left} is {kind} {right}",
        )


MAX_KEPT_CALLS = 1024
"""Sizes of calls for which numbers and masks are kept: those of a past that grows come again."""
MAX_KEPT_BYTES = 2**24
"""Of the numbers and masks that are kept."""


class Values(dict[str, int]):
    """The numbers of expressions in a call, by their texts; each is computed once."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = sizes

    def __missing__(self, text: str) -> int:
        found = self[text] = parse(text).value(self._sizes)
        return found


@dataclass(eq=False)
class Call:
    """What calls of equal sizes share; there is one for each of them."""

    sizes: Mapping[str, int]
    added: dict[str, np.ndarray] = field(default_factory=dict)
    """Numbers and masks, by the input's name."""
    cuts: dict[str, Cut] = field(default_factory=dict)
    """By output."""
    values: Values = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values(self.sizes)


def _zeros(name: str, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """InputError where there is no memory for an input of its largest sizes."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):  # the second one for more bytes than addresses
        size = prod(shape) * dtype.itemsize
        raise InputError(
            f"input {name!r} takes {size:,} bytes at its largest sizes, {list(shape)}, "
            "and there is no memory for it",
            hint="compile for smaller ranges of its sizes",
        ) from None


class Calls:
    """The calls of one program: what is the same for equal sizes is checked and made once."""

    def __init__(self, sizes: OpenSizes) -> None:
        self.sizes = sizes
        self._axes = tuple((axis.name, axis.axis) for axis in sizes.inputs)
        self._forms = _forms(sizes.masks)
        self._first_added = sizes.added[0] if sizes.added else None
        self._kept: dict[tuple[int, ...], Call] = {}
        self._kept_bytes = 0

    @property
    def kept(self) -> tuple[Call, ...]:
        """Calls of which the numbers and masks are kept."""
        return tuple(self._kept.values())

    def whole(self, inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Call | None]:
        """The inputs at their largest sizes, zeros after what a call has, with numbers and masks;
        and the call, None where the caller gives all of that."""
        call = self.call_of(inputs)
        if call is None:
            return dict(inputs), None
        found = dict(inputs)
        shapes: dict[str, list[int]] = {}
        for axis in self.sizes.inputs:
            array = inputs.get(axis.name)
            if isinstance(array, np.ndarray) and array.ndim > axis.axis:
                shape = shapes.setdefault(axis.name, list(array.shape))
                shape[axis.axis] = axis.factors[0][0]
        for name, shape in shapes.items():
            array = inputs[name]
            if tuple(shape) != array.shape:
                whole = _zeros(name, shape, array.dtype)
                whole[tuple(slice(size) for size in array.shape)] = array
                found[name] = whole
        found.update(call.added)
        return found, call

    def call_of(self, inputs: Mapping[str, np.ndarray]) -> Call | None:
        """The call with inputs of these sizes; None where the caller gives the numbers and masks.

        InputError where no call has such sizes.
        """
        try:
            key = tuple([inputs[name].shape[axis] for name, axis in self._axes])
        except (AttributeError, IndexError, KeyError):
            shapes = {name: np.shape(array) for name, array in inputs.items()}
            key = tuple(
                shapes[name][axis] if len(shapes.get(name, ())) > axis else -1
                for name, axis in self._axes
            )
        kept = self._kept.get(key)
        if kept is not None and self._first_added not in inputs:
            return kept
        sizes = sizes_of_call(self.sizes, inputs)
        if sizes is None:
            return None
        call = Call(sizes)
        if len(sizes) == len(self.sizes.ranges):  # a missing input is reported later
            for name, text in self.sizes.numbers:
                call.added[name] = np.array(call.values[text], np.int64)
            call.added.update(self._masks(call.values))
        own = sum(array.nbytes for array in call.added.values())
        if self._kept_bytes + own > MAX_KEPT_BYTES or len(self._kept) >= MAX_KEPT_CALLS:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept_bytes += own
        self._kept[key] = call
        return call

    def _masks(self, values: Values) -> dict[str, np.ndarray]:
        """The masks of a call by name; equal ones, as steps of a loop have, are one array."""
        found: dict[str, np.ndarray] = {}
        known: dict[tuple[object, ...], np.ndarray] = {}
        for mask, form, texts in self._forms:
            key = (form, *[values[text] for text in texts])
            array = known.get(key)
            if array is None:
                array = known[key] = mask_of_call(mask, values)
            found[mask.name] = array
        return found

    def cut(self, outputs: Mapping[str, np.ndarray], call: Call) -> dict[str, np.ndarray]:
        """The outputs without what is beyond the sizes of a call."""
        found = dict(outputs)
        for name in {axis.name: None for axis in self.sizes.outputs if axis.name in found}:
            if name not in call.cuts:
                axes = [axis for axis in self.sizes.outputs if axis.name == name]
                call.cuts[name] = cut_of(found[name].shape, axes, call.values)
            found[name] = call.cuts[name].of(found[name])
        return found


@dataclass(frozen=True)
class Cut:
    """The part of an output that a call has: its axes taken apart, cut, and joined again."""

    split: tuple[int, ...]
    kept: tuple[int, ...]
    """The first elements of each axis of `split`."""
    joined: tuple[int, ...]

    def of(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.part(array)).reshape(self.joined)

    def part(self, array: np.ndarray) -> np.ndarray:
        """A view of what a call has, its axes taken apart."""
        return array.reshape(self.split)[*map(slice, self.kept), ...]  # of a scalar, too, a view


def cut_of(shape: Sequence[int], axes: Sequence[OpenAxis], values: Values) -> Cut:
    """axes: those of a value of that shape which are open."""
    factors = {axis.axis: axis.factors for axis in axes}
    split: list[int] = []
    kept: list[int] = []
    joined: list[int] = []
    for axis, size in enumerate(shape):
        own = factors.get(axis)
        sizes = [size] if own is None else [max(values[text], 0) for _, text in own]
        split += [size] if own is None else [largest for largest, _ in own]
        kept += sizes
        joined.append(prod(sizes))
    return Cut(tuple(split), tuple(kept), tuple(joined))


def padded_to_largest(sizes: OpenSizes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs at their largest sizes, as `Calls.whole` gives them."""
    return Calls(sizes).whole(inputs)[0]


def mask_of_call(mask: CallMask, values: Values) -> np.ndarray:
    """Booleans of the mask's shape."""
    found = np.zeros(mask.shape, bool)
    cut_of(mask.shape, mask.axes, values).part(found)[...] = True
    return found


def _forms(masks: Sequence[CallMask]) -> list[tuple[CallMask, int, tuple[str, ...]]]:
    """Masks with the number of their form and their texts: those of one form are equal where the
    values of their texts are."""
    numbers: dict[object, int] = {}
    found: list[tuple[CallMask, int, tuple[str, ...]]] = []
    for mask in masks:
        factors = [(axis.axis, n, text) for axis in mask.axes for n, text in axis.factors]
        form = mask.shape, tuple((axis, n) for axis, n, _ in factors)
        number = numbers.setdefault(form, len(numbers))
        found.append((mask, number, tuple(text for _, _, text in factors)))
    return found


def cut_to_sizes(
    sizes: OpenSizes, outputs: Mapping[str, np.ndarray], call: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The outputs without what is beyond the sizes of a call."""
    return Calls(sizes).cut(outputs, Call(call))
