"""How each operation is made right for all sizes of open axes.

    top.softmax      minus infinity beyond the call's elements
    top.reshape      (batch, seq, 32) -> (batch*seq, 32)      axis 0 has two factors
    top.conv         zeros beyond the call's rows, where windows reach beyond the end
    top.concat       (.., past, ..), (.., seq, ..) gathered: rows of the second follow the call's

What has no entry here keeps its axes as `RowWise` says, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of
from explorer.ir.sizes.symbols import Expression, larger, number, smaller
from explorer.ir.structure import value_name
from explorer.ir.top.attention import AttentionOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.normalization import InstanceNormOp, LayerNormOp, SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp, TopKOp
from explorer.ir.top.shapes import RangeOp
from explorer.ir.types import element_type_of, is_static, numpy_dtype, shape_of, static_shape
from explorer.passes.sizes.call_numbers import Factors
from explorer.passes.sizes.open_axes import INF, MixedAxis, OpenAxes, as_array, positive
from explorer.passes.sizes.open_normalizations import spelled_out
from explorer.passes.sizes.valid_keys import over_valid_keys
from explorer.results.program import OpenAxis

NEUTRAL_OF_REDUCTION: Mapping[str, float] = {
    **dict.fromkeys(("sum", "mean", "l1", "l2", "sum_square", "log_sum"), 0.0),
    "prod": 1.0,
    "max": -INF,
    "min": INF,
    "log_sum_exp": -INF,
}
NEUTRAL_OF_SCAN: Mapping[str, float] = {"sum": 0.0, "prod": 1.0, "max": -INF, "min": INF}


class OpenOperations(OpenAxes):
    """Changes operations, from the first to the last."""

    def visit(self, op: TopOperation) -> None:
        """Changes an operation so that it is right for all sizes; MixedAxis where it cannot be."""
        is_touched = any(self.of(o) for o in op.operands)
        is_open = any(self.known.of_value(result) for result in op.results)
        begins = isinstance(op, SliceOp | RangeOp) and bool(self.begin(op))
        begins = begins or any(value_name(result) in self.guards for result in op.results)
        if not is_touched and not is_open and not begins:
            return
        for result in op.results:
            if not is_static(result):
                raise MixedAxis("what it reads decides how large its result is")
        if not is_touched and not begins:
            for result in op.results:
                self.give_by_name(result)
            return
        change = _CHANGES.get(type(op))
        if change is None:
            self.carry(op, {})
        else:
            change(self, op)

    def range(self, op: RangeOp) -> None:
        """Numbers that begin where the call says; where only their end is open, there are more."""
        if op.delta in self.begins:
            raise MixedAxis("its step is an open size")
        start = self.begin(op)
        axes: dict[int, Factors] = {}
        self.give(op.output, axes)
        if start is None:
            return
        if not isinstance(op.delta.owner, WeightOp):
            raise MixedAxis("its step is not known")
        step = self.rewriter.weights[op.delta.owner.weight.data].item()
        kind = numpy_dtype(element_type_of(op.output))
        axes = dict(self.of(op.output))
        with self.events.rewrite("begin", op, "it begins at the call's number"):
            steps = (np.arange(static_shape(op.output)[0]) * step).astype(kind)
            offsets = self.numbers.weight(op, "steps", steps)
            moved = BinaryOp.make([offsets, start], kind="add")
            self.rewriter.replace(op, moved)
        self._axes[moved.output] = axes

    def _mask_along(
        self, op: TopOperation, axes: list[int], neutral: float, keeps: bool, index: int = 0
    ) -> None:
        """Masks what an operation mixes along its own axes."""
        found = [axis for axis in self.of(op.operands[index]) if axis in axes]
        self.mask(op, index, found, neutral)
        self.carry(op, {(index, axis): axis if keeps else None for axis in found})

    def softmax(self, op: SoftmaxOp) -> None:
        self._mask_along(op, [positive(op.get("axis"), op)], -INF, keeps=True)

    def normalization(self, op: LayerNormOp | InstanceNormOp) -> None:
        """One over an open axis is spelled out."""
        if not any(axis in op.mixed_axes() for axis in self.of(op.input)):
            self.carry(op, {})
            return
        with self.events.rewrite("normalize", op, "its sums end with the call's sizes"):
            made, result = spelled_out(op, self.numbers)
        for one in made:
            self.visit(one)
        axes = self.of(made[-1].results[0])
        with self.events.rewrite("normalize", op, "its result is that of the sums"):
            self.rewriter.replace(op, result)
        self._axes[result] = dict(axes)

    def reduce(self, op: ReduceOp) -> None:
        rank = len(shape_of(op.input))
        kind, axes = op.get("kind"), [axis % rank for axis in op.get("axes")]
        open_axes = [axis for axis in axes if axis in self.of(op.input)]
        counts = [self._count(op.input, axis) for axis in axes]
        kept = [axis for axis in range(rank) if axis not in axes]
        mixed: dict[tuple[int, int], int | None] = {(0, axis): None for axis in open_axes}
        if not op.get("keepdims"):
            mixed |= {(0, axis): kept.index(axis) for axis in kept if axis in self.of(op.input)}
        self.mask(op, 0, open_axes, NEUTRAL_OF_REDUCTION[kind])
        self.carry(op, mixed)
        if kind == "mean" and open_axes:
            self._scale_mean(op, counts)

    def _count(self, value: SSAValue, axis: int) -> tuple[int, Expression]:
        whole = static_shape(value)[axis]
        size, expression = 1, number(1)
        for largest, own in self.of(value).get(axis, ((whole, number(whole)),)):
            size, expression = size * largest, expression * own
        return size, expression

    def _scale_mean(self, op: ReduceOp, counts: list[tuple[int, Expression]]) -> None:
        """A mean over the largest sizes becomes one over the call's elements."""
        size, expression = 1, number(1)
        for largest, own in counts:
            size, expression = size * largest, expression * own
        follower = op.output
        users = [(use.operation, use.index) for use in follower.uses]
        anchor = op.next_op
        assert isinstance(anchor, TopOperation)
        kind = element_type_of(follower)
        with self.events.rewrite("mean", op, f"it is over {expression} elements"):
            count = self.numbers.as_type(anchor, self.numbers.scalar(expression), kind)
            whole = self.numbers.weight(op, "size", np.array(size, numpy_dtype(kind)))
            if numpy_dtype(kind) in (np.float32, np.float64):
                self.rewriter.update(op, kind="sum")
                scaled = self.numbers.added(anchor, BinaryOp.make([follower, count], kind="div"))
            else:  # a sum may be more than a narrow type holds
                factor = self.numbers.added(anchor, BinaryOp.make([whole, count], kind="div"))
                scaled = self.numbers.added(anchor, BinaryOp.make([follower, factor], kind="mul"))
            self._move_origin(op, scaled)
            for user, index in users:
                self.rewriter.set_operand(user, index, scaled)
        self._axes[scaled] = dict(self.of(follower))

    def _move_origin(self, op: TopOperation, value: SSAValue) -> None:
        """What is compared with the source's tensor is the value, no longer the result of `op`."""
        assert isinstance(value.owner, TopOperation)
        self.rewriter.set_origins(value.owner, [origin_of(op.results[0])])
        self.rewriter.set_origins(op, [None])

    def arg(self, op: ArgOp) -> None:
        axis = positive(op.get("axis"), op)
        if axis in self.of(op.input) and op.get("select_last"):
            raise MixedAxis("of equal elements it takes the last")
        neutral = -INF if op.get("kind") == "max" else INF
        rank = len(shape_of(op.input))
        mixed: dict[tuple[int, int], int | None] = {}
        self.compact(op, 0, axis)
        if axis in self.of(op.input):
            self.mask(op, 0, [axis], neutral)
            mixed[0, axis] = None
        if not op.get("keepdims"):
            kept = [a for a in range(rank) if a != axis]
            mixed |= {(0, a): kept.index(a) for a in self.of(op.operands[0]) if a != axis}
        self.carry(op, mixed)

    def top_k(self, op: TopKOp) -> None:
        axis = positive(op.get("axis"), op)
        self.compact(op, 0, axis)
        if axis in self.of(op.input):
            self.mask(op, 0, [axis], -INF if op.get("largest") else INF)
        self.carry(op, {(0, axis): None})

    def cumulative(self, op: CumulativeOp) -> None:
        axis = positive(op.get("axis"), op)
        self.compact(op, 0, axis)
        if op.get("reverse") and axis in self.of(op.input):
            self.mask(op, 0, [axis], NEUTRAL_OF_SCAN[op.get("kind")])
        self.carry(op, {(0, axis): axis})

    def matmul(self, op: MatMulOp) -> None:
        """Sums read zeros on both sides: what is beyond a size may be no number."""
        rank = len(shape_of(op.output))
        mixed: dict[tuple[int, int], int | None] = {}
        for index in (0, 1):
            own = len(shape_of(op.operands[index]))
            summed = own - 1 if index == 0 else max(own - 2, 0)
            if summed in self.of(op.operands[index]):
                self.mask(op, index, [summed], 0.0)
                mixed[index, summed] = None
            if index == 1 and own > 1 and own - 1 in self.of(op.operands[1]):
                mixed[1, own - 1] = rank - 1
        self.carry(op, mixed)

    def attention(self, op: AttentionOp) -> None:
        """Scores of keys that a call has not are minus infinity; their values are zeros."""
        rank = len(shape_of(op.query))
        rows, heads = rank - 2, rank - 3
        mixed: dict[tuple[int, int], int | None] = {}
        places = ("query", "key", "value", "mask", "bias")
        present = [name for name in places if getattr(op, name) is not None]
        operands = {name: (index, getattr(op, name)) for index, name in enumerate(present)}
        keys = self.of(op.key).get(rows)
        if keys is not None:
            self.mask(op, 2, [rows], 0.0)
            if op.mask is not None and op.masked_score != -INF:
                self.mask(op, 1, [rows], 0.0)
        for name, (index, value) in operands.items():
            for axis in self.of(op.operands[index]):
                from_end = axis - len(shape_of(value))
                if name in ("mask", "bias"):
                    mixed[index, axis] = None if from_end == -1 else rank + from_end
                elif from_end == -1 or (from_end == -3 and heads >= 0):
                    raise MixedAxis("its heads are open")
                elif from_end == -2:
                    mixed[index, axis] = rows if name == "query" else None
        self.carry(op, mixed)
        if keys is not None:
            self._mask_scores(op, keys)

    def _mask_scores(self, op: AttentionOp, keys: Factors) -> None:
        """Through the mask, or through the bias where false in the mask is a finite number; then
        scores that are no numbers must not be there."""
        numbers, axes = self.numbers, dict(self.of(op.output))
        valid = numbers.valid({0: keys}, 1)
        with self.events.rewrite("mask", op, "keys end with the call's size"):
            new = over_valid_keys(op, valid, numbers)
            self.rewriter.replace(op, new)
        self._axes[new.output] = axes

    def window(self, op: ConvOp | PoolOp) -> None:
        """Windows that reach beyond the end read what padding is."""
        pads, spatial = op.get("pads"), len(shape_of(op.operands[0])) - 2
        is_average = isinstance(op, PoolOp) and op.get("kind") == "average"
        neutral = 0.0 if isinstance(op, ConvOp) or is_average else -INF
        mixed: dict[tuple[int, int], int | None] = {}
        masked: list[int] = []
        for axis in self.of(op.operands[0]):
            if axis == 1 and isinstance(op, ConvOp):
                raise MixedAxis("its channels are open")
            if axis < 2:
                continue
            self.compact(op, 0, axis)
            mixed[0, axis] = None
            if pads[spatial + axis - 2] == 0:
                continue
            if isinstance(op, PoolOp) and op.get("kind") == "max_position":
                raise MixedAxis("positions count in rows of another size")
            masked.append(axis)
        counted = dict(self.of(op.operands[0]))
        self.mask(op, 0, masked, neutral)
        self.carry(op, mixed)
        if isinstance(op, PoolOp) and is_average and masked and not op.counts_padding:
            self._divide_by_part(op, {axis: counted[axis] for axis in masked})

    def _divide_by_part(self, op: PoolOp, axes: Mapping[int, Factors]) -> None:
        """An average over the elements inside: the average with zeros around, divided by that part
        of each window which is inside, an average of ones and zeros."""
        shape, numbers = static_shape(op.input), self.numbers
        kind = numpy_dtype(element_type_of(op.input))
        follower, given, anchor = op.output, dict(self.of(op.output)), op.next_op
        assert isinstance(anchor, TopOperation)
        users = [(use.operation, use.index) for use in follower.uses]
        with self.events.rewrite("average", op, "it is over the elements that a call has"):
            self.rewriter.update(op, includes_padding=True)
            ones = numbers.weight(op, "ones", np.ones((1, 1, *shape[2:]), kind))
            inside = numbers.masked(anchor, ones, axes, 0.0)
            part = numbers.added(anchor, op.altered(input=inside, includes_padding=True))
            least = np.array(1 / prod(op.get("window")), kind)
            part = numbers.added(
                anchor,
                BinaryOp.make([part, numbers.weight(op, "least", least)], kind="max"),
            )
            divided = numbers.added(anchor, BinaryOp.make([follower, part], kind="div"))
            self._move_origin(op, divided)
            for user, index in users:
                self.rewriter.set_operand(user, index, divided)
        self._axes[divided] = given

    def reshape(self, op: ReshapeOp) -> None:
        before, after = static_shape(op.input), static_shape(op.output)
        pieces: list[tuple[int, Expression]] = []
        for axis, size in enumerate(before):
            pieces += self.of(op.input).get(axis, ((size, number(size)),))
        found = regrouped(pieces, after)
        if found is None:
            raise MixedAxis("it takes an open axis apart")
        self.give(op.output, found)

    def select(self, op: SelectOp) -> None:
        """What an iteration makes that only some calls have: a mask of all elements or of none."""
        self.carry(op, {})
        guard = self.guards.get(value_name(op.output))
        if guard is None:
            return
        valid = self.numbers.valid({0: ((1, guard),)}, 1)
        with self.events.rewrite("guard", op, "the iteration runs in some calls"):
            self.rewriter.set_operand(op, 0, valid)

    def concat(self, op: ConcatOp) -> None:
        """Elements of each operand follow those that a call has of the one before it."""
        axis = positive(op.get("axis"), op)
        for place in range(len(op.operands)):
            self.compact(op, place, axis)
        sizes = [static_shape(operand)[axis] for operand in op.operands]
        counts = [
            self.prefix(operand, axis) if axis in self.of(operand) else number(size)
            for operand, size in zip(op.operands, sizes, strict=True)
        ]
        mixed: dict[tuple[int, int], int | None] = {
            (index, axis): None for index in range(len(op.operands))
        }
        self.carry(op, mixed)
        if all(e.is_number for e in counts[:-1]):
            return
        for place, count in enumerate(counts):
            own = ((sizes[place], str(count)),)
            self.gathered.append(OpenAxis(f"{identity_of(op)}/{place}", axis, own))
        axes = dict(self.of(op.output))
        anchor = op.next_op
        assert isinstance(anchor, TopOperation)
        users = [(use.operation, use.index) for use in op.output.uses]
        with self.events.rewrite("gather", op, "parts follow one another in a call"):
            places = np.arange(sum(sizes), dtype=np.int64)
            index: SSAValue = self.numbers.weight(op, "places", places)
            iota, end = index, number(0)
            for size, count in zip(sizes[:-1], counts[:-1], strict=True):
                end = end + count
                if count.is_number:
                    continue
                slack = self.numbers.array(
                    anchor, as_array(number(size) - count), element_type_of(iota)
                )
                stop = self.numbers.array(anchor, as_array(end), element_type_of(iota))
                is_before = self.numbers.added(anchor, BinaryOp.make([iota, stop], kind="less"))
                nothing = self.numbers.weight(op, "nothing", np.array(0, np.int64))
                more = self.numbers.added(anchor, SelectOp.make([is_before, nothing, slack]))
                index = self.numbers.sum(anchor, index, more)
            last = self.numbers.weight(op, "last", np.array(sum(sizes) - 1, np.int64))
            index = self.numbers.added(anchor, BinaryOp.make([index, last], kind="min"))
            gathered = self.numbers.added(anchor, GatherOp.make([op.output, index], axis=axis))
            for user, place in users:
                self.rewriter.set_operand(user, place, gathered)
        self._axes[gathered] = axes

    def interpolate(self, op: InterpolateOp) -> None:
        """Positions are of elements that a call has: the importer computes them from its size."""
        axis = op.get("axis")
        self.compact(op, 0, axis)
        self.gather_inside(op, op.operands[0])
        self.carry(op, {(0, axis): None, (1, 0): axis, (2, 0): axis})

    def slice(self, op: SliceOp) -> None:
        """What begins at a place that the call's size decides is gathered from there."""
        shapes = static_shape(op.input), static_shape(op.output)
        starts = self._starts(op)
        cut = [
            axis
            for axis in self.of(op.input)
            if shapes[0][axis] != shapes[1][axis] or not _is_beginning(*starts.get(axis, _WHOLE))
        ]
        for axis in cut:
            self.compact(op, 0, axis)
        starts = self._starts(op)
        self.carry(op, {(0, axis): None for axis in cut})
        moved = {
            axis: (start, step)
            for axis, (start, step) in starts.items()
            if not (_is_beginning(start, step) or (start.is_number and start.constant > 0 < step))
        }
        if moved:
            self._gather_slice(op, moved)

    def _starts(self, op: SliceOp) -> dict[int, tuple[Expression, int]]:
        """Start and step of the axes that are cut and open."""
        shape = static_shape(op.input)
        if op.is_static_slice:
            starts = [number(n) for n in op.get("starts")]
            steps, axes = list(op.get("steps")), list(range(len(shape)))
        else:
            axes = [axis % len(shape) for axis in op.get("axes")]
            starts = self._expressions(op.starts_value)
            found = self._expressions(op.steps_value) if op.steps_value is not None else None
            steps = [1] * len(axes) if found is None else [e.constant for e in found]
        result: dict[int, tuple[Expression, int]] = {}
        for axis, start, step in zip(axes, starts, steps, strict=True):
            if axis not in self.of(op.input):
                if not start.is_number:
                    result[axis] = (start, step)
                continue
            if start.is_number and start.constant < 0:
                start = larger(self.prefix(op.input, axis) + start.constant, number(0))
            elif start.is_number and step < 0:
                start = smaller(start, self.prefix(op.input, axis) - 1)
            result[axis] = (start, step)
        return result

    def _expressions(self, value: SSAValue | None) -> list[Expression]:
        assert value is not None
        if value in self.begins:
            return list(self.begins[value].reshape(-1))
        if not isinstance(value.owner, WeightOp):
            raise MixedAxis("data decide where it begins")
        array = self.rewriter.weights[value.owner.weight.data]
        return [number(int(n)) for n in array.reshape(-1)]

    def _gather_slice(self, op: SliceOp, moved: Mapping[int, tuple[Expression, int]]) -> None:
        """Gathers along the axes that begin where a call's size decides; the others are sliced
        first."""
        shape, axes, value = static_shape(op.input), dict(self.of(op.output)), op.input
        places = ", ".join(str(start) for start, _ in moved.values())
        with self.events.rewrite("gather", op, f"it begins at {places}"):
            if self._is_cut_elsewhere(op, set(moved)):
                whole = ((0,) * len(shape), shape, (1,) * len(shape))
                starts, stops, steps = (
                    [numbers[axis] if axis in moved else n for axis, n in enumerate(op.get(name))]
                    for name, numbers in zip(("starts", "stops", "steps"), whole, strict=True)
                )
                rest = SliceOp.make([value], starts=starts, stops=stops, steps=steps)
                value = self.numbers.added(op, rest)
            for axis, (start, step) in moved.items():
                count = static_shape(op.output)[axis]
                offsets = self.numbers.weight(op, "steps", np.arange(count, dtype=np.int64) * step)
                begin = self.numbers.array(op, as_array(start), element_type_of(offsets))
                index = self.clamped(op, self.numbers.sum(op, offsets, begin), shape[axis])
                gather = GatherOp.make([value, index], axis=axis)
                if axis == list(moved)[-1]:
                    self.rewriter.replace(op, gather)
                    value = gather.output
                else:
                    value = self.numbers.added(op, gather)
        self._axes[value] = axes

    def _is_cut_elsewhere(self, op: SliceOp, moved: Collection[int]) -> bool:
        """Whether other axes are cut or turned round; MixedAxis where their bounds are computed."""
        shape, result = static_shape(op.input), static_shape(op.output)
        others = [axis for axis in range(len(shape)) if axis not in moved]
        if op.is_static_slice:
            taken = op.ranges(shape)
            return any(taken[axis] != range(shape[axis]) for axis in others)
        steps = [] if op.steps_value is None else self._expressions(op.steps_value)
        listed = [axis % len(shape) for axis in op.get("axes")]
        turned = {a for a, e in zip(listed, steps, strict=False) if e.constant < 0}
        if any(shape[axis] != result[axis] or axis in turned for axis in others):
            raise MixedAxis("its bounds are computed, and it cuts more than one axis")
        return False

    def gather(self, op: GatherOp) -> None:
        """Negative numbers count from the call's end."""
        axis = positive(op.get("axis"), op)
        if axis not in self.of(op.input):
            self.carry(op, {})
            return
        self.compact(op, 0, axis)
        self.gather_inside(op, op.operands[0])
        self.carry(op, {(0, axis): None})
        stored = op.indices.owner
        if isinstance(stored, WeightOp):
            numbers = self.rewriter.weights[stored.weight.data]
            if not numbers.size or numbers.min() >= 0:
                return
        kind = element_type_of(op.indices)
        with self.events.rewrite("gather", op, "negative numbers count from the call's end"):
            size = self.numbers.array(op, as_array(self.prefix(op.input, axis)), kind)
            zero = self.numbers.weight(op, "zero", np.array(0, numpy_dtype(kind)))
            is_negative = self.numbers.added(op, BinaryOp.make([op.indices, zero], kind="less"))
            moved = self.numbers.sum(op, op.indices, size)
            index = self.numbers.added(op, SelectOp.make([is_negative, moved, op.indices]))
            self._axes[index] = dict(self.of(op.indices))
            self.rewriter.set_operand(op, 1, index)

    def pad(self, op: PadOp) -> None:
        """Padding at the end follows the elements of a call, and fills the input beyond them."""
        if op.amounts is not None:
            raise MixedAxis("its amounts are computed")
        high = op.get("high")
        for axis in self.of(op.input):
            if high[axis] or op.get("low")[axis] or op.get("interior")[axis]:
                self.compact(op, 0, axis)
        padded = [axis for axis in self.of(op.input) if high[axis] or op.get("low")[axis]]
        padded += [axis for axis in self.of(op.input) if op.get("interior")[axis]]
        self.mask(op, 0, [axis for axis in self.of(op.input) if high[axis]], op.fill)
        self.carry(op, {(0, axis): None for axis in padded})


