"""Questions about a graph of an ONNX model: what outputs need, who reads a tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from onnx import GraphProto, NodeProto

from explorer.importers.onnx.file.reads import reads


def needed_nodes(
    nodes: Sequence[NodeProto], outputs: Collection[str], given: Collection[str] = ()
) -> tuple[list[NodeProto], set[str]]:
    """The nodes that compute the outputs from the given tensors, in their order, and all tensors
    that they read or that are outputs. `nodes` are in topological order."""
    needed = set(outputs)
    found: list[NodeProto] = []
    for node in reversed(nodes):
        if needed & (set(node.output) - set(given)):
            found.append(node)
            needed.update(reads(node))
    return found[::-1], needed


def keep_named(field: object, names: Collection[str]) -> None:
    """Removes what has another name from a repeated field of protobuf."""
    for number in reversed(range(len(field))):  # type: ignore[arg-type]
        if field[number].name not in names:  # type: ignore[index]
            del field[number]  # type: ignore[attr-defined]


def made_by(graph: GraphProto) -> dict[str, NodeProto]:
    """By tensor the node that computes it."""
    return {name: node for node in graph.node for name in node.output if name}


def rename_tensor(graph: GraphProto, old: str, new: str) -> None:
    """Another name for a tensor of a graph, wherever it is read or made."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.name == old:
            value.name = new
    for tensor in graph.initializer:
        if tensor.name == old:
            tensor.name = new
    _rename_in(graph.node, old, new)


def redirect(graph: GraphProto, old: str, new: str) -> None:
    """Readers of a tensor read another one; outputs of the graph keep their names."""
    _rename_in(graph.node, old, new, is_made_too=False)


def _rename_in(nodes: Iterable[NodeProto], old: str, new: str, is_made_too: bool = True) -> None:
    for node in nodes:
        for names in (node.input, node.output) if is_made_too else (node.input,):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new
        for graph in _bodies(node):
            own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            if old in own:
                continue  # a tensor of the body with the same name
            _rename_in(graph.node, old, new, is_made_too)
            for value in graph.output:
                if value.name == old:
                    value.name = new


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            if graph.node or graph.output:
                yield graph
