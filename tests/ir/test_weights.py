"""The store of weights: names are never reused for other contents, arrays are shared and frozen."""

import threading

import numpy as np
import pytest

from explorer.ir.deferred import ArrayForm, Deferred
from explorer.ir.weights import MIN_DEFERRED_BYTES, Weights

LARGE = ArrayForm((MIN_DEFERRED_BYTES // 4,), np.dtype(np.float32))


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


def test_a_large_array_is_made_in_the_background():
    weights, made = Weights(), threading.Event()

    def make() -> np.ndarray:
        made.set()
        return np.ones(LARGE.shape, np.float32)

    assert weights.add_later("w", LARGE, make, "ones") == "w"
    assert made.wait(timeout=60)
    np.testing.assert_array_equal(weights["w"], np.ones(LARGE.shape))


def test_the_form_is_known_before_the_array():
    weights, go_on = Weights(), threading.Event()

    def make() -> np.ndarray:
        assert go_on.wait(timeout=60)
        return np.zeros(LARGE.shape, np.float32)

    weights.add_later("w", LARGE, make, "zeros")
    assert weights.form("w") == LARGE
    assert repr(weights) == f"Weights(1 arrays, {LARGE.size_bytes} bytes)"
    go_on.set()
    assert not weights["w"].any()


def test_an_array_that_reads_another_one_is_made_after_it():
    weights = Weights()
    weights.add_later("w", LARGE, lambda: np.ones(LARGE.shape, np.float32), "ones")
    weights.add_later("v", LARGE, lambda: weights["w"] * 2, ("twice", "w"))
    np.testing.assert_array_equal(weights["v"], np.full(LARGE.shape, 2))


def test_an_equal_recipe_under_an_equal_name_is_shared_without_making_it():
    weights = Weights()
    weights.add_later("w", LARGE, lambda: np.ones(LARGE.shape, np.float32), "ones")

    def never() -> np.ndarray:
        raise AssertionError("it is there already")

    assert weights.copy().add_later("w", LARGE, never, "ones") == "w"


def test_another_recipe_under_a_taken_name_is_told_apart_by_contents():
    weights = Weights()
    weights.add_later("w", LARGE, lambda: np.ones(LARGE.shape, np.float32), "ones")
    same = weights.add_later("w", LARGE, lambda: np.ones(LARGE.shape, np.float32), "1 + 0")
    other = weights.add_later("w", LARGE, lambda: np.zeros(LARGE.shape, np.float32), "zeros")
    assert (same, other) == ("w", "w.2")


def test_a_small_array_is_made_at_once():
    weights, threads = Weights(), []

    def make() -> np.ndarray:
        threads.append(threading.current_thread())
        return np.zeros(2)

    weights.add_later("w", ArrayForm((2,), np.dtype(np.float64)), make, "zeros")
    assert threads == [threading.current_thread()]


def test_what_making_raises_is_met_by_whoever_reads():
    weights = Weights()

    def make() -> np.ndarray:
        raise MemoryError("no room")

    weights.add_later("w", LARGE, make, "room")
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            weights["w"]


def test_an_array_of_another_form_than_promised_is_refused():
    with pytest.raises(ValueError, match="instead of"):
        Deferred(LARGE, lambda: np.zeros(3, np.float32)).array()


def test_nobody_writes_into_an_array_made_later():
    weights = Weights()
    weights.add_later("w", LARGE, lambda: np.zeros(LARGE.shape, np.float32), "zeros")
    with pytest.raises(ValueError, match="read-only"):
        weights["w"][0] = 1
