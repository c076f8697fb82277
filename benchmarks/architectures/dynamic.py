"""Transformers as `onnxruntime.quantization.quantize_dynamic` writes them.

    x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul (both scales) -> Add (bias)

Weights are signed bytes with one scale per matrix, its default, or one per column. Activations get
their scale when the model runs. Sizes: a feed-forward and an attention block as BERT-base has them;
Turc et al., "Well-Read Students Learn Better", 2019 (BERT-small: 4 layers, width 512, 8 heads).
"""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from architectures.graph import Graph
from architectures.transformers import attention, bert

ROWS, WIDTH, HEADS = 64, 768, 12


def dynamic_feed_forward() -> onnx.ModelProto:
    """64 x 768 x 3072 x 768 with a relu."""
    return quantized(feed_forward())


def dynamic_feed_forward_columns() -> onnx.ModelProto:
    """The same with a scale for each column of the weights."""
    return quantized(feed_forward(), per_channel=True)


def dynamic_attention() -> onnx.ModelProto:
    """Self-attention of 64 tokens; the four products with weights are quantized."""
    return quantized(attention_block())


def dynamic_attention_products() -> onnx.ModelProto:
    """The same, and the products of queries, keys and values are quantized, too."""
    return quantized(attention_block(), of_activations=True)


def dynamic_bert_small() -> onnx.ModelProto:
    return quantized(bert("bert_small", layers=4, tokens=128, width=512, heads=8))


def feed_forward() -> onnx.ModelProto:
    graph = Graph("feed_forward", {"x": (ROWS, WIDTH)})
    hidden = graph.node("Relu", [graph.dense("x", WIDTH, 4 * WIDTH)])
    y = graph.dense(hidden, 4 * WIDTH, WIDTH)
    return graph.model({y: (ROWS, WIDTH)})


def attention_block() -> onnx.ModelProto:
    graph = Graph("attention", {"x": (1, ROWS, WIDTH)})
    return graph.model({attention(graph, "x", ROWS, WIDTH, HEADS): (1, ROWS, WIDTH)})


def quantized(
    model: onnx.ModelProto, per_channel: bool = False, of_activations: bool = False
) -> onnx.ModelProto:
    """The model with its products quantized; `of_activations`: those of two activations, too."""
    logging.getLogger().setLevel(logging.ERROR)  # it recommends to preprocess the model
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "float.onnx"), Path(folder, "quantized.onnx")
        onnx.save(model, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=per_channel,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": not of_activations},
        )
        return onnx.load(target)
