"""Movement: the same elements in another shape, order or place.

    reshape, transpose, concat, slice, pad, expand

None computes anything; each definition is a copy whose subscripts say where elements go. What is
not known before the model runs (a shape or bounds that are computed) is an optional operand,
which a pass replaces by properties once it is constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import (
    AlongAxis,
    Blockable,
    ComputesSizes,
    Elements,
    Moving,
    Permutable,
    Permutation,
    Permuted,
    Reshapable,
    Reshaped,
    Rows,
    RowWise,
    SizeConstrained,
    SizeContents,
    Status,
    aligned_axis,
    inverse,
    require_rows,
)
from explorer.ir.operation import Access, PropertyValue, TopOperation
from explorer.ir.parts import BufferPart, offset_of_part
from explorer.ir.sizes.dimensions import (
    UNKNOWN,
    dimension_of,
    expression_of,
    plus,
    product,
    reshaped,
    steps,
    sum_of,
    times,
)
from explorer.ir.sizes.relations import Relation, broadcast_relations, divisible, same_count
from explorer.ir.sizes.symbols import Expression, larger, number, smaller
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
)
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.reshaping import common_pieces, define_flat_copy, joined_subscripts
from explorer.ir.top.sizes import plain_numbers
from explorer.ir.top.support.operands import require_integers, require_same_type, require_vector
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    element_type_of,
    format_shape,
    is_static,
    layout_of,
    shape_of,
    static_shape,
    tensor_type,
)

ALL_TYPES_HAVE = (0.0, 1.0, -1.0, float("inf"), float("-inf"))
"""Numbers that padding is filled with, and that every type of floats has."""
TO_THE_END = 2**63 - 1
FAR = 2**31 - 1
"""Stops from here on mean the end of an axis whose size is not known."""


class MovementOperation(RowWise, ComputesSizes, Moving):
    """What they share: finite stays finite, and the result has the first operand's element type."""

    FAMILY: ClassVar[str] = "movement"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(self.result_element(), self.result_shape())]

    def result_element(self) -> Attribute:
        """The first operand's element type; ValueError where its scales would not fit any more."""
        kind = element_type_of(self.operands[0])
        if not isinstance(kind, QuantizedType):
            require_same_type(f"what {self.name} joins", self.moved_operands())
            return kind
        if any(element_type_of(o) != kind for o in self.moved_operands()):
            raise ValueError(f"{self.name} joins numbers of different scales or zero points")
        return kind if kind.is_per_tensor else kind.with_axis(self.moved_axis(kind.axis_number))

    def moved_axis(self, axis: int) -> int:
        """Where an axis with a scale for each of its slices is in the result."""
        raise ValueError(f"{self.name} mixes slices of axis {axis}, each with a scale of its own")

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        """What is moved may be expressions; operands that say how must be known numbers."""
        is_moved = [operand in self.moved_operands() for operand in self.operands]
        found = [elements(operand) for operand in self.operands]
        given = [a if m else plain_numbers(a) for a, m in zip(found, is_moved, strict=True)]
        known = [array for array in given if array is not None]
        if len(known) < len(given):
            return None
        return np.asarray(self.evaluate(*known)[0], object)

    def result_shape(self) -> Shape:
        """Shape of the result; ValueError where operands and properties do not fit."""
        raise NotImplementedError(self.name)

    def numbers_of(self, role: str, operand: SSAValue) -> Dim:
        """The length of an operand that is a vector of integers; ValueError where it is none."""
        require_integers(role, operand)
        shape = shape_of(operand)
        if len(shape) != 1:
            raise ValueError(f"{role} is {format_shape(shape)}; a vector expected")
        return shape[0]

    def declared_or_unknown(self, rank: Dim) -> Shape:
        """For operands that are only known when the model runs: what was declared, else "?"."""
        if self.results:
            return shape_of(self.results[0])
        if not isinstance(rank, int):
            raise ValueError(f"{self.name}: not even the rank of the result is known")
        return (UNKNOWN,) * rank

    @property
    def has_plain_buffers(self) -> bool:
        """Static operand and result whose buffers hold their elements densely, in order."""
        ends = (self.operands[0], self.results[0])
        return all(is_static(v) and layout_of(v).is_plain for v in ends)


