"""Branches side by side: where they part, and what each of them costs.

    found = c.compare(d, e)
    found.first_decision()            the first decision in which c and d differ, with reasons
    found.passes                      pass by pass: the same program, or the first line that differs
    found.ir_diff("fuse-activation")  unified diff of the IR after a pass
    found.graph_diff()                operations of the last snapshot that differ
    found.kernels                     the same source, or another one
    found.to_frame("totals")          memory, latency, accuracy ... one row per branch

All of it comes from traces, so that saved compilations can be compared, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import combinations
from typing import Any, Literal

from explorer.calling import named_arguments
from explorer.errors import InputError
from explorer.results import GraphDiff, KernelRecord, PassRecord, Trace
from explorer.results.displayed import Displayed
from explorer.results.names import near_name
from explorer.results.trace import SnapshotRecord
from explorer.traces.differences import (
    DecisionDifference,
    FirstLine,
    decision_differences,
    first_line,
    graph_difference,
)
from explorer.traces.tables import Row, as_frame

ComparisonKind = Literal["totals", "passes", "kernels", "decisions"]
"""The tables of a comparison."""


@dataclass(frozen=True)
class PassComparison:
    """One pass in all branches; None where a branch does not run it."""

    name: str
    records: tuple[PassRecord | None, ...]
    lines: tuple[FirstLine | None, ...]
    """Per branch: where the IR after the pass first differs from the first branch's."""
    same: tuple[bool, ...]
    """Per branch: whether the program after the pass is the first branch's."""


@dataclass(frozen=True)
class KernelComparison:
    """One kernel in all branches; None where a branch has none of its name."""

    name: str
    records: tuple[KernelRecord | None, ...]
    same: tuple[bool, ...]
    """Per branch: whether its source text is that of the first branch."""


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Two or more compilations. `left` and `right` are the first two of `branches`."""

    left: Trace
    right: Trace
    others: tuple[Trace, ...] = ()

    @property
    def branches(self) -> tuple[Trace, ...]:
        return (self.left, self.right, *self.others)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name of its own for every branch: its label, the target, or a number behind them."""
        names: list[str] = []
        for number, branch in enumerate(self.branches):
            name = branch.label or ("first" if number == 0 else branch.target)
            names.append(name if name not in names else f"{name} ({number + 1})")
        return tuple(names)

    # -- decisions -----------------------------------------------------------------------------
    @property
    def first_difference(self) -> tuple[str, str, str] | None:
        """(address, value on the left, value on the right) of the first two branches.

        Values as JSON, "" where it was not decided; None where every decision is the same.
        """
        first = self.first_decision()
        return None if first is None else (first.address, first.left, first.right)

    def first_decision(self, left: int = 0, right: int = 1) -> DecisionDifference | None:
        """The first decision in which two branches (by number) differ, with the reasons."""
        found = self.decisions(left, right)
        return found[0] if found else None

    @property
    def first_decisions(self) -> dict[tuple[int, int], DecisionDifference | None]:
        """The same for every pair of branches."""
        pairs = combinations(range(len(self.branches)), 2)
        return {pair: self.first_decision(*pair) for pair in pairs}

    def decisions(self, left: int = 0, right: int = 1) -> tuple[DecisionDifference, ...]:
        """All decisions in which two branches differ, in the order in which they were taken."""
        return decision_differences(self._branch(left), self._branch(right))

    # -- programs ------------------------------------------------------------------------------
    @property
    def passes(self) -> tuple[PassComparison, ...]:
        """All passes of all branches, in their order."""
        return tuple(self._pass(name) for name in self._pass_names())

    @named_arguments
    def ir_diff(self, name: str = "", left: int = 0, right: int = 1) -> tuple[str, ...]:
        """Unified diff of the IR after a pass; after the last one of each without a name."""
        texts = [list(s.text.lines) for s in self._snapshots(name, left, right)]
        labels = [self.labels[left], self.labels[right]]
        return tuple(unified_diff(texts[0], texts[1], labels[0], labels[1], lineterm="", n=1))

    @named_arguments
    def graph_diff(self, name: str = "", left: int = 0, right: int = 1) -> GraphDiff:
        """Operations that differ after a pass, or after the last one: from left to right."""
        before, after = self._snapshots(name, left, right)
        return graph_difference(before.graph, after.graph)

    @property
    def kernels(self) -> tuple[KernelComparison, ...]:
        """All kernels of all branches by name."""
        tables = [{k.name: k for k in branch.kernels} for branch in self.branches]
        found = []
        for name in dict.fromkeys(name for table in tables for name in table):
            records = tuple(table.get(name) for table in tables)
            first = records[0]
            same = tuple(
                (r is None) if first is None else (r is not None and _code(r) == _code(first))
                for r in records
            )
            found.append(KernelComparison(name, records, same))
        return tuple(found)

    # -- tables --------------------------------------------------------------------------------
    @named_arguments
    def to_frame(self, kind: ComparisonKind = "totals") -> Any:  # a DataFrame or a Table
        """A table of `totals`, `passes`, `kernels` or `decisions`, one row per branch or pair.

        A pandas.DataFrame where pandas is installed, else a `frames.Table`.
        """
        if kind not in _FRAMES:
            raise InputError(f"there is no table of {kind!r}", hint=near_name(kind, list(_FRAMES)))
        make, columns = _FRAMES[kind]
        return as_frame(tuple(columns.split()), make(self))

    # -- parts ---------------------------------------------------------------------------------
    def _branch(self, number: int) -> Trace:
        if not 0 <= number < len(self.branches):
            last = len(self.branches) - 1
            raise InputError(f"there is no branch {number}", hint=f"branches are 0 to {last}")
        return self.branches[number]

    def _pass_names(self) -> list[str]:
        order: list[str] = []
        for branch in self.branches:
            previous = -1
            for record in branch.passes:
                if record.name in order:
                    previous = order.index(record.name)
                else:
                    previous += 1
                    order.insert(previous, record.name)
        return order

    def _pass(self, name: str) -> PassComparison:
        found = [_find(branch, name) for branch in self.branches]
        records = tuple(record for record, _ in found)
        first = found[0][1]
        lines: list[FirstLine | None] = []
        same: list[bool] = []
        for _, snapshot in found:
            if first is None or snapshot is None:
                lines.append(None)
                same.append(first is snapshot)
                continue
            lines.append(first_line(first.text.lines, snapshot.text.lines))
            same.append(lines[-1] is None)
        return PassComparison(name, records, tuple(lines), tuple(same))

    def _snapshots(self, name: str, left: int, right: int) -> tuple[SnapshotRecord, SnapshotRecord]:
        found: list[SnapshotRecord] = []
        for number in (left, right):
            branch = self._branch(number)
            snapshot = _find(branch, name)[1] if name else branch.snapshots[-1]
            if snapshot is None:
                names = [p.name for p in branch.passes]
                raise InputError(
                    f"branch {self.labels[number]!r} has no pass {name!r}",
                    hint=near_name(name, names),
                )
            found.append(snapshot)
        return found[0], found[1]


