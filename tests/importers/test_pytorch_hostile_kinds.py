"""Calls with numbers that a textbook form has no digits for, judged by eager in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import explorer as ex

torch = pytest.importorskip("torch", reason="PyTorch judges here: the extra torch")


def judged(function: Any, *tensors: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Ours and eager's, as doubles."""

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    expected = function(*tensors)
    expected = expected if isinstance(expected, tuple) else (expected,)
    model = ex.load(torch.export.export(Module(), tensors))
    arrays = {v.name: t.numpy() for v, t in zip(model.inputs, tensors, strict=True)}
    found = list(ex.interpret(model, arrays).values())
    return [np.asarray(f, np.float64) for f in found], [t.double().numpy() for t in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["erfc", "ndtr"])
def test_a_tail_keeps_its_digits(name: str, dtype: Any):
    """1 - erf(x) has none from 4 (6 in doubles) on, which eager's ndtr shows: `math` judges."""
    function = torch.special.erfc if name == "erfc" else torch.special.ndtr
    ends = [0.0, 0.9999, 1.0001, 2.0, 3.9, 4.1, 6.0, 9.0, -3.0, np.inf, -np.inf, np.nan]
    x = torch.tensor(ends, dtype=dtype) * (1 if name == "erfc" else -1)
    ((found,), _) = judged(function, x)
    numbers = x.double().tolist()
    exact = [math.erfc(n) if name == "erfc" else math.erfc(-n / math.sqrt(2)) / 2 for n in numbers]
    tolerance = 3e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(found, exact, tolerance, 1e-44)


def test_powers_of_two_are_exact():
    x = torch.arange(-126.0, 128.0)
    ((found,), _) = judged(torch.exp2, x)
    np.testing.assert_array_equal(found, 2.0 ** x.double().numpy())


@pytest.mark.parametrize(("start", "end", "step"), [(-0.9, 2.1, 2.0), (1.9, 7.2, 1.5), (3, 3, 1)])
def test_whole_numbers_count_from_a_whole_start(start: float, end: float, step: float):
    def count(x: Any) -> Any:
        return torch.arange(start, end, step, dtype=torch.int32) + x

    ((found,), (right,)) = judged(count, torch.zeros((), dtype=torch.int32))
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("scale", [1e-308, 1e-200, 1.0, 1e200, 1e308])
def test_orthogonal_factors_of_doubles_at_the_ends(scale: float):
    x = torch.from_numpy(np.array([[0.1, -0.6], [-0.5, -0.3], [0.2, 0.7]]) * scale)
    found, right = judged(lambda x: tuple(torch.linalg.qr(x)), x)
    np.testing.assert_allclose(found[0], right[0], 1e-9)
    np.testing.assert_allclose(found[1] / scale, right[1] / scale, 1e-9, 1e-12)


@pytest.mark.parametrize("shape", [(0, 0, 0), (2, 0, 0), (0, 3, 3)])
def test_matrices_without_elements_have_no_eigenvalues(shape: tuple[int, ...]):
    found, right = judged(torch.linalg.eigvalsh, torch.zeros(shape, dtype=torch.float64))
    assert [a.shape for a in found] == [b.shape for b in right]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [(20, 3), (29, 2), (7, 5)])
def test_shrunk_bytes_have_the_weights_of_eager(sizes: tuple[int, int], seed: int):
    """Weights are rounded to 16 bits before they are used, whole ones; constructed so that most
    sums are near a half."""
    before, after = sizes
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.integers(0, 2, (40, 1, before, before)).astype(np.uint8) * 5)

    def shrunk(x: Any) -> Any:
        return torch.ops.aten._upsample_bilinear2d_aa(x, [after, after], False)

    ((found,), (right,)) = judged(shrunk, x)
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool, torch.int8])
def test_the_logarithm_of_the_gamma_function_is_0_at_1_and_2(dtype: Any):
    numbers = [1] if dtype == torch.bool else [1, 2]
    ((found,), (right,)) = judged(torch.lgamma, torch.tensor(numbers, dtype=dtype))
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(found, 0)


def test_the_cosine_of_two_numbers_is_that_of_their_signs():
    for one, other in ((0.0, -7.5), (2.0, -3.0), (1e-20, 4.0)):
        x, y = torch.tensor(one), torch.tensor(other)
        ((found,), (right,)) = judged(lambda x, y: torch.cosine_similarity(x, y, 0), x, y)
        assert found.shape == right.shape == ()
        np.testing.assert_allclose(found, right, 1e-6)


def test_a_normalization_of_nothing_is_nothing():
    nothing = torch.zeros(0)
    function = torch.nn.functional.batch_norm
    ((found,), (right,)) = judged(lambda x: function(x, None, None, training=True), nothing)
    assert found.shape == right.shape == (0,)


def test_a_sinc_of_half_floats_is_rounded_once():
    x = torch.linspace(-8, 8, 77).half()
    ((found,), _) = judged(torch.sinc, x)
    np.testing.assert_allclose(found, torch.sinc(x.double()).numpy(), 1e-3, 2e-4)
