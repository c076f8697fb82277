"""Constant folding: what depends on weights only is computed now.

    %1 = top.shape(%x) : tensor<4xi64>                             %x : tensor<2x3x8x8xf32>
    %2 = top.slice(%1) {starts = [0], stops = [1], steps = [1]} : tensor<1xi64>
    %3 = top.concat(%2, %minus_one) {axis = 0} : tensor<2xi64>
    %4 = top.reshape(%x, target = %3) : tensor<?x?xf32>
 => %4 = top.reshape(%x) {shape = [2, -1]} : tensor<2x192xf32>

Types follow at once: a reshape whose target became constant makes shapes behind it static, whose
`top.shape` folds in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.ir.interfaces import Parameterized
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.control import IfOp
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp, weight_type
from explorer.ir.top.movement.operation import MovementOperation
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import TO_THE_END, SliceOp, onnx_slice_range
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.top.quantization.integer_products import IntegerProduct
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.top.shapes import ShapeOp
from explorer.ir.types import element_type_of, is_static, shape_of, size_bytes, static_shape
from explorer.ir.weights import Weights, is_splat, splat
from explorer.passes.analysis.block_weights import (
    block_weight,
    is_product_of_blocks,
    why_not_unpacked,
)
from explorer.passes.analysis.matching import constant, dtype_of, is_constant
from explorer.passes.simplify.unroll_control import UnrollLoop
from explorer.passes.sizes.infer_shapes import infer_again

LARGEST_RESULT_BYTES = 64 << 20
SMALL_RESULT_BYTES = 64 << 10
LARGEST_GROWTH = 16
"""A result above SMALL_RESULT_BYTES may be so many times as large as its operands together."""
LARGEST_DEQUANTIZED_BYTES = 1 << 30
"""Of all weights of a model that are stored in blocks of integers, as real numbers."""


class InferAgain(Rule):
    """%2 = op(%1) : tensor<?xf32>   =>   %2 = op(%1) : tensor<8xf32>

    Applies where an operand's type became better known. Pays because static shapes are what
    folding and everything after it needs.
    """

    matches = (TopOperation,)

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        if not isinstance(op, ReturnOp):
            infer_again(op, rewriter, FoldConstants.name)
            return
        parent = op.parent_op()
        if isinstance(parent, TopOperation):
            infer_again(parent, rewriter, FoldConstants.name)
        elif isinstance(parent, func.FuncOp):
            rewriter.update_signature(parent)


class FoldShape(Rule):
    """shape(x : 2x3x8x8)   =>   constant [2, 3, 8, 8]

    Applies when the sizes that are asked for are known. Pays because computed shapes become
    constant ones.
    """

    matches = (ShapeOp,)

    def rewrite(self, op: ShapeOp, rewriter: RecordedRewriter) -> None:
        if all(isinstance(size, int) for size in op.sizes):
            _replace_by_weights(op, [np.array(op.sizes, np.int64)], rewriter)


class SpecializeReshape(Rule):
    """reshape(x, target = constant [0, -1])   =>   reshape(x) {shape = [2, -1]}

    Applies when the target is constant; a 0 becomes the input's size. Pays because the result's
    shape is known, and the reshape a mere view.
    """

    matches = (ReshapeOp,)

    def rewrite(self, op: ReshapeOp, rewriter: RecordedRewriter) -> None:
        target = None if op.target is None else constant(op.target, rewriter.weights)
        if target is None:
            return
        own, copies = shape_of(op.input), not op.get("allow_zero", False)
        sizes = []
        for axis, size in enumerate(target.tolist()):
            copied = own[axis] if size == 0 and copies and axis < len(own) else size
            if not isinstance(copied, int):
                raise Declined(f"the size {copied} that {identity_of(op)} copies is not known yet")
            sizes.append(copied)
        rewriter.replace(op, ReshapeOp.make([op.input, None], shape=sizes))


class SpecializeExpand(Rule):
    """expand(x, target = constant [4, 1, 8])   =>   expand(x) {shape = [4, 1, 8]}

    Applies when the target is constant. Pays because the result's shape is known.
    """

    matches = (ExpandOp,)

    def rewrite(self, op: ExpandOp, rewriter: RecordedRewriter) -> None:
        target = None if op.target is None else constant(op.target, rewriter.weights)
        if target is not None:
            new = ExpandOp.make([op.input, None], shape=target.tolist())
            rewriter.replace(op, new)


class SpecializeSlice(Rule):
    """slice(x : 2x8, starts = [1], stops = [8]) {axes = [1]}   =>   slice(x) {starts = [0, 1] ...}

    Applies when all bounds are constant and the sizes of sliced axes known. Pays because only a
    slice with fixed bounds has a compiled form.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        if op.is_static_slice or not all(is_constant(o) for o in op.operands[1:]):
            return
        bounds = [rewriter.weights[_weight(o).weight.data].tolist() for o in op.operands[1:]]
        first, last = bounds[0], bounds[1]
        steps = bounds[2] if len(bounds) > 2 else [1] * len(first)
        shape = shape_of(op.input)
        ranges: list[tuple[int, int, int]] = [
            (0, size if isinstance(size, int) else TO_THE_END, 1) for size in shape
        ]
        for axis, start, stop, step in zip(op.get("axes"), first, last, steps, strict=True):
            size = shape[axis]
            if not isinstance(size, int):
                raise Declined(f"axis {axis} of what {identity_of(op)} slices has no size yet")
            taken = onnx_slice_range(size, start, stop, step)
            ranges[axis] = (taken.start, taken.stop, taken.step)
        starts, stops, all_steps = zip(*ranges, strict=True)
        new = SliceOp.make(
            [op.input, None, None, None],
            starts=list(starts),
            stops=list(stops),
            steps=list(all_steps),
        )
        rewriter.replace(op, new)


