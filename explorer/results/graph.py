"""The graph of one snapshot, and the difference between two, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.results.displayed import Displayed


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """One operation (or a function's input or output) of a snapshot."""

    id: str
    """Stable from snapshot to snapshot."""
    operation: str
    """Name in the IR, e.g. `top.conv`."""
    label: str
    """What a person reads: `conv 3x3`, `relu`."""
    family: str
    """convolution, elementwise, normalization, pooling, movement, reduction, control, recurrent,
    quantization, sequence, transfer, input, output, weight, or other."""
    shape: str
    """Type of the first result: `1x16x8x8 f32`; symbolic dimensions by name."""
    sources: tuple[str, ...]
    """Names of the nodes of the source model that it comes from."""
    device: str
    attributes: tuple[tuple[str, str], ...] = ()
    scope: str = ""
    """Path of source name scopes, separated by `/`."""
    regions: tuple[str, ...] = ()
    """The regions around it, outermost first: the operation that holds one, then the region's
    name: `("if3", "then")`. An operation with regions stands in its own: `("if3",)`."""
    problem: str = ""
    """Why nothing can be made of it; empty for what can be compiled."""


@dataclass(frozen=True)
class GraphEdge:
    source: str
    target: str
    value: str
    type: str


@dataclass(frozen=True, repr=False)
class Graph(Displayed):
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True)
class NodeChange:
    """One attribute, operand or type of an operation that has another value than before."""

    id: str
    field: str
    before: str
    after: str


GRAPHS = "graphs"
"""Attribute of a difference with the graphs before and after the pass, for its picture. It is no
field: neither JSON nor a comparison has it."""


@dataclass(frozen=True, repr=False)
class GraphDiff(Displayed):
    """What a pass did to the graph, by identities of operations."""

    added: tuple[str, ...] = field(default_factory=tuple)
    removed: tuple[str, ...] = field(default_factory=tuple)
    changed: tuple[NodeChange, ...] = field(default_factory=tuple)
    fused: tuple[tuple[str, tuple[str, ...]], ...] = field(default_factory=tuple)
    """(operation, the removed operations whose sources it took over)."""
