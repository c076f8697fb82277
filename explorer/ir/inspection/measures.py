"""Numbers of a whole module: multiply-accumulates, and the most bytes that live at once."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.structure import functions, operations
from explorer.ir.top.data import WeightOp
from explorer.ir.types import size_bytes


def module_macs(module: ModuleOp) -> int:
    """Multiply-accumulates of one inference; operations with symbolic shapes count 0."""
    return sum(op.macs() for op in operations(module))


def peak_bytes(module: ModuleOp) -> int:
    """Most bytes of activations live at once, in program order, in the function where it is most.

    Logical sizes, views counted as their operand and parts as their whole: a lower bound of what
    planning can reach.
    """
    return max((_function_peak(f) for f in functions(module)), default=0)


def _function_peak(function: func.FuncOp) -> int:
    block = function.body.block
    steps = list(block.ops)
    root: dict[SSAValue, SSAValue] = {}
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    for op in steps:
        for part in op.parts() if isinstance(op, TopOperation) else ():
            root.setdefault(part.value, part.whole)

    def resolve(value: SSAValue) -> SSAValue:
        """The value in whose buffer this one lies."""
        while value in root:
            value = root[value]
        return value

    for argument in block.args:
        first[argument] = last[argument] = 0
    for step, op in enumerate(steps):
        for operand in op.operands:
            if resolve(operand) in last:
                last[resolve(operand)] = step
        for result in op.results:
            owner = resolve(result)
            if not isinstance(owner.owner, WeightOp):
                first.setdefault(owner, step)
                last[owner] = step
    change = [0] * (len(steps) + 1)
    for value, begin in first.items():
        change[begin] += size_bytes(value.type)
        change[last[value] + 1] -= size_bytes(value.type)
    live = peak = 0
    for delta in change:
        live += delta
        peak = max(peak, live)
    return peak
