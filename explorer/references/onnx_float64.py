"""One ONNX node in float64: by onnxruntime's own kernel for it, or by onnx's reference.

    evaluate_exactly(node, model, [x])      [array of float64]

The latter, `onnx.reference`, is NumPy and slow: only nodes that are in doubt are asked about.
A function whose body computes in float32 inside, or cancels, has a formula here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from explorer.errors import ModelError
from explorer.ir.types import is_float_dtype
from explorer.references.onnx_runtime import NEWEST_FORMAT, open_proto

Values = Mapping[str, np.ndarray]
_ROUNDED = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""What a program in float64 has no more: casts to narrower floats stay what they are."""


def evaluate_exactly(
    node: NodeProto, model: ModelProto, inputs: Sequence[np.ndarray | None]
) -> list[np.ndarray]:
    """The results of one node with its floats in float64, by onnxruntime or onnx's reference.

    `inputs`: of the node, and what its nested graphs read around it (`names_read`)."""
    names = [name for name in names_read(node) if name]
    if node.op_type in _FORMULAS and not node.domain:
        wide_operands = [a if a is None else a.astype(np.float64) for a in inputs]
        with np.errstate(all="ignore"):
            return [_FORMULAS[node.op_type](node, wide_operands)]
    wide = {
        name: array.astype(np.float64)
        if is_float_dtype(array.dtype) and array.dtype.itemsize < 8
        else array
        for name, array in zip(names_read(node), inputs, strict=True)
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


def _mean_variance_normalization(
    node: NodeProto, operands: Sequence[np.ndarray | None]
) -> np.ndarray:
    """ONNX's function body with a variance that does not cancel; onnx's reference has float32
    constants in it, and onnxruntime no float64 kernel."""
    (x,) = operands
    assert x is not None
    axes = tuple(_attributes(node).get("axes", (0, 2, 3)))
    centered = x - x.mean(axes, keepdims=True)
    return centered / (np.sqrt((centered**2).mean(axes, keepdims=True)) + 1e-9)


def _group_normalization(node: NodeProto, operands: Sequence[np.ndarray | None]) -> np.ndarray:
    """Since opset 21 scale and bias are those of channels, before of groups. onnxruntime expands
    a body that casts to float32 and cancels."""
    x, scale, bias = operands
    assert x is not None and scale is not None and bias is not None
    given = _attributes(node)
    groups = x.reshape(x.shape[0], given["num_groups"], -1)
    centered = groups - groups.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    y = centered / np.sqrt(variance + given.get("epsilon", 1e-5))
    if scale.size == given["num_groups"] != x.shape[1]:
        return (y * scale[:, None] + bias[:, None]).reshape(x.shape)
    per_channel = (-1, *[1] * (x.ndim - 2))
    return y.reshape(x.shape) * scale.reshape(per_channel) + bias.reshape(per_channel)


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


_FORMULAS: Mapping[str, Callable[[NodeProto, Sequence[np.ndarray | None]], np.ndarray]] = {
    "MeanVarianceNormalization": _mean_variance_normalization,
    "GroupNormalization": _group_normalization,
}


def names_read(node: NodeProto) -> list[str]:
    """The node's operands, and what its nested graphs read from around it."""
    inner = [n for a in node.attribute if a.type == AttributeProto.GRAPH for n in _free(a.g)]
    return [*node.input, *(name for name in dict.fromkeys(inner) if name not in node.input)]


def _free(graph: GraphProto) -> list[str]:
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    used = [name for node in graph.node for name in names_read(node)]
    used += [value.name for value in graph.output]
    return [name for name in used if name and name not in own]


def _widened(node: NodeProto) -> NodeProto:
    """The node; a Cast to floats makes float64, too, for its rounding is none of the arithmetic.
    So do constants of nested graphs."""
    wide = NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        is_target = wide.op_type == "Cast" and attribute.name == "to"
        if is_target and attribute.i in _ROUNDED:
            attribute.i = TensorProto.DOUBLE
        elif attribute.type == AttributeProto.GRAPH:
            _widen(attribute.g)
    return wide


def _widen(graph: GraphProto) -> None:
    """In place: all floats that the graph computes with are float64."""
    for position, node in enumerate(list(graph.node)):
        graph.node[position].CopyFrom(_widened(node))
        if node.op_type in ("Constant", "ConstantOfShape"):
            for attribute in graph.node[position].attribute:
                if attribute.type == AttributeProto.TENSOR:
                    attribute.t.CopyFrom(_wide_tensor(attribute.t))
    for tensor in graph.initializer:
        tensor.CopyFrom(_wide_tensor(tensor))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _ROUNDED:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]


def _wide_tensor(tensor: TensorProto) -> TensorProto:
    if tensor.data_type not in _ROUNDED or tensor.external_data:
        return tensor
    array = np.asarray(onnx.numpy_helper.to_array(tensor)).astype(np.float64)
    return onnx.numpy_helper.from_array(array, tensor.name)


def _by_runtime(model: ModelProto, inputs: Values) -> list[np.ndarray]:
    """onnxruntime's results; empty where it has no kernel for these types."""
    try:
        with open_proto(model, model.graph.node[0].name, is_optimized=False) as opened:
            return [np.asarray(array) for array in opened.run(inputs).values()]
    except ModelError:
        return []


def _type_of(array: np.ndarray) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
