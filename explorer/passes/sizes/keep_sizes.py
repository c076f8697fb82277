"""Keeping sizes: any number of dimensions stay open, and one program is right for all their sizes.

    func @main(%x: tensor<?x?x32xf32, dims = ["batch", "seq", ""]>)     batch 1..4, seq 1..8
      %s = top.softmax(%scores) {axis = 3}                              (batch, 4, seq, seq)
 => func @main(%x: tensor<4x8x32xf32>, %valid: tensor<8xi1>)            true for the first seq
      %masked = top.select(%valid, %scores, -inf)
      %s = top.softmax(%masked) {axis = 3}                              (4, 4, 8, 8)

Everything is compiled for the largest sizes. A call uses the first elements of each open axis:

- what the model computes from a size as a *size* is the largest one, as a *number* the call's;
- an operation that mixes elements along an open axis reads a neutral number where a call has
  none (0 for sums and products, minus infinity for a softmax or a maximum);
- a concatenation, and what counts from the end of an axis, gathers from where the call's elements
  end.

An operation for which none of that is known is refused with its name. Numbers and masks of a call
are inputs of their own (`explorer/ir/sizes/calls.py` makes them from the arrays).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from explorer.errors import RangeError
from explorer.ir.evaluation import INPUT_NAMES, entry_function, input_names, output_names
from explorer.ir.interfaces import RowWise
from explorer.ir.open_sizes import OPEN_SIZES, sizes_attribute
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import SizeRange
from explorer.ir.sizes.symbols import parse
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import element_type_of, is_static, size_bytes, static_shape
from explorer.passes.sizes.bind_dimensions import BindDimensions, named_shapes
from explorer.passes.sizes.call_numbers import CallNumbers, Factors
from explorer.passes.sizes.open_axes import MixedAxis
from explorer.passes.sizes.open_operations import OpenOperations
from explorer.passes.sizes.open_shapes import OpenNames, OpenShapes
from explorer.passes.sizes.write_out_control import NotWrittenOut, WriteOutControl
from explorer.results.program import OpenAxis, OpenSizes

MAX_BYTES = 2**40
"""Of values that live at one time; more fit no memory, and are refused before compiling."""


@dataclass(frozen=True)
class KeepSizes(Pass):
    """Dimensions stay open between two sizes each; a call says them with its arrays."""

    ranges: tuple[SizeRange, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of all dimensions; the largest of a range."""

    name = "keep-sizes"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        names = OpenNames.of(function, self.ranges, self.sizes)
        writing = WriteOutControl(function, names, rewriter, events)
        try:
            writing.run()
        except NotWrittenOut as error:
            raise self.refused(str(error), error.op) from None
        known = OpenShapes.of(function, rewriter.weights, self.ranges, self.sizes)
        # Some models are imported at the sizes of the dimensions that have one.
        shown = {str(d) for shape in named_shapes(function).values() for d in shape}
        left = shown | {name for dimension in shown for name in parse(dimension).names}
        sizes = {name: size for name, size in self.sizes.items() if name in left}
        bound = BindDimensions(sizes, 1).run(rewriter, options)
        keeping = _Keeping(self, function, known, rewriter)
        keeping.axes.guards = writing.guards
        keeping.replace_numbers()
        keeping.visit_operations()
        keeping.finish()
        return [*events.rewrites, *bound, *keeping.events.rewrites]

    def refused(self, reason: str, op: TopOperation) -> RangeError:
        names = " and ".join(repr(found.name) for found in self.ranges)
        single = " ".join(f"--dim {found.name}={found.highest}" for found in self.ranges)
        return RangeError(
            f"one program for a range of {names} is not possible: {op.name} {identity_of(op)}: "
            f"{reason}",
            node=", ".join(sources_of(op)),
            hint=f"give one size: {single}; a session compiles for each size that comes",
        )


