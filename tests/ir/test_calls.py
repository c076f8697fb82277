"""Calls of programs with open sizes."""

from typing import Any

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.sizes.calls import MAX_KEPT_BYTES, Calls, Values, mask_of_call
from explorer.results.program import CallMask, OpenAxis, OpenSizes


@pytest.mark.parametrize("most", [10**15, 10**19])
def test_an_input_that_fits_no_memory_is_named_with_its_bytes(most):
    sizes = OpenSizes(
        ranges=(("n", 1, most),),
        numbers=(),
        masks=(),
        inputs=(OpenAxis("x", 0, ((most, "n"),)),),
        outputs=(),
    )
    with pytest.raises(InputError, match=rf"'x' takes {4 * most:,} bytes at its largest sizes"):
        Calls(sizes).whole({"x": np.zeros(3, np.float32)})


def of_rows(most: int) -> OpenSizes:
    return OpenSizes(
        ranges=(("n", 1, most),),
        numbers=(("size.n", "n"),),
        masks=(CallMask("valid.n", (most,), (OpenAxis("valid.n", 0, ((most, "n"),)),)),),
        inputs=(OpenAxis("x", 0, ((most, "n"),)),),
        outputs=(),
    )


def test_the_lengths_of_a_loop_are_kept_until_it_comes_again():
    calls = Calls(of_rows(300))
    arrays = [{"x": np.zeros(size, np.float32)} for size in range(1, 301)]
    first = [calls.call_of(inputs) for inputs in arrays]
    assert all(calls.call_of(a) is call for a, call in zip(arrays, first, strict=True))


def test_equal_sizes_are_one_call_however_they_are_given():
    calls = Calls(of_rows(8))
    call = calls.call_of({"x": np.zeros(3, np.float32)})
    assert call is not None and call.sizes == {"n": 3}
    assert calls.call_of({"x": np.ones(3, np.float32), "other": np.zeros(5)}) is call
    unfit: list[Any] = [{}, {"x": np.float32(1)}, {"x": [1.0, 2.0]}]
    for inputs in unfit:  # which are reported where all inputs are checked
        found = calls.call_of(inputs)
        assert found is not None and found.sizes == {}
    whole = {"x": np.zeros(8), "size.n": np.array(3), "valid.n": np.arange(8) < 3}
    assert calls.call_of(whole) is None
    with pytest.raises(InputError, match="n is 9 in the inputs"):
        calls.call_of({"x": np.zeros(9)})


def test_masks_that_are_kept_have_a_limit_of_bytes():
    most = MAX_KEPT_BYTES // 8
    calls = Calls(of_rows(most))
    for size in (*range(1, 20), 1):
        call = calls.call_of({"x": np.broadcast_to(np.float32(0), (size,))})
        assert call is not None and call.added["valid.n"].sum() == size
    kept = {id(call.added["valid.n"]): call.added["valid.n"].nbytes for call in calls.kept}
    assert sum(kept.values()) <= MAX_KEPT_BYTES


def test_a_mask_of_joined_sizes_counts_its_digits():
    axes = (OpenAxis("m", 0, ((3, "b"), (2, "2"), (4, "s"))),)
    mask = mask_of_call(CallMask("m", (24, 5), axes), Values({"b": 2, "s": 3}))
    b, two, s = np.indices((3, 2, 4))
    expected = ((b < 2) & (two < 2) & (s < 3)).reshape(-1)
    np.testing.assert_array_equal(mask, np.repeat(expected[:, None], 5, axis=1))


def test_masks_are_equal_where_the_values_of_their_axes_are():
    """Steps of a loop: one mask where they run, one where they do not, however many there are."""

    def mask(name: str, shape: tuple[int, ...], axis: int, text: str) -> CallMask:
        return CallMask(name, shape, (OpenAxis(name, axis, ((shape[axis], text),)),))

    steps = [f"min(1,max(0,n-{step}))" for step in range(1, 6)]
    masks = [mask(text, (1,), 0, text) for text in steps]
    masks += [mask("rows", (3, 2), 0, "n-2"), mask("columns", (3, 2), 1, "n-2")]
    sizes = OpenSizes(
        ranges=(("n", 0, 5),),
        numbers=(),
        masks=tuple(masks),
        inputs=(OpenAxis("x", 0, ((5, "n"),)),),
        outputs=(),
    )
    calls = Calls(sizes)
    for n in range(6):
        call = calls.call_of({"x": np.zeros(n)})
        assert call is not None
        assert [call.added[text].item() for text in steps] == [n > step for step in range(1, 6)]
        assert len({id(call.added[text]) for text in steps}) <= 2
        rows, columns = np.indices((3, 2))
        np.testing.assert_array_equal(call.added["rows"], rows < n - 2)
        np.testing.assert_array_equal(call.added["columns"], columns < n - 2)
