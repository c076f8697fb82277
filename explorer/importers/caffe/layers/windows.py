"""Sizes of windows: `kernel_size: 3`, `kernel_size: [3, 5]`, or `kernel_h: 3 kernel_w: 5`."""

from __future__ import annotations

from explorer.importers.caffe.file.prototxt import Message

_WHOLE = {"kernel": "kernel_size"}


def pair(settings: Message, name: str, default: int | None) -> tuple[int, int]:
    """Height and width; ValueError where they are missing, too many or too small."""
    apart = settings.integers(f"{name}_h"), settings.integers(f"{name}_w")
    if any(apart):
        found = [(values or [default])[-1] for values in apart]
    else:
        found = settings.integers(_WHOLE.get(name, name)) or [default]
    least = 0 if name == "pad" else 1
    numbers = [value for value in found if value is not None and value >= least]
    if len(numbers) != len(found) or len(found) > 2:
        raise ValueError(f"{_WHOLE.get(name, name)} is {found}; {least} or more expected")
    return numbers[0], numbers[-1]
