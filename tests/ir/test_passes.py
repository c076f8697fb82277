"""Running a pass: snapshots are shared when nothing changed, and what is invalid is refused."""

from dataclasses import dataclass

import numpy as np
import pytest

from explorer.errors import PassError
from explorer.ir.inspection.printing import parse
from explorer.ir.rewriting import (
    Fuel,
    Names,
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
)
from explorer.ir.rewriting.passes import EventLog, Pass, RulePass, Working, run_pass
from explorer.ir.structure import operations
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.types import ELEMENT_TYPES, tensor_type
from explorer.ir.weights import Weights

RELU = """
func.func @main(%x: tensor<4xf32>) {
  %y = top.unary(%x) {kind = "relu"} : tensor<4xf32>
  top.return(%y)
}
"""


class ReluToAbs(Rule):
    """relu(x)   =>   abs(x)"""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data == "relu":
            rewriter.update(op, kind="abs")


@dataclass(frozen=True)
class Exchange(RulePass):
    """Rectifiers become absolute values.

    What stands in further paragraphs is for readers of the source.
    """

    name = "exchange"
    rules = (ReluToAbs,)


@dataclass(frozen=True)
class Break(Pass):
    """Gives a result a type that its operation cannot have."""

    name = "break"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        for op in operations(rewriter.module):
            if op.results:
                wrong = tensor_type(ELEMENT_TYPES["float32"], (5,))
                rewriter.set_type(op.results[0], wrong)
        return []


def working_on(text: str) -> Working:
    module = parse(text)
    return Working(module=module, weights=Weights(), names=Names.of(module))


def test_a_pass_that_changes_something_leaves_two_snapshots_that_both_run():
    result = run_pass(Exchange(), working_on(RELU), RewriteOptions())
    x = np.array([-1, 0, 1, 2], np.float32)
    assert result.changed
    assert result.before.run({"x": x})["y"].tolist() == [0, 0, 1, 2]
    assert result.after.run({"x": x})["y"].tolist() == [1, 0, 1, 2]


def test_a_pass_that_changes_nothing_shares_the_snapshot():
    working = working_on(RELU)
    first = run_pass(Exchange(), working, RewriteOptions())
    second = run_pass(Exchange(), working, RewriteOptions())
    assert second.before is second.after is first.after
    assert not second.changed and second.diff.changed == ()
    assert second.record.rules == {}


def test_a_pass_without_fuel_changes_nothing():
    result = run_pass(Exchange(), working_on(RELU), RewriteOptions(fuel=Fuel(0)))
    assert result.after is result.before


def test_the_record_says_what_was_done():
    record = run_pass(Exchange(), working_on(RELU), RewriteOptions()).record
    assert (record.name, record.level, record.changed) == ("exchange", "top", True)
    assert record.description == "Rectifiers become absolute values."
    assert record.rules == {"relu-to-abs": 1}
    assert record.events[0].delta.changed[0][0] == "y"


def test_what_does_not_verify_names_the_pass():
    with pytest.raises(PassError, match=r"not valid after pass break.*disable=\['break'\]"):
        run_pass(Break(), working_on(RELU), RewriteOptions())


def test_a_working_module_starts_anew_from_a_snapshot():
    working = working_on(RELU)
    result = run_pass(Exchange(), working, RewriteOptions())
    again = run_pass(Exchange(), Working.at(result.before, working.names), RewriteOptions())
    assert again.after.text.lines == result.after.text.lines
    assert again.after is not result.after


def test_an_event_log_makes_one_event_per_decision_and_none_for_nothing():
    working = working_on(RELU)
    rewriter = RecordedRewriter(working.module, working.weights, working.names)
    events = EventLog("hand-made", rewriter)
    op = next(operations(working.module))
    with events.rewrite("exchange", op, "why"):
        rewriter.update(op, kind="abs")
    with events.rewrite("exchange", op, "nothing happens in here"):
        pass
    events.decline("other", op, "not today")
    assert [(e.address, e.applied, e.reason) for e in events.rewrites] == [
        ("hand-made/exchange/y", True, ""),
        ("hand-made/other/y", False, "not today"),
    ]
