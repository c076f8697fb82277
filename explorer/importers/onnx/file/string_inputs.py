"""Inputs of strings as inputs of numbers: the code points of every string, and a node behind them.

    x : 3 strings    =>    x.codes : 3 x x.places int32      x = FromCodes(x.codes)

How many places the longest string takes is a symbolic dimension, which has a size where strings
are given, or where a person says it: `--dim x.places=16`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto, helper

from explorer.errors import InputError
from explorer.importers.building.code_points import DOMAIN, SUFFIX, encoded, is_strings, widened

PLACES = ".places"
"""What the last dimension of code points is called, behind the name of the input."""


def with_codes(proto: ModelProto) -> ModelProto:
    """The model with code points for strings; itself where it takes none."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    names = {
        v.name
        for v in proto.graph.input
        if v.name not in stored and _is_strings(v.type) and v.type.tensor_type.HasField("shape")
    }
    if not names:
        return proto
    own = ModelProto()
    own.CopyFrom(proto)
    inputs = [_codes_of(v) if v.name in names else v for v in own.graph.input]
    nodes = [helper.make_node("FromCodes", [n + SUFFIX], [n], domain=DOMAIN) for n in sorted(names)]
    nodes += own.graph.node
    inputs, nodes = [_copy(v) for v in inputs], [_copy(n) for n in nodes]
    del own.graph.input[:], own.graph.node[:]
    own.graph.input.extend(inputs)
    own.graph.node.extend(nodes)
    if DOMAIN not in {entry.domain for entry in own.opset_import}:
        own.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return own


def program_inputs(
    names: Collection[str],
    inputs: Mapping[str, np.ndarray],
    places: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The inputs that a program takes by these names: strings as their code points.

    `places`: of the code points by name, where a program has room for so many. InputError for a
    string that is longer.
    """
    found = {}
    for name, array in inputs.items():
        array = np.asarray(array)
        codes = name + SUFFIX
        if name in names or codes not in names or not is_strings(array):
            found[name] = array
            continue
        found[codes] = encoded(array, name)
        room = (places or {}).get(codes)
        if room is not None:
            found[codes] = _fitted(found[codes], room, name)
    return found


def _fitted(codes: np.ndarray, room: int, name: str) -> np.ndarray:
    if codes[..., room:].any():
        raise InputError(
            f"a string of {name!r} is longer than the {room} characters that the program is for",
            node=name,
            hint=f"compile with more: --dim {name}{PLACES}={codes.shape[-1]}",
        )
    return widened(codes[..., :room], room)


def _codes_of(value: ValueInfoProto) -> ValueInfoProto:
    """The input of the code points of an input of strings."""
    shape = value.type.tensor_type.shape
    sizes = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or f"{value.name}.{axis}"
        for axis, d in enumerate(shape.dim)
    ]
    sizes.append(value.name + PLACES)
    return helper.make_tensor_value_info(value.name + SUFFIX, TensorProto.INT32, sizes)


def _is_strings(kind: TypeProto) -> bool:
    return kind.HasField("tensor_type") and kind.tensor_type.elem_type == TensorProto.STRING


def _copy(message):  # of any protobuf type
    other = type(message)()
    other.CopyFrom(message)
    return other
