"""ONNX: reading a file, and converting it to `top`.

reading.py      file -> SourceModel: bounded, checked, nothing executed
convert.py      SourceModel -> module and weights
converters.py   which function converts which operator; one file per family of operators
"""

from explorer.importers.onnx.convert import to_top
from explorer.importers.onnx.reading import OnnxContent, from_proto, load

__all__ = ["OnnxContent", "from_proto", "load", "to_top"]
