"""What a trace's snapshots give the explorer: graphs, texts, blocks and drawings.

    parts = SnapshotParts.of(trace)        # once per compilation: it takes longest
    parts.makers["graph/2"]()              # snapshot 2: its operations and edges

A trace gains kernels, errors and times after its passes are done; what is in here stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from explorer.results import Graph, Trace
from explorer.results.trace import SnapshotRecord
from explorer.views.drawing.blocks import ROOT, BlockTree, build_blocks, level_graphs
from explorer.views.model_step import with_model_step
from explorer.views.payload.graph import NodeTable, block_payload, layout_payload
from explorer.views.payload.text import Json, LineTable

MOST_FLAT = 1000
"""Most operations in one drawing without blocks."""
BLOCKS_ABOVE = 200
"""With more operations, blocks are closed at first."""
OPEN_BELOW = 80
"""With no more operations, regions are open at first."""


@dataclass(frozen=True)
class SnapshotParts:
    place: tuple[int, ...]
    """For every pass the index of its snapshot among the distinct ones."""
    nodes: NodeTable
    lines: LineTable
    tree: BlockTree
    is_flat_possible: bool
    opens_with_blocks: bool
    open_at_first: tuple[int, ...]
    """Blocks that a first visitor finds open: the regions of a small program."""
    makers: dict[str, Callable[[], Json]]
    """Chunks by key; see `payload.py`."""

    @staticmethod
    def of(trace: Trace) -> SnapshotParts:
        distinct, place = distinct_snapshots(with_model_step(trace))
        tree = build_blocks([snapshot.graph for snapshot in distinct])
        nodes, lines = NodeTable(tree.of), LineTable()
        makers: dict[str, Callable[[], Json]] = {}
        for index, snapshot in enumerate(distinct):
            makers[f"graph/{index}"] = partial(_constant, nodes.add(snapshot.graph))
            makers[f"text/{index}"] = cache(partial(_text, lines, snapshot))
        for index in range(nodes.page_count()):
            makers[f"nodes/{index}"] = partial(nodes.page, index)
        largest = max((len(s.graph.nodes) for s in distinct), default=0)
        if largest <= MOST_FLAT:
            makers["layout"] = partial(layout_payload, [s.graph for s in distinct])
        if len(tree.blocks) > 1 or largest > MOST_FLAT:
            levels = _Levels([s.graph for s in distinct], tree)
            makers["blocks"] = partial(_blocks_payload, tree)
            for block in range(len(tree.blocks)):
                makers[f"block/{block}"] = partial(levels.payload, block)
        has_regions = any(block.is_region for block in tree.blocks)
        return SnapshotParts(
            place=tuple(place),
            nodes=nodes,
            lines=lines,
            tree=tree,
            is_flat_possible=largest <= MOST_FLAT,
            opens_with_blocks="blocks" in makers and (largest > BLOCKS_ABOVE or has_regions),
            open_at_first=_regions_with_parents(tree) if largest <= OPEN_BELOW else (),
            makers=makers,
        )


class _Levels:
    """The blocks of all snapshots, taken apart when the first of them is drawn."""

    def __init__(self, graphs: list[Graph], tree: BlockTree) -> None:
        self._of_all = cache(lambda: [level_graphs(graph, tree) for graph in graphs])

    def payload(self, block: int) -> Json:
        return block_payload(self._of_all(), block)


def distinct_snapshots(trace: Trace) -> tuple[list[SnapshotRecord], list[int]]:
    """What a pass left alone shares the entry of the one before, whatever objects a loaded trace
    has for the two. Nothing is compared, so that no text is printed for it."""
    distinct: list[SnapshotRecord] = []
    place = []
    for record, snapshot in zip(trace.passes, trace.snapshots, strict=True):
        if not distinct or (record.changed and snapshot is not distinct[-1]):
            distinct.append(snapshot)
        place.append(len(distinct) - 1)
    return distinct, place


def _regions_with_parents(tree: BlockTree) -> tuple[int, ...]:
    found: set[int] = set()
    for index, block in enumerate(tree.blocks):
        number = index if block.is_region else ROOT
        while number != ROOT:
            found.add(number)
            number = tree.blocks[number].parent
    return tuple(sorted(found))


def _blocks_payload(tree: BlockTree) -> Json:
    return {
        "labels": [block.label for block in tree.blocks],
        "parents": [block.parent for block in tree.blocks],
        "regions": [index for index, block in enumerate(tree.blocks) if block.is_region],
        "holds": [block.holds for block in tree.blocks],
        "alike": [block.alike for block in tree.blocks],
    }


def _text(lines: LineTable, snapshot: SnapshotRecord) -> Json:
    return lines.add_later(snapshot.text)


def _constant(value: Json) -> Json:
    return value
