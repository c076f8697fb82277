"""One readable line per ONNX node, for the source pane.

y = Conv(x, w, b) {pads = [1, 1, 1, 1], strides = [2, 2]}
"""

from __future__ import annotations

import math

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

_LONGEST_LIST = 12
_LONGEST_STRING = 60


def node_text(node: NodeProto) -> str:
    """The node in one line; long lists, strings and tensors are cut."""
    results = ", ".join(name or "_" for name in node.output)
    operands = ", ".join(name or "_" for name in node.input)
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    attributes = ", ".join(f"{a.name} = {attribute_text(a)}" for a in node.attribute)
    suffix = f" {{{attributes}}}" if attributes else ""
    return f"{results} = {operator}({operands}){suffix}"


def attribute_text(attribute: AttributeProto) -> str:
    """An attribute's value in a few words; long lists, strings and tensors are cut."""
    kind = attribute.type
    if kind == AttributeProto.GRAPH:
        return f"<graph of {len(attribute.g.node)} nodes>"
    if kind == AttributeProto.TENSOR:
        return _tensor_text(attribute.t)
    if kind in (AttributeProto.STRING, AttributeProto.STRINGS):
        texts = [attribute.s] if kind == AttributeProto.STRING else list(attribute.strings)
        shown = [repr(t.decode("utf-8", "replace")[:_LONGEST_STRING]) for t in texts]
        return shown[0] if kind == AttributeProto.STRING else _list_text(shown)
    if kind == AttributeProto.FLOAT:
        return f"{attribute.f:g}"
    if kind == AttributeProto.INT:
        return str(attribute.i)
    if kind == AttributeProto.FLOATS:
        return _list_text([f"{f:g}" for f in attribute.floats])
    if kind == AttributeProto.INTS:
        return _list_text([str(i) for i in attribute.ints])
    return f"<{AttributeProto.AttributeType.Name(kind).lower()}>"


def _tensor_text(tensor: TensorProto) -> str:
    """Small tensors with their numbers, others by type and shape."""
    shape = "x".join(map(str, tensor.dims)) or "scalar"
    kind = tensor.data_type
    if kind not in TensorProto.DataType.values():
        return f"<{shape} of element type {kind}, damaged>"
    name = TensorProto.DataType.Name(kind).lower()
    count = math.prod(tensor.dims)
    is_plain = tensor.data_location == TensorProto.DEFAULT
    if not is_plain or count > _LONGEST_LIST or tensor.data_type == TensorProto.STRING:
        return f"<{shape} {name}>"
    try:
        numbers = onnx.numpy_helper.to_array(tensor).tolist()
    except (ValueError, TypeError):
        return f"<{shape} {name}, damaged>"
    return f"<{shape} {name} {numbers}>"


def _list_text(items: list[str]) -> str:
    shown = items[:_LONGEST_LIST]
    rest = [f"... {len(items)} in all"] if len(items) > _LONGEST_LIST else []
    return f"[{', '.join([*shown, *rest])}]"
