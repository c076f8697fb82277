"""The `loop` dialect: what loop nests need and the standard dialects lack.

    %m = loop.compare olt, %a, %zero : vector<16xf32>                in every lane a < 0
    %i = loop.compare_integers sgt, %n, %zero : vector<16xi32>       in every lane n > 0
    %r = loop.select %m, %b, %a : vector<16xi1>, vector<16xf32>      in every lane b or a
    %q = loop.remf %a, %b : f32                                      a - trunc(a / b) * b, exactly
    %p = loop.normal_cdf %a : f32                        erfc(-a / sqrt(2)) / 2
    %h = loop.high_product %a, %b : i32                  (a * b + 2^30) >> 31
    %u = loop.upper_product %a, %b : i32                 (a * b) >> 32
    %s = loop.dot %sums, %x, %w : vector<16xi32>, ...
                                                     s[i] = sums[i] + x[0..3] * w[4 i .. 4 i + 3]

xDSL's `arith.cmpf`, `arith.cmpi` and `arith.select` only know one condition, and its conversions of
integers (`arith.extui`) one number; MLIR's take vectors of them, too (`loop.extui`).
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class CompareLanesOp(arith.CmpfOp):
    """`arith.cmpf` lane by lane; the result is a vector of i1."""

    name = "loop.compare"
    predicate = prop_def(IntegerAttr)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)

    def __init__(
        self,
        operand1: SSAValue | Operation,
        operand2: SSAValue | Operation,
        arg: int | str,
        fastmath: arith.FastMathFlagsAttr = arith.FastMathFlagsAttr("none"),  # noqa: B008 (frozen)
    ):
        left, right = SSAValue.get(operand1), SSAValue.get(operand2)
        assert isinstance(left.type, VectorType)
        predicate = arith.CMPF_COMPARISON_OPERATIONS.index(arg) if isinstance(arg, str) else arg
        super(arith.CmpfOp, self).__init__(
            operands=[left, right],
            result_types=[VectorType(i1, left.type.get_shape())],
            properties={"predicate": IntegerAttr(predicate, 64), "fastmath": fastmath},
        )

    def verify_(self) -> None:
        """The inherited one would insist on a single i1."""


@irdl_op_definition
class CompareIntegerLanesOp(arith.CmpiOp):
    """`arith.cmpi` lane by lane; the result is a vector of i1."""

    name = "loop.compare_integers"
    predicate = prop_def(IntegerAttr)
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)

    def __init__(
        self, operand1: SSAValue | Operation, operand2: SSAValue | Operation, arg: int | str
    ):
        left, right = SSAValue.get(operand1), SSAValue.get(operand2)
        assert isinstance(left.type, VectorType)
        predicate = arith.CMPI_COMPARISON_OPERATIONS.index(arg) if isinstance(arg, str) else arg
        super(arith.CmpiOp, self).__init__(
            operands=[left, right],
            result_types=[VectorType(i1, left.type.get_shape())],
            properties={"predicate": IntegerAttr(predicate, 64)},
        )

    def verify_(self) -> None:
        """The inherited one would insist on a single i1."""


@irdl_op_definition
class SelectLanesOp(arith.SelectOp):
    """`arith.select` lane by lane: `lhs` where the condition holds, else `rhs`."""

    name = "loop.select"
    cond = operand_def(VectorType)
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # the inherited one can't tell the type of the condition

    def verify_(self) -> None:
        """The inherited one would insist on a single condition."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list((self.cond.type, self.result.type), printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> SelectLanesOp:
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        mask, lanes = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        condition, left, right = parser.resolve_operands(
            unresolved, (mask, lanes, lanes), parser.pos
        )
        select = cls(condition, left, right)
        select.attributes = attributes
        return select


@irdl_op_definition
class ExtendSignedOp(arith.ExtSIOp):
    """`arith.extsi` lane by lane."""

    name = "loop.extsi"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class ExtendUnsignedOp(arith.ExtUIOp):
    """`arith.extui` lane by lane."""

    name = "loop.extui"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class TruncateLanesOp(arith.TruncIOp):
    """`arith.trunci` lane by lane."""

    name = "loop.trunci"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class SignedToFloatLanesOp(arith.SIToFPOp):
    """`arith.sitofp` lane by lane."""

    name = "loop.sitofp"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class UnsignedToFloatLanesOp(arith.UIToFPOp):
    """`arith.uitofp` lane by lane."""

    name = "loop.uitofp"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class FloatToSignedLanesOp(arith.FPToSIOp):
    """`arith.fptosi` lane by lane."""

    name = "loop.fptosi"
    input = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = None  # inherited as methods

    def verify_(self) -> None:
        """The inherited one would ask scalars for their width."""


