"""Fourier transforms: of whole axes, and of frames of a signal.

aten.fft_rfft(x)                one side of the spectrum of real numbers
aten._fft_c2c(z, [2, 3], 0, True)       after the decomposition: how it is scaled is a number
aten.stft(x, 400, 100)          overlapping frames, each transformed

Complex numbers have both parts as a last axis, as in `complex_numbers.py`.
Source: the documentation of `torch.fft`, `torch.stft` and `torch.istft`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, Size
from explorer.importers.building.fourier import transformed
from explorer.importers.building.limits import check_size
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float
from explorer.ir.types import is_float_dtype

_Axes = Sequence[tuple[int, int]]
"""Axes with the number of points over which each is transformed."""


def in_parts(node: AtenNode, name: str) -> Expr:
    """An operand with its parts in the last axis: one of real numbers, two of complex ones."""
    x = node.operand(name)
    if node.is_complex(name):
        return x
    return as_float(x).unsqueeze([x.rank])


# -- whole axes ------------------------------------------------------------------------------------


def transform(node: AtenNode, build: Build) -> Expr:
    """Along one axis, two or all: of complex numbers (fft), of real ones (rfft), and back."""
    x = in_parts(node, "self")
    kind, axes = _kind(node), _axes(node, x, build)
    is_back = kind in ("ifft", "irfft", "ihfft")
    if not axes:
        raise Unsupported("a transform along no axis")
    if kind in ("irfft", "hfft"):
        found, done = _to_real(x, axes, build, conjugate=kind == "hfft")
    elif kind in ("rfft", "ihfft"):
        found, done = _from_real(x, axes, build, conjugate=kind == "ihfft")
    else:
        found, done = _complex(x, axes, is_back, build)
    count = prod(points for _, points in axes)
    whole = {"backward": is_back, "forward": not is_back}
    mode = node.text("norm", "backward")
    if mode not in (*whole, "ortho"):
        raise Unsupported(f"norm {mode!r}")
    wanted = count**-0.5 if mode == "ortho" else 1 / count if whole[mode] else 1.0
    return _scaled(found, wanted / done)


def decomposed(node: AtenNode, build: Build) -> Expr:
    """The same with what it is divided by as a number: nothing, the root of the points, or them."""
    x = in_parts(node, "self")
    rank, target = x.rank - 1, node.call.target
    listed = [build.axis(axis, rank) for axis in node.integers("dim", build)]
    sizes = x.sizes(listed, "a Fourier transform")
    axes = list(zip(listed, sizes, strict=True))
    if not axes:
        return x
    if "c2r" in target:
        axes[-1] = axes[-1][0], node.integer("last_dim_size", build)
        found, done = _to_real(x, axes, build)
    elif "r2c" in target and node.flag("onesided"):
        found, done = _from_real(x, axes, build)
    else:
        is_back = "c2c" in target and not node.flag("forward")
        found, done = _complex(x, axes, is_back, build)
    count = prod(points for _, points in axes)
    wanted = count ** -(0.0, 0.5, 1.0)[node.integer("normalization", build)]
    return _scaled(found, wanted / done)


def _kind(node: AtenNode) -> str:
    """`rfft` of `aten.fft_rfft2`."""
    return node.call.target.rsplit("fft_", 1)[1].rstrip("2n")


def _axes(node: AtenNode, x: Expr, build: Build) -> _Axes:
    """The axes of a call; numbers come of one side of a spectrum as (m - 1) 2, if none is asked."""
    rank, target = x.rank - 1, node.call.target
    if target[-1] not in "2n":
        axes, sizes = [node.integer("dim", build, -1)], [node.integer("n", build, -1)]
    else:
        sizes = node.integers("s", build, [])
        every = [-2, -1] if target.endswith("2") else list(range(-rank, 0))
        axes = node.integers("dim", build, every[-len(sizes) :] if sizes else every)
        sizes = sizes or [-1] * len(axes)
    found: list[tuple[int, int]] = []
    for axis, size in zip(axes, sizes, strict=True):
        axis = build.axis(axis, rank)
        points = x.sizes([axis], "a Fourier transform")[0] if size == -1 else size
        found.append((axis, points))
    if _kind(node) in ("irfft", "hfft") and sizes and sizes[-1] == -1:
        found[-1] = found[-1][0], 2 * (found[-1][1] - 1)
    return found


def _complex(x: Expr, axes: _Axes, is_back: bool, build: Build) -> tuple[Expr, float]:
    """Along all axes, and what it was multiplied by."""
    for axis, points in axes:
        x = transformed(x, axis, points, False, is_back, build)
    return x, 1 / prod(points for _, points in axes) if is_back else 1.0


def _from_real(x: Expr, axes: _Axes, build: Build, conjugate: bool = False) -> tuple[Expr, float]:
    """One side of a spectrum, along the last of the axes; conjugates of it, and back from them."""
    axis, points = axes[-1]
    found = transformed(x, axis, points, True, False, build)
    if conjugate:
        found = _conjugate(found, build)
    return _complex(found, axes[:-1], conjugate, build)


def _to_real(x: Expr, axes: _Axes, build: Build, conjugate: bool = False) -> tuple[Expr, float]:
    """From one side of a spectrum along the last of the axes; or of its conjugates."""
    found, done = _complex(x, axes[:-1], not conjugate, build)
    if conjugate:
        found = _conjugate(found, build)
    axis, points = axes[-1]
    found = transformed(found, axis, points, True, True, build)
    return found.squeeze([found.rank - 1]), done / points


def _conjugate(x: Expr, build: Build) -> Expr:
    """Real numbers, of one part, are their own."""
    if x.size(x.rank - 1) == 1:
        return x
    return x * build.weight(np.array([1, -1], x.dtype))


def _scaled(x: Expr, factor: float) -> Expr:
    return x if abs(factor - 1) < 1e-12 else x.scaled(factor)


def frequencies(node: AtenNode, build: Build) -> Expr:
    """The frequency of each bin of a spectrum, or of one side of it."""
    count, step = node.integer("n", build), node.number("d", 1.0)
    is_one_side = "rfftfreq" in node.call.target
    found = np.fft.rfftfreq(count, step) if is_one_side else np.fft.fftfreq(count, step)
    dtype = node.result_dtype()
    if not is_float_dtype(dtype):
        raise Unsupported(f"frequencies as {dtype}")
    return build.weight(found.astype(dtype))


# -- frames ----------------------------------------------------------------------------------------


def short_time(node: AtenNode, build: Build) -> Expr:
    """Overlapping frames times a window, each transformed: (batch, bins, frames)."""
    if node.flag("align_to_window"):
        raise Unsupported("frames that begin with their window")
    x, length = in_parts(node, "self"), node.integer("n_fft", build)
    step = node.integer("hop_length", build, length // 4)
    is_single = x.rank == 2
    x = x.unsqueeze([0]) if is_single else x
    (size,) = x.sizes([1], "frames of a signal")
    if not 1 <= length <= size or step < 1:
        raise ValueError(f"frames of {length} elements, {step} apart, of a signal of {size}")
    begins = np.arange((size - length) // step + 1) * step
    check_size([len(begins), length], 8, "the list of frames", node.name)
    frames = x.take(begins[:, np.newaxis] + np.arange(length), 1)
    window = _window(node, length, build)
    if window is not None:
        column = window.astype(x.dtype).reshape([length, 1])
        frames = frames * column
    is_one_side = node.flag("onesided", not node.is_complex("self"))
    found = transformed(frames, 2, length, is_one_side, False, build)
    found = found.transpose([0, 2, 1, 3])
    found = _scaled(found, length**-0.5 if node.flag("normalized") else 1.0)
    return found.squeeze([0]) if is_single else found


def _window(node: AtenNode, length: int, build: Build) -> Expr | None:
    """As long as a frame, with zeros on both sides; None where it is one everywhere."""
    if node.is_complex("window"):
        raise Unsupported("a complex window")
    given, own = node.optional("window"), node.integer("win_length", build, length)
    if given is None and own == length:
        return None
    if given is None:
        given = build.weight(np.ones(own, np.float32))
    low = (length - own) // 2
    return given.pad([low], [length - own - low])


def from_frames(node: AtenNode, build: Build) -> Expr:
    """The signal whose frames have these spectra: their sum, by that of the squared windows."""
    x, length = node.operand("self"), node.integer("n_fft", build)
    step = node.integer("hop_length", build, length // 4)
    is_single = x.rank == 3
    x = x.unsqueeze([0]) if is_single else x
    bins, count = x.sizes([1, 2], "frames of a signal")
    if node.flag("return_complex"):
        raise Unsupported("a complex signal of its frames")
    is_one_side = node.flag("onesided", bins != length)
    if not is_one_side:
        x = x.slice(1, 0, length // 2 + 1)
    frames = transformed(x.transpose([0, 2, 1, 3]), 2, length, True, True, build)
    frames = frames.squeeze([3])
    frames = _scaled(frames, length**0.5 if node.flag("normalized") else 1.0)
    window = _window(node, length, build)
    if window is None:
        window = build.weight(np.ones(length, np.float32))
    window = window.astype(frames.dtype)
    squares = window.square().broadcast_to([1, count, length])
    signal, weights = (overlapped(value, step) for value in (frames * window, squares))
    whole = length + step * (count - 1)
    begin = length // 2 if node.flag("center", True) else 0
    end = begin + node.integer("length", build) if node.has("length") else whole - begin
    signal, weights = (v.slice(1, begin, min(end, whole)) for v in (signal, weights))
    found = (signal / weights).pad([0, 0], [0, max(end - whole, 0)])
    return found.squeeze([0]) if is_single else found


def overlapped(frames: Expr, step: int) -> Expr:
    """(batch, frames, length) -> (batch, signal): the sum of frames that begin `step` apart.

    A frame is cut into pieces of `step`; the pieces of one number, of all frames, lie behind one
    another, and those of the next number begin one piece later.
    """
    count, length = frames.sizes([1, 2], "frames of a signal")
    pieces = -(-length // step)
    batch: Size = frames.dim(0)
    filled = frames.pad([0, 0, 0], [0, 0, pieces * step - length])
    total: Expr | None = None
    for number in range(pieces):
        piece = filled.slice(2, number * step, (number + 1) * step)
        row = piece.reshape([batch, count * step])
        placed = row.pad([0, number * step], [0, (pieces - 1 - number) * step])
        total = placed if total is None else total + placed
    assert total is not None  # frames have elements
    return total.slice(1, 0, step * (count - 1) + length)


CONVERTERS = {
    **{
        f"fft_{kind}{axes}": transform
        for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for axes in ("", "2", "n")
    },
    "_fft_c2c": decomposed,
    "_fft_r2c": decomposed,
    "_fft_c2r": decomposed,
    "fft_fftfreq": frequencies,
    "fft_rfftfreq": frequencies,
    "stft": short_time,
    "istft": from_frames,
}
