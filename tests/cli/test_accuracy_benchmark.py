"""What the accuracy benchmark does with results: the journal, the interval of pairs, the table."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "accuracy"))
try:
    from results import OURS, Journal, Result, paired_interval, table
finally:
    sys.path.pop(0)

BEST = Result(
    model="m", method=OURS, count=100, sqnr_db=30.0, cosine=1.0, differ=(1,), accuracy=90.0,
    exact_accuracy=91.0,
)  # fmt: skip


def test_a_run_goes_on_and_tries_again_what_failed(tmp_path):
    path = tmp_path / "journal.json"
    journal = Journal(path)
    journal.add(BEST)
    journal.add(replace(BEST, method="kl", problem="fails: no memory"))
    again = Journal(path)
    assert again.results == journal.results
    assert again.has("m", OURS)
    assert not again.has("m", "kl")
    again.add(replace(BEST, method="kl"))
    assert Journal(path).results == [BEST, replace(BEST, method="kl")]


def test_points_lost_are_those_of_the_same_examples(tmp_path):
    path = tmp_path / "journal.json"
    Journal(path).add(replace(BEST, lost=(1, 2, 3, 4, 5, 6), won=(50,)))
    (kept,) = Journal(path).results
    lines = table([kept, replace(kept, method="a")], ("m",), (OURS, "a"), ("a",))
    found = [line for line in lines if "points lost" in line]
    words = "right only in floats 6, only in integers 1 of 100"
    assert found == [f"m: +5.00 points lost, 95 % -0.45 to +10.25 ({words})"]


def test_pairs_that_agree_say_nothing():
    """b = 6 and c = 1 of 100: (5 +- 1.96 sqrt(8 - 25 / 102)) / 102."""
    shared = [90, 91, 92]
    interval = paired_interval([*range(6), *shared], [50, *shared], 100)
    assert interval == pytest.approx((-0.449, 10.253), abs=1e-3)
    low, high = paired_interval(shared, shared, 100)
    assert low == -high
    assert low < 0


def test_ours_is_compared_with_the_best_peer_of_each_measure():
    peers = [
        replace(BEST, method="a", sqnr_db=28.0, differ=(1, 2)),
        replace(BEST, method="b", sqnr_db=20.0, differ=()),
        replace(BEST, method="c", problem="fails: unknown operator"),
    ]
    methods = (OURS, "a", "b", "c", "d")
    lines = table([BEST, *peers], ("m", "n"), methods, methods[1:])
    ours, first, second = (
        "90.0, 1, 30.0, 1.00000",
        "90.0, 2, 28.0, 1.00000",
        "90.0, 0, 20.0, 1.00000",
    )
    assert lines[0] == f"| model (tested) | float | {' | '.join(methods)} |"
    assert lines[2] == f"| m (100) | 91.0 | {ours} | {first} | {second} | fails | - |"
    assert lines[3] == ""  # nothing was measured of n
    assert any(line.startswith("| m | 28.0 (a) | 30.0 | 0 (b) | 1 |") for line in lines)
    assert "above the best peer's SQNR: 1 of 1 models, +2.0 dB on average" in lines
    assert lines[-1] == "m, c: fails: unknown operator"
