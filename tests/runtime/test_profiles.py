"""Medians over repeats."""

from explorer.results import ThreadShare, TimedEvent
from explorer.runtime.profiles import median_intervals, median_shares


def test_intervals_are_medians_that_do_not_overlap():
    """Durations 900, 1300, 1000 and 2000, 2100, 2100; the second one's median start is 1200."""
    repeats = [[0, 900, 1000, 3000], [0, 1300, 1400, 3500], [0, 1000, 1200, 3300]]
    assert median_intervals(repeats, 2) == [(0, 1000), (1200, 3300)]


def test_an_interval_waits_for_the_one_before():
    """Median durations 100 and 10; median starts 0 and 50, though in no run they overlap."""
    repeats = [[0, 40, 50, 60], [0, 100, 110, 120], [0, 100, 40, 50]]
    assert median_intervals(repeats, 2) == [(0, 100), (100, 110)]


def test_a_program_without_launches_has_no_intervals():
    assert median_intervals([[], []], 0) == []


def test_shares_are_those_of_the_median_run_on_the_clock_of_the_events():
    events = [
        TimedEvent("A", "a", "k", "cpu", 0, 1000),
        TimedEvent("B", "b", "k", "cpu", 1100, 1200),
    ]
    repeats = [[0, 9000, 9100, 9200], [0, 500, 600, 700], [0, 100, 110, 120]]
    of_median = [[0, 0, 0, 0, 250, 3], [1, 0, 0, 50, 500, 5], [1, 1, 1, 600, 700, 1]]
    shares = [[[0, 0, 1, 0, 9200, 1]], of_median, [[1, 0, 1, 0, 120, 1]]]
    assert median_shares(events, repeats, shares) == (
        ThreadShare(0, "a", "k", 0, 500, 3),
        ThreadShare(1, "a", "k", 100, 1000, 5),
        ThreadShare(1, "b", "k", 1100, 1200, 1),
    )


def test_several_launches_that_a_thread_runs_at_once_are_told_apart():
    events = [
        TimedEvent("A", "a", "k", "cpu", 0, 100),
        TimedEvent("B", "b", "k", "cpu", 100, 300),
    ]
    shares = median_shares(events, [[5, 55, 60, 160]], [[[0, 0, 1, 3, 162, 1]]])
    assert [(s.operation, s.start_ns, s.end_ns) for s in shares] == [("a", 0, 100), ("b", 100, 300)]


def test_without_records_there_are_no_shares():
    assert median_shares([], [[], []], []) == ()
