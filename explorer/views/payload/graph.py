"""Graphs of a trace with shared nodes: a node that a pass left alone is stored once.

after pass 1   conv_1{relu: no}  relu_2         records  0 conv_1{relu: no}  1 relu_2
after pass 2   conv_1{relu: yes}         ->              2 conv_1{relu: yes}
                                                graphs   [0, 1]; [2]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.results import Graph, GraphDiff, GraphNode
from explorer.views.payload.text import Json

PAGE_NODES = 1000
"""Node records in one message: about 200 bytes each."""


@dataclass
class NodeTable:
    """Collects graphs; equal nodes share one record, equal names of source nodes one entry."""

    block_of: Mapping[str, int]
    """The block in which an operation stands."""
    records: list[Json] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    _record_of: dict[GraphNode, int] = field(default_factory=dict)
    _source_of: dict[str, int] = field(default_factory=dict)

    def add(self, graph: Graph) -> Json:
        """The graph as `{"nodes": records, "edges": [from, to, type, value], "types"}`.

        The ends of an edge are positions in `nodes`.
        """
        nodes = [self._record(node) for node in graph.nodes]
        position = {node.id: index for index, node in enumerate(graph.nodes)}
        types: dict[str, int] = {}
        edges = [
            [
                position[edge.source],
                position[edge.target],
                types.setdefault(edge.type, len(types)),
                "" if edge.value == edge.source else edge.value,
            ]
            for edge in graph.edges
        ]
        return {"nodes": nodes, "edges": edges, "types": list(types)}

    def source(self, name: str) -> int:
        """Index of a source node's name in `sources`."""
        if name not in self._source_of:
            self._source_of[name] = len(self.sources)
            self.sources.append(name)
        return self._source_of[name]

    def page_count(self) -> int:
        return max(1, -(-len(self.records) // PAGE_NODES))

    def page(self, index: int) -> Json:
        return {"records": self.records[index * PAGE_NODES : (index + 1) * PAGE_NODES]}

    def _record(self, node: GraphNode) -> int:
        if node not in self._record_of:
            self._record_of[node] = len(self.records)
            self.records.append(
                [
                    node.id,
                    node.operation,
                    node.label,
                    node.family,
                    node.shape,
                    [self.source(name) for name in node.sources],
                    node.device,
                    [list(pair) for pair in node.attributes],
                    node.scope,
                    self.block_of[node.id],
                    node.problem,
                ]
            )
        return self._record_of[node]


def diff_payload(diff: GraphDiff) -> Json:
    """A difference with its four kinds of marks, all by identity of the operations."""
    return {
        "added": list(diff.added),
        "removed": list(diff.removed),
        "changed": [[c.id, c.field, c.before, c.after] for c in diff.changed],
        "fused": [[operation, list(parents)] for operation, parents in diff.fused],
    }
