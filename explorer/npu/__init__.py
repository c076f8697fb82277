"""Layers of quantized networks as programs of NPU instructions.

    layer.py      what is computed: a convolution in integers, and its meaning in NumPy
    tiles.py      how it is cut so that two of each buffer fit into the scratchpads
    windows.py    maxima of windows and functions by table, and their tiles
    layouts.py    arrays as elements of global memory, and back
    program.py    tiles as instructions, with the tokens of double buffering
    window_program.py    the same for maxima and tables
    stream.py     what both write instructions with
    micro.py      micro-operations, and what of them lies in their scratchpad
    traffic.py    bytes and multiply-accumulates of a tiled layer, without running it
    steps.py      what its tiles do one by one, how long each takes, and what it occupies
    cost.py       cycles predicted from the steps, with reasons

Schedules are plain: the largest tiles, double-buffered. Whole networks are not compiled yet.
"""

from explorer.npu.cost import CycleTerm, Prediction, predict
from explorer.npu.layer import Convolution, LayerError, Rescaling, matrix_product
from explorer.npu.program import LayerProgram, compile_layer
from explorer.npu.tiles import TiledLayer, tile_layer
from explorer.npu.traffic import Traffic, traffic_of
from explorer.npu.window_program import WindowProgram, compile_windows
from explorer.npu.windows import WindowLayer

__all__ = [
    "Convolution",
    "CycleTerm",
    "LayerError",
    "LayerProgram",
    "Prediction",
    "Rescaling",
    "TiledLayer",
    "Traffic",
    "WindowLayer",
    "WindowProgram",
    "compile_layer",
    "compile_windows",
    "matrix_product",
    "predict",
    "tile_layer",
    "traffic_of",
]
