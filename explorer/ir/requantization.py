"""Requantization: how a wide integer becomes a narrow one of another scale.

    accumulator 1000, scales 0.02 -> 0.05, zero point 3:   round(1000 * 0.4) + 3 = 403 -> 255 (u8)

Four schemes find round(accumulator * ratio), ratio = (scale of the accumulator) / (new scale):

    float             single precision: round(f32(accumulator) * f32(ratio)), as onnxruntime has it
    multiplier_shift  integers: (accumulator * m) >> s with ratio ~ m / 2^s and one rounding; m has
                      `multiplier_bits` bits with its sign, its upper half being set; one of 16
                      bits is the upper half of one of 32, rounded and kept below 2^15
    doubling_high_multiply
                      integers: ratio ~ m / 2^s, m of 32 bits, and two roundings: the upper half of
                      2 * accumulator * m is rounded half up, and shifted by s - 31 half away from
                      zero (s < 31: the accumulator is shifted to the left first, modulo 2^32)
    shift             integers: accumulator >> s with ratio ~ 1 / 2^s

The integer schemes know ratios in double precision, as TensorFlow Lite does. `requantize` is the
one reference; generated code and the meanings of operations agree with it to the last bit.
References: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", 2018, section 2.2; TensorFlow Lite,
`MultiplyByQuantizedMultiplier` with TFLITE_SINGLE_ROUNDING (multiplier_shift, 32 bits, nearest_up),
of sums of 64 bits (multiplier_shift, 16 bits, nearest_up)
and without either (doubling_high_multiply: gemmlowp's `SaturatingRoundingDoublingHighMul` and
`RoundingDivideByPOT`, which CMSIS-NN and Ethos-U compute, too); onnxruntime,
`MlasRequantizeOutput`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from xdsl.dialects.builtin import IntAttr, IntegerType, Signedness, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from explorer.ir.types import QuantizedType

Scheme = Literal["float", "multiplier_shift", "doubling_high_multiply", "shift"]
Rounding = Literal["nearest_even", "nearest_up", "nearest_away_from_zero", "down", "to_zero"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
FEWEST_MULTIPLIER_BITS, MAX_MULTIPLIER_BITS = 2, 32
"""Of a multiplier with its sign: its product with an accumulator of 32 bits must fit into 64."""
LARGEST_SHIFT = 62
"""A larger one leaves no bit of a product; the ratio counts as 0 then."""
DOUBLED_BITS = 31
"""By which the upper half of twice a product of 32 bits is shifted."""
SINGLES = "singles"
"""In the text of an attribute: the scale of the sums is rounded to single precision."""
HALF_BITS = 15
"""Of a multiplier of 16 bits without its sign."""


@dataclass(frozen=True)
class Requantization:
    """How an accumulator becomes a narrow integer again."""

    scheme: Scheme
    rounding: Rounding
    """Of all schemes but doubling_high_multiply, whose two roundings are its own."""
    multiplier_bits: int = 32
    """Of the scheme multiplier_shift, sign included."""

    def __str__(self) -> str:
        if self.scheme == "doubling_high_multiply":
            return "doubling high multiply"
        bits = f" of {self.multiplier_bits} bits" if self.scheme == "multiplier_shift" else ""
        return f"{self.scheme}{bits}, {self.rounding}".replace("_", " ")


AS_ONNXRUNTIME = Requantization("float", "nearest_even")
BY_SHIFT = Requantization("multiplier_shift", "nearest_up")
"""floor(accumulator * m / 2^s + 1/2): what files mean that say a whole factor and a shift."""


@dataclass(frozen=True)
class FixedPoint:
    """Ratios as multiplier / 2^shift: two arrays of i64, 0 <= shift <= LARGEST_SHIFT."""

    multipliers: np.ndarray
    shifts: np.ndarray


def fixed_point(ratios: np.ndarray, how: Requantization) -> FixedPoint:
    """The ratios (positive, finite) as the integer schemes know them.

    ValueError for a ratio that needs a multiplier of more than 32 bits.
    """
    ratios = np.asarray(ratios, np.float64)
    if how.scheme == "doubling_high_multiply":
        return _doubling_factors(ratios)
    if how.scheme == "shift":
        shifts = -np.rint(np.log2(ratios)).astype(np.int64)
        multipliers = np.ones_like(shifts)
    else:
        multipliers, shifts = _normalized(ratios, how.multiplier_bits - 1)
    excess = np.maximum(-shifts, 0)  # a shift to the left is part of the multiplier
    if np.any(multipliers >= 1 << (31 - np.minimum(excess, 31))):
        raise ValueError(
            f"requantization by {ratios.max():g} needs a multiplier of more than 32 bits"
        )
    multipliers, shifts = multipliers << excess, np.maximum(shifts, 0)
    vanishes = shifts > LARGEST_SHIFT
    return FixedPoint(np.where(vanishes, 0, multipliers), np.where(vanishes, 0, shifts))


def _normalized(ratios: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers in [2^(bits - 1), 2^bits) and shifts: for 31 bits TensorFlow Lite's
    `QuantizeMultiplier`, for 15 what it makes of these."""
    if bits == HALF_BITS:
        multipliers, shifts = _normalized(ratios, DOUBLED_BITS)
        dropped = DOUBLED_BITS - bits
        upper = (multipliers + (1 << (dropped - 1))) >> dropped
        return np.minimum(upper, (1 << bits) - 1), shifts - dropped
    fractions, exponents = np.frexp(ratios)  # fraction in [1/2, 1)
    multipliers = np.floor(np.ldexp(fractions, bits) + 0.5).astype(np.int64)
    shifts = bits - exponents.astype(np.int64)
    is_power = multipliers == 1 << bits
    multipliers = np.where(is_power, multipliers >> 1, multipliers)
    return multipliers, np.where(is_power, shifts - 1, shifts)