_CHANGES: Mapping[type, Callable[..., None]] = {
    ArgOp: OpenOperations.arg,
    AttentionOp: OpenOperations.attention,
    ConcatOp: OpenOperations.concat,
    ConvOp: OpenOperations.window,
    CumulativeOp: OpenOperations.cumulative,
    GatherOp: OpenOperations.gather,
    InstanceNormOp: OpenOperations.normalization,
    InterpolateOp: OpenOperations.interpolate,
    LayerNormOp: OpenOperations.normalization,
    MatMulOp: OpenOperations.matmul,
    PadOp: OpenOperations.pad,
    PoolOp: OpenOperations.window,
    RangeOp: OpenOperations.range,
    ReduceOp: OpenOperations.reduce,
    ReshapeOp: OpenOperations.reshape,
    SelectOp: OpenOperations.select,
    SliceOp: OpenOperations.slice,
    SoftmaxOp: OpenOperations.softmax,
    TopKOp: OpenOperations.top_k,
}


_WHOLE = (number(0), 1)
"""Start and step of an axis that is not cut."""


def _is_beginning(start: Expression, step: int) -> bool:
    return start.is_number and start.constant == 0 and step == 1


def regrouped(
    pieces: list[tuple[int, Expression]], shape: tuple[int, ...]
) -> dict[int, Factors] | None:
    """The factors of each axis of a new shape; None where an open factor would be taken apart.

    pieces: factors in row-major order; fixed ones may be split.
    """
    left = [piece for piece in pieces if piece[0] != 1][::-1]
    found: dict[int, Factors] = {}
    for axis, needed in enumerate(shape):
        own: list[tuple[int, Expression]] = []
        while needed > 1:
            if not left:
                return None
            largest, expression = left.pop()
            if needed % largest == 0:
                own.append((largest, expression))
                needed //= largest
            elif expression.is_number and largest % needed == 0:
                own.append((needed, number(needed)))
                left.append((largest // needed, number(largest // needed)))
                needed = 1
            else:
                return None
        if any(not expression.is_number for _, expression in own):
            found[axis] = tuple(own)
    return found if not left else None
