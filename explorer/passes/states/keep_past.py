"""A past that grows becomes a state with a capacity; how much of it is valid is a number.

    func @main(%ids, %past: tensor<1x4x?x16, dims = [.., "past", ..]>)       capacity = 8
      %present = top.concat(%past, %new) {axis = 2}
 => func @main(%ids, %past: tensor<1x4x8x16>, %past_length: tensor<i64>)
      %rows = top.binary(%past_length, [0, 1 ..]) {kind = "add"}
      %present = top.scatter_elements(%past, %rows, %new) {axis = 2}

New rows are written after the valid ones, so that place and position are one number. Everything
else is compiled for the full capacity:

- what the model computes from the past's size as a *size* is the capacity, as a *number*
  (positions, ends of masks) the valid length;
- a softmax over keys gets minus infinity where nothing is valid, so that the products after it
  read zeros.

Where something else mixes elements of the axis that grows, the pass refuses with the operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.evaluation import INPUT_NAMES, entry_function, input_names, output_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.constraints import constraints_of
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.sizes.symbols import parse
from explorer.ir.states import StateRecord, set_states, states_of
from explorer.ir.structure import value_name
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.indexing import GatherOp, ScatterElementsOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import (
    Dim,
    element_type_of,
    is_static,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
)
from explorer.ir.valid_length import VALID_LENGTH, length_attribute
from explorer.passes.simplify.fold_constants import FoldConstants
from explorer.passes.sizes.bind_dimensions import BindDimensions
from explorer.results.program import GrowingValue, ValidLength

LENGTH = "past_length"
ELEMENTWISE = (BinaryOp, UnaryOp, SelectOp, CastOp)
MOVING = (TransposeOp, ReshapeOp, ExpandOp)


@dataclass(frozen=True)
class GrowingPair:
    """An input and the output that is longer by what a call adds."""

    input: str
    output: str
    axis: int


@dataclass(frozen=True)
class KeepPast(Pass):
    """Pasts that grow with each call become states with a capacity."""

    pairs: tuple[GrowingPair, ...]
    capacity: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of all dimensions; that of the past is the capacity without what a call adds."""

    name = "keep-past"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        growth = _Growth.of(function, self.pairs, self.sizes)
        bound = BindDimensions(self.sizes, 1).run(rewriter, options)
        keeping = _Keeping(self, function, growth, rewriter, options)
        keeping.run()
        return [*bound, *keeping.rewrites]


class _Refused(UnsupportedError):
    def __init__(self, reason: str, op: Operation | None = None) -> None:
        where = "" if op is None else f" ({op.name} {identity_of(op)})"
        nodes = "" if op is None else ", ".join(sources_of(op))
        super().__init__(
            f"the past cannot be kept in a state with a capacity: {reason}{where}",
            problems=[reason],
            hint="compile it for one size of the past: --dim, without a capacity",
            **({"node": nodes} if nodes else {}),
        )


@dataclass(frozen=True)
class _Growth:
    """What is known of sizes before they are bound."""

    symbols: frozenset[str]
    """Dimensions that grow one by one with the past."""
    sizes: Mapping[str, int]
    axes: dict[str, tuple[int, ...]]
    """Axes that grow with the past, by the value's name."""

    @classmethod
    def of(
        cls, function: func.FuncOp, pairs: Sequence[GrowingPair], sizes: Mapping[str, int]
    ) -> _Growth:
        names = dict(zip(input_names(function), function.body.block.args, strict=True))
        pasts = {shape_of(names[pair.input])[pair.axis] for pair in pairs}
        if len(pasts) != 1 or not all(isinstance(past, str) for past in pasts):
            raise _Refused("its size is not one dimension with a name")
        symbols = growing_symbols(function, {str(past) for past in pasts}, sizes)
        before = {name: size - (name in symbols) for name, size in sizes.items()}

        def grows(size: Dim, value: SSAValue) -> bool:
            if isinstance(size, int) or size == UNKNOWN:
                return False
            try:
                difference = parse(size).value(sizes) - parse(size).value(before)
            except KeyError:
                return False
            if difference not in (0, 1):
                raise _Refused(f"{value_name(value)} grows by {difference} elements with each")
            return difference == 1

        axes: dict[str, tuple[int, ...]] = {}
        values = [*function.body.block.args]
        values += [result for op in function.body.block.ops for result in op.results]
        for value in values:
            found = tuple(a for a, size in enumerate(shape_of(value)) if grows(size, value))
            if found:
                axes[value_name(value)] = found
        return cls(frozenset(symbols), sizes, axes)

    def of_value(self, value: SSAValue) -> tuple[int, ...]:
        return self.axes.get(value_name(value), ())

    def give(self, new: SSAValue, axes: tuple[int, ...]) -> None:
        """Notes the axes of a value that takes the place of another one."""
        if axes:
            self.axes[value_name(new)] = axes


