"""Attributes of ONNX nodes as data of the IR, for the program that shows the model as it is.

    strides = [2, 2]                       array<i64: 2, 2>
    value = <tensor of 3x3 float>          "<3x3 float>"
    to = 7 (of a Cast)                     7

Numbers and short lists stay what they are; long lists, tensors and types become words. Graphs are
left out: they are regions.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import AttributeProto, NodeProto
from xdsl.ir import Attribute

from explorer.importers.onnx.file.text import attribute_text
from explorer.ir.operation import PropertyValue, to_attribute

LONGEST_LIST = 32
LONGEST_TEXT = 200

GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def settings_of(node: NodeProto) -> dict[str, Attribute]:
    """The node's attributes by name, those that are graphs left out."""
    return {a.name: setting(a) for a in node.attribute if a.type not in GRAPHS}


def setting(attribute: AttributeProto) -> Attribute:
    """One attribute's value as a number, a text or a list of them."""
    return to_attribute(_value(attribute))


def _value(attribute: AttributeProto) -> PropertyValue:
    if attribute.ref_attr_name:
        return f"<{attribute.ref_attr_name} of the function>"
    if attribute.type == AttributeProto.INT:
        return attribute.i
    if attribute.type == AttributeProto.FLOAT and math.isfinite(attribute.f):
        return _shortest(attribute.f)
    if attribute.type == AttributeProto.STRING:
        return _clipped(attribute.s.decode("utf-8", "replace"))
    if attribute.type == AttributeProto.INTS and 0 < len(attribute.ints) <= LONGEST_LIST:
        return [int(i) for i in attribute.ints]
    floats = [_shortest(f) for f in attribute.floats[: LONGEST_LIST + 1] if math.isfinite(f)]
    are_floats = attribute.type == AttributeProto.FLOATS
    if are_floats and 0 < len(attribute.floats) == len(floats) <= LONGEST_LIST:
        return floats
    if attribute.type == AttributeProto.STRINGS and 0 < len(attribute.strings) <= LONGEST_LIST:
        return [_clipped(s.decode("utf-8", "replace")) for s in attribute.strings]
    return _clipped(attribute_text(attribute))


def _shortest(number: float) -> float:
    """A float32 as people write it: 1e-05, and not 9.999999747378752e-06."""
    return float(str(np.float32(number)))


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
