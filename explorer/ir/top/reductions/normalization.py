"""Normalizations: softmax, batch, layer and instance normalization.

    layer_norm   y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + shift

Each definition is a short list of statements: statistics into scratch buffers, then the result.

A mean that is rounded to the type of x may be off by half a step of numbers of its size: where x
has a large offset that is much of its deviation. Means are two numbers therefore: the rounded one,
and what it is off by. Sources: Dekker, "A Floating-Point Technique for Extending the Available
Precision", 1971; Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import Buffer, KernelBuilder, Scalar, ScalarBuilder, Subscript
from explorer.ir.gradients import GradientBuild, Term
from explorer.ir.interfaces import (
    AlongAxis,
    Differentiable,
    MixesAxes,
    Parameterized,
    Quantizable,
    Reshapable,
    Reshaped,
)
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
    element_type,
    scratch,
)
from explorer.ir.top.reductions.domain import ReductionDomain, reduced_shape
from explorer.ir.top.support.operands import (
    may_be_equal,
    require_broadcast,
    require_floats,
    require_same_arithmetic,
)
from explorer.ir.types import (
    Shape,
    element_type_of,
    shape_of,
    tensor_type,
)

Read = tuple[Buffer, Sequence[Subscript]]


class NormalizationOperation(MixesAxes):
    """What they share: the result has the input's type; the input is the first operand."""

    FAMILY: ClassVar[str] = "normalization"
    KEEPS_FINITE: ClassVar[bool] = True

    def infer_types(self) -> list[Attribute]:
        require_floats(self.name, self.operands)
        require_same_arithmetic(f"the operands of {self.name}", self.operands)
        self.check(shape_of(self.operands[0]))
        return [tensor_type(element_type_of(self.operands[0]), shape_of(self.operands[0]))]

    def mixed_axes(self) -> Sequence[int]:
        """All but the first, unless an operation says better: each image by itself."""
        return range(1, len(shape_of(self.operands[0])))

    def check(self, shape: Shape) -> None:
        """ValueError where operands or properties do not fit an input of that shape."""
        raise NotImplementedError(self.name)

    def check_per_channel(self, shape: Shape) -> None:
        """All operands but the first are vectors with one number per channel."""
        if len(shape) < 2:
            raise ValueError(f"{self.name} needs (N, C, ...), not {shape}")
        for operand in self.operands[1:]:
            own = shape_of(operand)
            if len(own) != 1 or not may_be_equal(own[0], shape[CHANNELS]):
                raise ValueError(f"{self.name} of {shape}: one number per channel, not {own}")


