"""How many bytes are live in each step: the floor under every memory plan.

In a step all live buffers lie in the arena at once without overlapping, so the arena holds at
least their sizes. The most over all steps is the *live bound*.

    a: 64 bytes, steps 0-1                step          0    1    2
    b: 32 bytes, steps 1-2       ->       live bytes   64   96   96      bound 96
    c: 64 bytes, step 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.results.memory import BufferLifetime


def count_steps(buffers: Sequence[BufferLifetime]) -> int:
    """The number of steps in which the buffers live, counted from step 0."""
    return max((buffer.last for buffer in buffers), default=0)


def live_bytes(buffers: Sequence[BufferLifetime], steps: int) -> tuple[int, ...]:
    """The least bytes of arena that the live buffers take, in each of so many steps.

    That is the sum of their sizes where all sizes are multiples of the alignment. Otherwise
    every live buffer but the topmost also takes the padding up to the next aligned address:
    every offset is a multiple of `a`, the greatest common divisor of all alignments, so a step
    with live sizes s_i needs at least sum(round_up(s_i, a)) - max(round_up(s_i, a) - s_i).
    """
    alignment = math.gcd(*(buffer.alignment_bytes for buffer in buffers)) or 1
    change = [0] * (steps + 1)
    paddings: dict[int, list[BufferLifetime]] = {}
    for buffer in buffers:
        padding = -buffer.size_bytes % alignment
        change[buffer.first] += buffer.size_bytes + padding
        change[buffer.last] -= buffer.size_bytes + padding
        if padding:
            paddings.setdefault(padding, []).append(buffer)
    largest_padding = np.zeros(steps, dtype=np.int64)
    for padding in sorted(paddings):
        for buffer in paddings[padding]:
            largest_padding[buffer.first : buffer.last] = padding
    return tuple((np.cumsum(change[:-1], dtype=np.int64) - largest_padding).tolist())