@irdl_op_definition
class ReshapeOp(SizeConstrained, MovementOperation):
    """The same elements, in row-major order, under another shape.

    shape: the result's sizes, at most one -1 (what remains). Or the operand `target`, an i64
    vector by ONNX's rules: 0 copies the input's size unless `allow_zero`.
    """

    name = "top.reshape"
    SIZES_FROM: ClassVar[int | None] = 1

    input = operand_def(TensorType)
    target = opt_operand_def(TensorType)
    shape = opt_prop_def(DenseArrayBase)
    allow_zero = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def is_view(self) -> bool:
        return self.has_plain_buffers

    @property
    def is_sized_by_contents(self) -> bool:
        return self.target is not None

    def moved_axis(self, axis: int) -> int:
        """The axis of the same extent with as many elements before it."""
        own, result = shape_of(self.input), self.result_shape()
        for position, size in enumerate(result):
            is_same = size == own[axis] and is_static(self.input)
            if is_same and product(result[:position]) == product(own[:axis]):
                return position
        return super().moved_axis(axis)

    def result_shape(self) -> Shape:
        if self.target is not None:
            return self.declared_or_unknown(self.numbers_of("the target", self.target))
        return reshaped(shape_of(self.input), self._sizes())

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        if not rest:
            return (x.reshape(self._sizes()),)
        copies = not self.get("allow_zero", False)
        sizes = [
            x.shape[axis] if size == 0 and copies else int(size)
            for axis, size in enumerate(rest[0])
        ]
        return (x.reshape(sizes),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Loops over the pieces that both shapes consist of, so that subscripts stay linear."""
        (x,) = inputs
        source, target = static_shape(self.input), static_shape(self.output)
        pieces = common_pieces(source, target)
        if pieces is None:
            define_flat_copy(k, x, source, output, target)
        else:
            d = k.dimensions(**{f"d{i}": size for i, size in enumerate(pieces or [1])})
            read = x.at(*joined_subscripts(source, pieces, d))
            k.generic("plain", [read], output.at(*joined_subscripts(target, pieces, d)), _same)
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, target[CHANNELS])
        return "copy"

    def _sizes(self) -> tuple[int, ...]:
        return self.get("shape", ())

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """As many elements before as after; what is left for a size of -1 is a whole number."""
        source = shape_of(self.input)
        before = product(source)
        target = list(self._sizes()) if self.target is None else contents.sizes(self.target)
        if before is None or target is None:
            return
        copies = self.target is not None and not self.get("allow_zero", False)
        sizes = [
            source[a] if copies and t == 0 and a < len(source) else t for a, t in enumerate(target)
        ]
        after = product([s for s in sizes if s != -1])
        if after is None or not after.terms:
            return
        if -1 not in sizes:
            yield same_count(before, after)
        elif after.is_number:
            yield from divisible(before, after.constant)

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.end(self.input)

    def carried_rows(self, index: int, rows: Rows, result: Rows) -> Rows:
        """Rows come first in both shapes: the first part of one is the first part of the other."""
        return result

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        require_rows(
            isinstance(given[0], Rows), "its shape depends on the size, its elements do not"
        )

    def label(self) -> str:
        return "reshape"


@irdl_op_definition
class TransposeOp(MovementOperation):
    """Axes in another order: axis a of the result is axis permutation[a] of the input."""

    name = "top.transpose"
    READS_ANY_LAYOUT: ClassVar[bool] = True

    input = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase)
    output = result_def(TensorType)

    def moved_axis(self, axis: int) -> int:
        return self.get("permutation").index(axis)

    @property
    def is_view(self) -> bool:
        """Moving axes of extent 1 moves no element."""
        if not self.has_plain_buffers:
            return False
        sizes = static_shape(self.input)
        order = [axis for axis in self.get("permutation") if sizes[axis] != 1]
        return order == sorted(order)

    def result_shape(self) -> Shape:
        shape, permutation = shape_of(self.input), self.get("permutation")
        if sorted(permutation) != list(range(len(shape))):
            raise ValueError(f"{list(permutation)} is no order of the axes of {shape}")
        return tuple(shape[axis] for axis in permutation)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.transpose(operands[0], self.get("permutation")),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        permutation = self.get("permutation")
        extents = common_extents([x.shape[axis] for axis in permutation], output.shape)
        d = k.dimensions(**domain(extents))
        source = [d[permutation.index(axis)] for axis in range(x.rank)]
        k.generic("plain", [x.at(*source)], output.at(*d), _same)
        _clear_behind(k, output, extents)
        return "copy"

    def carried_axis(self, index: int, axis: int) -> int:
        return self.get("permutation").index(axis)

    def label(self) -> str:
        return f"transpose {', '.join(map(str, self.get('permutation')))}"


@irdl_op_definition
class ConcatOp(SizeConstrained, AlongAxis, Blockable, MovementOperation):
    """All inputs one behind the other along an axis.

    in_place: every input is written where the result has it, so that there is nothing to copy.
    """

    name = "top.concat"

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    in_place = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    def parts(self) -> tuple[BufferPart, ...]:
        if not self.get("in_place", False):
            return ()
        return tuple(BufferPart(*place) for place in self.places())

    def places(self) -> Iterator[tuple[SSAValue, SSAValue, int]]:
        """(input, result, byte where the input begins), in order; ValueError as of
        `offset_of_part`."""
        axis, start = self.get("axis"), 0
        for operand in self.operands:
            yield operand, self.output, offset_of_part(self.output, operand, axis, start)
            start += static_shape(operand)[axis]

    def verify_(self) -> None:
        super().verify_()
        _verify_parts(self)

    def moved_operands(self) -> Sequence[SSAValue]:
        return tuple(self.operands)

    def result_shape(self) -> Shape:
        shapes, axis = [shape_of(o) for o in self.operands], self.get("axis")
        if not shapes:
            raise ValueError("nothing to concatenate")
        rank = len(shapes[0])
        if not 0 <= axis < rank or any(len(shape) != rank for shape in shapes):
            raise ValueError(f"{shapes} cannot be joined along axis {axis}")
        result = []
        for position, sizes in enumerate(zip(*shapes, strict=True)):
            numbers = {size for size in sizes if isinstance(size, int)}
            if position == axis:
                result.append(sum_of(sizes))
            elif len(numbers) > 1:
                raise ValueError(f"{shapes} cannot be joined along axis {axis}: axis {position}")
            else:
                result.append(numbers.pop() if numbers else sizes[0])
        return tuple(result)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.concatenate(operands, axis=self.get("axis")),)

    def why_not_blocked(self, block: int) -> str:
        is_along = self.get("axis") == CHANNELS
        if not is_along or any(static_shape(o)[CHANNELS] % block for o in self.operands):
            return "the channels that it joins do not fill whole blocks"
        return ""

    def reshaped_operands(self) -> Sequence[int]:
        return range(len(self.operands))

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, int]:
        """All inputs are reshaped alike but for their sizes along the axis."""
        axes = {own.axis(self.get("axis")) for own in around}
        (axis,) = axes if len(axes) == 1 else (None,)
        if axis is None:
            raise ValueError("its axis is none before the reshapes")
        others = {(*own.source[:axis], *own.source[axis + 1 :]) for own in around}
        if len(others) != 1:
            raise ValueError("its inputs had different shapes before")
        return {"axis": axis}

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        shapes = [shape_of(o) for o in self.operands]
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            if axis != self.get("axis"):
                for size in sizes[1:]:
                    yield "equal", sizes[0], size

    def carried_axis(self, index: int, axis: int) -> int:
        require_rows(axis != self.get("axis"), "it joins along the rows")
        return axis

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        is_same = all(status == result for status in given)
        require_rows(is_same, "its operands' rows are not the same")

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        axis, offset = self.get("axis"), 0
        covered = list(output.shape)
        for access, operand in zip(inputs, self.operands, strict=True):
            extents = common_extents(access.shape, output.shape)
            extents[axis] = static_shape(operand)[axis]
            if extents[axis] == 0:
                continue
            d = k.dimensions(**domain(extents))
            target = [s + offset if a == axis and offset else s for a, s in enumerate(d)]
            k.generic("plain", [access.at(*d)], output.at(*target), _same)
            offset += extents[axis]
            covered = common_extents(covered, extents)
        covered[axis] = offset
        _clear_behind(k, output, covered)
        return "copy"


@irdl_op_definition
class SliceOp(SizeConstrained, Permutable, Reshapable, Blockable, MovementOperation):
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

    @property
    def is_view(self) -> bool:
        return self.get("in_place", False)

    def parts(self) -> tuple[BufferPart, ...]:
        if not self.is_view:
            return ()
        return (BufferPart(self.output, self.input, self.place(), is_view=True),)

    def place(self) -> int:
        """Byte of the input where the result begins; ValueError where it is not one piece of it."""
        return offset_of_part(self.input, self.output, *self.cut_axis())

    def cut_axis(self) -> tuple[int, int]:
        """The only axis that is cut, and the first element that is taken of it.

        ValueError where it is not one run of elements of one axis. The input's shape is static.
        """
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
        return axis, taken[axis].start

    def verify_(self) -> None:
        super().verify_()
        _verify_parts(self)

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
        """A computed start is no negative number, and a computed stop lies inside of the axis."""
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
        return _permuted_numbers(self, ("starts", "stops", "steps"), permutation)

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
        source = [_affine(index, r.step, r.start) for index, r in zip(d, ranges, strict=False)]
        k.generic("plain", [x.at(*source)], output.at(*d), _same)
        _clear_behind(k, output, extents)
        return "copy"


def _verify_parts(op: TopOperation) -> None:
    try:
        op.parts()
    except ValueError as error:
        raise VerifyException(f"{op.name} cannot be in place: {error}") from error


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
        is_whole = start in (-1, TO_THE_END) and stop == -1
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


def _affine(index: AffineExpr, factor: int, offset: int) -> Subscript:
    scaled = index * factor if factor != 1 else index
    return scaled + offset if offset else scaled


@irdl_op_definition
class PadOp(Permutable, Blockable, MovementOperation):
    """Elements of `value` before (low), behind (high) and between (interior) those of each axis.

    As XLA's pad, without negative numbers. Or the operand `amounts`, an i64 vector of all begins,
    then all ends, in which negative ones take elements away.
    """

    name = "top.pad"

    input = operand_def(TensorType)
    amounts = opt_operand_def(TensorType)
    low = opt_prop_def(DenseArrayBase)
    high = opt_prop_def(DenseArrayBase)
    interior = opt_prop_def(DenseArrayBase)
    value = prop_def(FloatAttr)
    output = result_def(TensorType)

    @property
    def keeps_finite(self) -> bool:
        return bool(np.isfinite(self.get("value")))

    def result_shape(self) -> Shape:
        shape = shape_of(self.input)
        if self.amounts is not None:
            require_integers("the amounts", self.amounts)
            require_vector("the amounts", self.amounts, 2 * len(shape))
            return self.declared_or_unknown(len(shape))
        low, high, interior = self._properties()
        if any(len(n) != len(shape) or min(n, default=0) < 0 for n in (low, high, interior)):
            raise ValueError(
                f"pad of {shape}: low {list(low)}, high {list(high)} and interior {list(interior)} "
                "need a number of 0 or more for each axis"
            )
        return tuple(
            plus(_spread(size, between), before + after)
            for size, before, after, between in zip(shape, low, high, interior, strict=True)
        )

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        if rest:
            begins, ends = np.split(rest[0], 2)
            low, high = np.maximum(begins, 0).tolist(), np.maximum(ends, 0).tolist()
            interior = [0] * x.ndim
            cuts = [(max(-a, 0), max(-b, 0)) for a, b in zip(begins, ends, strict=True)]
        else:
            low, high, interior = self._properties()
            cuts = [(0, 0)] * x.ndim
        spread = [
            max((size - 1) * (between + 1) + 1, 0) if size else 0
            for size, between in zip(x.shape, interior, strict=True)
        ]
        shape = [a + s + b for a, s, b in zip(low, spread, high, strict=True)]
        result = np.full(shape, self.get("value"), x.dtype)
        places = zip(low, spread, interior, strict=True)
        result[tuple(slice(a, a + s, between + 1) for a, s, between in places)] = x
        kept = zip(cuts, shape, strict=True)
        return (result[tuple(slice(a, max(size - b, a)) for (a, b), size in kept)],)

    def carried_axis(self, index: int, axis: int) -> int:
        require_rows(self.amounts is None, "its amounts are computed")
        require_rows(not any(numbers[axis] for numbers in self._properties()), "it adds rows")
        return axis

    @property
    def keeps_numbers(self) -> bool:
        return self.get("value") in ALL_TYPES_HAVE

    def on_stored(self, kind: QuantizedType) -> Mapping[str, PropertyValue]:
        """The integer that stands for what is padded with; ValueError where none does exactly."""
        if not kind.is_per_tensor:
            raise ValueError("it pads numbers with a scale per slice")
        value = np.array(self.get("value"), np.float32)
        stored = stored_array(value, kind)
        if not np.isfinite(value) or real_array(stored, kind) != value:
            raise ValueError(f"no integer stands for {value:g}, which it pads with")
        return {"value": float(stored)}

    def why_not_blocked(self, block: int) -> str:
        if self.amounts is not None:
            return "its amounts are computed"
        low, _, interior = self._properties()
        if self.get("value") != 0:
            return "it pads with no zeros"
        if low[CHANNELS] % block or interior[CHANNELS]:
            return "it moves channels to other lanes"
        return ""

    def permuted(self, permutation: Permutation) -> Permuted:
        if self.amounts is not None:
            raise ValueError("its amounts are computed")
        return _permuted_numbers(self, ("low", "high", "interior"), permutation)

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        return None

    @property
    def is_sized_by_contents(self) -> bool:
        return self.amounts is not None

    def missing_form(self) -> str:
        return (
            "" if self.amounts is None else "a pad whose amounts are computed has no compiled form"
        )

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        self.check_form()
        (x,) = inputs
        low, _, interior = self._properties()
        value = self.get("value")
        d = k.dimensions(**domain(output.shape))
        k.generic("plain", [], output.at(*d), lambda s: s.constant(value))
        extents = list(static_shape(self.input))
        d = k.dimensions(**domain(extents))
        target = [
            _affine(index, between + 1, before)
            for index, between, before in zip(d, interior, low, strict=False)
        ]
        k.generic("plain", [x.at(*d)], output.at(*target), _same)
        return "copy"

    def _properties(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        rank = len(shape_of(self.input))
        return (
            self.get("low", ()),
            self.get("high", ()),
            self.get("interior", (0,) * rank),
        )


def _permuted_numbers(op: TopOperation, names: Sequence[str], permutation: Permutation) -> Permuted:
    """Properties that are lists with one number per axis."""
    lists = {name: op.get(name) for name in names if op.get(name) is not None}
    back = inverse(permutation)
    moved = {name: [numbers[axis] for axis in back] for name, numbers in lists.items()}
    return Permuted(moved, permutation)


def _spread(size: Dim, between: int) -> Dim:
    """Elements that an axis takes with `between` new ones after each but the last."""
    if not between or size == 0:
        return size
    return plus(times(size, between + 1), -between)


@irdl_op_definition
class ExpandOp(SizeConstrained, MovementOperation):
    """Repeats elements so that input and `shape` broadcast to one another, as ONNX's Expand.

    shape: a property, or the operand `target` (an i64 vector).
    """

    name = "top.expand"
    SIZES_FROM: ClassVar[int | None] = 1

    input = operand_def(TensorType)
    target = opt_operand_def(TensorType)
    shape = opt_prop_def(DenseArrayBase)
    output = result_def(TensorType)

    @property
    def is_view(self) -> bool:
        """Nothing is repeated, at most axes of extent 1 are put in front."""
        if not self.has_plain_buffers:
            return False
        return prod(static_shape(self.input)) == prod(static_shape(self.output))

    @property
    def is_sized_by_contents(self) -> bool:
        return self.target is not None

    def result_shape(self) -> Shape:
        shape = shape_of(self.input)
        if self.target is None:
            return broadcast_shapes(shape, self.get("shape", ()))
        length = self.numbers_of("the target", self.target)
        rank = max(length, len(shape)) if isinstance(length, int) else length
        return self.declared_or_unknown(rank)

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        target = tuple(int(size) for size in rest[0]) if rest else self.get("shape", ())
        return (np.broadcast_to(x, np.broadcast_shapes(x.shape, target)),)

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        target = self.get("shape") if self.target is None else contents.sizes(self.target)
        if target is not None:
            yield from broadcast_relations([shape_of(self.input), tuple(target)])

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        return contents.end(self.input)

    def carried_axis(self, index: int, axis: int) -> int:
        return aligned_axis(self, index, axis)

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        """Rows that stay where they are, or a constant that is repeated for every row."""
        shape = shape_of(self.input)
        axis = result.axis - len(shape_of(self.output)) + len(shape)
        is_repeated = axis < 0 or shape[axis] == 1
        require_rows(isinstance(given[0], Rows) or is_repeated, "it repeats rows")

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        own = [1] * (output.rank - x.rank) + list(x.shape)
        extents = [
            result if size == 1 else min(size, result)
            for size, result in zip(own, output.shape, strict=True)
        ]
        d = k.dimensions(**domain(extents))
        k.generic("plain", [x.broadcast(d)], output.at(*d), _same)
        _clear_behind(k, output, extents)
        return "copy"

    def label(self) -> str:
        return f"expand to {format_shape(shape_of(self.output))}"


def _same(s: ScalarBuilder, x: Scalar) -> Scalar:
    return x


def _clear_behind(k: KernelBuilder, output: Access, covered: Sequence[int]) -> None:
    if output.rank > CHANNELS:
        clear_padding_channels(k, output, covered[CHANNELS])
