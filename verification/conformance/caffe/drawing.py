"""Random parts of a one-layer net: images, settings, weights.

draw = Draw(seed=1, kind="Pooling", number=4)
x = draw.numbers(draw.image())
Drawn(settings="pooling_param { kernel_size: 2 }", inputs=[x])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from verification.conformance.choices import LARGE, Choices

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A layer with what it reads."""

    inputs: Sequence[np.ndarray]
    settings: str = ""
    blobs: Sequence[np.ndarray] = ()
    tops: int = 1


class Draw(Choices):
    """One source of random numbers for a case; `attempt` tells those apart that OpenCV refused."""

    def image(self, channels: int = 0, batch: int = 0) -> Shape:
        """Batch, channels, height, width."""
        factor = 2 if self.is_large else 1
        height, width = (self.integer(6, 11) * factor for _ in range(2))
        images = batch or self.integer(1, 2)
        number = channels or self.integer(1, 6)
        while self.is_large and images * number * height * width < LARGE:
            if channels:
                width += 5
            else:
                number += 1
        return images, number, height, width

    def shape(self) -> Shape:
        """Of two to four axes, a batch in front."""
        sizes = [self.integer(1, 2), *(self.integer(2, 6) for _ in range(self.integer(1, 3)))]
        while self.is_large and prod(sizes) < LARGE:
            sizes[self.integer(1, len(sizes) - 1)] *= 2
        return tuple(sizes)

    def numbers(self, shape: Sequence[int], low: float = -3.0, high: float = 3.0) -> np.ndarray:
        return self.random.uniform(low, high, shape).astype(np.float32)

    def weights(self, *shape: int) -> np.ndarray:
        """Neither tiny nor zero, of both signs."""
        signs = self.random.choice([-1.0, 1.0], shape)
        return (signs * self.random.uniform(0.1, 1.0, shape)).astype(np.float32)

    def number(self, low: float, high: float) -> float:
        """With few digits, as it stands in a file."""
        return round(float(self.random.uniform(low, high)), 3)


def settings(name: str, **values: object) -> str:
    """`relu_param { negative_slope: 0.1 }`, of what is not None; booleans as protobuf has them."""
    words = []
    for field, given in values.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            if value is not None:
                shown = str(value).lower() if isinstance(value, bool) else value
                words.append(f"{field}: {shown}")
    return f"{name} {{ {' '.join(words)} }}" if words else ""
