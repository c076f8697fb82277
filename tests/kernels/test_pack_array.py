"""Weights in the layout that a scheduled kernel reads: every element once, zeros elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.kernels.program.packing import pack_array, pack_weight, packed_weight_shape
from explorer.kernels.steps.pack import blocked_pack, is_identity, packed_shape


def test_channels_go_in_blocks_of_two_innermost():
    array = np.arange(1, 7).reshape(1, 3, 2)
    packed = pack_array(array, ((0, 1, None), (1, 2, None), (2, 1, None), (1, 1, 2)))
    np.testing.assert_array_equal(packed, [[[[1, 3], [2, 4]], [[5, 0], [6, 0]]]])


def test_an_identity_changes_nothing():
    array = np.arange(6).reshape(2, 3)
    pack = ((0, 1, None), (1, 1, None))
    assert is_identity(pack)
    np.testing.assert_array_equal(pack_array(array, pack), array)


def test_a_transpose_is_a_pack():
    array = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(pack_array(array, ((1, 1, None), (0, 1, None))), array.T)


@pytest.mark.parametrize("block", [1, 4, 16])
def test_the_pack_of_a_blocked_tensor_is_the_layout(block):
    from explorer.ir.layout import pack
    from explorer.ir.types import Layout

    array = np.random.default_rng(0).normal(size=(2, 17, 3, 5))
    ours = pack_array(array, tuple(blocked_pack(block)))
    np.testing.assert_array_equal(ours, pack(array, Layout(block)))


@st.composite
def packs(draw):
    """Some dimensions of an array split into digits of two or three, digits in any order."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    digits = []
    for dimension in range(len(shape)):
        sizes = draw(st.lists(st.integers(2, 3), max_size=2))
        divisor = 1
        for size in sizes:
            digits.append((dimension, divisor, size))
            divisor *= size
        digits.append((dimension, divisor, None))
    return tuple(shape), tuple(draw(st.permutations(digits)))


@given(packs())
def test_every_element_lies_where_its_digits_say(example):
    shape, pack = example
    array = np.arange(1, np.prod(shape) + 1).reshape(shape)
    packed = pack_array(array, pack)
    assert packed.shape == tuple(packed_shape(shape, pack))
    for index in np.ndindex(shape):
        place = tuple(index[d] // divisor % (modulus or 10**9) for d, divisor, modulus in pack)
        assert packed[place] == array[index]
    assert np.count_nonzero(packed) == array.size


@pytest.mark.parametrize(("outputs", "shape"), [(None, (5, 3, 3, 3)), (2, (5, 3, 3, 3))])
def test_the_shape_is_known_before_the_weight_is_packed(outputs, shape):
    pack = ((0, 4, None), (1, 1, None), (2, 1, None), (3, 1, None), (0, 1, 4))
    if outputs is not None:  # m + 2, m + 2, O, C: the channels lie behind
        pack = ((0, 1, None), (1, 1, None), (2, 4, None), (3, 1, None), (2, 1, 4))
    packed = pack_weight(np.ones(shape, np.float32), outputs, pack)
    assert packed.shape == packed_weight_shape(shape, outputs, pack)