class SpecializePad(Rule):
    """pad(x, amounts = constant [0, 1, 0, -2])   =>   slice(pad(x) {low = [0, 1]}) {0:, :-2}

    Applies when the amounts are constant; negative ones take elements away, after the others were
    added. Pays because only a pad with fixed amounts has a compiled form.
    """

    matches = (PadOp,)

    def rewrite(self, op: PadOp, rewriter: RecordedRewriter) -> None:
        amounts = None if op.amounts is None else constant(op.amounts, rewriter.weights)
        if amounts is None:
            return
        low, high = np.split(np.maximum(amounts, 0), 2)
        padded = PadOp.make(
            [op.input, None],
            low=low.tolist(),
            high=high.tolist(),
            interior=[0] * len(low),
            value=op.get("value"),
            whole=op.get("whole"),
        )
        if amounts.min(initial=0) >= 0:
            rewriter.replace(op, padded)
            return
        if not is_static(padded.output):
            padded.erase()
            raise Declined(f"{identity_of(op)} takes away from axes without a size yet")
        rewriter.insert_before(op, padded)
        starts, taken_behind = np.split(-np.minimum(amounts, 0), 2)
        sizes = np.array(static_shape(padded.output))
        stops = np.maximum(sizes - taken_behind, starts)
        cut = SliceOp.make(
            [padded.output, None, None, None],
            starts=starts.tolist(),
            stops=stops.tolist(),
            steps=[1] * len(starts),
        )
        rewriter.replace(op, cut)


class InlineIf(Rule):
    """if(constant true) { a } { b }   =>   a

    Applies when the condition is constant. Pays because the other branch vanishes, and because
    the operations of the chosen one can be optimized with those around them.
    """

    matches = (IfOp,)

    def rewrite(self, op: IfOp, rewriter: RecordedRewriter) -> None:
        condition = constant(op.condition, rewriter.weights)
        if condition is None:
            return
        *inner, returned = (op.then_region if condition.item() else op.else_region).block.ops
        values = list(returned.operands)
        for moved in inner:
            rewriter.move_before(moved, op)
        for result, value in zip(op.results, values, strict=True):
            rewriter.set_type(result, value.type)
        rewriter.replace(op, values)


class FoldConstant(Rule):
    """op(constants)   =>   constant

    Applies to operations whose operands are all weights, unless the result would be large: above
    64 MiB and larger than its operands, or more than 16 times its operands (which is fine for
    weights of a convolution or the like; those of one number may have any size). Weights in blocks
    of integers, those of a language model, stay integers where products unpack them, and where all
    others would be more than 1 GiB of real numbers. Pays because it is computed once, by the
    compiler, and lies beside the activations.
    """

    matches = (TopOperation,)

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        if isinstance(op, WeightOp | ReturnOp | TransferOp | ConvertLayoutOp) or op.regions:
            return
        if not op.operands or not all(is_constant(o) for o in op.operands):
            return
        self.consider(op)
        arrays = [rewriter.weights[_weight(o).weight.data] for o in op.operands]
        _check_size(op, arrays, rewriter.weights)
        try:
            results = op.evaluate(*arrays)
        except (ValueError, IndexError, ArithmeticError) as error:
            raise Declined(f"{identity_of(op)} cannot be computed: {error}") from error
        _replace_by_weights(op, results, rewriter)

    def consider(self, op: TopOperation) -> None:
        """Declined for what is better left as it is."""
        if isinstance(op, DequantizeOp) and (product := _integer_product_behind(op)):
            raise Declined(f"{identity_of(product)} may take {identity_of(op)}'s integers")


