"""Weights in blocks: nearest numbers, and GPTQ against its definition."""

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.quantization.block_numbers import BlockForm, nearest, parameters, rounded
from explorer.quantization.corrections.gptq import DAMPING, errors, gptq

FORMS = ["int4", "uint4", "int8", "uint8"]


@pytest.fixture
def random():
    return np.random.default_rng(5)


def correlated(random, count, depth):
    """Inputs as networks have them: of neighbours that are much alike, some always zero."""
    hidden = random.standard_normal((count, max(depth // 3, 1)))
    inputs = hidden @ random.standard_normal((hidden.shape[1], depth))
    return inputs + 0.3 * random.standard_normal((count, depth))


@pytest.mark.parametrize("name", FORMS)
def test_nearest_numbers_are_off_by_half_a_step(random, name):
    """The last block of 70 rows has six; with a sign the ends of the range are as far from zero."""
    form = BlockForm(name, 32)
    weights = random.uniform(-1, 2, (70, 5)).astype(np.float32)
    found = nearest(weights, form)
    assert found.scales.shape == (3, 5)
    steps = found.scales[np.arange(70) // 32]
    assert np.all(np.abs(found.real() - weights) <= steps * 0.5001)
    assert (found.zeros is None) == (name in ("int4", "int8"))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("number", [0.0, 0.7, -0.7])
def test_blocks_of_one_number_are_that_number(name, number):
    found = nearest(np.full((8, 2), number, np.float32), BlockForm(name, 4))
    assert np.allclose(found.real(), number, rtol=1e-6)


def by_definition(weights, moments, form):
    """Every inverse by itself, of the rows that are left: equations 2 and 3 of the paper."""
    left, depth = weights.astype(np.float64), len(weights)
    damped = moments + DAMPING * np.diagonal(moments).mean() * np.eye(depth)
    real = np.empty_like(left)
    for row in range(depth):
        if row % form.block == 0:
            scales, zeros = parameters(left[row : row + form.block], form)
        real[row] = (rounded(left[row], scales, zeros, form) - zeros) * scales
        inverse = np.linalg.inv(damped[row:, row:])
        left[row:] -= np.outer(inverse[:, 0] / inverse[0, 0], left[row] - real[row])
    return real


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("depth", "block"), [(9, 4), (132, 32)])
def test_one_cholesky_factor_has_all_inverses(random, name, depth, block):
    """132 rows are more than are taken together."""
    form, inputs = BlockForm(name, block), correlated(random, 300, depth)
    weights = random.standard_normal((depth, 3))
    moments = inputs.T @ inputs / len(inputs)
    found, expected = gptq(weights, moments, form), by_definition(weights, moments, form)
    difference = weights - expected
    wanted = np.einsum("kn,kn->n", difference, moments @ difference)
    is_chosen = wanted < errors(weights, nearest(weights, form), moments)
    assert is_chosen.all()
    assert np.allclose(found.real(), expected, atol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_sums_err_less_than_with_the_nearest(random, name):
    form, inputs = BlockForm(name, 32), correlated(random, 400, 96)
    weights = random.standard_normal((96, 16)).astype(np.float32)
    moments = inputs.T @ inputs / len(inputs)
    before, after = (
        errors(weights, found, moments)
        for found in (nearest(weights, form), gptq(weights, moments, form))
    )
    assert np.all(after <= before)
    assert after.mean() < 0.6 * before.mean()
    measured = np.mean((inputs @ (weights - gptq(weights, moments, form).real())) ** 2, axis=0)
    assert np.allclose(measured, after, rtol=1e-5)


def test_numbers_that_suit_few_examples_alone_are_not_taken(random):
    """Of 20 examples that have nothing in common nothing is learnt about others."""
    form, weights = BlockForm("int4", 32), random.standard_normal((64, 32)).astype(np.float32)
    seen, unseen = (random.standard_normal((count, 64)) for count in (20, 4000))
    moments, judged = (x.T @ x / len(x) for x in (seen, unseen))
    plain = errors(weights, nearest(weights, form), judged)
    assert errors(weights, gptq(weights, moments, form), judged).mean() > 1.2 * plain.mean()
    assert np.all(errors(weights, gptq(weights, moments, form, judged), judged) <= plain)


def test_inputs_that_are_always_zero_get_the_nearest_numbers(random):
    inputs = correlated(random, 100, 12)
    inputs[:, 4:8] = 0
    weights = random.standard_normal((12, 3)).astype(np.float32)
    form = BlockForm("int4", 4)
    found = gptq(weights, inputs.T @ inputs / 100, form)
    assert np.array_equal(found.numbers[4:8], nearest(weights, form).numbers[4:8])
    silent = gptq(weights, np.zeros((12, 12)), form)
    assert np.array_equal(silent.real(), nearest(weights, form).real())


@pytest.mark.parametrize(
    ("name", "block", "message"),
    [
        ("int3", 32, "weights cannot be 'int3'"),
        ("int4", 5, "a scale for every 5"),
        ("int4", 0, "a scale for every 0"),
        ("int8", True, "a scale for every True"),
    ],
)
def test_other_forms_are_refused(name, block, message):
    with pytest.raises(InputError, match=message):
        BlockForm(name, block)
