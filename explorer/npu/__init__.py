"""Layers of quantized networks as programs of NPU instructions.

    layer.py      what a layer is; a convolution in integers, and its meaning in NumPy
    elementwise.py    sums, products and maxima of two tensors with scales of their own
    averages.py       averages that are divided as whole numbers are
    pieces.py     several convolutions that write positions of one result
    matrices.py   products of matrices that are computed, and transpositions
    rows.py       what makes rows of all channels, of which softmax.py and normalization.py are
    windows.py    maxima of windows and functions by table
    tensors.py    tensors in global memory, in the one layout of all layers
    program.py    any layer as a program with its image: `compile_layer`
    cost.py       cycles predicted from its tiles, with reasons: `predict`

Below these, by engine:

    tiles.py      how a convolution is cut so that two of each buffer fit into the scratchpads
    borders.py    padding that loads cannot write
    layouts.py    weights and constants as the array takes them
    convolution_program.py    its tiles as instructions, with the tokens of double buffering
    matrices_program.py       products of computed matrices: tiles and instructions
    vectors.py    how layers of the vector engine are cut
    vector_program.py         their tiles as instructions; window_program.py,
                  elementwise_program.py and row_program.py what is computed
    places.py     where tensors and constants lie in global memory
    stream.py     what all write instructions with
    micro.py      micro-operations, and what of them lies in their scratchpad
    steps.py      what a layer does one by one, how long each takes, and what it occupies

Schedules are plain: the largest tiles, double-buffered.
"""

from explorer.npu.cost import CycleTerm, Prediction, predict
from explorer.npu.elementwise import Elementwise, ElementwiseOperand
from explorer.npu.layer import (
    Convolution,
    Layer,
    LayerError,
    Placement,
    Rescaling,
    matrix_product,
)
from explorer.npu.matrices import MatrixProduct, Transposition
from explorer.npu.normalization import NormalizationLayer
from explorer.npu.pieces import Piece, Pieces
from explorer.npu.places import Addresses, Placed
from explorer.npu.program import LayerProgram, Tiled, compile_layer, tile_layer
from explorer.npu.softmax import SoftmaxLayer
from explorer.npu.steps import Traffic
from explorer.npu.tensors import Tensor, alignment_bytes
from explorer.npu.windows import WindowLayer

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
