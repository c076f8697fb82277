"""What a trace's snapshots give the explorer: graphs, texts and blocks.

    parts = SnapshotParts.of(trace)        # once per compilation: it takes longest
    parts.makers["graph/2"]()              # snapshot 2: its operations and edges
    parts.makers["start/12"]()             # all that a picture of pass 12 needs, and nothing else

A trace gains kernels, errors and times after its passes are done; what is in here stays. Of a
large program nothing but the pass that is seen first is drawn at first; the graphs of all passes,
which share their nodes, are made together when one of them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from explorer.results import Graph, Trace
from explorer.results.trace import SnapshotRecord
from explorer.views.drawing.blocks import ROOT, BlockTree, build_blocks
from explorer.views.model_step import with_model_step
from explorer.views.payload.graph import NodeTable
from explorer.views.payload.passes import first_pass
from explorer.views.payload.text import Json, LineTable

MAX_FLAT_OPERATIONS = 1000
"""Most operations in one drawing without blocks."""
BLOCKS_ABOVE = 200
"""With more operations, blocks are closed at first."""
OPEN_BELOW = 80
"""With no more operations, regions are open at first."""
EXCERPT_ABOVE = 500
"""With more operations, one pass is drawn before the others."""
START = "start"
"""Kind of the chunks that hold one pass."""
NODES = "nodes"
"""Kind of the chunks whose number is known once all graphs are made."""


@dataclass(frozen=True)
class SnapshotParts:
    place: tuple[int, ...]
    """For every pass the index of its snapshot among the distinct ones."""
    first: int
    """The pass that a first visitor sees."""
    has_excerpts: bool
    """Whether a page begins with one pass, and gets the others when it shows that."""
    lines: LineTable
    block_count: int
    is_flat_possible: bool
    opens_with_blocks: bool
    open_at_first: tuple[int, ...]
    """Blocks that a first visitor finds open: the regions of a small program."""
    makers: dict[str, Callable[[], Json]]
    """Chunks by key; see `payload.py`."""
    _graphs: _AllGraphs

    @staticmethod
    def of(trace: Trace) -> SnapshotParts:
        shown = with_model_step(trace)
        distinct, place = distinct_snapshots(shown)
        first = first_pass(shown)
        graphs, lines = _AllGraphs(distinct), LineTable()
        largest = max(
            (max(p.operations_before, p.operations_after) for p in shown.passes), default=0
        )
        has_excerpts = largest > EXCERPT_ABOVE
        excerpt = cache(partial(_Excerpt, distinct, place, graphs))
        tree = excerpt(first).tree if has_excerpts else graphs.drawn().tree
        if not has_excerpts:
            largest = max((len(s.graph.nodes) for s in distinct), default=0)
        makers: dict[str, Callable[[], Json]] = {"graphs": graphs.summary}
        for index, snapshot in enumerate(distinct):
            makers[f"graph/{index}"] = partial(graphs.graph, index)
            makers[f"text/{index}"] = cache(partial(_text, lines, snapshot))
        if has_excerpts:
            for index in range(len(place)):
                makers[f"{START}/{index}"] = partial(_excerpt_payload, excerpt, index)
        if len(tree.blocks) > 1 or largest > MAX_FLAT_OPERATIONS:
            makers["blocks"] = graphs.blocks
        has_regions = any(block.is_region for block in tree.blocks)
        return SnapshotParts(
            place=tuple(place),
            first=first,
            has_excerpts=has_excerpts,
            lines=lines,
            block_count=len(tree.blocks) - 1,
            is_flat_possible=largest <= MAX_FLAT_OPERATIONS,
            opens_with_blocks="blocks" in makers and (largest > BLOCKS_ABOVE or has_regions),
            open_at_first=_regions_with_parents(tree) if largest <= OPEN_BELOW else (),
            makers=makers,
            _graphs=graphs,
        )

    def drawn_makers(self, is_needed: bool) -> Mapping[str, Callable[[], Json]]:
        """What is there once all graphs are made, which they are now if `is_needed`."""
        return self._graphs.drawn().makers if is_needed or self._graphs.is_drawn else {}


class _AllGraphs:
    """The graphs of all snapshots, in one table of nodes and one tree of blocks."""

    def __init__(self, distinct: Sequence[SnapshotRecord]) -> None:
        self.distinct = distinct
        self.is_drawn = False
        self.drawn = cache(self._draw)

    def _draw(self) -> _Drawn:
        drawn = _Drawn([snapshot.graph for snapshot in self.distinct])
        self.is_drawn = True
        return drawn

    def summary(self) -> Json:
        nodes = self.drawn().nodes
        return {"pages": nodes.page_count(), "sources": list(nodes.sources)}

    def graph(self, index: int) -> Json:
        return self.drawn().graphs[index]

    def blocks(self) -> Json:
        return _blocks_payload(self.drawn().tree)


class _Drawn:
    """What `_AllGraphs` holds when they are made."""

    def __init__(self, graphs: list[Graph]) -> None:
        self.tree = build_blocks(graphs)
        self.nodes = NodeTable(self.tree.of)
        self.graphs = [self.nodes.add(graph) for graph in graphs]
        self.makers: dict[str, Callable[[], Json]] = {
            f"nodes/{index}": partial(self.nodes.page, index)
            for index in range(self.nodes.page_count())
        }


class _Excerpt:
    """The graphs before and after one pass, with the blocks of the whole program.

    Blocks are made of the model and of what was imported, and so are their numbers. Where a pass
    adds regions of its own, numbers depend on all passes, and all are made.
    """

    def __init__(
        self,
        distinct: Sequence[SnapshotRecord],
        place: Sequence[int],
        everything: _AllGraphs,
        index: int,
    ) -> None:
        self.shown = sorted({place[max(0, index - 1)], place[index]})
        needed = sorted({*range(min(2, len(distinct))), *self.shown})
        self.graphs = [distinct[number].graph for number in self.shown]
        self.tree = build_blocks([distinct[number].graph for number in needed])
        if len(self.tree.blocks) > self.tree.imported:
            self.tree = everything.drawn().tree

    def payload(self) -> Json:
        nodes = NodeTable(self.tree.of)
        graphs = [nodes.add(graph) for graph in self.graphs]
        return {
            "snapshots": self.shown,
            "graphs": graphs,
            "records": nodes.records,
            "sources": nodes.sources,
            "blocks": _blocks_payload(self.tree),
        }


def _excerpt_payload(excerpt: Callable[[int], _Excerpt], index: int) -> Json:
    return excerpt(index).payload()


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
