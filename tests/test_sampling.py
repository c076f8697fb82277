"""The sample of a wide parametrization: small, always the same, with every value of every axis."""

from itertools import product
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

sampling = run_path(str(Path(__file__).with_name("sampling.py")))
sample = sampling["sample"]
mark_what_is_left_out = sampling["mark_what_is_left_out"]

CASES = {
    f"{kind}-{lanes}": {"kind": kind, "lanes": lanes} for kind, lanes in product(range(3), range(4))
}


def test_every_value_of_every_axis_is_in_a_sample_that_has_room_for_it():
    chosen = sample(CASES, 4)
    assert len(chosen) == 4
    assert {CASES[name]["kind"] for name in chosen} == {0, 1, 2}
    assert {CASES[name]["lanes"] for name in chosen} == {0, 1, 2, 3}


def test_values_occur_equally_often():
    chosen = sample(CASES, 6)
    kinds = [CASES[name]["kind"] for name in chosen]
    assert [kinds.count(kind) for kind in range(3)] == [2, 2, 2]


def test_the_order_of_the_cases_does_not_matter():
    assert sample(dict(reversed(CASES.items())), 5) == sample(CASES, 5)


def test_a_larger_count_takes_all():
    assert sample(CASES, 99) == set(CASES)


class Case:
    """What is asked of a collected test."""

    def __init__(self, name: str, marks: dict[str, tuple[int, ...]], indices: dict[str, int]):
        self.nodeid = f"tests/test_a.py::{name}"
        self.marks = {kind: SimpleNamespace(args=args) for kind, args in marks.items()}
        if indices:
            self.callspec = SimpleNamespace(indices=indices)

    def get_closest_marker(self, name: str) -> SimpleNamespace | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = SimpleNamespace(args=())


def test_what_is_not_in_the_sample_becomes_a_sweep():
    wide = [Case(f"wide[{n}]", {"sampled": (2,)}, {"n": n}) for n in range(5)]
    plain = [Case(f"plain[{n}]", {}, {"n": n}) for n in range(5)]
    mark_what_is_left_out([*wide, *plain])
    assert sum("sweep" in case.marks for case in wide) == 3
    assert not any("sweep" in case.marks for case in plain)


def test_a_single_case_that_is_asked_for_runs():
    case = Case("wide[3]", {"sampled": (2,)}, {"n": 3})
    mark_what_is_left_out([case])
    assert "sweep" not in case.marks


def test_a_function_without_parameters_has_no_sample():
    with pytest.raises(pytest.UsageError, match="has no parameters"):
        mark_what_is_left_out([Case("plain", {"sampled": (2,)}, {})])
