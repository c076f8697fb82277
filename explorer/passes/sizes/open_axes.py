"""The open axes of values, and which of their elements a call has.

    (batch, seq, 32)        axes 0 and 1 are open: a call has the first elements of each
    (batch*seq, 32)         axis 0 has two factors: element i*8 + j, where i < batch and j < seq

`MixedAxis` says why an operation cannot be right for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.interfaces import NotRowWise, RowWise
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting.passes import EventLog
from explorer.ir.sizes.symbols import Expression, number
from explorer.ir.structure import value_name
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
)
from explorer.passes.sizes.call_numbers import CallNumbers, Factors
from explorer.passes.sizes.open_shapes import OpenShapes
from explorer.results.program import OpenAxis

INF = float("inf")


class MixedAxis(Exception):
    """Why an operation cannot be computed for all sizes at once."""


class OpenAxes:
    """The open axes of values, found from the first operation to the last."""

    def __init__(self, known: OpenShapes, numbers: CallNumbers, events: EventLog) -> None:
        self.known, self.numbers, self.events = known, numbers, events
        self.rewriter = numbers.rewriter
        self._axes: dict[SSAValue, dict[int, Factors]] = {}
        self.begins: dict[SSAValue, np.ndarray] = {}
        """Contents of operands that say where a slice or a range begins in a call."""
        self.relations: dict[tuple[str, str], str] = {}
        """Sizes that have to be equal in a call, and the operation that needs it."""
        self.guards: Mapping[str, Expression] = {}
        """By the name of a select's result: 1 in calls in which its first choice is taken."""
        self.gathered: list[OpenAxis] = []
        """Open axes of what operations read at places that are computed."""

    def begin(self, op: TopOperation) -> SSAValue | None:
        """The operand that says where a slice or a range begins, where a call decides it."""
        place = 1 if isinstance(op, SliceOp) else 0
        found = op.operands[place] if len(op.operands) > place else None
        return found if found in self.begins else None

    def of(self, value: SSAValue) -> Mapping[int, Factors]:
        return self._axes.get(value, {})

    def extents(self) -> tuple[int, ...]:
        """Largest sizes of all factors of open axes."""
        factors = (f for axes in self._axes.values() for found in axes.values() for f in found)
        return tuple(sorted({largest for largest, size in factors if not size.is_number}))

    def give_by_name(self, value: SSAValue) -> None:
        """The axes that the shape of a value names."""
        found: dict[int, Factors] = {}
        for axis, expression in self.known.of_value(value).items():
            if expression is None:
                raise MixedAxis(f"the size of axis {axis} of {value_name(value)} is not known")
            found[axis] = ((static_shape(value)[axis], expression),)
        self._axes[value] = found

    def carry(self, op: TopOperation, mixed: Mapping[tuple[int, int], int | None]) -> None:
        """Gives the results the axes that the operands have; those of `mixed` (by operand and
        axis) are taken care of, and go to the axis that it says."""
        found: list[dict[int, Factors]] = [{} for _ in op.results]
        targets = {
            (index, axis): mixed[index, axis]
            if (index, axis) in mixed
            else carried(op, index, axis)
            for index, operand in enumerate(op.operands)
            for axis in self.of(operand)
        }
        self._compact_unequal(op, targets)
        for index, operand in enumerate(op.operands):
            for axis, factors in self.of(operand).items():
                target = targets[index, axis]
                if target is None:
                    continue
                for result, own in zip(op.results, found, strict=True):
                    self._require_equal(op, target, own.setdefault(target, factors), factors)
                    if static_shape(result)[target] != static_shape(operand)[axis]:
                        del own[target]
        for result, own in zip(op.results, found, strict=True):
            self.give(result, own)

    def _compact_unequal(
        self, op: TopOperation, targets: Mapping[tuple[int, int], int | None]
    ) -> None:
        """Where operands join other sizes in one axis of the result, a call's elements go first."""
        by_target: dict[int, set[Factors]] = {}
        for (index, axis), target in targets.items():
            if target is not None:
                by_target.setdefault(target, set()).add(self.of(op.operands[index])[axis])
        for (index, axis), target in targets.items():
            if target is not None and len(by_target[target]) > 1:
                self.compact(op, index, axis)

    def _require_equal(self, op: TopOperation, axis: int, one: Factors, other: Factors) -> None:
        """Two names of one size: each call is checked."""
        if one == other:
            return
        first, second = (size_of(factors) for factors in (one, other))
        if is_scattered(one) or is_scattered(other):
            raise MixedAxis(f"axis {axis} of its result is {first}, and {second}")
        self._add_relation(op, first, second)

    def _add_relation(self, op: TopOperation, first: Expression, second: Expression) -> None:
        if first != second:
            self.relations[str(first), str(second)] = identity_of(op)

    def give(self, result: SSAValue, carried_axes: Mapping[int, Factors]) -> None:
        """The axes of a result: those that were carried, and those that only its shape names."""
        found = dict(carried_axes)
        for axis, expression in self.known.of_value(result).items():
            size = static_shape(result)[axis]
            if axis in found:
                if expression is not None and isinstance(result.owner, TopOperation):
                    self._add_relation(result.owner, expression, size_of(found[axis]))
            elif expression is None:
                raise MixedAxis(f"the size of axis {axis} of its result is not known by name")
            else:
                found[axis] = ((size, expression),)
        self._axes[result] = found

    def prefix(self, value: SSAValue, axis: int) -> Expression:
        """How many elements of an axis a call has, which are the first ones."""
        factors = self.of(value).get(axis)
        if factors is None:
            raise MixedAxis(f"axis {axis} has one size, though what it is made of is open")
        if is_scattered(factors):
            raise MixedAxis(f"axis {axis} joins open sizes")
        return size_of(factors)

    def compact(self, op: TopOperation, index: int, axis: int) -> None:
        """The operation reads an axis of joined sizes with a call's elements first.

        Element i of a call is at the place whose digits are those of i, counted in the sizes of
        the call.
        """
        value = op.operands[index]
        factors = self.of(value).get(axis, ())
        if not is_scattered(factors):
            return
        size, numbers = static_shape(value)[axis], self.numbers
        with self.events.rewrite("gather", op, "joined sizes follow one another in a call"):
            rest: SSAValue = numbers.weight(op, "places", np.arange(size, dtype=np.int64))
            kind, stride, place = element_type_of(rest), 1, None
            for largest, expression in factors[:0:-1]:
                own = numbers.array(op, as_array(expression), kind)
                digit = numbers.added(op, BinaryOp.make([rest, own], kind="mod"))
                rest = numbers.added(op, BinaryOp.make([rest, own], kind="div"))
                if stride > 1:
                    step = numbers.weight(op, "stride", np.array(stride, np.int64))
                    digit = numbers.added(op, BinaryOp.make([digit, step], kind="mul"))
                place = digit if place is None else numbers.sum(op, place, digit)
                stride *= largest
            step = numbers.weight(op, "stride", np.array(stride, np.int64))
            rest = numbers.added(op, BinaryOp.make([rest, step], kind="mul"))
            place = rest if place is None else numbers.sum(op, place, rest)
            place = self.clamped(op, place, size)
            gather = GatherOp.make([value, place], axis=axis)
            gathered = numbers.added(op, gather)
            self.gather_inside(gather, value)
            self.rewriter.set_operand(op, index, gathered)
        self._axes[gathered] = {**self.of(value), axis: ((size, size_of(factors)),)}

    def gather_inside(self, op: TopOperation, value: SSAValue) -> None:
        """Notes that a call's results are made of elements of a value that it has."""
        for axis, factors in self.of(value).items():
            own = tuple((largest, str(size)) for largest, size in factors)
            self.gathered.append(OpenAxis(identity_of(op), axis, own))

    def mask(self, op: TopOperation, index: int, axes: Sequence[int], neutral: float) -> None:
        """The operation reads a neutral number where a call has no element.

        A zero is put among the stored numbers of a quantization, and in front of zeros between
        elements, so that operations are found in their usual form.
        """
        if not axes:
            return
        user, place = op, index
        open_axes = self.of(op.operands[index])
        if neutral == 0 and (found := _of_stored_numbers(op.operands[index])) is not None:
            user, place = found, 0
        elif neutral == 0 and (found := _before_zeros(op.operands[index], axes)) is not None:
            user, place, open_axes = found, 0, self.of(found.input)
        what = ", ".join(f"axis {axis}" for axis in axes)
        with self.events.rewrite("mask", op, f"{what} ends with the call's size"):
            value = user.operands[place]
            rank = len(shape_of(value)) - len(shape_of(op.operands[index]))
            bound = _in_type(value, neutral)
            moved = {axis + rank: open_axes[axis] for axis in axes}
            masked = self.numbers.masked(user, value, moved, bound)
            self._axes.setdefault(masked, dict(self.of(value)))
            self.rewriter.set_operand(user, place, masked)
            self._read_masked(value, masked)

    def _read_masked(self, value: SSAValue, masked: SSAValue) -> None:
        """All later readers read what is masked: what is beyond the sizes is nothing to them, and
        nobody needs what was there before, so that it can be written in its place."""
        assert isinstance(masked.owner, TopOperation)
        for use in list(value.uses):
            if masked.owner.is_before_in_block(use.operation):
                self.rewriter.set_operand(use.operation, use.index, masked)

    def clamped(self, op: TopOperation, index: SSAValue, size: int) -> SSAValue:
        last = self.numbers.weight(op, "last", np.array(size - 1, np.int64))
        first = self.numbers.weight(op, "first", np.array(0, np.int64))
        index = self.numbers.added(op, BinaryOp.make([index, last], kind="min"))
        return self.numbers.added(op, BinaryOp.make([index, first], kind="max"))


