"""Tensors that nodes read, those that their inner graphs read from outside included.

reads(node of If)       the condition, and what both branches take from around them
"""

from __future__ import annotations

from onnx import GraphProto, NodeProto


def reads(node: NodeProto) -> list[str]:
    """Names without repetitions, operands first."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found += outer_reads(graph)
    return list(dict.fromkeys(found))


def outer_reads(graph: GraphProto) -> list[str]:
    """Tensors that a graph reads and does not have."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    found = [name for node in graph.node for name in reads(node)]
    found += [value.name for value in graph.output]
    return [name for name in found if name not in own]