class _Keeping:
    def __init__(
        self,
        wanted: KeepSizes,
        function: func.FuncOp,
        known: OpenShapes,
        rewriter: RecordedRewriter,
    ) -> None:
        self.wanted, self.function, self.known, self.rewriter = wanted, function, known, rewriter
        self.events = EventLog(wanted.name, rewriter)
        self.block = function.body.block
        self.names = list(input_names(function))
        self.numbers = CallNumbers(function, rewriter, self.names)
        self.axes = OpenOperations(known, self.numbers, self.events)
        for argument in self.block.args:
            self.axes.give_by_name(argument)

    # -- sizes and numbers -----------------------------------------------------------------------
    def replace_numbers(self) -> None:
        """Operands that open sizes decide are the call's, where they are numbers and no sizes."""
        for op in self._operations():
            if op.regions:
                self._refuse_inside(op)
                continue
            if isinstance(op, WeightOp | ShapeOp) or self._is_arithmetic_of_sizes(op):
                continue
            for index in _numbers(op):
                contents = self.known.contents.get(value_name(op.operands[index]))
                if contents is None:
                    continue
                with self.events.rewrite("number", op, "as a number it is the call's"):
                    kind = element_type_of(op.operands[index])
                    value = self.numbers.array(op, contents, kind)
                    self.rewriter.set_operand(op, index, value)
                if isinstance(op, SliceOp | RangeOp):
                    self.axes.begins[value] = contents

    def _is_arithmetic_of_sizes(self, op: TopOperation) -> bool:
        """Whether all results are known from sizes; then they are replaced where they are read."""
        return bool(op.results) and all(value_name(r) in self.known.contents for r in op.results)

    def _refuse_inside(self, op: TopOperation) -> None:
        read = [operand for inner in op.walk() for operand in inner.operands]
        if any(self.known.of_value(v) or value_name(v) in self.known.contents for v in read):
            raise self.wanted.refused("a loop or a branch reads what is open", op)

    # -- operations ------------------------------------------------------------------------------
    def visit_operations(self) -> None:
        for op in self._operations():
            if op.regions or isinstance(op, WeightOp | ReturnOp | ShapeOp):
                continue
            if self._is_arithmetic_of_sizes(op):
                continue
            try:
                self.axes.visit(op)
            except MixedAxis as error:
                raise self.wanted.refused(str(error), op) from None

    def _operations(self) -> list[TopOperation]:
        return [op for op in self.block.ops if isinstance(op, TopOperation)]

    # -- the end ---------------------------------------------------------------------------------
    def finish(self) -> None:
        function, rewriter = self.function, self.rewriter
        added = list(self.numbers.inputs.items())
        every = [*self.names, *self.numbers.added_names]
        function.attributes[INPUT_NAMES] = ArrayAttr([StringAttr(name) for name in every])
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        own = (("equal", *sides, op) for sides, op in self.axes.relations.items())
        sizes = OpenSizes(
            ranges=tuple((r.name, r.lowest, r.highest) for r in self.wanted.ranges),
            numbers=tuple((name, text) for text, (name, _) in added),
            masks=tuple(self.numbers.masks),
            inputs=self._ports(self.names, self.block.args[: len(self.names)]),
            outputs=self._ports(output_names(function), last.operands),
            relations=(*self.known.relations, *own),
            extents=self.axes.extents(),
            gathered=tuple(self.axes.gathered),
        )
        ranges = ", ".join(str(found) for found in self.wanted.ranges)
        most = live_bytes(self.block)
        if most > MAX_BYTES:
            raise RangeError(
                f"one program for {ranges} takes about {most:,} bytes for its values at the "
                f"largest sizes, of at most {MAX_BYTES:,}",
                hint="give smaller ranges; a session compiles for each size that comes",
            )
        explanation = f"{ranges}: one program for all sizes, about {most:,} bytes of values"
        with self.events.rewrite("keep", function, explanation):
            rewriter.set_attribute(function, OPEN_SIZES, sizes_attribute(sizes))
        rewriter.update_signature(function)

    def _ports(self, names: Sequence[str], values: Sequence[SSAValue]) -> tuple[OpenAxis, ...]:
        return tuple(
            OpenAxis(name, axis, _as_texts(factors))
            for name, value in zip(names, values, strict=True)
            for axis, factors in sorted(self.axes.of(value).items())
            if axis < len(static_shape(value))
        )


def live_bytes(block: Block) -> int:
    """The most bytes of results that live at one time, in the order of the operations."""
    last: dict[SSAValue, int] = {}
    operations = list(block.ops)
    for place, op in enumerate(operations):
        last |= dict.fromkeys([*op.operands, *op.results], place)
    most = live = 0
    for place, op in enumerate(operations):
        if not isinstance(op, WeightOp):
            live += sum(size_bytes(result) for result in op.results if is_static(result))
        most = max(most, live)
        for value in dict.fromkeys([*op.operands, *op.results]):
            made = value.owner
            if last[value] == place and is_static(value) and isinstance(made, Operation):
                live -= 0 if isinstance(made, WeightOp) else size_bytes(value)
    return most


def _numbers(op: TopOperation) -> Sequence[int]:
    """The operands that are numbers and no sizes."""
    if isinstance(op, RangeOp):
        return (0, 2)
    count = len(op.operands)
    if isinstance(op, SliceOp):
        return (0, 1) if count > 1 else (0,)
    end = op.SIZES_FROM if isinstance(op, RowWise) else None
    return range(count)[:end]


def _as_texts(factors: Factors) -> tuple[tuple[int, str], ...]:
    return tuple((largest, str(expression)) for largest, expression in factors)
