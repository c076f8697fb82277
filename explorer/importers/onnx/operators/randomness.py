"""Random numbers: drawn while importing, so that a model gives the same result every time.

The numbers are constants of the program. They follow from the node's seed, or from its name where
it has none; they are not those of any other runtime, and ONNX demands no certain ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import onnx

from explorer.importers.building.expr import Expr
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.file.tensors import dtype_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.reductions.arg import ArgOp


@converts("RandomUniform", "RandomNormal")
def random_tensor(node: Node, build: Build) -> Expr:
    data_type = node.integer("dtype", onnx.TensorProto.FLOAT)
    dtype = dtype_of(data_type, "the result")
    return _drawn(node, node.integers("shape") or (), dtype, build)


@converts("RandomUniformLike", "RandomNormalLike")
def random_like(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    dtype = x.dtype
    if "dtype" in node.attributes:
        dtype = dtype_of(node.integer("dtype"), "the result")
    return _drawn(node, x.sizes(range(x.rank), "a random tensor"), dtype, build)


@converts("Multinomial", since=7)
def multinomial(node: Node, build: Build) -> Expr:
    """Classes drawn by logarithms of their weights: the best of log(weight) + Gumbel noise."""
    x, count = node.operand(0), node.integer("sample_size", 1)
    rows, classes = x.sizes([0, 1], "Multinomial")
    noise = _generator(node).gumbel(size=(rows, count, classes)).astype(x.dtype)
    scores = x.unsqueeze([1]) + build.weight(noise)
    best = build.value(ArgOp, [scores], kind="max", axis=2, keepdims=False, select_last=False)
    data_type = node.integer("dtype", onnx.TensorProto.INT32)
    return best.astype(dtype_of(data_type, "the result"))


def _drawn(node: Node, shape: Sequence[int], dtype: np.dtype, build: Build) -> Expr:
    check_size(shape, 8, "a random tensor", node.name)
    generator = _generator(node)
    if node.operator.startswith("RandomUniform"):
        numbers = generator.uniform(node.number("low", 0.0), node.number("high", 1.0), shape)
    else:
        numbers = generator.normal(node.number("mean", 0.0), node.number("scale", 1.0), shape)
    return build.weight(numbers.astype(dtype))


def _generator(node: Node) -> np.random.Generator:
    if "seed" in node.attributes:
        bits = np.float64(node.number("seed")).tobytes()
    else:
        bits = node.name.encode()
    return np.random.default_rng(zlib.crc32(bits))
