"""Patterns: what a rule looks for, written as the algebra that it is.

    q, k, v, scale, bias = value("q"), value("k"), value("v"), number("scale"), value("bias")
    scores = optional(lambda s: s + bias, product(scale, q @ k))

    class RecognizeAttention(PatternRule):
        '''softmax(q @ k * c + m) @ v   =>   attention(q, k^T, v, bias = m) {scale = c}'''
        pattern = softmax(scores).telling() @ v

        def replacement(self, found, rewriter):
            return AttentionOp.make([found[q], ..., found.get(bias)], scale=found[scale])

    value("x"), computed("x")          any value; any but a weight; value("x", fits): one that fits
    number("c"), 2, about(0.7071)      a weight of one element: any, this one, this one but for
                                       rounding
    weight("c")                        any weight: found[c] is its array
    a + b, a - b, a * b, a / b, a ** b, maximum(a, b), binary(kind, a, b)
                                       a top.binary, in both orders where it is commutative
    exp(x), sqrt(x), unary(kind, x)    a top.unary
    a @ b, softmax(x), reduced("sum", x, axes), select(c, a, b), transpose(x)
                                       the operation of that name
    operation(ConvOp, x, w, group=1)   any operation: its first operands, and properties
    property_of("axes")                in the place of a property: the same wherever it stands
    product(number("c"), x, gate)      c * x * gate in any order, however bracketed and divided
    a | b                              the first alternative that leads to a match
    optional(step, x)                  step(x), or x
    repeated(step, x)                  step(step(...x)), the most steps first, or x
    p.having(test)                     p where the operation passes a test
    p.called("the scores")             p, with a name for what is told
    p.where(test, reason)              p where what was found so far passes a test
    p.like(x)                          p where it has the type of x: nothing was broadcast

**The same part is the same value.** A part that stands in a pattern twice (`d * d`, or `x` inside
and outside of a function) stands for one value. Two parts may stand for the same value.

**Uses.** What a match takes over must not be read from outside of it; inside it may be read more
than once. `shared(p)` says that the operations of p may be read elsewhere, too (they stay then),
`kept(p)` that they are looked at only.

**Near misses.** A rule that does not match says nothing, unless there was a candidate. There is one
from where an operation that is `telling()` was matched: what fails from then on is told as what was
expected and what was found instead, of all attempts by the one that got furthest. What others read,
and a condition with a reason (`p.where(test, "the slope is not between 0 and 1")`), is always told.

The ideas are those of MLIR's PDL and of onnxscript's rewriter: patterns as data, constraints on
parts, alternatives, operands in both orders, checks of uses by the matcher.
"""

from explorer.ir.patterns.parts import Pattern
from explorer.ir.patterns.rule import PatternRule
from explorer.ir.patterns.search import Found, match
from explorer.ir.patterns.words import (
    about,
    binary,
    clip,
    computed,
    concat,
    either,
    erf,
    exp,
    is_nan,
    kept,
    log,
    maximum,
    minimum,
    neg,
    number,
    operation,
    optional,
    product,
    property_of,
    reciprocal,
    reduced,
    relu,
    repeated,
    reshape,
    select,
    shared,
    sigmoid,
    softmax,
    softplus,
    sqrt,
    tanh,
    transpose,
    unary,
    value,
    weight,
)

__all__ = [
    "Found",
    "Pattern",
    "PatternRule",
    "about",
    "binary",
    "clip",
    "computed",
    "concat",
    "either",
    "erf",
    "exp",
    "is_nan",
    "kept",
    "log",
    "match",
    "maximum",
    "minimum",
    "neg",
    "number",
    "operation",
    "optional",
    "product",
    "property_of",
    "reciprocal",
    "reduced",
    "relu",
    "repeated",
    "reshape",
    "select",
    "shared",
    "sigmoid",
    "softmax",
    "softplus",
    "sqrt",
    "tanh",
    "transpose",
    "unary",
    "value",
    "weight",
]
