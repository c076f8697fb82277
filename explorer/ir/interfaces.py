"""Interfaces of operations: what passes ask an operation instead of keeping lists of classes.

    class SoftmaxOp(MixesAxes, Permutable, ...):
        def mixed_axes(self): return (self.get("axis"),)

A pass says `isinstance(op, RowWise)` and calls the interface's methods; whatever implements it,
an operation of tomorrow too, is treated as those that are there. Each operation declares its
interfaces in the file of its family (`ir/top/`). The model is MLIR's operation interfaces: a class
with methods, of which some have a meaning for most operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.operation import PropertyValue, TopOperation
from explorer.ir.parts import BufferPart, offset_of_part
from explorer.ir.sizes.relations import Relation
from explorer.ir.sizes.symbols import Expression
from explorer.ir.types import Dim, QuantizedType, element_type_of, shape_of


class SizeContents(Protocol):
    """Contents of values as expressions over names of dimensions, as operations ask for them."""

    def array(self, value: SSAValue | None) -> np.ndarray | None:
        """An array of `Expression`; None where contents are not computed from sizes alone."""
        ...

    def stored(self, value: SSAValue) -> np.ndarray | None:
        """Contents of a weight, however large; None for what is computed."""
        ...

    def sizes(self, value: SSAValue | None) -> list[Dim] | None:
        """The contents of a vector as dimensions."""
        ...

    def single(self, value: SSAValue) -> Expression | None:
        """The only element of a value."""
        ...

    def end(self, value: SSAValue) -> Expression | None:
        """One more than the highest of numbers that count up to a size; None for all others."""
        ...


# -- rows: one program for all sizes of a dimension ------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A value with `factor` rows along `axis` for each unit of a dimension that stays open."""

    axis: int
    factor: int


STATIC = "static"
"""The same for all sizes of the dimension."""
SIZED = "sized"
"""A small tensor of numbers that are computed from the size."""

Status = Rows | str


class NotRowWise(Exception):
    """Why rows of an operation's result need more than the same rows of its operands."""


def require_rows(condition: bool, reason: str) -> None:
    """NotRowWise with the reason unless the condition holds."""
    if not condition:
        raise NotRowWise(reason)


class RowWise(TopOperation):
    """The first rows of the result are computed from the first rows of its operands alone.

    That is so along some axes and not along others: `carried_axis` says where they go.
    """

    SIZES_FROM: ClassVar[int | None] = None
    """From this operand on, numbers that are computed from the size may say the result's shape."""

    def carried_axis(self, index: int, axis: int) -> int:
        """The result's axis whose slice i is made of slice i of an operand's axis, for all i.

        NotRowWise says why none is.
        """
        raise NotRowWise("nothing is known about its rows")

    def carried_rows(self, index: int, rows: Rows, result: Rows) -> Rows:
        """What rows of an operand are in a result that has the rows `result`."""
        return Rows(self.carried_axis(index, rows.axis), rows.factor)

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        """NotRowWise where more has to hold than that rows are carried: of the operands without
        rows, and of bounds.

        given: the status of each operand; contents: of what is computed from sizes.
        """


class MixesAxes(RowWise):
    """The elements of the first operand are mixed along some of its axes, and along no other."""

    KEEPS_MIXED_AXES: ClassVar[bool] = True

    def mixed_axes(self) -> Sequence[int]:
        """Axes of the first operand, counted from the front."""
        raise NotImplementedError(f"{self.name} does not say which axes it mixes")

    @property
    def keeps_mixed_axes(self) -> bool:
        """Whether the result has those axes, of whatever size, or goes without them."""
        return self.KEEPS_MIXED_AXES

    def carried_axis(self, index: int, axis: int) -> int:
        require_rows(index == 0, "its parameters depend on the size")
        mixed = self.mixed_axes()
        require_rows(axis not in mixed, f"it mixes the elements of dimension {axis}")
        return axis if self.keeps_mixed_axes else axis - sum(a < axis for a in mixed)


def aligned_axis(op: TopOperation, index: int, axis: int) -> int:
    """Where an axis of an operand is in the result that it is broadcast to."""
    return axis + len(shape_of(op.results[0])) - len(shape_of(op.operands[index]))


# -- sizes: what shapes ask for, and what is computed from them ------------------------------------


class SizeConstrained(TopOperation):
    """The shapes of its operands fit together, or to its properties, under conditions."""

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """What holds between sizes wherever the operation can run, however plain or doubled."""
        raise NotImplementedError(f"{self.name} does not say what its sizes must be")


Elements = Callable[[SSAValue], "np.ndarray | None"]
"""The elements of a value as expressions (an array of `symbols.Expression`), where known."""


