"""A sample of onnx's cases, compiled; and a larger one, interpreted.

compiled_sample.txt holds 150 cases, chosen so that as many operators as can be occur, those about
one operator alone first; all of them pass on both devices. `explorer conformance` runs all cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.conformance.jobs import run_cases
from verification.conformance.suite import Case, load_cases

COMPILED = (Path(__file__).parent / "compiled_sample.txt").read_text().split()
NOT_INTERPRETED = (Path(__file__).parent / "not_interpreted.txt").read_text().split()
EVERY = 3
"""The interpreter takes each third case."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in load_cases(("node",))}


def failures(cases: list[Case], device: str) -> list[str]:
    outcomes = run_cases(cases, (device,), jobs=2, seconds=300)
    return [f"{o.case}: {o.status}, {o.reason}" for o in outcomes if not o.passed]


def test_the_sample_is_broad(cases):
    assert len(set(COMPILED)) == 150
    operators = {o.rpartition("-")[0] for name in COMPILED for o in cases[name].operators}
    assert len(operators) > 120


@pytest.mark.slow
def test_the_sample_runs_in_c(cases):
    assert failures([cases[name] for name in COMPILED], "CPU") == []


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.sweep
def test_the_sample_runs_in_opencl(cases, opencl_device_record):
    assert failures([cases[name] for name in COMPILED], "OPENCL") == []


@pytest.mark.slow
def test_a_third_of_all_cases_is_interpreted(cases):
    chosen = list(cases.values())[::EVERY]
    known = [case.name for case in chosen if case.name in NOT_INTERPRETED]
    outcomes = run_cases(chosen, ("INTERPRETER",), jobs=2, seconds=300)
    failed = [o.case for o in outcomes if not o.passed]
    unexpected = [f"{o.case}: {o.reason}" for o in outcomes if o.case in {*failed} - {*known}]
    assert unexpected == []
    # What passes by now is to be taken off the list.
    assert sorted(set(known) - set(failed)) == []


def test_the_list_of_what_is_not_interpreted_names_cases(cases):
    assert set(NOT_INTERPRETED) <= set(cases)
