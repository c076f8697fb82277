"""Values of a program as formulas: each operator appends one operation to the block.

    near = 0.5 * (x - y) ** 2                 three operations, and constants of x's element type
    loss = where(abs(x - y) < 1.0, near, abs(x - y) - 0.5).mean([0, 1])

A number on either side becomes a constant of rank 0 with the value's element type. The two sides
broadcast as in NumPy and have one element type. Comparisons append operations too: `x == y` is no
question about Python objects, and an `Expr` has no truth value and no hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Block, Operation, SSAValue

from explorer.ir.types import Shape, element_type_of, numpy_dtype, shape_of

if TYPE_CHECKING:
    from explorer.importers.building.build import Build


@dataclass(frozen=True)
class Axis:
    """The size of one axis of a value, whatever it turns out to be."""

    value: SSAValue
    axis: int


Size = int | Axis | SSAValue
"""A number, an axis' size, or a whole number that a run computes: a value with one element."""


def _unary(kind: str) -> Callable[[Expr], Expr]:
    def apply(x: Expr) -> Expr:
        return x.unary(kind)

    apply.__doc__ = f"The unary operation `{kind}`, element by element."
    return apply


def _binary(kind: str) -> Callable[[Expr, Number], Expr]:
    def apply(left: Expr, right: Number) -> Expr:
        return left.binary(kind, right)

    return apply


def _reflected(kind: str) -> Callable[[Expr, float], Expr]:
    """The same with the number on the left: its constant comes first."""

    def apply(right: Expr, left: float) -> Expr:
        return right.constant(left).binary(kind, right)

    return apply


def _logical(kind: str) -> Callable[[Expr, Number], Expr]:
    """A function of booleans, or of the bits of integers."""

    def apply(left: Expr, right: Number) -> Expr:
        return left.binary(kind if left.is_boolean else f"bit_{kind}", right)

    return apply


