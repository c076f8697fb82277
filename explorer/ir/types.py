"""Types of `top` values: element types, symbolic dimensions, physical layout.

A value is a builtin `tensor`. What MLIR's tensor cannot say by itself stands in its encoding:

    tensor<?x3x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>            symbolic dimension
    tensor<1x24x8x8xf32, #top.encoding<block = 16, halo = [1, 1, 1, 1]>>        NCHW16c with halo

A layout never changes what a value *means*: shapes and NumPy meanings stay logical (NCHW), and
the physical form appears where buffers do, in the kernels' memrefs. Dimensions are integers or
names; a name may be an expression over other names ("2*batch").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    BytesAttr,
    DenseArrayBase,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Dim = int | str
Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Layout:
    """Physical form of a logical NCHW tensor inside its buffer.

    block: channels per innermost block (0: plain); the channel count is rounded up to it.
    halo: rows and columns (top, left, bottom, right) of `fill` around each plane.
    pitch: rows from the beginning of a plane to that of the next one. 0: its own, halo included; a
    band of rows in the buffer of a larger tensor has the rows of that one.
    """

    block: int = 0
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: float = 0.0
    pitch: int = 0

    @property
    def is_plain(self) -> bool:
        return self.block == 0 and self.halo == (0, 0, 0, 0) and not self.pitch


PLAIN = Layout()


@irdl_attr_definition
class EncodingAttr(ParametrizedAttribute):
    """Encoding of a `top` tensor: names of symbolic dimensions ("" where static) and the layout."""

    name = "top.encoding"

    dims: ArrayAttr[StringAttr]
    block: IntAttr
    halo: ArrayAttr[IntAttr]
    fill: FloatAttr
    pitch: IntAttr

    @staticmethod
    def get(dims: Sequence[str], layout: Layout) -> EncodingAttr:
        return EncodingAttr(
            ArrayAttr([StringAttr(d) for d in dims]),
            IntAttr(layout.block),
            ArrayAttr([IntAttr(h) for h in layout.halo]),
            FloatAttr(layout.fill, Float32Type()),
            IntAttr(layout.pitch),
        )

    @property
    def layout(self) -> Layout:
        top, left, bottom, right = (h.data for h in self.halo.data)
        fill = float(self.fill.value.data)
        return Layout(self.block.data, (top, left, bottom, right), fill, self.pitch.data)

    @property
    def dimension_names(self) -> tuple[str, ...]:
        return tuple(d.data for d in self.dims.data)

    def print_parameters(self, printer: Printer) -> None:
        layout, parts = self.layout, []
        if layout.block:
            parts.append(f"block = {layout.block}")
        if layout.halo != (0, 0, 0, 0):
            parts.append(f"halo = [{', '.join(map(str, layout.halo))}]")
        if layout.fill != 0.0:
            parts.append(f'fill = "{layout.fill!r}"')
        if layout.pitch:
            parts.append(f"pitch = {layout.pitch}")
        with printer.in_angle_brackets():
            if any(self.dimension_names):
                printer.print_string("dims = [")
                printer.print_list(self.dimension_names, printer.print_string_literal)
                printer.print_string("], " if parts else "]")
            printer.print_string(", ".join(parts))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        names: list[str] = []
        block, halo, fill, pitch = 0, (0, 0, 0, 0), 0.0, 0
        with parser.in_angle_brackets():
            while True:
                key = parser.parse_optional_identifier()
                if key is None:
                    break
                parser.parse_punctuation("=")
                if key == "dims":
                    names = parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE, parser.parse_str_literal
                    )
                elif key == "block":
                    block = parser.parse_integer()
                elif key == "halo":
                    numbers = parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE, parser.parse_integer
                    )
                    if len(numbers) != 4:
                        parser.raise_error("a halo is [top, left, bottom, right]")
                    top, left, bottom, right = numbers
                    halo = (top, left, bottom, right)
                elif key == "fill":
                    text = parser.parse_str_literal()
                    try:
                        fill = float(text)
                    except ValueError:
                        parser.raise_error(f"fill = {text!r}: a number expected")
                elif key == "pitch":
                    pitch = parser.parse_integer()
                else:
                    parser.raise_error(
                        f"unknown field {key!r}: dims, block, halo, fill or pitch expected"
                    )
                if parser.parse_optional_punctuation(",") is None:
                    break
        return list(EncodingAttr.get(names, Layout(block, halo, fill, pitch)).parameters)


WIDEST_NARROW = 16
"""Bits of the widest integers that are not for sums."""
Packed = TypeVar("Packed", Float32Type, Float64Type, IntegerType)


def _packed(kind: Packed, numbers: ArrayLike, dtype: str) -> DenseArrayBase[Packed]:
    """As `DenseArrayBase.from_list`, which goes through thousands of channels one by one."""
    array = np.asarray(numbers)
    packed = array.astype(dtype)
    if packed.dtype.kind == "i" and not np.array_equal(array, packed):
        raise ValueError(f"not all of {numbers} are whole numbers of 32 bits")
    return DenseArrayBase(kind, BytesAttr(packed.tobytes()))


@irdl_attr_definition
class QuantizedType(ParametrizedAttribute, TypeAttribute):
    """Element type of a quantized tensor: real = (stored - zero_point) * scale.

    storage: an integer type; scales and zero_points: one, or one per slice of `axis` (axis -1: per
    tensor). Scales of at most 16 bits are singles; those of wider storage, which is for sums of
    products, are doubles: the product of two singles is exact. As MLIR's quant dialect has it:

        !top.quantized<ui8, 0.05:128>                      one scale and zero point
        !top.quantized<i8, axis 0, {0.5:0, 0.25:3}>        one for each slice of axis 0
        !top.quantized<ui4, axis 0, block 32>              one for each 32 elements along axis 0

    block: elements of a block, 0 without blocks. Scales of blocks are as many as a tensor of their
    own has room for; `top.dequantize_blocks` takes them beside the numbers.
    """

    name = "top.quantized"

    storage: IntegerType
    scales: DenseArrayBase[Float32Type | Float64Type]
    zero_points: DenseArrayBase[IntegerType]
    axis: IntAttr
    block: IntAttr

    @staticmethod
    def get(
        storage: IntegerType, scales: Sequence[float], zero_points: Sequence[int], axis: int = -1
    ) -> QuantizedType:
        """ValueError for counts that differ, and scales that are not positive and finite."""
        if len(scales) != len(zero_points) or len(scales) == 0:
            raise ValueError("as many zero points as scales, at least one")
        numbers = np.asarray(scales, np.float32)
        if not np.all((numbers > 0) & np.isfinite(numbers)):
            raise ValueError("scales must be positive and finite")
        is_wide = storage.width.data > WIDEST_NARROW
        return QuantizedType(
            storage,
            _packed(Float64Type(), scales, "<f8")
            if is_wide
            else _packed(Float32Type(), numbers, "<f4"),
            _packed(IntegerType(32), zero_points, "<i4"),
            IntAttr(axis),
            IntAttr(0),
        )

    @staticmethod
    def in_blocks(storage: IntegerType, axis: int, block: int) -> QuantizedType:
        """Of numbers with parameters for every `block` elements along an axis.

        ValueError for what is no axis or no block.
        """
        if axis < 0 or block < 1:
            raise ValueError(f"blocks of {block} along axis {axis}")
        return QuantizedType(
            storage,
            DenseArrayBase.from_list(Float32Type(), []),
            DenseArrayBase.from_list(IntegerType(32), []),
            IntAttr(axis),
            IntAttr(block),
        )

    @property
    def block_size(self) -> int:
        """Elements of a block along the axis; 0 where slices of it, or all, share parameters."""
        return self.block.data

    @property
    def axis_number(self) -> int:
        return self.axis.data

    @property
    def is_per_tensor(self) -> bool:
        return self.axis.data < 0

    @property
    def scale_array(self) -> np.ndarray:
        """Scales in single precision: one, or one per slice."""
        return np.array(self.scales.get_values(), np.float32)

    @property
    def double_scales(self) -> np.ndarray:
        """Scales as they are kept, in double precision."""
        return np.array(self.scales.get_values(), np.float64)

    @property
    def zero_point_array(self) -> np.ndarray:
        return np.array(self.zero_points.get_values(), np.int64)

    def with_axis(self, axis: int) -> QuantizedType:
        """The same scales along another axis."""
        return QuantizedType(self.storage, self.scales, self.zero_points, IntAttr(axis), self.block)

    def along(self, numbers: np.ndarray, rank: int) -> np.ndarray:
        """Numbers per slice in a form that broadcasts to a tensor of so many axes."""
        if self.is_per_tensor:
            return numbers.reshape(())
        return numbers.reshape(-1, *[1] * (rank - self.axis.data - 1))

    def __str__(self) -> str:
        """What a person reads: `ui8 x 0.05 (zero 128)`; ranges where there are several."""
        if self.block_size:
            return f"{self.storage} in blocks of {self.block_size} along axis {self.axis.data}"
        scales, zeros = self.scale_array, self.zero_point_array
        if self.is_per_tensor:
            zero = f" (zero {zeros[0]})" if zeros[0] else ""
            return f"{self.storage} x {scales[0]:.4g}{zero}"
        zero = "" if not zeros.any() else f" (zeros {zeros.min()} to {zeros.max()})"
        return (
            f"{self.storage} x {scales.min():.4g} to {scales.max():.4g}{zero} "
            f"along axis {self.axis.data}"
        )

    def print_parameters(self, printer: Printer) -> None:
        pairs = [
            f"{_float_text(scale)}:{zero}"
            for scale, zero in zip(
                self.scales.get_values(), self.zero_points.get_values(), strict=True
            )
        ]
        with printer.in_angle_brackets():
            printer.print_attribute(self.storage)
            if self.block_size:
                printer.print_string(f", axis {self.axis.data}, block {self.block_size}")
            elif self.is_per_tensor and len(pairs) == 1:
                printer.print_string(f", {pairs[0]}")
            else:
                printer.print_string(f", axis {self.axis.data}, {{{', '.join(pairs)}}}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        def pair() -> tuple[float, int]:
            scale = float(parser.parse_number())
            parser.parse_punctuation(":")
            return scale, parser.parse_integer()

        with parser.in_angle_brackets():
            storage = parser.parse_type()
            if not isinstance(storage, IntegerType):
                parser.raise_error("an integer type expected as the storage of quantized numbers")
            parser.parse_punctuation(",")
            axis, pairs = -1, []
            if parser.parse_optional_keyword("axis") is not None:
                axis = parser.parse_integer()
                parser.parse_punctuation(",")
                if parser.parse_optional_keyword("block") is not None:
                    return cls._parsed_blocks(parser, storage, axis)
                pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, pair)
            else:
                pairs.append(pair())
        try:
            kind = QuantizedType.get(storage, [s for s, _ in pairs], [z for _, z in pairs], axis)
        except ValueError as error:
            parser.raise_error(str(error))
        return list(kind.parameters)

    @classmethod
    def _parsed_blocks(cls, parser: AttrParser, storage: IntegerType, axis: int) -> list[Attribute]:
        block = parser.parse_integer()
        try:
            return list(cls.in_blocks(storage, axis, block).parameters)
        except ValueError as error:
            parser.raise_error(str(error))


def _float_text(value: float) -> str:
    """A number as MLIR's grammar has it: with a point."""
    text = repr(float(value))
    return text if "." in text else text.replace("e", ".0e")


