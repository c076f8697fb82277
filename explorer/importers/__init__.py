"""Model files in, `top` modules out: one package per format.

    model = load("net.onnx")                        SourceModel: names, types, nodes of the file
    module, weights = to_top(model, {"batch": 4})   the program that the passes begin with

Both choose the importer by the file's format. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from explorer.errors import ModelError
from explorer.importers.model import SourceModel, SourceNode, SourceValue
from explorer.ir.weights import Weights

_SUFFIXES = {
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".lite": "tflite",
    ".caffemodel": "caffe",
    ".prototxt": "caffe",
    ".pt": "pytorch",
    ".pth": "pytorch",
    ".pt2": "pytorch",
    ".h5": "keras",
    ".keras": "keras",
}
_HINTS = {
    "tflite": "convert it to ONNX (tf2onnx reads .tflite)",
    "caffe": "convert it to ONNX",
    "pytorch": "export it with torch.onnx.export",
    "keras": "convert it to ONNX (tf2onnx)",
}


def load(path: str | Path) -> SourceModel:
    """Reads a model file; ModelError says why it cannot be read or that its format is not ours."""
    path = Path(path)
    if path.is_dir():
        raise ModelError("a folder, not a model file", file=str(path), hint="name the file in it")
    if not path.is_file():
        raise ModelError("no such file", file=str(path), hint="check the path")
    found = _format_of(path)
    if found == "onnx":
        from explorer.importers import onnx

        return onnx.load(path)
    raise ModelError(
        f"{found} models cannot be read yet, only ONNX", file=str(path), hint=_HINTS[found]
    )


def to_top(
    model: SourceModel, dimensions: Mapping[str, int] | None = None
) -> tuple[ModuleOp, Weights]:
    """The model as a module of `top` operations and its weights.

    `dimensions` gives sizes to symbolic dimensions by name; others stay symbolic.
    """
    assert model.format == "onnx", model.format
    from explorer.importers import onnx

    return onnx.to_top(model, dimensions)


def _format_of(path: Path) -> str:
    """By content where it is unmistakable, else by suffix; ONNX has no mark of its own."""
    with path.open("rb") as file:
        head = file.read(8)
    if head[4:8] == b"TFL3":
        return "tflite"
    if head.startswith(b"\x89HDF"):
        return "keras"
    suffix = path.suffix.lower()
    if head.startswith(b"PK\x03\x04"):
        return "keras" if suffix == ".keras" else "pytorch"
    return _SUFFIXES.get(suffix, "onnx")


__all__ = ["SourceModel", "SourceNode", "SourceValue", "load", "to_top"]
