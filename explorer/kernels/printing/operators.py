"""Which operator or function of C stands for which operation: tables, and nothing else."""

from __future__ import annotations

from xdsl.dialects import arith, math, vector
from xdsl.ir import Operation

from explorer.ir.loop_dialect import (
    FloatRemainderOp,
    HighProductOp,
    InterleaveHighOp,
    InterleaveLowOp,
    NormalCdfOp,
    UpperProductOp,
)

# How tightly an expression binds, the tightest first.
PRIMARY, UNARY, MULTIPLICATIVE, ADDITIVE, SHIFT, RELATIONAL, EQUALITY, BITWISE, CONDITIONAL = range(
    9
)

BINARY: dict[type[Operation], tuple[str, int]] = {
    arith.AddfOp: ("+", ADDITIVE),
    arith.AddiOp: ("+", ADDITIVE),
    arith.SubfOp: ("-", ADDITIVE),
    arith.SubiOp: ("-", ADDITIVE),
    arith.MulfOp: ("*", MULTIPLICATIVE),
    arith.MuliOp: ("*", MULTIPLICATIVE),
    arith.DivfOp: ("/", MULTIPLICATIVE),
    arith.DivSIOp: ("/", MULTIPLICATIVE),
    arith.DivUIOp: ("/", MULTIPLICATIVE),
    arith.RemSIOp: ("%", MULTIPLICATIVE),
    arith.RemUIOp: ("%", MULTIPLICATIVE),
    arith.AndIOp: ("&", BITWISE),
    arith.OrIOp: ("|", BITWISE),
    arith.XOrIOp: ("^", BITWISE),
    arith.ShLIOp: ("<<", SHIFT),
    arith.ShRSIOp: (">>", SHIFT),
    arith.ShRUIOp: (">>", SHIFT),
}
UNSIGNED_OPERATIONS = (arith.DivUIOp, arith.RemUIOp, arith.ShRUIOp)
BOOLEAN_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "^",
    arith.SubiOp: "^",
    arith.XOrIOp: "^",
    arith.MuliOp: "&",
    arith.AndIOp: "&",
    arith.MinSIOp: "&",
    arith.MinUIOp: "&",
    arith.OrIOp: "|",
    arith.MaxSIOp: "|",
    arith.MaxUIOp: "|",
}
EXTREMA: dict[type[Operation], str] = {
    arith.MaximumfOp: "maximum",
    arith.MaxSIOp: "maximum",
    arith.MaxUIOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MinSIOp: "minimum",
    arith.MinUIOp: "minimum",
}
PRELUDE_FUNCTIONS: dict[type[Operation], str] = {
    arith.FloorDivSIOp: "floor_divide",
    math.IPowIOp: "power",
    math.AbsIOp: "absolute",
    HighProductOp: "high_product",
    UpperProductOp: "upper_product",
    InterleaveLowOp: "interleave_low",
    InterleaveHighOp: "interleave_high",
}
MATH_FUNCTIONS: dict[type[Operation], str] = {
    math.AbsFOp: "fabs",
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.Atan2Op: "atan2",
    math.AtanOp: "atan",
    math.AtanhOp: "atanh",
    math.CbrtOp: "cbrt",
    math.CeilOp: "ceil",
    math.CopySignOp: "copysign",
    math.CosOp: "cos",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1",
    math.ExpOp: "exp",
    math.FloorOp: "floor",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.Log2Op: "log2",
    math.LogOp: "log",
    math.PowFOp: "pow",
    math.RoundEvenOp: "rint",  # to even in the default rounding mode
    math.RoundOp: "round",
    math.SinOp: "sin",
    math.SinhOp: "sinh",
    math.SqrtOp: "sqrt",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
    math.TruncOp: "trunc",
    arith.MaxnumfOp: "fmax",
    arith.MinnumfOp: "fmin",
    FloatRemainderOp: "fmod",
    NormalCdfOp: "normal_cdf",
}
INTEGER_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
FIRST_UNSIGNED_COMPARISON = 6
# cmpf's predicates from 1 on: (symbol, whether the comparison is negated).
FLOAT_COMPARISONS: dict[int, tuple[str, bool]] = {
    1: ("==", False),
    2: (">", False),
    3: (">=", False),
    4: ("<", False),
    5: ("<=", False),
    9: ("<=", True),
    10: ("<", True),
    11: (">=", True),
    12: (">", True),
    13: ("!=", False),
}
REDUCTIONS: dict[str, tuple[str, str]] = {
    "add": ("reduce_add", "+"),
    "mul": ("reduce_multiply", "*"),
    "and": ("reduce_and", "&"),
    "or": ("reduce_or", "|"),
    "xor": ("reduce_xor", "^"),
    "maximumf": ("reduce_maximum", "maximum"),
    "maxsi": ("reduce_maximum", "maximum"),
    "maxui": ("reduce_maximum", "maximum"),
    "minimumf": ("reduce_minimum", "minimum"),
    "minsi": ("reduce_minimum", "minimum"),
    "minui": ("reduce_minimum", "minimum"),
}
CONVERSIONS = (
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.TruncIOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.BitcastOp,
    arith.IndexCastOp,
)
MOVES = (arith.SelectOp, vector.BroadcastOp)
"""Operations that compute nothing: they take types for storage too."""