def growing_symbols(function: func.FuncOp, pasts: set[str], sizes: Mapping[str, int]) -> set[str]:
    """The dimensions of pasts, and those that are equal to sizes which grow with them."""
    symbols = set(pasts)
    for _ in sizes:
        before = {name: size - (name in symbols) for name, size in sizes.items()}
        for found in constraints_of(function):
            if found.kind not in ("equal", "broadcast"):
                continue
            for side, other in ((found.left, found.right), (found.right, found.left)):
                is_free = side in sizes and side not in symbols
                expression = parse(other)
                if is_free and set(expression.names) <= sizes.keys():
                    difference = expression.value(sizes) - expression.value(before)
                    symbols |= {side} if difference == 1 else set()
    return symbols


class _Keeping:
    def __init__(
        self,
        wanted: KeepPast,
        function: func.FuncOp,
        growth: _Growth,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
    ) -> None:
        self.wanted, self.function, self.growth = wanted, function, growth
        self.rewriter, self.options = rewriter, options
        self.events = EventLog(wanted.name, rewriter)
        self.rewrites: list[Rewrite] = []
        self.block = function.body.block
        self.content: dict[SSAValue, SSAValue] = {}
        """Values that the size of the past decides, with what they are at the valid length."""
        self.places: set[SSAValue] = set()
        """Indices that count from the valid length on."""
        self.pure: set[SSAValue] = set()
        """Values that sizes and constants alone decide."""
        self.zeroed: set[SSAValue] = set()
        """Values that are 0 wherever nothing is valid."""
        self.states: dict[Operation, GrowingPair] = {}
        self.valid: dict[int, SSAValue] = {}
        """Which keys are valid, by the number of axes."""

    def run(self) -> None:
        names = list(input_names(self.function))
        arguments = dict(zip(names, self.block.args, strict=True))
        self.pasts: dict[str, SSAValue] = {
            pair.input: arguments[pair.input] for pair in self.wanted.pairs
        }
        past = self.growth.of_value(next(iter(self.pasts.values())))
        first = next(iter(self.wanted.pairs))
        if past != (first.axis,):
            raise _Refused("its size does not grow")
        self.full = static_shape(self.pasts[first.input])[first.axis]
        """Rows of the past when the state is full."""
        self.shapes = {value_name(past): static_shape(past) for past in self.pasts.values()}
        self.length_name = LENGTH
        while self.length_name in names:
            self.length_name += "_"
        self.length = self.block.insert_arg(tensor_type(i64, ()), len(self.block.args))
        self.length.name_hint = self.rewriter.names.fresh(LENGTH)
        self._find_states()
        for op in self._operations():
            self._number(op)
        # What is a size and no number is a constant now; it makes all shapes known.
        folding = FoldConstants().run(self.rewriter, self.options)
        for op in self._operations():
            self._visit(op)
        self._finish(names)
        self.rewrites = [*folding, *self.events.rewrites]

    def _operations(self) -> list[TopOperation]:
        found = [op for op in self.block.ops if isinstance(op, TopOperation)]
        for op in found:
            if op.regions and any(self.growth.of_value(o) or o in self.content for o in _read(op)):
                raise _Refused("a loop or a branch reads what grows", op)
        return [op for op in found if not op.regions]

    def _find_states(self) -> None:
        returned = dict(zip(output_names(self.function), self._return().operands, strict=True))
        rows = set()
        for pair in self.wanted.pairs:
            past, made = self.pasts[pair.input], returned[pair.output]
            op = made.owner
            if not (
                isinstance(op, ConcatOp)
                and op.get("axis") == pair.axis
                and len(op.operands) == 2
                and op.operands[0] is past
            ):
                raise _Refused(f"{pair.output} is not {pair.input} with new rows after it")
            self.states[op] = pair
            rows.add(static_shape(op.operands[1])[pair.axis])
            others = {use.operation for use in past.uses} - {op}
            strange = next((o for o in others if not isinstance(o, ShapeOp)), None)
            if strange is not None:
                raise _Refused(f"{pair.input} is read without its new rows", strange)
        if len(rows) != 1:
            raise _Refused("calls add different numbers of rows to them")
        (self.rows,) = rows
        if self.full + self.rows != self.wanted.capacity:
            raise _Refused(f"{self.full} and {self.rows} rows are not the capacity")

    def _return(self) -> ReturnOp:
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        return last

    # -- sizes and numbers ---------------------------------------------------------------------
    def _number(self, op: TopOperation) -> None:
        """Operands that the past's size decides are what they are at the valid length."""
        if isinstance(op, WeightOp):
            self.pure.add(op.output)
        elif isinstance(op, ShapeOp):
            self._shape(op)
        elif isinstance(op, RangeOp):
            self._range(op)
        elif isinstance(op, SliceOp) and self._has_content(op, range(1, len(op.operands))):
            self._slice(op)
        else:
            self._pass_content(op)

    def _has_content(self, op: TopOperation, places: Sequence[int]) -> bool:
        return any(op.operands[place] in self.content for place in places)

    def _shape(self, op: ShapeOp) -> None:
        """The sizes at full capacity, and at the valid length."""
        shape = self.shapes.get(value_name(op.input)) or static_shape(op.input)
        sizes = np.array(shape, np.int64)[op.get("start", 0) : op.get("end")]
        growing = self.growth.of_value(op.input)
        axes = list(range(len(shape)))[op.get("start", 0) : op.get("end")]
        grows = np.array([axis in growing for axis in axes])
        with self.events.rewrite("size", op, "as a size it is the capacity's"):
            value = self._weight(op, "sizes", sizes)
            if grows.any():
                fixed = self._weight(op, "fixed", sizes - grows * self.full)
                chosen = self._weight(op, "chosen", grows.astype(np.int64))
                own = self._added(op, BinaryOp.make([chosen, self.length], kind="mul"))
                self.content[value] = self._added(op, BinaryOp.make([own, fixed], kind="add"))
            self.rewriter.replace(op, value)
        self.pure.add(value)

    def _append(self, op: TopOperation, pair: GrowingPair) -> None:
        past, new = op.operands
        shape = static_shape(new)
        offsets = np.arange(self.rows, dtype=np.int64).reshape(
            [-1 if axis == pair.axis else 1 for axis in range(len(shape))]
        )
        why = f"new rows go after the valid ones of {self.wanted.capacity}"
        with self.events.rewrite("append", op, why):
            offset = self._weight(op, "offsets", offsets)
            places = self._added(op, BinaryOp.make([offset, self.length], kind="add"))
            whole = self._added(op, ExpandOp.make([places, None], shape=list(shape)))
            full = [*static_shape(past)]
            full[pair.axis] = self.wanted.capacity
            past = self.rewriter.set_type(past, tensor_type(element_type_of(past), full))
            scatter = ScatterElementsOp.make([past, whole, new], axis=pair.axis, reduction="none")
            axes = self.growth.of_value(op.results[0])
            self.rewriter.replace(op, scatter)
            self.growth.give(scatter.output, axes)
        self.pasts[pair.input] = past

    def _range(self, op: RangeOp) -> None:
        """Numbers that begin at the valid length; where only their end grows, there are more."""
        if not all(operand in self.pure for operand in op.operands):
            if self._has_content(op, (0, 1, 2)):
                raise _Refused("data and the past's size decide a range", op)
            return
        self.pure.add(op.output)
        if op.delta in self.content:
            raise _Refused("a step grows with the past", op)
        if op.start not in self.content:
            return
        step = self._constant(op.delta)
        if step is None or not is_static(op.output):
            raise _Refused("the step or the size of a range is not known", op)
        kind = numpy_dtype(element_type_of(op.output))
        steps = (np.arange(static_shape(op.output)[0]) * step).astype(kind)
        self.content[op.output] = self._from(op, self.content[op.start], steps)

    def _slice(self, op: SliceOp) -> None:
        """What begins at the valid length is gathered; what ends there ends at the capacity."""
        starts = op.operands[1]
        axes = op.get("axes")
        if starts not in self.content:
            self._pass_content(op)
            return
        steps = self._constant(op.operands[3]) if len(op.operands) > 3 else 1
        if axes is None or len(axes) != 1 or steps not in (None, 1) or not is_static(op.output):
            raise _Refused("more than one axis begins with the past's size", op)
        axis = axes[0] % len(static_shape(op.input))
        count = static_shape(op.output)[axis]
        with self.events.rewrite("gather", op, "it begins at the valid length"):
            start = self.content[starts]
            scalar = self._added(op, ReshapeOp.make([start, None], shape=[]))
            kind = numpy_dtype(element_type_of(scalar))
            places = self._from(op, scalar, np.arange(count).astype(kind))
            self.places.add(places)
            source = self.content.get(op.input, op.input)
            gather = GatherOp.make([source, places], axis=axis)
            axes = self.growth.of_value(op.output)
            if op.input in self.pure:
                self.content[op.output] = self._added(op, gather)
                self.pure.add(op.output)
            else:
                self.rewriter.replace(op, gather)
            self.growth.give(gather.output, axes)

    def _pass_content(self, op: TopOperation) -> None:
        """Operands are what they are at the valid length, but for sizes."""
        sizes_from = getattr(type(op), "SIZES_FROM", None)
        end = len(op.operands) if sizes_from is None else sizes_from
        places = [i for i in range(end) if op.operands[i] in self.content]
        is_pure = bool(op.operands) and all(operand in self.pure for operand in op.operands)
        if is_pure:
            self.pure.update(op.results)
        if not places:
            return
        axes = [self.growth.of_value(result) for result in op.results]
        if not is_pure:
            with self.events.rewrite("number", op, "as a number it is the valid length's"):
                for place in places:
                    value = self.content[op.operands[place]]
                    self.places.add(value)
                    self.rewriter.set_operand(op, place, value)
            return
        values = {op.operands[place]: self.content[op.operands[place]] for place in places}
        copy = copy_operation(op, dict(values))
        copy.attributes = {}
        with self.events.rewrite("number", op, "as a number it is the valid length's"):
            self._added(op, copy)
        self.content.update(zip(op.results, copy.results, strict=True))
        for found, new in zip(axes, copy.results, strict=True):
            self.growth.give(new, found)

    # -- operations ----------------------------------------------------------------------------
    def _visit(self, op: TopOperation) -> None:
        if op in self.states:
            self._append(op, self.states[op])
            return
        if isinstance(op, WeightOp):
            return
        self._check(op)
        if isinstance(op, SoftmaxOp):
            self._mask(op)
        self._pass_axes(op)
        self._pass_zeros(op)

    # -- what is valid -------------------------------------------------------------------------
    def _check(self, op: TopOperation) -> None:
        """Refuses what mixes elements of the axis that grows."""
        read = enumerate(op.operands)
        growing = [(i, axes) for i, o in read if (axes := self.growth.of_value(o))]
        if not growing or isinstance(op, (*ELEMENTWISE, TransposeOp, ReturnOp)):
            return
        if isinstance(op, SoftmaxOp):
            return
        if isinstance(op, ReshapeOp | ExpandOp):
            if len(_moved_axes(op, growing[0][1])) == len(growing[0][1]):
                return
        elif isinstance(op, ConcatOp):
            if all(op.get("axis") not in axes for _, axes in growing):
                return
        elif isinstance(op, CumulativeOp):
            if not op.get("reverse"):
                return
        elif isinstance(op, MatMulOp):
            if self._multiplies_zeros(op):
                return
        elif isinstance(op, GatherOp):
            numbers = self._constants(op.indices)
            is_inside = op.indices in self.places or (numbers is not None and numbers.min() >= 0)
            if growing[0][0] == 0 and (op.get("axis") not in growing[0][1] or is_inside):
                return
        elif isinstance(op, SliceOp) and self._keeps_beginning(op, growing[0][1]):
            return
        raise _Refused("it mixes elements of the axis that grows", op)

    def _pass_axes(self, op: TopOperation) -> None:
        """Of a result the size of which was not known by name."""
        axes = self.growth.of_value(op.operands[0]) if op.operands else ()
        if isinstance(op, ReshapeOp | ExpandOp) and axes:
            self.growth.give(op.results[0], _moved_axes(op, axes))
        elif isinstance(op, TransposeOp) and axes:
            order = list(op.get("permutation"))
            self.growth.give(op.results[0], tuple(sorted(order.index(axis) for axis in axes)))
        elif isinstance(op, ELEMENTWISE):
            rank = len(shape_of(op.results[0]))
            found = {
                axis + rank - len(shape_of(operand))
                for operand in op.operands
                for axis in self.growth.of_value(operand)
            }
            self.growth.give(op.results[0], tuple(sorted(found)))
        elif isinstance(op, MatMulOp):
            self.growth.give(op.results[0], self._product_axes(op))

    def _product_axes(self, op: MatMulOp) -> tuple[int, ...]:
        rank, found = len(shape_of(op.results[0])), set()
        for operand, summed in zip(op.operands[:2], (1, 2), strict=True):
            own = len(shape_of(operand))
            if own < 2 or rank < 2:
                continue
            kept = (axis for axis in self.growth.of_value(operand) if axis != own - summed)
            found |= {axis + rank - own for axis in kept}
        return tuple(sorted(found))

    def _multiplies_zeros(self, op: MatMulOp) -> bool:
        """Whether no sum is over elements that are not valid, or they are multiplied by 0."""
        left, right = op.operands[:2]
        ranks = [len(shape_of(value)) for value in (left, right)]
        inner = ranks[0] - 1, max(ranks[1] - 2, 0)
        pairs = zip(inner, (left, right), strict=True)
        is_summed = any(axis in self.growth.of_value(value) for axis, value in pairs)
        return not is_summed or left in self.zeroed or right in self.zeroed

    def _keeps_beginning(self, op: SliceOp, axes: Sequence[int]) -> bool:
        """Whether a slice cuts other axes, or takes the axis that grows from its beginning on."""
        rank = len(shape_of(op.input))
        if op.get("axes") is None:
            starts, cut = list(op.get("starts") or ()), list(range(rank))
        else:
            found = self._constants(op.operands[1])
            starts, cut = [] if found is None else found.ravel().tolist(), op.get("axes")
            if found is None:
                return False
        chosen = {axis % rank: start for axis, start in zip(cut, starts, strict=True)}
        return all(chosen.get(axis, 0) >= 0 for axis in axes)

    def _mask(self, op: SoftmaxOp) -> None:
        """Scores of keys that are not valid are minus infinity."""
        axis = op.get("axis") % len(shape_of(op.operands[0]))
        if axis not in self.growth.of_value(op.operands[0]):
            return
        if op.get("logarithm"):
            raise _Refused("a logarithm of it is taken", op)
        scores = op.operands[0]
        kind = numpy_dtype(element_type_of(scores))
        behind = len(shape_of(scores)) - 1 - axis
        with self.events.rewrite("mask", op, "only valid keys have a share"):
            user, place = _before_bias(op)
            valid = self._valid(user, behind)
            nothing = self._weight(user, "nothing", np.array(-np.inf, kind))
            masked = self._added(user, SelectOp.make([valid, user.operands[place], nothing]))
            self.rewriter.set_operand(user, place, masked)
        self.zeroed.add(op.results[0])

    def _valid(self, op: TopOperation, behind: int) -> SSAValue:
        """Which places are valid, with so many axes after that one."""
        if behind not in self.valid:
            places = np.arange(self.wanted.capacity, dtype=np.int64)
            numbers = self._weight(op, "places", places.reshape(-1, *[1] * behind))
            more = self._weight(op, "rows", np.array(self.rows, np.int64))
            end = self._added(op, BinaryOp.make([self.length, more], kind="add"))
            self.valid[behind] = self._added(op, BinaryOp.make([numbers, end], kind="less"))
        return self.valid[behind]

    def _pass_zeros(self, op: TopOperation) -> None:
        keeps = isinstance(op, (*MOVING, CastOp)) and op.operands[0] in self.zeroed
        scales = isinstance(op, BinaryOp) and (
            (op.get("kind") == "mul" and not self.zeroed.isdisjoint(op.operands))
            or (op.get("kind") == "div" and op.operands[0] in self.zeroed)
        )
        if keeps or scales:
            self.zeroed.add(op.results[0])

    # -- the end -------------------------------------------------------------------------------
    def _finish(self, names: list[str]) -> None:
        function, rewriter = self.function, self.rewriter
        every = [*names, self.length_name]
        function.attributes[INPUT_NAMES] = ArrayAttr([StringAttr(name) for name in every])
        inputs = [
            GrowingValue(name, axes[0], 0 if name in self.pasts else self._more(value, axes[0]))
            for name, value in zip(names, self.block.args, strict=False)
            if (axes := self.growth.of_value(value))
        ]
        outputs = [
            GrowingValue(name, axes[0], self.rows)
            for name, value in zip(output_names(function), self._return().operands, strict=True)
            if (axes := self._output_axes(name, value))
        ]
        length = ValidLength(
            self.length_name, self.wanted.capacity, self.rows, tuple(inputs), tuple(outputs)
        )
        with self.events.rewrite("keep", function, f"a capacity of {self.wanted.capacity} rows"):
            rewriter.set_attribute(function, VALID_LENGTH, length_attribute(length))
            kept = [StateRecord(pair.input, pair.output) for pair in self.wanted.pairs]
            set_states(function, [*states_of(function), *kept])
        rewriter.update_signature(function)

    def _output_axes(self, name: str, value: SSAValue) -> tuple[int, ...]:
        kept = next((pair for pair in self.wanted.pairs if pair.output == name), None)
        return self.growth.of_value(value) if kept is None else (kept.axis,)

    def _more(self, value: BlockArgument, axis: int) -> int:
        return static_shape(value)[axis] - self.full

    # -- values --------------------------------------------------------------------------------
    def _added(self, anchor: Operation, op: Operation) -> SSAValue:
        self.rewriter.insert_before(anchor, op)
        return op.results[0]

    def _weight(self, anchor: TopOperation, role: str, array: np.ndarray) -> SSAValue:
        value = self.rewriter.add_weight(
            anchor, f"{identity_of(anchor)}.{role}", np.asarray(array), like=anchor
        )
        self.pure.add(value)
        return value

    def _from(self, anchor: TopOperation, start: SSAValue, steps: np.ndarray) -> SSAValue:
        offsets = self._weight(anchor, "steps", steps)
        return self._added(anchor, BinaryOp.make([offsets, start], kind="add"))

    def _constants(self, value: SSAValue) -> np.ndarray | None:
        owner = value.owner
        return self.rewriter.weights[owner.weight.data] if isinstance(owner, WeightOp) else None

    def _constant(self, value: SSAValue) -> int | None:
        found = self._constants(value)
        return int(found.item()) if found is not None and found.size == 1 else None


