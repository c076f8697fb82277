"""What a program of the backend was made for: shapes and types, and contents where these count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto
from onnx.helper import make_tensor_type_proto, np_dtype_to_tensor_dtype

from explorer.importers import SourceModel
from explorer.importers.onnx import from_proto


@dataclass(frozen=True)
class Signature:
    """Forms of all inputs, and the contents of some."""

    forms: tuple[tuple[str, Any], ...]
    contents: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(inputs: Mapping[str, Any], specialized: Sequence[str]) -> Signature:
        forms = tuple((name, _form(value)) for name, value in inputs.items())
        return Signature(forms, tuple((name, _contents(inputs[name])) for name in specialized))

    def fits(self, inputs: Mapping[str, Any]) -> bool:
        return self == Signature.of(inputs, [name for name, _ in self.contents])


def specialized_model(proto: ModelProto, inputs: Mapping[str, Any]) -> SourceModel:
    """The model with the inputs' own shapes, and their contents where they are needed."""
    own = ModelProto()
    own.CopyFrom(proto)
    for value in own.graph.input:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray | np.generic) and array.dtype.kind not in "OUS":
            value.type.CopyFrom(_type_of(np.asarray(array)))
    arrays = {n: np.asarray(a) for n, a in inputs.items() if isinstance(a, np.ndarray | np.generic)}
    return replace(from_proto(own), assumed=arrays)


def _type_of(array: np.ndarray) -> TypeProto:
    return make_tensor_type_proto(np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _form(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype.name, value.shape)
    if isinstance(value, Sequence):
        return tuple(_form(v) for v in value)
    return type(value).__name__


def _contents(value: Any) -> Any:
    return np.asarray(value).tobytes()