@irdl_op_definition
class SoftmaxOp(Differentiable, Quantizable, AlongAxis, NormalizationOperation):
    """exp(x) / sum(exp(x)) along an axis, or its logarithm; the maximum is subtracted first.

    Where an axis has nothing but minus infinity the result is NaN; 0 with `zero_masked`, which
    no logarithm has.
    """

    name = "top.softmax"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    logarithm = prop_def(BoolAttr)
    zero_masked = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def is_quantizable(self) -> bool:
        return False

    @property
    def has_integer_form(self) -> bool:
        return True

    def check(self, shape: Shape) -> None:
        reduced_shape(shape, (self.get("axis"),), True)
        if self.is_zero_masked and self.get("logarithm"):
            raise ValueError("a logarithm of 0 is no number: zero_masked is of softmax itself")

    @property
    def is_zero_masked(self) -> bool:
        return self.get("zero_masked", False)

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        axis = self.get("axis")
        with np.errstate(all="ignore"):
            if self.get("logarithm"):
                shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
                return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)),)
            return (softmax_of(x, axis, self.is_zero_masked),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        logarithm = self.get("logarithm")
        statistics = _Statistics(k, self, (self.get("axis"),), x, output)
        greatest = statistics.reduce("greatest", -np.inf, [], lambda s, x, m: m.maximum(x))
        if logarithm:
            total = statistics.reduce(
                "total", 0, [greatest], lambda s, x, m, t: t + (x - m).unary(math.ExpOp)
            )
            # The maximum is subtracted by itself: added to the logarithm, a large one takes the
            # logarithm's digits away.
            logarithms = statistics.finish("logarithm", [total], lambda s, t: t.unary(math.LogOp))
            statistics.combine([greatest, logarithms], lambda s, x, m, t: (x - m) - t)
        else:
            if self.is_zero_masked:
                statistics.revise(greatest, or_zero)
            total = statistics.start("total", 0)
            statistics.combine([greatest], lambda s, x, m: (x - m).unary(math.ExpOp))
            statistics.update(total, [], lambda s, e, t: t + e, of=output)
            inverse = share_of(self.is_zero_masked)
            factor = statistics.finish("factor", [total], inverse)
            statistics.combine([factor], lambda s, e, f: e * f, of=output)
        statistics.clear_padding()
        return "reduce"

    def label(self) -> str:
        return "log softmax" if self.get("logarithm") else "softmax"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        axes = [self.get("axis")]
        y, gradient = Term(build, self.output), Term(build, g)
        if self.get("logarithm"):
            return (gradient - y.unary("exp") * gradient.sum(axes)).value
        return (y * (gradient - (gradient * y).sum(axes))).value


def softmax_of(x: np.ndarray, axis: int, zero_masked: bool) -> np.ndarray:
    """exp(x - max) / sum(exp(x - max)); with `zero_masked` 0 where the maximum is -inf."""
    greatest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    if zero_masked:
        greatest = np.where(np.isneginf(greatest), x.dtype.type(0), greatest)
    powers = np.exp(x - greatest)
    total = np.sum(powers, axis=axis, keepdims=True)
    return powers / (np.where(total == 0, x.dtype.type(1), total) if zero_masked else total)


def or_zero(s: ScalarBuilder, greatest: Scalar) -> Scalar:
    """A maximum to subtract: 0 in the place of minus infinity, of which differences are NaN."""
    return greatest.compare("eq", -np.inf).select(0.0, greatest)


def share_of(zero_masked: bool) -> Callable[[ScalarBuilder, Scalar], Scalar]:
    """1 / total; with `zero_masked` 0 for the total 0, that of a row of minus infinity."""

    def inverse(s: ScalarBuilder, total: Scalar) -> Scalar:
        share = s.constant(1) / total
        return total.compare("eq", 0).select(0.0, share) if zero_masked else share

    return inverse


FAR = 1e30
"""Differences of larger numbers may be infinite in f32."""


class _Statistics:
    """Statements that reduce some axes into scratch buffers and use these on every element."""

    def __init__(
        self, k: KernelBuilder, op: TopOperation, axes: tuple[int, ...], x: Access, output: Access
    ):
        self.k, self.x, self.output = k, x, output
        self.loops = ReductionDomain.of(op, axes, True, x, output)
        self.outer = len(self.loops.outer_loops)
        extents = {**self.loops.outer, **self.loops.inner}
        names = list(domain([1] * x.rank))
        self.extents = [extents[name] for name in names]

    def reduce(
        self,
        name: str,
        start: float,
        reads: Sequence[Access],
        step: Callable[..., Scalar],
        of: Access | None = None,
    ) -> Access:
        """A scratch buffer over the kept axes; `step(s, x, *reads, so far)`."""
        target = self.start(name, start)
        self.update(target, reads, step, of)
        return target

    def start(self, name: str, start: float) -> Access:
        """A scratch buffer over the kept axes, with what a reduction begins with."""
        return self.finish(name, [], lambda s: s.constant(start))

    def finish(self, name: str, reads: Sequence[Access], body: Callable[..., Scalar]) -> Access:
        """A scratch buffer over the kept axes, computed from others."""
        k, loops = self.k, self.loops
        shape = tuple(loops.outer_loops.values())
        target = scratch(k, name, shape, element_type(self.output))
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [r.at(*d) for r in reads], target.at(*d), body)
        return target

    def revise(self, target: Access, body: Callable[..., Scalar]) -> None:
        """Replaces every number of a buffer by `body(s, number)`."""
        d = self.k.dimensions(**self.loops.outer_loops)
        self.k.generic("plain", [], target.at(*d), body, accumulates=True)

    def update(
        self,
        target: Access,
        reads: Sequence[Access],
        step: Callable[..., Scalar],
        of: Access | None = None,
    ) -> None:
        """Reduces the elements into a buffer that was started."""
        k, loops = self.k, self.loops
        d = k.dimensions(**loops.all_loops)
        outer = d[: self.outer]
        k.generic(
            "plain",
            [(of or self.x).at(*loops.input_subscripts(d)), *[r.at(*outer) for r in reads]],
            target.at(*outer),
            step,
            reductions=loops.reductions,
            accumulates=True,
        )

    def combine(
        self,
        reads: Sequence[Access],
        body: Callable[..., Scalar],
        of: Access | None = None,
        parameters: Callable[[Sequence[AffineExpr]], Sequence[Read]] = lambda d: (),
    ) -> None:
        """The output from every element, the statistics and `parameters(subscripts)`."""
        loops = self.loops
        d = self.k.dimensions(**loops.all_loops)
        subscripts = loops.input_subscripts(d)
        self.k.generic(
            "plain",
            [
                (of or self.x).at(*subscripts),
                *[r.at(*d[: self.outer]) for r in reads],
                *parameters(subscripts),
            ],
            self.output.at(*subscripts),
            body,
        )

    def mean_and_factor(self, epsilon: float) -> tuple[Access, Access, Access]:
        """The mean of x as two numbers, of which the second is small, and 1 / sqrt(variance +
        epsilon).

        With a = x[0] and d = mean(x - a) the mean is m = a + d, and what m is off by is
        r = (a - m) + d (Dekker). The variance is mean((x - m - r)^2).
        """
        share = 1 / max(self.loops.count, 1)
        first = self._first()
        total = self.reduce("total", 0, [first], lambda s, x, a, t: t + (x - a))
        mean = self.finish("mean", [first, total], lambda s, a, t: a + t * share)
        rest = self.finish("rest", [first, total, mean], lambda s, a, t, m: (a - m) + t * share)

        def squares(s: ScalarBuilder, x: Scalar, m: Scalar, r: Scalar, q: Scalar) -> Scalar:
            centered = (x - m) - r
            return q + centered * centered

        factor = self._unit_factor(self.reduce("squares", 0, [mean, rest], squares), epsilon)
        return mean, rest, factor

    def _first(self) -> Access:
        """The first of the numbers that are reduced; 0 for one from which others may be infinitely
        far, or that is none."""
        k, loops = self.k, self.loops
        if not loops.count:
            return self.start("first", 0)
        target = scratch(k, "first", tuple(loops.outer_loops.values()), element_type(self.output))
        d = k.dimensions(**loops.outer_loops)
        zeros = [AffineExpr.constant(0)] * (len(loops.all_loops) - self.outer)

        def limited(s: ScalarBuilder, x: Scalar) -> Scalar:
            return x.unary(math.AbsFOp).compare("lt", FAR).select(x, 0.0)

        k.generic(
            "plain", [self.x.at(*loops.input_subscripts([*d, *zeros]))], target.at(*d), limited
        )
        return target

    def factor_to_unit(self, epsilon: float) -> Access:
        """1 / sqrt(mean of x² + epsilon)"""
        squares = self.reduce("squares", 0, [], lambda s, x, q: q + x * x)
        return self._unit_factor(squares, epsilon)

    def _unit_factor(self, squares: Access, epsilon: float) -> Access:
        count = self.loops.count

        def factor(s: ScalarBuilder, q: Scalar) -> Scalar:
            return s.constant(1) / (q / count + epsilon).unary(math.SqrtOp)

        return self.finish("factor", [squares], factor)

    def clear_padding(self) -> None:
        if self.output.rank > CHANNELS:
            clear_padding_channels(self.k, self.output, self.extents[CHANNELS])


