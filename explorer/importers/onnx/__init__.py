"""ONNX: reading a file, and converting it to `top`.

file/           file -> SourceModel: bounded, checked, nothing executed
convert.py      SourceModel -> module and weights
source.py       SourceModel -> the model as it is, as a program
converters.py   which function converts which operator; one file per family of operators, in
                operators/, images/, layers/ and contrib/ (other domains)
program/        what converters work with: nodes, values, what is built
"""

from explorer.importers.onnx.convert import to_top
from explorer.importers.onnx.file.reading import OnnxContent, from_proto, load
from explorer.importers.onnx.opening import examine, open_program

__all__ = ["OnnxContent", "examine", "from_proto", "load", "open_program", "to_top"]
