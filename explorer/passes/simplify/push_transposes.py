"""Transposes and reshapes move towards the outputs until they meet and cancel.

    %1 = top.transpose(%x) {permutation = [0, 2, 3, 1]} : tensor<1x8x8x3xf32>
    %2 = top.unary(%1) {kind = "relu"} : tensor<1x8x8x3xf32>
    %3 = top.transpose(%2) {permutation = [0, 3, 1, 2]} : tensor<1x3x8x8xf32>
 => %3 = top.unary(%x) {kind = "relu"} : tensor<1x3x8x8xf32>

A transpose passes an operation when that makes the transposed bytes no more: all operands come
through the same transpose (or are constants, which are permuted now), and what is transposed
behind the operation is not larger. Every step takes an operation out from under a transpose and
adds no transpose, so that the pass ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.interfaces import Permutable, Permutation, Permuted, inverse
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    shape_of,
    size_bytes,
)
from explorer.passes.analysis.matching import constant, is_constant, maker, uses
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.linear.joined_convolutions import JoinConvolutions
from explorer.passes.simplify.linear.matmul_forms import MATMUL_RULES
from explorer.passes.simplify.linear.scale_behind import ScaleOperand
from explorer.passes.simplify.movement.reshapes import SinkReshape
from explorer.passes.simplify.simplify_movement import MOVEMENT_RULES


@dataclass(frozen=True)
class _Plan:
    """All that is needed to compute an operation in the order of its transposes' inputs."""

    permuted: Permuted
    transposes: tuple[TransposeOp, ...]
    permutation: Permutation


def _plan(op: Permutable) -> _Plan | None:
    """None where no operand is transposed; Declined where the others do not follow."""
    transposes = {o.owner: None for o in op.operands if isinstance(o.owner, TransposeOp)}
    if not transposes:
        return None
    permutation = next(iter(transposes)).get("permutation")
    for operand in op.operands:
        reason = _why_not_permuted(op, operand, permutation)
        if reason:
            raise Declined(reason)
    if not is_static(op.results[0]):
        raise Declined(f"the shape of {identity_of(op)} is not known yet")
    try:
        permuted = op.permuted(permutation)
    except ValueError as error:
        raise Declined(f"{identity_of(op)}: {error}") from None
    return _Plan(permuted, tuple(transposes), permutation)


def _why_not_permuted(op: Permutable, operand: SSAValue, permutation: Permutation) -> str:
    rank = len(permutation)
    name = identity_of(op)
    transpose = maker(operand, TransposeOp)
    if transpose is not None:
        if transpose.get("permutation") != permutation:
            return f"the operands of {name} are transposed in different ways"
        return ""
    if len(shape_of(operand)) > rank:
        return f"an operand of {name} has more axes than are transposed"
    if is_constant(operand) or (op.BROADCASTS and _is_single_element(operand)):
        return ""
    other = operand.owner
    named = identity_of(other) if isinstance(other, TopOperation) else "an input"
    return f"{named}, another operand of {name}, is not transposed"


def _is_single_element(value: SSAValue) -> bool:
    return all(size == 1 for size in shape_of(value))


def _permuted_operand(
    op: Permutable, operand: SSAValue, plan: _Plan, rewriter: RecordedRewriter
) -> SSAValue:
    """What the operand is without the transpose; a constant is permuted back into a new weight."""
    transpose = maker(operand, TransposeOp)
    if transpose is not None:
        return transpose.input
    array = constant(operand, rewriter.weights)
    if array is None or (op.BROADCASTS and _is_single_element(operand)):
        return operand
    rank = len(plan.permutation)
    aligned = array.reshape((1,) * (rank - array.ndim) + array.shape)
    order = inverse(plan.permutation)
    moved = np.ascontiguousarray(np.transpose(aligned, order))
    weight = operand.owner
    assert isinstance(weight, WeightOp)
    kind, name = element_type_of(operand), f"{weight.weight.data}.permuted"
    stored = kind if isinstance(kind, QuantizedType) else None
    if stored is not None and not stored.is_per_tensor:
        stored = stored.with_axis(order.index(stored.axis_number + rank - array.ndim))
    return rewriter.add_weight(op, name, moved, like=weight, element_type=stored)


def _insert_permuted(op: Permutable, plan: _Plan, rewriter: RecordedRewriter) -> SSAValue:
    """Inserts the operation without the transpose before it; its origin is permuted likewise."""
    operands = [_permuted_operand(op, o, plan, rewriter) for o in op.operands]
    new = op.with_operands(operands, **plan.permuted.properties)
    set_origins(new, [_permuted_origin(origin_of(op.results[0]), plan.permuted.behind)])
    rewriter.insert_before(op, new, stem=identity_of(op))
    return new.results[0]


def _permuted_origin(origin: Origin | None, behind: Permutation) -> Origin | None:
    if origin is None or behind == tuple(range(len(behind))):
        return origin
    return origin.then("permute", inverse(behind))


