"""Products of narrow floats are computed in single precision, and what lies between stays there.

    %y = top.matmul(%a, %b) : tensor<8x8xf16>
 => %1 = top.cast(%a) {to = f32}; %2 = top.cast(%b) {to = f32}
    %3 = top.matmul(%1, %2) : tensor<8x8xf32>
    %y = top.cast(%3) {to = f16}

That is what the operation means anyway (`explorer.ir.top.arithmetic`); but now each element is
widened once, and not in every product that it takes part in.

    %3 = top.conv(%x, %v) : tensor<1x8x6x6xf32>
    %4 = top.cast(%3) {to = f16}
    %5 = top.pool(%4) {kind = "max", ...} : tensor<1x8x3x3xf16>
    %6 = top.cast(%5) {to = f32}
    %7 = top.conv(%6, %w) : tensor<1x8x3x3xf32>
 => %3 = top.conv(%x, %v) {rounding = f16} : tensor<1x8x6x6xf32>
    %5 = top.pool(%3) {kind = "max", ...} : tensor<1x8x3x3xf32>
    %7 = top.conv(%5, %w) : tensor<1x8x3x3xf32>

Every tensor has the numbers of its narrow type as before, bit by bit: a product rounds its result
before it is stored, and what only moves or compares numbers makes no others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.interfaces import KeepsNumbers
from explorer.ir.operation import TopOperation
from explorer.ir.origins import origins_of, set_origins
from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.casting import CastOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import (
    arithmetic_type,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
    widened,
)
from explorer.ir.weights import Weights
from explorer.passes.analysis.matching import (
    constant,
    is_constant,
    is_used_once,
    maker,
    require_single_use,
    weight_name,
)
from explorer.targets.capabilities import ORDINARY, Capabilities

PRODUCTS = (ConvOp, MatMulOp)
PAIR = 2
"""Products that are added at once to each of 4, 8 or 16 sums."""
NARROWEST_VECTOR = 4
ROUNDED = (Float16Type(), BFloat16Type())
"""Types that vectors of floats are rounded to; of narrower ones each element is a call."""


@dataclass(frozen=True)
class WidenProducts(Rule):
    """matmul(a : f16, b : f16)   =>   cast(matmul(cast(a) : f32, cast(b) : f32)) : f16

    Applies to convolutions and matrix products of elements that are only stored narrow (f16,
    bf16), but not to rows of bf16 times a constant matrix where the target adds up pairs of such
    products; constants are widened at once. Pays because the tiled kernels for f32 serve for them.
    """

    capabilities: Capabilities = ORDINARY
    matches = PRODUCTS

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        own = element_type_of(op.output)
        if arithmetic_type(own) == own:
            return
        if self.capabilities.multiplies_bf16 and _is_product_of_pairs(op, rewriter):
            return
        names = [name for name, _ in op.get_irdl_definition().operands]
        present = {name: getattr(op, name) for name in names}
        wide = {n: _widened(v, op, rewriter) for n, v in present.items() if v is not None}
        product = op.altered(**wide)
        rewriter.insert_before(op, product)
        rewriter.replace(op, CastOp.make([product.output], to=own))


class RoundInProduct(Rule):
    """cast(cast(conv(x, w)) : f16) : f32   =>   conv(x, w) {rounding = f16}

    Applies to convolutions and matrix products that nothing reads before they are rounded to f16
    or bf16, and to what was rounded before. Pays because two passes over the result are saved: it
    is rounded while it is still in registers.
    """

    matches = (CastOp,)

    def rewrite(self, op: CastOp, rewriter: RecordedRewriter) -> None:
        narrowing = _narrowing(op.input)
        if narrowing is None or element_type_of(narrowing.input) != op.to:
            return
        if _is_rounded(narrowing.input, narrowing.to, rewriter.weights):
            rewriter.replace(op, narrowing.input)
            return
        product = narrowing.input.owner
        if isinstance(product, ConvOp | MatMulOp):
            require_single_use(product, f"it is needed as {op.to} that is not rounded, too")
            rounding = product.altered(rounding=narrowing.to)
            rewriter.replace(product, rounding, origins=origins_of(narrowing))


class MoveWide(Rule):
    """max_pool(cast(x) : f16)   =>   cast(max_pool(cast(cast(x) : f16) : f32)) : f16

    Applies to what has no other numbers than its operands (movement, maxima, relu) between
    products. Pays because the pairs of casts on both sides become the rounding of products.
    """

    matches = (KeepsNumbers,)

    def rewrite(self, op: KeepsNumbers, rewriter: RecordedRewriter) -> None:
        kind = element_type_of(op.results[0])
        if kind not in ROUNDED or not op.keeps_numbers or not _is_widened_behind(op):
            return
        for value in op.operands:
            if element_type_of(value) == kind and not _comes_wide(value, rewriter.weights):
                return
        moving = op.with_operands([_widened(value, op, rewriter) for value in op.operands])
        set_origins(moving, origins_of(op))
        rewriter.insert_before(op, moving)
        rewriter.replace(op, CastOp.make([moving.results[0]], to=kind))


def _is_product_of_pairs(op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> bool:
    """Do dot products of two bfloat16 compute it: rows times one constant matrix of whole pairs?"""
    if not isinstance(op, MatMulOp) or constant(op.right, rewriter.weights) is None:
        return False
    kinds = {element_type_of(value) for value in (op.left, op.right, op.output)}
    if kinds != {BFloat16Type()} or len(shape_of(op.right)) != 2:
        return False
    if op.residual is not None and shape_of(op.residual) != shape_of(op.output):
        return False  # matrices of a batch are not rows of one then
    depth, columns = static_shape(op.right)
    return depth > 0 and depth % PAIR == 0 and columns >= NARROWEST_VECTOR


def _widened(value: SSAValue, op: TopOperation, rewriter: RecordedRewriter) -> SSAValue:
    """The value in its arithmetic type: a constant at once, all else by a cast before `op`."""
    own = element_type_of(value)
    if not isinstance(own, AnyFloat) or arithmetic_type(own) == own:
        return value
    array = constant(value, rewriter.weights)
    if array is not None:
        assert isinstance(value.owner, Operation)
        name = weight_name(op, "wide")
        return rewriter.add_weight(op, name, widened(array), like=value.owner)
    cast = CastOp.make([value], to=arithmetic_type(own))
    rewriter.insert_before(op, cast)
    return cast.output


def _narrowing(value: SSAValue) -> CastOp | None:
    """The cast that made a number of f16 or bf16 of one of its arithmetic type."""
    cast = maker(value, CastOp)
    if cast is None or cast.to not in ROUNDED:
        return None
    return cast if element_type_of(cast.input) == arithmetic_type(cast.to) else None


def _comes_wide(value: SSAValue, weights: Weights) -> bool:
    """Is it a constant, or narrowed from what is rounded, or can be where it is computed?"""
    narrowing = _narrowing(value)
    if narrowing is None:
        return is_constant(value)
    product = narrowing.input.owner
    if isinstance(product, ConvOp | MatMulOp) and is_used_once(product):
        return product.rounded_type in (None, narrowing.to)
    return _is_rounded(narrowing.input, narrowing.to, weights)


def _is_rounded(value: SSAValue, kind: Attribute, weights: Weights) -> bool:
    """Has the value, of the arithmetic type of `kind`, numbers of `kind` only?"""
    owner = value.owner
    if isinstance(owner, ConvOp | MatMulOp):
        return owner.rounded_type == kind
    if isinstance(owner, CastOp):
        return element_type_of(owner.input) == kind
    array = constant(value, weights)
    if array is not None:
        with np.errstate(all="ignore"):
            return bool(np.all(array.astype(numpy_dtype(kind)).astype(array.dtype) == array))
    if not isinstance(owner, KeepsNumbers) or not owner.keeps_numbers:
        return False
    own = element_type_of(value)
    return all(_is_rounded(v, kind, weights) for v in owner.operands if element_type_of(v) == own)


def _is_widened_behind(op: TopOperation) -> bool:
    """Does a product read the result, or what has no other numbers than the result?"""
    kind, met = element_type_of(op.results[0]), {op}
    pending = [op]
    while pending:
        for use in pending.pop().results[0].uses:
            user = use.operation
            if isinstance(user, ConvOp | MatMulOp):
                return True
            if isinstance(user, CastOp) and user.to == arithmetic_type(kind):
                return True
            if isinstance(user, KeepsNumbers) and user not in met and user.keeps_numbers:
                met.add(user)
                pending.append(user)
    return False
