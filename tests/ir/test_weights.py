"""The store of weights: names are never reused for other contents, arrays are shared and frozen."""

import numpy as np
import pytest

from explorer.ir.weights import Weights


def test_a_taken_name_gets_a_number():
    weights = Weights()
    assert weights.add("w", np.zeros(2)) == "w"
    assert weights.add("w", np.ones(2)) == "w.2"
    assert weights.add("w", np.full(2, 2.0)) == "w.3"
    np.testing.assert_array_equal(weights["w"], [0, 0])
    assert list(weights) == ["w", "w.2", "w.3"]


def test_equal_contents_under_an_equal_name_are_stored_once():
    weights = Weights({"w": np.zeros(2), "v": np.zeros(2)})
    assert weights.add("w", np.zeros(2)) == "w"
    weights.add("w", np.ones(2))
    assert weights.add("w", np.ones(2)) == "w.2"
    assert len(weights) == 3


@pytest.mark.parametrize(
    "other",
    [np.zeros(2, np.float64), np.zeros((2, 1), np.float32), np.array([0.0, -0.0], np.float32)],
    ids=["type", "shape", "sign of zero"],
)
def test_what_differs_in_a_bit_or_a_type_is_another_weight(other):
    weights = Weights({"w": np.zeros(2, np.float32)})
    assert weights.add("w", other) == "w.2"


def test_nan_equals_itself():
    weights = Weights({"w": np.array([np.nan])})
    assert weights.add("w", np.array([np.nan])) == "w"


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,)])
def test_arrays_of_any_shape_are_found_again(shape):
    weights = Weights({"w": np.ones(shape)})
    assert weights.add("w", np.ones(shape)) == "w"
    assert weights["w"].shape == shape


def test_nobody_writes_into_a_stored_array():
    weights = Weights({"w": np.zeros(2)})
    with pytest.raises(ValueError, match="read-only"):
        weights["w"][0] = 1


def test_the_array_that_was_given_stays_writable():
    array = np.zeros(2)
    Weights({"w": array})
    assert array.flags.writeable


def test_a_copy_grows_on_its_own_and_shares_arrays():
    weights = Weights({"w": np.zeros(2)})
    copy = weights.copy()
    copy.add("v", np.ones(1))
    assert list(weights) == ["w"]
    assert copy["w"] is weights["w"]


def test_the_text_tells_the_size():
    assert repr(Weights({"w": np.zeros(3, np.float32)})) == "Weights(1 arrays, 12 bytes)"
