"""Attention over keys and values, and the rotation of queries and keys by their positions.

    attention   y = softmax(scale * q k^T, masked, + bias) v
    rotary      y = x * cosine + rotated(x) * sine

Both stand for what models spell out in many ways. References: Vaswani et al., "Attention Is All
You Need", 2017; Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023;
Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import BoolAttr, FloatAttr, TensorType, i1
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

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import Rows, RowWise, SizeContents, Status, aligned_axis, require_rows
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
from explorer.ir.top.reductions.normalization import or_zero, share_of, softmax_of
from explorer.ir.top.support.broadcasting import may_broadcast_to
from explorer.ir.top.support.operands import require_same_type
from explorer.ir.types import (
    Dim,
    Shape,
    element_type_of,
    is_static,
    shape_of,
    static_shape,
    tensor_type,
)

HEADS, ROWS, COLUMNS = -3, -2, -1
"""Axes of queries, keys and values, counted from the end."""

PADDED_KEYS = 16
"""Scores of compiled attention have columns for a multiple of so many keys: whole vectors."""


@irdl_op_definition
class AttentionOp(RowWise):
    """softmax(scale * query key^T, with `fill` where the mask is false, + bias) value

    query: (..., heads, queries, size); key: (..., heads / n, keys, size); value: (..., heads / n,
    keys, columns). Each head of keys and values serves n heads of queries, one behind the other.
    mask (bool) and bias broadcast to the scores, (..., heads, queries, keys). A matrix each, with
    no heads at all, is one head. A row without a score above minus infinity gives NaN; 0 with
    `zero_masked`.
    """

    name = "top.attention"
    FAMILY: ClassVar[str] = "convolution"

    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    scale = prop_def(FloatAttr)
    fill = opt_prop_def(FloatAttr)
    zero_masked = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def masked_score(self) -> float:
        """What stands for a score where the mask is false; minus infinity unless said."""
        return self.get("fill", -np.inf)

    @property
    def is_zero_masked(self) -> bool:
        return self.get("zero_masked", False)

    @property
    def scores_shape(self) -> Shape:
        """(..., heads, queries, keys)"""
        return (*shape_of(self.query)[:COLUMNS], shape_of(self.key)[ROWS])

    @property
    def group(self) -> int | None:
        """How many heads of queries share keys and values; None where that is not known."""
        return head_group(shape_of(self.query), shape_of(self.key))

    def infer_types(self) -> list[Attribute]:
        query, key, value = (shape_of(o) for o in (self.query, self.key, self.value))
        if len({len(query), len(key), len(value)}) != 1 or len(query) < 2:
            raise ValueError(f"attention needs matrices of one rank, not {query}, {key}, {value}")
        _require_same(query[COLUMNS], key[COLUMNS], f"queries {query} and keys {key}: sizes")
        _require_same(key[ROWS], value[ROWS], f"keys {key} and values {value}: rows")
        for axis, sizes in enumerate(zip(query[:HEADS], key[:HEADS], strict=True)):
            _require_same(*sizes, f"queries {query} and keys {key}: axis {axis}")
        for axis, sizes in enumerate(zip(key[:ROWS], value[:ROWS], strict=True)):
            _require_same(*sizes, f"keys {key} and values {value}: axis {axis}")
        if head_group(query, key) == 0:
            raise ValueError(f"{query[HEADS]} heads cannot share {key[HEADS]} of keys")
        self._check_scores(self.mask, "mask")
        self._check_scores(self.bias, "bias")
        numbers = (self.query, self.key, self.value, self.bias)
        require_same_type("queries, keys, values and bias", numbers)
        if self.mask is not None and element_type_of(self.mask) != i1:
            raise ValueError("the mask of an attention is bool; numbers to add are its bias")
        return [tensor_type(element_type_of(self.query), (*query[:COLUMNS], value[COLUMNS]))]

    def carried_axis(self, index: int, axis: int) -> int:
        """Rows are whole examples: each attends to its own keys."""
        moved = aligned_axis(self, index, axis)
        heads = len(shape_of(self.output)) + HEADS
        require_rows(moved < heads, "every row attends to all others")
        return moved

    def check_rows(self, given: Sequence[Status], result: Rows, contents: SizeContents) -> None:
        is_same = all(status == result for status in given[:3])
        require_rows(is_same, "queries, keys and values have other rows")

    def _check_scores(self, operand: SSAValue | None, role: str) -> None:
        if operand is None:
            return
        own, scores = shape_of(operand), self.scores_shape
        if not may_broadcast_to(own, scores):
            raise ValueError(f"a {role} {own} does not broadcast to scores {scores}")

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        query, key, value, *rest = operands
        if query.ndim > 2:
            group = query.shape[HEADS] // max(key.shape[HEADS], 1)
            key, value = (np.repeat(array, group, axis=HEADS) for array in (key, value))
        kind = query.dtype.type
        with np.errstate(all="ignore"):
            scores = np.matmul(query, np.swapaxes(key, -1, -2)) * kind(self.get("scale"))
            if self.mask is not None:
                scores = np.where(rest.pop(0), scores, kind(self.masked_score))
            if self.bias is not None:
                scores = scores + rest.pop(0)
            return (np.matmul(softmax_of(scores, -1, self.is_zero_masked), value),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """The keys transposed, then row by row: scores, softmax, and the sum of values.

        Scores have whole vectors of columns: those behind the last key are minus infinity. The
        weights are divided by their sum at the very end, where there are fewer numbers.
        """
        query, key, value, *rest = inputs
        mask = rest.pop(0) if self.mask is not None else None
        bias = rest.pop(0) if self.bias is not None else None
        kind = element_type(output)
        *batch, queries, size = query.shape
        keys, columns = value.shape[ROWS:]
        group = self.group or 1
        outer = {f"b{axis}": extent for axis, extent in enumerate(batch)}
        if group > 1:
            outer[f"b{len(batch) - 1}"] = batch[-1] // group
            outer["g"] = group

        def heads(d: Sequence[AffineExpr]) -> list[AffineExpr]:
            """The axes in front of a query's matrix."""
            if group == 1:
                return list(d[: len(batch)])
            return [*d[: len(batch) - 1], d[len(batch) - 1] * group + d[len(batch)]]

        shared = key.shape[:ROWS]
        padded = -(-keys // PADDED_KEYS) * PADDED_KEYS
        turned = scratch(k, "turned", (*shared, size, padded), kind)
        scores = scratch(k, "scores", (*batch, queries, padded), kind)
        sums = scratch(k, "sums", (*batch, queries, columns), kind)
        greatest, total, factor = (
            scratch(k, name, (*batch, queries), kind) for name in ("greatest", "total", "factor")
        )
        own = {f"b{axis}": extent for axis, extent in enumerate(shared)}
        if padded != keys:
            d = k.dimensions(**own, d=size, s=padded - keys)
            k.generic("plain", [], turned.at(*d[:-1], d[-1] + keys), lambda s: s.constant(0))
        d = k.dimensions(**own, s=keys, d=size)
        k.generic("plain", [key.at(*d)], turned.at(*d[:-2], d[-1], d[-2]), lambda s, x: x)
        rows = k.dimensions(**outer, m=queries)
        row = [*heads(rows), rows[-1]]
        k.generic("plain", [], greatest.at(*row), lambda s: s.constant(-np.inf))
        k.generic("plain", [], total.at(*row), lambda s: s.constant(0))
        d = k.dimensions(**outer, m=queries, s=padded)
        k.generic("plain", [], scores.at(*heads(d), *d[ROWS:]), lambda s: s.constant(0))
        d = k.dimensions(**outer, m=queries, s=padded, d=size)
        at = heads(d)
        theirs = d[: len(shared)]
        k.generic(
            "plain",
            [query.at(*at, d[-3], d[-1]), turned.at(*theirs, d[-1], d[-2])],
            scores.at(*at, d[-3], d[-2]),
            lambda s, q, t, y: y + q * t,
            reductions="d",
            accumulates=True,
        )
        scale = self.get("scale")
        added = [x for x in (mask, bias) if x is not None]

        def finished(s: ScalarBuilder, *values: Scalar) -> Scalar:
            *others, result = values
            result = result * scale if scale != 1 else result
            if mask is not None:
                result = others.pop(0).select(result, s.constant(self.masked_score))
            return result + others.pop(0) if bias is not None else result

        if padded != keys:
            d = k.dimensions(**outer, m=queries, s=padded - keys)
            target = scores.at(*heads(d), d[-2], d[-1] + keys)
            k.generic("plain", [], target, lambda s: s.constant(-np.inf))
        if added or scale != 1:
            # A factor keeps the minus infinity behind the last key, and masks end with that key.
            width = padded if not added and scale > 0 else keys
            d = k.dimensions(**outer, m=queries, s=width)
            at = [*heads(d), *d[ROWS:]]
            reads = [x.broadcast(at) for x in added]
            k.generic("plain", reads, scores.at(*at), finished, accumulates=True)
        d = k.dimensions(**outer, m=queries, s=padded)
        score, row = scores.at(*heads(d), *d[ROWS:]), [*heads(d), d[ROWS]]
        k.generic(
            "plain",
            [score],
            greatest.at(*row),
            lambda s, x, m: m.maximum(x),
            reductions="s",
            accumulates=True,
        )
        if self.is_zero_masked:
            own = [*heads(rows), rows[-1]]
            k.dimensions(**outer, m=queries)
            k.generic("plain", [], greatest.at(*own), or_zero, accumulates=True)
            k.dimensions(**outer, m=queries, s=padded)
        k.generic("plain", [greatest.at(*row)], score, _exponential, accumulates=True)
        k.generic(
            "plain",
            [score],
            total.at(*row),
            lambda s, x, t: t + x,
            reductions="s",
            accumulates=True,
        )
        k.dimensions(**outer, m=queries)
        row = [*heads(rows), rows[-1]]
        k.generic("plain", [total.at(*row)], factor.at(*row), share_of(self.is_zero_masked))
        d = k.dimensions(**outer, m=queries, c=columns)
        k.generic("plain", [], sums.at(*heads(d), *d[ROWS:]), lambda s: s.constant(0))
        d = k.dimensions(**outer, m=queries, c=columns, s=keys)
        at, theirs = heads(d), d[: len(shared)]
        k.generic(
            "plain",
            [scores.at(*at, d[-3], d[-1]), value.at(*theirs, d[-1], d[-2])],
            sums.at(*at, d[-3], d[-2]),
            lambda s, w, v, y: y + w * v,
            reductions="s",
            accumulates=True,
        )
        d = k.dimensions(**outer, m=queries, c=columns)
        at = heads(d)
        k.generic(
            "plain",
            [sums.at(*at, *d[ROWS:]), factor.at(*at, d[ROWS])],
            output.at(*at, *d[ROWS:]),
            lambda s, y, f: y * f,
        )
        return "attention"

    def kernel_parameters(self) -> dict[str, int]:
        """How many loops stand around the rows of a matrix."""
        batch = len(shape_of(self.query)) - 2
        return {"batch": batch + ((self.group or 1) > 1)}

    def macs(self) -> int:
        """Of both products."""
        if not all(is_static(o) for o in (self.query, self.key, self.value)):
            return 0
        scores = int(np.prod([size for size in self.scores_shape if isinstance(size, int)]))
        return scores * (static_shape(self.query)[COLUMNS] + static_shape(self.value)[COLUMNS])

    def label(self) -> str:
        parts = [part for part in ("mask", "bias") if getattr(self, part) is not None]
        return "attention" + "".join(f" + {part}" for part in parts)


def _exponential(s: ScalarBuilder, greatest: Scalar, score: Scalar) -> Scalar:
    return (score - greatest).unary(math.ExpOp)


def head_group(query: Shape, key: Shape) -> int | None:
    """Heads of queries per head of keys; 0 where they do not divide, None where unknown."""
    if len(query) < 3:
        return 1
    heads, shared = query[HEADS], key[HEADS]
    if not isinstance(heads, int) or not isinstance(shared, int):
        return 1 if heads == shared else None
    if shared == 0:
        return 1 if heads == 0 else 0
    return 0 if heads % shared else heads // shared


def _require_same(a: Dim, b: Dim, what: str) -> None:
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise ValueError(f"{what} {a} and {b} differ")


@irdl_op_definition
class RotaryOp(TopOperation):
    """x * cosine + rotated(x) * sine: pairs of numbers turned by the angles of their position.

    rotated((a, b)) = (-b, a) for the halves a and b of the last axis; with `interleaved`, for its
    even and odd elements. cosine and sine have the last axis of x in full, broadcast to x in all
    others, and are of x's element type.
    """

    name = "top.rotary"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    cosine = operand_def(TensorType)
    sine = operand_def(TensorType)
    interleaved = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    @property
    def is_interleaved(self) -> bool:
        return self.get("interleaved", False)

    def infer_types(self) -> list[Attribute]:
        shape = shape_of(self.input)
        if not shape or (isinstance(shape[-1], int) and shape[-1] % 2):
            raise ValueError(f"rotary needs pairs along the last axis, not {shape}")
        for operand, role in ((self.cosine, "cosine"), (self.sine, "sine")):
            own = shape_of(operand)
            if not own or not may_broadcast_to(own, shape):
                raise ValueError(f"a {role} {own} does not broadcast to {shape}")
            _require_same(own[-1], shape[-1], f"sizes of the {role} and the input:")
            if element_type_of(operand) != element_type_of(self.input):
                raise ValueError(f"the {role} is not of the input's element type")
        return [tensor_type(element_type_of(self.input), shape)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, cosine, sine = operands
        if self.is_interleaved:
            rotated = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
        else:
            first, second = np.split(x, 2, axis=-1)
            rotated = np.concatenate([-second, first], axis=-1)
        return (x * cosine + rotated * sine,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Two statements: the first elements of all pairs, then the second ones."""
        x, cosine, sine = inputs
        size = static_shape(self.input)[-1]
        extents = common_extents(x.shape, output.shape)
        channels = size if x.rank == CHANNELS + 1 else extents[min(CHANNELS, x.rank - 1)]
        extents[-1] = size // 2

        def first(s: ScalarBuilder, a: Scalar, b: Scalar, c: Scalar, t: Scalar) -> Scalar:
            return a * c - b * t

        def second(s: ScalarBuilder, a: Scalar, b: Scalar, c: Scalar, t: Scalar) -> Scalar:
            return a * c + b * t

        for body, own, other in ((first, 0, 1), (second, 1, 0)):
            d = k.dimensions(**domain(extents))

            def at(which: int, d=d):
                last = d[-1] * 2 + which if self.is_interleaved else d[-1] + which * (size // 2)
                return [*d[:-1], last]

            reads = [x.at(*at(own)), x.at(*at(other))]
            reads += [table.broadcast(at(own)) for table in (cosine, sine)]
            k.generic("plain", reads, output.at(*at(own)), body)
        clear_padding_channels(k, output, channels)
        return "copy"
