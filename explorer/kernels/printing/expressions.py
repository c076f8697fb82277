"""One operation of `arith`, `math` or `vector` -> one expression of C.

    arith.addf %a, %b          a + b                    scalars and vectors alike
    arith.maximumf %x, %zero   maximum_float(0.0f, x)   NaN wins; constants stand first
    math.exp %v                expf(v), exp_float16(v)
    arith.select %c, %a, %b    c ? a : b, select_float16(c, a, b)

i1 is 0 or 1 in every operation. A vector of i1 is a mask: integers as wide as what was compared,
all bits set or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.loop_dialect import DotOp, DotPairsOp, DotUnsignedOp, DualProductsOp
from explorer.kernels.loops.scalar_types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    SIGNED,
    UNSIGNED,
    VECTOR_FORMS,
    ScalarType,
    lane_count,
    scalar_type,
)
from explorer.kernels.printing.language import Language, Requirement, vector_requirement
from explorer.kernels.printing.operators import (
    ADDITIVE,
    BINARY,
    BITWISE,
    BOOLEAN_BINARY,
    CONDITIONAL,
    CONVERSIONS,
    EQUALITY,
    EXTREMA,
    FIRST_UNSIGNED_COMPARISON,
    FLOAT_COMPARISONS,
    INTEGER_COMPARISONS,
    MATH_FUNCTIONS,
    MOVES,
    MULTIPLICATIVE,
    PRELUDE_FUNCTIONS,
    PRIMARY,
    REDUCTIONS,
    RELATIONAL,
    SHIFT,
    UNARY,
    UNSIGNED_OPERATIONS,
)


@dataclass(frozen=True)
class Expression:
    """Text of C with what is needed to put it somewhere else."""

    text: str
    precedence: int = PRIMARY
    reads: frozenset[SSAValue] = frozenset()
    """Buffers that evaluating it reads: it may not move behind a store to them."""
    tags: tuple[str, ...] = ()
    """Statements that it comes from."""
    mask_bits: int = 0
    """Width of a mask's integers; 0 if it is no vector of i1."""
    scalar: Expression | None = None
    """What a broadcast repeats: arithmetic with a vector takes the scalar as it is."""
    is_constant: bool = False
    parts: tuple[str, str, str] | None = None
    """(left, operator, right) of an expression that `left operator= right` can stand for."""

    def within(self, precedence: int) -> str:
        """The text, in parentheses unless it binds at least as tightly as `precedence`."""
        return self.text if self.precedence <= precedence else f"({self.text})"


NARROW = (SIGNED[8], SIGNED[16], UNSIGNED[8], UNSIGNED[16])
BYTES = (SIGNED[8], UNSIGNED[8])
MIN_NARROWED = 4
"""Lanes of which a vector of bytes is made in one go."""