class ComputesSizes(TopOperation):
    """Of numbers that are expressions over sizes it makes expressions over sizes."""

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        """The elements of the result, of those of the operands; None where they are not known."""
        raise NotImplementedError(f"{self.name} does not say how it computes with sizes")

    @property
    def is_exact_for_sizes(self) -> bool:
        """Whether sizes that are held as floats (some exporters do) come out as exactly."""
        return True

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        """One more than the highest element, where the result counts up to a size."""
        return None


# -- movement: transposes and reshapes pass an operation -------------------------------------------

Permutation = tuple[int, ...]
"""Axis a of a transpose's result is axis permutation[a] of its operand."""


def inverse(permutation: Sequence[int]) -> Permutation:
    """inverse((2, 0, 1)) == (1, 2, 0): the one undoes the other."""
    return tuple(int(axis) for axis in np.argsort(permutation))


@dataclass(frozen=True)
class Permuted:
    """An operation on operands that were not transposed, and what its result still needs."""

    properties: Mapping[str, PropertyValue]
    """Those that name axes, for the new order of axes."""
    behind: Permutation
    """The transpose that makes the old result of the new one."""


class Permutable(TopOperation):
    """Can be computed with the axes of all its operands in another order."""

    BROADCASTS: ClassVar[bool] = False
    """An operand of one element serves whatever the order of the others' axes is."""

    def permuted(self, permutation: Permutation) -> Permuted:
        """The operation on what its operands are transposes of; ValueError says why it cannot be.

        permutation: of the transposes of all operands.
        """
        raise NotImplementedError(f"{self.name} does not say how axes are permuted")


@dataclass(frozen=True)
class AxisGroup:
    """Neighbouring axes of both shapes of a reshape with the same number of elements."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Reshaped:
    """The shapes around a reshape that an operation reads, and the axes that correspond."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    groups: tuple[AxisGroup, ...]

    def axis(self, axis: int) -> int | None:
        """The axis before the reshape with exactly the elements of one behind it, if one has.

        (1, 8, 1, 1) reshaped to (1, 8): axis 1 is axis 1. Axes of extent 1 are none in particular.
        """
        for group in self.groups:
            if axis not in group.target or self.target[axis] == 1:
                continue
            others = [a for a in group.target if self.target[a] != 1]
            candidates = [a for a in group.source if self.source[a] != 1]
            return candidates[0] if len(candidates) == len(others) == 1 else None
        return None


class Reshapable(TopOperation):
    """Can be computed before its operands are reshaped, if the axes that it works on are axes then.

    Operands that broadcast to the result follow the reshape of one that has the result's shape.
    """

    def reshaped_operands(self) -> Sequence[int] | None:
        """Operands that have to come reshaped, each in its own way, while all others stay as they
        are; None for an operation whose operands broadcast to its result."""
        return None

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, Any]:
        """Properties of the operation on what was not reshaped; ValueError says what forbids it.

        around: the reshapes of `reshaped_operands`, or the one that all operands follow.
        """
        return {}


class AlongAxis(Permutable, Reshapable):
    """Works along the axis that the property `axis` names, and treats all others alike."""

    def permuted(self, permutation: Permutation) -> Permuted:
        """Axis a was axis permutation[a] before the transpose."""
        axis = self.get("axis")
        return Permuted({"axis": permutation[axis]}, permutation)

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, Any]:
        axis = around[0].axis(self.get("axis"))
        if axis is None:
            raise ValueError("its axis is none before the reshape")
        return {"axis": axis}


# -- layouts: blocks of channels, and halos --------------------------------------------------------


CHANNELS = 1
"""The axis of a tensor (N, C, spatial...) that is laid out in blocks."""


class Blockable(TopOperation):
    """Has a compiled form for a four-dimensional result whose channels lie in blocks.

    It reads operands in whatever blocks they have, but for those that share its own.
    """

    HAS_BLOCKED_TABLES: ClassVar[bool] = False
    """Its kernel constants may hold a number per channel of a blocked result."""

    def why_not_blocked(self, block: int) -> str:
        """Empty where the result may have so many channels per block, else what forbids it.

        Of the result it is known that it is static and has four dimensions. Whether blocks pay is
        not asked here.
        """
        return ""

    def shares_blocks(self, index: int) -> bool:
        """Whether an operand that is no constant needs the result's blocks."""
        return True


