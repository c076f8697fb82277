"""Model files in, `top` modules out: one package per format.

    model = load("net.onnx")                        SourceModel: names, types, nodes of the file
    module, weights = to_top(model, {"batch": 4})   the program that the passes begin with

Both choose the importer by the file's format. Nothing in a file is executed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.errors import ModelError
from explorer.files import reading_file
from explorer.importers.model import (
    ExaminedModel,
    OpenedProgram,
    SourceModel,
    SourceNode,
    SourceValue,
)
from explorer.ir.weights import Weights

if TYPE_CHECKING:
    from onnx import ModelProto

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
    "trace": "explorer.open reads it, and the explorer does under a name that ends with .nnx",
    "zip": "unpack it and give the model in it",
}
_NO_MODELS = {
    "trace": "a saved trace (.nnx) of this program, not a model",
    "zip": "a zip file, not a model",
}


def load(path: str | Path) -> SourceModel:
    """Reads a model file; ModelError says why it cannot be read or that its format is not ours."""
    return _load(Path(path))


def _load(path: Path, is_examined: bool = False) -> SourceModel:
    hint = "compare the file with its original, or export the model again"
    with reading_file(path, "model", hint=hint):
        _require_onnx(path)
        from explorer.importers import onnx

        return onnx.load(path, is_examined)


def _require_onnx(path: Path) -> None:
    """ModelError for what is no file, and for formats that cannot be read."""
    if path.is_dir():
        raise ModelError("a folder, not a model file", file=str(path), hint="name the file in it")
    if not path.is_file():
        raise ModelError("no such file", file=str(path), hint="check the path")
    found = _format_of(path)
    if found in _NO_MODELS:
        raise ModelError(_NO_MODELS[found], file=str(path), hint=_HINTS[found])
    if found != "onnx":
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


def open_program(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    has_late_nodes: bool = False,
) -> OpenedProgram:
    """As `to_top`, with the model as it is, and one rewrite for every node that leads from that
    to the program.

    has_late_nodes: nodes whose form a run decides become operations that it imports (`top.node`).
    """
    assert model.format == "onnx", model.format
    from explorer.importers import onnx

    return onnx.open_program(model, dimensions, has_late_nodes)


def program_inputs(
    model: SourceModel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The inputs as a program takes them whose symbolic dimensions have these sizes: strings as
    their code points."""
    assert model.format == "onnx", model.format
    from explorer.importers.onnx.string_inputs import program_inputs as inputs_of

    last = {v.name: str(v.shape[-1]) for v in model.inputs if v.shape}
    places = {name: sizes[size] for name, size in last.items() if size in sizes}
    return inputs_of({v.name for v in model.inputs}, inputs, places)


def host_values(model: SourceModel, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """A program's outputs as the values that the model declares: strings, sequences, maps."""
    assert model.format == "onnx", model.format
    from explorer.importers.onnx import host_values

    return host_values.host_values(_proto(model), outputs)


def host_arrays(model: SourceModel, outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """A program's outputs with strings in the place of their code points."""
    assert model.format == "onnx", model.format
    from explorer.importers.onnx import host_values

    return host_values.host_arrays(_proto(model), outputs)


def _proto(model: SourceModel) -> ModelProto:
    from explorer.importers.onnx import OnnxContent

    assert isinstance(model.content, OnnxContent)
    return model.content.proto


def examine(model: SourceModel, dimensions: Mapping[str, int] | None = None) -> ExaminedModel:
    """What of the model cannot be imported: all of it, with the reasons."""
    assert model.format == "onnx", model.format
    from explorer.importers import onnx

    return onnx.examine(model, dimensions)


def load_to_examine(path: str | Path) -> SourceModel:
    """As `load`, also of a file for which that raises UnsupportedError.

    Raises ModelError for what cannot be read at all, as `load` does.
    """
    return _load(Path(path), is_examined=True)


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
        return _format_of_zip(path)
    return _SUFFIXES.get(suffix, "onnx")


def _format_of_zip(path: Path) -> str:
    """Of the formats that are zip files; their members' names tell them apart."""
    try:
        with zipfile.ZipFile(path) as file:
            names = {name.rsplit("/", 1)[-1] for name in file.namelist()}
    except Exception:  # whatever is wrong with it: the suffix has to do
        return _SUFFIXES.get(path.suffix.lower(), "zip")
    if {"manifest.json", "trace.json"} <= names:
        return "trace"
    if "model.weights.h5" in names or "config.json" in names:
        return "keras"
    return "pytorch" if names & {"data.pkl", "constants.pkl"} or _is_exported(names) else "zip"


def _is_exported(names: set[str]) -> bool:
    return any(name.startswith("serialized_exported_program") for name in names)


__all__ = [
    "ExaminedModel",
    "OpenedProgram",
    "SourceModel",
    "SourceNode",
    "SourceValue",
    "examine",
    "host_arrays",
    "host_values",
    "load",
    "load_to_examine",
    "open_program",
    "to_top",
]
