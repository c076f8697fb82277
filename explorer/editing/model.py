"""All edits on a loaded model, and the result as a model: checked, imported, written.

edit_model(load("net.onnx"), ["delete dropout1", "outputs features"])   SourceModel
edited_proto(...)                                                       its ONNX form
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

from explorer.editing.apply import apply_edit
from explorer.editing.edits import Edit, edit_text, parse_edits
from explorer.errors import ExplorerError, InputError
from explorer.files import write_file
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.inference import infer_shapes
from explorer.importers.onnx.file.reading import OnnxContent, from_proto

MAX_BYTES = (2 << 30) - (16 << 20)
"""Of a model with its weights: what one protobuf message holds."""


def edit_model(model: SourceModel, edits: Sequence[str | Edit]) -> SourceModel:
    """The model with the edits, made one after the other.

    Raises:
        InputError: for a model of another format, an edit that names nothing or cannot be made, and
            where the result is no valid model; with the edit and the reason.
    """
    proto = edited_proto(model, edits)
    try:
        return from_proto(proto, model.name)
    except ExplorerError as error:
        raise InputError(f"the edited model cannot be read: {error.message}") from error


def edited_proto(model: SourceModel, edits: Sequence[str | Edit]) -> ModelProto:
    """As `edit_model`, as ONNX."""
    content = model.content
    if not isinstance(content, OnnxContent):
        raise InputError(
            f"an ONNX model is edited, and this is {model.format}",
            hint="explorer convert MODEL -o net.onnx writes one",
        )
    parsed = [
        e for edit in edits for e in (parse_edits([edit]) if isinstance(edit, str) else [edit])
    ]
    if not parsed:
        raise InputError("there is no edit", hint='"delete NODE", "outputs TENSOR", ...')
    proto = _whole(content, model)
    for edit in parsed:
        try:
            apply_edit(proto, edit)
        except InputError as error:
            error.message = f"{edit_text(edit)[:120]}: {error.message}"
            raise
    before = _whole(content, model)
    for fault_of in (_refusal, _wrong_type):
        if (reason := fault_of(proto)) and not fault_of(before):
            raise InputError(f"the edited model is not valid: {reason}")
    return proto


def write_edited(model: SourceModel, edits: Sequence[str | Edit], path: Path) -> ModelProto:
    """Writes the edited model; nothing is written where it is refused."""
    proto = edited_proto(model, edits)
    edit_model(model, edits)
    write_file(path, proto.SerializeToString())
    return proto


def _whole(content: OnnxContent, model: SourceModel) -> ModelProto:
    """A copy with all weights in the message."""
    proto = ModelProto()
    proto.CopyFrom(content.proto)
    outside = [t for t in proto.graph.initializer if t.external_data]
    size = proto.ByteSize() + sum(model.constants[t.name].nbytes for t in outside)
    if size > MAX_BYTES:
        raise InputError(f"the model takes {size:,} bytes, more than one file of ONNX holds")
    for tensor in outside:
        array = np.asarray(model.constants[tensor.name])
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto


def _refusal(proto: ModelProto) -> str:
    """Why ONNX's checker refuses the model; empty where it does not."""
    try:
        onnx.checker.check_model(proto, full_check=False)
    except Exception as error:  # a class of the checker's own
        return _first_lines(error)
    return ""


def _wrong_type(proto: ModelProto) -> str:
    """Which types contradict what is declared or what an operator takes; empty where none does."""
    try:
        infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # a class of the inference's own
        return _first_lines(error)
    return ""


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:400] or type(error).__name__