@irdl_op_definition
class FloatRemainderOp(IRDLOperation):
    """C's fmod, with the sign of the dividend: MLIR has it as `arith.remf`."""

    name = "loop.remf"

    T: ClassVar = VarConstraint("T", AnyFloatConstr)

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"

    traits = traits_def(Pure())


@irdl_op_definition
class NormalCdfOp(IRDLOperation):
    """The cumulative distribution function of the normal distribution: erfc(-x / sqrt(2)) / 2.

    Its lower tail keeps all digits, which (1 + erf(x / sqrt(2))) / 2 loses.
    """

    name = "loop.normal_cdf"

    T: ClassVar = VarConstraint("T", AnyFloatConstr | BaseAttr(VectorType))

    operand = operand_def(T)
    result = result_def(T)

    assembly_format = "$operand attr-dict `:` type($result)"

    traits = traits_def(Pure())


@irdl_op_definition
class HighProductOp(IRDLOperation):
    """(a b + 2^30) >> 31 of signed integers of 32 bits: the upper half of their doubled product,
    rounded half up. Both being the lowest number, it wraps.

    Source: gemmlowp, `SaturatingRoundingDoublingHighMul`; processors have it as `sqrdmulh`.
    """

    name = "loop.high_product"

    T: ClassVar = VarConstraint("T", BaseAttr(IntegerType) | BaseAttr(VectorType))

    left = operand_def(T)
    right = operand_def(T)
    result = result_def(T)

    assembly_format = "$left `,` $right attr-dict `:` type($result)"

    traits = traits_def(Pure())


@irdl_op_definition
class UpperProductOp(IRDLOperation):
    """(a b) >> 32 of signed integers of 32 bits: the upper half of their product in 64 bits.

    MLIR has it as the second result of `arith.mulsi_extended`, OpenCL as `mul_hi`.
    """

    name = "loop.upper_product"

    T: ClassVar = VarConstraint("T", BaseAttr(IntegerType) | BaseAttr(VectorType))

    left = operand_def(T)
    right = operand_def(T)
    result = result_def(T)

    assembly_format = "$left `,` $right attr-dict `:` type($result)"

    traits = traits_def(Pure())


