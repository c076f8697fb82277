"""Special functions of ATen, by the values that other formulas have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial.chebyshev import Chebyshev

import explorer as ex
from tests.importers.pytorch_models import Program, ref

GAMMA = 0.5772156649015329
FUNCTIONS: dict[str, tuple[str, Mapping[str, int], list[tuple[float, float]]]] = {
    "lgamma": (
        "lgamma",
        {},
        [(x, math.lgamma(x)) for x in (0.1, 1.5, 40.0, 1e20, -0.3, -7.6)] + [(-2, math.inf)],
    ),
    "digamma": ("digamma", {}, [(1, -GAMMA), (2, 1 - GAMMA), (0, -math.inf), (-3, math.nan)]),
    "trigamma": ("polygamma", {"n": 1}, [(1, math.pi**2 / 6), (-0.5, math.pi**2 / 2 + 4)]),
    "third derivative": ("polygamma", {"n": 3}, [(1, math.pi**4 / 15), (0.5, math.pi**4)]),
    "of two": (
        "mvlgamma",
        {"p": 2},
        [(3, math.log(math.pi) / 2 + math.lgamma(3) + math.lgamma(2.5))],
    ),
    "erfcx": (
        "special_erfcx",
        {},
        [(x, math.exp(x * x) * math.erfc(x)) for x in (-1.0, 0.5, 3.0, 4.5, 20.0)],
    ),
    "log_ndtr": (
        "special_log_ndtr",
        {},
        [(x, math.log(math.erfc(-x / math.sqrt(2)) / 2)) for x in (-20.0, -1.5, 0.0, 3.0)],
    ),
    "ndtri": (
        "special_ndtri",
        {},
        [(0.5, 0), (0.975, 1.959964), (1e-30, -11.464023), (0, -math.inf), (1.5, math.nan)],
    ),
    # Tables 9.1 and 9.8 of Abramowitz and Stegun, and beyond what series near 0 are used for.
    "j0": (
        "special_bessel_j0",
        {},
        [(0, 1), (1, 0.7651976866), (10, -0.2459357645), (20, 0.1670246643)],
    ),
    "j1": ("special_bessel_j1", {}, [(0, 0), (-1, -0.4400505857), (20, 0.0668331242)]),
    "y0": ("special_bessel_y0", {}, [(0, -math.inf), (1, 0.0882569642), (20, 0.0626405968)]),
    "y1": ("special_bessel_y1", {}, [(-1, math.nan), (1, -0.7812128213), (20, -0.1655116144)]),
    "i0e": ("special_i0e", {}, [(0, 1), (-1, 0.4657596077), (20, 0.0897803119)]),
    "i1e": ("special_i1e", {}, [(0, 0), (-1, -0.2079104154), (20, 0.0875062222)]),
    "k0": ("special_modified_bessel_k0", {}, [(0, math.inf), (1, 0.4210244382), (-1, math.nan)]),
    "k1": ("special_modified_bessel_k1", {}, [(1, 0.6019072302), (20, 5.88305797e-10)]),
    "erfinv": ("erfinv", {}, [(math.erf(x), x) for x in (-2.0, -0.1, 1.5)] + [(1, math.inf)]),
}


IN_DOUBLES = {
    "lgamma": ("lgamma", {}, [(x, math.lgamma(x)) for x in (0.3, 2.5, 17.0, 1e100, 7e138, 1e305)]),
    "trigamma": ("polygamma", {"n": 1}, [(1, math.pi**2 / 6), (2.5, math.pi**2 / 2 - 40 / 9)]),
    "third derivative": ("polygamma", {"n": 3}, [(1, math.pi**4 / 15)]),
    # 20 digits of arbitrary precision (mpmath)
    "k1": (
        "special_modified_bessel_k1",
        {},
        [(1.9, 0.15966015303266763), (7.380839390984031, 3.0148922700711709236e-4)],
    ),
    "i1": (
        "special_i1",
        {},
        [(713.0, 6.7004245591864025e307), (1.7e308, math.inf), (-1.7e308, -math.inf)],
    ),
}


@pytest.mark.parametrize("name", IN_DOUBLES)
def test_doubles_keep_their_digits(name: str, tmp_path: Path):
    target, settings, pairs = IN_DOUBLES[name]
    x, right = (np.array(numbers, np.float64) for numbers in zip(*pairs, strict=True))
    found = called(tmp_path, target, {"self": x}, settings)
    digits = 1e-10 if name == "i1" else 2e-14
    np.testing.assert_allclose(found, right, rtol=digits, atol=0)


def called(path: Path, target: str, operands: Mapping[str, np.ndarray], n: Mapping[str, int]):
    dtype = next(iter(operands.values())).dtype.name
    program = Program({name: (dtype, list(x.shape)) for name, x in operands.items()})
    arguments = {name: ref(name) for name in operands}
    arguments |= {name: {"as_int": value} for name, value in n.items()}
    sizes = list(next(iter(operands.values())).shape)
    y = program.call(f"aten.{target}.default", arguments, dtype, sizes)
    (found,) = ex.interpret(ex.load(program.write(path / "net.pt2", [y])), operands).values()
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_values_that_are_known(name: str, tmp_path: Path):
    target, settings, pairs = FUNCTIONS[name]
    x, right = (np.array(numbers, np.float32) for numbers in zip(*pairs, strict=True))
    found = called(tmp_path, target, {"self": x}, settings)
    np.testing.assert_allclose(found, right, rtol=3e-6, atol=2e-7)


def test_chebyshev_polynomials_are_those_of_their_recurrence(tmp_path: Path):
    x = np.array([-2.5, -1, -0.3, 0, 0.8, 1, 3], np.float32)
    degrees = np.array([3, 4, 5, 0, 9, 2, 6], np.float32)
    found = called(tmp_path, "special_chebyshev_polynomial_t", {"x": x, "n": degrees}, {})
    right = [Chebyshev.basis(int(n))(v) for v, n in zip(x, degrees, strict=True)]
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    found = called(tmp_path, "special_chebyshev_polynomial_u", {"x": x, "n": degrees}, {})
    derivatives = [Chebyshev.basis(int(n) + 1).deriv()(v) for v, n in zip(x, degrees, strict=True)]
    np.testing.assert_allclose(found, derivatives / (degrees + 1), rtol=1e-5, atol=1e-6)
    # (1 + x) V_n(x) = T_n + T_{n+1}; (1 - x) W_n(x) = T_n - T_{n+1}
    both = [
        sum(Chebyshev.basis(int(n) + i)(v) for i in (0, 1)) for v, n in zip(x, degrees, strict=True)
    ]
    found = called(tmp_path, "special_chebyshev_polynomial_v", {"x": x, "n": degrees}, {})
    np.testing.assert_allclose(found * (1 + x), both, rtol=1e-5, atol=1e-6)
