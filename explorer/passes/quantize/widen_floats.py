"""A float program that is going to be quantized has single precision, whatever it is stored in.

    %y = top.conv(%x, %w) : tensor<1x8x6x6xf16>          %x: an input
 => %c = top.cast(%x) {to = f32}
    %y = top.conv(%c, %v) : tensor<1x8x6x6xf32>          %v = top.weight() {weight = "w.wide"}

Integers take the place of most narrow floats behind it, and scales and what stays float are f32.
Inputs and outputs keep their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from explorer.ir.evaluation import entry_function, entry_return, input_names
from explorer.ir.origins import Origin, origin_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.types import arithmetic_type, element_type_of, shape_of, tensor_type, widened


@dataclass(frozen=True)
class WidenFloats(Pass):
    """Tensors of half precision and of bfloat16 become those of single precision.

    They are as near to the model as its own rounding, or nearer. A program that decides what it
    computes (branches, loops) stays as it is.
    """

    name = "widen-floats"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        operations = list(function.body.block.ops)
        values = [*function.body.block.args, *(r for op in operations for r in op.results)]
        if not any(_is_narrow(value) for value in values):
            return events.rewrites
        deciding = [op for op in operations if op.regions]
        if deciding:
            events.decline("widen", deciding[0], "it decides what is computed")
            return events.rewrites
        with events.rewrite("widen", function, "computed in single precision from here on"):
            _widen_ends(function, rewriter)
            for op in operations:
                if isinstance(op, WeightOp):
                    _widen_weight(op, rewriter)
                elif op.results:
                    _widen_results(op, rewriter)
        return events.rewrites


def _widen_ends(function: func.FuncOp, rewriter: RecordedRewriter) -> None:
    """Casts behind inputs and before outputs."""
    block = function.body.block
    first, end = block.first_op, entry_return(function)
    assert first is not None
    returned = [element_type_of(value) for value in end.operands]
    for argument, name in zip(block.args, input_names(function), strict=True):
        if _is_narrow(argument):
            cast = CastOp.make([argument], to=_wide(argument))
            rewriter.insert_before(first, cast, like=first)
            rewriter.replace_uses(argument, cast.output)
            rewriter.set_operand(cast, 0, argument)
            rewriter.set_origins(cast, [Origin(name)])
    for index, value in enumerate(end.operands):
        if _is_narrow_type(returned[index]):
            cast = CastOp.make([value], to=returned[index])
            rewriter.insert_before(end, cast)
            rewriter.set_origins(cast, [origin_of(value)])
            if isinstance(value, OpResult):
                # The model's tensor is what has its type; before that it is nearer to exact.
                others = [None if r is value else origin_of(r) for r in value.op.results]
                rewriter.set_origins(value.op, others)
            rewriter.set_operand(end, index, cast.output)


def _widen_weight(op: WeightOp, rewriter: RecordedRewriter) -> None:
    if _is_narrow(op.output):
        array = rewriter.weights[op.weight.data]
        wide = rewriter.add_weight(op, f"{op.weight.data}.wide", widened(array), like=op)
        rewriter.replace_uses(op.output, wide)
        rewriter.erase(op)


def _widen_results(op: Operation, rewriter: RecordedRewriter) -> None:
    """The operation itself: the types that it names, and those of its results."""
    narrow: dict[str, Any] = {  # as properties are given
        name: arithmetic_type(kind) for name, kind in op.properties.items() if _is_narrow_type(kind)
    }
    if narrow:
        rewriter.update(op, **narrow)
    for result in list(op.results):
        if _is_narrow(result):
            rewriter.set_type(result, tensor_type(_wide(result), shape_of(result)))
    if isinstance(op, CastOp) and op.input.type == op.output.type:
        rewriter.replace(op, op.input)


def _is_narrow(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and _is_narrow_type(element_type_of(value))


def _is_narrow_type(kind: Attribute) -> bool:
    return isinstance(kind, AnyFloat) and arithmetic_type(kind) != kind


def _wide(value: SSAValue) -> Attribute:
    return arithmetic_type(element_type_of(value))
