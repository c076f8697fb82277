"""The pass that orders launches so that the fewest bytes live at once.

    %a = launch, %b = launch of %a       %a = launch, %d = launch, %b = launch of %a ...
    %d = launch, ...                <=   two large values live at once

It runs when kernels and places are decided, so that scratch and what is written in place count. A
launch that overwrites a value comes after all readers of that value. The order changes only where
fewer bytes live; the attribute `order` of the function says how it was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import kernel_functions, own_functions
from explorer.memory.ordering import Order, Ordering, best_order
from explorer.memory.planning import DEFAULT_ALIGNMENT_BYTES, launches_of
from explorer.results import Knob

ORDERS = "orders"
"""Name of the artifact that has the order of every device function by the function's name."""
ORDER = "order"
WHY = "fewer bytes live at once in this order"
HOW = {
    "exact": "no order needs fewer bytes",
    "beam": "the best order that a beam found; there may be a better one",
    "given": "the order of the model needs no more than its fullest launch",
}


@dataclass(frozen=True)
class OrderOperations(Pass):
    """Launches run in the order in which the fewest bytes live at once.

    The decision order-operations/order/FUNCTION, true or false, is whether a function's changes.
    """

    alignment_bytes: int = DEFAULT_ALIGNMENT_BYTES

    name = "order-operations"
    level = "scheduled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        kernels = kernel_functions(rewriter.module)
        orders: dict[str, Order] = {}
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            if open_size(function) is not None:
                continue
            found = launches_of(function, kernels)
            alignment = max(self.alignment_bytes, found.alignment_bytes)
            problem = Ordering.of(found.uses, found.places, found.inputs, found.outputs, alignment)
            order = best_order(problem)
            before = problem.peak_of(range(len(found.uses)))
            orders[function.sym_name.data] = order
            # Padding of the topmost buffer is not counted: less than one alignment is no gain.
            if order.peak_bytes > before - alignment:
                continue
            address = events.address(ORDER, function)
            wanted = options.decision(address) is not False
            why = f"{before} bytes become {order.peak_bytes}: {HOW[order.method]}"
            knobs.append(Knob(address, wanted, (True, False), why))
            if not wanted or options.fuel.is_empty:
                if not wanted:
                    events.decline(ORDER, function, OVERRIDDEN, WHY)
                continue
            with events.rewrite(ORDER, function, f"{WHY}: {why}"):
                rewriter.set_attribute(function, ORDER, StringAttr(order.method))
                _reorder(function, order.steps, rewriter)
            options.fuel.burn()
        rewriter.artifacts[ORDERS] = orders
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites


def _reorder(function: func.FuncOp, steps: Sequence[int], rewriter: RecordedRewriter) -> None:
    """Launches in that order; what no kernel runs comes before its first reader."""
    block = function.body.block
    last = block.last_op
    assert last is not None
    operations = [op for op in block.ops if op is not last]
    launches = [op for op in operations if isinstance(op, LaunchOp)]
    placed: dict[Operation, None] = {}
    for op in [*(launches[step] for step in steps), *operations]:
        pending = [op]
        while pending:
            current = pending[-1]
            owners = [o.owner for o in current.operands if isinstance(o.owner, Operation)]
            missing = [owner for owner in owners if owner not in placed]
            if missing and current not in placed:
                pending += missing
                continue
            placed.setdefault(current)
            pending.pop()
    for op in placed:
        rewriter.move_before(op, last)