class Windowed(TopOperation):
    """Reads its first operand (N, C, spatial...) through windows that reach into padding."""

    @property
    def reads_padding(self) -> bool:
        """Whether the kernel wants the padding in a halo around its input."""
        return True

    @property
    def padding(self) -> tuple[int, ...]:
        """Elements before each spatial axis, then those behind."""
        return self.get("pads")

    @property
    def padding_fill(self) -> float:
        """What windows expect there: what stands for zero, unless an operation says better."""
        kind = element_type_of(self.operands[0])
        return float(kind.zero_point_array[0]) if isinstance(kind, QuantizedType) else 0.0


# -- gradients -------------------------------------------------------------------------------------


class Differentiable(TopOperation):
    """Its only result has a gradient with respect to operands of floats."""

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """What a gradient g of the result gives to an operand.

        It may have the shape that the operand is broadcast to. NotDifferentiable where it is not
        known.
        """
        raise NotDifferentiable


# -- buffers: nothing is copied --------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A part of a whole: elements from `start` on of an axis."""

    whole: SSAValue
    part: SSAValue
    axis: int
    start: int

    @property
    def offset_bytes(self) -> int:
        """Where it begins in the whole's buffer; ValueError where it is not one piece of it."""
        return offset_of_part(self.whole, self.part, self.axis, self.start)


class JoinsPieces(TopOperation):
    """Its operands side by side are its result: who makes one can write it where that has it.

    Its property `in_place`, which is optional, says that it is so.
    """

    def pieces(self) -> Sequence[Piece]:
        """The place of every operand in the result, in order. Shapes are static."""
        raise NotImplementedError(f"{self.name} does not say where its operands are in its result")

    def parts(self) -> tuple[BufferPart, ...]:
        if not self.get("in_place", False):
            return ()
        return tuple(BufferPart(p.part, p.whole, p.offset_bytes) for p in self.pieces())

    def verify_(self) -> None:
        super().verify_()
        _verify_parts(self)


class TakesPiece(TopOperation):
    """Its result is a part of its first operand: who reads it can read it there.

    Its property `in_place`, which is optional, says that it is so.
    """

    def piece(self) -> Piece:
        """The result's place in the operand; ValueError where it is not one run of elements of one
        axis. The operand's shape is static."""
        raise NotImplementedError(f"{self.name} does not say where its result is in its operand")

    @property
    def is_view(self) -> bool:
        return self.get("in_place", False)

    def parts(self) -> tuple[BufferPart, ...]:
        if not self.is_view:
            return ()
        piece = self.piece()
        return (BufferPart(piece.part, piece.whole, piece.offset_bytes, is_view=True),)

    def verify_(self) -> None:
        super().verify_()
        _verify_parts(self)


def _verify_parts(op: TopOperation) -> None:
    try:
        op.parts()
    except ValueError as error:
        raise VerifyException(f"{op.name} cannot be in place: {error}") from error


# -- constants -------------------------------------------------------------------------------------


class Parameterized(TopOperation):
    """Its kernels want some operands constant: weights, statistics. The first one never is such."""

    def is_parameter(self, index: int) -> bool:
        """Whether an operand is one of them."""
        return index > 0


# -- numbers that stay what they are ---------------------------------------------------------------


class KeepsNumbers(TopOperation):
    """Makes, at least in some of its forms, no numbers that its operands do not have."""

    @property
    def keeps_numbers(self) -> bool:
        """Whether every number of the result, but for the sign, is one of an operand's, or one
        that all types of floats have: then it is as exact in a narrow type as in a wide one."""
        return True


class Moving(KeepsNumbers):
    """The elements of its result are those of some of its operands, wherever they go."""

    def moved_operands(self) -> Sequence[SSAValue]:
        """The operands whose elements the result holds."""
        return (self.operands[0],)

    def on_stored(self, kind: QuantizedType) -> Mapping[str, PropertyValue] | None:
        """Properties that change where it moves integers that stand for the numbers.

        None where it does not move them as they are; ValueError says why it cannot.
        """
        return {}


# -- quantization: numbers in few bits -------------------------------------------------------------


class Quantizable(TopOperation):
    """Has a form in integers: passes compute it on quantized operands, or quantize its result."""

    @property
    def is_quantizable(self) -> bool:
        """Whether that is so for this one; its operands and results are of floats then."""
        return True

    @property
    def has_integer_form(self) -> bool:
        """Whether it can be computed without any float between quantized operands and results:
        for targets that have none, more is quantized."""
        return self.is_quantizable

    @property
    def clamps(self) -> bool:
        """Whether it only moves numbers to the nearest of a range: what saturates does so, too,
        and what is clamped needs no quantized type of its own."""
        return False

    def quantized_weight(self) -> tuple[int, int] | None:
        """The operand that holds weights where it is constant, and its axis of channels."""
        return None
