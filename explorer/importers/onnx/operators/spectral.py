"""Fourier transforms, whole and of frames, and mel filters.

Reference: ONNX operators, DFT-20, STFT-17, MelWeightMatrix-17.
"""

from __future__ import annotations

import numpy as np
import onnx

from explorer.importers.building.expr import Expr
from explorer.importers.building.fourier import transformed
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.file.tensors import dtype_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts


@converts("DFT", since=17, until=19)
def transform_by_attribute(node: Node, build: Build) -> Expr:
    return _dft(node, node.integer("axis", 1), build)


@converts("DFT", since=20)
def transform(node: Node, build: Build) -> Expr:
    axis = node.optional(2)
    (chosen,) = [-2] if axis is None else build.integers(axis, "the axis")
    return _dft(node, chosen, build)


@converts("STFT", since=17)
def short_time_transform(node: Node, build: Build) -> Expr:
    """(batch, length, 1 or 2) -> (batch, frames, bins, 2): overlapping frames, each transformed.

    A signal (batch, length) is real, too.
    """
    signal, window = node.operand(0), node.optional(2)
    if signal.rank == 2:
        signal = signal.unsqueeze([2])
    (step,) = build.integers(node.operand(1), "the step between frames")
    given = node.optional(3)
    if given is not None:
        (size,) = build.integers(given, "the length of a frame")
    elif window is not None:
        (size,) = window.sizes([0], "STFT")
    else:
        raise ValueError("neither a window nor the length of a frame")
    (length,) = signal.sizes([1], "STFT")
    if step < 1 or not 1 <= size <= length:
        raise ValueError(f"frames of {size} elements, {step} apart, of a signal of {length}")
    check_size([(length - size) // step + 1, size], 8, "the list of frames", node.name)
    begins = np.arange((length - size) // step + 1) * step
    frames = signal.take(begins[:, np.newaxis] + np.arange(size), 1)
    if window is not None:
        frames = frames * window.reshape([window.dim(0), 1])
    return transformed(frames, 2, size, bool(node.integer("onesided", 1)), False, build)


@converts("MelWeightMatrix", since=17)
def mel_weights(node: Node, build: Build) -> Expr:
    """Triangular filters, evenly spaced on the mel scale: (bins of the spectrum, mel bins)."""
    purposes = ("number of mel bins", "length of the transform", "sample rate", "lowest frequency")
    mels, points, rate, low, high = (
        build.scalar(node.operand(index), f"the {purpose}")
        for index, purpose in enumerate((*purposes, "highest frequency"))
    )
    data_type = node.integer("output_datatype", onnx.TensorProto.FLOAT)
    lowest, highest = (2595 * np.log10(1 + frequency / 700) for frequency in (low, high))
    centers = lowest + np.arange(mels + 2) * ((highest - lowest) / (mels + 2))
    frequencies = 700 * (10 ** (centers / 2595) - 1)
    edges = ((points + 1) * frequencies // rate).astype(np.int64)
    check_size([points // 2 + 1, mels], 8, "the result", node.name)
    matrix = np.zeros((points // 2 + 1, mels))
    for mel in range(mels):
        left, center, right = edges[mel : mel + 3]
        if center == left:
            matrix[center, mel] = 1
        rising = np.arange(left, center + 1)
        if center != left:
            matrix[rising, mel] = (rising - left) / (center - left)
        falling = np.arange(center, right)
        if right != center:
            matrix[falling, mel] = (right - falling) / (right - center)
    return build.weight(matrix.astype(dtype_of(data_type, "the result")))


def _dft(node: Node, axis: int, build: Build) -> Expr:
    x, given = node.operand(0), node.optional(1)
    axis = build.axis(axis, x.rank)
    inverse, onesided = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    (points,) = x.sizes([axis], "DFT")
    if given is not None:
        (points,) = build.integers(given, "the number of points")
    elif inverse and onesided:
        points = 2 * (points - 1)
    return transformed(x, axis, points, onesided, inverse, build)