def _doubling_factors(ratios: np.ndarray) -> FixedPoint:
    """The factors with shifts in [1, 62]."""
    multipliers, shifts = _normalized(ratios, DOUBLED_BITS)
    if np.any(shifts < 1):
        raise ValueError(
            f"requantization by {ratios.max():g} shifts accumulators by more than 30 bits"
        )
    vanishes = shifts > LARGEST_SHIFT
    return FixedPoint(np.where(vanishes, 0, multipliers), np.where(vanishes, DOUBLED_BITS, shifts))


def is_short(ratios: np.ndarray) -> bool:
    """Whether all are a whole number of at most 15 bits over a power of two: then multipliers hold
    them exactly, and devices compute them exactly by more schemes than one."""
    fractions = np.ldexp(np.frexp(np.asarray(ratios, np.float64))[0], HALF_BITS)
    return bool(np.all(fractions == np.floor(fractions)))


def ratio_of(source: QuantizedType, by: RequantizationAttr) -> np.ndarray:
    """source scale / target scale: one number, or one per slice of the source.

    In single precision for the scheme float, else in double, of source scales that are rounded to
    singles before where the attribute says so. The target has one scale.
    """
    if by.how.scheme == "float":
        return source.scale_array / by.to.scale_array[0]
    scales = source.scale_array.astype(np.float64) if by.of_singles else source.double_scales
    return scales / by.to.double_scales[0]


def requantize(
    accumulator: np.ndarray,
    ratio: np.ndarray,
    zero_point: np.ndarray | int,
    limits: tuple[int, int],
    how: Requantization,
) -> np.ndarray:
    """round(accumulator * ratio) + zero point, kept within limits, as i64.

    `accumulator`: integers of at most 32 bits; `ratio` and `zero_point` broadcast to it.
    """
    low, high = limits
    if how.scheme == "float":
        ratio = np.asarray(ratio, np.float32)
        scaled = rounded_float(accumulator.astype(np.float32) * ratio, how.rounding)
        # Limits of at most 16 bits and zero points inside them are whole in single precision.
        return np.clip(scaled, low - zero_point, high - zero_point).astype(np.int64) + zero_point
    scaled = multiplied(accumulator, fixed_point(ratio, how), how)
    return np.clip(scaled + zero_point, low, high)


