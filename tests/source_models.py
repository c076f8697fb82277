"""Small ONNX models written as text, with seeded random weights.

    model = source_model(tmp_path, '''small (float[1,3,8,8] x) => (float[1,4,8,8] y)
        <float[4,3,3,3] w> { y = Conv <pads = [1,1,1,1]> (x, w) }''')

Test modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

import zlib
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from explorer.importers import SourceModel, load

SEPARABLE = """
network (float[1,4,8,8] x) => (float[1,5] y)
<float[8,4,3,3] w1, float[8] b1, float[8,1,3,3] w2, float[6,4,3,3] w3, float[6,5] w4> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads = [2,1,2,1], dilations = [2,1], group = 8> (r1, w2)
  r2 = Relu (c2)
  c3 = Conv <strides = [2,1], group = 2> (r2, w3)
  r3 = Relu (c3)
  g = GlobalAveragePool (r3)
  f = Flatten (g)
  y = MatMul (f, w4)
}
"""
"""Convolutions with groups, strides and dilations, a mean and a product."""

HEADER = '<ir_version: 9, opset_import: ["" : 17]>\n'


def source_model(folder: Path, graph: str, **arrays: np.ndarray) -> SourceModel:
    """The model of a graph in ONNX's text form. What it declares in `<...>` becomes a weight:
    the one of `arrays`, else random, by name, so small that sums over a filter stay near 1."""
    model = onnx.parser.parse_model(HEADER + graph)
    for declared in list(model.graph.value_info):
        shape = tuple(d.dim_value for d in declared.type.tensor_type.shape.dim)
        array = arrays.get(declared.name, _random(declared.name, shape))
        model.graph.initializer.append(numpy_helper.from_array(array, declared.name))
        model.graph.value_info.remove(declared)
    path = folder / f"{model.graph.name}.onnx"
    onnx.save(model, path)
    return load(path)


def _random(name: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    scale = 1 / np.sqrt(max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 1.0
    array = random.normal(size=shape) * scale
    # A name that ends so is a variance or the like: positive.
    return np.asarray(np.abs(array) + 0.5 if name.endswith("variance") else array, np.float32)


CHAIN = """
chain (float[1,3,8,8] x) => (float[1,4,8,8] y)
<float[8,3,3,3] w1, float[8] b1, float[8] scale, float[8] shift, float[8] mean, float[8] variance,
 float[4,8,3,3] w2, float[4] b2> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  n1 = BatchNormalization (c1, scale, shift, mean, variance)
  r1 = Relu (n1)
  c2 = Conv <pads = [1,1,1,1]> (r1, w2, b2)
  y = Relu (c2)
}
"""
