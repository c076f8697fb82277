"""Which files beside its own an ONNX model takes its tensors from.

external_files(proto)       "weights.bin", once for each tensor that lies in it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto


def external_files(proto: ModelProto) -> Iterator[str]:
    """Names of the files that hold tensors of an ONNX model, as it says them."""
    yield from _files_of_graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _files_of_attributes(node.attribute)


def _files_of_graph(graph: GraphProto) -> Iterator[str]:
    for tensor in graph.initializer:
        yield from _file_of(tensor)
    for sparse in graph.sparse_initializer:
        yield from (*_file_of(sparse.values), *_file_of(sparse.indices))
    for node in graph.node:
        yield from _files_of_attributes(node.attribute)


def _files_of_attributes(attributes: Iterable[AttributeProto]) -> Iterator[str]:
    for attribute in attributes:
        for tensor in (attribute.t, *attribute.tensors):
            yield from _file_of(tensor)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (*_file_of(sparse.values), *_file_of(sparse.indices))
        for graph in (attribute.g, *attribute.graphs):
            yield from _files_of_graph(graph)


def _file_of(tensor: TensorProto) -> Iterator[str]:
    if tensor.data_location == TensorProto.EXTERNAL:
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")