class FoldDequantized(FoldConstant):
    """dequantize(constant)   =>   constant

    Applies to what was left for products of integers and not taken by one, and to what follows.
    Pays because real numbers are computed once, by the compiler.
    """

    def consider(self, op: TopOperation) -> None:
        """All constants may be folded now."""


def _integer_product_behind(op: TopOperation) -> TopOperation | None:
    """A product that reads the weights or bias, moved perhaps, beside a dequantized input."""
    for use in op.results[0].uses:
        user = use.operation
        if isinstance(user, IntegerProduct):
            other = user.operands[0 if use.index else 1]
            if _is_dequantized(other):
                return user
        elif isinstance(user, MovementOperation):
            found = _integer_product_behind(user)
            if found is not None:
                return found
    return None


def _is_dequantized(value: SSAValue) -> bool:
    """Real numbers that were integers, moved perhaps."""
    owner = value.owner
    while isinstance(owner, MovementOperation | PoolOp):
        owner = owner.operands[0].owner
    return isinstance(owner, DequantizeOp)


def _check_size(op: TopOperation, arrays: list[np.ndarray], weights: Weights) -> None:
    """Declined where the result would be too large to be worth storing."""
    result_bytes = op.result_bytes(*arrays)
    if result_bytes is None:
        raise Declined(f"the size of {identity_of(op)}'s result is not known beforehand")
    operand_bytes = sum(a.nbytes for a in arrays)
    is_parameter = any(_feeds_parameters(result) for result in op.results)
    if is_parameter and isinstance(op, MovementOperation) and all(map(is_splat, arrays)):
        return  # one number, and as much to read at every run wherever it lies
    if result_bytes > max(LARGEST_RESULT_BYTES, operand_bytes):
        raise Declined(f"{identity_of(op)} would be a constant of {result_bytes >> 20} MiB")
    if isinstance(op, DequantizeBlocksOp):
        _check_blocks(op, weights)
    if is_parameter:
        return
    if result_bytes > max(SMALL_RESULT_BYTES, LARGEST_GROWTH * operand_bytes):
        raise Declined(
            f"{identity_of(op)} would be a constant of {result_bytes} bytes, made of "
            f"{operand_bytes}: cheaper to compute than to store"
        )


def _feeds_parameters(value: SSAValue) -> bool:
    """Is it read, moved perhaps, as weights or statistics, which kernels want constant?"""
    for use in value.uses:
        user = use.operation
        if isinstance(user, Parameterized) and user.is_parameter(use.index):
            return True
        if isinstance(user, MovementOperation) and any(map(_feeds_parameters, user.results)):
            return True
    return False


def _check_blocks(op: DequantizeBlocksOp, weights: Weights) -> None:
    """Declined where products unpack the weights themselves, and where those of a model would be
    too large together: all or none of the others are real numbers."""
    if op.output.uses and all(is_product_of_blocks(u.operation, op.output) for u in op.output.uses):
        weight = block_weight(op.output, weights)
        if weight is not None and not why_not_unpacked(weight):
            raise Declined(f"what multiplies with {identity_of(op)} unpacks it in registers")
    others = [o for o in op.parent.ops if isinstance(o, DequantizeBlocksOp)] if op.parent else []
    total = sum(size_bytes(o.output) for o in others if is_constant(o.input))
    if total > LARGEST_DEQUANTIZED_BYTES:
        raise Declined(f"the {len(others)} weights in blocks would be {total >> 20} MiB in all")


def _replace_by_weights(op: TopOperation, results, rewriter: RecordedRewriter) -> None:
    """Every result (an array) becomes a weight with the result's origin."""
    weights = []
    for value, result in zip(op.results, results, strict=True):
        # Meanings may return views and wider types; a weight is of the declared type and dense,
        # unless it is one number everywhere.
        array = np.asarray(result, dtype_of(value))
        array = splat(array) if is_splat(array) else np.array(array, order="C")
        stored = rewriter.weights.add(f"{identity_of(op)}.folded", array)
        kind = weight_type(array, element_type_of(value))
        weight = WeightOp.make([], [kind], weight=stored)
        rewriter.insert_before(op, weight, stem="folded")
        rewriter.set_type(value, weight.output.type)
        weights.append(weight.output)
    rewriter.replace(op, weights)


def _weight(value) -> WeightOp:
    assert isinstance(value.owner, WeightOp)
    return value.owner


@dataclass(frozen=True)
class FoldConstants(RulePass):
    """What depends on weights and known shapes only is computed at compile time."""

    name = "fold-constants"
    rules = (
        InferAgain,
        FoldShape,
        SpecializeReshape,
        SpecializeExpand,
        SpecializeSlice,
        SpecializePad,
        InlineIf,
        UnrollLoop,
        FoldConstant,
    )
