"""Transformer encoders: two layers as BERT-base has them, and ViT-Ti/16.

References: Devlin et al., BERT, NAACL 2019 (normalization after the sum, exact GELU); Touvron et
al., Training data-efficient image transformers, ICML 2021, table 1 (DeiT-Ti: 12 layers, width 192,
3 heads; normalization before each branch, as in Dosovitskiy et al., ICLR 2021).
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from architectures.graph import Graph


def bert_2x768(
    layers: int = 2, tokens: int = 128, width: int = 768, heads: int = 12
) -> onnx.ModelProto:
    return bert("bert_2x768", layers, tokens, width, heads)


def bert(name: str, layers: int, tokens: int, width: int, heads: int) -> onnx.ModelProto:
    """Encoder layers over embedded tokens, (1, tokens, width) -> the same shape."""
    graph = Graph(name, {"embeddings": (1, tokens, width)})
    x = graph.layer_normalization("embeddings", width, 1e-12)
    for _ in range(layers):
        y = attention(graph, x, tokens, width, heads)
        x = graph.layer_normalization(graph.node("Add", [y, x]), width, 1e-12)
        y = _feed_forward(graph, x, width)
        x = graph.layer_normalization(graph.node("Add", [y, x]), width, 1e-12)
    return graph.model({x: (1, tokens, width)})


def vit_tiny(
    layers: int = 12, width: int = 192, heads: int = 3, patch: int = 16
) -> onnx.ModelProto:
    """A classifier of a 224x224 image in patches, 197 tokens with the class token."""
    graph = Graph("vit_tiny", {"image": (1, 3, 224, 224)})
    side = 224 // patch
    tokens = side * side + 1
    filters = graph.normal((width, 3, patch, patch), math.sqrt(1 / (3 * patch * patch)))
    x = graph.node(
        "Conv",
        ["image", filters, graph.normal((width,), 0.01)],
        kernel_shape=[patch, patch],
        strides=[patch, patch],
    )
    x = graph.node("Transpose", [graph.reshape(x, (1, width, side * side))], perm=[0, 2, 1])
    x = graph.node("Concat", [graph.normal((1, 1, width), 0.02), x], axis=1)
    x = graph.node("Add", [x, graph.normal((1, tokens, width), 0.02)])
    for _ in range(layers):
        y = attention(graph, graph.layer_normalization(x, width, 1e-6), tokens, width, heads)
        x = graph.node("Add", [x, y])
        y = _feed_forward(graph, graph.layer_normalization(x, width, 1e-6), width)
        x = graph.node("Add", [x, y])
    x = graph.layer_normalization(x, width, 1e-6)
    first = graph.node("Gather", [x, graph.weight(_index(0))], axis=1)
    weight = graph.normal((1000, width), math.sqrt(1 / width))
    scores = graph.node("Gemm", [first, weight, graph.normal((1000,), 0.01)], transB=1)
    return graph.model({scores: (1, 1000)})


# -- parts -----------------------------------------------------------------------------------------


def attention(graph: Graph, x: str, tokens: int, width: int, heads: int) -> str:
    """Multi-head self-attention, (1, tokens, width) -> the same shape."""
    depth = width // heads

    def heads_of(order: tuple[int, ...]) -> str:
        split = graph.reshape(graph.dense(x, width, width), (1, tokens, heads, depth))
        return graph.node("Transpose", [split], perm=order)

    query, key, value = heads_of((0, 2, 1, 3)), heads_of((0, 2, 3, 1)), heads_of((0, 2, 1, 3))
    scores = graph.node("MatMul", [query, key])
    scores = graph.node("Div", [scores, graph.number(math.sqrt(depth))])
    weighted = graph.node("MatMul", [graph.node("Softmax", [scores], axis=-1), value])
    joined = graph.node("Transpose", [weighted], perm=[0, 2, 1, 3])
    return graph.dense(graph.reshape(joined, (1, tokens, width)), width, width)


def _feed_forward(graph: Graph, x: str, width: int) -> str:
    """Four times as wide within, GELU by the error function."""
    hidden = graph.dense(x, width, 4 * width)
    error = graph.node("Erf", [graph.node("Div", [hidden, graph.number(math.sqrt(2))])])
    gate = graph.node("Add", [error, graph.number(1.0)])
    gelu = graph.node("Mul", [graph.node("Mul", [hidden, gate]), graph.number(0.5)])
    return graph.dense(gelu, 4 * width, width)


def _index(value: int) -> np.ndarray:
    return np.array(value, np.int64)
