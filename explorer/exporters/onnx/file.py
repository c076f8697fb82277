"""An ONNX model as a file. Protobuf holds at most 2 GiB: larger constants lie in a file beside it.

write_onnx(Path("net.onnx"), model)      net.onnx, and net.onnx.data where it is that large
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto

from explorer.errors import ModelError
from explorer.files import check_output, write_file

MAX_INSIDE_BYTES = (2 << 30) - (16 << 20)
"""Of a file without others: what protobuf holds, less room for what is no constant."""
MIN_OUTSIDE_BYTES = 1 << 10
"""Smaller constants stay inside: sizes and axes decide shapes."""
ALIGNMENT = 4096
"""Of every constant outside, so that it can be mapped. Source: ONNX, ExternalData.md."""
SUFFIX = ".data"


def write_onnx(path: Path, model: onnx.ModelProto, most_inside: int = MAX_INSIDE_BYTES) -> None:
    """Checks a model and writes it, with all its files or none.

    Raises:
        InputError: where the file cannot be written.
        ModelError: where ONNX's checker refuses the model: a defect of whoever made it.
    """
    check_output(path)
    constants = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if constants <= most_inside:
        _check(model, path)
        write_file(path, model.SerializeToString())
        return
    beside = path.with_name(f"{path.name}{SUFFIX}")
    check_output(beside)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as name:
        partial = Path(name)
        _move_outside(model, partial / beside.name)
        (partial / path.name).write_bytes(model.SerializeToString())
        _check(partial / path.name, path)
        for file in (beside, path):  # the model last: it names the other
            (partial / file.name).replace(file)


def _check(model: onnx.ModelProto | Path, path: Path) -> None:
    """By its specification, shapes and types of all values included."""
    try:
        onnx.checker.check_model(str(model) if isinstance(model, Path) else model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        words = " ".join(str(error).split())
        raise ModelError(f"what was written is no valid ONNX: {words}", file=str(path)) from error


def _move_outside(model: onnx.ModelProto, path: Path) -> None:
    """Large constants into a file, one behind the other."""
    with path.open("wb") as file:
        for tensor in model.graph.initializer:
            if len(tensor.raw_data) < MIN_OUTSIDE_BYTES:
                continue
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            place = {"location": path.name, "offset": file.tell(), "length": len(tensor.raw_data)}
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
