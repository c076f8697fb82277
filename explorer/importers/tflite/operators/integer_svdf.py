"""SVDF of bytes: features of 8 bits, their memory and its weights of 16.

    features   sums of x, requantized to the memory's 16 bits          the newest column of it
    y          sums of memory times weights over time and rank, and a bias, requantized

Source: tensorflow/lite/kernels/internal/reference/svdf.h, `EvalIntegerSVDF`, with the ratios of
svdf.cc, which are singles.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType

X, FEATURES, TIMES, BIAS, STATE = range(5)


def integer_svdf(node: TfliteNode, build: Build) -> tuple[Expr, Expr]:
    """The result, and the memory for the next run."""
    kinds = [kind_of(node.tensor(place)) for place in (X, FEATURES, TIMES, STATE)]
    to = node.result_kind
    known = [kind for kind in (*kinds, to) if kind is not None and kind.is_per_tensor]
    if len(known) != 5 or known[2].storage != known[3].storage or known[3] != kinds[3]:
        raise Unsupported("SVDF of bytes whose memory and weights over time have no 16 bits")
    x, features, times, held, made = known
    filters, memory = node.plain(TIMES).sizes(range(2), "filters over time")
    rank = node.integer("rank", 1)
    if rank < 1 or filters % rank:
        raise ValueError(f"{filters} filters of rank {rank}")
    columns = node.operand(FEATURES, build).transpose([1, 0])
    sums = as_stored(node.operand(X, build) @ columns, build)
    first = float(x.scale_array[0] * features.scale_array[0] / held.scale_array[0])
    newest = as_stored(rescaled(sums, first, held, build), build)
    state = as_stored(node.operand(STATE, build), build).reshape([-1, filters, memory])
    kept = state.slice(2, 1, memory)
    state = build.concat([kept, newest.unsqueeze([2])], 2)
    wide, weights = (
        value.astype(np.int32) for value in (state, as_stored(node.operand(TIMES, build), build))
    )
    total = (wide * weights).sum([2]).reshape([-1, filters // rank, rank]).sum([2])
    if node.has(BIAS):
        total = total + node.plain(BIAS)
    second = float(held.scale_array[0] * times.scale_array[0] / made.scale_array[0])
    result = rescaled(total, second, made, build)
    return result, as_quantized(state.reshape([-1, filters * memory]), held, build)


def rescaled(x: Expr, ratio: float, to: QuantizedType, build: Build) -> Expr:
    """Plain sums of 32 bits times a ratio, as numbers of a type; its scale is not looked at."""
    source = QuantizedType.get(IntegerType(32), [ratio], [0])
    unit = QuantizedType.get(to.storage, [1.0], to.zero_point_array.tolist())
    by = RequantizationAttr.get(unit, DOUBLE)
    numbers = build.value(RequantizeOp, [as_quantized(x, source, build)], by=by)
    return as_quantized(as_stored(numbers, build), to, build)