def multiplied(x: np.ndarray, factors: FixedPoint, how: Requantization) -> np.ndarray:
    """x * ratio by a scheme of integers, as i64; x has at most 32 bits."""
    if how.scheme != "doubling_high_multiply":
        product = x.astype(np.int64) * factors.multipliers
        return rounding_shift(product, factors.shifts, how.rounding)
    # The factors are positive, so that the product never saturates.
    lifts = np.maximum(DOUBLED_BITS - factors.shifts, 0)
    lifted = (x.astype(np.int64) << lifts).astype(np.int32).astype(np.int64)
    high = (lifted * factors.multipliers + (1 << (DOUBLED_BITS - 1))) >> DOUBLED_BITS
    rest = np.maximum(factors.shifts - DOUBLED_BITS, 0)
    return rounding_shift(high, rest, "nearest_away_from_zero")


def rounded_float(x: np.ndarray, rounding: Rounding) -> np.ndarray:
    """Floats as whole numbers, without an intermediate rounding (x - floor(x) is exact)."""
    if rounding == "nearest_even":
        return np.rint(x)
    if rounding == "down":
        return np.floor(x)
    if rounding == "to_zero":
        return np.trunc(x)
    magnitude = np.abs(x) if rounding == "nearest_away_from_zero" else x
    below = np.floor(magnitude)
    whole = below + (magnitude - below >= 0.5).astype(x.dtype)
    return np.copysign(whole, x) if rounding == "nearest_away_from_zero" else whole


def rounding_shift(x: np.ndarray, shift: np.ndarray, rounding: Rounding) -> np.ndarray:
    """x / 2^shift as whole numbers (i64), rounded once; |x| < 2^63 - 2^(shift - 1)."""
    x, shift = np.broadcast_arrays(x.astype(np.int64), shift.astype(np.int64))
    floor = x >> shift
    rest = x - (floor << shift)  # 0 <= rest < 2^shift
    if rounding == "down":
        return floor
    if rounding == "to_zero":
        return floor + ((x < 0) & (rest > 0))
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 1)
    is_above, is_tie = rest > half, rest == half
    goes_up = {
        "nearest_up": is_tie,
        "nearest_even": is_tie & ((floor & 1) == 1),
        "nearest_away_from_zero": is_tie & (x >= 0),
    }[rounding]
    return floor + (is_above | goes_up)


def integer_limits(storage: IntegerType) -> tuple[int, int]:
    """Least and greatest number of an integer type."""
    bits = storage.width.data
    if storage.signedness.data == Signedness.UNSIGNED:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@irdl_attr_definition
