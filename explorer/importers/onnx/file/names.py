"""Names in a damaged file may be no text, or be there twice.

    node.name   b"conv\\xff"    ->    ModelError: a name is not UTF-8: b'conv\\xff'

Protobuf hands out bytes in the place of strings that are not UTF-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from explorer.errors import ModelError

MAX_NAME_CHARACTERS = 5_000
"""Every stage repeats names, and writes them as those of arrays into `.npz` files, where they have
at most 65,535 bytes: twelve for a character that has to be quoted."""


def check_names(proto: ModelProto) -> None:
    """ModelError for a name that is no text or too long, and for inputs or outputs of one name."""
    for name in _names(proto):
        if len(name) > MAX_NAME_CHARACTERS:
            raise ModelError(
                f"a name has {len(name):,} characters, at most {MAX_NAME_CHARACTERS:,} are taken; "
                f"it begins {name[:60]!r}",
                hint="the file may be damaged; else give the nodes and tensors shorter names",
            )
        if not isinstance(name, str):
            raise ModelError(
                f"a name is not UTF-8: {bytes(name)[:60]!r}",
                hint="the file is damaged: compare it with the original",
            )
    for kind, values in (("inputs", proto.graph.input), ("outputs", proto.graph.output)):
        twice = [name for name, count in Counter(v.name for v in values).items() if count > 1]
        if twice:
            raise ModelError(
                f"two {kind} are called {twice[0]!r}",
                hint="the file is damaged: compare it with the original",
            )


def _names(proto: ModelProto) -> Iterator[str]:
    yield from (entry.domain for entry in proto.opset_import)
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from function.attribute
        yield from (entry.domain for entry in function.opset_import)
        yield from _of_nodes(function.node)


def _of_graph(graph: GraphProto) -> Iterator[str]:
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from _of_value(value)
    for tensor in graph.initializer:
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from _of_nodes(graph.node)


def _of_value(value: ValueInfoProto) -> Iterator[str]:
    yield value.name
    kind: TypeProto = value.type
    while (found := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, found).elem_type
    yield from (d.dim_param for d in kind.tensor_type.shape.dim)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            for graph in (attribute.g, *attribute.graphs):
                if graph.node:
                    yield from _of_graph(graph)
