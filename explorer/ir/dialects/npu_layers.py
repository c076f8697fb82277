"""Layers of NPUs as typed operations: what each computes, and how it is cut into tiles.

    %y = npu.convolution(%x, %w, %b, %m, %s) {constants = ["weights", "bias", ...],
             strides = [2, 2], rescaling = {low = -128, ...}, tiles = {rows = 7, ...}, ...}

The properties of an operation are the fields of the record that `explorer.npu` computes with
(`explorer.npu.Convolution` and so on), by the same names. A record inside, such as `rescaling`, is
a dictionary, where the path of a deeper field has points. Arrays are operands; `constants` names
them by their paths. What has its default is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from explorer.ir.dialects.npu_operation import NpuOperation
from explorer.ir.operation import from_attribute, identity_of, to_attribute
from explorer.ir.types import is_static, static_shape

SHARED = (
    "inputs", "part", "title", "group", "work", "offset",
    "constants", "laid_out", "tiles", "places", "scratchpads", "on_chip", "room",
)  # fmt: skip
"""Properties of every layer; all others are fields of its record."""


class LayerOp(NpuOperation):
    """A layer, cut into tiles.

    constants: what its constant operands are, by the path of the field.
    laid_out: what the operands after these are: bytes of constants as the machine reads them.
    tiles: sizes of its tiles. places: of its constants in global memory, offset and size in bytes.
    scratchpads: of each of its buffers the address in elements of its content.
    room: bytes of the scratchpad of activations that its tiles have, where tensors stay in the
    rest.
    """

    KIND: ClassVar[str]
    """Class of its record."""
    TILES: ClassVar[tuple[str, ...]]
    """Names of the sizes of its tiles, in the order in which `explorer.npu.tile_layer` takes
    them."""
    OPTIONAL_TILES: ClassVar[tuple[str, ...]] = ()
    """Names of choices that are 1 or left out."""
    ARRAYS: ClassVar[tuple[str, ...]] = ()
    """Paths of arrays that it always has."""

    constants = opt_prop_def(ArrayAttr)
    laid_out = opt_prop_def(ArrayAttr)
    tiles = prop_def(DictionaryAttr)
    places = opt_prop_def(DictionaryAttr)
    scratchpads = opt_prop_def(DictionaryAttr)
    room = opt_prop_def(IntegerAttr)

    @property
    def fields(self) -> dict[str, Attribute]:
        """Those of its record, by their paths, without arrays."""
        found: dict[str, Attribute] = {}
        for name, attribute in self.properties.items():
            if name in SHARED:
                continue
            if isinstance(attribute, DictionaryAttr):
                found |= {f"{name}.{path}": inner for path, inner in attribute.data.items()}
            else:
                found[name] = attribute
        return found

    def sizes(self, name: str) -> tuple[int, ...]:
        """A field that is a tuple of whole numbers; empty where it has its default."""
        attribute = self.properties.get(name)
        return () if attribute is None else from_attribute(attribute)

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        found = [("kind", self.KIND)]
        for entries in (self.tiles, self.fields, self.scratchpads, self.places):
            if entries is not None:
                items = entries if isinstance(entries, dict) else entries.data
                found += [(key, _words(value)) for key, value in items.items()]
        for name in ("offset", "on_chip", "room"):
            if name in self.properties:
                found.append((name, str(self.get(name))))
        return tuple(found)

    # -- verification ------------------------------------------------------------------------
    def verify_(self) -> None:
        super().verify_()
        for problem in (*self._shared_problems(), *self.problems()):
            raise VerifyException(f"{self.name} {identity_of(self)}: {problem}")

    def problems(self) -> Iterator[str]:
        """What is wrong with the fields of its own."""
        yield from ()

    def _shared_problems(self) -> Iterator[str]:
        names = [*self.get("constants", ()), *self.get("laid_out", ())]
        constant = len(self.operands) - self.get("inputs")
        if constant != len(names):
            yield f"it names {len(names)} constants, and has {constant}"
        for path in self.ARRAYS:
            if path not in self.get("constants", ()):
                yield f"it has no constant {path}"
        tiles = from_attribute(self.tiles)
        if set(tiles) - set(self.OPTIONAL_TILES) != set(self.TILES):
            yield f"its tiles have {', '.join(tiles)}, expected {', '.join(self.TILES)}"
        for name, size in tiles.items():
            if isinstance(size, int) and size < 1:
                yield f"tiles.{name} is {size}, expected at least 1"
            if name in self.OPTIONAL_TILES and size != 1:
                yield f"tiles.{name} is {size}, expected 1"

    def _lengths(self, expected: Mapping[str, int], least: int = 1) -> Iterator[str]:
        """Of fields that are tuples of that many numbers, each at least `least`."""
        for name, count in expected.items():
            sizes = self.sizes(name)
            if name in self.properties and (len(sizes) != count or min(sizes) < least):
                yield f"{name} is {list(sizes)}, expected {count} numbers from {least} on"

    def _array(self, path: str) -> tuple[int, ...]:
        """The shape of a constant; empty where it is not there."""
        names = self.get("constants", ())
        if path not in names:
            return ()
        kind = self.operands[self.get("inputs") + names.index(path)].type
        assert isinstance(kind, TensorType)
        return static_shape(kind) if is_static(kind) else ()


def _words(attribute: Attribute) -> str:
    value = from_attribute(attribute)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def field_properties(fields: Mapping[str, Any]) -> dict[str, Attribute]:
    """Fields by their paths as properties of a `LayerOp`."""
    found: dict[str, Attribute] = {}
    inner: dict[str, dict[str, Attribute]] = {}
    for path, value in fields.items():
        name, point, rest = path.partition(".")
        if point:
            inner.setdefault(name, {})[rest] = to_attribute(value)
        else:
            found[name] = to_attribute(value)
    return found | {name: DictionaryAttr(entries) for name, entries in inner.items()}


@irdl_op_definition
class ConvolutionOp(LayerOp):
    """Sums of products over windows, requantized or left wide; `explorer.npu.Convolution`."""

    name = "npu.convolution"
    KIND: ClassVar[str] = "Convolution"
    TILES: ClassVar[tuple[str, ...]] = (
        "rows", "columns", "outputs", "inputs", "order", "constants", "together", "input_buffers",
        "weight_buffers", "sum_buffers",
    )  # fmt: skip
    OPTIONAL_TILES: ClassVar[tuple[str, ...]] = ("uncoded",)
    ARRAYS: ClassVar[tuple[str, ...]] = ("weights", "bias")

    input_shape = prop_def(DenseArrayBase)
    strides = opt_prop_def(DenseArrayBase)
    dilations = opt_prop_def(DenseArrayBase)
    pads = opt_prop_def(DenseArrayBase)
    groups = opt_prop_def(IntegerAttr)
    input_zero_point = opt_prop_def(IntegerAttr)
    channels_of_inputs = opt_prop_def(DenseArrayBase, prop_name="parts")
    reads = opt_prop_def(DenseArrayBase)
    within = opt_prop_def(DenseArrayBase)
    rescaling = opt_prop_def(DictionaryAttr)
    placement = opt_prop_def(DictionaryAttr)
    combined = opt_prop_def(DictionaryAttr)
    combined_side = opt_prop_def(IntegerAttr)

    def problems(self) -> Iterator[str]:
        yield from self._lengths({"input_shape": 3, "strides": 2, "dilations": 2})
        if len(pads := self.sizes("pads")) not in (0, 4):
            yield f"pads is {list(pads)}, expected 4 numbers"
        weights, bias = self._array("weights"), self._array("bias")
        groups, (channels, *_) = self.get("groups", 1), self.sizes("input_shape")
        if len(weights) != 4 or len(bias) != 1 or bias[0] != weights[0]:
            yield f"weights of {list(weights)} and a bias of {list(bias)} do not go together"
        elif groups < 1 or weights[0] % groups or weights[1] * groups != channels:
            yield f"weights of {list(weights)} in {groups} groups do not read {channels} channels"
        if (parts := self.sizes("parts")) and sum(parts) != channels:
            yield f"parts is {list(parts)}, expected {channels} channels together"


@irdl_op_definition
class PartitionOp(LayerOp):
    """Convolutions that write parts of one result; `explorer.npu.Pieces`."""

    name = "npu.partition"
    KIND: ClassVar[str] = "Pieces"
    TILES: ClassVar[tuple[str, ...]] = ("count", "buffers")
    OPTIONAL_TILES: ClassVar[tuple[str, ...]] = ("uncoded",)

    pieces = prop_def(DictionaryAttr)


@irdl_op_definition
class WindowOp(LayerOp):
    """Maxima of windows, or a function by table; `explorer.npu.WindowLayer`."""

    name = "npu.window"
    KIND: ClassVar[str] = "WindowLayer"
    TILES: ClassVar[tuple[str, ...]] = ("rows", "columns", "blocks", "buffers")

    input_shape = prop_def(DenseArrayBase)
    bits = prop_def(IntegerAttr)
    kernel = opt_prop_def(DenseArrayBase)
    strides = opt_prop_def(DenseArrayBase)
    dilations = opt_prop_def(DenseArrayBase)
    pads = opt_prop_def(DenseArrayBase)

    def problems(self) -> Iterator[str]:
        pairs = dict.fromkeys(("kernel", "strides", "dilations"), 2)
        yield from self._lengths({"input_shape": 3, **pairs})
        yield from self._lengths({"pads": 4}, least=0)


@irdl_op_definition
class ElementwiseOp(LayerOp):
    """Two tensors by element, or one that is scaled; `explorer.npu.Elementwise`."""

    name = "npu.elementwise"
    KIND: ClassVar[str] = "Elementwise"
    TILES: ClassVar[tuple[str, ...]] = ("rows", "columns", "blocks", "buffers")
    KINDS: ClassVar[tuple[str, ...]] = ("add", "sub", "mul", "max", "min", "scale")

    kind = prop_def(StringAttr)
    left = prop_def(DictionaryAttr)
    right = opt_prop_def(DictionaryAttr)
    how = prop_def(DictionaryAttr)
    lift = opt_prop_def(IntegerAttr)
    factor = opt_prop_def(DenseArrayBase)
    zero_point = opt_prop_def(IntegerAttr)
    low = opt_prop_def(IntegerAttr)
    high = opt_prop_def(IntegerAttr)

    def problems(self) -> Iterator[str]:
        kind = self.kind.data
        if kind not in self.KINDS:
            yield f"kind is {kind!r}, expected one of {', '.join(self.KINDS)}"
        if (self.right is None) != (kind == "scale"):
            yield f"{kind} has {1 if self.right is None else 2} operands"
        if self.get("low", -128) > self.get("high", 127):
            yield f"low is {self.get('low', -128)}, above high, {self.get('high', 127)}"
        yield from self._lengths({"factor": 2}, least=0)


@irdl_op_definition
class MatmulOp(LayerOp):
    """A product of two computed matrices; `explorer.npu.MatrixProduct`."""

    name = "npu.matmul"
    KIND: ClassVar[str] = "MatrixProduct"
    TILES: ClassVar[tuple[str, ...]] = ("rows", "outputs", "inputs", "buffers")

    left_shape = prop_def(DenseArrayBase)
    right_shape = prop_def(DenseArrayBase)
    batch = opt_prop_def(IntegerAttr)
    padding = opt_prop_def(IntegerAttr)
    left_zero_point = opt_prop_def(IntegerAttr)
    right_zero_point = opt_prop_def(IntegerAttr)
    zeros = opt_prop_def(IntegerAttr)
    rescaling = opt_prop_def(DictionaryAttr)

    def problems(self) -> Iterator[str]:
        yield from self._lengths({"left_shape": 3, "right_shape": 3})
        if self.get("batch", 1) < 1 or self.get("padding", 0) < 0:
            yield "its batch is at least 1, and its padding no less than 0"


@irdl_op_definition
class TransposeOp(LayerOp):
    """Rows and columns of matrices, swapped; `explorer.npu.Transposition`."""

    name = "npu.transpose"
    KIND: ClassVar[str] = "Transposition"
    TILES: ClassVar[tuple[str, ...]] = ("rows", "outputs", "inputs", "buffers")

    input_shape = prop_def(DenseArrayBase)
    batch = opt_prop_def(IntegerAttr)
    padding = opt_prop_def(IntegerAttr)

    def problems(self) -> Iterator[str]:
        yield from self._lengths({"input_shape": 3})


class RowOp(LayerOp):
    """What makes rows of all channels."""

    TILES: ClassVar[tuple[str, ...]] = ("rows", "columns", "blocks", "buffers")

    input_shape = prop_def(DenseArrayBase)
    bits = prop_def(IntegerAttr)
    shift = prop_def(IntegerAttr)
    zero_point = opt_prop_def(IntegerAttr)
    low = opt_prop_def(IntegerAttr)
    high = opt_prop_def(IntegerAttr)

    def problems(self) -> Iterator[str]:
        yield from self._lengths({"input_shape": 3})
        if self.get("low", -128) > self.get("high", 127):
            yield f"low is {self.get('low', -128)}, above high, {self.get('high', 127)}"


@irdl_op_definition
class SoftmaxOp(RowOp):
    """Shares of exponentials; `explorer.npu.SoftmaxLayer`."""

    name = "npu.softmax"
    KIND: ClassVar[str] = "SoftmaxLayer"
    ARRAYS: ClassVar[tuple[str, ...]] = ("exponentials",)

    multiplier = prop_def(IntegerAttr)


@irdl_op_definition
class NormalizeOp(RowOp):
    """Rows over their root mean square, with or without their mean;
    `explorer.npu.NormalizationLayer`."""

    name = "npu.normalize"
    KIND: ClassVar[str] = "NormalizationLayer"
    ARRAYS: ClassVar[tuple[str, ...]] = ("multipliers", "biases")

    epsilon = prop_def(IntegerAttr)
    centered = opt_prop_def(BoolAttr)
    input_zero_point = opt_prop_def(IntegerAttr)


LAYER_OPERATIONS: Mapping[str, type[LayerOp]] = {
    one.KIND: one
    for one in (
        ConvolutionOp, PartitionOp, WindowOp, ElementwiseOp, MatmulOp, TransposeOp, SoftmaxOp,
        NormalizeOp,
    )
}  # fmt: skip
"""By the class of the record."""
