"""ONNX: reading a file, and converting it to `top`.

reading.py      file -> SourceModel: bounded, checked, nothing executed
convert.py      SourceModel -> module and weights
source.py       SourceModel -> the model as it is, as a program
decomposition.py  one rewrite for every node, from that program to the module
converters.py   which function converts which operator; one file per family of operators
"""

from explorer.importers.onnx.convert import to_top
from explorer.importers.onnx.opening import examine, open_program
from explorer.importers.onnx.reading import OnnxContent, from_proto, load

__all__ = ["OnnxContent", "examine", "from_proto", "load", "open_program", "to_top"]