class ExpressionWriter:
    """Writes expressions of one language and collects what they need from the prelude."""

    def __init__(self, language: Language):
        self.language = language
        self.needs: dict[Requirement, None] = {}

    def require(self, *requirements: Requirement) -> None:
        self.needs.update(dict.fromkeys(requirements))

    def write(self, op: Operation, operands: Sequence[Expression]) -> Expression:
        """The expression of an operation with one result; reads and tags are left to the caller.

        Raises UnsupportedError naming an operation that has no form.
        """
        element, lanes = scalar_type(op.results[0].type), lane_count(op.results[0].type)
        self.require(*vector_requirement(element, lanes if element != BOOLEAN else 0))
        kind = type(op)
        if element.form and kind not in (*CONVERSIONS, *MOVES):
            raise UnsupportedError(
                f"{op.name} computes in {element.form}, which is a type for storage",
                hint="convert the operands with arith.extf first",
            )
        if kind in MATH_FUNCTIONS:
            return self._math(MATH_FUNCTIONS[kind], element, lanes, operands)
        if element == BOOLEAN and kind in BOOLEAN_BINARY:
            return self._boolean_binary(BOOLEAN_BINARY[kind], lanes, operands)
        if kind in EXTREMA:
            element = _unsigned(element) if kind in (arith.MaxUIOp, arith.MinUIOp) else element
            return self._extremum(EXTREMA[kind], element, lanes, operands)
        if kind in PRELUDE_FUNCTIONS:
            return self._prelude_call(PRELUDE_FUNCTIONS[kind], element, lanes, operands)
        if kind in BINARY:
            return self._binary(op, element, lanes, operands)
        match op:
            case arith.ConstantOp():
                return self._constant(op, element, lanes)
            case arith.NegfOp():
                return Expression(f"-{_signed_text(operands[0])}", UNARY)
            case math.RsqrtOp():
                return self._rsqrt(element, lanes, operands[0])
            case math.FmaOp() | vector.FMAOp():
                return self._fused_multiply_add(element, lanes, operands)
            case arith.CmpiOp():
                return self._compare_integers(op, operands)
            case arith.CmpfOp():
                return self._compare_floats(op, operands)
            case arith.SelectOp():
                return self._select(op, element, lanes, operands)
            case vector.BroadcastOp():
                return self._broadcast(element, lanes, operands[0])
            case vector.ReductionOp():
                return self._reduction(op, operands)
            case DotOp():
                return self._dot(op, lanes, operands)
            case DotUnsignedOp():
                return self._dot_unsigned(op, lanes, operands)
            case DotPairsOp():
                return self._dot_pairs(lanes, operands)
            case DualProductsOp():
                return self._dual_products(op, operands)
            case _ if isinstance(op, CONVERSIONS):
                return self._conversion(op, element, lanes, operands[0])
        raise UnsupportedError(
            f"{op.name} has no form in generated {self.language.name}",
            node=", ".join(operands[0].tags) if operands else "",
            hint="express the kernel with arith, math and vector operations that are printed",
        )

    # -- arithmetic ----------------------------------------------------------------------------
    def _binary(
        self, op: Operation, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        symbol, precedence = BINARY[type(op)]
        if isinstance(op, UNSIGNED_OPERATIONS) and element.kind == "signed":
            unsigned = _unsigned(element)
            left, right = (self._reinterpreted(unsigned, lanes, e) for e in operands)
            text = f"{left} {symbol} {right}"
            return Expression(self._reinterpret(element, lanes, text), UNARY)
        left, right = self._mixed(element, lanes, operands)
        if precedence == SHIFT:  # by a vector OpenCL shifts vectors only
            left = operands[0]
        tight = precedence if precedence <= ADDITIVE else UNARY
        left_text, right_text = left.within(tight), right.within(min(tight, precedence - 1))
        text = f"{left_text} {symbol} {right_text}"
        if not lanes and element.kind in ("signed", "unsigned") and element.bits < 32:
            # C computes in int: bring the result back to the width of the type.
            return Expression(f"({self.language.scalar_name(element)})({text})", UNARY)
        return Expression(text, precedence, parts=(left_text, symbol, right_text))

    def _mixed(
        self, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> tuple[Expression, Expression]:
        """At most one operand of vector arithmetic may be a scalar, which C repeats by itself."""
        left, right = operands
        if element.bits < 32:  # C would promote the scalar to int and refuse to narrow it
            return left, right
        if lanes and right.scalar is not None and left.scalar is None:
            return left, right.scalar
        if lanes and left.scalar is not None and right.scalar is None:
            return left.scalar, right
        return left, right

    def _boolean_binary(
        self, symbol: str, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        left, right = operands
        if lanes:
            bits = max(left.mask_bits, right.mask_bits)
            left, right = (self.mask(e, bits, lanes) for e in operands)
            text = f"{left.within(UNARY)} {symbol} {right.within(UNARY)}"
            return Expression(text, BITWISE, mask_bits=bits)
        if symbol == "^" and right.is_constant and right.text == "true":
            return Expression(f"!{left.within(UNARY)}", UNARY)
        return Expression(f"{left.within(UNARY)} {symbol} {right.within(UNARY)}", BITWISE)

    def _extremum(
        self, function: str, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        left, right = operands
        if right.is_constant and not left.is_constant:
            left, right = right, left  # the test for a NaN in a constant costs nothing
        return self._prelude_call(function, element, lanes, (left, right))

    def _prelude_call(
        self, function: str, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        name = self.language.suffix_name(element, lanes)
        self.require(Requirement(function, name if not lanes else element.name, lanes))
        return Expression(f"{function}_{name}({', '.join(e.text for e in operands)})")

    def _math(
        self, function: str, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        return Expression(self._call(function, element, lanes, [e.text for e in operands]))

    def _call(self, function: str, element: ScalarType, lanes: int, texts: Sequence[str]) -> str:
        call = self.language.math_call(function, element, lanes, len(texts))
        self.require(*call.needs)
        return f"{call.name}({', '.join(texts)})"

    def _rsqrt(self, element: ScalarType, lanes: int, operand: Expression) -> Expression:
        root = self._math("sqrt", element, lanes, [operand])
        one = self.language.literal(element, 1.0)
        return Expression(f"{one} / {root.within(UNARY)}", MULTIPLICATIVE)

    def _fused_multiply_add(
        self, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        if not lanes:
            return self._math("fma", element, lanes, operands)
        left, right = self._mixed(element, lanes, operands[:2])
        product = f"{left.within(MULTIPLICATIVE)} * {right.within(UNARY)}"
        return Expression(f"{product} + {operands[2].within(MULTIPLICATIVE)}", ADDITIVE)

    # -- constants, comparisons, selection -----------------------------------------------------
    def _constant(self, op: arith.ConstantOp, element: ScalarType, lanes: int) -> Expression:
        match op.value:
            case FloatAttr() | IntegerAttr():
                value = op.value.value.data
            case DenseIntOrFPElementsAttr() if op.value.is_splat():
                value = op.value.get_values()[0]
                assert not isinstance(value, tuple)  # complex numbers have no form
            case _:
                raise UnsupportedError(
                    f"constant {op.value} has no form in generated code",
                    hint="only scalars and vectors of one repeated value are printed",
                )
        text = self.language.literal(element, value)
        # A sign or cast in front makes it bind like a sum: `a - (-1.0f)`.
        precedence = ADDITIVE if text.startswith("-") else PRIMARY
        scalar = Expression(text, precedence, is_constant=True)
        return self._broadcast(element, lanes, scalar) if lanes else scalar

    def _broadcast(self, element: ScalarType, lanes: int, operand: Expression) -> Expression:
        if operand.scalar is not None:
            operand = operand.scalar
        if element == BOOLEAN:
            text = self.language.splat(SIGNED[8], lanes, f"-{operand.within(UNARY)}")
            self.require(*vector_requirement(SIGNED[8], lanes))
            return Expression(text, mask_bits=8)
        text = self.language.splat(element, lanes, operand.text)
        return Expression(text, scalar=operand, is_constant=operand.is_constant)

    def _compare_integers(self, op: arith.CmpiOp, operands: Sequence[Expression]) -> Expression:
        predicate = op.predicate.value.data
        element, lanes = scalar_type(op.lhs.type), lane_count(op.lhs.type)
        symbol = INTEGER_COMPARISONS[predicate]
        if element == BOOLEAN and lanes:
            raise UnsupportedError(
                "arith.cmpi of masks is not printed", hint="use arith.xori of the masks"
            )
        if predicate >= FIRST_UNSIGNED_COMPARISON and element.kind == "signed":
            left, right = (self._reinterpreted(_unsigned(element), lanes, e) for e in operands)
            return Expression(
                f"{left} {symbol} {right}", RELATIONAL, mask_bits=element.bits if lanes else 0
            )
        return self._comparison(symbol, element, lanes, operands)

    def _comparison(
        self, symbol: str, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        left, right = (e.within(ADDITIVE) for e in operands)
        precedence = EQUALITY if symbol in ("==", "!=") else RELATIONAL
        bits = element.bits if lanes else 0
        self.require(*vector_requirement(SIGNED[bits], lanes) if lanes else ())
        return Expression(f"{left} {symbol} {right}", precedence, mask_bits=bits)

    def _compare_floats(self, op: arith.CmpfOp, operands: Sequence[Expression]) -> Expression:
        predicate = op.predicate.value.data
        element, lanes = scalar_type(op.lhs.type), lane_count(op.lhs.type)
        left, right = operands
        if predicate in FLOAT_COMPARISONS:
            symbol, is_negated = FLOAT_COMPARISONS[predicate]
            compared = self._comparison(symbol, element, lanes, operands)
            if not is_negated:
                return compared
            sign = "~" if lanes else "!"
            return Expression(f"{sign}({compared.text})", UNARY, mask_bits=compared.mask_bits)
        pairs = {
            6: (("<", left, right), ("|", ""), (">", left, right)),  # ordered and unequal
            7: (("==", left, left), ("&", ""), ("==", right, right)),  # both are numbers
            8: (("<", left, right), ("|", "!"), (">", left, right)),  # unordered or equal
            14: (("!=", left, left), ("|", ""), ("!=", right, right)),  # one is a NaN
        }
        if predicate not in pairs:
            raise UnsupportedError(f"arith.cmpf with predicate {predicate} is a constant")
        (one, a, b), (joined, negation), (other, c, d) = pairs[predicate]
        first = self._comparison(one, element, lanes, (a, b))
        second = self._comparison(other, element, lanes, (c, d))
        text = f"({first.text}) {joined} ({second.text})"
        if negation:
            return Expression(f"{'~' if lanes else '!'}({text})", UNARY, mask_bits=first.mask_bits)
        return Expression(text, BITWISE, mask_bits=first.mask_bits)

    def _select(
        self, op: arith.SelectOp, element: ScalarType, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        condition, yes, no = operands
        if not lane_count(op.cond.type):
            below = CONDITIONAL - 1
            text = f"{condition.within(below)} ? {yes.within(below)} : {no.within(below)}"
            return Expression(text, CONDITIONAL, mask_bits=yes.mask_bits)
        if element == BOOLEAN:
            bits = max(e.mask_bits for e in operands)
            condition, yes, no = (self.mask(e, bits, lanes) for e in operands)
            mask = condition.within(UNARY)
            text = f"({mask} & {yes.within(UNARY)}) | (~{mask} & {no.within(UNARY)})"
            return Expression(text, BITWISE, mask_bits=bits)
        mask = self.mask(condition, element.bits, lanes)
        self.require(Requirement("select", element.name, lanes))
        return Expression(self.language.select(element, lanes, mask.text, yes.text, no.text))

    def _reduction(self, op: vector.ReductionOp, operands: Sequence[Expression]) -> Expression:
        element, lanes = scalar_type(op.vector.type), lane_count(op.vector.type)
        kind = op.kind.data.value
        if kind not in REDUCTIONS or element == BOOLEAN:
            raise UnsupportedError(f"vector.reduction <{kind}> of {op.vector.type} is not printed")
        function, combine = REDUCTIONS[kind]
        if kind.endswith("ui"):
            element = _unsigned(element)
        self.require(Requirement(function, element.name, lanes))
        name = self.language.suffix_name(element, lanes)
        reduced = Expression(f"{function}_{name}({operands[0].text})")
        if len(operands) == 1:
            return reduced
        if combine in ("maximum", "minimum"):
            return self._prelude_call(combine, element, 0, (operands[1], reduced))
        precedence = {"+": ADDITIVE, "*": MULTIPLICATIVE}.get(combine, BITWISE)
        left = operands[1].within(precedence if precedence <= ADDITIVE else UNARY)
        return Expression(
            f"{left} {combine} {reduced.text}", precedence, parts=(left, combine, reduced.text)
        )

    def _dot(self, op: DotOp, lanes: int, operands: Sequence[Expression]) -> Expression:
        """`dot_int16(sums, (int32_t)bytes, (int16)filters)`: bytes and filters as 32-bit numbers"""
        if not self.language.has_dots:
            raise UnsupportedError(f"loop.dot is not printed as {self.language.name}")
        sums, few, filters = operands
        is_signed = scalar_type(op.bytes.type).kind == "signed"
        section = "dot" if op.fits_pairs is None else "dot_fitting"
        section = section if op.splits_signs is None else "dot_split"
        section = f"{section}_of_signed" if is_signed else section
        self.require(Requirement(section, SIGNED[32].name, lanes))
        number = f"({self.language.scalar_name(SIGNED[32])}){few.within(UNARY)}"
        packed = self.language.reinterpret(SIGNED[32], lanes, filters.within(UNARY))
        name = f"{section}_{self.language.suffix_name(SIGNED[32], lanes)}"
        return Expression(f"{name}({sums.text}, {number}, {packed})")

    def _dot_unsigned(
        self, op: DotUnsignedOp, lanes: int, operands: Sequence[Expression]
    ) -> Expression:
        """`dot_low_int16(sums, (int32_t)bytes, (int16)filters)`: of the lower halves of filters"""
        if not self.language.has_dots:
            raise UnsupportedError(f"loop.dot_unsigned is not printed as {self.language.name}")
        sums, few, filters = operands
        section = "dot_unsigned" if op.half is None else f"dot_{op.half.data}"
        self.require(Requirement(section, SIGNED[32].name, lanes))
        number = f"({self.language.scalar_name(SIGNED[32])}){few.within(UNARY)}"
        packed = self.language.reinterpret(SIGNED[32], lanes, filters.within(UNARY))
        name = f"{section}_{self.language.suffix_name(SIGNED[32], lanes)}"
        return Expression(f"{name}({sums.text}, {number}, {packed})")

    def _dot_pairs(self, lanes: int, operands: Sequence[Expression]) -> Expression:
        """`dot_pairs_float16(sums, (int32_t)pair, (int16)filters)`: pairs as 32-bit numbers"""
        if not self.language.has_dots:
            raise UnsupportedError(f"loop.dot_pairs is not printed as {self.language.name}")
        sums, pair, filters = operands
        self.require(Requirement("dot_pairs", FLOAT.name, lanes))
        number = f"({self.language.scalar_name(SIGNED[32])}){pair.within(UNARY)}"
        packed = self._reinterpreted(SIGNED[32], lanes, filters)
        name = f"dot_pairs_{self.language.suffix_name(FLOAT, lanes)}"
        return Expression(f"{name}({sums.text}, {number}, {packed})")

    def _dual_products(self, op: DualProductsOp, operands: Sequence[Expression]) -> Expression:
        """`dual_products(sum, zero, x0, x1, x2, x3, (int32_t)filters)`, or of words of bytes"""
        if not self.language.has_dots:
            raise UnsupportedError(f"loop.dual_products is not printed as {self.language.name}")
        total, zero, filters, *few = operands
        is_signed = scalar_type(op.bytes[0].type).kind == "signed"
        section = "dual_products" if len(few) > 1 else "dual_products_of_word"
        self.require(Requirement(section))
        word = f"({self.language.scalar_name(SIGNED[32])})"
        numbers = [each.text if len(few) > 1 else f"{word}{each.within(UNARY)}" for each in few]
        filter_word = f"{word}{filters.within(UNARY)}"
        sign = "true" if is_signed else "false"
        given = ", ".join([total.text, zero.text, sign, *numbers, filter_word])
        return Expression(f"{section}({given})")

    # -- conversions ---------------------------------------------------------------------------
    def _conversion(
        self, op: Operation, element: ScalarType, lanes: int, operand: Expression
    ) -> Expression:
        source = scalar_type(op.operands[0].type)
        if isinstance(op, arith.BitcastOp):
            return self._bitcast(source, element, lanes, operand)
        if isinstance(op, arith.ExtFOp | arith.TruncFOp) and (source.form or element.form):
            return self._stored_float(source, element, lanes, operand)
        if source.form or element.form:
            return self._stored_integer(source, element, lanes, operand)
        if element == BOOLEAN:
            one, zero = (self._splat_text(source, lanes, number) for number in "10")
            text = f"({operand.within(UNARY)} & {one}) != {zero}"
            return Expression(text, EQUALITY, mask_bits=source.bits if lanes else 0)
        if source == BOOLEAN and lanes:
            return self._from_mask(element, lanes, operand)
        if isinstance(op, arith.ExtUIOp | arith.UIToFPOp) and source.kind == "signed":
            unsigned = _unsigned(source)
            self.require(*vector_requirement(unsigned, lanes))
            operand = Expression(self._reinterpreted(unsigned, lanes, operand), UNARY)
        if isinstance(op, arith.ExtSIOp) and source == BOOLEAN:
            operand = Expression(f"-{operand.within(UNARY)}", UNARY)
        if self.language.scalar_name(source) == self.language.scalar_name(element):
            return operand
        if isinstance(op, arith.FPToUIOp | arith.FPToSIOp) and element.bits < (
            32 if element.kind == "signed" else 64
        ):
            # Of what does not fit the lowest bits are kept; C leaves it open, and devices differ.
            wide = SIGNED[64 if element.bits == 32 else 32]
            self.require(*vector_requirement(wide, lanes))
            operand, source = Expression(self._converted(wide, lanes, operand), UNARY), wide
        if lanes >= MIN_NARROWED and source == SIGNED[32] and element in BYTES:
            call = self.language.narrow(element, lanes, operand.text)
            self.require(*call.needs)
            return Expression(call.name)
        if lanes and source in NARROW and source.bits < element.bits:
            is_unsigned = isinstance(op, arith.ExtUIOp | arith.UIToFPOp)
            narrow = _unsigned(source) if is_unsigned else source
            call = self.language.widen(narrow, element, lanes, operand.text)
            self.require(*call.needs)
            return Expression(call.name)
        return Expression(self._converted(element, lanes, operand), UNARY)

    def _bitcast(
        self, source: ScalarType, element: ScalarType, lanes: int, operand: Expression
    ) -> Expression:
        if not source.is_float and not element.is_float:
            return Expression(self._reinterpret(element, lanes, operand.text), UNARY)
        if lanes:
            return Expression(self._reinterpreted(element, lanes, operand), UNARY)
        self.require(Requirement("bits"))
        return Expression(f"as_{element.name}({operand.text})")

    def _stored_float(
        self, source: ScalarType, element: ScalarType, lanes: int, operand: Expression
    ) -> Expression:
        """`float_from_bf16(x[i])` and `bf16_from_float(y)`; for vectors with their names behind."""
        stored, other = (source, element) if source.form else (element, source)
        is_wide = not lanes and other in (FLOAT, DOUBLE)
        if not is_wide and (other != FLOAT or stored.form not in VECTOR_FORMS):
            raise UnsupportedError(
                f"conversion between {other.name} and {stored.form} in vectors of {lanes}",
                hint="convert to f32, and vectors of f16 and bf16 only",
            )
        section = f"float_from_{stored.form}" if source.form else f"{stored.form}_from_float"
        self.require(*vector_requirement(FLOAT, lanes))
        self.require(Requirement(section, stored.name, lanes))
        name = f"{section}_{self.language.suffix_name(stored, lanes)}" if lanes else section
        return Expression(f"{name}({operand.text})")

    def _stored_integer(
        self, source: ScalarType, element: ScalarType, lanes: int, operand: Expression
    ) -> Expression:
        """An integer in the lowest bits of a byte (the others are zero), and out of it."""
        form = source.form or element.form
        if lanes:
            raise UnsupportedError(f"vectors of {form} are not printed")
        bits = int(form.lstrip("ui"))
        if source.form and element.kind == "signed":
            # Multiplied so that its sign is the byte's.
            factor, byte = 1 << (8 - bits), self.language.scalar_name(SIGNED[8])
            text = f"({byte})({operand.within(UNARY)} * {factor}) / {factor}"
            return Expression(text, MULTIPLICATIVE)
        return Expression(f"{operand.within(UNARY)} & {(1 << bits) - 1}", BITWISE)

    def _converted(self, element: ScalarType, lanes: int, operand: Expression) -> str:
        if lanes:
            return self.language.convert(element, lanes, operand.text)
        return f"({self.language.scalar_name(element)}){operand.within(UNARY)}"

    def _reinterpreted(self, element: ScalarType, lanes: int, operand: Expression) -> str:
        self.require(*vector_requirement(element, lanes))
        if lanes:
            return self.language.reinterpret(element, lanes, operand.within(UNARY))
        return f"({self.language.scalar_name(element)}){operand.within(UNARY)}"

    def _reinterpret(self, element: ScalarType, lanes: int, text: str) -> str:
        return self._reinterpreted(element, lanes, Expression(text, CONDITIONAL))

    def _splat_text(self, element: ScalarType, lanes: int, text: str) -> str:
        return self.language.splat(element, lanes, text) if lanes else text

    def mask(self, mask: Expression, bits: int, lanes: int) -> Expression:
        """A mask whose integers have `bits` bits."""
        if mask.mask_bits == bits:
            return mask
        self.require(*vector_requirement(SIGNED[bits], lanes))
        return Expression(self.language.convert(SIGNED[bits], lanes, mask.text), mask_bits=bits)

    def _from_mask(self, element: ScalarType, lanes: int, mask: Expression) -> Expression:
        converted = self.mask(mask, element.bits, lanes)
        if element.is_float:
            one, zero = (self.language.splat(element, lanes, f"{n}") for n in (1, 0))
            self.require(Requirement("select", element.name, lanes))
            return Expression(self.language.select(element, lanes, converted.text, one, zero))
        # True is -1 there: a sum with its negative is one subtraction.
        text = f"-{_signed_text(converted)}"
        if element.kind == "unsigned":
            return Expression(self._reinterpret(element, lanes, text), UNARY)
        return Expression(text, UNARY)


def _unsigned(element: ScalarType) -> ScalarType:
    return UNSIGNED[element.bits] if element.kind == "signed" else element


def _signed_text(operand: Expression) -> str:
    """An operand of a minus sign: `--x` would be a decrement."""
    text = operand.within(UNARY)
    return f"({text})" if text.startswith("-") else text
