"""Dead code: operations whose results nothing reads.

    %1 = top.unary(%x) {kind = "relu"} : tensor<8xf32>
    top.return(%x)
 => top.return(%x)

What fed only a dead operation is dead as well, weights included.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.data import ReturnOp
from explorer.passes.analysis.matching import uses


class EraseUnused(Rule):
    """%1 = op(...), read by nobody   =>   nothing

    Applies to every operation without uses: none has an effect besides its results. Pays because
    it would be computed and stored for nothing.
    """

    matches = (TopOperation,)

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        if not isinstance(op, ReturnOp) and uses(op) == 0:
            rewriter.erase(op)


@dataclass(frozen=True)
class EliminateDeadCode(RulePass):
    """Operations whose results nothing reads are removed."""

    name = "eliminate-dead-code"
    rules = (EraseUnused,)
