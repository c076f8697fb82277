"""Subscripts in the form in which they are printed: one flat, linear sum.

    affine.load %x[%c, 2 * %i + %p]  of memref<3x10xf32>      ->  c * 10 + i * 2 + p
    memref.load %x[%i, %k], %k = arith.addi %j, %one : index  ->  i * 10 + j + 1

Index arithmetic is followed through `affine.apply` and `arith` as long as it is linear; what is
not (a loaded index, a maximum) stays a term of its own, an SSA value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, NoneAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from explorer.errors import UnsupportedError
from explorer.kernels.loops.nest import index_range, kind_of

LINEAR_OPERATIONS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ConstantOp, affine.ApplyOp)


@dataclass(frozen=True)
class Division:
    """`dividend / divisor` or, if `is_remainder`, `dividend % divisor`; rounds downwards."""

    dividend: Sum
    divisor: int
    is_remainder: bool


Term = SSAValue | Division


@dataclass(frozen=True)
class Sum:
    """`sum(term * coefficient) + constant`; no coefficient is 0 and no term occurs twice."""

    terms: tuple[tuple[Term, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Sum) -> Sum:
        coefficients = dict(self.terms)
        for term, coefficient in other.terms:
            coefficients[term] = coefficients.get(term, 0) + coefficient
        kept = tuple((t, c) for t, c in coefficients.items() if c)
        return Sum(kept, self.constant + other.constant)

    def scaled(self, factor: int) -> Sum:
        if not factor:
            return Sum()
        return Sum(tuple((t, c * factor) for t, c in self.terms), self.constant * factor)

    def values(self) -> Iterator[SSAValue]:
        """The SSA values in it, those inside divisions too."""
        for term, _ in self.terms:
            if isinstance(term, Division):
                yield from term.dividend.values()
            else:
                yield term

    def is_never_negative(self) -> bool:
        """Proven from the bounds of the loops; False when not known."""
        low = self.constant
        for term, coefficient in self.terms:
            bounds = _term_range(term)
            if bounds is None:
                return False
            low += min(coefficient * bounds[0], coefficient * bounds[1])
        return low >= 0


def is_index_arithmetic(operation: Operation) -> bool:
    """Whether an operation is printed inside subscripts and never as a statement of its own."""
    if not isinstance(operation, LINEAR_OPERATIONS):
        return False
    result = operation.results[0]
    if not isinstance(result.type, IndexType):
        return False
    return sum_of(result) != Sum(((result, 1),))


def sum_of(value: SSAValue) -> Sum:
    """The linear form of an index value."""
    owner = value.owner
    itself = Sum(((value, 1),))
    match owner:
        case arith.ConstantOp() if isinstance(owner.value, IntegerAttr):
            return Sum((), owner.value.value.data)
        case arith.AddiOp():
            return sum_of(owner.lhs) + sum_of(owner.rhs)
        case arith.SubiOp():
            return sum_of(owner.lhs) + sum_of(owner.rhs).scaled(-1)
        case arith.MuliOp():
            left, right = sum_of(owner.lhs), sum_of(owner.rhs)
            if not right.terms:
                return left.scaled(right.constant)
            return itself if left.terms else right.scaled(left.constant)
        case affine.ApplyOp():
            return sum_of_expression(owner.map.data.results[0], list(owner.mapOperands))
        case _:
            return itself


def sum_of_expression(expression: AffineExpr, operands: Sequence[SSAValue]) -> Sum:
    """The linear form of an affine expression; `operands` stand for its dimensions."""
    match expression:
        case AffineConstantExpr():
            return Sum((), expression.value)
        case AffineDimExpr():
            return sum_of(operands[expression.position])
        case AffineBinaryOpExpr():
            left = sum_of_expression(expression.lhs, operands)
            right = sum_of_expression(expression.rhs, operands)
            return _combine(expression, left, right)
    raise UnsupportedError(f"affine expression {expression} has no form in generated code")


def subscripts(operation: Operation) -> list[Sum]:
    """One sum for each dimension of the buffer that a load or store accesses."""
    if isinstance(operation, memref.LoadOp | memref.StoreOp):
        return [sum_of(index) for index in operation.indices]
    assert isinstance(
        operation, affine.LoadOp | affine.StoreOp | affine.VectorLoadOp | affine.VectorStoreOp
    )
    operands = list(operation.indices)
    return [sum_of_expression(e, operands) for e in operation.map.data.results]


def flat_subscript(forms: Sequence[Sum], buffer_type: MemRefType) -> Sum:
    """The number of an element, counted in row-major order."""
    shape = static_shape(buffer_type)
    flat = Sum()
    stride = 1
    for extent, form in zip(reversed(shape), reversed(forms), strict=True):
        flat = flat + form.scaled(stride)
        stride *= extent
    return flat


def written_out_apart(form: Sum) -> tuple[Sum, Sum]:
    """(what loops add to a subscript, what those add that are written out, and the constant).

    The first is empty where nothing is to be taken apart, or where a part might be negative.
    """
    apart = tuple(entry for entry in form.terms if _is_written_out(entry[0]))
    around = Sum(tuple(entry for entry in form.terms if entry not in apart))
    inside = Sum(apart, form.constant)
    is_legal = around.is_never_negative() and inside.is_never_negative()
    return (around, inside) if apart and is_legal else (Sum(), form)


def _is_written_out(term: Term) -> bool:
    """Whether it is the index of an unrolled loop."""
    if isinstance(term, Division) or not isinstance(term.owner, Block):
        return False
    loop = term.owner.parent_op()
    return isinstance(loop, affine.ForOp) and kind_of(loop) == "unroll"


def static_shape(buffer_type: MemRefType) -> tuple[int, ...]:
    """The extents of a buffer; raises UnsupportedError when it is dynamic or has strides."""
    shape = buffer_type.get_shape()
    if any(extent < 0 for extent in shape) or not isinstance(buffer_type.layout, NoneAttr):
        raise UnsupportedError(
            f"buffer type {buffer_type} has no form in generated code",
            hint="use static extents in row-major order",
        )
    return tuple(shape)


def sum_text(
    form: Sum, text_of: Callable[[SSAValue], str], rank_of: Callable[[SSAValue], int]
) -> str:
    """`c * 10 + i * 2 + p + 1`: outer loops first (`rank_of` is small for them), constant last."""

    def rank(entry: tuple[Term, int]) -> tuple[int, int]:
        term, coefficient = entry
        if isinstance(term, Division):
            inner = max((rank_of(v) for v in term.dividend.values()), default=0)
            return inner, -abs(coefficient)
        return rank_of(term), -abs(coefficient)

    def text(term: Term) -> str:
        if not isinstance(term, Division):
            return text_of(term)
        inner = sum_text(term.dividend, text_of, rank_of)
        inner = f"({inner})" if " " in inner else inner
        if not term.dividend.is_never_negative():
            raise UnsupportedError(
                f"subscript {inner} is divided by {term.divisor} but may be negative",
                hint="shift the subscript so that it starts at 0",
            )
        return f"({inner} {'%' if term.is_remainder else '/'} {term.divisor})"

    written = ""
    for term, coefficient in sorted(form.terms, key=rank):
        factor = abs(coefficient)
        part = text(term) if factor == 1 else f"{text(term)} * {factor}"
        if not written:
            written = part if coefficient > 0 else f"-{part}"
        else:
            written += f" {'+' if coefficient > 0 else '-'} {part}"
    if not written:
        return str(form.constant)
    if form.constant:
        written += f" {'+' if form.constant > 0 else '-'} {abs(form.constant)}"
    return written


def _combine(expression: AffineBinaryOpExpr, left: Sum, right: Sum) -> Sum:
    match expression.kind:
        case AffineBinaryOpKind.Add:
            return left + right
        case AffineBinaryOpKind.Mul if not right.terms:
            return left.scaled(right.constant)
        case AffineBinaryOpKind.Mul if not left.terms:
            return right.scaled(left.constant)
        case AffineBinaryOpKind.FloorDiv if not right.terms and right.constant > 0:
            return _divided(left, right.constant, is_remainder=False)
        case AffineBinaryOpKind.CeilDiv if not right.terms and right.constant > 0:
            return _divided(left + Sum((), right.constant - 1), right.constant, False)
        case AffineBinaryOpKind.Mod if not right.terms and right.constant > 0:
            return _divided(left, right.constant, is_remainder=True)
    raise UnsupportedError(f"affine expression {expression} is not linear")


def _divided(dividend: Sum, divisor: int, is_remainder: bool) -> Sum:
    if not dividend.terms:
        quotient, remainder = divmod(dividend.constant, divisor)
        return Sum((), remainder if is_remainder else quotient)
    if divisor == 1:
        return Sum() if is_remainder else dividend
    return Sum(((Division(dividend, divisor, is_remainder), 1),))


def _term_range(term: Term) -> tuple[int, int] | None:
    if not isinstance(term, Division):
        return index_range(term)
    if not term.dividend.is_never_negative():
        return None
    # Only the lower end matters for what is asked; a remainder has an upper one as well.
    return (0, term.divisor - 1) if term.is_remainder else (0, 1 << 62)