@irdl_op_definition
class DotOp(IRDLOperation):
    """In every lane four products of bytes are added: what dot-product instructions do.

    sums: vector<n x i32>; bytes: vector<4 x ui8>, or of i8, to which 128 is added; filters:
    vector<4n x i8>, four neighbours for each lane. Sums wrap around at 32 bits. fits_pairs: the
    products of two neighbours (0 and 1, 2 and 3) add up to 16 bits, whatever the bytes are.
    splits_signs: the size of a filter w is multiplied with (byte - 128) ^ (w < 0 ? -1 : 0).
    """

    name = "loop.dot"

    sums = operand_def(VectorType)
    bytes = operand_def(VectorType)
    filters = operand_def(VectorType)
    fits_pairs = opt_prop_def(UnitAttr)
    splits_signs = opt_prop_def(UnitAttr)
    result = result_def(VectorType)

    assembly_format = (
        "$sums `,` $bytes `,` $filters (`fits_pairs` $fits_pairs^)? "
        "(`splits_signs` $splits_signs^)? attr-dict "
        "`:` type($sums) `,` type($bytes) `,` type($filters) `->` type($result)"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        sums, few, filters = (operand.type for operand in self.operands)
        assert isinstance(sums, VectorType) and isinstance(filters, VectorType)
        assert isinstance(few, VectorType)
        lanes = sums.get_shape()[0]
        if self.result.type != sums or sums.element_type != i32:
            raise VerifyException("loop.dot adds to sums of i32")
        byte = few.element_type
        is_bytes = isinstance(byte, IntegerType) and byte.width.data == BYTE
        if not is_bytes or few.get_shape() != (4,) or filters != VectorType(i8, [4 * lanes]):
            raise VerifyException(
                f"loop.dot multiplies 4 bytes with {4 * lanes} of i8, not {few} with {filters}"
            )


BYTE = 8
LOW, HIGH = HALVES = "low", "high"


@irdl_op_definition
class DotUnsignedOp(IRDLOperation):
    """In every lane four products of signed bytes with numbers without a sign are added.

    sums: vector<n x i32>, which wrap around at 32 bits; bytes: vector<4 x i8>; filters: vector<4n x
    ui8>, four neighbours for each lane. half: the numbers are the lower or upper four bits of the
    filters; without it all eight.
    """

    name = "loop.dot_unsigned"

    sums = operand_def(VectorType)
    bytes = operand_def(VectorType)
    filters = operand_def(VectorType)
    half = opt_prop_def(StringAttr)
    result = result_def(VectorType)

    assembly_format = (
        "$sums `,` $bytes `,` $filters (`half` $half^)? attr-dict "
        "`:` type($sums) `,` type($bytes) `,` type($filters) `->` type($result)"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        sums, few, filters = (operand.type for operand in self.operands)
        assert isinstance(sums, VectorType)
        lanes = sums.get_shape()[0]
        if self.result.type != sums or sums.element_type != i32:
            raise VerifyException("loop.dot_unsigned adds to sums of i32")
        unsigned = IntegerType(BYTE, Signedness.UNSIGNED)
        if (few, filters) != (VectorType(i8, [4]), VectorType(unsigned, [4 * lanes])):
            raise VerifyException(
                f"loop.dot_unsigned multiplies 4 of i8 with {4 * lanes} of ui8, not {few} with "
                f"{filters}"
            )
        if self.half is not None and self.half.data not in HALVES:
            raise VerifyException(f"{self.half} is no half of a byte")


@irdl_op_definition
class DotPairsOp(IRDLOperation):
    """In every lane two products of bfloat16 are added to a sum of f32.

    sums: vector<n x f32>; pair: vector<2 x bf16>; filters: vector<2n x bf16>, two neighbours for
    each lane. A product of two has no more digits than f32; sums are rounded to f32, twice for
    each pair: to nearest or to odd, in an order that is the instruction's, and numbers smaller
    than any normal one may count as zero.
    """

    name = "loop.dot_pairs"

    sums = operand_def(VectorType)
    pair = operand_def(VectorType)
    filters = operand_def(VectorType)
    result = result_def(VectorType)

    assembly_format = (
        "$sums `,` $pair `,` $filters attr-dict "
        "`:` type($sums) `,` type($pair) `,` type($filters) `->` type($result)"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        sums, pair, filters = (operand.type for operand in self.operands)
        assert isinstance(sums, VectorType)
        lanes = sums.get_shape()[0]
        if self.result.type != sums or sums.element_type != f32:
            raise VerifyException("loop.dot_pairs adds to sums of f32")
        wanted = VectorType(bf16, [2]), VectorType(bf16, [2 * lanes])
        if (pair, filters) != wanted:
            raise VerifyException(
                f"loop.dot_pairs multiplies 2 of bf16 with {2 * lanes}, not {pair} with {filters}"
            )


@irdl_op_definition
class DualProductsOp(IRDLOperation):
    """sum + (x0 - zero) * w0 + ... + (x3 - zero) * w3, where all but the sum fits into 16 bits.

    sum: i32, which wraps around; zero: i32, a constant from -255 to 255; filters (w): vector<4 x
    i8>; bytes (x): four of i8 or of ui8, or a vector of them where they are neighbours.
    """

    name = "loop.dual_products"

    sum = operand_def(i32)
    zero = operand_def(i32)
    filters = operand_def(VectorType)
    bytes = var_operand_def(BaseAttr(IntegerType) | BaseAttr(VectorType))
    result = result_def(i32)

    assembly_format = (
        "$sum `,` $zero `,` $filters `,` $bytes attr-dict `:` type($filters) `,` type($bytes)"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        is_word = len(self.bytes) == 1 and isinstance(self.bytes[0].type, VectorType)
        if not is_word and len(self.bytes) != 4:
            raise VerifyException("loop.dual_products multiplies a word of bytes, or four bytes")
        if self.filters.type != VectorType(i8, [4]):
            raise VerifyException("loop.dual_products has four filters of i8")


class _InterleaveOp(IRDLOperation):
    T: ClassVar = VarConstraint("T", BaseAttr(VectorType))

    left = operand_def(T)
    right = operand_def(T)
    result = result_def(T)

    assembly_format = "$left `,` $right attr-dict `:` type($result)"

    traits = traits_def(Pure())


@irdl_op_definition
class InterleaveLowOp(_InterleaveOp):
    """The lower halves of two vectors in turn: a0, b0, a1, b1, ..."""

    name = "loop.interleave_low"


@irdl_op_definition
class InterleaveHighOp(_InterleaveOp):
    """The upper halves of two vectors in turn: with 4 lanes a2, b2, a3, b3."""

    name = "loop.interleave_high"


Loop = Dialect(
    "loop",
    [
        CompareLanesOp,
        CompareIntegerLanesOp,
        SelectLanesOp,
        ExtendSignedOp,
        ExtendUnsignedOp,
        TruncateLanesOp,
        SignedToFloatLanesOp,
        UnsignedToFloatLanesOp,
        FloatToSignedLanesOp,
        FloatRemainderOp,
        NormalCdfOp,
        HighProductOp,
        UpperProductOp,
        DotOp,
        DotPairsOp,
        DotUnsignedOp,
        DualProductsOp,
        InterleaveLowOp,
        InterleaveHighOp,
    ],
    [],
)