def _normalize(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    centered = x - np.mean(x, axis=axes, keepdims=True)
    centered = centered - np.mean(centered, axis=axes, keepdims=True)
    variance = np.mean(centered**2, axis=axes, keepdims=True)
    return centered / np.sqrt(variance + x.dtype.type(epsilon))


def _scale_to_unit(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    squares = np.mean(x * x, axis=axes, keepdims=True)
    return x / np.sqrt(squares + x.dtype.type(epsilon))


@irdl_op_definition
class BatchNormOp(Differentiable, Parameterized, NormalizationOperation):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, with given statistics per channel."""

    name = "top.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    shift = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FloatAttr)
    output = result_def(TensorType)

    def check(self, shape: Shape) -> None:
        self.check_per_channel(shape)

    def mixed_axes(self) -> Sequence[int]:
        """None: statistics are given."""
        return ()

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *parameters = operands
        scale, shift, mean, variance = (p.reshape(-1, *[1] * (x.ndim - 2)) for p in parameters)
        deviation = np.sqrt(variance + variance.dtype.type(self.get("epsilon")))
        return (((x - mean) / deviation * scale + shift).astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *parameters = inputs
        epsilon = self.get("epsilon")
        extents = common_extents(x.shape, output.shape)
        extents[CHANNELS] = min(extents[CHANNELS], *[p.shape[0] for p in parameters])

        def body(
            s: ScalarBuilder, x: Scalar, scale: Scalar, shift: Scalar, mean: Scalar, var: Scalar
        ) -> Scalar:
            return (x - mean) / (var + epsilon).unary(math.SqrtOp) * scale + shift

        d = k.dimensions(**domain(extents))
        reads = [x.at(*d), *[p.at(d[CHANNELS]) for p in parameters]]
        k.generic("plain", reads, output.at(*d), body)
        clear_padding_channels(k, output, extents[CHANNELS])
        return "elementwise"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """Of each channel, y = (x - mean) r scale + shift with r = 1 / sqrt(variance + epsilon)."""
        rank = build.rank(self.input)
        gradient = Term(build, g)
        scale, _, mean, variance = (
            Term(build, build.reshape(v, [-1, *[1] * (rank - 2)])) for v in self.operands[1:]
        )
        r = 1 / (variance + self.get("epsilon")).unary("sqrt")
        centered = Term(build, self.input) - mean
        parts = (
            lambda: gradient * scale * r,
            lambda: gradient * centered * r,
            lambda: gradient,
            lambda: -(gradient * scale * r),
            lambda: gradient * centered * scale * r * r * r * -0.5,
        )
        found = parts[index]().value
        return found if index == 0 else build.reduce("sum", found, [0, *range(2, rank)])


@irdl_op_definition
class LayerNormOp(Differentiable, Quantizable, Reshapable, NormalizationOperation):
    """Normalizes slices over the axes from `axis` on; scale and shift broadcast to the input.

    Without `centered` the mean is not subtracted: RMS normalization.
    """

    name = "top.layer_norm"

    input = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    shift = opt_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    epsilon = prop_def(FloatAttr)
    centered = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def is_quantizable(self) -> bool:
        return False

    @property
    def has_integer_form(self) -> bool:
        return True

    @property
    def is_centered(self) -> bool:
        """Whether the mean is subtracted: yes unless said."""
        return self.get("centered", True)

    def check(self, shape: Shape) -> None:
        reduced_shape(shape, (self.get("axis"),), True)
        for operand in self.operands[1:]:
            require_broadcast("a scale or shift", shape_of(operand), shape)

    def mixed_axes(self) -> Sequence[int]:
        return range(self.get("axis"), len(shape_of(self.input)))

    def before_reshape(self, around: Sequence[Reshaped]) -> Mapping[str, int]:
        """The normalized axes are the last ones: groups from some axis on, and only they."""
        (own,), first = around, self.get("axis")
        large = [a for a, size in enumerate(own.target) if size != 1]
        inside = [g for g in own.groups if any(a >= first for a in g.target if a in large)]
        if not inside or any(a < first for g in inside for a in g.target if a in large):
            raise ValueError("its axes are none before the reshape")
        return {"axis": min(min(g.source) for g in inside)}

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, scale, shift = self._split(operands)
        axes = tuple(range(self.get("axis"), x.ndim))
        normalize = _normalize if self.is_centered else _scale_to_unit
        result = normalize(x, axes, self.get("epsilon"))
        if scale is not None:
            result = result * scale
        if shift is not None:
            result = result + shift
        return (result.astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, scale, shift = self._split(inputs)
        axes = tuple(range(self.get("axis"), x.rank))
        statistics = _Statistics(k, self, axes, x, output)
        is_centered, epsilon = self.is_centered, self.get("epsilon")
        if is_centered:
            reads = statistics.mean_and_factor(epsilon)
        else:
            reads = (statistics.factor_to_unit(epsilon),)

        def body(s: ScalarBuilder, x: Scalar, *rest: Scalar) -> Scalar:
            others = list(rest[len(reads) :])
            centered = (x - rest[0]) - rest[1] if is_centered else x
            result = centered * rest[len(reads) - 1]
            if scale is not None:
                result = result * others.pop(0)
            return result + others.pop(0) if shift is not None else result

        statistics.combine(
            list(reads),
            body,
            parameters=lambda d: [p.broadcast(d) for p in (scale, shift) if p is not None],
        )
        statistics.clear_padding()
        return "reduce"

    def label(self) -> str:
        return "layer norm" if self.is_centered else "rms norm"

    def _split(self, operands: Sequence) -> tuple:
        """(input, scale or None, shift or None), of whatever type is given."""
        first, *rest = operands
        scale = rest.pop(0) if self.scale is not None else None
        return first, scale, rest.pop(0) if self.shift is not None else None

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """y = n scale + shift with n = (x - mean) r.

        With h = g scale, x gets r (h - mean(h) - n mean(h n)).
        """
        rank = build.rank(self.input)
        axes = list(range(self.get("axis"), rank))
        operand = self.operands[index]
        if operand is self.shift and operand is not self.input:
            return g
        sizes = build.sizes(self.input, axes, "the gradient of a layer norm")
        share = 1 / max(int(np.prod(sizes)), 1)
        x = Term(build, self.input)
        centered = x - x.sum(axes) * share if self.is_centered else x
        variance = (centered * centered).sum(axes) * share
        r = 1 / (variance + self.get("epsilon")).unary("sqrt")
        n = centered * r
        if index:
            return (Term(build, g) * n).value
        h = Term(build, g) if self.scale is None else Term(build, g) * Term(build, self.scale)
        moved = h - n * ((h * n).sum(axes) * share)
        return ((moved - h.sum(axes) * share if self.is_centered else moved) * r).value


@irdl_op_definition
class InstanceNormOp(NormalizationOperation):
    """Normalizes each channel of each image over its spatial axes; scale and shift per channel."""

    name = "top.instance_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    shift = operand_def(TensorType)
    epsilon = prop_def(FloatAttr)
    output = result_def(TensorType)

    def check(self, shape: Shape) -> None:
        self.check_per_channel(shape)
        if len(shape) < 3:
            raise ValueError(f"{self.name} needs spatial axes (N, C, ...), not {shape}")

    def mixed_axes(self) -> Sequence[int]:
        return range(2, len(shape_of(self.input)))

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *parameters = operands
        scale, shift = (p.reshape(-1, *[1] * (x.ndim - 2)) for p in parameters)
        result = _normalize(x, tuple(range(2, x.ndim)), self.get("epsilon"))
        return ((result * scale + shift).astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, scale, shift = inputs
        statistics = _Statistics(k, self, tuple(range(2, x.rank)), x, output)
        statistics.combine(
            statistics.mean_and_factor(self.get("epsilon")),
            lambda s, x, m, r, f, a, b: ((x - m) - r) * f * a + b,
            parameters=lambda d: [scale.at(d[CHANNELS]), shift.at(d[CHANNELS])],
        )
        statistics.clear_padding()
        return "reduce"
