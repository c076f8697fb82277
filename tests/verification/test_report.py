"""The report: counts by group and operator, what is listed apart, text that breaks no table."""

from __future__ import annotations

import pytest

from verification.conformance.oracle import ORACLE
from verification.conformance.report import Report
from verification.conformance.suite import Case, Outcome

CASES = (
    Case("test_add", "node", ("Add-14",)),
    Case("test_add_relu", "node", ("Add-14", "Relu-14")),
    Case("test_odd", "simple", ("ai.onnx.ml.Scaler-1",)),
)


def outcome(case: Case, device: str, status: str = "passed", reason: str = "") -> Outcome:
    return Outcome(case=case.name, group=case.group, device=device, status=status, reason=reason)


@pytest.fixture
def report() -> Report:
    add, both, odd = CASES
    outcomes = [
        outcome(add, "CPU"),
        outcome(both, "CPU", "wrong", "a|b <c>"),
        outcome(odd, "CPU", "refused", "not known"),
        outcome(add, ORACLE),
        outcome(both, ORACLE),
        outcome(odd, ORACLE, "refused", "no kernel"),
    ]
    return Report(CASES, outcomes, ("CPU",))


def test_cases_are_counted_by_group_and_in_all(report):
    assert list(report.groups()) == [
        ("node", 2, {"CPU": 1, ORACLE: 2}),
        ("simple", 1, {"CPU": 0, ORACLE: 0}),
        ("all", 3, {"CPU": 1, ORACLE: 2}),
    ]


def test_an_operator_says_how_many_of_its_cases_passed_and_why_not(report):
    assert report.operator_cell("Add-14", "CPU") == "1 of 2: wrong, a|b <c>"
    assert report.operator_cell("Relu-14", "CPU") == "0 of 1: wrong, a|b <c>"


def test_what_the_oracle_cannot_do_either_is_listed_apart(report):
    assert [case.name for case, _ in report.at_the_limits()] == ["test_odd"]
    page = report.markdown()
    limits, failures = page.index("## At the limits"), page.index("## Not passed")
    assert limits < page.index("`test_odd`", limits) < failures
    assert "`test_add_relu`" in page[failures:]
    assert "`test_odd`" not in page[failures:]


def test_reasons_cannot_break_a_table(report):
    assert "a\\|b \\<c\\>" in report.markdown()


def test_every_opset_of_an_operator_has_a_line(report):
    lines = [line for line in report.markdown().splitlines() if line.startswith("| Add |")]
    assert [line.split("|")[2].strip() for line in lines] == ["1", "6", "7", "13", "14"]


def test_the_summary_is_aligned(report):
    assert report.summary() == [
        "group   cases  CPU  ONNXRUNTIME",
        "node        2    1            2",
        "simple      1    0            0",
        "all         3    1            2",
        "",
        "status   CPU",
        "passed     1",
        "wrong      1",
        "refused    1",
    ]