def _before_bias(op: SoftmaxOp) -> tuple[TopOperation, int]:
    """Which operand the scores are: of the softmax, or of the sum with a bias in front of it, so
    that attention is found in its usual form. Minus infinity stays what it is in a sum."""
    added = op.operands[0].owner
    if (
        not isinstance(added, BinaryOp)
        or added.get("kind") != "add"
        or not added.output.has_one_use()
    ):
        return op, 0
    whole = shape_of(added.output)
    products = [i for i, o in enumerate(added.operands) if _is_product(o) and shape_of(o) == whole]
    return (added, products[0]) if len(products) == 1 else (op, 0)


def _is_product(value: SSAValue) -> bool:
    """Whether it is a product of matrices, perhaps with a factor."""
    owner = value.owner
    while isinstance(owner, BinaryOp) and owner.get("kind") in ("mul", "div"):
        large = [o for o in owner.operands if shape_of(o) == shape_of(owner.output)]
        if len(large) != 1:
            return False
        owner = large[0].owner
    return isinstance(owner, MatMulOp)


def _moved_axes(op: ReshapeOp | ExpandOp, axes: Sequence[int]) -> tuple[int, ...]:
    """Where axes of the operand are in the result; without those that are joined with others."""
    before, after = static_shape(op.operands[0]), static_shape(op.results[0])
    if isinstance(op, ExpandOp):
        return tuple(axis + len(after) - len(before) for axis in axes)
    found = []
    for axis in axes:
        for place, size in enumerate(after):
            if size == before[axis] and prod(after[:place]) == prod(before[:axis]):
                found.append(place)
                break
    return tuple(found)


def _read(op: TopOperation) -> list[SSAValue]:
    return [operand for inner in op.walk() for operand in inner.operands]
