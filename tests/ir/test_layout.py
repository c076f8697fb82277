"""Physical forms of NCHW tensors: what lies where, and that packing loses nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from explorer.ir.layout import (
    haloed_shape,
    pack,
    pack_channels,
    physical_shape,
    rounded_channels,
    unpack,
    unpack_tap,
)
from explorer.ir.types import PLAIN, Layout

halos = st.tuples(*[st.integers(0, 3)] * 4)
layouts = st.builds(Layout, st.sampled_from([0, 1, 4, 16]), halos, st.sampled_from([0.0, -7.5]))
images = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=4, max_dims=4, min_side=1, max_side=9),
    elements=st.floats(width=32, allow_nan=False),
)


def test_shapes_of_a_blocked_tensor_with_a_halo():
    layout = Layout(16, (1, 1, 1, 1))
    assert rounded_channels(24, layout) == 32
    assert haloed_shape((1, 24, 8, 8), layout) == (1, 32, 10, 10)
    assert physical_shape((1, 24, 8, 8), layout) == (1, 2, 10, 10, 16)
    assert physical_shape((1, 24, 8, 8), PLAIN) == (1, 24, 8, 8)


def test_packing_puts_channels_innermost_and_fill_around():
    image = np.arange(1, 7, dtype=np.int32).reshape(1, 3, 1, 2)
    packed = pack(image, Layout(2, (0, 1, 0, 0)))
    expected = [[[[[0, 0], [1, 3], [2, 4]]], [[[0, 0], [5, 0], [6, 0]]]]]
    np.testing.assert_array_equal(packed, expected)


@given(image=images, layout=layouts)
def test_unpacking_what_was_packed_is_the_identity(image, layout):
    packed = pack(image, layout)
    assert packed.shape == physical_shape(image.shape, layout)
    np.testing.assert_array_equal(unpack(packed, image.shape, layout), image)
    np.testing.assert_array_equal(unpack(packed.reshape(-1), image.shape, layout), image)


@given(image=images, layout=layouts)
def test_everything_but_the_tensor_holds_the_fill(image, layout):
    packed = pack(image, layout)
    outside = packed.size - image.size
    marked = pack(np.ones_like(image), Layout(layout.block, layout.halo, 0.0))
    assert (packed[marked == 0] == layout.fill).all()
    assert (marked == 0).sum() == outside


@given(image=images, layout=layouts)
def test_a_tap_is_unpacked_from_blocks_and_from_rounded_channels(image, layout):
    packed = pack(image, layout)
    blocked = unpack_tap(packed, image.shape, layout.block, layout.halo)
    np.testing.assert_array_equal(blocked, image)
    haloed = np.full(haloed_shape(image.shape, layout), layout.fill, image.dtype)
    top, left, *_ = layout.halo
    rows, columns = image.shape[2:]
    haloed[:, : image.shape[1], top : top + rows, left : left + columns] = image
    np.testing.assert_array_equal(pack_channels(haloed, layout), packed)
    np.testing.assert_array_equal(unpack_tap(haloed, image.shape, 0, layout.halo), image)


def test_one_spatial_dimension_has_a_halo_left_and_right():
    sequence = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
    layout = Layout(0, (0, 1, 0, 2))
    np.testing.assert_array_equal(pack(sequence, layout), [[[0, 0, 1, 2, 0, 0]]])
    np.testing.assert_array_equal(unpack(pack(sequence, layout), (1, 1, 3), layout), sequence)


def test_a_halo_above_needs_rows():
    with pytest.raises(ValueError, match="needs two spatial dimensions, not 1"):
        pack(np.zeros((1, 1, 3), np.float32), Layout(0, (1, 0, 0, 0)))