def _erase_unused(transposes: Sequence[TransposeOp], rewriter: RecordedRewriter) -> None:
    for transpose in transposes:
        if uses(transpose) == 0:
            rewriter.erase(transpose)


def _is_narrowed_again(op: TopOperation, permutation: Permutation) -> bool:
    """Does a transpose of these real numbers go on, with the others' beside them, to where they are
    quantized again? `quantize(dequantize(a) + dequantize(b))` is one operation in the end."""
    if not isinstance(op, DequantizeOp):
        return False
    for reader in (use.operation for use in op.output.uses):
        if not isinstance(reader, UnaryOp | BinaryOp | SelectOp | ConcatOp):
            return False
        if not all(isinstance(use.operation, QuantizeOp) for use in reader.results[0].uses):
            return False
        if not all(_comes_transposed(operand, permutation) for operand in reader.operands):
            return False
    return True


def _meets_its_like(op: TopOperation, behind: Permutation) -> bool:
    """Would a transpose behind the operation meet others of its kind at all that reads it? There
    they become one: `transpose(pad(a)) + transpose(b)`."""
    readers = [use.operation for use in op.results[0].uses]
    return bool(readers) and all(
        isinstance(reader, Permutable) and _has_operand_transposed(reader, op, behind)
        for reader in readers
    )


def _has_operand_transposed(reader: TopOperation, but: TopOperation, behind: Permutation) -> bool:
    others = [maker(o, TransposeOp) for o in reader.operands if o.owner is not but]
    return bool(others) and all(
        other is not None and other.get("permutation") == behind for other in others
    )


def _comes_transposed(value: SSAValue, permutation: Permutation) -> bool:
    dequantize = maker(value, DequantizeOp)
    transpose = maker(value if dequantize is None else dequantize.input, TransposeOp)
    if transpose is None:
        return _is_single_element(value) or is_constant(value)
    return transpose.get("permutation") == permutation


# -- rules -----------------------------------------------------------------------------------------


class SinkTranspose(Rule):
    """relu(transpose(x) {p})   =>   transpose(relu(x)) {p}

    Applies when all other operands are constants, single elements or transposed alike, one
    transpose at least is read by nothing else, and the result is not larger than what is not
    transposed any more; or where that is quantized again behind the next operation, or meets
    another operand that is transposed likewise. Pays because the transpose comes closer to one that
    it cancels with, or moves fewer bytes: none at all where a reduction removes the axes.
    """

    matches = (Permutable,)

    def rewrite(self, op: Permutable, rewriter: RecordedRewriter) -> None:
        plan = _plan(op)
        if plan is None:
            return
        own = [t for t in plan.transposes if uses(t) == sum(o.owner is t for o in op.operands)]
        if not own:
            shared = identity_of(plan.transposes[0])
            raise Declined(f"{shared} is read by others than {identity_of(op)}")
        before = sum(size_bytes(t.output) for t in own)
        after = size_bytes(op.results[0])
        behind = plan.permuted.behind
        needs_transpose = behind != tuple(range(len(behind)))
        grows = after > before and not (
            _is_narrowed_again(op, plan.permutation) or _meets_its_like(op, behind)
        )
        if needs_transpose and grows:
            raise Declined(
                f"{after} bytes would be transposed behind {identity_of(op)} instead of {before}"
            )
        value = _insert_permuted(op, plan, rewriter)
        if needs_transpose:
            transpose = TransposeOp.make([value], permutation=behind)
            set_origins(transpose, [origin_of(op.results[0])])
            rewriter.insert_before(op, transpose, like=plan.transposes[0])
            value = transpose.output
        rewriter.replace(op, value)
        _erase_unused(plan.transposes, rewriter)


class BypassTransposes(Rule):
    """t = transpose(x) {p}; transpose(relu(t)) {p inverse}   =>   relu(x)

    Applies when others read t as well, but everything that reads the operation is a transpose
    back to x's order: none has to be added. Pays because those transposes vanish.
    """

    matches = (Permutable,)

    def rewrite(self, op: Permutable, rewriter: RecordedRewriter) -> None:
        users = [use.operation for use in op.results[0].uses]
        if not users or not all(isinstance(user, TransposeOp) for user in users):
            return
        plan = _plan(op)
        if plan is None:
            return
        back = inverse(plan.permuted.behind)
        returning = [u for u in users if isinstance(u, TransposeOp)]
        if any(user.get("permutation") != back for user in returning):
            raise Declined(f"what reads {identity_of(op)} is transposed into yet another order")
        value = _insert_permuted(op, plan, rewriter)
        for user in returning:
            rewriter.replace(user, value)
        rewriter.erase(op)
        _erase_unused(plan.transposes, rewriter)


@dataclass(frozen=True)
class PushTransposes(FixpointPass):
    """Transposes and reshapes move through other operations towards each other, and cancel."""

    name = "push-transposes"
    rules = (
        *MOVEMENT_RULES,
        *MATMUL_RULES,
        ScaleOperand,
        BypassTransposes,
        SinkTranspose,
        SinkReshape,
        JoinConvolutions,
    )
