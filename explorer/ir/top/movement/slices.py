"""Every step-th element of each axis, with bounds that are properties or computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.interfaces import (
    Blockable,
    Differentiable,
    Permutable,
    Permutation,
    Permuted,
    Piece,
    Reshapable,
    Reshaped,
    Rows,
    SizeConstrained,
    SizeContents,
    Status,
    TakesPiece,
    require_rows,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.dimensions import (
    UNKNOWN,
    dimension_of,
    expression_of,
    steps,
)
from explorer.ir.sizes.relations import Relation
from explorer.ir.sizes.symbols import larger, number, smaller
from explorer.ir.top.definitions import (
    CHANNELS,
    domain,
)
from explorer.ir.top.movement.operation import (
    MovementOperation,
    affine,
    clear_behind,
    permuted_numbers,
    same_element,
)
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.support.operands import require_integers, require_vector
from explorer.ir.types import (
    Dim,
    Shape,
    shape_of,
    static_shape,
)

TO_THE_END = 2**63 - 1


FAR = 2**31 - 1
"""Stops from here on mean the end of an axis whose size is not known."""


@irdl_op_definition
class SliceOp(
    Differentiable,
    TakesPiece,
    SizeConstrained,
    Permutable,
    Reshapable,
    Blockable,
    MovementOperation,
):
    """Every step-th element between start and stop of each axis.

    starts, stops, steps: one per axis. With a positive step they mean what they mean in Python's
    slices (negative: from the end; beyond the end: the end). With a negative step a stop of -1
    means "before element 0", as in `range`, and a start before the first element means the first.

    Or the operands starts_value, stops_value and steps_value with ONNX's rules, for the property
    `axes`.

    in_place: the result is read where the input has it, so that there is nothing to copy.
    """

    name = "top.slice"
    SIZES_FROM: ClassVar[int | None] = 1

    input = operand_def(TensorType)
    starts_value = opt_operand_def(TensorType)
    stops_value = opt_operand_def(TensorType)
    steps_value = opt_operand_def(TensorType)
    starts = opt_prop_def(DenseArrayBase)
    stops = opt_prop_def(DenseArrayBase)
    steps = opt_prop_def(DenseArrayBase)
    axes = opt_prop_def(DenseArrayBase)
    in_place = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def piece(self) -> Piece:
        if not self.is_static_slice:
            raise ValueError("its bounds are computed")
        shape = static_shape(self.input)
        taken = self.ranges(shape)
        cut = [axis for axis, size in enumerate(shape) if taken[axis] != range(size)]
        if len(cut) != 1:
            raise ValueError(f"{len(cut)} axes are cut, not one")
        (axis,) = cut
        if taken[axis].step != 1:
            raise ValueError(f"the step along axis {axis} is {taken[axis].step}, not 1")
        return Piece(self.input, self.output, axis, taken[axis].start)

    @property
    def is_static_slice(self) -> bool:
        """Bounds are properties."""
        return self.starts_value is None

    def ranges(self, shape: Sequence[int]) -> list[range]:
        """The positions that are taken from each axis; property form only."""
        bounds = zip(shape, self.get("starts"), self.get("stops"), self.get("steps"), strict=True)
        return [slice_range(size, start, stop, step) for size, start, stop, step in bounds]

    def result_shape(self) -> Shape:
        shape = shape_of(self.input)
        if not self.is_static_slice:
            return self._dynamic_shape(shape)
        bounds = [self.get("starts", ()), self.get("stops", ()), self.get("steps", ())]
        if any(len(b) != len(shape) for b in bounds) or 0 in bounds[2]:
            raise ValueError(
                f"slice of {shape}: a start, a stop and a step other than 0 for each axis "
                f"expected, not {bounds}"
            )
        return tuple(_sliced(size, *b) for size, *b in zip(shape, *bounds, strict=True))

    def _dynamic_shape(self, shape: Shape) -> Shape:
        """Axes that are not sliced keep their size."""
        axes = self.get("axes", ())
        if len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
            raise ValueError(f"slice of {shape}: axes {list(axes)} are not axes of it, once each")
        for role in ("starts", "stops", "steps"):
            bounds = getattr(self, f"{role}_value")
            require_integers(f"the {role}", bounds)
            require_vector(f"the {role}", bounds, len(axes))
        if self.stops_value is None:
            raise ValueError("a slice whose starts are computed has computed stops, too")
        if self.results:
            return shape_of(self.results[0])
        return tuple(UNKNOWN if axis in axes else size for axis, size in enumerate(shape))

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        if self.is_static_slice:
            ranges = self.ranges(x.shape)
        else:
            ranges = self._dynamic_ranges(x.shape, rest)
        return (x[np.ix_(*ranges)] if ranges else x,)

    def carried_axis(self, index: int, axis: int) -> int:
        return axis

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        """All rows, from the first on; a constant cut to the size keeps its first rows."""
        start, step = self._begin(result.axis, contents)
        require_rows((start, step) == (0, 1), "it takes some of the rows")

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """Computed bounds are no negative numbers, and a computed stop lies inside of the axis."""
        shape = shape_of(self.input)
        if self.is_static_slice:
            axes = tuple(range(len(shape)))
            starts, stops, steps = (self.get(name) for name in ("starts", "stops", "steps"))
        else:
            axes = self.get("axes")
            starts, stops = contents.sizes(self.starts_value), contents.sizes(self.stops_value)
            steps = contents.sizes(self.steps_value) if self.steps_value else [1] * len(axes)
        if starts is None or stops is None or steps is None:
            return
        for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
            if not isinstance(step, int) or step < 0:
                continue
            if isinstance(start, str):
                yield "at least", start, 0
            if isinstance(stop, str):
                yield "at least", stop, 0
                yield "at most", stop, shape[axis]

    def reshaped_operands(self) -> Sequence[int]:
        return (0,)

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, Sequence[int]]:
        if not self.is_static_slice:
            raise ValueError("its bounds are computed")
        (own,) = around
        taken = [range(size) for size in own.source]
        for axis, (kept, size) in enumerate(zip(self.ranges(own.target), own.target, strict=True)):
            if kept == range(size):
                continue
            before = own.axis(axis)
            if before is None:
                raise ValueError(f"its axis {axis} is none before the reshape")
            taken[before] = kept
        return slice_properties(taken)

    def why_not_blocked(self, block: int) -> str:
        if not self.is_static_slice:
            return "its bounds are computed"
        channels = static_shape(self.input)[CHANNELS]
        taken = self.ranges(static_shape(self.input))[CHANNELS]
        is_whole = taken.step == 1 and not taken.start % block
        if not is_whole or (taken.stop % block and taken.stop != channels):
            return "it moves channels to other lanes"
        return ""

    def permuted(self, permutation: Permutation) -> Permuted:
        if not self.is_static_slice:
            raise ValueError("its bounds are computed")
        return permuted_numbers(self, ("starts", "stops", "steps"), permutation)

    def _begin(self, axis: int, contents: SizeContents) -> tuple[Dim, Dim]:
        """The first element that is taken of an axis, and the step."""
        if self.is_static_slice:
            return self.get("starts")[axis], self.get("steps")[axis]
        if axis not in self.get("axes"):
            return 0, 1
        place = self.get("axes").index(axis)
        starts = contents.sizes(self.starts_value)
        steps = contents.sizes(self.steps_value) if self.steps_value else [1] * (place + 1)
        require_rows(starts is not None and steps is not None, "its bounds are not known")
        assert starts is not None and steps is not None
        return starts[place], steps[place]

    def _dynamic_ranges(self, shape: Sequence[int], rest: Sequence[np.ndarray]) -> list[range]:
        ranges = [range(size) for size in shape]
        steps = rest[2] if self.steps_value is not None else np.ones_like(rest[0])
        for axis, start, stop, step in zip(self.get("axes"), rest[0], rest[1], steps, strict=True):
            ranges[axis] = onnx_slice_range(shape[axis], int(start), int(stop), int(step))
        return ranges

    @property
    def is_sized_by_contents(self) -> bool:
        return not self.is_static_slice

    def missing_form(self) -> str:
        return (
            "" if self.is_static_slice else "a slice whose bounds are computed has no compiled form"
        )

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        self.check_form()
        (x,) = inputs
        ranges = self.ranges(static_shape(self.input))
        # Axes that are taken from the beginning may be copied with their padding channels.
        extents = [
            min(own, result) if (r.start, r.step) == (0, 1) else len(r)
            for own, result, r in zip(x.shape, output.shape, ranges, strict=True)
        ]
        d = k.dimensions(**domain(extents))
        source = [affine(index, r.step, r.start) for index, r in zip(d, ranges, strict=False)]
        k.generic("plain", [x.at(*source)], output.at(*d), same_element)
        clear_behind(k, output, extents)
        return "copy"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """Zeros at what the slice leaves out; a range that goes down is turned round first."""
        if not self.is_static_slice:
            raise NotDifferentiable("the derivative of a slice with computed bounds is not known")
        axes = list(range(build.rank(self.input)))
        sizes = build.sizes(self.input, axes, "the gradient of a slice")
        ranges = self.ranges(sizes)
        down = {axis: (-1, -1, -1) for axis in axes if ranges[axis].step < 0 and len(ranges[axis])}
        g = build.slices(g, down) if down else g
        upward = [r if r.step > 0 or not len(r) else r[::-1] for r in ranges]
        low = [r[0] if len(r) else 0 for r in upward]
        high = [n - 1 - r[-1] if len(r) else n for n, r in zip(sizes, upward, strict=True)]
        interior = [abs(r.step) - 1 if len(r) > 1 else 0 for r in upward]
        return build.value(PadOp, [g, None], low=low, high=high, interior=interior, value=0.0)


def slice_range(size: int, start: int, stop: int, step: int) -> range:
    """Positions of a slice in the property form, kept inside an axis of `size` elements."""
    if start < 0:
        start += size
    if step < 0:
        return range(min(max(start, 0), size - 1), max(stop, -1), step)
    if stop < 0:
        stop += size
    start = min(max(start, 0), size)
    return range(start, min(max(stop, start), size), step)


def slice_properties(ranges: Sequence[range]) -> dict[str, list[int]]:
    """The properties of a slice that takes these positions; one and the same for the same."""
    normal = [_normal_range(taken) for taken in ranges]
    return {
        "starts": [taken.start for taken in normal],
        "stops": [taken.stop for taken in normal],
        "steps": [taken.step for taken in normal],
    }


def _normal_range(taken: range) -> range:
    """The same positions, with the nearest stop, and step 1 for one element or none."""
    if not taken:
        return range(0, 0)
    if len(taken) == 1:
        return range(taken[0], taken[0] + 1)
    return range(taken[0], taken[-1] + (1 if taken.step > 0 else -1), taken.step)


def onnx_slice_range(size: int, start: int, stop: int, step: int) -> range:
    """Positions of a slice by ONNX's rules: bounds count from the end if negative, then clamp."""
    start += size if start < 0 else 0
    stop += size if stop < 0 else 0
    if step > 0:
        return range(min(max(start, 0), size), min(max(stop, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(stop, -1), size - 1), step)


def _sliced(size: Dim, start: int, stop: int, step: int) -> Dim:
    """Size of a sliced axis; nothing is left where the axis ends before the start.

    "s" to 0:128 -> "min(128,s)", "s" to 2: -> "max(0,s-2)", "s" to -3: -> "min(3,s)", "s" to every
    second -> "(s+1)//2".
    """
    if isinstance(size, int):
        return len(slice_range(size, start, stop, step))
    if step < 0:
        is_whole = start in (-1, TO_THE_END) and stop <= -1
        return steps(size, -step) if is_whole else UNKNOWN
    return steps(_between(size, start, size if stop >= FAR else stop), step)


def computed_slice(size: Dim, start: Dim, stop: Dim, step: Dim) -> Dim:
    """Size of an axis sliced by ONNX's rules, where bounds may be expressions over sizes.

    Of an expression it is taken for granted that it is no negative number.
    """
    bounds = [b for b in (start, stop, step) if isinstance(b, int)]
    if isinstance(size, int) and len(bounds) == 3:
        return len(onnx_slice_range(size, *bounds))
    if not isinstance(step, int) or step < 1:
        return UNKNOWN
    if isinstance(stop, int) and stop >= FAR:
        stop = size
    return steps(_between(size, start, stop), step)


def _between(size: Dim, start: Dim, stop: Dim) -> Dim:
    """Elements from start to stop: negative numbers count from the end, all is kept inside."""
    whole, first, last = expression_of(size), expression_of(start), expression_of(stop)
    if whole is None or first is None or last is None:
        return UNKNOWN
    nothing = number(0)
    from_end = isinstance(start, int) and start < 0, isinstance(stop, int) and stop < 0
    if from_end == (True, False) and last == whole:
        return dimension_of(smaller(first * -1, whole))
    if from_end == (True, True):
        found = smaller(last - first, whole + last)
    elif from_end == (True, False):
        found = smaller(last, whole) - larger(whole + first, nothing)
    else:
        end = whole + last if from_end[1] else smaller(last, whole)
        found = end - first
    return dimension_of(larger(found, nothing))
