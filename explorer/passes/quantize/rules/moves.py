"""Movement of dequantized tensors is movement of their integers.

   %x = top.dequantize(%q) {to = f32}
   %y = top.transpose(%x) {permutation = [0, 2, 1]}
=> %m = top.transpose(%q) {permutation = [0, 2, 1]}
   %y = top.dequantize(%m) {to = f32}
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from explorer.ir.interfaces import Moving
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.passes.analysis.matching import maker

CARRIED = (ReshapeOp, TransposeOp)
"""Moves that take every element exactly once: those of a shuffle of channels."""


class MoveIntegers(Rule):
    """transpose(dequantize(x))   =>   dequantize(transpose(x))

    Applies to reshape, transpose, slice, expand, gather, concat of tensors of one quantized type,
    maximum pools, and pads with a number that an integer stands for. Pays because integers are
    narrower, and a quantization behind meets the dequantization. Exact.
    """

    matches = (Moving,)

    def rewrite(self, op: Moving, rewriter: RecordedRewriter) -> None:
        moved = op.moved_operands()
        found = [m for m in (maker(operand, DequantizeOp) for operand in moved) if m is not None]
        if not found:
            return
        try:
            changes = op.on_stored(found[0].parameters)
            if changes is None:
                return
            if len(found) < len(moved) or len({(m.parameters, m.to) for m in found}) > 1:
                raise Declined(f"{identity_of(op)} joins numbers of several types")
            stored: dict[SSAValue, SSAValue] = {m.output: m.input for m in found}
            new = op.with_operands([stored.get(o, o) for o in op.operands], **changes)
        except ValueError as error:
            raise Declined(f"{identity_of(op)}: {error}") from error
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        back = DequantizeOp.make([new.results[0]], to=found[0].to)
        rewriter.replace(op, back, absorbs=list(dict.fromkeys(found)))


class QuantizePartsOfConcat(Rule):
    """quantize(concat(dequantize(a), dequantize(b)))   =>   concat(quantize(dequantize(a)), ...)

    Applies where the parts have other scales than the result, or than each other, and nothing else
    reads the concat. Pays because the pairs become requantizations of narrow numbers. Exact.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        concat = maker(op.input, ConcatOp)
        if concat is None or not op.to.is_per_tensor:
            return
        if not any(isinstance(o.owner, DequantizeOp) for o in concat.operands):
            return
        if not concat.output.has_one_use():
            raise Declined(f"{identity_of(concat)} is read in real numbers, too")
        parts = []
        for operand in concat.operands:
            part = QuantizeOp.make([operand], to=op.to)
            rewriter.insert_before(op, part, like=op)
            parts.append(part.output)
        rewriter.replace(op, concat.altered(inputs=parts), absorbs=[concat])


class QuantizeBeforeMoves(Rule):
    """quantize(transpose(concat(..)))   =>   transpose(quantize(concat(..)))

    Applies to reshapes and transposes behind a concat of dequantized parts, when nothing else reads
    what is moved. Pays because the integers are moved, and the parts get quantized one by one.
    Exact.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        move = op.input.owner
        if not isinstance(move, CARRIED) or not op.to.is_per_tensor:
            return
        made = move
        while isinstance(made, CARRIED):
            if not made.output.has_one_use():
                raise Declined(f"{identity_of(made)} is read in real numbers, too")
            made = made.input.owner
        if not isinstance(made, ConcatOp):
            return
        if not any(isinstance(part.owner, DequantizeOp) for part in made.operands):
            return
        inside = QuantizeOp.make([move.input], to=op.to)
        rewriter.insert_before(op, inside, like=op)
        rewriter.replace(op, move.altered(input=inside.output), absorbs=[move])
