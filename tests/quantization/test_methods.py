"""Thresholds against brute force over the numbers themselves."""

import numpy as np
import pytest

from explorer.quantization import methods
from explorer.quantization.histogram import Histogram
from explorer.quantization.methods import RANGES, Range, squared_error

BITS = 4
"""Few, so that where to cut matters."""


def shapes() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    normal = random.normal(size=20_000)
    return {
        "normal": normal,
        "laplace": random.laplace(size=20_000),
        "relu": np.maximum(normal, 0),
        "negative": -np.abs(normal),
        "outlier": np.append(normal, [60.0]),
        "away from zero": normal * 0.01 + 0.5,
    }


@pytest.fixture(scope="module", params=shapes())
def numbers(request):
    return shapes()[request.param].astype(np.float32)


@pytest.fixture(scope="module")
def histogram(numbers):
    found = Histogram()
    for batch in np.array_split(numbers, 4):
        found = found.including(batch)
    return found


def rounded(numbers: np.ndarray, chosen: Range, bits: int) -> np.ndarray:
    step = (chosen.high - chosen.low) / (2**bits - 1)
    return np.clip(np.rint(numbers / step) * step, chosen.low, chosen.high)


def clipped(numbers: np.ndarray, threshold: float) -> Range:
    low, high = float(numbers.min()), float(numbers.max())
    return Range(min(max(low, -threshold), 0.0), max(min(high, threshold), 0.0))


def true_error(numbers: np.ndarray, chosen: Range, bits: int) -> float:
    return float(np.mean((numbers - rounded(numbers.astype(np.float64), chosen, bits)) ** 2))


@pytest.mark.parametrize("method", RANGES)
def test_ranges_hold_zero_and_nothing_that_was_not_seen(method, numbers, histogram):
    chosen = RANGES[method](histogram, BITS)
    assert min(numbers.min(), 0) <= chosen.low <= 0 <= chosen.high <= max(numbers.max(), 0)
    assert chosen.threshold > 0


def test_min_max_is_numpys(numbers, histogram):
    chosen = RANGES["min-max"](histogram, BITS)
    assert (chosen.low, chosen.high) == (min(numbers.min(), 0), max(numbers.max(), 0))


def test_moving_average_is_that_of_the_batches(numbers, histogram):
    first, *others = np.array_split(numbers, 4)
    low, high = first.min(), first.max()
    for batch in others:
        low = 0.9 * low + 0.1 * batch.min()
        high = 0.9 * high + 0.1 * batch.max()
    chosen = RANGES["moving-average"](histogram, BITS)
    assert chosen.low == pytest.approx(min(low, 0)) and chosen.high == pytest.approx(max(high, 0))


def test_the_percentile_cuts_as_many_as_it_says(numbers, histogram):
    chosen = RANGES["percentile"](histogram, BITS)
    outside = np.sum((numbers < chosen.low) | (numbers > chosen.high))
    most = (1 - methods.PERCENTILE / 100) * numbers.size
    near = np.sum(np.abs(numbers - chosen.low) < 2 * histogram.width)
    near += np.sum(np.abs(numbers - chosen.high) < 2 * histogram.width)
    assert outside <= most + 1 + near


@pytest.mark.sampled(2)
def test_mse_is_as_good_as_the_best_threshold_of_all(numbers, histogram):
    """The model of the error (step^2 / 12) is not the true one of few bits: within a fifth."""
    largest = float(np.abs(numbers).max())
    every = [clipped(numbers, t) for t in np.linspace(largest / 60, largest, 60)]
    best = min(squared_error(histogram, chosen, BITS) for chosen in every)
    assert squared_error(histogram, RANGES["mse"](histogram, BITS), BITS) <= 1.2 * best


def test_kl_is_the_smallest_divergence_of_all_thresholds(numbers, histogram):
    """By the definition, candidate by candidate, with loops."""
    bins, levels = methods.KL_BINS, 2 ** (BITS - 1 + (numbers.min() >= 0 or numbers.max() <= 0))
    counts = histogram.magnitudes(bins).astype(np.float64)
    divergences = {}
    for n in range(levels, bins + 1, methods.KL_STEP):
        p = counts[:n].copy()
        p[-1] += counts[n:].sum()
        q = np.zeros(n)
        for level in range(levels):
            start, stop = level * n // levels, (level + 1) * n // levels
            filled = [i for i in range(start, stop) if counts[i]]
            for i in filled:
                q[i] = counts[start:stop].sum() / len(filled)
        if q.any():
            p, q = p / p.sum(), q / q.sum()
            divergences[n] = sum(
                a * np.log(a / max(b, methods.SMOOTHED)) for a, b in zip(p, q, strict=True) if a
            )
    best = min(divergences, key=divergences.__getitem__)
    expected = clipped(numbers, histogram.largest * best / bins)
    assert RANGES["kl"](histogram, BITS) == pytest.approx(expected) or divergences[best] == (
        pytest.approx(min(divergences.values()))
    )


@pytest.mark.parametrize(
    ("method", "bits", "published"),
    [("aciq-gauss", 8, 3.92), ("aciq-gauss", 4, 2.55)]
    + [("aciq-laplace", 8, 9.89), ("aciq-laplace", 4, 5.03)],
)
def test_aciq_has_the_published_factors(method, bits, published):
    wide = np.append(np.random.default_rng(0).normal(size=1000), [-1e3, 1e3])
    histogram = Histogram().including(wide)
    unit = histogram.deviation if method == "aciq-gauss" else histogram.mean_deviation
    chosen = RANGES[method](histogram, bits)
    assert (chosen.high - chosen.low) / 2 / unit == pytest.approx(published, rel=0.01)


def test_the_expected_error_is_the_true_one(numbers, histogram):
    """Where numbers spread over many steps."""
    chosen = clipped(numbers, float(np.quantile(np.abs(numbers), 0.999)))
    expected = true_error(numbers, chosen, 12)
    assert squared_error(histogram, chosen, 12) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("method", RANGES)
def test_numbers_that_are_all_zero_have_an_empty_range(method):
    assert RANGES[method](Histogram().including(np.zeros(4)), 8) == Range(0.0, 0.0)
