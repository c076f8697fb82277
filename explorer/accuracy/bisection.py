"""Finding what broke: first the pass, then the rewrite inside it, then the operation.

    fault = bisect(report, rerun)
    fault.pass_name, fault.rule, fault.operation, fault.tensor

The pass is the first after which a tensor is wrong in either mode. Inside a pass of rules the
rewrites are bisected with fuel: the pass is run again from its own snapshot with at most n
rewrites, and the smallest n that breaks the result names the rewrite. In a pass without fuel the
first operation in program order that is wrong in isolation is the guilty one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.accuracy.metrics import is_right
from explorer.results import AccuracyReport, Fault, PassAccuracy, TensorError

Probe = Callable[[int], bool]
"""Is the program right when the pass may do at most so many rewrites?"""


@dataclass(frozen=True)
class Suspect:
    """A rewrite that a pass did."""

    rule: str
    operations: tuple[str, ...]
    """What it made or changed, the first of them foremost; at least one."""
    address: str


def first_bad_pass(report: AccuracyReport) -> int | None:
    """Index of the first pass after which something is wrong; None when nothing is."""
    isolated = report.isolated or report.passes
    for index, (together, apart) in enumerate(zip(report.passes, isolated, strict=True)):
        if worst_tensor(together, report.tolerance) or worst_tensor(apart, report.tolerance):
            return index
    return None


def worst_tensor(accuracy: PassAccuracy, tolerance: float) -> TensorError | None:
    """The first tensor in program order that is not right."""
    for tensor in accuracy.tensors:
        if not is_right(tensor, tolerance):
            return tensor
    return None


def bisect(
    report: AccuracyReport, suspects: Sequence[Suspect], is_right_with: Probe | None
) -> Fault | None:
    """The first fault of a compilation; None when it is right.

    `suspects`: the rewrites of the first bad pass, in order. `is_right_with(n)` runs that pass
    with at most n rewrites and checks the result; None where it has no fuel.
    """
    index = first_bad_pass(report)
    if index is None:
        return None
    isolated = report.isolated or report.passes
    tensor = worst_tensor(isolated[index], report.tolerance) or worst_tensor(
        report.passes[index], report.tolerance
    )
    assert tensor is not None
    name = report.passes[index].name
    if is_right_with is None or not suspects or is_right_with(len(suspects)):
        rule = next((s for s in suspects if tensor.operation in s.operations), None)
        return Fault(
            pass_name=name,
            rule=rule.rule if rule else "",
            operation=tensor.operation,
            tensor=tensor.tensor,
            max_relative=tensor.max_relative,
            address=rule.address if rule else "",
        )
    right, wrong = 0, len(suspects)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_right_with(middle):
            right = middle
        else:
            wrong = middle
    guilty = suspects[wrong - 1]
    is_named = tensor.operation in guilty.operations
    operation = tensor.operation if is_named else guilty.operations[0]
    return Fault(
        pass_name=name,
        rule=guilty.rule,
        operation=operation,
        tensor=tensor.tensor,
        max_relative=tensor.max_relative,
        address=guilty.address,
    )