def stored_type(element_type: Attribute) -> Attribute:
    """The type of what lies in memory: the integers of a quantized type, all others themselves."""
    return element_type.storage if isinstance(element_type, QuantizedType) else element_type


def tensor_type(
    element_type: Attribute, shape: Sequence[Dim], layout: Layout = PLAIN
) -> TensorType[Attribute]:
    """A tensor type; names in `shape` become dynamic dimensions with their name in the encoding."""
    return _tensor_type(element_type, tuple(shape), layout)


# Types are immutable and most values share a few of them; xDSL takes 50 µs to make one.
@lru_cache(maxsize=4096)
def _tensor_type(element_type: Attribute, shape: Shape, layout: Layout) -> TensorType[Attribute]:
    names = [d if isinstance(d, str) else "" for d in shape]
    sizes = [DYNAMIC_INDEX if isinstance(d, str) else d for d in shape]
    needs_encoding = any(names) or not layout.is_plain or layout.fill != 0.0
    encoding = (
        EncodingAttr.get(names if any(names) else (), layout) if needs_encoding else NoneAttr()
    )
    return TensorType(element_type, sizes, encoding)


def shape_of(value: SSAValue | Attribute) -> Shape:
    """Logical shape; symbolic dimensions by name ("?" where the name is unknown)."""
    return _shape(value.type if isinstance(value, SSAValue) else value)


