"""A model of any format as a file of another one: ONNX.

    convert(model)      the ModelProto; `explorer convert net.tflite -o net.onnx` writes it

What is written is the imported program behind the passes that simplify it: sizes are settled,
constants folded, and transposes gone that only say in which order a format keeps channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.compilation.compilation import compile_model
from explorer.compilation.exporting import onnx_model
from explorer.errors import InputError, UnsupportedError
from explorer.files import check_output
from explorer.importers import SourceModel
from explorer.ir.rewriting.passes import Pass
from explorer.passes import DECOMPOSITION, RECOGNITION, SIMPLIFICATION
from explorer.passes.simplify.eliminate_dead_code import EliminateDeadCode
from explorer.passes.simplify.push_transposes import PushTransposes
from explorer.passes.sizes.bind_dimensions import BindDimensions

if TYPE_CHECKING:
    from onnx import ModelProto

    from explorer.exporters.onnx import IntegerForm, WeightType

KINDS = (*DECOMPOSITION, *SIMPLIFICATION, *RECOGNITION, PushTransposes, EliminateDeadCode)

WRITTEN = (".onnx",)


def convert(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    weights: WeightType = "uint8",
    integers: IntegerForm = "pairs",
    progress: Callable[[str, int, int], None] | None = None,
) -> ModelProto:
    """The model as ONNX, opset 21; see `Compilation.to_onnx` for `weights`.

    integers: `pairs` of QuantizeLinear and DequantizeLinear around floats, or `exact`.

    Raises:
        UnsupportedError: for nodes that cannot be imported, and for operations that ONNX does not
            have; each names all of them at once.
    """
    sizes = dict(dimensions or {})
    binding = BindDimensions(sizes, default=1)
    made: list[Pass] = [binding if k is BindDimensions else k() for k in KINDS]
    c = compile_model(model, "cpu", dimensions=sizes, pipeline=made, tuned=False, progress=progress)
    try:
        return onnx_model(c, c.names[-1], weights, integers)
    except UnsupportedError as error:
        raise UnsupportedError(
            error.message,
            problems=error.problems,
            file="" if model.path is None else str(model.path),
            hint="the first of them is named for its node in the model: cut the model before it",
        ) from error


def check_written(path: Path) -> None:
    """InputError for a file that cannot be written, or of a format in which no model is."""
    check_output(path)
    if path.suffix not in WRITTEN:
        raise InputError(
            f"models are written as {', '.join(WRITTEN)}, not {path.suffix or 'without a suffix'}",
            file=str(path),
            hint=str(path.with_suffix(WRITTEN[0])),
        )
