"""How many nodes a model has once its functions are written out; counted before they are.

    f0(x) = f1(f1(x))    f1(x) = f2(f2(x))    ...    f29(x) = Relu(Relu(x))
    y = f0(x)            ->  1,073,741,824 nodes, from a file of 2 kilobytes

A model's own functions are inlined when it is read (reading.py), and a node may call a function
twice whose nodes do the same: so a small file can stand for more nodes than any memory holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import AttributeProto, ModelProto, NodeProto

from explorer.errors import ModelError

MAX_NODES = 20_000
"""Every pass keeps a snapshot of all operations. From the file to the exported page a node takes
about 60 KB of memory and 10 ms; the largest networks in use have some thousands."""
MAX_NESTED_FUNCTIONS = 100
"""As deep as protobuf nests its messages."""

Function = tuple[str, str, str]
"""Domain, name and overload."""


def check_node_count(proto: ModelProto) -> None:
    """ModelError for a model with more nodes than can be shown, or functions that never end."""
    bodies: dict[Function, Iterable[NodeProto]] = {
        (function.domain, function.name, function.overload): function.node
        for function in proto.functions
    }
    counts: dict[Function, int] = {}

    def count(nodes: Iterable[NodeProto], callers: tuple[Function, ...]) -> int:
        return sum(count_node(node, callers) for node in nodes)

    def count_node(node: NodeProto, callers: tuple[Function, ...]) -> int:
        inner = sum(
            count(attribute.g.node, callers)
            for attribute in node.attribute
            if attribute.type == AttributeProto.GRAPH
        )
        called = (node.domain, node.op_type, node.overload)
        if called not in bodies:
            return 1 + inner
        if called not in counts:
            _check_nesting(called, callers)
            counts[called] = count(bodies[called], (*callers, called))
        return counts[called] + inner

    for called in bodies:  # those that nobody calls are written out too
        if called not in counts:
            counts[called] = count(bodies[called], (called,))
    total = count(proto.graph.node, ())
    if total > MAX_NODES:
        written_out = " when its functions are written out" if bodies else ""
        raise ModelError(
            f"the model has {total:,} nodes{written_out}; at most {MAX_NODES:,} can be compiled, "
            "for every pass keeps all of them",
            hint="export a part of the model, or a smaller one",
        )


def _check_nesting(called: Function, callers: tuple[Function, ...]) -> None:
    if called in callers:
        names = " -> ".join(function[1] for function in (*callers, called))
        raise ModelError(
            f"a function of the model needs itself: {names}", hint="the file is damaged"
        )
    if len(callers) >= MAX_NESTED_FUNCTIONS:
        raise ModelError(
            f"functions of the model are nested more than {MAX_NESTED_FUNCTIONS} deep",
            hint="export the model without functions",
        )
