"""The words of the pattern language: functions that make parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from explorer.ir.constants import is_constant
from explorer.ir.patterns.combinations import MAX_STEPS, Product, Repeated, Using
from explorer.ir.patterns.parts import (
    AnyTop,
    Constant,
    Either,
    Literal,
    Number,
    OperationPattern,
    Part,
    Pattern,
    Property,
    Thing,
    Value,
    binary,
)
from explorer.ir.patterns.search import Use
from explorer.ir.top.elementwise import SelectOp, UnaryOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp

# -- values and constants --------------------------------------------------------------------------

value, weight, number, property_of = Value, Constant, Number, Property


def computed(name: str) -> Value:
    """Any value but a weight."""
    return Value(name, lambda given: not is_constant(given))


def about(expected: float) -> Literal:
    """A constant of one element that is this number, but for the rounding to single precision."""
    return Literal(expected, is_rounded=True)


# -- operations ------------------------------------------------------------------------------------


def operation(
    operator: type[AnyTop], /, *operands: Part, **properties: object
) -> OperationPattern[AnyTop]:
    """An operation of a class: its first operands, and properties by name.

    A property is given as what it must be, as a function that says whether it fits, or as a
    `property_of`. What is not named may be anything. An operation with any number of operands has
    exactly those that are given, if any.
    """
    return OperationPattern(operator, operands, properties)


def unary(kind: str, x: Part, /, **properties: object) -> OperationPattern[UnaryOp]:
    """The `top.unary` of that kind."""
    return operation(UnaryOp, x, kind=kind, **properties)


exp, log, sqrt = partial(unary, "exp"), partial(unary, "log"), partial(unary, "sqrt")
neg, reciprocal = partial(unary, "neg"), partial(unary, "reciprocal")
relu, sigmoid, tanh = partial(unary, "relu"), partial(unary, "sigmoid"), partial(unary, "tanh")
erf, softplus, is_nan = partial(unary, "erf"), partial(unary, "softplus"), partial(unary, "is_nan")
maximum, minimum = partial(binary, "max"), partial(binary, "min")


def clip(x: Part, low: float, high: float) -> OperationPattern[UnaryOp]:
    """min(max(x, low), high)"""
    return unary("clip", x).having(lambda op: op.parameters == (low, high))


def reduced(kind: str, x: Part, axes: object = None) -> OperationPattern[ReduceOp]:
    """A reduction that keeps the axes it runs over."""
    given = {} if axes is None else {"axes": axes}
    return operation(ReduceOp, x, kind=kind, keepdims=True, **given)


def softmax(x: Part, **properties: object) -> OperationPattern[SoftmaxOp]:
    """No logarithm of it."""
    return operation(SoftmaxOp, x, logarithm=False, **properties)


def select(condition: Part, if_true: Part, if_false: Part) -> OperationPattern[SelectOp]:
    return operation(SelectOp, condition, if_true, if_false)


def transpose(x: Part, **properties: object) -> OperationPattern[TransposeOp]:
    return operation(TransposeOp, x, **properties)


def reshape(x: Part) -> OperationPattern[ReshapeOp]:
    return operation(ReshapeOp, x)


def concat(*inputs: Part, **properties: object) -> OperationPattern[ConcatOp]:
    return operation(ConcatOp, *inputs, **properties)


# -- combinations ----------------------------------------------------------------------------------


def product(number: Part, *factors: Part) -> Product:
    """number * factors, in whatever order, bracketed and divided however."""
    return Product(number, factors)


def either(*options: Pattern) -> Either:
    """`a | b | c`"""
    return Either(options)


def optional(step: Callable[[Pattern], Pattern], inner: Pattern) -> Repeated:
    """step(inner), or inner itself."""
    return Repeated(step, inner, most=1)


def repeated(step: Callable[[Pattern], Pattern], inner: Pattern, most: int = MAX_STEPS) -> Repeated:
    """inner, step(inner), step(step(inner)) ...: the longest that leads to a match."""
    return Repeated(step, inner, most)


def shared(inner: Pattern[Thing]) -> Using[Thing]:
    """Its operations may be read by others as well: then they stay."""
    return Using(inner, Use.SHARED)


def kept(inner: Pattern[Thing]) -> Using[Thing]:
    """Its operations stay what they are, whoever reads them: they are looked at only."""
    return Using(inner, Use.KEPT)
