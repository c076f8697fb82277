"""How often a loop runs whose condition counts: told by counting, without the rest of its body.

    (%i, %go, %n, %h): %n1 = top.binary(%n, %one) {kind = "add"}          %n begins at 0
                       %go1 = top.binary(%n1, %six) {kind = "less"}
                       ... %h1 of %h, which data decide ...               6 iterations
                       top.return(%go1, %n1, %h1)

So TensorFlow writes its loops. What the condition is made of is followed from one iteration to the
next, as long as it depends on constants, on the number of the iteration, and on states of which the
same holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Block, Operation, OpResult, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.types import is_static, static_shape

MAX_COUNTED = 10_000
"""Iterations; a longer loop is not written out anyway."""
LARGEST_COUNTED = 1024
"""Elements of what is followed; counters have one."""

Contents = Callable[[SSAValue], np.ndarray | None]


def counted_iterations(
    body: Block,
    condition: SSAValue,
    states: Sequence[SSAValue],
    contents: Contents,
    limit: int | None = None,
) -> int | None:
    """The number of iterations of a `top.loop` with a condition; None where data decide.

    body: of the loop, with the arguments (number, whether to go on, states...). condition, states:
    what the first iteration gets. contents: of a value outside of the body, or one that depends on
    nothing; None where they are not known. limit: the most iterations that the loop may have.
    """
    last = body.last_op
    go_on = contents(condition)
    if go_on is None or last is None:
        return None
    goes_on, *returned = list(last.operands)[: 1 + len(states)]
    after: dict[SSAValue, SSAValue] = dict(zip(body.args[2:], returned, strict=True))
    made_of = _reached(goes_on, body, after)
    initial = {value: state for value, state in zip(after, states, strict=True) if value in made_of}
    counters = {value: array for value, s in initial.items() if (array := contents(s)) is not None}
    if len(counters) != len(initial):
        return None
    steps = [op for op in body.ops if any(result in made_of for result in op.results)]
    known = {value: array for value in made_of if (array := contents(value)) is not None}
    number = 0
    while go_on.item() and (limit is None or number < limit):
        if number == MAX_COUNTED:
            return None
        now = {body.args[0]: np.array(number, np.int64), body.args[1]: go_on, **counters, **known}
        for op in steps:
            if not _compute(op, now):
                return None
        if goes_on not in now or any(after[value] not in now for value in counters):
            return None
        go_on = now[goes_on]
        counters = {value: now[after[value]] for value in counters}
        number += 1
    return number


def _reached(
    goes_on: SSAValue, body: Block, after: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, None]:
    """Everything that the condition is made of, in this iteration or an earlier one."""
    pending, seen = [goes_on], dict[SSAValue, None]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen[value] = None
        if value in after:
            pending.append(after[value])
        elif isinstance(value, OpResult) and value.op.parent is body:
            pending.extend(value.op.operands)
    return seen


def _compute(op: Operation, now: dict[SSAValue, np.ndarray]) -> bool:
    """Adds an operation's results to what is known; False where it depends on data."""
    if all(result in now for result in op.results):
        return True
    if not isinstance(op, TopOperation) or op.regions:
        return False
    if not all(is_static(r) and math.prod(static_shape(r)) <= LARGEST_COUNTED for r in op.results):
        return False
    if not all(operand in now for operand in op.operands):
        return False
    try:
        with np.errstate(all="ignore"):
            results = op.evaluate(*(now[operand] for operand in op.operands))
    except (ValueError, IndexError, ArithmeticError, NotImplementedError):
        return False  # the iteration itself may say what is wrong
    now |= dict(zip(op.results, map(np.asarray, results), strict=True))
    return True
