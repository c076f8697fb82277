"""ONNX: a program of `top` operations as a model that onnxruntime and others run.

model.py         the program as a ModelProto: names, inputs, outputs, constants
file.py          the model as a file; large constants beside it
nodes.py         what writers work with, and how one is declared
elementwise.py   movement.py   linear.py   reductions.py   selection.py   quantization.py
                 control.py    how each operation is written; one file per family
"""

from explorer.exporters.onnx.file import write_onnx
from explorer.exporters.onnx.model import IntegerForm, WeightType, model_of

__all__ = ["IntegerForm", "WeightType", "model_of", "write_onnx"]
