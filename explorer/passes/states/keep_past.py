"""A past that grows becomes a state with a capacity; how much of it is valid is a number.

    func @main(%ids, %past: tensor<1x4x?x16, dims = [.., "past", ..]>)       capacity = 8
      %present = top.concat(%past, %new) {axis = 2}
 => func @main(%ids, %past: tensor<1x4x8x16>, %past_length: tensor<i64>)
      %rows = top.binary(%past_length, [0, 1 ..]) {kind = "add"}
      %present = top.scatter_elements(%past, %rows, %new) {axis = 2}

New rows are written after the valid ones, so that place and position are one number. Everything
else is compiled for the full capacity, and loops of kernels end with the valid rows where masks say
so (`find_extents.py`):

- what the model computes from the past's size as a *size* is the capacity, as a *number*
  (positions, ends of masks) the valid length;
- a softmax over keys gets minus infinity where nothing is valid, so that the products after it
  read zeros.

Where something else mixes elements of the axis that grows, the pass refuses with the operation.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.evaluation import (
    INPUT_NAMES,
    entry_function,
    full_masks,
    input_names,
    output_names,
)
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.states import StateRecord, set_states, states_of
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.indexing import ScatterElementsOp
from explorer.ir.top.movement.reshape import ExpandOp
from explorer.ir.types import element_type_of, static_shape, tensor_type
from explorer.ir.valid_length import VALID_LENGTH, length_attribute
from explorer.passes.simplify.fold_constants import FoldConstants
from explorer.passes.sizes.bind_dimensions import BindDimensions
from explorer.passes.states.editing import Editing
from explorer.passes.states.growth import GrowingPair, Growth, Refused
from explorer.passes.states.past_sizes import PastSizes
from explorer.passes.states.stacked_past import StackedPast
from explorer.passes.states.valid_rows import ValidRows
from explorer.results.program import GrowingValue, ValidLength

LENGTH = "past_length"


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
        growth = Growth.of(function, self.pairs, self.sizes)
        bound = BindDimensions(self.sizes, 1).run(rewriter, options)
        keeping = _Keeping(self, function, growth, rewriter, options)
        keeping.run()
        return [*bound, *keeping.rewrites]


class _Keeping:
    def __init__(
        self,
        wanted: KeepPast,
        function: func.FuncOp,
        growth: Growth,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
    ) -> None:
        self.wanted, self.function, self.growth = wanted, function, growth
        self.rewriter, self.options = rewriter, options
        self.events = EventLog(wanted.name, rewriter)
        self.rewrites: list[Rewrite] = []
        self.block = function.body.block
        self.edit = Editing(growth, rewriter, self.events)
        self.states: dict[Operation, GrowingPair] = {}

    def run(self) -> None:
        names = list(input_names(self.function))
        arguments = dict(zip(names, self.block.args, strict=True))
        self.pasts: dict[str, SSAValue] = {
            pair.input: arguments[pair.input] for pair in self.wanted.pairs
        }
        past = self.growth.of_value(next(iter(self.pasts.values())))
        first = next(iter(self.wanted.pairs))
        if past != (first.axis,):
            raise Refused("its size does not grow")
        self.full = static_shape(self.pasts[first.input])[first.axis]
        """Rows of the past when the state is full."""
        self.length_name = LENGTH
        while self.length_name in names:
            self.length_name += "_"
        self.length = self.block.insert_arg(tensor_type(i64, ()), len(self.block.args))
        self.length.name_hint = self.rewriter.names.fresh(LENGTH)
        returned = zip(output_names(self.function), self._return().operands, strict=True)
        self.known = {name: self.growth.of_value(value) for name, value in returned}
        """Axes of outputs, which may become constants."""
        sizes = PastSizes(self.edit, self.length, self.full)
        for op in self._operations(sizes.content):
            sizes.number(op)
        # What is a size and no number is a constant now; it makes all shapes known.
        folding = FoldConstants().run(self.rewriter, self.options)
        self._find_states()
        valid = ValidRows(self.edit, self.length, self.wanted.capacity, self.rows, sizes.places)
        for op in self._operations(sizes.content):
            if op in self.states:
                self._append(op, self.states[op])
            else:
                valid.visit(op)
        self._finish(names)
        self.rewrites = [*folding, *self.events.rewrites]

    def _operations(self, content: Container[SSAValue]) -> list[TopOperation]:
        found = [op for op in self.block.ops if isinstance(op, TopOperation)]
        for op in found:
            if op.regions and any(self.growth.of_value(o) or o in content for o in _read(op)):
                raise Refused("a loop or a branch reads what grows", op)
        return [op for op in found if not op.regions]

    def _find_states(self) -> None:
        returned = dict(zip(output_names(self.function), self._return().operands, strict=True))
        rows = set()
        for pair in self.wanted.pairs:
            past, made = self.pasts[pair.input], returned[pair.output]
            op = self._append_of(pair, past, made)
            if op is None:
                raise Refused(f"{pair.output} is not {pair.input} with new rows after it")
            self.states[op] = pair
            rows.add(static_shape(op.operands[1])[pair.axis])
            strange = next((use.operation for use in past.uses if use.operation is not op), None)
            if strange is not None:
                raise Refused(f"{pair.input} is read without its new rows", strange)
        if len(rows) != 1:
            raise Refused("calls add different numbers of rows to them")
        (self.rows,) = rows
        if self.full + self.rows != self.wanted.capacity:
            raise Refused(f"{self.full} and {self.rows} rows are not the capacity")

    def _append_of(self, pair: GrowingPair, past: SSAValue, made: SSAValue) -> Operation | None:
        """What joins new rows to a past; made of several that do so for its parts."""
        stack = StackedPast(past, pair.axis, self.edit)
        parts = stack.parts(made)
        if not parts:
            return None
        last = made.owner
        assert isinstance(last, Operation)
        with self.events.rewrite("stack", last, "new rows of all parts are appended once"):
            op = last if made in parts else stack.append_once(made, parts)
            stack.erase_unread()
        return op

    def _return(self) -> ReturnOp:
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        return last

    def _append(self, op: TopOperation, pair: GrowingPair) -> None:
        past, new = op.operands
        shape = static_shape(new)
        offsets = np.arange(self.rows, dtype=np.int64).reshape(
            [-1 if axis == pair.axis else 1 for axis in range(len(shape))]
        )
        why = f"new rows go after the valid ones of {self.wanted.capacity}"
        with self.events.rewrite("append", op, why):
            offset = self.edit.weight(op, "offsets", offsets)
            places = self.edit.added(op, BinaryOp.make([offset, self.length], kind="add"))
            whole = self.edit.added(op, ExpandOp.make([places, None], shape=list(shape)))
            full = [*static_shape(past)]
            full[pair.axis] = self.wanted.capacity
            past = self.rewriter.set_type(past, tensor_type(element_type_of(past), full))
            scatter = ScatterElementsOp.make([past, whole, new], axis=pair.axis, reduction="none")
            axes = self.growth.of_value(op.results[0])
            self.rewriter.replace(op, scatter)
            self.growth.give(scatter.output, axes)
        self.pasts[pair.input] = past

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
            GrowingValue(name, axes[0], self._more(value, axes[0]))
            for name, value in zip(output_names(function), self._return().operands, strict=True)
            if (axes := self._output_axes(name, value))
        ]
        masks = full_masks(function)
        growing = {value.name for value in inputs}
        fixed = next((mask for mask in masks if mask not in growing), None)
        if fixed is not None:
            raise Refused(f"the mask {fixed!r} counts tokens and does not grow")
        length = ValidLength(
            self.length_name,
            self.wanted.capacity,
            self.rows,
            tuple(inputs),
            tuple(outputs),
            full_masks=masks,
        )
        with self.events.rewrite("keep", function, f"a capacity of {self.wanted.capacity} rows"):
            rewriter.set_attribute(function, VALID_LENGTH, length_attribute(length))
            kept = [StateRecord(pair.input, pair.output) for pair in self.wanted.pairs]
            set_states(function, [*states_of(function), *kept])
        rewriter.update_signature(function)

    def _output_axes(self, name: str, value: SSAValue) -> tuple[int, ...]:
        kept = next((pair for pair in self.wanted.pairs if pair.output == name), None)
        return self.known[name] or self.growth.of_value(value) if kept is None else (kept.axis,)

    def _more(self, value: SSAValue, axis: int) -> int:
        return static_shape(value)[axis] - self.full


def _read(op: TopOperation) -> list[SSAValue]:
    return [operand for inner in op.walk() for operand in inner.operands]
