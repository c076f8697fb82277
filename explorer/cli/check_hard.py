"""`explorer check MODEL --inputs hard`: which kind of constructed input breaks which operation.

    explorer check net.onnx --inputs hard --json

The table has the broken ones first (docs/checking-models.md). Status 1 when something is broken, or
when nothing could be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.terminal import Progress, print_json, print_lines, printable
from explorer.errors import InputError
from explorer.results.hard import STATES, HardReport, HardVerdict
from explorer.results.names import near_name

if TYPE_CHECKING:
    from explorer.compilation import Compilation

KINDS = ("random", "hard")
HEAD = ("state", "kind of input", "operation", "reason")
WIDEST = 100
"""Characters of a reason in the table."""
NOT_PASSED = 1


def kind_of_inputs(name: str) -> str:
    """The argument of `--inputs`; InputError for another one."""
    if name not in KINDS:
        raise InputError(f"there is no kind of inputs {name!r}", hint=near_name(name, KINDS))
    return name


def check_hard_inputs(compilation: Compilation, tolerance: float, as_json: bool) -> int:
    """Prints the report on a compilation; the status."""
    from explorer.compilation.checking_hard import check_hard

    with Progress("checking") as progress:
        report = check_hard(compilation, tolerance, progress)
    if as_json:
        print_json({"model": compilation.model.name, **summary(report)})
    else:
        print_lines(lines(report))
    return 0 if report.passed else NOT_PASSED


def summary(report: HardReport) -> dict:
    """What `--json` prints."""
    return {
        "target": report.target,
        "passed": report.passed,
        "reference": report.oracle,
        "tolerance": report.tolerance,
        "counts": {state: report.count(state) for state in STATES},
        "hard": [record(verdict) for verdict in report.verdicts],
    }


def record(verdict: HardVerdict) -> dict:
    return {
        "state": verdict.state,
        "kind": verdict.kind,
        "operator": verdict.operator,
        "node": verdict.node,
        "alike": verdict.alike,
        "whole_model": verdict.is_whole,
        "tensor": verdict.tensor,
        "max_relative": verdict.max_relative,
        "reason": verdict.reason,
    }


def lines(report: HardReport) -> list[str]:
    """A table of what is not right, and how many there are of each state."""
    shown = [verdict for verdict in report.verdicts if verdict.state != "right"]
    rows = [HEAD, *(_row(verdict) for verdict in shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
    counted = ", ".join(f"{report.count(state)} {state}" for state in STATES)
    verdict = "nothing is broken" if report.passed else "NOT passed"
    if not report.passed and not report.count("broken"):
        verdict = "NOT passed: nothing could be judged"
    last = f"{verdict} on {report.target}: {counted} (kind of input x form of operation)"
    return [*(table if shown else []), last, f"judged by {report.oracle}"]


def _row(verdict: HardVerdict) -> tuple[str, str, str, str]:
    alike = f" (and {verdict.alike - 1} alike)" if verdict.alike > 1 else ""
    operation = printable(f"{verdict.operator} {verdict.node}".strip()) + alike
    if verdict.is_whole:
        operation += ", in the model"
    reason = printable(" ".join(filter(None, (verdict.tensor, verdict.reason))))
    return verdict.state, verdict.kind, operation, reason[:WIDEST]


def broken(verdicts: Sequence[HardVerdict]) -> list[str]:
    """A sentence for each kind of input that breaks the model."""
    return [
        printable(f"inputs of the kind {v.kind!r} break {v.operator} {v.node}: "
                  f"{v.tensor} {v.reason}")
        for v in verdicts
        if v.state == "broken"
    ]  # fmt: skip
