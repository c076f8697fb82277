"""What is known of the values of a device function where several sizes are open.

Which arguments are numbers and masks of a call, which indices are below a size where a condition
holds, and what values hold beyond a size. `find_extents.py` goes on from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import SSAValue

from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.evaluation import input_names
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.sizes.symbols import Expression, name, number, parse
from explorer.ir.structure import kernel_functions
from explorer.ir.top.data import WeightOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import element_type_of, layout_of, static_shape
from explorer.ir.valid_length import length_of
from explorer.kernels.loops.computed_masks import ComputedMasks
from explorer.kernels.loops.extents import Bounds, Limits, Need, Needs
from explorer.kernels.loops.nest import LinearForm, subscripts
from explorer.kernels.loops.neutral import Beyond, find_neutral
from explorer.kernels.loops.regrouping import in_buffer, in_tensor, regrouped, shape_of_buffer
from explorer.kernels.loops.running import Quantity, quantity_of
from explorer.results.program import OpenAxis, OpenSizes


def call_sizes(entry: func.FuncOp) -> OpenSizes | None:
    """The open sizes of a program, and the valid length of its states as one more size."""
    sizes, length = sizes_of_function(entry), length_of(entry)
    if length is None or (sizes and any(length.name in row for row in sizes.ranges)):
        return sizes
    if sizes is None:
        sizes = OpenSizes(ranges=(), numbers=(), masks=(), inputs=(), outputs=())
    return replace(
        sizes,
        ranges=(*sizes.ranges, (length.name, 0, length.capacity - length.rows)),
        numbers=(*sizes.numbers, (length.name, str(name(length.name)))),
    )


class CallValues:
    """Of one device function and its only call."""

    def __init__(
        self,
        rewriter: RecordedRewriter,
        entry: func.FuncOp,
        function: func.FuncOp,
        call: func.CallOp,
        sizes: OpenSizes,
    ) -> None:
        self.rewriter, self.entry, self.function = rewriter, entry, function
        self.call, self.sizes = call, sizes
        length = length_of(entry)
        self.length = length.name if length is not None else ""
        self.kernels = kernel_functions(rewriter.module)
        self.bounds = Bounds({name: (low, high) for name, low, high in sizes.ranges})
        self.masks: dict[SSAValue, Needs] = {}
        """Tensors that are true below a size of each of some dimensions only."""
        self.boxes: set[SSAValue] = set()
        """Of those the ones that are true wherever they are below all sizes."""
        self.by_text: dict[str, SSAValue] = {}
        self.beyond: dict[SSAValue, Beyond] = {}
        """By value, in dimensions of the tensor: the number that it holds beyond sizes."""
        self.ends: dict[LaunchOp, Mapping[SSAValue, Expression]] = {}
        self.neutral: dict[str, list[Needs | None]] = {}
        """By kernel and argument: loops over elements from there on add nothing."""
        self.joined = dict(_joined(sizes))
        self._find_inputs()
        self._find_computed()

    def find_neutral(self) -> None:
        """What values hold beyond sizes, from the first launch to the last."""
        for op in self.function.body.block.ops:
            if isinstance(op, LaunchOp):
                self._find_neutral(op)
            elif isinstance(op, TopOperation) and len(op.operands) == len(op.results) == 1:
                self._see_beyond(op)

    def _find_neutral(self, launch: LaunchOp) -> None:
        """What the launch's results hold beyond sizes, and which of its loops may end there."""
        kernel, values = self.kernels[launch.kernel.data], self.values(launch)
        known: dict[SSAValue, Beyond] = {}
        for argument, value in values.items():
            if value in self.beyond and value not in launch.results:
                own = self.beyond[value]
                needs = in_buffer(value, own.needs, shape_of_buffer(argument))
                known[argument] = Beyond(needs, own.value)

        def number_in(buffer: SSAValue) -> float | None:
            value = values.get(buffer)
            owner = None if value is None else value.owner
            if not isinstance(owner, WeightOp):
                return None
            array = self.rewriter.weights[owner.weight.data]
            return float(array.item()) if array.size == 1 else None

        found = find_neutral(kernel, known, self.limits(launch), self.bounds, number_in)
        for argument, value in values.items():
            if value in launch.results and argument in found.beyond:
                own = found.beyond[argument]
                needs = in_tensor(value, own.needs, shape_of_buffer(argument))
                self.beyond[value] = Beyond(needs, own.value)
        self.ends[launch] = found.ends
        arguments = kernel.body.block.args
        reads = [found.read(argument) for argument in arguments]
        before = self.neutral.get(launch.kernel.data)
        if before is not None:
            pairs = zip(before, reads, strict=True)
            reads = [None if a is None or b is None else self.bounds.more_of(a, b)
                     for a, b in pairs]  # fmt: skip
        self.neutral[launch.kernel.data] = reads

    def _see_beyond(self, op: TopOperation) -> None:
        operand, result = op.operands[0], op.results[0]
        own = self.beyond.get(operand)
        before, after = static_shape(operand), static_shape(result)
        plain = layout_of(operand).is_plain and layout_of(result).is_plain
        if own is None or not plain or isinstance(op, SliceOp) or prod(before) != prod(after):
            return
        self.beyond[result] = Beyond(regrouped(own.needs, before, after), own.value)

    def _find_inputs(self) -> None:
        """Numbers and masks of a call among the function's arguments."""
        texts = dict(self.sizes.numbers)
        masks = {mask.name: mask for mask in self.sizes.masks}
        given: list[SSAValue] = list(self.entry.body.block.args)
        names = dict(zip(given, input_names(self.entry), strict=True))
        arguments = self.function.body.block.args
        for operand, own in zip(self.call.operands, arguments, strict=True):
            name = names.get(source(operand), "")
            if name in texts:
                self.by_text[texts[name]] = own
            elif name in masks:
                found: list[Need] = [None] * len(masks[name].shape)
                for axis in masks[name].axes:
                    found[axis.axis] = prefix(axis)
                self.masks[own] = tuple(found)
                if all(_is_beginning(axis) for axis in masks[name].axes):
                    self.boxes.add(own)

    def _find_computed(self) -> None:
        """Masks that the function itself computes from numbers of the call."""
        numbers = {value: parse(text) for text, value in self.by_text.items()}
        for launch in self.function.body.block.ops:
            if not isinstance(launch, LaunchOp) or len(launch.results) != 1:
                continue
            (result,) = launch.results
            if not isinstance(element_type_of(result), IntegerType):
                continue
            kernel = self.kernels[launch.kernel.data]
            computed = self._computed(launch, numbers)
            if element_type_of(result) == i1:
                mask = computed.mask(kernel)
                if mask is not None:
                    shape = shape_of_buffer(_stored_argument(kernel))
                    self.masks[result] = in_tensor(result, mask[0], shape)
                    self.boxes |= {result} if mask[1] else set()
            elif prod(static_shape(result)) == 1:
                found = computed.number(kernel)
                if found is not None:
                    numbers[result] = found

    def _computed(self, launch: LaunchOp, numbers: Mapping[SSAValue, Expression]) -> ComputedMasks:
        values = self.values(launch)

        def constants(buffer: SSAValue) -> np.ndarray | None:
            owner = None if (value := root(values.get(buffer))) is None else value.owner
            return self.rewriter.weights[owner.weight.data] if isinstance(owner, WeightOp) else None

        def number_of(buffer: SSAValue) -> Expression | None:
            value, array = root(values.get(buffer)), constants(buffer)
            if array is not None and array.size == 1 and array.dtype.kind in "iu":
                return number(int(array.item()))
            return None if value is None else numbers.get(value)

        def mask_of(buffer: SSAValue) -> Needs | None:
            value = root(values.get(buffer))
            needs = None if value is None else self.masks.get(value)
            if value is None or needs is None:
                return None
            return regrouped(needs, static_shape(value), shape_of_buffer(buffer))

        return ComputedMasks(number_of, constants, mask_of, self.bounds)

    def limits(self, launch: LaunchOp) -> Limits:
        values = self.values(launch)

        def of_condition(condition: SSAValue) -> Mapping[SSAValue, Expression]:
            owner = condition.owner
            if isinstance(owner, arith.AndIOp):
                return {**of_condition(owner.lhs), **of_condition(owner.rhs)}
            if isinstance(owner, affine.LoadOp | memref.LoadOp):
                read = root(values.get(owner.memref))
                needs = None if read is None else self.masks.get(read)
                if read is None or needs is None:
                    return {}
                own = regrouped(needs, static_shape(read), shape_of_buffer(owner.memref))
                return _bounds(subscripts(owner), own)
            return {}

        return of_condition

    def quantity(self, launch: LaunchOp) -> Quantity:
        """Of a launch's conditions: a number that is above 0 in calls in which one may hold."""
        values = self.values(launch)

        def mask_of(buffer: SSAValue) -> Needs | None:
            read = root(values.get(buffer))
            return None if read is None else self.masks.get(read)

        return lambda condition: quantity_of(condition, mask_of, self.bounds)

    def box(self, launch: LaunchOp) -> Limits:
        """For a condition that is a mask: the indices below which it is true. Unlike `limits`, it
        is true wherever all of them are below; empty for other conditions."""
        values = self.values(launch)

        def of_condition(condition: SSAValue) -> Mapping[SSAValue, Expression]:
            owner = condition.owner
            if not isinstance(owner, affine.LoadOp | memref.LoadOp):
                return {}
            read = root(values.get(owner.memref))
            if read is None or read not in self.boxes:
                return {}
            shape, needs = shape_of_buffer(owner.memref), self.masks[read]
            sizes = [size for size in static_shape(read) if size != 1]
            if sizes != [size for size in shape if size != 1]:
                return {}
            found = _bounds(subscripts(owner), regrouped(needs, static_shape(read), shape))
            return found if len(found) == sum(need is not None for need in needs) else {}

        return of_condition

    def values(self, launch: LaunchOp) -> dict[SSAValue, SSAValue]:
        """The function's values by the kernel's arguments."""
        kernel = self.kernels[launch.kernel.data]
        inputs, outputs = iter(launch.operands), iter(launch.results)
        found: dict[SSAValue, SSAValue] = {}
        roles = kernel_arguments(kernel)
        for argument, role in zip(kernel.body.block.args, roles, strict=True):
            if role.role != "scratch":
                found[argument] = next(outputs if role.role == "output" else inputs)
        return found


