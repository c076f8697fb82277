"""How the inputs of a band are cut into chunks: transfers and blocks that lie in the scratchpad."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.npu.tiling.bands import Band
from explorer.npu.tiling.convolution import TiledLayer


@dataclass(frozen=True)
class Cut:
    """The inputs of a band in chunks: of each what is loaded at once."""

    groups: tuple[int, ...]
    """Transfers of a chunk where each group is one."""
    runs: tuple[int, ...]
    """Transfers where those at equal distances are one: no fewer than these."""
    held: tuple[int, ...]
    """Blocks that lie in the scratchpad."""


CUT_SUMS = {
    "chunks": lambda cut: len(cut.groups),
    "groups": lambda cut: sum(cut.groups),
    "runs": lambda cut: sum(cut.runs),
    "held": lambda cut: sum(cut.held),
    "first_groups": lambda cut: cut.groups[0],
    "first_runs": lambda cut: cut.runs[0],
    "first_held": lambda cut: cut.held[0],
    "most_held": lambda cut: max(cut.held),
}


def cut_of(tiled: TiledLayer, band: Band, inputs: int) -> Cut:
    """`inputs`: blocks of a chunk."""
    groups, runs = [], []
    for first in range(0, len(band.inputs), inputs):
        found = tiled.groups(band.inputs[first : first + inputs])
        groups.append(len(found))
        runs.append(1)
    held = tuple(count * tiled.together for count in groups)
    return Cut(groups=tuple(groups), runs=tuple(runs), held=held)