class RequantizationAttr(ParametrizedAttribute):
    """What an accumulator becomes, and how.

    #top.requantization<!top.quantized<ui8, 0.05:3>, float, nearest_even>
    #top.requantization<!top.quantized<i8, 0.05:0>, multiplier_shift 32, nearest_up, [0, 127]>

    low, high: what results are kept within, inside the range of the storage type: an activation
    such as relu or clip is nothing else. singles: 1 where the scale of the sums, a product of two
    scales, is rounded to single precision before it is divided (TensorFlow Lite's
    `GetQuantizedConvolutionMultipler`).
    """

    name = "top.requantization"

    to: QuantizedType
    scheme: StringAttr
    rounding: StringAttr
    multiplier_bits: IntAttr
    low: IntAttr
    high: IntAttr
    singles: IntAttr

    @staticmethod
    def get(
        to: QuantizedType,
        how: Requantization = AS_ONNXRUNTIME,
        limits: tuple[int, int] | None = None,
        of_singles: bool = False,
    ) -> RequantizationAttr:
        low, high = integer_limits(to.storage) if limits is None else limits
        has_multiplier = how.scheme == "multiplier_shift"
        is_doubling = how.scheme == "doubling_high_multiply"
        return RequantizationAttr(
            to,
            StringAttr(how.scheme),
            StringAttr("nearest_away_from_zero" if is_doubling else how.rounding),
            IntAttr(how.multiplier_bits if has_multiplier else Requantization.multiplier_bits),
            IntAttr(low),
            IntAttr(high),
            IntAttr(int(of_singles)),
        )

    def __str__(self) -> str:
        """What a person reads: `i8 x 0.05 (zero 3), rounded by doubling high multiply`."""
        limits = ""
        if self.limits != integer_limits(self.to.storage):
            limits = f", within {self.low.data} and {self.high.data}"
        return f"{self.to}, rounded by {self.how}{limits}"

    @property
    def how(self) -> Requantization:
        scheme: Scheme = self.scheme.data  # pyright: ignore[reportAssignmentType]
        rounding: Rounding = self.rounding.data  # pyright: ignore[reportAssignmentType]
        return Requantization(scheme, rounding, self.multiplier_bits.data)

    @property
    def of_singles(self) -> bool:
        """Whether the scale of the sums is rounded to single precision before it is divided."""
        return bool(self.singles.data)

    @property
    def limits(self) -> tuple[int, int]:
        return self.low.data, self.high.data

    def with_(
        self, how: Requantization | None = None, limits: tuple[int, int] | None = None
    ) -> RequantizationAttr:
        """Another scheme, or limits cut to those given."""
        low, high = self.limits
        if limits is not None:
            low, high = max(low, min(limits[0], high)), min(high, max(limits[1], low))
        return RequantizationAttr.get(self.to, how or self.how, (low, high), self.of_singles)

    def check(self) -> None:
        """ValueError for what no kernel can do."""
        how, (least, most) = self.how, integer_limits(self.to.storage)
        if how.scheme not in SCHEMES:
            raise ValueError(f"unknown scheme {how.scheme!r}; known: {', '.join(SCHEMES)}")
        if how.rounding not in ROUNDINGS:
            raise ValueError(f"unknown rounding {how.rounding!r}; known: {', '.join(ROUNDINGS)}")
        if not FEWEST_MULTIPLIER_BITS <= how.multiplier_bits <= MAX_MULTIPLIER_BITS:
            raise ValueError(f"a multiplier has 2 to 32 bits, not {how.multiplier_bits}")
        most_bits = 16 if how.scheme == "float" else 32  # a single holds no more than 24
        if self.to.storage.width.data > most_bits:
            raise ValueError(
                f"requantized numbers have at most {most_bits} bits, not {self.to.storage}"
            )
        if not self.to.is_per_tensor:
            raise ValueError("what is requantized has one scale for the whole tensor")
        if not least <= self.low.data <= self.high.data <= most:
            raise ValueError(f"limits {self.limits} lie outside of {self.to.storage}")

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.to)
            bits = f" {self.multiplier_bits.data}" if self.scheme.data == "multiplier_shift" else ""
            printer.print_string(f", {self.scheme.data}{bits}, {self.rounding.data}")
            if self.limits != integer_limits(self.to.storage):
                printer.print_string(f", [{self.low.data}, {self.high.data}]")
            if self.of_singles:
                printer.print_string(f", {SINGLES}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            to = parser.parse_type()
            if not isinstance(to, QuantizedType):
                parser.raise_error("a quantized type expected")
            parser.parse_punctuation(",")
            scheme = parser.parse_identifier()
            bits = parser.parse_optional_integer() or Requantization.multiplier_bits
            parser.parse_punctuation(",")
            rounding = parser.parse_identifier()
            low, high = integer_limits(to.storage)
            singles = False
            while parser.parse_optional_punctuation(",") is not None:
                singles = parser.parse_optional_keyword(SINGLES) is not None
                if not singles:
                    low, high = parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE, parser.parse_integer
                    )
        return [
            to,
            StringAttr(scheme),
            StringAttr(rounding),
            IntAttr(bits),
            IntAttr(low),
            IntAttr(high),
            IntAttr(int(singles)),
        ]


def in_words(attribute: Attribute | None) -> str:
    """` -> ui8 (float, nearest even)`, for a label; nothing without an attribute."""
    if not isinstance(attribute, RequantizationAttr):
        return ""
    return f" -> {attribute.to.storage} ({attribute.how})"


__all__ = [
    "AS_ONNXRUNTIME",
    "BY_SHIFT",
    "DOUBLED_BITS",
    "LARGEST_SHIFT",
    "ROUNDINGS",
    "SCHEMES",
    "FixedPoint",
    "Requantization",
    "RequantizationAttr",
    "Rounding",
    "Scheme",
    "fixed_point",
    "in_words",
    "integer_limits",
    "is_short",
    "multiplied",
    "ratio_of",
    "requantize",
    "rounded_float",
    "rounding_shift",
]
