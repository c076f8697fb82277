"""Rows that are multiplied with weights in blocks become bytes in blocks: an opt-in loss.

    %w = top.dequantize_blocks(%qw, %sw)
             %qw : tensor<64x8x!top.quantized<i4, axis 0, block 32>>
    %y = top.matmul(%x, %w) : tensor<1x8xf32>
 => %q, %s, %t = top.quantize_blocks(%x) {block = 32}
    %r = top.dequantize_blocks(%q, %s) : tensor<1x64xf32>
    %w = top.dequantize_blocks(%qw, %sw)
    %y = top.matmul(%r, %w) : tensor<1x8xf32>

`fuse-quantization` makes one product of bytes of it. The knob `compute-in-integers/rows/OPERATION`
decides: `float` (what it is by itself), `int8`, or `stated` (`int8` where the file permits it:
MatMulNBits with accuracy_level = 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, RewriteOptions, Rule
from explorer.ir.structure import operations
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.linear.matmul_blocks import DOT, HALF_BITS
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp, QuantizeBlocksOp
from explorer.ir.types import shape_of
from explorer.passes.analysis.block_weights import (
    BlockWeight,
    block_weight,
    is_product_of_blocks,
    why_not_unpacked,
)
from explorer.results import Knob

ROWS = "rows"
FLOATS, BYTES, STATED = CHOICES = ("float", "int8", "stated")
BYTES_LEVEL = 4
"""The accuracy_level that permits bytes."""


class QuantizeRows(Rule):
    """matmul(x, dequantize_blocks(w))   =>   matmul(dequantize_blocks(quantize_blocks(x)), ...)

    Applies to products for which a knob says `int8`. A block of x has the scale max(|x|) / 127, so
    that a number errs by at most half a step of it. Pays because a dot product of bytes is one
    instruction for four products, and weights need not become floats.
    """

    matches = (MatMulOp,)

    def __init__(self, wanted: Mapping[str, str] | None = None):
        self.wanted = wanted or {}
        """Products that become bytes: why one cannot, empty where it can."""

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        name = identity_of(op)
        if name not in self.wanted or bytes_of_rows(op.left) is not None:
            return
        if self.wanted[name]:
            raise Declined(self.wanted[name])
        weight = op.right.owner
        assert isinstance(weight, DequantizeBlocksOp)
        block = weight.blocks.block_size
        real = _existing(op, block)
        if real is None:
            made = QuantizeBlocksOp.make([op.left], block=block)
            rewriter.insert_before(op, made, stem=f"{name}.bytes")
            real = DequantizeBlocksOp.make([made.output, made.scale, None])
            rewriter.insert_before(op, real, stem=f"{name}.rows")
        rewriter.set_operand(op, 0, real.output)


def bytes_of_rows(value: SSAValue) -> QuantizeBlocksOp | None:
    """What made the bytes of which a value has the real numbers; None of other values."""
    real = value.owner
    if not isinstance(real, DequantizeBlocksOp):
        return None
    made = real.input.owner
    return made if isinstance(made, QuantizeBlocksOp) and real.scale is made.scale else None


def _existing(op: MatMulOp, block: int) -> DequantizeBlocksOp | None:
    """The real numbers of the same bytes, where another product has them already."""
    for use in op.left.uses:
        made = use.operation
        if not isinstance(made, QuantizeBlocksOp) or made.get("block") != block:
            continue
        for other in made.output.uses:
            real = other.operation
            is_before = real.parent is op.parent and real.is_before_in_block(op)
            if isinstance(real, DequantizeBlocksOp) and is_before:
                return real
    return None


def row_knobs(
    head: str, rewriter: RecordedRewriter, options: RewriteOptions, multiplies_blocks: bool
) -> Iterator[tuple[Knob, str]]:
    """(knob, why its product cannot be one of bytes) of each product with weights in blocks.

    head: of the addresses. Raises InputError for a value that is none, or not legal there.
    """
    for op in operations(rewriter.module):
        if not isinstance(op, MatMulOp) or not is_product_of_blocks(op, op.right):
            continue
        weight = block_weight(op.right, rewriter.weights)
        if weight is None or why_not_unpacked(weight):
            continue
        obstacle = _why_not(op, weight) if multiplies_blocks else NO_KERNEL
        address = f"{head}/{ROWS}/{identity_of(op)}"
        asked = options.decision(address)
        if asked not in (None, *CHOICES):
            raise InputError(f"{address} cannot be {asked!r}", hint=" or ".join(CHOICES))
        level = weight.op.get("accuracy_level")
        stated = "no accuracy_level" if level is None else f"accuracy_level = {level}"
        value = FLOATS if asked is None else str(asked)
        if value == STATED:
            value = BYTES if level == BYTES_LEVEL else FLOATS
        if obstacle and value == BYTES and options.decisions.get(address) == BYTES:
            raise InputError(
                f"{address} cannot be {BYTES!r}: {obstacle}", hint=f"{FLOATS} is legal"
            )
        legal = (FLOATS,) if obstacle else CHOICES
        source = "an override" if asked is not None else "by itself rows are not rounded"
        yield Knob(address, value, legal, f"{source}; the file states {stated}"), obstacle


NO_KERNEL = "the target's kernels do not multiply bytes in blocks"


def _why_not(op: MatMulOp, weight: BlockWeight) -> str:
    """Why rows cannot be bytes in the blocks of the weight; empty where they can."""
    block, depth = weight.op.blocks.block_size, shape_of(op.left)[-1]
    together = DOT * (2 if weight.bits == HALF_BITS else 1)
    if not isinstance(depth, int) or depth % block:
        return f"{depth} rows of {identity_of(weight.op)} are no whole blocks of {block}"
    if block % together:
        return (
            f"a block of {block} is no multiple of the {together} rows that are multiplied at once"
        )
    return ""
