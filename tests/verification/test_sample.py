"""A sample of onnx's cases, compiled; and a larger one, interpreted.

compiled_sample.txt holds 150 cases, chosen so that as many operators as can be occur, those about
one operator alone first; all of them pass on both devices. `make sweeps` runs all of these and a
third of all cases interpreted, `make test` some of both; `explorer conformance` runs all cases.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.compilation import Compilation
from verification.conformance.jobs import run_cases
from verification.conformance.suite import Case, Outcome, Suite, load_cases

COMPILED = (Path(__file__).parent / "compiled_sample.txt").read_text().split()
NOT_INTERPRETED = (Path(__file__).parent / "not_interpreted.txt").read_text().split()
EVERY = 3
"""The interpreter takes each third case."""
SOME = 4
"""Of either sample `make test` takes each fourth case."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in load_cases(("node",))}


@pytest.fixture(scope="module")
def run_here(cases) -> Callable[[list[Case], str], list[Outcome]]:
    """Runs cases in this process, which has loaded onnx's cases: a child would take seconds for it.

    Native code has a process of its own all the same.
    """
    suite = Suite(Compilation.open)
    return lambda chosen, device: [suite.run(case.name, case.group, device) for case in chosen]


def run_apart(cases: list[Case], device: str) -> list[Outcome]:
    return run_cases(cases, (device,), jobs=2, seconds=300)


def failures(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.case}: {o.status}, {o.reason}" for o in outcomes if not o.passed]


def check_interpreted(chosen: list[Case], outcomes: list[Outcome]) -> None:
    known = [case.name for case in chosen if case.name in NOT_INTERPRETED]
    failed = [o.case for o in outcomes if not o.passed]
    unexpected = [f"{o.case}: {o.reason}" for o in outcomes if o.case in {*failed} - {*known}]
    assert unexpected == []
    # What passes by now is to be taken off the list.
    assert sorted(set(known) - set(failed)) == []


def test_the_sample_is_broad(cases):
    assert len(set(COMPILED)) == 150
    operators = {o.rpartition("-")[0] for name in COMPILED for o in cases[name].operators}
    assert len(operators) > 120


@pytest.mark.sweep
def test_a_fourth_of_the_sample_runs_in_c(cases, run_here):
    chosen = [cases[name] for name in COMPILED[::SOME]]
    assert failures(run_here(chosen, "CPU")) == []


@pytest.mark.slow
@pytest.mark.sweep
def test_the_sample_runs_in_c(cases):
    assert failures(run_apart([cases[name] for name in COMPILED], "CPU")) == []


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.sweep
def test_the_sample_runs_in_opencl(cases, opencl_device_record):
    assert failures(run_apart([cases[name] for name in COMPILED], "OPENCL")) == []


def test_a_twelfth_of_all_cases_is_interpreted(cases, run_here):
    chosen = list(cases.values())[:: EVERY * SOME]
    check_interpreted(chosen, run_here(chosen, "INTERPRETER"))


@pytest.mark.slow
@pytest.mark.sweep
def test_a_third_of_all_cases_is_interpreted(cases):
    chosen = list(cases.values())[::EVERY]
    check_interpreted(chosen, run_apart(chosen, "INTERPRETER"))


def test_the_list_of_what_is_not_interpreted_names_cases(cases):
    assert set(NOT_INTERPRETED) <= set(cases)
