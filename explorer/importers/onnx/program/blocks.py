"""Tensors that onnxruntime laid out in blocks of channels: which they are, and of how many.

    (N, C, H, W) of 20 channels  ->  (N, 24 / 8, H, W, 8), declared as (N, 24, H, W)

At graph optimization level "all" convolutions and pools become operators of the domain
com.microsoft.nchwc. Their tensors hold 8 or 16 channels side by side (as many floats as a vector
register of the machine that saved the file holds) and are filled up to whole blocks with channels
that nobody reads. The import undoes this: it needs to know which tensors are blocked, and how many
of their channels mean something. Both follow from the graph: the operators at its borders say how
many channels go in and come out, and the filled ones have weights of zero.

Reference: onnxruntime, core/optimizer/nchwc_transformer.cc; Liu et al., "Optimizing CNN Model
Inference on CPUs", 2019, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, ValueInfoProto

from explorer.importers.building.build import Unsupported
from explorer.importers.building.expr import Expr
from explorer.ir.origins import Origin
from explorer.ir.types import is_static, static_shape

NCHWC = "com.microsoft.nchwc"
POOLS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Upsample")
ELEMENTWISE = (
    "Add", "Sum", "Mul", "Sub", "Div", "Max", "Min", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu",
    "Clip", "HardSigmoid", "HardSwish", "Identity", "Gelu", "QuickGelu", "FastGelu", "Abs", "Neg",
    "Softplus", "Erf", "Exp", "Sqrt", "Cast",
)  # fmt: skip
"""Operators outside the domain that work on blocked tensors as on any other."""

Lookup = Callable[[str], np.ndarray | None]


@dataclass(frozen=True)
class Blocks:
    """The blocked tensors of one graph.

    `channels`: of each by name, those that mean something; `filled`: with those that fill blocks,
    where it is known. `regroupings`: nodes that reshape between (N, C, H, W) and
    (N, C / size, H, W, size), which is nothing to tensors that are not blocked.
    """

    size: int
    channels: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    regroupings: frozenset[str] = frozenset()
    problem: str = ""
    """Why they are not known."""

    def origin(self, tensor: str, value: Expr) -> Origin | None:
        """How `value`, an ordinary tensor, comes from the model's; None where sizes are open."""
        if tensor not in self.channels:
            return Origin(tensor)
        filled = self.filled.get(tensor)
        if filled is None or not is_static(value.type):
            return None
        batch, channels, *plane = static_shape(value.type)
        origin = Origin(tensor).then("reshape", [batch, filled // self.size, *plane, self.size])
        order = [0, 1, len(plane) + 2, *range(2, len(plane) + 2)]
        origin = origin.then("permute", order).then("reshape", [batch, filled, *plane])
        return origin if filled == channels else origin.then("slice", [1, 0, channels])


def is_blocked(nodes: Iterable[NodeProto]) -> bool:
    """Is there a node of the domain?"""
    return any(node.domain == NCHWC for node in nodes)


def find_blocks(
    nodes: Sequence[NodeProto], array: Lookup, declared: Iterable[ValueInfoProto], size: int
) -> Blocks:
    """The blocked tensors of a graph whose nodes are in order; `array` gives constants.

    ValueError where the graph cannot have been made with blocks of that size; Unsupported where an
    operator reads a blocked tensor that should not.
    """
    search = _Search(array, _channels_of(declared), size)
    for node in nodes:
        search.add(node)
    return search.blocks()


def unblocked(weight: np.ndarray, size: int) -> np.ndarray:
    """Filters (M, C, H, W) of a blocked convolution in their usual order.

    They are stored as (M / size, C / size, H, W, size of C, size of M); those of less than `size`
    channels, of depthwise convolutions and of images, as (M / size, C, H, W, size of M).
    """
    filters, channels, *window = weight.shape
    if channels < size:
        parts = weight.reshape(filters // size, channels, *window, size)
        return np.moveaxis(parts, -1, 1).reshape(weight.shape)
    parts = weight.reshape(filters // size, channels // size, *window, size, size)
    return np.moveaxis(parts, (-1, -2), (1, 3)).reshape(weight.shape)


def check_filters(weight: np.ndarray, size: int) -> None:
    """ValueError where the weight cannot be one of blocks of that size."""
    filters, channels = weight.shape[:2] if weight.ndim == 4 else (1, 1)
    if filters % size or (channels >= size and channels % size):
        raise ValueError(f"weight {weight.shape} is not in blocks of {size}")


@dataclass
class _Group:
    """Tensors that have the same channels."""

    least: int = 1
    """That mean something, as far as it is known."""
    filled: int | None = None
    parts: list[str] | None = None
    """Tensors that are concatenated to it."""
    is_full: bool = False


class _Search:
    def __init__(self, array: Lookup, channels: Mapping[str, int], size: int) -> None:
        self.array, self.declared, self.size = array, channels, size
        self.groups: dict[str, _Group] = {}
        self.regroupings: set[str] = set()

    def add(self, node: NodeProto) -> None:
        if node.domain == NCHWC:
            self._blocked_node(node)
            return
        blocked = [name for name in node.input if name in self.groups]
        if not blocked:
            return
        if node.op_type == "Concat":
            self._concat(node)
        elif node.op_type == "Reshape" and self._regroups(node):
            self.regroupings.add(node.name)
            self._tie([node.input[0], *node.output])
        elif node.op_type in ELEMENTWISE and self._others_are_scalars(node):
            self._tie([*blocked, *node.output])
        else:
            raise Unsupported(
                f"{node.op_type} {node.name} reads {blocked[0]}, which is laid out in blocks"
            )

    def blocks(self) -> Blocks:
        channels, filled = {}, {}
        for name in list(self.groups):  # as the nodes stand
            self._join(name)
        for name, group in self.groups.items():
            whole = group.filled
            if group.is_full and whole is None:
                raise Unsupported(f"the number of channels of {name}, which is laid out in blocks")
            least = group.least if not group.is_full or whole is None else whole
            if whole is not None:
                self._check(least, whole)
                filled[name] = whole
            channels[name] = least
        return Blocks(self.size, channels, filled, frozenset(self.regroupings))

    # -- nodes ---------------------------------------------------------------------------------
    def _blocked_node(self, node: NodeProto) -> None:
        (result,) = node.output
        if node.op_type == "ReorderInput":
            channels = self.declared.get(node.input[0])
            self._tie([result])
            if channels is not None and not _attribute(node, "channels_last", 0):
                self._read(result, channels)
                self._fill(result, -(-channels // self.size) * self.size)
        elif node.op_type == "ReorderOutput":
            channels = int(_attribute(node, "channels", 0))
            self._read(node.input[0], channels)
            self._fill(node.input[0], -(-channels // self.size) * self.size)
        elif node.op_type == "Conv":
            self._convolution(node, result)
        elif node.op_type in POOLS:
            self._tie([node.input[0], result])

    def _convolution(self, node: NodeProto, result: str) -> None:
        weight = self.array(node.input[1])
        if weight is None or weight.dtype != np.float32:
            raise Unsupported(f"the weight of {node.name} is laid out in blocks and no constant")
        check_filters(weight, self.size)
        filters = unblocked(weight, self.size)
        bias = self.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        used = np.any(filters, axis=(1, 2, 3))
        if bias is not None and bias.shape == used.shape and bias.dtype == np.float32:
            used = used | (bias != 0)
        group, channels = int(_attribute(node, "group", 1)), filters.shape[1]
        if group == 1 and channels >= self.size:
            self._read(node.input[0], _last(np.any(filters, axis=(0, 2, 3))))
            self._fill(node.input[0], channels)
        elif group > 1 and channels == 1 and group == len(filters):
            self._tie([node.input[0], result])
        elif group > 1:
            for name, count in ((node.input[0], channels * group), (result, len(filters))):
                self._fill(name, count)
                self.groups[name].is_full = True
        self._fill(result, len(filters))
        self._read(result, _last(used))
        if len(node.input) > 3 and node.input[3]:
            self._tie([node.input[3], result])

    def _concat(self, node: NodeProto) -> None:
        """Blocks are joined only where all parts are whole ones."""
        outside = [name for name in node.input if name not in self.groups]
        if outside:
            raise Unsupported(f"{node.name} joins {outside[0]} to tensors laid out in blocks")
        for name in node.input:
            self.groups[name].is_full = True
        self._tie(node.output)
        self.groups[node.output[0]].parts = list(node.input)
        self.groups[node.output[0]].is_full = True

    def _regroups(self, node: NodeProto) -> bool:
        shape = self.array(node.input[1])
        if shape is None or shape.size not in (4, 5):
            return False
        batch, _, height, width, *block = shape.reshape(-1).tolist()
        if block and block != [self.size]:
            raise ValueError(f"{node.name} makes blocks of {block[0]}")
        return (batch, height, width) == (0, 0, 0)

    def _others_are_scalars(self, node: NodeProto) -> bool:
        others = [name for name in node.input if name and name not in self.groups]
        arrays = [self.array(name) for name in others]
        return all(array is not None and array.size == 1 for array in arrays)

    # -- groups ----------------------------------------------------------------------------------
    def _tie(self, names: Sequence[str]) -> None:
        """The tensors have the same channels."""
        found = [self.groups[name] for name in names if name in self.groups]
        group = found[0] if found else _Group()
        for other in found[1:]:
            if other is not group:
                self._merge(group, other)
        for name in names:
            self.groups[name] = group

    def _merge(self, group: _Group, other: _Group) -> None:
        group.least = max(group.least, other.least)
        group.is_full = group.is_full or other.is_full
        group.parts = group.parts or other.parts
        if group.filled is None:
            group.filled = other.filled
        elif other.filled not in (None, group.filled):
            raise ValueError(f"{group.filled} and {other.filled} channels in blocks do not fit")
        for name, its in self.groups.items():
            if its is other:
                self.groups[name] = group

    def _read(self, name: str, channels: int) -> None:
        self._tie([name])
        self.groups[name].least = max(self.groups[name].least, channels)

    def _fill(self, name: str, channels: int) -> None:
        self._tie([name])
        group = self.groups[name]
        if group.filled not in (None, channels):
            raise ValueError(f"{name} has {group.filled} or {channels} channels in blocks")
        group.filled = channels

    def _join(self, name: str) -> None:
        """Tensors that were joined have the channels of all parts, which stand before them."""
        group = self.groups[name]
        parts, group.parts = group.parts, None
        if parts is None:
            return
        known = [its for part in parts if (its := self.groups[part].filled) is not None]
        if len(known) == len(parts):
            self._fill(name, sum(known))

    def _check(self, channels: int, filled: int) -> None:
        if channels > filled or filled % self.size:
            raise ValueError(f"{channels} channels in {filled} of blocks of {self.size}")


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


def _last(used: np.ndarray) -> int:
    """Number of elements up to the last that is true."""
    return int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0


def _channels_of(declared: Iterable[ValueInfoProto]) -> dict[str, int]:
    """Sizes of axis 1, where they are numbers."""
    found = {}
    for value in declared:
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) > 1 and sizes[1].HasField("dim_value"):
            found[value.name] = sizes[1].dim_value
    return found