# Values of a program share few types, and everything that is drawn, printed or measured asks for
# their shape, text and size: looking one up takes a tenth of the time of working it out.
@lru_cache(maxsize=4096)
def _shape(kind: Attribute) -> Shape:
    assert isinstance(kind, TensorType), kind
    encoding, sizes = kind.encoding, kind.get_shape()
    names = encoding.dimension_names if isinstance(encoding, EncodingAttr) else ()
    names = names or ("",) * len(sizes)
    return tuple((n or "?") if s == DYNAMIC_INDEX else s for s, n in zip(sizes, names, strict=True))


def static_shape(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Logical shape of a value whose dimensions are all known; ValueError otherwise."""
    shape = shape_of(value)
    sizes = tuple(d for d in shape if isinstance(d, int))
    if len(sizes) != len(shape):
        raise ValueError(f"shape {format_shape(shape)} is not static")
    return sizes


def is_static(value: SSAValue | Attribute) -> bool:
    kind = value.type if isinstance(value, SSAValue) else value
    return isinstance(kind, TensorType) and DYNAMIC_INDEX not in kind.get_shape()


def element_type_of(value: SSAValue | Attribute) -> Attribute:
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, TensorType), kind
    return kind.element_type


def layout_of(value: SSAValue | Attribute) -> Layout:
    kind = value.type if isinstance(value, SSAValue) else value
    if isinstance(kind, TensorType) and isinstance(kind.encoding, EncodingAttr):
        return kind.encoding.layout
    return PLAIN


def with_layout(kind: Attribute, layout: Layout) -> TensorType[Attribute]:
    """The same tensor type in another physical layout."""
    is_plain = layout == PLAIN and is_static(kind)
    if is_plain and isinstance(kind, TensorType) and isinstance(kind.encoding, NoneAttr):
        return kind
    return tensor_type(element_type_of(kind), shape_of(kind), layout)


def format_shape(shape: Sequence[Dim]) -> str:
    return "x".join(str(d) for d in shape) or "scalar"


@lru_cache(maxsize=4096)
def format_type(kind: Attribute) -> str:
    """What a person reads: `1x16x8x8 f32`, with the layout where it is not plain."""
    if not isinstance(kind, TensorType):
        return str(kind)
    text = f"{format_shape(shape_of(kind))} {kind.element_type}"
    layout = layout_of(kind)
    if layout.block:
        text += f" nchw{layout.block}c"
    if layout.halo != (0, 0, 0, 0):
        text += f" halo {','.join(map(str, layout.halo))}"
    return text


# -- element types and NumPy ---------------------------------------------------------------------


def _integer(width: int, signed: bool) -> IntegerType:
    return IntegerType(width, Signedness.SIGNLESS if signed else Signedness.UNSIGNED)


ELEMENT_TYPES: dict[str, Attribute] = {
    "float16": Float16Type(),
    "bfloat16": BFloat16Type(),
    "float32": Float32Type(),
    "float64": Float64Type(),
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e4m3fnuz": Float8E4M3FNUZType(),
    "float8_e5m2": Float8E5M2Type(),
    "float8_e5m2fnuz": Float8E5M2FNUZType(),
    "float8_e8m0fnu": Float8E8M0FNUType(),
    "float4_e2m1fn": Float4E2M1FNType(),
    "bool": IntegerType(1),
    "int2": _integer(2, True),
    "int4": _integer(4, True),
    "int8": _integer(8, True),
    "int16": _integer(16, True),
    "int32": _integer(32, True),
    "int64": _integer(64, True),
    "uint2": _integer(2, False),
    "uint4": _integer(4, False),
    "uint8": _integer(8, False),
    "uint16": _integer(16, False),
    "uint32": _integer(32, False),
    "uint64": _integer(64, False),
}
"""Element types by NumPy's names. Those that NumPy itself lacks are of the package ml_dtypes; its
arrays hold one element per byte where an element is smaller than that, and so do buffers."""
_NUMPY_NAMES: dict[Attribute, str] = {v: k for k, v in ELEMENT_TYPES.items()}


def element_type_from_numpy(dtype: np.dtype) -> Attribute:
    """TypeError for types that have no place in the IR (strings, objects, complex)."""
    try:
        return ELEMENT_TYPES[np.dtype(dtype).name]
    except KeyError:
        raise TypeError(f"no element type for NumPy's {dtype}") from None


def numpy_dtype(element_type: Attribute) -> np.dtype:
    """The NumPy type that stores the element type; of ml_dtypes where NumPy has none."""
    if isinstance(element_type, QuantizedType):
        return numpy_dtype(element_type.storage)
    name = _NUMPY_NAMES[element_type]
    if element_type in _STORED_ONLY and name != "float16":
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


# -- types for storage, types for arithmetic -------------------------------------------------------

_STORED_ONLY: dict[Attribute, Attribute] = {
    **{
        kind: Float32Type()
        for name, kind in ELEMENT_TYPES.items()
        if isinstance(kind, AnyFloat) and name not in ("float32", "float64")
    },
    **{ELEMENT_TYPES[f"int{bits}"]: _integer(8, True) for bits in (2, 4)},
    **{ELEMENT_TYPES[f"uint{bits}"]: _integer(8, False) for bits in (2, 4)},
}


def arithmetic_type(element_type: Attribute) -> Attribute:
    """The type in which elements are computed: f32 for narrower floats, i8 for narrower integers.

    Results are rounded (to nearest, ties to even) when they are stored: once per operation.
    """
    return _STORED_ONLY.get(element_type, element_type)


def widened(array: np.ndarray) -> np.ndarray:
    """The array in its arithmetic type; itself where it can be computed with as it is."""
    target = numpy_dtype(arithmetic_type(element_type_from_numpy(array.dtype)))
    return array.astype(target, copy=False)


def is_float_dtype(dtype: np.dtype) -> bool:
    """Also for the floats that NumPy's own type tree does not hold (bfloat16, float8)."""
    return isinstance(element_type_from_numpy(dtype), AnyFloat)


def size_bytes(value: SSAValue | Attribute) -> int:
    """Bytes of the dense logical tensor; 0 where a dimension is symbolic."""
    return _size_bytes(value.type if isinstance(value, SSAValue) else value)


@lru_cache(maxsize=4096)
def _size_bytes(kind: Attribute) -> int:
    if not is_static(kind):
        return 0
    return math.prod(static_shape(kind)) * numpy_dtype(element_type_of(kind)).itemsize
