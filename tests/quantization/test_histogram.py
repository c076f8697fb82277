"""What is kept of a tensor's numbers does not depend on how they come."""

import numpy as np
import pytest

from explorer.quantization.histogram import SIDE, Histogram


def seen(*batches) -> Histogram:
    histogram = Histogram()
    for batch in batches:
        histogram = histogram.including(np.asarray(batch, np.float32))
    return histogram


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=3000).astype(np.float32) * 3


def test_counts_do_not_depend_on_batches_and_their_order(numbers):
    whole = seen(numbers)
    for parts in (7, 100):
        pieces = np.array_split(numbers, parts)
        for order in (pieces, pieces[::-1], sorted(pieces, key=lambda p: float(np.abs(p).max()))):
            found = seen(*order)
            assert np.array_equal(found.counts, whole.counts)
            assert (found.low, found.high, found.count) == (whole.low, whole.high, whole.count)


def test_moments_are_numpys(numbers):
    found = seen(*np.array_split(numbers, 5))
    wide = numbers.astype(np.float64)
    assert found.mean == pytest.approx(wide.mean())
    assert found.deviation == pytest.approx(wide.std())
    expected = np.abs(wide - wide.mean()).mean()
    assert found.mean_deviation == pytest.approx(expected, abs=found.width)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.5, 0.9999])
def test_a_quantile_is_right_within_a_bin(numbers, share):
    found = seen(numbers)
    position = min(int(np.ceil(share * numbers.size)) - 1, numbers.size - 1)
    assert abs(found.quantile(share) - np.sort(numbers)[position]) <= found.width


def test_magnitudes_leave_out_exact_zeros(numbers):
    counts = seen(np.concatenate([numbers, np.zeros(500)])).magnitudes(64)
    edges = np.linspace(0, np.abs(numbers).max(), 65)
    expected = np.histogram(np.abs(numbers), edges)[0]
    assert counts.sum() == numbers.size
    assert np.abs(counts - expected).max() <= 3  # numbers within a bin of an edge


def test_a_range_that_grows_a_million_times_loses_nothing():
    found = seen([1e-6, -1e-6, 0.0], [1.0], [-1e6])
    assert found.counts.sum() == found.count == 5
    assert found.counts[:SIDE].sum() == 2 and found.zeros == 1


def test_what_is_not_finite_is_counted_apart():
    found = seen([1.0, np.nan, np.inf, -np.inf], [np.nan])
    assert (found.count, found.not_finite, found.low, found.high) == (1, 4, 1.0, 1.0)


def test_only_zeros():
    found = seen([0.0, 0.0])
    assert found.largest == 0.0 and found.counts[SIDE] == 2 and found.is_constant
    assert not found.magnitudes(16).any()
