"""Medians over repeats."""

from explorer.runtime.profiles import median_intervals


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
