"""Factors that a zero ends, and numbers next to others, against PyTorch.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")

INFINITE = torch.full((9, 8), float("inf"))
ZERO = torch.zeros(8, 9)
ONES = torch.ones(9, 9)
NAN = torch.full((9, 9), float("nan"))

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "addmm": (lambda b, x, y: torch.addmm(b, x, y, alpha=0), (ONES, INFINITE, ZERO)),
    "addmm of a row": (lambda b, x, y: torch.addmm(b, x, y, alpha=0), (ONES[0], INFINITE, ZERO)),
    "addmm, nothing added": (
        lambda b, x, y: torch.addmm(b, x, y, alpha=0, beta=0),
        (NAN, INFINITE, ZERO),
    ),
    "addmm, beta": (lambda b, x, y: torch.addmm(b, x, y, alpha=0, beta=3), (ONES, INFINITE, ZERO)),
    "addmv": (lambda b, x, y: torch.addmv(b, x, y, alpha=0), (ONES[0], INFINITE, ZERO[:, 0])),
    "addbmm": (
        lambda b, x, y: torch.addbmm(b, x, y, alpha=0),
        (ONES, INFINITE[None], ZERO[None]),
    ),
    "baddbmm": (
        lambda b, x, y: torch.baddbmm(b, x, y, alpha=0),
        (ONES[None], INFINITE[None], ZERO[None]),
    ),
    "baddbmm of small matrices": (
        lambda b, x, y: torch.baddbmm(b, x, y, alpha=0),
        (ONES[None, :2, :2], INFINITE[None, :2], ZERO[None, :, :2]),
    ),
    "addr": (
        lambda b, x, y: torch.addr(b, x, y, alpha=0),
        (ONES, INFINITE[:, 0], torch.zeros(9)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_alpha_of_zero_ends_what_it_ends_in_pytorch(name: str):
    function, inputs = CASES[name]
    np.testing.assert_array_equal(interpreted(function, inputs), function(*inputs).numpy())


NUMBERS = (0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 3.0e38, 1e-45, -1e-45)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_next_number(dtype: Any):
    x = torch.tensor([a for a in NUMBERS for _ in NUMBERS], dtype=dtype)
    y = torch.tensor([*NUMBERS] * len(NUMBERS), dtype=dtype)
    expected = torch.nextafter(x, y).numpy()
    for found in (interpreted(torch.nextafter, (x, y)), compiled(torch.nextafter, (x, y))):
        np.testing.assert_array_equal(found, expected)
        finite = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


def test_the_next_number_of_broadcast_tensors():
    x, y = torch.randn(3, 1), torch.randn(4)
    expected = torch.nextafter(x, y).numpy()
    np.testing.assert_array_equal(interpreted(torch.nextafter, (x, y)), expected)


def interpreted(function: Callable[..., Any], inputs: tuple[Any, ...]) -> np.ndarray:
    model = loaded(function, inputs)
    (found,) = ex.interpret(model, arrays(model, inputs)).values()
    return found


def compiled(function: Callable[..., Any], inputs: tuple[Any, ...]) -> np.ndarray:
    model = loaded(function, inputs)
    (found,) = ex.compile(model).run(arrays(model, inputs)).values()
    return found


def arrays(model: Any, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    return {v.name: x.numpy() for v, x in zip(model.inputs, inputs, strict=True)}


def loaded(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    class Module(torch.nn.Module):
        def forward(self, *x: Any) -> Any:
            return function(*x)

    return ex.load(torch.export.export(Module(), inputs))


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30, 2.0**124])
def test_a_deviation_is_finite_where_its_square_is_not(scale: float):
    x = torch.tensor([[1.0, -2.0, 3.0], [5.0, 0.5, -7.0]], dtype=torch.float64) * scale
    wanted = torch.std(x, 1).numpy()
    found = interpreted(lambda x: torch.std(x, 1), (x.to(torch.float32),))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=5e-45)


@pytest.mark.parametrize("number", [0.0, float("inf"), float("nan")])
def test_a_deviation_of_equal_numbers_is_that_of_pytorch(number: float):
    x = torch.full((2, 3), number)
    found = interpreted(lambda x: torch.std(x, 1), (x,))
    np.testing.assert_array_equal(found, torch.std(x, 1).numpy())
