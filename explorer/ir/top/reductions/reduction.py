"""Reductions: over axes, and the k best along one.

    top.reduce {kind = "mean", axes = [2, 3]}    (1, 16, 8, 8)  ->  (1, 16, 1, 1)

The kinds of `top.reduce` state their NumPy meaning and their three scalar pieces side by side:
start value, step, and what is done at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable, Term
from explorer.ir.interfaces import (
    Blockable,
    ComputesSizes,
    Differentiable,
    Elements,
    MixesAxes,
    Permutable,
    Permutation,
    Permuted,
    Quantizable,
    SizeConstrained,
    SizeContents,
)
from explorer.ir.operation import Access
from explorer.ir.sizes.relations import Relation
from explorer.ir.sizes.symbols import number
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
    element_type,
    highest,
    load_element,
    load_index,
    lowest,
    may_be_nan,
    scratch,
    store_element,
)
from explorer.ir.top.elementwise import apply_unary
from explorer.ir.top.reductions.domain import (
    Axes,
    ReductionDomain,
    permutation_behind,
    reduced_shape,
)
from explorer.ir.top.sizes import expressions
from explorer.ir.top.support.operands import require_floats, require_numbers
from explorer.ir.types import (
    element_type_from_numpy,
    element_type_of,
    shape_of,
    static_shape,
    tensor_type,
)


@dataclass(frozen=True)
class ReductionKind:
    """`meaning(x, axes, keepdims)` on arrays; the rest on scalars, y being the result so far.

    start: the first y, from the element type; step: y after one more element x; finish: the
    result from the last y and the number of elements.
    """

    meaning: Callable[[np.ndarray, Axes, bool], np.ndarray]
    start: Callable[[Attribute], float]
    step: Callable[[ScalarBuilder, Scalar, Scalar], Scalar]
    finish: Callable[[Scalar, int], Scalar] | None = None
    keeps_finite: bool = True


def _sum(x: np.ndarray, axes: Axes, keepdims: bool) -> np.ndarray:
    """Floats are summed in float64: what nearly cancels keeps the digits that it has."""
    is_float = np.issubdtype(x.dtype, np.floating)
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=np.float64 if is_float else x.dtype)


def _mean(x: np.ndarray, axes: Axes, keepdims: bool) -> np.ndarray:
    """Integers truncate towards zero, as in C."""
    if np.issubdtype(x.dtype, np.floating):
        return np.asarray(np.mean(x, axis=axes, keepdims=keepdims, dtype=np.float64))
    total = np.sum(x, axis=axes, keepdims=keepdims)
    count = x.size // max(total.size, 1)
    return np.sign(total) * (np.abs(total) // count)


def _least(x: np.ndarray) -> float:
    """The maximum of nothing."""
    return lowest(element_type_from_numpy(x.dtype))


def _greatest(x: np.ndarray) -> float:
    return highest(element_type_from_numpy(x.dtype))


def _log_sum_exp(x: np.ndarray, axes: Axes, keepdims: bool) -> np.ndarray:
    """log(sum(exp(x))) = m + log(sum(exp(x - m))) with the maximum m, which never overflows."""
    greatest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(greatest), greatest, 0)
    result = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    return result if keepdims else np.squeeze(result, axes)


REDUCTIONS: dict[str, ReductionKind] = {
    "sum": ReductionKind(_sum, lambda t: 0, lambda s, y, x: y + x),
    "mean": ReductionKind(_mean, lambda t: 0, lambda s, y, x: y + x, lambda y, count: y / count),
    "max": ReductionKind(
        lambda x, axes, keep: np.max(x, axis=axes, keepdims=keep, initial=_least(x)),
        lowest,
        lambda s, y, x: y.maximum(x),
    ),
    "min": ReductionKind(
        lambda x, axes, keep: np.min(x, axis=axes, keepdims=keep, initial=_greatest(x)),
        highest,
        lambda s, y, x: y.minimum(x),
    ),
    "prod": ReductionKind(
        lambda x, axes, keep: np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype),
        lambda t: 1,
        lambda s, y, x: y * x,
    ),
    "l1": ReductionKind(
        lambda x, axes, keep: _sum(np.abs(x), axes, keep),
        lambda t: 0,
        lambda s, y, x: y + apply_unary(s, "abs", x, 0, 0),
    ),
    "l2": ReductionKind(
        lambda x, axes, keep: np.sqrt(_sum(x * x, axes, keep)),
        lambda t: 0,
        lambda s, y, x: y + x * x,
        lambda y, count: y.unary(math.SqrtOp),
    ),
    "sum_square": ReductionKind(
        lambda x, axes, keep: _sum(x * x, axes, keep),
        lambda t: 0,
        lambda s, y, x: y + x * x,
    ),
    "log_sum": ReductionKind(
        lambda x, axes, keep: np.log(_sum(x, axes, keep)),
        lambda t: 0,
        lambda s, y, x: y + x,
        lambda y, count: y.unary(math.LogOp),
        keeps_finite=False,
    ),
    "log_sum_exp": ReductionKind(
        _log_sum_exp,
        lambda t: 0,
        lambda s, y, x: y + x.unary(math.ExpOp),
        lambda y, count: y.unary(math.LogOp),
    ),
}


REAL_KINDS = ("l2", "log_sum", "log_sum_exp")
"""Kinds of floats only: roots and logarithms."""


@irdl_op_definition
class ReduceOp(Differentiable, Quantizable, ComputesSizes, MixesAxes, Permutable, Blockable):
    """Reduces `axes` (non-negative) to one element each: sum, mean, max, l2, log_sum_exp ...

    Without axes every element is reduced by itself.
    """

    name = "top.reduce"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase)
    keepdims = prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def table(self) -> ReductionKind:
        return REDUCTIONS[self.kind.data]

    @property
    def keeps_finite(self) -> bool:
        return self.table.keeps_finite

    @property
    def is_quantizable(self) -> bool:
        return self.kind.data in ("mean", "sum")

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in REDUCTIONS:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(REDUCTIONS)}")
        if self.kind.data in REAL_KINDS:
            require_floats(f"{self.name} {self.kind.data}", [self.input])
        elif self.kind.data not in ("max", "min"):
            require_numbers(f"{self.name} {self.kind.data}", self.input)
        shape = reduced_shape(shape_of(self.input), self.get("axes"), self.get("keepdims"))
        return [tensor_type(element_type_of(self.input), shape)]

    @property
    def keeps_mixed_axes(self) -> bool:
        return self.get("keepdims")

    def mixed_axes(self) -> Sequence[int]:
        return self.get("axes")

    def why_not_blocked(self, block: int) -> str:
        is_whole = self.get("keepdims") and set(self.get("axes")) <= {2, 3}
        return "" if is_whole else "it does not reduce whole planes"

    def permuted(self, permutation: Permutation) -> Permuted:
        axes = self.get("axes")
        moved = {"axes": sorted(permutation[a] for a in axes)}
        return Permuted(moved, permutation_behind(permutation, axes, self.get("keepdims")))

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        """Of a vector: how many elements a tensor has, or a sum of sizes."""
        x, is_product = elements(self.input), self.kind.data == "prod"
        if x is None or self.kind.data not in ("prod", "sum"):
            return None
        if x.ndim != 1 or not self.get("axes"):
            return None
        total = number(1 if is_product else 0)
        for element in x:
            total = total * element if is_product else total + element
        return expressions([total]).reshape((1,) if self.get("keepdims") else ())

    @property
    def is_exact_for_sizes(self) -> bool:
        return False

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        with np.errstate(all="ignore"):
            result = self.table.meaning(x, self.get("axes"), self.get("keepdims"))
        return (np.asarray(result).astype(x.dtype),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        (x,) = inputs
        loops = ReductionDomain.of(self, self.get("axes"), self.get("keepdims"), x, output)
        if self.kind.data == "log_sum_exp":
            self._define_log_sum_exp(k, loops, x, output)
        else:
            table = self.table
            start = table.start(element_type(output))
            self._accumulate(k, loops, x, output, start, table.step)
            finish = table.finish
            if finish is not None:
                d = k.dimensions(**loops.outer_loops)
                k.generic(
                    "epilogue",
                    [],
                    output.at(*loops.output_subscripts(d)),
                    lambda s, y: finish(y, loops.count),
                    accumulates=True,
                )
        clear_padding_channels(k, output, loops.covered_channels(output))
        return "reduce"

    @staticmethod
    def _accumulate(
        k: KernelBuilder,
        loops: ReductionDomain,
        x: Access,
        output: Access,
        start: float,
        step: Callable[[ScalarBuilder, Scalar, Scalar], Scalar],
    ) -> None:
        d = k.dimensions(**loops.outer_loops)
        k.generic("init", [], output.at(*loops.output_subscripts(d)), lambda s: s.constant(start))
        d = k.dimensions(**loops.all_loops)
        k.generic(
            "main",
            [x.at(*loops.input_subscripts(d))],
            output.at(*loops.output_subscripts(d)),
            lambda s, x, y: step(s, y, x),
            reductions=loops.reductions,
            accumulates=True,
        )

    @staticmethod
    def _define_log_sum_exp(
        k: KernelBuilder, loops: ReductionDomain, x: Access, output: Access
    ) -> None:
        """The maximum first, into scratch: exp is taken of differences to it."""
        shape = tuple(loops.outer_loops.values())
        greatest = scratch(k, "greatest", shape, element_type(output))
        outer = len(shape)

        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], greatest.at(*d), lambda s: s.constant(-np.inf))
        d = k.dimensions(**loops.all_loops)
        k.generic(
            "plain",
            [x.at(*loops.input_subscripts(d))],
            greatest.at(*d[:outer]),
            lambda s, x, m: m.maximum(x),
            reductions=loops.reductions,
            accumulates=True,
        )
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], greatest.at(*d), lambda s, m: _finite(m), accumulates=True)
        k.generic("plain", [], output.at(*loops.output_subscripts(d)), lambda s: s.constant(0))
        d = k.dimensions(**loops.all_loops)
        k.generic(
            "plain",
            [x.at(*loops.input_subscripts(d)), greatest.at(*d[:outer])],
            output.at(*loops.output_subscripts(d)),
            lambda s, x, m, y: y + (x - m).unary(math.ExpOp),
            reductions=loops.reductions,
            accumulates=True,
        )
        d = k.dimensions(**loops.outer_loops)
        k.generic(
            "plain",
            [greatest.at(*d)],
            output.at(*loops.output_subscripts(d)),
            lambda s, m, y: y.unary(math.LogOp) + m,
            accumulates=True,
        )

    def label(self) -> str:
        return f"reduce {self.kind.data.replace('_', ' ')}"

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        axes, kind = list(self.get("axes")), self.kind.data
        kept = [1 if a in axes else size for a, size in enumerate(build.all_sizes(self.input))]
        g = build.reshape(g, kept)
        x, y = Term(build, self.input), Term(build, build.reshape(self.output, kept))
        if kind in ("max", "min"):
            # Equal extremes share the gradient.
            hit = Term(build, build.cast(x.compare("equal", y).value, build.dtype(self.input)))
            return (Term(build, g) * hit / hit.sum(axes)).value
        if kind == "mean":
            sizes = build.sizes(self.input, axes, "the gradient of a mean")
            return build.expand(
                build.scaled(g, 1 / max(np.prod(sizes), 1)), build.all_sizes(self.operands[0])
            )
        slopes: Mapping[str, Callable[[], Term]] = {
            "sum": lambda: x.of(1),
            "l1": lambda: x.unary("sign"),
            "l2": lambda: x / y,
            "sum_square": lambda: x * 2,
            "log_sum": lambda: (-y).unary("exp"),
            "log_sum_exp": lambda: (x - y).unary("exp"),
        }
        if kind not in slopes:
            raise NotDifferentiable
        return build.expand(
            (Term(build, g) * slopes[kind]()).value, build.all_sizes(self.operands[0])
        )


def _finite(value: Scalar) -> Scalar:
    """The value itself if it is finite, else 0."""
    return value.unary(math.AbsFOp).compare("lt", np.inf).select(value, 0.0)


@irdl_op_definition
class TopKOp(MixesAxes, SizeConstrained):
    """The k greatest (or least) elements along an axis, best first, and their positions (i64).

    Of equal elements the one that stands first comes first. NaN is greater than any number.
    """

    name = "top.top_k"
    FAMILY: ClassVar[str] = "reduction"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    k = prop_def(IntegerAttr)
    axis = prop_def(IntegerAttr)
    largest = prop_def(BoolAttr)
    values = result_def(TensorType)
    indices = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, axis, count = shape_of(self.input), self.get("axis"), self.get("k")
        reduced_shape(shape, (axis,), True)
        size = shape[axis]
        if count < 0 or (isinstance(size, int) and count > size):
            raise ValueError(f"the best {count} of {size} elements: 0 to {size} expected")
        result = (*shape[:axis], count, *shape[axis + 1 :])
        return [tensor_type(element_type_of(self.input), result), tensor_type(i64, result)]

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        yield "at least", shape_of(self.input)[self.get("axis")], self.get("k")

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        axis, size = self.get("axis"), x.shape[self.get("axis")]
        if self.get("largest"):
            # Sorting the mirrored axis upwards and reading it backwards keeps the first of equals.
            upwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
            order = size - 1 - np.flip(upwards, axis)
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        indices = np.take(order, np.arange(self.get("k")), axis=axis).astype(np.int64)
        return np.take_along_axis(x, indices, axis), indices

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        """The next best is the best of those that come after the previous one in the order.

        output: values; others: indices. k times the axis is walked, without memory of its own.
        """
        (x,), (indices,) = inputs, others
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]
        predicate = "gt" if self.get("largest") else "lt"
        extents = common_extents(x.shape, output.shape)
        extents[axis] = self.get("k")
        loops = domain(extents)
        rank_loop = list(loops)[axis]
        outer = {n: e for n, e in loops.items() if n != rank_loop}
        ordered = {**outer, rank_loop: self.get("k"), "candidate": size}
        parallel = " ".join(outer)

        def at(by_name: dict[str, Scalar], position: Scalar) -> list[Scalar]:
            return [position if name == rank_loop else by_name[name] for name in loops]

        def precedes(first: Scalar, second: Scalar) -> Scalar:
            is_before = first.compare(predicate, second)
            if not may_be_nan(x):
                return is_before
            greater, less = (first, second) if self.get("largest") else (second, first)
            is_nan = greater.compare("ne", greater).logical_and(less.compare("eq", less))
            return is_before.logical_or(is_nan)

        def both_are_nan(first: Scalar, second: Scalar) -> Scalar:
            return first.compare("ne", first).logical_and(second.compare("ne", second))

        def search(s: ScalarBuilder, *loop_indices: Scalar) -> None:
            by_name = dict(zip(ordered, loop_indices, strict=True))
            rank, candidate = by_name[rank_loop], by_name["candidate"]
            last = load_index(s, indices, at(by_name, (rank - 1).maximum(0)), size)
            present = load_element(s, indices, at(by_name, rank))
            best = load_index(s, indices, at(by_name, rank), size)
            value = load_element(s, x, at(by_name, candidate))
            last_value = load_element(s, x, at(by_name, last))
            best_value = load_element(s, x, at(by_name, best))
            is_equal = last_value.compare("eq", value)
            follows, is_greater = precedes(last_value, value), precedes(value, best_value)
            if may_be_nan(x):
                is_equal = is_equal.logical_or(both_are_nan(last_value, value))
            follows = follows.logical_or(is_equal.logical_and(candidate.compare("gt", last)))
            is_open = rank.compare("eq", 0).logical_or(follows)
            is_better = present.compare("lt", 0).logical_or(is_greater)
            chosen = is_open.logical_and(is_better).select(candidate.convert(i64), present)
            store_element(s, chosen, indices, at(by_name, rank))

        def fetch(s: ScalarBuilder, *loop_indices: Scalar) -> None:
            by_name = dict(zip(loops, loop_indices, strict=True))
            target = [by_name[name] for name in loops]
            best = load_index(s, indices, target, size)
            store_element(s, load_element(s, x, at(by_name, best)), output, target)

        d = k.dimensions(**loops)
        k.generic("plain", [], indices.at(*d), lambda s: s.constant(-1))
        k.nest(ordered, search, parallel=parallel)
        k.nest(loops, fetch, parallel=" ".join(loops))
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, extents[CHANNELS])
            clear_padding_channels(k, indices, extents[CHANNELS])
        return "explicit"

    def label(self) -> str:
        return f"top {self.get('k')}"
