"""An ONNX node as a converter gets it: operands that are values of the IR, and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx import GraphProto, SparseTensorProto, TensorProto, TypeProto

from explorer.errors import ModelError, UnsupportedError
from explorer.importers.building.build import Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.structures import (
    Imported,
    LabeledRows,
    OptionalValue,
    StringTensor,
    TensorSequence,
)

AttributeValue = (
    int
    | float
    | str
    | TensorProto
    | GraphProto
    | TypeProto
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple
)
"""The bare tuple holds what no converter reads (strings, tensors, graphs)."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """An ONNX node whose operands are already values of the IR."""

    name: str
    operator: str
    domain: str
    opset: int
    attributes: Mapping[str, AttributeValue]
    operands: tuple[Imported | None, ...]
    """None for an optional operand that is left out."""
    results: tuple[str, ...]

    def operand(self, index: int) -> Expr:
        """A tensor that must be there."""
        value = self.optional(index)
        if value is None:
            raise ValueError(f"operand {index} is missing")
        return value

    def optional(self, index: int) -> Expr | None:
        """A tensor that may be left out."""
        value = self.structure(index)
        if isinstance(value, OptionalValue | TensorSequence):
            raise ValueError(f"operand {index} is a sequence or an optional, not a tensor")
        if isinstance(value, StringTensor):
            raise Unsupported(f"operand {index} holds strings")
        if isinstance(value, LabeledRows):
            raise Unsupported(f"operand {index} is a sequence of maps")
        return value

    def strings(self, index: int) -> Expr:
        """The code points of strings that must be there: (shape..., places)."""
        value = self.structure(index)
        if not isinstance(value, StringTensor):
            raise ValueError(f"operand {index} holds no strings")
        return value.codes

    def structure(self, index: int) -> Imported | None:
        """An operand of any kind."""
        return self.operands[index] if index < len(self.operands) else None

    def sequence(self, index: int) -> TensorSequence:
        """A sequence that must be there."""
        value = self.structure(index)
        if isinstance(value, OptionalValue):
            value = value.content
        if not isinstance(value, TensorSequence):
            raise ValueError(f"operand {index} is no sequence")
        return value

    def given(self) -> list[Expr]:
        """The operands of a variadic operator."""
        present = [self.optional(index) for index in range(len(self.operands))]
        return [value for value in present if value is not None]

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise ValueError(f"attribute {name} must be an integer, not {value!r}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise ValueError(f"attribute {name} must be a number, not {value!r}")
        return float(value)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise ValueError(f"attribute {name} must be a string, not {value!r}")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """None where the attribute is absent."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(i, int) for i in value):
            raise ValueError(f"attribute {name} must be a list of integers, not {value!r}")
        return tuple(int(i) for i in value)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(i, int | float) for i in value):
            raise ValueError(f"attribute {name} must be a list of numbers, not {value!r}")
        return tuple(float(i) for i in value)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """None where the attribute is absent."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(i, str) for i in value):
            raise ValueError(f"attribute {name} must be a list of strings, not {value!r}")
        return tuple(str(i) for i in value)

    def tensor(self, name: str) -> TensorProto | None:
        value = self.attributes.get(name)
        if value is not None and not isinstance(value, TensorProto):
            raise ValueError(f"attribute {name} must be a tensor")
        return value

    def graph(self, name: str) -> GraphProto:
        value = self.attributes.get(name)
        if not isinstance(value, GraphProto):
            raise ValueError(f"attribute {name} must be a graph")
        return value


def attribute_value(attribute: onnx.AttributeProto) -> AttributeValue:
    """An attribute's value in Python's types; strings are decoded."""
    if attribute.ref_attr_name:
        raise ModelError(
            f"attribute {attribute.name!r} refers to {attribute.ref_attr_name!r} of a function, "
            "and the node stands in none",
            hint="the file is damaged",
        )
    value = onnx.helper.get_attribute_value(attribute)
    if value is None:
        raise ModelError(f"attribute {attribute.name!r} has no type", hint="the file is damaged")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int | float | str | TensorProto | GraphProto | TypeProto):
        return value
    if isinstance(value, SparseTensorProto):
        problem = f"attribute {attribute.name!r} is a sparse tensor"
        raise UnsupportedError("the model has sparse tensors", problems=[problem])
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)
