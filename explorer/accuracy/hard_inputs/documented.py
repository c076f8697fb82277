"""Differences from references that docs/numbers.md describes: reported, and no failures.

documented(part, "NaN")      "the first NaN counts; references leave NaN out" of an ArgMax
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from explorer.accuracy.hard_inputs.kinds import HardInput
from explorer.references.parts import Part, plain

_SPECIAL = ("NaN", "infinities")
_CONVOLUTIONS = ("conv", "conv2d", "fusedconv")
_CLAMPED = (
    *("conv2d", "depthwiseconv2d", "transposeconv", "fullyconnected", "add", "sub", "mul", "div"),
    *("averagepool2d", "maxpool2d", "l2pool2d"),
)
"""Operators of TFLite that end in an activation, even if it is none."""
_CASTS = ("cast", "castlike")
_DIFFERENCES: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("argmax", "argmin"), ("NaN",), "the first NaN counts; references leave NaN out"),
    (("topk", "topkv2", "unique"), ("NaN",), "NaN is greater than any number"),
    (("maxpool", "maxpool2d", "pooling"), ("NaN",), "a window that holds NaN is NaN"),
    (("nonmaxsuppression",), _SPECIAL, "a box with the score NaN is not kept"),
    (("hardmax",), ("NaN",), "1 stands at the first NaN"),
    (("lstm",), ("NaN",), "onnxruntime limits sums that a bias is added to, where NaN is a number"),
    (_CONVOLUTIONS, _SPECIAL, "Winograd's form spreads an infinity over a tile of results"),
    (
        _CASTS,
        (*_SPECIAL, "large numbers"),
        "a float that the integer type does not hold has no number there",
    ),
    (("reducemean", "mean"), ("size 0",), "ONNX leaves the mean of no elements open: NaN here"),
    (
        ("meanvariancenormalization",),
        ("zeros",),
        "equal elements become 0; onnxruntime divides 0 by 0",
    ),
    (("dft", "stft", "melweightmatrix"), _SPECIAL, "all samples of a frame are added up"),
)


def documented(part: Part, kind: str, is_integer: bool) -> str:
    """What docs/numbers.md says of a kind of input; empty for nothing. is_integer: the result."""
    name = plain(part.operator)
    if name in _CONVOLUTIONS and not _is_3x3(part):
        return ""
    if name in _CASTS and not is_integer:
        return ""
    return documented_of([part.operator], [kind])


def documented_of(operators: Sequence[str], kinds: Collection[str]) -> str:
    """The same of operators that were fused, and of which no more is known; of several kinds."""
    for operator in map(plain, operators):
        for names, known, sentence in _DIFFERENCES:
            if operator in names and not set(kinds).isdisjoint(known):
                return sentence
    return ""


def documented_by_values(
    part: Part,
    form: str,
    hard: HardInput,
    found: np.ndarray,
    expected: np.ndarray,
    tolerance: float,
) -> str:
    """What it says of these results. form: of the model's file."""
    kind = hard.kind
    if form == "pytorch" and _are_positions_of_ties(part, hard, found, expected):
        return "PyTorch leaves the order of equal numbers open"
    if form == "caffe" and kind in _SPECIAL and found.shape == expected.shape:
        return _of_open_cv(part, ~_is_close(found, expected, tolerance), found, expected)
    if form == "tflite" and _are_outside_of_a_band(part, found, expected):
        return "TFLite Micro leaves energies outside of the band as they were; here they are 0"
    is_special = form == "tflite" and kind in _SPECIAL and found.shape == expected.shape
    if not is_special or expected.dtype.kind != "f":
        return ""
    if _is_hybrid(part) and np.all(np.isnan(found[~_is_close(found, expected, tolerance)])):
        return (
            "the range of a row with a NaN is NaN; in LiteRT it depends on the order of the numbers"
        )
    if plain(part.operator) not in _CLAMPED:
        return ""
    differs = ~_is_close(found, expected, tolerance)
    largest = float(np.finfo(expected.dtype).max)
    bounds = np.isin(expected, [0.0, -1.0, 1.0, 6.0, largest, -largest])
    if np.all((~np.isfinite(found) & bounds)[differs]):
        return "LiteRT clamps infinities and NaN to the bounds of the activation"
    return ""


def _are_outside_of_a_band(part: Part, found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether only energies differ that the kernel does not compute."""
    bounds = [part.attributes.get(name) for name in ("start_index", "end_index")]
    first, last = (max(b, 0) if isinstance(b, int) else -1 for b in bounds)
    if part.operator != "custom.SignalEnergy" or min(first, last) < 0:
        return False
    if found.shape != expected.shape:
        return False
    is_zero = not found[..., :first].any() and not found[..., last:].any()
    return is_zero and bool(np.array_equal(found[..., first:last], expected[..., first:last]))


def _of_open_cv(part: Part, differs: np.ndarray, found: np.ndarray, expected: np.ndarray) -> str:
    if not np.all(np.isnan(expected[differs])):
        return ""
    operator = plain(part.operator)
    if operator == "relu" and np.all(found[differs] == 0):
        return "a slope of 0 times minus infinity is NaN; here a relu of it is 0"
    if operator in ("convolution", "convolutiondepthwise", "depthwiseconvolution"):
        return "OpenCV's kernels multiply special numbers with zeros that fill up vectors"
    return ""


def _are_positions_of_ties(
    part: Part, hard: HardInput, found: np.ndarray, expected: np.ndarray
) -> bool:
    """Whether these are positions along an axis at which equal numbers stand."""
    x = part.operands[0]
    if plain(part.operator) not in ("topk", "sort", "argsort") or expected.dtype.kind != "i":
        return False
    if x is None or x.name not in hard.arrays or found.shape != expected.shape:
        return False
    axis = part.attributes.get("dim", -1)
    if not isinstance(axis, int):
        return False
    array = hard.arrays[x.name]
    if np.any((found < 0) | (found >= array.shape[axis])):
        return False
    ours, theirs = (np.take_along_axis(array, n, axis) for n in (found, expected))
    return bool(np.all((ours == theirs) | (np.isnan(ours) & np.isnan(theirs))))


def _is_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Where results are equal but for rounding, in the measure of the largest finite one."""
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1e-6)
    if largest == np.finfo(expected.dtype).max:  # clamped: rounding is that of the others
        within = np.abs(expected[np.abs(expected) < largest])
        largest = within.max(initial=1e-6)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(found - expected) <= tolerance * largest
    return close | (found == expected) | (np.isnan(found) & np.isnan(expected))


def _is_hybrid(part: Part) -> bool:
    """Whether floats are multiplied with bytes, for which they become bytes by their own range."""
    x, weights = [*part.operands, None, None][:2]
    if x is None or weights is None:
        return False
    return x.array.dtype == np.float32 and weights.is_constant and weights.array.dtype == np.int8


def _is_3x3(part: Part) -> bool:
    weights = part.operands[1] if len(part.operands) > 1 else None
    if weights is None or weights.array.ndim != 4:
        return False
    return (3, 3) in (weights.array.shape[2:], weights.array.shape[1:3])