def _reduction(kind: str) -> Callable[..., Expr]:
    def apply(x: Expr, axes: Sequence[int], keepdims: bool = False) -> Expr:
        return x.reduce(kind, axes, keepdims)

    apply.__doc__ = f"The reduction `{kind}` along axes; x itself for none."
    return apply


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A value and the builder that appends operations on it."""

    build: Build
    value: SSAValue

    __array_ufunc__ = None
    """Numbers of NumPy on the left leave operators to this class."""

    # -- what is known of it -----------------------------------------------------------------------
    @property
    def type(self) -> Attribute:
        return self.value.type

    @property
    def shape(self) -> Shape:
        return shape_of(self.value)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_type(self) -> Attribute:
        return element_type_of(self.value)

    @property
    def dtype(self) -> np.dtype:
        return numpy_dtype(self.element_type)

    @property
    def is_float(self) -> bool:
        return isinstance(self.element_type, AnyFloat)

    @property
    def is_boolean(self) -> bool:
        return self.dtype == np.bool_

    @property
    def owner(self) -> Operation | Block:
        """The operation that this is a result of, or the block that this is an argument of."""
        return self.value.owner

    def size(self, axis: int) -> int | None:
        """The size of an axis; None where it is symbolic."""
        size = self.shape[axis]
        return size if isinstance(size, int) else None

    def sizes(self, axes: Sequence[int], purpose: str) -> list[int]:
        """The sizes of axes; `Undecided` where one is not known."""
        return self.build.sizes(self, axes, purpose)

    def dim(self, axis: int) -> Axis:
        """The size of an axis, whatever it turns out to be."""
        return Axis(self.value, axis)

    def all_sizes(self) -> list[Size]:
        return self.build.all_sizes(self)

    def constant(self, number: float) -> Expr:
        """A constant of rank 0 with this value's element type."""
        if number is None or isinstance(number, str):
            raise TypeError(f"a {type(number).__name__} in a formula")
        return self.build.scalar_like(number, self)

    # -- arithmetic --------------------------------------------------------------------------------
    def unary(self, kind: str, alpha: float | None = None, beta: float | None = None) -> Expr:
        """A kind of `top.unary`, with its parameters."""
        return self.build.unary(kind, self, alpha, beta)

    def binary(self, kind: str, other: Number) -> Expr:
        """A kind of `top.binary`."""
        right = other if isinstance(other, Expr) else self.constant(other)
        return self.build.binary(kind, self, right)

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    """Quotients of integers are truncated, as in C."""
    __mod__ = _binary("mod")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __lshift__, __rshift__ = _binary("shift_left"), _binary("shift_right")
    __and__, __or__, __xor__ = _logical("and"), _logical("or"), _logical("xor")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __hash__ = None  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __eq__(self, other: Number) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.binary("equal", other)

    def __bool__(self) -> bool:
        raise TypeError("a value of a program is neither true nor false while it is built")

    def __floordiv__(self, other: Expr) -> Expr:
        """Rounded downwards: 1 less than `/` of integers where signs differ."""
        return self.build.floor_quotient(self, other)

    def __matmul__(self, other: Expr) -> Expr:
        return self.build.matmul(self, other)

    def __neg__(self) -> Expr:
        return self.unary("neg")

    def __abs__(self) -> Expr:
        return self.unary("abs")

    def __invert__(self) -> Expr:
        return self.unary("not" if self.is_boolean else "bit_not")

    exp, log, sqrt, reciprocal = map(_unary, ("exp", "log", "sqrt", "reciprocal"))
    sin, cos, tan, tanh = map(_unary, ("sin", "cos", "tan", "tanh"))
    floor, ceil, round, sign = map(_unary, ("floor", "ceil", "round", "sign"))
    relu, sigmoid, softplus, erf = map(_unary, ("relu", "sigmoid", "softplus", "erf"))
    is_nan, is_infinite = map(_unary, ("is_nan", "is_infinite"))

    def square(self) -> Expr:
        return self * self

    def clip(self, low: float, high: float) -> Expr:
        return self.unary("clip", low, high)

    def scaled(self, factor: float) -> Expr:
        """self * factor; self for 1."""
        return self.build.scaled(self, factor)

    def astype(self, dtype: np.dtype | type) -> Expr:
        """In another element type; self where it has it already."""
        return self.build.cast(self, dtype)

    def wide(self) -> Expr:
        """In f32 where it has fewer bits: statistics of narrow floats are computed in f32."""
        return self.build.wide(self)

    # -- reductions --------------------------------------------------------------------------------
    def reduce(self, kind: str, axes: Sequence[int], keepdims: bool = False) -> Expr:
        """A kind of `top.reduce` along axes; self for none."""
        return self.build.reduce(kind, self, axes, keepdims)

    sum, mean = _reduction("sum"), _reduction("mean")
    max, min = _reduction("max"), _reduction("min")

    # -- shapes ------------------------------------------------------------------------------------
    def reshape(self, sizes: Sequence[Size]) -> Expr:
        """In another shape. At most one size may be -1; unknown ones are computed."""
        return self.build.reshape(self, sizes)

    def broadcast_to(self, sizes: Sequence[Size]) -> Expr:
        """Repeated along axes of size 1 (and new leading ones)."""
        return self.build.expand(self, sizes)

    def transpose(self, permutation: Sequence[int]) -> Expr:
        return self.build.transpose(self, permutation)

    def squeeze(self, axes: Sequence[int]) -> Expr:
        return self.build.squeeze(self, axes)

    def unsqueeze(self, axes: Sequence[int]) -> Expr:
        """`axes` count in the result."""
        return self.build.unsqueeze(self, axes)

    def slice(self, axis: int, start: int, stop: int) -> Expr:
        """Elements of one axis, bounds as in Python's slices."""
        return self.build.slice(self, axis, start, stop)

    def slices(self, bounds: Mapping[int, tuple[int, int, int]]) -> Expr:
        """Elements of some axes; (start, stop, step) as `top.slice` has them."""
        return self.build.slices(self, bounds)

    def pad(self, low: Sequence[int], high: Sequence[int], value: float = 0.0) -> Expr:
        """With elements of a value before and after those of each axis; self for none."""
        return self.build.padded(self, low, high, value)

    def take(self, indices: np.ndarray | Expr, axis: int) -> Expr:
        """Slices of an axis at positions."""
        return self.build.gather(self, indices, axis)


Number = Expr | float
"""What stands on the other side of an operator."""

Value = Expr | SSAValue
"""A value, with or without its operators."""
Operand = Value | Sequence[Value] | None


def plain(value: Value) -> SSAValue:
    """The value of the IR."""
    return value.value if isinstance(value, Expr) else value


def all_plain(values: Iterable[Value]) -> list[SSAValue]:
    return [plain(value) for value in values]


def plain_operand(operand: Operand) -> SSAValue | Sequence[SSAValue] | None:
    """The values of the IR of an operand, which may be several."""
    if operand is None:
        return None
    return plain(operand) if isinstance(operand, Value) else all_plain(operand)


def where(condition: Expr, if_true: Number, if_false: Number) -> Expr:
    """One of two, element by element; one of them may be a number."""
    if not isinstance(if_true, Expr):
        assert isinstance(if_false, Expr), "where(condition, number, number) has no element type"
        if_true = if_false.constant(if_true)
    right = if_false if isinstance(if_false, Expr) else if_true.constant(if_false)
    return condition.build.select(condition, if_true, right)


def maximum(left: Number, right: Number) -> Expr:
    """The larger of two; one of them may be a number."""
    return _extreme("max", left, right)


def minimum(left: Number, right: Number) -> Expr:
    """The smaller of two; one of them may be a number."""
    return _extreme("min", left, right)


def _extreme(kind: str, left: Number, right: Number) -> Expr:
    if not isinstance(left, Expr):
        assert isinstance(right, Expr), f"the {kind} of two numbers is a number"
        left = right.constant(left)
    return left.binary(kind, right)
