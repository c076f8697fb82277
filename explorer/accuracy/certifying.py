"""Certifying a float64 run: single nodes against what others compute in float64.

    uncertified(model, inputs, {"score": array})   ->  ""                    they agree
                                                       "node Sigmoid_7: ..." they do not, or nobody
                                                                             else can compute it

Others are onnxruntime's own kernel for float64 where it has one, and onnx's reference
implementation (`onnx.reference`) where not. The latter is slow: only nodes whose result differs
from the oracle's are asked about.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import reference
from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.onnx.reading import OnnxContent
from explorer.ir.types import is_float_dtype
from explorer.references.onnx_runtime import NEWEST_FORMAT, open_proto

Values = Mapping[str, np.ndarray]
CERTIFIED = 1e-5
"""Largest `max_relative` between both float64 results. Not smaller: what this compiler computes as
one operation may have an input that the node has in the oracle's float32."""
MOST_NODES = 400
"""Asked of one model; more of them differ only when something is wrong altogether."""


def uncertified(model: SourceModel, inputs: Values, oracle: Values, results: Values) -> str:
    """Why these tensors, each computed in float64 from the oracle's values, cannot be trusted.

    Empty where the reference implementation computes the same of every node. `oracle`: its tensors
    that were the inputs of the results; others are asked for.
    """
    if not results:
        return ""
    content = model.content
    if not isinstance(content, OnnxContent):
        return f"there is no reference implementation for {model.format}"
    proto = content.proto
    makers = {name: node for node in proto.graph.node for name in node.output}
    nodes = {makers[name].output[0]: makers[name] for name in results if name in makers}
    if len(nodes) > MOST_NODES:
        return f"{len(nodes)} nodes differ from the oracle"
    needed = {name for node in nodes.values() for name in node.input if name}
    same = {name: _passed_on(name, makers) for name in needed}
    missing = sorted(set(same.values()) - oracle.keys())
    known = {**reference(model, inputs, missing), **oracle}
    given = {name: known[same[name]] for name in needed}
    for node in nodes.values():
        reason = _judge(node, proto, given, results)
        if reason:
            return f"node {node.name or node.output[0]} ({node.op_type}): {reason}"
    return ""


def _passed_on(name: str, makers: Mapping[str, NodeProto]) -> str:
    """The tensor that a node only passes on, as the import drops such nodes.

    In half precision the difference counts: onnxruntime computes in float32 and rounds a tensor
    where it is shown, so that two runs that show other tensors differ by a rounding.
    """
    while name in makers and makers[name].op_type in ("Identity", "Dropout"):
        name = makers[name].input[0]
    return name


def _judge(node: NodeProto, model: ModelProto, given: Values, results: Values) -> str:
    try:
        arrays = evaluate_exactly(node, model, [given[n] if n else None for n in node.input])
    # The reference implementation raises whatever its NumPy code meets.
    except Exception as error:
        return f"nobody else computes it in float64: {type(error).__name__}: {error}"[:200]
    for name, array in zip(node.output, arrays, strict=False):
        if name in results:
            off = tensor_error("", "", results[name], np.asarray(array)).max_relative
            if not off <= CERTIFIED:
                return f"in float64 it is off by {off:.1e} from what others compute"
    return ""


def evaluate_exactly(
    node: NodeProto, model: ModelProto, inputs: Sequence[np.ndarray | None]
) -> list[np.ndarray]:
    """The results of one node with its floats in float64, by onnxruntime or onnx's reference."""
    names = [name for name in node.input if name]
    wide = {
        name: array.astype(np.float64)
        if is_float_dtype(array.dtype) and array.dtype.itemsize < 8
        else array
        for name, array in zip(node.input, inputs, strict=True)
        if array is not None
    }
    graph = onnx.helper.make_graph(
        [node],
        "node",
        [
            onnx.helper.make_tensor_value_info(n, _type_of(wide[n]), None)
            for n in dict.fromkeys(names)
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    alone = onnx.helper.make_model(
        graph,
        opset_imports=list(model.opset_import),
        functions=list(model.functions),
        ir_version=min(model.ir_version, NEWEST_FORMAT),
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        arrays = _by_runtime(alone, wide)
        if arrays:
            return arrays
        from onnx.reference import ReferenceEvaluator  # seldom needed, and slow to import

        return [np.asarray(a) for a in ReferenceEvaluator(alone).run(None, wide)]


def _by_runtime(model: ModelProto, inputs: Values) -> list[np.ndarray]:
    """onnxruntime's results; empty where it has no kernel for these types."""
    try:
        with open_proto(model, model.graph.node[0].name, is_optimized=False) as opened:
            return [np.asarray(array) for array in opened.run(inputs).values()]
    except ModelError:
        return []


def _type_of(array: np.ndarray) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
