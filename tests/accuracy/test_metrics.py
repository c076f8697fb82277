"""Errors of one tensor: what counts as equal, and what can never pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from explorer.accuracy.metrics import is_right, tensor_error, with_exact

NAN, INF = float("nan"), float("inf")


def error(actual, expected, dtype=np.float32):
    return tensor_error("t", "op", np.array(actual, dtype), np.array(expected, dtype))


def test_an_equal_tensor_has_no_error():
    found = error([1, -2, 0], [1, -2, 0])
    assert (found.max_absolute, found.max_relative) == (0.0, 0.0)
    assert (found.cosine, found.sqnr_db) == (pytest.approx(1.0), INF)


def test_the_largest_difference_counts_relative_to_the_largest_reference():
    found = error([1.0, 2.0, 4.5], [1.0, 2.0, 4.0])
    assert found.max_absolute == 0.5
    assert found.max_relative == 0.125
    assert (found.worst_index, found.worst_value, found.expected_value) == ((2,), 4.5, 4.0)


def test_tiny_references_are_measured_against_a_millionth():
    assert error([1e-9, 0.0], [0.0, 0.0]).max_relative == pytest.approx(1e-3)


def test_signal_to_noise_is_in_decibel():
    found = error([10.0, 0.1], [10.0, 0.0])
    assert found.sqnr_db == pytest.approx(40.0)  # 10 log10(100 / 0.01)
    assert error([1.0], [0.0]).sqnr_db == -INF


def test_the_cosine_of_a_turned_vector_is_zero():
    assert error([1.0, 0.0], [0.0, 1.0]).cosine == 0.0
    assert error([0.0, 0.0], [0.0, 0.0]).cosine == 1.0
    assert error([-1.0], [1.0]).cosine == -1.0


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([NAN, 1], [0, 1]),
        ([0, 1], [NAN, 1]),
        ([INF, 1], [0, 1]),
        ([0, 1], [INF, 1]),
        ([-INF, 1], [INF, 1]),
        ([NAN, 1], [INF, 1]),
        ([INF, 1], [NAN, 1]),
    ],
)
def test_special_values_at_other_positions_are_an_infinite_error(actual, expected):
    assert error(actual, expected).max_relative == INF


def test_special_values_at_equal_positions_are_equal():
    found = error([NAN, INF, -INF, 2.5], [NAN, INF, -INF, 2.0])
    assert found.max_relative == 0.25
    assert error([NAN], [NAN]).max_relative == 0.0


def test_another_shape_is_an_infinite_error():
    found = error([[1, 2]], [1, 2])
    assert found.max_relative == INF
    assert (found.cosine, found.sqnr_db) == (0.0, -INF)


def test_an_empty_tensor_is_equal_to_an_empty_one():
    assert error(np.zeros((0, 3)), np.zeros((0, 3))).max_relative == 0.0


def test_scalars_have_an_error_too():
    found = error(2.0, 4.0)
    assert (found.max_relative, found.worst_index) == (0.5, ())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_])
def test_integers_and_booleans_are_equal_or_wrong(dtype):
    assert error([1, 0, 1], [1, 0, 1], dtype).max_relative == 0.0
    assert error([1, 0, 0], [1, 0, 1], dtype).max_relative == INF


def test_integers_that_float64_cannot_tell_apart_are_told_apart():
    assert error([2**53], [2**53 + 1], np.int64).max_relative == INF


@given(hnp.arrays(np.float32, 5, elements=st.floats(width=32)))
def test_every_tensor_equals_itself(array):
    assert tensor_error("t", "op", array, array.copy()).max_relative == 0.0


@given(
    hnp.arrays(np.float32, 4, elements=st.floats(-100, 100, width=32)),
    st.integers(0, 3),
    st.sampled_from([NAN, INF, -INF]),
)
def test_no_comparison_lets_a_special_value_through(array, position, special):
    broken = array.copy()
    broken[position] = special
    tolerance = 1e30
    assert not tensor_error("t", "op", broken, array).max_relative <= tolerance
    assert not tensor_error("t", "op", array, broken).max_relative <= tolerance


def test_what_is_within_the_tolerance_of_float64_is_right_next_to_an_oracle_of_nan():
    oracle = error([NAN, 2.0], [1.0, 2.0]).max_relative
    ours = error([1.0, 2.0], [NAN, 2.0])
    judged = with_exact(ours, 1e-7, oracle, 1e-4)
    assert is_right(judged, 1e-4)
    assert judged.judged(1e-4) == (1e-7, 1e-4)
    assert not is_right(with_exact(ours, 2e-4, oracle, 1e-4), 1e-4)


def test_what_rests_on_the_reach_of_others_states_it():
    judged = with_exact(error([1.1, 2.0], [1.0, 2.0]), 0.05, 0.04, 1e-4)
    assert judged.judged(1e-4) == (0.05, 0.08)
    assert not is_right(with_exact(judged, 0.09, 0.04, 1e-4), 1e-4)