def _stored_argument(kernel: func.FuncOp) -> SSAValue:
    roles = [argument.role for argument in kernel_arguments(kernel)]
    return kernel.body.block.args[roles.index("output")]


def _joined(
    sizes: OpenSizes,
) -> Iterator[tuple[Expression, tuple[tuple[int, Expression], ...]]]:
    """The needs of axes with several open sizes."""
    masks = (axis for mask in sizes.masks for axis in mask.axes)
    for axis in (*sizes.outputs, *sizes.gathered, *masks):
        if not _is_beginning(axis):
            factors = ((largest, parse(text)) for largest, text in axis.factors if largest != 1)
            yield prefix(axis), tuple(factors)


def _is_beginning(axis: OpenAxis) -> bool:
    """Whether a call has the first elements of an axis, one after another."""
    return all(parse(text).is_number for _, text in axis.factors[1:])


def prefix(axis: OpenAxis) -> Expression:
    """The elements of an axis up to the last that a call has."""
    last, stride = number(0), 1
    for largest, text in axis.factors[::-1]:
        last, stride = last + (parse(text) - 1) * stride, stride * largest
    return last + 1


def source(value: SSAValue) -> SSAValue:
    """The value that was sent or received."""
    while isinstance(value.owner, TopOperation) and value.owner.name == "top.transfer":
        value = value.owner.operands[0]
    return value


def root(value: SSAValue | None) -> SSAValue | None:
    """The value that views are of."""
    while value is not None and isinstance(value.owner, TopOperation):
        owner = value.owner
        if isinstance(owner, LaunchOp | WeightOp) or len(owner.operands) != 1:
            return value
        value = owner.operands[0]
    return value


def _bounds(forms: Sequence[LinearForm | None], needs: Needs) -> dict[SSAValue, Expression]:
    """The indices of subscripts that are below a size."""
    found: dict[SSAValue, Expression] = {}
    for form, need in zip(forms, needs, strict=True):
        if form is None or need is None or len(form.terms) != 1:
            continue
        ((index, per),) = form.terms.items()
        if per == 1:
            found[index] = need - form.constant
    return found
