"""Movement of dequantized tensors is movement of their integers.

   %x = top.dequantize(%q) {to = f32}
   %y = top.transpose(%x) {permutation = [0, 2, 1]}
=> %m = top.transpose(%q) {permutation = [0, 2, 1]}
   %y = top.dequantize(%m) {to = f32}
"""

from __future__ import annotations

import numpy as np

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement import (
    ConcatOp,
    ExpandOp,
    MovementOperation,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.quantized_scalars import real_array, stored_array
from explorer.ir.types import QuantizedType
from explorer.passes.matching import maker

MOVES = (ReshapeOp, TransposeOp, SliceOp, ExpandOp, GatherOp, PadOp, ConcatOp, PoolOp)
CARRIED = (ReshapeOp, TransposeOp)
"""Moves that take every element exactly once: those of a shuffle of channels."""


class MoveIntegers(Rule):
    """transpose(dequantize(x))   =>   dequantize(transpose(x))

    Applies to reshape, transpose, slice, expand, gather, concat of tensors of one quantized type,
    maximum pools, and pads with a number that an integer stands for. Pays because integers are
    narrower, and a quantization behind meets the dequantization. Exact.
    """

    matches = MOVES

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        makers = [maker(operand, DequantizeOp) for operand in moved(op)]
        found = [m for m in makers if m is not None]
        if not found or (isinstance(op, PoolOp) and op.get("kind") != "max"):
            return
        kinds = {m.parameters for m in found}
        if len(found) < len(makers) or len(kinds) > 1 or len({m.to for m in found}) > 1:
            raise Declined(f"{identity_of(op)} joins numbers of several types")
        (kind,) = kinds
        changes: dict[str, object] = {}
        if isinstance(op, PadOp):
            changes["value"] = _stored_fill(op, kind)
        if isinstance(op, ConcatOp):
            changes["inputs"] = [m.input for m in found]
        else:
            changes["input"] = found[0].input
        if isinstance(op, PoolOp | GatherOp) and not kind.is_per_tensor:
            raise Declined(f"{identity_of(op)} moves numbers with a scale per slice")
        try:
            new = op.altered(**changes)  # pyright: ignore[reportArgumentType]
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


def moved(op: TopOperation):
    """The operands whose elements an operation moves."""
    return op.moved_operands() if isinstance(op, MovementOperation) else (op.operands[0],)


def _stored_fill(op: PadOp, kind: QuantizedType) -> float:
    """The integer that stands for what is padded with; Declined where none does exactly."""
    if not kind.is_per_tensor:
        raise Declined(f"{identity_of(op)} pads numbers with a scale per slice")
    value = np.array(op.get("value"), np.float32)
    stored = stored_array(value, kind)
    if not np.isfinite(value) or real_array(stored, kind) != value:
        raise Declined(f"no integer stands for {value:g}, which {identity_of(op)} pads with")
    return float(stored)
