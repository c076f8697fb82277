"""Histograms, special values and worst elements of a tensor against its reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from explorer.accuracy.details import ERROR_BINS, MAX_WORST, VALUE_BINS, tensor_detail
from explorer.results import TensorDetail

NAN, INF = float("nan"), float("inf")


def detail(actual, expected, dtype=np.float32) -> TensorDetail:
    found = tensor_detail(np.array(actual, dtype), np.array(expected, dtype))
    assert found is not None
    return found


def test_both_histograms_have_the_bins_of_a_common_range():
    found = detail([0, 1, 2, 8], [0, 1, 2, 4])
    assert (found.low, found.high) == (0.0, 8.0)
    assert [i for i, n in enumerate(found.expected_counts) if n] == [0, 5, 10, 20]
    assert [i for i, n in enumerate(found.value_counts) if n] == [0, 5, 10, VALUE_BINS - 1]


def test_a_single_value_stands_in_the_middle_of_its_range():
    found = detail([3, 3], [3, 3])
    assert (found.low, found.high) == (1.5, 4.5)
    assert found.value_counts[VALUE_BINS // 2] == 2


def test_errors_are_counted_by_decade_relative_to_the_largest_reference():
    found = detail([10.0, 1.0 + 2e-3, 0.0], [10.0, 1.0, 0.0], np.float64)
    assert found.equal == 2
    assert [i for i, n in enumerate(found.error_counts) if n] == [25]  # 10^(-10 + 25 / 4) <= 2e-4
    assert detail([1.0], [2.0]).error_counts[38] == 1  # 0.5 lies between 10^-0.5 and 10^-0.25


def test_errors_outside_of_the_scale_stand_in_its_last_bins():
    assert detail([1 + 1e-13], [1.0], np.float64).error_counts[0] == 1
    assert detail([1e6], [1.0]).error_counts[ERROR_BINS - 1] == 1
    assert detail([NAN], [1.0]).error_counts[ERROR_BINS - 1] == 1


def test_special_values_are_counted_and_differ_infinitely_where_only_one_is_special():
    found = detail([NAN, INF, 1, NAN, -INF], [NAN, INF, NAN, 2, INF])
    assert found.expected_special == (2, 2, 0)
    assert found.value_special == (2, 1, 1)
    assert found.equal == 2
    assert [(w.index, w.difference) for w in found.worst] == [((2,), INF), ((3,), INF), ((4,), INF)]


def test_the_worst_elements_come_in_order_and_of_equal_ones_the_first():
    actual = np.zeros((3, 5))
    actual[1, 2], actual[2, 4] = -3.0, 2.0
    actual[0] = 1.0
    found = tensor_detail(actual + np.eye(3, 5) * 0, np.zeros((3, 5)))
    assert found is not None
    assert [w.index for w in found.worst] == [(1, 2), (2, 4), *((0, i) for i in range(5))]
    assert found.worst[0].value == -3.0


def test_no_more_than_eight_worst_elements_are_kept():
    found = detail(np.arange(100), np.zeros(100))
    assert [w.index for w in found.worst] == [(i,) for i in range(99, 99 - MAX_WORST, -1)]


def test_integers_that_float64_cannot_tell_apart_are_one_apart():
    found = detail([2**53 + 1], [2**53], np.int64)
    assert found.equal == 0
    assert found.worst[0].difference == 1.0


def test_booleans_have_a_histogram_too():
    found = detail([True, False, True], [True, True, True], np.bool_)
    assert (found.element_type, found.low, found.high) == ("bool", 0.0, 1.0)
    assert found.worst[0].index == (1,)


def test_an_empty_tensor_has_empty_histograms():
    found = detail(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (found.shape, found.equal, sum(found.value_counts), found.worst) == ((0, 3), 0, 0, ())


def test_tensors_of_other_shapes_have_no_detail():
    assert tensor_detail(np.zeros(3), np.zeros((3, 1))) is None


def test_the_widest_range_of_numbers_is_counted():
    largest = np.finfo(np.float64).max
    found = detail([-largest, 0, largest], [-largest, 0, largest], np.float64)
    assert [i for i, n in enumerate(found.value_counts) if n] == [0, 20, VALUE_BINS - 1]
    assert detail([largest], [largest], np.float64).value_counts.count(1) == 1
    assert detail([-largest], [largest], np.float64).worst[0].difference == INF


@given(
    hnp.arrays(np.float32, 6, elements=st.floats(width=32)),
    hnp.arrays(np.float32, 6, elements=st.floats(width=32)),
)
def test_every_element_is_counted_once(actual, expected):
    found = tensor_detail(actual, expected)
    assert found is not None
    assert sum(found.expected_counts) + sum(found.expected_special) == 6
    assert sum(found.value_counts) + sum(found.value_special) == 6
    assert sum(found.error_counts) + found.equal == 6
    assert len(found.worst) == 6 - found.equal


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.bool_])
def test_a_tensor_that_equals_itself_has_no_worst_element(dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    found = tensor_detail(array, array.copy())
    assert found is not None
    assert found.value_counts == found.expected_counts
    assert (found.equal, found.worst, sum(found.error_counts)) == (24, (), 0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_the_worst_of_a_large_tensor_are_those_of_a_full_sort(ties: int, seed: int):
    generator = np.random.default_rng(seed)
    actual = generator.standard_normal(6000).astype(np.float32)
    actual[generator.integers(0, actual.size, ties)] = 7.0
    found = tensor_detail(actual, np.zeros(6000, np.float32))
    assert found is not None
    ranked = sorted(range(actual.size), key=lambda place: (-abs(actual[place]), place))
    assert [w.index for w in found.worst] == [(place,) for place in ranked[:MAX_WORST]]
