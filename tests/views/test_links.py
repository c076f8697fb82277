"""The share of linked lines as the explorer gets it, and the texts of rules."""

from dataclasses import replace

import pytest

from explorer.results import RuleRecord, SourceText, Trace
from explorer.results.coverage import AIMS, kernel_coverages, level_coverages
from explorer.views.trace_payload import trace_payload


def test_the_program_is_the_sum_of_its_kernels(trace: Trace):
    program = {coverage.level: coverage for coverage in level_coverages(trace)}
    for level in ("loops", "source"):
        own = [c for levels in kernel_coverages(trace).values() for c in levels if c.level == level]
        assert sum(c.linkable for c in own) == program[level].linkable
        assert sum(c.linked for c in own) == program[level].linked


def test_lines_without_an_owner_lower_the_share_of_their_kernel_only(trace: Trace):
    first, *rest = trace.kernels
    bare = replace(first.source, owners=((),) * len(first.source.lines))
    links = trace_payload(replace(trace, kernels=(replace(first, source=bare), *rest))).chunk(
        "links"
    )
    shares = {
        name: linked / linkable
        for name, rows in links["kernels"].items()
        for level, _, linkable, linked, _ in rows
        if level == "source"
    }
    assert shares.pop(first.name) == 0
    assert all(share > 0 for share in shares.values())
    (missing,) = [row[4] for row in links["program"] if row[0] == "source"]
    assert missing[0].startswith(f"{first.name}: static void {first.name}(")


def test_aims_are_given_with_the_shares(trace: Trace):
    links = trace_payload(trace).chunk("links")
    assert links["aims"] == {"top": 1.0, "loops": 1.0, "source": 0.95, "assembly": 0.9} == AIMS


@pytest.mark.parametrize("code", [True, False])
def test_levels_without_code_are_left_out(trace: Trace, code: bool):
    shown = trace if code else replace(trace, kernels=(), program=None)
    levels = [row[0] for row in trace_payload(shown).chunk("links")["program"]]
    assert levels == (["model", "top", "loops", "source"] if code else ["model", "top"])


def test_texts_of_rules_go_by_their_names(trace: Trace):
    text = SourceText("python", ("class Fold(Rule):", "    pass"), ((), ()))
    payload = trace_payload(replace(trace, rules=(RuleRecord("fold-into-conv", text),)))
    assert payload.chunk("rules") == {"fold-into-conv": ["class Fold(Rule):", "    pass"]}
    assert trace_payload(trace).chunk("rules") == {}
