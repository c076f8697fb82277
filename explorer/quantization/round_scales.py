"""A model that arrives quantized gets scales that are powers of two, where a target only shifts.

    %q = top.quantize(%x) {to = !top.quantized<ui8, 0.05:10>}          steps of 0.05
    %w = top.weight() : tensor<8x4x3x3x!top.quantized<i8, 0.003:0>>    37 is 0.111
 => %q = top.quantize(%x) {to = !top.quantized<ui8, 0.0625:8>}         steps of 1 / 16
    %w = top.weight() : tensor<8x4x3x3x!top.quantized<i8, 2^-8:0>>     28 is 0.109

A requantization without multipliers makes a power of two of every ratio of scales: up to 41 % off,
which travels from layer to layer until nothing is left of the result. With steps that are up to
twice as coarse all ratios are exact. What the model said with integers is said with coarser ones
then: they are measured against the source, not equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.requantization import RequantizationAttr, integer_limits
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.operation import MovementOperation
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.top.support.quantized_scalars import centered, to_storage
from explorer.ir.types import WIDEST_NARROW, QuantizedType, element_type_of
from explorer.ir.weights import Weights
from explorer.quantization.quantize_tensors import powers_above

SAYS_SCALE = (QuantizeOp, RequantizeOp, WeightOp)
"""They say what the scale of their result is."""
TAKES_SCALE = (DequantizeOp, RequantizeOp, ConvOp, MatMulOp)
"""They compute with the scale that their operands have, whatever it is."""


@dataclass(frozen=True)
class RoundScales(Pass):
    """Scales of quantized tensors become the next powers of two above.

    For targets that requantize by shifts. A tensor keeps its scale where an operation depends on it
    that is no product, conversion or movement.
    """

    name = "round-scales"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        operations = list(function.body.block.ops)
        groups = _Groups(operations, rewriter.weights)
        coarse = {v: kind for v in groups.values if (kind := in_powers(_kind(v))) != _kind(v)}
        if not coarse:
            return events.rewrites
        for op in operations:
            if (reason := groups.reason(op)) and any(r in coarse for r in op.results):
                events.decline("round", op, reason)
        free: dict[SSAValue, QuantizedType] = {
            value: kind for value, kind in coarse.items() if not groups.keeps(value)
        }
        if free:
            words = f"{len(free)} tensors in steps that are powers of two"
            with events.rewrite("round", function, words):
                _round(operations, free, rewriter)
        return events.rewrites


class _Groups:
    """Narrow quantized values, and which of them have to have one type."""

    def __init__(self, operations: list[Operation], weights: Weights):
        self._weights = weights
        block = operations[0].parent
        self.values = [r for op in operations for r in op.results if _is_narrow(r)]
        self._above: dict[SSAValue, SSAValue] = {}
        self._kept: dict[SSAValue, str] = {}
        for op in operations:
            self._look_at(op)
        for value in self.values:
            inside = [use.operation for use in value.uses if use.operation.parent is not block]
            for op in inside:  # of a region
                self._keep([value], op)

    def keeps(self, value: SSAValue) -> str:
        """Why a value keeps its scale; empty where nothing speaks against another one."""
        return self._kept.get(self._root(value), "")

    def reason(self, op: Operation) -> str:
        return next((found for r in op.results if _is_narrow(r) and (found := self.keeps(r))), "")

    def _look_at(self, op: Operation) -> None:
        read = [v for v in op.operands if _is_narrow(v)]
        made: list[SSAValue] = [r for r in op.results if _is_narrow(r)]
        if isinstance(op, MovementOperation) or (isinstance(op, PoolOp) and op.keeps_numbers):
            for value in (*read[1:], *made):
                if read:
                    self._join(read[0], value)
        elif isinstance(op, BitcastOp):
            self._look_at_bits(op)
        else:
            if not isinstance(op, TAKES_SCALE) or self._is_open(op):
                self._keep(read, op)
            if not _says_scale(op):
                self._keep(made, op)

    def _look_at_bits(self, op: BitcastOp) -> None:
        """Bits that are only looked at as what they were stay with it."""
        if _is_narrow(op.output):
            if not isinstance(op.input.owner, BitcastOp) or not _is_narrow(op.input.owner.input):
                self._keep([op.output], op)
            return
        for use in op.output.uses:
            user = use.operation
            if isinstance(user, BitcastOp) and user.to == element_type_of(op.input):
                self._join(op.input, user.output)
            elif _is_narrow(op.input):
                self._keep([op.input], user)

    def _is_open(self, op: Operation) -> bool:
        """Whether it makes sums whose scale anything else than a conversion depends on."""
        if not isinstance(op, ConvOp | MatMulOp):
            return False
        if op.get("subtracted") is not None or len(op.operands) > 2 + (op.bias is not None):
            return True
        if op.bias is not None and constant(op.bias, self._weights) is None:
            return True
        return not _says_scale(op) and not _only_converted(op.results[0])

    def _keep(self, values: list[SSAValue], op: Operation) -> None:
        for value in values:
            name = identity_of(op) if isinstance(op, TopOperation) else op.name
            self._kept.setdefault(self._root(value), f"{name} ({op.name}) depends on its scale")

    def _join(self, a: SSAValue, b: SSAValue) -> None:
        first, second = self._root(a), self._root(b)
        if first is not second:
            self._above[second] = first
            if (reason := self._kept.get(second)) is not None:
                self._kept.setdefault(first, reason)

    def _root(self, value: SSAValue) -> SSAValue:
        while value in self._above:
            value = self._above[value]
        return value


def in_powers(kind: QuantizedType) -> QuantizedType:
    """The type with the next powers of two for scales; zeros stay next to where they were.

    What the old type holds, the new one holds: a range only shrinks in steps.
    """
    scales = kind.scale_array.astype(np.float64)
    coarser = powers_above(scales)
    zeros = np.rint(kind.zero_point_array * (scales / coarser)).astype(int)
    return QuantizedType.get(kind.storage, coarser.tolist(), zeros.tolist(), kind.axis_number)


def _round(
    operations: list[Operation], free: dict[SSAValue, QuantizedType], rewriter: RecordedRewriter
) -> None:
    """In the order of the operations: each finds the new types of what it reads."""
    sums = {op: op.sums for op in operations if isinstance(op, ConvOp | MatMulOp)}
    changed: set[SSAValue] = set()
    for op in operations:
        if not op.results or not isinstance(op, TopOperation):
            continue
        to = free.get(op.results[0])
        if isinstance(op, WeightOp):
            if to is not None:
                changed.add(_round_weight(op, to, rewriter))
        elif to is not None or changed.intersection(op.operands):
            if to is not None:
                _say(op, to, rewriter)
            if isinstance(op, ConvOp | MatMulOp):
                _scale_bias(op, sums[op], rewriter)
            for result, kind in zip(list(op.results), op.infer_types(), strict=True):
                if result.type != kind:
                    changed.add(rewriter.set_type(result, kind))


def _round_weight(op: WeightOp, to: QuantizedType, rewriter: RecordedRewriter) -> SSAValue:
    """The numbers that stand for the old ones, rounded."""
    numbers = _moved(rewriter.weights[op.weight.data], _kind(op.output), to)
    name = f"{op.weight.data}.rounded"
    rounded = rewriter.add_weight(op, name, numbers, like=op, element_type=to)
    rewriter.replace_uses(op.output, rounded)
    rewriter.erase(op)
    return rounded


def _say(op: TopOperation, to: QuantizedType, rewriter: RecordedRewriter) -> None:
    """What the operation says about the type of its result, and numbers in that type."""
    before = _kind(op.results[0])
    if isinstance(op, QuantizeOp | BitcastOp):
        rewriter.update(op, to=to)
    elif isinstance(op, PadOp):
        value = _moved(np.array([op.get("value")]), before, to)
        rewriter.update(op, value=float(value[0]))
    for name, by in list(op.properties.items()):
        if isinstance(by, RequantizationAttr):
            ends = integer_limits(to.storage)
            inner = _moved(np.array(by.limits), before, to).tolist()
            low, high = (
                own if own == end else moved
                for own, end, moved in zip(by.limits, ends, inner, strict=True)
            )
            stated: dict[str, Any] = {name: RequantizationAttr.get(to, by.how, (low, high))}
            rewriter.update(op, **stated)


def _scale_bias(
    op: ConvOp | MatMulOp, before: QuantizedType | None, rewriter: RecordedRewriter
) -> None:
    """A bias counts in steps of the sums."""
    after = op.sums
    if op.bias is None or before is None or after is None or before == after:
        return
    array = constant(op.bias, rewriter.weights)
    assert array is not None
    moved = np.rint(array * (before.double_scales / after.double_scales))
    low, high = integer_limits(before.storage)
    name = f"{identity_of(op)}.bias"
    bias = rewriter.add_weight(op, name, np.clip(moved, low, high).astype(np.int32), like=op)
    rewriter.set_operand(op, list(op.operands).index(op.bias), bias)


def _moved(numbers: np.ndarray, before: QuantizedType, to: QuantizedType) -> np.ndarray:
    """Stored numbers of one type as those of the other that are next to them."""
    factors = before.along(before.double_scales / to.double_scales, numbers.ndim)
    steps = np.rint(centered(numbers, before) * factors)
    return to_storage(steps + to.along(to.zero_point_array, numbers.ndim), to)


def _only_converted(sums: SSAValue) -> bool:
    """Whether all that reads the sums of a product converts them, however they are moved."""
    users = [use.operation for use in sums.uses]
    return all(
        isinstance(user, RequantizeOp | DequantizeOp)
        or (isinstance(user, MovementOperation) and _only_converted(user.results[0]))
        for user in users
    )


def _says_scale(op: Operation) -> bool:
    stated = any(isinstance(kind, RequantizationAttr) for kind in op.properties.values())
    return stated or isinstance(op, SAYS_SCALE)


def _is_narrow(value: SSAValue) -> bool:
    kind = element_type_of(value) if isinstance(value.type, TensorType) else None
    if not isinstance(kind, QuantizedType) or kind.block_size:
        return False
    return kind.storage.width.data <= WIDEST_NARROW


def _kind(value: SSAValue) -> QuantizedType:
    kind = element_type_of(value)
    assert isinstance(kind, QuantizedType)
    return kind
