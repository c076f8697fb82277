"""Elementwise operations: `top.unary`, `top.binary`, `top.select`.

The family is one operation with a `kind`; each kind states its NumPy meaning and its scalar body
side by side, in the tables of `unary_kinds.py` and `binary_kinds.py`.

Quantized operands stand for their real numbers, and `to` quantizes the result:

    %y = top.binary(%a, %b) {kind = "add", to = !top.quantized<ui8, 0.1:128>}
    means quantize(dequantize(%a) + dequantize(%b))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, f32, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable, Term
from explorer.ir.interfaces import (
    ComputesSizes,
    Differentiable,
    Elements,
    KeepsNumbers,
    Quantizable,
    SizeContents,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.symbols import Expression
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.sizes import EXACT_IN_FLOATS, combined
from explorer.ir.top.support.binary_kinds import BINARY, BinaryKind
from explorer.ir.top.support.broadcasting import (
    ElementwiseOperation,
    broadcast_shapes,
    collapse_broadcast,
    iteration,
)
from explorer.ir.top.support.derivatives import BINARY_DERIVATIVES, UNARY_DERIVATIVES
from explorer.ir.top.support.operands import require_same_type
from explorer.ir.top.support.quantized_scalars import (
    real_array,
    real_scalar,
    stored_array,
    stored_scalar,
)
from explorer.ir.top.support.unary_kinds import UNARY, UnaryKind
from explorer.ir.types import QuantizedType, element_type_of, shape_of, tensor_type


def apply_unary(s: ScalarBuilder, kind: str, x: Scalar, alpha: float, beta: float) -> Scalar:
    """The scalar body of an elementwise kind, for fused epilogues too."""
    return UNARY[kind].body(s, x, alpha, beta)


class RealOperation(Quantizable, ElementwiseOperation):
    """What computes in real numbers, of operands that may be quantized (one scale per tensor)."""

    TAKES_QUANTIZED: ClassVar[bool] = True
    QUANTIZABLE_KINDS: ClassVar[frozenset[str]]
    """Kinds whose numbers bear few bits; exponentials, roots and quotients do not."""

    @property
    def is_quantizable(self) -> bool:
        return self.get("kind") in self.QUANTIZABLE_KINDS

    @property
    def result_type(self) -> QuantizedType | None:
        """The quantized type of the result; None where the result is not quantized."""
        return self.to  # pyright: ignore[reportAttributeAccessIssue]

    def result_element(self) -> Attribute:
        """Element type of the result: `to`, else f32 for quantized operands, else the first's."""
        kinds = [element_type_of(o) for o in self.operands]
        quantized = [k for k in (*kinds, self.result_type) if isinstance(k, QuantizedType)]
        if not quantized:
            require_same_type(f"the operands of {self.name}", self.operands)
            return kinds[0]
        if any(not isinstance(k, QuantizedType) and k != f32 for k in kinds):
            raise ValueError(f"{self.name} takes quantized numbers and f32, not {kinds}")
        if any(not k.is_per_tensor for k in quantized):
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        return self.result_type or f32

    def real_operands(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The numbers that the operands stand for."""
        kinds = [element_type_of(o) for o in self.operands]
        return [real_array(array, kind) for array, kind in zip(operands, kinds, strict=True)]

    def stored_result(self, result: np.ndarray) -> np.ndarray:
        to = self.result_type
        return result if to is None else stored_array(result, to)

    def real_scalars(self, *scalars: Scalar) -> list[Scalar]:
        kinds = [element_type_of(o) for o in self.operands]
        return [real_scalar(scalar, kind) for scalar, kind in zip(scalars, kinds, strict=True)]

    def stored_scalar(self, result: Scalar) -> Scalar:
        to = self.result_type
        return result if to is None else stored_scalar(result, to)


@irdl_op_definition
class UnaryOp(Differentiable, KeepsNumbers, RealOperation):
    """y = kind(x), with up to two parameters `alpha` and `beta` (clip: bounds)."""

    name = "top.unary"
    QUANTIZABLE_KINDS: ClassVar[frozenset[str]] = frozenset(
        ("relu", "leaky_relu", "clip", "sigmoid", "hard_sigmoid", "hard_swish", "silu", "mish")
        + ("tanh", "gelu", "gelu_tanh", "elu", "softplus", "neg", "abs")
    )

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    to = opt_prop_def(QuantizedType)
    output = result_def(TensorType)

    @property
    def table(self) -> UnaryKind:
        return UNARY[self.kind.data]

    @property
    def parameters(self) -> tuple[float, float]:
        a, b = self.get("alpha"), self.get("beta")
        return (
            self.table.alpha if a is None else a,
            self.table.beta if b is None else b,
        )

    @property
    def keeps_finite(self) -> bool:
        return self.table.keeps_finite

    @property
    def has_integer_form(self) -> bool:
        """Any function of one number is a table."""
        return not self.table.tests

    @property
    def keeps_numbers(self) -> bool:
        return self.kind.data in ("relu", "abs", "neg")

    @property
    def clamps(self) -> bool:
        return self.kind.data in ("relu", "clip")

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in UNARY:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(UNARY)}")
        element = i1 if self.table.tests else self.result_element()
        return [tensor_type(element, shape_of(self.input))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = self.real_operands(operands)
        alpha, beta = self.parameters
        with np.errstate(all="ignore"):
            return (self.stored_result(np.asarray(self.table.meaning(x, alpha, beta))),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        alpha, beta = self.parameters

        def body(s: ScalarBuilder, x: Scalar) -> Scalar:
            (x,) = self.real_scalars(x)
            return self.stored_scalar(self.table.body(s, x, alpha, beta))

        k.generic("plain", [inputs[0].at(*d)], output.at(*d), body)
        return "elementwise"

    def label(self) -> str:
        return self.kind.data.replace("_", " ")

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        derivative = UNARY_DERIVATIVES.get(self.kind.data)
        if derivative is None:
            raise NotDifferentiable
        slope = derivative(Term(build, self.input), Term(build, self.output), *self.parameters)
        return (Term(build, g) * slope).value


@irdl_op_definition
class BinaryOp(Differentiable, ComputesSizes, RealOperation):
    """y = kind(a, b), broadcasting as NumPy does."""

    name = "top.binary"
    QUANTIZABLE_KINDS: ClassVar[frozenset[str]] = frozenset(
        ("add", "sub", "mul", "max", "min", "prelu")
    )

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    kind = prop_def(StringAttr)
    to = opt_prop_def(QuantizedType)
    output = result_def(TensorType)

    @property
    def table(self) -> BinaryKind:
        return BINARY[self.kind.data]

    @property
    def keeps_finite(self) -> bool:
        return self.table.keeps_finite

    @property
    def has_integer_form(self) -> bool:
        """Fixed point, and with a single constant a function of one number."""
        constants = [o for o in self.operands if isinstance(o.owner, WeightOp)]
        is_function = any(set(shape_of(o)) <= {1} for o in constants)
        return self.is_quantizable or (is_function and not self.table.compares)

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in BINARY:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(BINARY)}")
        element = self.result_element()
        element = i1 if self.table.compares else element
        shape = broadcast_shapes(shape_of(self.left), shape_of(self.right))
        return [tensor_type(element, shape)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            result = np.asarray(self.table.meaning(*self.real_operands(operands)))
            return (self.stored_result(result),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        left, right = inputs

        def body(s: ScalarBuilder, a: Scalar, b: Scalar) -> Scalar:
            a, b = self.real_scalars(a, b)
            return self.stored_scalar(self.table.body(a, b.convert(a.value.type)))

        k.generic("plain", [left.broadcast(d), right.broadcast(d)], output.at(*d), body)
        return "elementwise"

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        left, right = elements(self.left), elements(self.right)
        if left is None or right is None:
            return None
        return combined(self.kind.data, left, right)

    @property
    def is_exact_for_sizes(self) -> bool:
        return self.kind.data in EXACT_IN_FLOATS

    def end_of_numbers(self, contents: SizeContents) -> Expression | None:
        """Numbers that count up, moved by one number."""
        if self.kind.data != "add":
            return None
        for moved, offset in ((self.right, self.left), (self.left, self.right)):
            added = contents.single(offset)
            if added is not None:
                end = contents.end(moved)
                return None if end is None else end + added
        return None

    def label(self) -> str:
        return self.kind.data.replace("_", " ")

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        derivatives = BINARY_DERIVATIVES.get(self.kind.data)
        if derivatives is None:
            raise NotDifferentiable
        # An exponent may have another element type than its base.
        b = build.cast(self.right, build.dtype(self.left))
        slope = derivatives[index](*(Term(build, v) for v in (self.left, b, self.output)))
        product = Term(build, g) * slope
        return build.cast(product.value, build.dtype(self.operands[index]))


@irdl_op_definition
class SelectOp(Differentiable, ElementwiseOperation):
    """y = a where the condition holds, else b; all three broadcast (ONNX's Where).

    Choices may be stored numbers of one quantized type, which the result has, too.
    """

    name = "top.select"
    TAKES_QUANTIZED: ClassVar[bool] = True
    KEEPS_FINITE: ClassVar[bool] = True

    condition = operand_def(TensorType)
    if_true = operand_def(TensorType)
    if_false = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if element_type_of(self.condition) != i1:
            raise ValueError(f"a condition is boolean, not {element_type_of(self.condition)}")
        require_same_type(f"both choices of {self.name}", (self.if_true, self.if_false))
        shape = broadcast_shapes(
            shape_of(self.condition), shape_of(self.if_true), shape_of(self.if_false)
        )
        return [tensor_type(element_type_of(self.if_true), shape)]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.where(*operands),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        reads = [access.broadcast(d) for access in inputs]
        k.generic("plain", reads, output.at(*d), lambda s, c, a, b: c.select(a, b))
        return "elementwise"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        nothing = build.scalar_like(0, g)
        chosen = [g, nothing] if index == 1 else [nothing, g]
        return build.select(self.condition, *chosen)


__all__ = [
    "BINARY",
    "UNARY",
    "BinaryKind",
    "BinaryOp",
    "CastOp",
    "ElementwiseOperation",
    "SelectOp",
    "UnaryKind",
    "UnaryOp",
    "apply_unary",
    "broadcast_shapes",
    "collapse_broadcast",
    "iteration",
]
