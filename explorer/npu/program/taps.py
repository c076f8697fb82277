"""Taps of a kernel as loops of one instruction, where a tile has too few positions to need them.

    micro-operations of one block   (d, s, w) (d, s + 1, w + 1) ... (d, s + 2 wide + 2, w + 8)
    ->                              (d, s, w), outer 3 by (wide, 3), inner 3 by (1, 1)

Loops of a multiplication run over positions. Of a tile that the array takes at once they do not,
and a micro-operation for each tap is replaced by one that both loops move over the kernel. Products
cannot replace sums then, for every tap would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.targets.npu.instructions import MicroOperation


@dataclass(frozen=True, kw_only=True)
class TapLoops:
    """The loops, and the micro-operations that are left."""

    micro: tuple[MicroOperation, ...]
    fields: dict[str, int]


def loops_of_taps(micro: Sequence[MicroOperation], kernel: tuple[int, int]) -> TapLoops | None:
    """`micro`: of each block all taps of the kernel, row by row. None where there is one tap, or
    blocks have them at other distances."""
    height, width = kernel
    taps = height * width
    if taps == 1:
        return None
    origin = micro[0]
    down = micro[width] if height > 1 else origin
    right = micro[1] if width > 1 else origin
    outer = (down.source - origin.source, down.weight - origin.weight)
    inner = (right.source - origin.source, right.weight - origin.weight)
    if min(*outer, *inner) < 0:
        return None
    for number, one in enumerate(micro):
        first = micro[number - number % taps]
        y, x = divmod(number % taps, width)
        source, weight = (
            y * one_down + x * one_right for one_down, one_right in zip(outer, inner, strict=True)
        )
        at = (first.destination, first.source + source, first.weight + weight)
        if (one.destination, one.source, one.weight) != at:
            return None
    left = tuple(MicroOperation(one.destination, one.source, one.weight) for one in micro[::taps])
    return TapLoops(
        micro=left,
        fields={
            "outer": height, "source_outer": outer[0], "weight_outer": outer[1],
            "inner": width, "source_inner": inner[0], "weight_inner": inner[1],
        },
    )  # fmt: skip
