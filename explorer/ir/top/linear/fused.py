"""What is fused into convolution and matrix multiplication.

    y = requantize(quantize(round(activation(conv(x, w) + bias + residual))))

The fused parts are operands and properties of the operation itself: `bias` and `residual` are
optional operands, `activation` names a kind of `top.unary`, `rounding` a narrower type of floats
(f16, bf16) that a result computed in a wider type is rounded to. `to` quantizes a result of f32;
`requantization` takes its numbers as those of `to` or of `taken_as`, which are the same numbers
with other scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
from xdsl.ir import Attribute, SSAValue

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.interfaces import (
    Parameterized,
    SizeConstrained,
)
from explorer.ir.operation import Access
from explorer.ir.top.elementwise import UNARY, apply_unary
from explorer.ir.top.quantization.integer_products import IntegerProduct, RunTime
from explorer.ir.top.support.operands import (
    require_broadcast,
    require_same_type,
    require_vector,
)
from explorer.ir.top.support.quantized_scalars import F32, table_reads
from explorer.ir.types import (
    Dim,
    Shape,
    arithmetic_type,
    numpy_dtype,
    shape_of,
)


class FusedOperation(Parameterized, SizeConstrained, IntegerProduct):
    """What convolution and matmul share: bias, residual and activation."""

    @property
    def fused_activation(self) -> tuple[str, float, float] | None:
        kind = self.get("activation")
        if kind is None:
            return None
        alpha, beta = self.get("alpha"), self.get("beta")
        table = UNARY[kind]
        return (
            kind,
            table.alpha if alpha is None else alpha,
            table.beta if beta is None else beta,
        )

    @property
    def rounded_type(self) -> Attribute | None:
        """The type whose numbers the result holds, where that is narrower than its own."""
        return self.properties.get("rounding")

    def result_element(self) -> Attribute:
        """Element type of the result; ValueError where `rounding` does not fit it."""
        own, kind = self.product_element(), self.rounded_type
        if kind is not None and (kind == own or arithmetic_type(kind) != own):
            raise ValueError(f"{self.name} of {own} cannot be rounded to {kind}")
        return own

    def check_others(self, shape: Shape, channels: Dim) -> None:
        """ValueError where bias or residual do not fit a result of that shape.

        Of plain numbers all operands have one element type.
        """
        bias, residual = self.bias, self.residual  # pyright: ignore[reportAttributeAccessIssue]
        require_vector("the bias", bias, channels)
        if residual is not None:
            require_broadcast("the residual", shape_of(residual), shape)
        if self.sums is None:
            require_same_type(f"the operands of {self.name}", self.alike_operands())

    def alike_operands(self) -> Sequence[SSAValue | None]:
        """Those that have one element type where the product is of plain numbers."""
        return self.operands

    def split_operands(
        self, operands: Sequence
    ) -> tuple:  # (first, second, bias or None, residual or None), of whatever type is given
        first, second, *rest = operands[: len(self.operands)]
        bias = rest.pop(0) if self.bias is not None else None  # pyright: ignore
        residual = rest.pop(0) if self.residual is not None else None  # pyright: ignore
        return first, second, bias, residual

    def at_run_time(self, operands: Sequence) -> RunTime:
        position = 2 + (self.bias is not None) + (self.residual is not None)  # pyright: ignore
        found = {}
        for part in fields(RunTime):
            is_present = getattr(self, part.name, None) is not None
            found[part.name] = operands[position] if is_present else None
            position += is_present
        return RunTime(**found)

    def finish_integers(
        self,
        sums: np.ndarray,
        bias: np.ndarray | None,
        residual: np.ndarray | None,
        given: RunTime,
    ) -> np.ndarray:
        """Of quantized operands; `bias` and what runs along channels come in shapes that
        broadcast."""
        finished = self.finished_sums(sums, bias, given)
        return self.finish_meaning(finished, bias, residual) if given.is_scaled else finished

    def finish_meaning(
        self, result: np.ndarray, bias: np.ndarray | None, residual: np.ndarray | None
    ) -> np.ndarray:
        """`bias` comes in a shape that broadcasts."""
        if bias is not None:
            result = result + bias
        if residual is not None:
            result = result + residual
        fused = self.fused_activation
        if fused is not None:
            kind, alpha, beta = fused
            with np.errstate(all="ignore"):
                result = np.asarray(UNARY[kind].meaning(result, alpha, beta))
        narrow = self.rounded_type
        if narrow is not None:
            with np.errstate(over="ignore"):
                result = result.astype(numpy_dtype(narrow)).astype(result.dtype)
        return result if self.result_type is None else self.quantized_array(result)

    def define_init(
        self,
        k: KernelBuilder,
        dimensions: dict[str, int],
        output_subscripts: Callable[..., Sequence[Subscript]],
        bias_subscript: Callable[..., Subscript],
        bias: Access | None,
        output: Access,
        given: RunTime,
        zeros: Sequence[Access] = (),
        offsets: Access | None = None,
        offset_subscripts: Callable[..., Sequence[Subscript]] = lambda *d: d,
    ) -> None:
        """The first statement: the output begins as zero.

        Sums of integers are exact, and begin as the bias and what zero points take from them:
        those of w times `offsets`, the sums of x, and one of x that is known at run time only.
        """
        d = k.dimensions(**dimensions)
        target = output.at(*output_subscripts(*d))
        channel = bias_subscript(*d)
        reads = [] if bias is None or not self._begins_as_bias else [bias.at(channel)]
        reads += [] if given.sign_sums is None else [given.sign_sums.at(channel)]
        biases = len(reads)
        if offsets is not None:
            right_zeros = zeros if given.right_zero is None else [given.right_zero]
            reads += [offsets.at(*offset_subscripts(*d)), *table_reads(right_zeros, channel)]
        before = len(reads)
        if given.left_zero is not None:
            row = given.right_sums
            sums = row.at(channel) if row.rank == 1 else row.broadcast(d)
            reads += [given.left_zero.at(0), sums]

        def body(s: ScalarBuilder, *values: Scalar) -> Scalar:
            terms = list(values[:biases])
            if offsets is not None:
                terms.append(self.moved_by_zero(values[biases], values[biases + 1 : before]))
            if given.left_zero is not None:
                left_zero, sums = values[before:]
                terms.append((self.factor(left_zero) * sums).negate())
            return sum(terms[1:], start=terms[0]) if terms else s.constant(0.0)

        k.generic("init", reads, target, body)

    @property
    def _begins_as_bias(self) -> bool:
        """A bias of integers is where sums begin; one of floats is added at the end."""
        return self.sums is not None and not self.run_time.is_scaled

    def define_epilogue(
        self,
        k: KernelBuilder,
        dimensions: dict[str, int],
        bias_subscript: Callable[..., Subscript],
        bias: Access | None,
        residual: Access | None,
        output: Access,
        held: Access,
        given: RunTime,
        tables: Sequence[Access] = (),
    ) -> None:
        """The last statement: scale, bias, residual, activation, rounding, quantization, by point.

        `tables` has the factors of a requantization.

        A sum of floats that began as the bias would round each of its steps to the bias's last
        digit: of a large one and small products that takes a digit of the result.
        """
        fused, narrow = self.fused_activation, self.rounded_type
        bias = None if self._begins_as_bias else bias
        is_scaled = given.is_scaled
        is_apart = is_scaled or (self.sums is None and held.buffer is not output.buffer)
        if bias is None and residual is None and fused is None and narrow is None and not is_apart:
            return
        d = k.dimensions(**dimensions)
        channel = bias_subscript(*d)
        is_quantized = self.result_type is not None
        factors = [f for f in (given.scale, given.channel_scales) if f is not None]
        addends = [] if bias is None else [bias.at(channel)]
        addends += [residual.broadcast(d)] if residual is not None else []
        reads = [f.at(0 if f.shape in ((), (1,)) else channel) for f in factors]
        scaled = len(addends) + len(reads)
        reads += table_reads(tables, channel) if is_quantized else []
        reads += [held.at(*d)] if is_apart else []

        def body(s: ScalarBuilder, *values: Scalar) -> Scalar:
            others, y = values[: len(addends)], values[-1]
            if is_scaled:
                first, *rest = values[len(addends) : scaled]
                y = y.convert(F32) * math.prod(rest, start=first)
            for other in others:
                y = y + other
            if fused is not None:
                y = apply_unary(s, fused[0], y, fused[1], fused[2])
            if is_quantized:
                return self.quantized_scalar(y, *values[scaled:-1])
            return y if narrow is None else y.convert(narrow).widened()

        k.generic("epilogue", [*addends, *reads], output.at(*d), body, accumulates=not is_apart)

    def label_suffix(self) -> str:
        parts = []
        if self.residual is not None:  # pyright: ignore
            parts.append("add")
        if self.get("activation"):
            parts.append(str(self.get("activation")))
        if self.properties.get("rounding") is not None:
            parts.append("round")
        if self.result_type is not None:
            parts.append("quantize")
        if self.requantizes is not None:
            parts.append("requantize")
        return "".join(f" + {p.replace('_', ' ')}" for p in parts)
