"""A program's outputs as the values that the model declares: sequences, strings and maps.

    {"label.codes": ..., "p": (2, 3), "p.labels.codes": ...}
        ->  {"label": ["cat", "dog"], "p": [{"cat": 0.7, "dog": 0.3}, ...]}

Programs have tensors only; what they stand for follows from the types of the model's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto

from explorer.importers.building.code_points import SUFFIX, decoded, encoded
from explorer.importers.onnx.program.structures import LABELS

# Any: an array, None, or lists and maps of them.
HostValue = Any


def host_values(proto: ModelProto, outputs: Mapping[str, np.ndarray]) -> dict[str, HostValue]:
    """The model's outputs by name, in order: sequences as lists, strings in arrays of objects,
    a sequence of maps as a list of dictionaries, an optional without content as None."""
    return {value.name: host_value(value.name, value.type, outputs) for value in proto.graph.output}


def host_arrays(proto: ModelProto, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The program's outputs with strings in the place of their code points, as a file holds them:
    `label`, and `p` with its labels beside it."""
    strings = {v.name for v in proto.graph.output if is_string_type(v.type)}
    strings |= {v.name + LABELS for v in proto.graph.output if is_map_type(v.type)}
    arrays = {}
    for name, array in outputs.items():
        own = name.removesuffix(SUFFIX)
        is_text = own != name and own in strings
        arrays[own if is_text else name] = decoded(array).astype(np.str_) if is_text else array
    return arrays


def program_arrays(proto: ModelProto, name: str, value: HostValue) -> dict[str, np.ndarray]:
    """The inverse for an output of another tool that is no tensor of numbers, as far as a program
    has an output for it: strings, and a sequence of maps with the labels of its ZipMap."""
    if isinstance(value, np.ndarray):
        return {name + SUFFIX: encoded(value, name)}
    labels = next((_class_labels(node) for node in proto.graph.node if name in node.output), None)
    if labels is None or not all(isinstance(row, dict) for row in value):
        return {}
    numbers = np.array([[row[label] for label in labels.tolist()] for row in value], np.float32)
    is_text = labels.dtype.kind == "U"
    named = {name + LABELS + SUFFIX: encoded(labels)} if is_text else {name + LABELS: labels}
    return {name: numbers.reshape(-1, labels.size), **named}


def _class_labels(node: NodeProto) -> np.ndarray | None:
    for attribute in node.attribute if node.op_type == "ZipMap" else ():
        if attribute.name == "classlabels_int64s" and attribute.ints:
            return np.array(attribute.ints, np.int64)
        if attribute.name == "classlabels_strings" and attribute.strings:
            return np.array([text.decode("utf-8", "replace") for text in attribute.strings])
    return None


def host_value(name: str, kind: TypeProto, outputs: Mapping[str, np.ndarray]) -> HostValue:
    """One output, or a part of one."""
    found = kind.WhichOneof("value")
    if is_map_type(kind):
        return _maps(name, outputs)
    if found == "optional_type":
        content = host_value(name, kind.optional_type.elem_type, outputs)
        return None if isinstance(content, list) and not content else content
    if found == "sequence_type":
        inner, elements = kind.sequence_type.elem_type, []
        suffix = SUFFIX if is_string_type(inner) else ""
        while f"{name}.{len(elements)}{suffix}" in outputs:
            elements.append(host_value(f"{name}.{len(elements)}", inner, outputs))
        return elements
    if is_string_type(kind):
        codes = outputs.get(name + SUFFIX)
        return None if codes is None else decoded(codes)
    return outputs.get(name)


def is_string_type(kind: TypeProto) -> bool:
    is_tensor = kind.WhichOneof("value") == "tensor_type"
    return is_tensor and kind.tensor_type.elem_type == TensorProto.STRING


def is_map_type(kind: TypeProto) -> bool:
    """Of a sequence of maps."""
    is_sequence = kind.WhichOneof("value") == "sequence_type"
    return is_sequence and kind.sequence_type.elem_type.WhichOneof("value") == "map_type"


def _maps(name: str, outputs: Mapping[str, np.ndarray]) -> list[dict[int | str, float]]:
    codes = outputs.get(name + LABELS + SUFFIX)
    labels = outputs[name + LABELS] if codes is None else decoded(codes)
    return [dict(zip(labels.tolist(), row.tolist(), strict=True)) for row in outputs[name]]
