"""What the parts of `keep-past` share: what grows, events, and values that are added."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.rewriting.passes import EventLog
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.passes.states.growth import Growth


class Editing:
    """Adds operations and constants to a function with a past that grows."""

    def __init__(self, growth: Growth, rewriter: RecordedRewriter, events: EventLog) -> None:
        self.growth, self.rewriter, self.events = growth, rewriter, events
        self.pure: set[SSAValue] = set()
        """Values that sizes and constants alone decide."""
        self._computed: dict[SSAValue, np.ndarray] = {}

    def added(self, anchor: Operation, op: Operation) -> SSAValue:
        self.rewriter.insert_before(anchor, op)
        return op.results[0]

    def weight(
        self, op: TopOperation, role: str, array: np.ndarray, before: Operation | None = None
    ) -> SSAValue:
        """A constant for an operation, in front of it or of another one."""
        name = f"{identity_of(op)}.{role}"
        value = self.rewriter.add_weight(before or op, name, np.asarray(array), like=op)
        self.pure.add(value)
        return value

    def counted_from(self, anchor: TopOperation, start: SSAValue, steps: np.ndarray) -> SSAValue:
        offsets = self.weight(anchor, "steps", steps)
        return self.added(anchor, BinaryOp.make([offsets, start], kind="add"))

    def constants(self, value: SSAValue) -> np.ndarray | None:
        """The numbers of a value that constants and sizes alone decide, at the capacity."""
        owner = value.owner
        if isinstance(owner, WeightOp):
            return self.rewriter.weights[owner.weight.data]
        if value not in self.pure or not isinstance(owner, TopOperation) or owner.regions:
            return None
        if value not in self._computed:
            operands = [self.constants(operand) for operand in owner.operands]
            known = [operand for operand in operands if operand is not None]
            if len(known) != len(operands):
                return None
            self._computed.update(zip(owner.results, owner.evaluate(*known), strict=True))
        return self._computed[value]

    def constant(self, value: SSAValue) -> int | None:
        found = self.constants(value)
        return int(found.item()) if found is not None and found.size == 1 else None
