"""Divisors, from which tiles are chosen."""

from __future__ import annotations

import time

from explorer.kernels.schedules.choices import divisors


def test_divisors_are_all_and_ascending():
    for number in range(1, 200):
        assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


def test_divisors_of_a_large_extent_are_found_at_once():
    start = time.process_time()
    assert divisors(2**40)[:3] == [1, 2, 4]
    assert time.process_time() - start < 5
