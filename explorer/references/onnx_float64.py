"""One ONNX node in float64: by onnxruntime's own kernel for it, or by onnx's reference.

    evaluate_exactly(node, model, [x])      [array of float64]

The latter, `onnx.reference`, is NumPy and slow: only nodes that are in doubt are asked about.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto

from explorer.errors import ModelError
from explorer.ir.types import is_float_dtype
from explorer.references.onnx_runtime import NEWEST_FORMAT, open_proto

Values = Mapping[str, np.ndarray]
_ROUNDED = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""What a program in float64 has no more: casts to narrower floats stay what they are."""


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
        [_widened(node)],
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


def _widened(node: NodeProto) -> NodeProto:
    """The node; a Cast to floats makes float64, too, for its rounding is none of the arithmetic."""
    wide = NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        is_target = wide.op_type == "Cast" and attribute.name == "to"
        if is_target and attribute.i in _ROUNDED:
            attribute.i = TensorProto.DOUBLE
    return wide


def _by_runtime(model: ModelProto, inputs: Values) -> list[np.ndarray]:
    """onnxruntime's results; empty where it has no kernel for these types."""
    try:
        with open_proto(model, model.graph.node[0].name, is_optimized=False) as opened:
            return [np.asarray(array) for array in opened.run(inputs).values()]
    except ModelError:
        return []


def _type_of(array: np.ndarray) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