def is_scattered(factors: Factors) -> bool:
    """Whether a call's elements are not the first ones of the axis."""
    return any(not expression.is_number for _, expression in factors[1:])


def size_of(factors: Factors) -> Expression:
    """The size of an axis in a call."""
    found = number(1)
    for _, part in factors:
        found = found * part
    return found


def carried(op: TopOperation, index: int, axis: int) -> int:
    """Where an axis of an operand is in the result; MixedAxis where its elements are mixed."""
    if not isinstance(op, RowWise):
        raise MixedAxis("nothing is known about its axes")
    try:
        return op.carried_axis(index, axis)
    except NotRowWise as error:
        raise MixedAxis(str(error)) from None


def _of_stored_numbers(value: SSAValue) -> DequantizeOp | None:
    """The operation that a value comes from, of stored numbers of which one is zero."""
    owner = value.owner
    if not isinstance(owner, DequantizeOp) or shape_of(owner.input) != shape_of(value):
        return None
    return owner if owner.parameters.is_per_tensor else None


def _before_zeros(value: SSAValue, axes: Sequence[int]) -> PadOp | None:
    """The operation that puts zeros between the elements along some axes, and nowhere else."""
    pad = value.owner
    if not isinstance(pad, PadOp) or pad.amounts is not None or pad.fill != 0:
        return None
    if any(pad.get("low")[axis] or pad.get("high")[axis] for axis in axes):
        return None
    return pad if any(pad.get("interior")[axis] for axis in axes) else None


def _in_type(value: SSAValue, neutral: float) -> float:
    """Infinity, or the end of an integer type's range; of stored numbers the one of zero."""
    kind = element_type_of(value)
    dtype = numpy_dtype(kind)
    if isinstance(kind, QuantizedType) and neutral == 0:
        if not kind.is_per_tensor:
            raise MixedAxis("it reads stored numbers with a scale for each slice")
        return kind.zero_point_array.item()
    if dtype.kind in "iu" and abs(neutral) == INF:
        info = np.iinfo(dtype)
        return int(info.min if neutral < 0 else info.max)
    return neutral


def as_array(expression: Expression) -> np.ndarray:
    array = np.empty((), object)
    array[()] = expression
    return array


def positive(axis: int, op: TopOperation) -> int:
    return axis % len(shape_of(op.operands[0]))
