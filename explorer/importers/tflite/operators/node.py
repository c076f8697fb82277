"""A node of a TFLite file for its converter: tensors, options, numbers in quantized types.

    x = node.operand(0, build)         quantized numbers in the type that the file says
    kind = node.result_kind            QuantizedType of the result, None for plain numbers

A value that stands for a tensor has the tensor's quantized type where it has one of at most 16
bits. Images have their channels last; operations of `top` have them second, so that a converter
computes between two transposes, and says of what lies between which tensor it is, permuted
(`as_images`, `Images.result`): passes remove the transposes, and what is left stays comparable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import FileNode
from explorer.importers.building.layouts import channels_first, channels_last
from explorer.importers.building.quantized_types import as_quantized, as_stored, type_of_numbers
from explorer.importers.tflite.file.contents import Operator, Subgraph, Tensor
from explorer.ir.operation import PropertyValue
from explorer.ir.origins import Origin, set_origins
from explorer.ir.types import QuantizedType

NARROW = ("int8", "uint8", "int16")
"""Element types whose numbers stand for others: wider ones are sums and indices."""


MOVES = frozenset(
    ("BROADCAST_TO", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER", "GATHER_ND", "PACK", "RESHAPE")
    + ("REVERSE_V2", "SLICE", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE")
    + ("TILE", "TRANSPOSE", "UNPACK")
)
"""Operators that read no scale: they move numbers as they are stored."""


@dataclass(frozen=True, kw_only=True)
class TfliteNode(FileNode):
    """One operator of a file, with its tensors."""

    file: Operator
    results: tuple[Tensor, ...] = ()
    """What it makes: the file's tensors, and what states hold behind it."""
    given: Sequence[Expr | None] = ()
    """The values of its operands."""
    graphs: tuple[Subgraph, ...] = ()
    """All of the file, which operators may call by their numbers."""
    callers: frozenset[int] = frozenset()
    """The subgraphs that it stands in: none of them is called again."""

    # -- options ---------------------------------------------------------------------------------
    @property
    def options(self) -> Mapping[str, PropertyValue]:
        return self.file.options

    def integer(self, name: str, default: int = 0) -> int:
        value = self.options.get(name, default)
        if not isinstance(value, int):
            raise ValueError(f"option {name} is {value!r}; a number expected")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        value = self.options.get(name, default)
        if not isinstance(value, int | float):
            raise ValueError(f"option {name} is {value!r}; a number expected")
        return float(value)

    def integers(self, name: str) -> list[int]:
        value = self.options.get(name, [])
        return [int(v) for v in value] if isinstance(value, list | tuple) else []  # pyright: ignore

    @property
    def activation(self) -> str:
        return str(self.options.get("fused_activation_function", "NONE"))

    # -- tensors ---------------------------------------------------------------------------------
    @property
    def result(self) -> Tensor:
        return self.results[0]

    @property
    def result_kind(self) -> QuantizedType | None:
        return kind_of(self.result)

    def tensor(self, index: int) -> Tensor:
        found = self.file.inputs[index] if index < len(self.file.inputs) else None
        if found is None:
            raise ValueError(f"operand {index} is missing")
        return found

    def has(self, index: int) -> bool:
        return index < len(self.given) and self.given[index] is not None

    def operand(self, index: int, build: Build) -> Expr:
        """An operand in the type that the file says."""
        return self.typed(self.plain(index), self.tensor(index), build)

    def typed(self, value: Expr, tensor: Tensor, build: Build) -> Expr:
        """An operand or result in its type; what is only moved may have a scale that is none."""
        if self.operator in MOVES and not _has_finite_scales(tensor):
            return as_stored(value, build)
        return typed(value, tensor, build)

    def plain(self, index: int) -> Expr:
        """An operand that holds plain numbers: shapes, axes, biases."""
        value = self.given[index] if index < len(self.given) else None
        if value is None:
            raise ValueError(f"operand {index} is missing")
        return value

    def integers_of(self, index: int, purpose: str, build: Build) -> list[int]:
        """An operand that must be known while importing."""
        return build.integers(self.plain(index), purpose)

    @property
    def is_quantized(self) -> bool:
        """Whether it computes with quantized numbers: its first operand, or its result."""
        first = self.file.inputs[0] if self.file.inputs else None
        return self.result_kind is not None or (first is not None and kind_of(first) is not None)

    def require_plain(self) -> None:
        """For converters of floats: what is quantized has no form yet."""
        if self.is_quantized:
            raise Unsupported("of quantized numbers it cannot be imported yet")

    def require_quantized(self) -> QuantizedType:
        """The result's type, one scale for the whole tensor, where the first operand has one."""
        kind, source = self.result_kind, kind_of(self.tensor(0))
        if kind is None or source is None:
            shown = f"{self.tensor(0).element_type} to {self.result.element_type}"
            raise Unsupported(f"from {shown}, one quantized and the other not")
        if not kind.is_per_tensor:
            raise Unsupported("a result with a scale for each slice")
        return kind


def kind_of(tensor: Tensor) -> QuantizedType | None:
    """The quantized type of a tensor; None where it holds plain numbers.

    Unsupported for a scale of zero and for forms of quantization other than by scales.
    """
    found = tensor.quantization
    if found is None or not found.scales.size or tensor.element_type not in NARROW:
        return None
    if found.details:
        raise Unsupported(f"tensor {tensor.name!r} is quantized by {found.details}")
    axis = found.axis
    if found.scales.size > 1 and not (
        0 <= axis < len(tensor.shape) and tensor.shape[axis] == found.scales.size
    ):
        raise Unsupported(
            f"{found.scales.size} scales along axis {axis} of tensor {tensor.name!r} of shape "
            f"{tensor.shape}"
        )
    kind = type_of_numbers(found.scales, found.zero_points, np.dtype(tensor.element_type), axis)
    if kind is None:
        raise Unsupported(f"the scales of tensor {tensor.name!r} are not positive, finite numbers")
    return kind


def _has_finite_scales(tensor: Tensor) -> bool:
    found = tensor.quantization
    return found is None or bool(np.isfinite(found.scales).all())


def typed(value: Expr, tensor: Tensor, build: Build) -> Expr:
    """A value in the quantized type of the tensor that it is; integers of another scale are taken
    as they are stored, which is what a program that moves bytes does."""
    kind = kind_of(tensor)
    if kind is None:
        return as_stored(value, build)
    if value.element_type == kind:
        return value
    return as_quantized(as_stored(value, build), kind, build)


@dataclass(frozen=True)
class Images:
    """A tensor with its channels second while a node is converted: (N, C, spatial...)."""

    value: Expr
    node: TfliteNode

    def result(self, value: Expr, build: Build) -> Expr:
        """What was computed, as the file has it. `value` is the node's first result, permuted."""
        rank = value.rank
        made = value.owner
        if isinstance(made, Operation) and made in build.created:
            permutation = (0, rank - 1, *range(1, rank - 1))
            set_origins(made, [Origin(self.node.result.name).then("permute", permutation)])
        return channels_last(value)


def as_images(node: TfliteNode, index: int, build: Build) -> Images:
    x = node.operand(index, build)
    if x.rank < 3:
        raise ValueError(f"an image has at least 3 axes, not {x.rank}")
    return Images(channels_first(x), node)
