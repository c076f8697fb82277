"""Quantization at the ends of a kernel: it reads narrow numbers and writes narrow numbers.

   %s = top.conv(%x, %w) {...} : i32
   %q = top.requantize(%s) {by = ...} : ui8
=> %q = top.conv(%x, %w) {requantization = ..., ...} : ui8

   %y = top.conv(%x, %w) {...} : f32
   %q = top.quantize(%y) {to = ...} : ui8
=> %q = top.conv(%x, %w) {to = ..., ...} : ui8
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.passes.analysis.matching import maker, require_single_use

F32 = Float32Type()


class FuseRequantize(Rule):
    """requantize(conv(x, w))   =>   conv(x, w) {requantization}

    Applies after a convolution or matmul of integers, or one of f32 that is quantized, which
    nothing else reads; a bitcast that changes scales may follow one of f32 (`taken_as`). Pays
    because sums are requantized while they are still in registers: no i32 is stored.
    """

    matches = (RequantizeOp,)

    def rewrite(self, op: RequantizeOp, rewriter: RecordedRewriter) -> None:
        bits = maker(op.input, BitcastOp)
        linear = op.input.owner if bits is None else bits.input.owner
        if not isinstance(linear, ConvOp | MatMulOp):
            return
        if bits is not None and linear.result_type is None:
            return
        if linear.requantizes is not None:
            raise Declined(f"{identity_of(linear)} is requantized already")
        steps = [linear] if bits is None else [bits, linear]
        for step in steps:
            require_single_use(step, "its sums are needed as they are, too")
        taken_as = None if linear.result_type in (None, op.parameters) else op.parameters
        if taken_as is not None and taken_as.axis_number not in (-1, linear.channel_axes()[1]):
            raise Declined(f"scales of {identity_of(op)} run along another axis than channels")
        new = linear.altered(requantization=op.by, taken_as=taken_as)
        rewriter.replace(op, new, absorbs=steps)


class WriteIntegers(Rule):
    """quantize(sigmoid(x))   =>   sigmoid(x) {to}

    Applies to elementwise functions of one or two numbers, convolutions and matmuls (f32) that
    nothing else reads, where the result has one scale. Pays because the result is rounded in
    registers: no f32 is stored.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        inner = op.input.owner
        if not isinstance(inner, UnaryOp | BinaryOp | ConvOp | MatMulOp):
            return
        if inner.result_type is not None:
            return
        if element_type_of(inner.output) != F32 or not op.to.is_per_tensor:
            raise Declined(f"{identity_of(inner)} gives no f32, or {identity_of(op)} many scales")
        if isinstance(inner, ConvOp | MatMulOp):
            _require_plain(inner)
        require_single_use(inner, "its real numbers are needed, too")
        rewriter.replace(op, inner.altered(to=op.to), absorbs=[inner])


class ReadIntegers(Rule):
    """sigmoid(dequantize(x))   =>   sigmoid(x)

    Applies to elementwise functions of numbers with one scale. Pays because narrow numbers are
    read and made real in registers: no f32 is stored. Exact.
    """

    matches = (UnaryOp, BinaryOp)

    def rewrite(self, op: UnaryOp | BinaryOp, rewriter: RecordedRewriter) -> None:
        makers = {n: maker(getattr(op, n), DequantizeOp) for n in _operand_names(op)}
        found = {
            name: m
            for name, m in makers.items()
            if m is not None and m.parameters.is_per_tensor and m.to == F32
        }
        if not found:
            return
        kinds = [element_type_of(operand) for operand in op.operands]
        if any(kind != F32 and not isinstance(kind, QuantizedType) for kind in kinds):
            return
        new = op.altered(**{name: m.input for name, m in found.items()})
        rewriter.replace(op, new, absorbs=list(dict.fromkeys(found.values())))


def _require_plain(linear: ConvOp | MatMulOp) -> None:
    """Declined for products that `to` does not apply to, or that would take more bytes with it."""
    name = identity_of(linear)
    if linear.sums is not None:
        raise Declined(f"{name} makes its real numbers of sums of integers")
    if linear.rounded_type is not None:
        raise Declined(f"{name} rounds to a narrower float")
    if linear.residual is not None:
        raise Declined(f"the result of {name} takes the place of its residual, which is as wide")


def _operand_names(op: UnaryOp | BinaryOp) -> tuple[str, ...]:
    return ("input",) if isinstance(op, UnaryOp) else ("left", "right")
