"""Layers of quantized networks as programs of NPU instructions.

    layers/     what layers are, in NumPy, and operations of a program as layers
    tiling/     how they are cut so that two of each buffer fit into the scratchpads
    program/    tiles as instructions with tokens: `compile_layer`
    cost/       cycles predicted from the steps of tiles, with reasons: `predict`

Each imports only those above it. Schedules are plain: the largest tiles, double-buffered.
"""

from explorer.npu.cost.prediction import CycleTerm, Prediction, predict
from explorer.npu.cost.steps import Traffic
from explorer.npu.layers.convolution import Convolution, Placement, matrix_product
from explorer.npu.layers.elementwise import Elementwise, ElementwiseOperand
from explorer.npu.layers.layer import Layer, LayerError, Rescaling
from explorer.npu.layers.matrices import MatrixProduct, Transposition
from explorer.npu.layers.normalization import NormalizationLayer
from explorer.npu.layers.partition import Piece, Pieces
from explorer.npu.layers.softmax import SoftmaxLayer
from explorer.npu.layers.tensors import Tensor, alignment_bytes
from explorer.npu.layers.windows import WindowLayer
from explorer.npu.program.addresses import Addresses, Placed
from explorer.npu.program.compiling import LayerProgram, Tiled, compile_layer, tile_layer

__all__ = [
    "Addresses",
    "Convolution",
    "CycleTerm",
    "Elementwise",
    "ElementwiseOperand",
    "Layer",
    "LayerError",
    "LayerProgram",
    "MatrixProduct",
    "NormalizationLayer",
    "Piece",
    "Pieces",
    "Placed",
    "Placement",
    "Prediction",
    "Rescaling",
    "SoftmaxLayer",
    "Tensor",
    "Tiled",
    "Traffic",
    "Transposition",
    "WindowLayer",
    "alignment_bytes",
    "compile_layer",
    "matrix_product",
    "predict",
    "tile_layer",
]
