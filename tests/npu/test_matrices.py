"""Products of computed matrices, and transpositions: bit-equal, predicted exactly."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, event, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine, rescaling
from npu_machines import machines

from explorer.npu import LayerError, MatrixProduct, Transposition, compile_layer
from explorer.npu.layers.matrices import IN_COLUMNS, IN_ROWS
from explorer.npu.layers.tensors import blocks
from explorer.runtime.npu import simulate

ALL = ["edge-64", "tiny-8", "mac-128", "odd-12x20", "vta-16", "vta-32"]
PHASES = set(Phase) - {Phase.shrink}  # shrinking would run thousands of simulations


def product(found, random, inner=29, rows=23, columns=37, batch=3, zeros=(5, -7), **fields):
    """On VTA as many columns as weights take."""
    columns = blocks(columns, found.columns) * found.columns if found.set == "vta" else columns
    scaling = rescaling(found, 1, random)
    fields.setdefault("bias", random.integers(-5000, 5000, columns))
    return MatrixProduct(
        name="layer", batch=batch, left_shape=(inner, 1, batch * rows),
        right_shape=(inner, 1, batch * columns), zeros=IN_COLUMNS,
        left_zero_point=zeros[0], right_zero_point=zeros[1],
        **{"rescaling": scaling, **fields},
    )  # fmt: skip


def inputs_of(layer, found, random):
    half = 1 << found.input_bits - 1
    return [random.integers(-half, half, tensor.shape) for tensor in layer.inputs]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALL)
def test_products_of_computed_matrices(name):
    found, random = machine(name), np.random.default_rng(0)
    layer = product(found, random)
    left, right = inputs_of(layer, found, random)
    compared(layer, found, random, given=[left, right])
    a, b = (
        x.reshape(layer.inner, layer.batch, -1).transpose(1, 2, 0) - zero
        for x, zero in ((left, 5), (right, -7))
    )
    sums = np.einsum("bik,bjk->jbi", a, b).reshape(layer.output.shape)
    assert layer.rescaling is not None and layer.bias is not None
    sums = sums + layer.bias[:, None, None]
    np.testing.assert_array_equal(layer.run(left, right), layer.rescaling.applied(sums))
    # In the smallest tiles, whose chunks add up, the numbers are the same.
    smallest = compile_layer(layer, found, sizes=(1, 1, 1))
    after = simulate(smallest.program, smallest.image_with(left, right), found).image
    np.testing.assert_array_equal(smallest.output_of(after), layer.run(left, right))


@pytest.mark.parametrize("name", ALL)
def test_rows_and_channels_of_zeros_behind_the_second_operand(name):
    """They make no columns, and meet what lies behind the channels of the first one."""
    found, random = machine(name), np.random.default_rng(6)
    width, inner = 3 * found.columns, 2 * found.rows - 1
    layer = replace(
        product(found, random, inner, 11, width - 7, 3), zeros=IN_ROWS, padding=7,
        right_shape=(inner + 1, 1, 3 * width), bias=random.integers(-5000, 5000, width - 7),
    )  # fmt: skip
    left, right = inputs_of(layer, found, random)
    right = right.reshape(inner + 1, 3, width)
    right[inner:], right[:, :, width - 7 :] = 0, 0
    right = right.reshape(layer.right_shape)
    compared(layer, found, random, given=[left, right])
    kept = right.reshape(inner + 1, 3, width)[:inner, :, : width - 7].reshape(inner, 1, -1)
    plain = replace(layer, padding=0, right_shape=kept.shape)
    np.testing.assert_array_equal(layer.run(left, right), plain.run(left, kept))


@pytest.mark.parametrize("name", ALL)
def test_rows_of_zeros_become_no_channels_of_a_transposition(name):
    found, random = machine(name), np.random.default_rng(7)
    width = 2 * found.columns
    x = random.integers(-128, 128, (29, 3, width))
    x[:, :, width - 5 :] = 0
    layer = Transposition(name="layer", input_shape=(29, 1, 3 * width), batch=3, padding=5)
    compared(layer, found, random, given=[x.reshape(layer.input_shape)])
    expected = x[:, :, : width - 5].transpose(2, 1, 0).reshape(width - 5, 1, 3 * 29)
    np.testing.assert_array_equal(layer.run(x), expected)


@pytest.mark.parametrize("name", ALL)
def test_zero_points_at_their_ends(name):
    """One of them has a bit more than a weight once its sign is turned."""
    found, random = machine(name), np.random.default_rng(1)
    for zeros in ((-128, -128), (127, 0), (0, -128)):
        layer = product(found, random, 29, 3, 9, 2, zeros, bias=None)
        compared(layer, found, random, given=inputs_of(layer, found, random))


@pytest.mark.parametrize("depth", [12, 13, 14, 16, 20])
def test_micro_operations_that_push_each_other_out(depth):
    """Each lies where the instruction that reads it finds it, however few have room."""
    size = {"memories.micro_operations.size_bytes": 4 * depth}
    found, random = machine("vta-16", **size), np.random.default_rng(5)
    layer = product(found, random, 29, 5, 60, 2)
    compared(layer, found, random, given=inputs_of(layer, found, random))


def test_sums_that_stay():
    found, random = machine("tiny-8"), np.random.default_rng(2)
    layer = product(found, random, rescaling=None)
    compared(layer, found, random, given=inputs_of(layer, found, random))
    vta = machine("vta-16")
    with pytest.raises(LayerError, match="its sums would be cut"):
        compile_layer(product(vta, random, rescaling=None), vta)


@pytest.mark.parametrize("name", ALL)
def test_transpositions(name):
    found, random = machine(name), np.random.default_rng(3)
    columns = 2 * found.columns if found.set == "vta" else 37
    layer = Transposition(name="layer", input_shape=(29, 1, 3 * columns), batch=3)
    compared(layer, found, random)


def test_what_cannot_be_gathered_is_refused():
    vta, random = machine("vta-16"), np.random.default_rng(4)
    layer = product(vta, random)
    uneven = replace(layer, right_shape=(layer.right_shape[0], 1, 3 * 37))
    with pytest.raises(LayerError, match="37 rows is no whole number of weights"):
        compile_layer(uneven, vta)
    with pytest.raises(LayerError, match="are no zeros"):
        compile_layer(replace(layer, zeros=0), vta)
    narrow = machine("odd-12x20", **{"engines.matrix.weight_bits": 4})
    with pytest.raises(LayerError, match="inputs of 8 bits are no weights, which have 4"):
        compile_layer(product(narrow, random), narrow)


def compared_random(data, seed):
    found, random = data.draw(machines()), np.random.default_rng(seed)
    assume(found.input_bits == found.weight_bits)
    numbers = [data.draw(st.integers(1, most)) for most in (25, 15, 25, 4)]
    inner, rows, columns, batch = numbers
    half = 1 << found.input_bits - 1
    zeros = [data.draw(st.integers(-half, half - 1)) for _ in range(2)]
    layer = product(found, random, inner, rows, columns, batch, zeros)
    inputs = inputs_of(layer, found, random)
    if data.draw(st.booleans()):
        layer = Transposition(name="layer", input_shape=layer.right_shape, batch=batch)
        inputs = inputs[1:]
    try:
        compared(
            layer, found, random, given=inputs, buffers=data.draw(st.sampled_from([None, 1, 2]))
        )
    except LayerError as error:
        event("it does not fit")
        assert "fit" in str(error) or "are no zeros" in str(error)  # noqa: PT017


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=6, phases=PHASES)
def test_random_products(data, seed):
    compared_random(data, seed)


@pytest.mark.sweep
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=120, phases=PHASES)
def test_many_random_products(data, seed):
    compared_random(data, seed)
