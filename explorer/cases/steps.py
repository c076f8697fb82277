"""Preprocessing by name: from what a file holds to what a model takes.

    steps = [["resize_shorter", 256], ["center_crop", 224], ["divide", 255],
             ["subtract", [0.485, 0.456, 0.406]], ["divide", [0.229, 0.224, 0.225]],
             ["transpose", 2, 0, 1], ["expand"]]

An image is uint8, height x width x 3 (RGB); a sound is float32 between -1 and 1, one axis. All
arithmetic is in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from explorer.errors import InputError

Array = np.ndarray


def run_steps(array: Array, steps: Sequence[Sequence[Any]]) -> Array:
    """The array after all steps. InputError names a step that does not fit."""
    for name, *arguments in steps:
        try:
            array = STEPS[name](array, *arguments)
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(f"step {name} {arguments} on {array.shape}: {error}") from error
    return array


def pillow_image() -> ModuleType:
    """Pillow's module of images, which only who has images needs."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("images are read with Pillow", hint="pip install pillow") from error
    return Image


def resize(image: Array, height: int, width: int) -> Array:
    """Bilinear, averaging where the image shrinks; uint8 or float, one or three channels."""
    images = pillow_image()
    if image.dtype != np.uint8:
        planes = [images.fromarray(p.astype(np.float32)) for p in np.moveaxis(image, -1, 0)]
        resized = [
            np.asarray(p.resize((width, height), images.Resampling.BILINEAR)) for p in planes
        ]
        return np.stack(resized, axis=-1)
    return np.asarray(images.fromarray(image).resize((width, height), images.Resampling.BILINEAR))


def resize_shorter(image: Array, size: int) -> Array:
    """The shorter side becomes `size`, the other keeps the proportion."""
    height, width = image.shape[:2]
    scale = size / min(height, width)
    return resize(image, max(size, round(height * scale)), max(size, round(width * scale)))


def center_crop(image: Array, size: int) -> Array:
    top, left = (image.shape[0] - size) // 2, (image.shape[1] - size) // 2
    if top < 0 or left < 0:
        raise ValueError(f"it is smaller than {size}")
    return image[top : top + size, left : left + size]


def letterbox(image: Array, height: int, width: int, fill: int) -> Array:
    """Resized to fit at the upper left, the rest filled."""
    scale = min(height / image.shape[0], width / image.shape[1])
    small = resize(image, int(image.shape[0] * scale), int(image.shape[1] * scale))
    canvas = np.full((height, width, *image.shape[2:]), fill, small.dtype)
    canvas[: small.shape[0], : small.shape[1]] = small
    return canvas


def gray(image: Array) -> Array:
    """Luma (ITU-R BT.601), with a channel axis of 1."""
    return (image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32))[..., None]


def frames(sound: Array, size: int, hop: int, before: int = 0) -> Array:
    """Windows of `size` every `hop`, one per row, `before` zeros first and zeros at the end."""
    padded = np.concatenate([np.zeros(before, sound.dtype), sound])
    count = max(1, -(-len(padded) // hop))
    padded = np.pad(padded, (0, max(0, (count - 1) * hop + size - len(padded))))
    return np.stack([padded[i * hop : i * hop + size] for i in range(count)])


def halve_rate(sound: Array) -> Array:
    """Every other sample after a low pass: 255 taps of a sinc in a Hann window."""
    taps = np.arange(-127, 128)
    low_pass = 0.5 * np.sinc(taps / 2) * (0.5 + 0.5 * np.cos(np.pi * taps / 128))
    return np.convolve(sound.astype(np.float64), low_pass, "same")[::2].astype(np.float32)


def join_frames(windows: Array, trimmed: int, length: int) -> Array:
    """Overlapping windows (batch x time x ...) as one, `trimmed` left out on both sides of each."""
    inner = windows[:, trimmed : windows.shape[1] - trimmed]
    return inner.reshape(-1, *windows.shape[2:])[:length]


def stft(sound: Array, size: int, hop: int) -> Array:
    """Short-time Fourier transform: frames x bins x (real, imaginary).

    The root of a periodic Hann window; frames are centered, the ends reflected (as torch.stft).
    """
    padded = np.pad(sound.astype(np.float64), size // 2, mode="reflect")
    count = 1 + (len(padded) - size) // hop
    windows = np.stack([padded[i * hop : i * hop + size] for i in range(count)])
    spectrum = np.fft.rfft(windows * _root_hann(size), axis=1)
    return np.stack([spectrum.real, spectrum.imag], axis=-1).astype(np.float32)


def istft(spectrum: Array, size: int, hop: int) -> Array:
    """The sound that `stft` was made of: overlapping frames, added and weighted."""
    window = _root_hann(size)
    windows = np.fft.irfft(spectrum[..., 0] + 1j * spectrum[..., 1], size, axis=1) * window
    length = size + hop * (len(windows) - 1)
    total, weight = np.zeros(length), np.zeros(length)
    for i, frame in enumerate(windows):
        total[i * hop : i * hop + size] += frame
        weight[i * hop : i * hop + size] += window**2
    inner = slice(size // 2, length - size // 2)
    return (total[inner] / np.maximum(weight[inner], 1e-8)).astype(np.float32)


def _root_hann(size: int) -> Array:
    return np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size))


def _number(values: Any) -> Array:
    return np.asarray(values, np.float32)


STEPS: dict[str, Callable[..., Array]] = {
    "resize": resize,
    "resize_shorter": resize_shorter,
    "center_crop": center_crop,
    "letterbox": letterbox,
    "gray": gray,
    "reverse_channels": lambda x: x[..., ::-1],
    "add": lambda x, values: x.astype(np.float32) + _number(values),
    "subtract": lambda x, values: x.astype(np.float32) - _number(values),
    "multiply": lambda x, values: x.astype(np.float32) * _number(values),
    "divide": lambda x, values: x.astype(np.float32) / _number(values),
    "transpose": lambda x, *axes: np.transpose(x, axes),
    "reshape": lambda x, *shape: np.reshape(x, shape),
    "expand": lambda x: x[None],
    "slice": lambda x, begin, end: x[begin:end],
    "slice_axis": lambda x, axis, begin, end: np.take(x, np.arange(begin, end), axis),
    "type": lambda x, name: x.astype(name),
    "frames": frames,
    "halve_rate": halve_rate,
    "join_frames": join_frames,
    "stft": stft,
    "istft": istft,
    "sum": lambda x: np.asarray(np.sum(x, dtype=np.float64)),
    "above": lambda x, least: x > least,
}
"""Every step by name. All are pure functions of an array and the arguments."""
