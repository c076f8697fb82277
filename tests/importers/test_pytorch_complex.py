"""Complex numbers and Fourier transforms in programs of PyTorch, against PyTorch itself.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.model import SourceModel

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")

torch.manual_seed(3)
X, Y = torch.randn(2, 6, 10), torch.randn(2, 6, 10)
Z, W = torch.complex(X, Y), torch.complex(Y[:, :1], X[:, :1])
SQUARE = torch.randn(2, 5, 5, dtype=torch.complex64)
SIGNAL, WINDOW = torch.randn(2, 75), torch.hann_window(16)
SPECTRUM = torch.stft(SIGNAL, 16, 5, window=WINDOW, return_complex=True)
PLACES = torch.tensor([3, 0, 0, 5])
MASK = X > 0


def every(kind: str, x: Any) -> tuple[Any, ...]:
    """Along one axis, two and all, divided in each of three ways."""
    return tuple(
        getattr(torch.fft, f"{kind}{axes}")(x, norm=norm)
        for axes in ("", "2", "n")
        for norm in ("backward", "ortho", "forward")
    )


def each(names: tuple[str, ...], z: Any) -> tuple[Any, ...]:
    return tuple(getattr(torch, name)(z) for name in names)


Case = tuple[Callable[..., Any], tuple[Any, ...]]
TRANSFORMS: dict[str, Case] = {
    **{
        kind: (partial(every, kind), (X if kind in ("rfft", "ihfft") else Z,))
        for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    "of real numbers": (torch.fft.fft2, (X,)),
    **{f"{kind} of real numbers": (partial(every, kind), (X,)) for kind in ("hfft", "irfft")},
    "of whole numbers": (torch.fft.fft, (PLACES,)),
    "along a middle axis, cut off": (lambda x: torch.fft.fft(x, 4, 1), (Z,)),
    "along a middle axis, filled up": (lambda x: torch.fft.ifft(x, 9, 1), (Z,)),
    "some sizes": (lambda x: torch.fft.fftn(x, (4, 12)), (Z,)),
    "some axes": (lambda x: torch.fft.rfftn(x, dim=(2, 0)), (X,)),
    "back to an odd size": (lambda x: torch.fft.irfft(x, 9), (Z,)),
    "back to real numbers of some sizes": (lambda x: torch.fft.irfftn(x, (5, 7), (0, 1)), (Z,)),
    "halves change places": (lambda x: torch.fft.fftshift(x, (1, 2)), (Z,)),
    "frequencies": (lambda x: x[0, 0] * torch.fft.rfftfreq(19, 0.5), (X,)),
}
FRAMES: dict[str, Case] = {
    "frames": (
        lambda x, w: torch.stft(x, 16, 5, window=w, center=False, return_complex=True),
        (SIGNAL, WINDOW),
    ),
    "frames around the middle": (
        lambda x, w: torch.stft(x, 20, 5, 16, window=w, normalized=True, return_complex=True),
        (SIGNAL, WINDOW),
    ),
    "frames of one signal": (
        lambda x: torch.stft(x[0], 12, onesided=False, return_complex=True),
        (SIGNAL,),
    ),
    "frames as parts": (
        lambda x, w: torch.view_as_real(torch.stft(x, 16, 8, window=w, return_complex=True)),
        (SIGNAL, WINDOW),
    ),
    "a signal of its frames": (
        lambda z, w: torch.istft(z, 16, 5, window=w),
        (SPECTRUM, WINDOW),
    ),
    "a longer signal": (
        lambda z, w: torch.istft(z[0], 16, 5, window=w, length=90),
        (SPECTRUM, WINDOW),
    ),
}
FUNCTIONS = (
    *("exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sgn", "sin", "cos", "tan", "sinh"),
    *("cosh", "tanh", "sigmoid", "conj", "conj_physical", "abs", "angle", "neg"),
)
QUESTIONS = ("isfinite", "isnan", "isinf", "isreal")
NUMBERS: dict[str, Case] = {
    "functions": (partial(each, FUNCTIONS), (Z,)),
    "questions": (partial(each, QUESTIONS), (torch.complex(X / (Y > 0), X),)),
    "parts": (lambda z: (z.real, z.imag, torch.view_as_real(z)), (Z,)),
    "of parts": (lambda x, y: torch.complex(x[:, :1], y), (X, Y)),
    "of size and angle": (torch.polar, (X.abs(), Y)),
    "pairs of numbers": (lambda x: torch.view_as_complex(x.reshape(2, 6, 5, 2)), (X,)),
    "a product": (torch.mul, (Z, W)),
    "a product with itself": (lambda z: z * z, (Z,)),
    "a product with real numbers": (lambda x, z: x * z, (X, W)),
    "a product with a number": (lambda z: z * (2 - 3j), (Z,)),
    "a sum": (lambda z, w: torch.add(z, w, alpha=2), (Z, W)),
    "a sum with real numbers": (lambda x, z: x + z, (X, W)),
    "a difference from a number": (lambda z: 1 - z, (Z,)),
    "a quotient": (torch.div, (Z, W)),
    "a quotient by real numbers": (lambda z, x: z / x, (Z, X)),
    "a quotient of real numbers": (lambda x, z: x / z, (X, Z)),
    "powers": (lambda z: (z**2, z**3, z**-1, z**0.5), (Z,)),
    "equal": (lambda z, w: (z == w, z != z.conj(), z == 1j), (Z, W)),
    "matrices": (torch.matmul, (SQUARE, SQUARE)),
    "the conjugate of a matrix": (lambda z: z.mH @ z, (SQUARE,)),
    "a layer": (
        lambda z, w, b: torch.nn.functional.linear(z, w, b),
        (SQUARE, SQUARE[0], SQUARE[1, 0]),
    ),
    "sums": (lambda z: (z.sum(), z.mean(1), z.sum((0, 2), True), z.cumsum(1)), (Z,)),
    "a norm": (lambda z: torch.linalg.vector_norm(z, dim=1), (Z,)),
    "joined with real numbers": (lambda z, x: torch.cat([z, x], 1), (Z, X)),
    "chosen by a mask": (lambda m, z, w: torch.where(m, z, w), (MASK, Z, W)),
    "filled by a mask": (lambda m, z: z.masked_fill(m, 2.5), (MASK, Z)),
    "placed": (lambda z, i: (z[:, i], z.index_select(1, i), z[:, 1, 2:8:3]), (Z, PLACES)),
    "moved": (
        lambda z: (z.reshape(3, -1), z.permute(2, 0, 1), z.flip(1), z.roll(2, 1), z.unsqueeze(-1)),
        (Z,),
    ),
    "in parts": (lambda z: (*z.chunk(3, 1), *z.unbind(0)), (Z,)),
    "padded": (lambda z: torch.nn.functional.pad(z, (1, 2, 0, 1), value=3.0), (Z,)),
    "repeated": (lambda z: (z[:, :1].expand(2, 4, 10), z.repeat(1, 2, 1)), (Z,)),
    "made": (lambda z: (torch.ones_like(z), torch.zeros_like(z), torch.full_like(z, 2j)), (Z,)),
    "other types": (
        lambda z, x: (z.to(torch.complex128), x.to(torch.complex64), z * x.double()),
        (Z, X),
    ),
    "sizes": (lambda z: torch.arange(z.shape[-1]) + z.ndim, (Z,)),
    "in place": (lambda z, w: z.clone().mul_(w).add_(1), (Z, W)),
}


def exported(case: Case, is_decomposed: bool) -> SourceModel:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return case[0](*tensors)

    with torch.no_grad():
        program = torch.export.export(Module(), case[1])
        return ex.load(program.run_decompositions() if is_decomposed else program)


def array_of(tensor: Any) -> np.ndarray:
    """Complex numbers have both parts as a last axis."""
    tensor = tensor.resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).numpy()


def inputs_of(model: SourceModel, tensors: tuple[Any, ...]) -> dict[str, np.ndarray]:
    return {v.name: array_of(t) for v, t in zip(model.inputs, tensors, strict=True)}


def require_right(case: Case, is_decomposed: bool) -> None:
    model = exported(case, is_decomposed)
    found = ex.interpret(model, inputs_of(model, case[1]))
    with torch.no_grad():
        right = case[0](*case[1])
    right = [right] if torch.is_tensor(right) else list(right)
    for value, tensor in zip(model.outputs, right, strict=True):
        ours, expected = found[value.name], array_of(tensor)
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        assert value.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_fourier_transform_gives_what_pytorch_gives(name: str, is_decomposed: bool):
    require_right(TRANSFORMS[name], is_decomposed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_a_signal_have_the_spectra_that_pytorch_gives(name: str, is_decomposed: bool):
    require_right(FRAMES[name], is_decomposed)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_complex_numbers_are_what_pytorch_has(name: str, is_decomposed: bool):
    require_right(NUMBERS[name], is_decomposed)


class Rotary(torch.nn.Module):
    """Positions as angles, by which pairs of features are turned; and a filter of frequencies."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(6), 0.7 ** torch.arange(5))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.gain = torch.nn.Parameter(torch.randn(6, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.reshape(2, 6, 5, 2))
        turned = torch.view_as_real(pairs * self.turns).flatten(2)
        return torch.fft.irfft(torch.fft.rfft(turned) * self.gain, 10), pairs * self.turns


def test_a_network_of_complex_numbers_is_compiled_and_every_tensor_judged():
    module = Rotary()
    with torch.no_grad():
        c = ex.compile(module, args=(X,))
        try:
            report = c.accuracy().report
            assert report.passed
            judged = {tensor.tensor for tensor in report.passes[0].tensors}
            assert {"fft_rfft", "fft_irfft"} <= judged
            found = c.run({c.model.inputs[0].name: X.numpy()})
        finally:
            c.close()
        right = module(X)
    for value, tensor in zip(c.model.outputs, right, strict=True):
        np.testing.assert_allclose(found[value.name], array_of(tensor), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda z: torch.linalg.eigvals(z), "unknown operator"),
        (lambda z: torch.prod(z), "aten.prod of complex numbers"),
        (lambda z: z.to(torch.complex32), "elements of complex32"),
        (lambda z: z.clone().real.add_(1), "a write into complex numbers"),
        (lambda z: z**2.5, "complex numbers to the power"),
    ],
)
def test_what_has_no_form_for_complex_numbers_is_refused(function: Any, reason: str):
    with pytest.raises(UnsupportedError) as caught:
        ex.compile(exported((function, (SQUARE,)), is_decomposed=False))
    assert reason in "\n".join(caught.value.problems)
