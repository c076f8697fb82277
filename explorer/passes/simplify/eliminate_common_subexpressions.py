"""Common subexpressions: what is computed twice is computed once.

   %1 = top.unary(%x) {kind = "relu"} : tensor<8xf32>
   %2 = top.unary(%x) {kind = "relu"} : tensor<8xf32>
   %3 = top.binary(%1, %2) {kind = "add"} : tensor<8xf32>
=> %1 = top.unary(%x) {kind = "relu"} : tensor<8xf32>
   %3 = top.binary(%1, %1) {kind = "add"} : tensor<8xf32>
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.support.binary_kinds import COMMUTATIVE
from explorer.ir.weights import Weights

LARGEST_COMPARED_BYTES = 1 << 20
"""Weights up to this size are compared by contents, larger ones by name only."""


class ReuseEqual(Rule):
    """%1 = op(x) {p}; %2 = op(x) {p}   =>   %1 for both

    Applies to operations of one block with the same properties and types and the same operands,
    in either order where that does not matter; small weights are equal when their contents are.
    Pays because the second one costs time and memory.
    """

    matches = (TopOperation,)

    def __init__(self) -> None:
        # A rule object serves one run of the pass: what it has seen so far.
        self._seen: dict[Hashable, TopOperation] = {}
        self._places: dict[Block, dict[Operation, int]] = {}

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        if op.regions or isinstance(op, ReturnOp):
            return
        key = _key(op, rewriter.weights)
        seen = self._seen.get(key)
        if seen is None or seen is op or not _is_current(seen, key, rewriter.weights):
            self._seen[key] = op
            return
        first, second = sorted((seen, op), key=self._place)
        self._seen[key] = first
        rewriter.replace(second, list(first.results))

    def _place(self, op: TopOperation) -> int:
        """Where the operation stands in its block: counted anew for one that other rules made."""
        block = op.parent
        assert block is not None
        if op not in self._places.get(block, {}):
            self._places[block] = {other: index for index, other in enumerate(block.ops)}
        return self._places[block][op]


def _is_current(op: TopOperation, key: Hashable, weights: Weights) -> bool:
    """An operation that was seen may be gone, or have got other operands since."""
    return op.parent is not None and _key(op, weights) == key


def _key(op: TopOperation, weights: Weights) -> Hashable:
    block: Block | None = op.parent
    types = tuple(r.type for r in op.results)
    if isinstance(op, WeightOp):
        name = op.weight.data
        if weights.form(name).size_bytes <= LARGEST_COMPARED_BYTES:
            return (block, types, weights[name].tobytes())
    operands = list(op.operands)
    if isinstance(op, BinaryOp) and op.kind.data in COMMUTATIVE:
        operands.sort(key=id)
    return (block, types, op.name, tuple(operands), _properties(op))


def _properties(op: Operation) -> Hashable:
    return tuple(sorted(op.properties.items(), key=lambda item: item[0]))


@dataclass(frozen=True)
class EliminateCommonSubexpressions(RulePass):
    """Operations that compute the same from the same operands are merged."""

    name = "eliminate-common-subexpressions"
    rules = (ReuseEqual,)