def _find(branch: Trace, name: str) -> tuple[PassRecord | None, SnapshotRecord | None]:
    for record, snapshot in zip(branch.passes, branch.snapshots, strict=True):
        if record.name == name:
            return record, snapshot
    return None, None


def _code(kernel: KernelRecord) -> tuple[str, ...]:
    return kernel.source.lines


# -- rows ------------------------------------------------------------------------------------------


def _total_rows(comparison: Comparison) -> Iterator[Row]:
    for number, branch in enumerate(comparison.branches):
        first = comparison.first_decision(0, number) if number else None
        last = branch.passes[-1]
        report = branch.accuracy
        worst = None if report is None else report.worst_output
        task = None if report is None else report.task
        yield {
            "branch": comparison.labels[number],
            "target": branch.target,
            "operations": last.operations_after,
            "macs": last.macs,
            "kernels": len(branch.kernels),
            "peak_bytes": branch.memory.peak_bytes if branch.memory else None,
            "weights_bytes": branch.program.weights_bytes if branch.program else None,
            "milliseconds": branch.profile.milliseconds if branch.profile else None,
            "sqnr_db": None if worst is None else worst.sqnr_db,
            "max_relative": None if report is None else report.largest_output_error,
            "right": None if task is None else task.right,
            "labels": None if task is None else task.total,
            "bit_exact": None if report is None else report.bit_exact,
            "judged_on": "" if report is None or report.data is None else str(report.data),
            "compile_seconds": sum(p.seconds for p in branch.passes),
            "first_decision": first.address if first else None,
            "value": first.right if first else None,
        }


def _pass_rows(comparison: Comparison) -> Iterator[Row]:
    for row in comparison.passes:
        for label, record, line, same in zip(
            comparison.labels, row.records, row.lines, row.same, strict=True
        ):
            yield {
                "pass": row.name,
                "branch": label,
                "runs": record is not None,
                "same": same,
                "operations": record.operations_after if record else None,
                "rewrites": sum(e.applied for e in record.events) if record else None,
                "peak_bytes": record.peak_bytes if record else None,
                "line": line.number if line else None,
                "first_branch_has": line.left if line else "",
                "this_one_has": line.right if line else "",
            }


def _kernel_rows(comparison: Comparison) -> Iterator[Row]:
    for row in comparison.kernels:
        for label, branch, record, same in zip(
            comparison.labels, comparison.branches, row.records, row.same, strict=True
        ):
            yield {
                "kernel": row.name,
                "branch": label,
                "kind": record.kind if record else None,
                "same": same,
                "flops": record.flops if record else None,
                "lines": len(record.source.lines) if record else None,
                "microseconds": _microseconds(branch, row.name),
            }


def _microseconds(branch: Trace, kernel: str) -> float | None:
    if branch.profile is None:
        return None
    times = [e.end_ns - e.start_ns for e in branch.profile.launches if e.kernel == kernel]
    return sum(times) / 1e3 if times else None


def _decision_rows(comparison: Comparison) -> Iterator[Row]:
    for left, right in combinations(range(len(comparison.branches)), 2):
        for difference in comparison.decisions(left, right):
            yield {
                "left": comparison.labels[left],
                "right": comparison.labels[right],
                "address": difference.address,
                "left_value": difference.left,
                "right_value": difference.right,
                "left_reason": difference.left_reason,
                "right_reason": difference.right_reason,
            }


_FRAMES: Mapping[str, tuple[Callable[[Comparison], Iterator[Row]], str]] = {
    "totals": (
        _total_rows,
        "branch target operations macs kernels peak_bytes weights_bytes milliseconds sqnr_db "
        "max_relative right labels bit_exact judged_on compile_seconds first_decision value",
    ),
    "passes": (
        _pass_rows,
        "pass branch runs same operations rewrites peak_bytes line first_branch_has this_one_has",
    ),
    "kernels": (_kernel_rows, "kernel branch kind same flops lines microseconds"),
    "decisions": (
        _decision_rows,
        "left right address left_value right_value left_reason right_reason",
    ),
}
