"""ONNX's inference of shapes, without the nodes at which it ends the process.

    infer_shapes(model, strict_mode=True)       the model with types of its values

Its code for Split writes as many sizes as the node has results into a list of `num_outputs`: a
smaller number is an assertion of C++, which no caller can catch.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx.shape_inference
from onnx import ModelProto, NodeProto
from onnx.shape_inference import InferenceError

from explorer.importers.onnx.file.reading import walk


def infer_shapes(
    model: ModelProto,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
) -> ModelProto:
    """As `onnx.shape_inference.infer_shapes`; InferenceError for such a node in every mode."""
    for node in _nodes(model):
        _require_results(node)
    return onnx.shape_inference.infer_shapes(model, check_type, strict_mode, data_prop)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for graph in (model.graph, *model.functions):
        yield from walk(graph)


def _require_results(node: NodeProto) -> None:
    if node.op_type != "Split" or node.domain not in ("", "ai.onnx"):
        return
    count = len(node.output)
    stated = next((a.i for a in node.attribute if a.name == "num_outputs"), count)
    if stated < count:
        raise InferenceError(
            f"Split {node.name or node.output[0]}: num_outputs is {stated}, but it has {count} "
            "outputs"
        )
