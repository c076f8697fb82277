"""Model files in, `top` modules out: one package per format.

    model = load("net.onnx")                        SourceModel: names, types, nodes of the file
    module, weights = to_top(model, {"batch": 4})   the program that the passes begin with

Both leave it to the importer of the file's format (`format.py`). Nothing in a file is executed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.calling import refuse
from explorer.errors import ModelError
from explorer.files import ModelFiles, ModelPath, reading_file
from explorer.importers.format import FORMATS, format_of, importer_for, importer_of
from explorer.importers.model import (
    ExaminedModel,
    OpenedProgram,
    SourceModel,
    SourceNode,
    SourceValue,
)
from explorer.logs import logger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike
    from xdsl.dialects.builtin import ModuleOp

    from explorer.ir.weights import Weights

    InputValue = ArrayLike | None
    """What an input can be: an array, a list of arrays for a sequence, None for an empty optional,
    a list or an array of strings."""

LOG = logger(__name__)


def load(
    path: ModelPath,
    inputs: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
) -> SourceModel:
    """Reads a model file; ModelError says why it cannot be read or that its format is not ours.

    inputs: values of inputs: those that are no tensors but sequences or optionals (lists of arrays,
    None) become the tensors that they hold. weights: their file, of a model that is two files.
    """
    begin = time.perf_counter()
    model = _load(_files(path, weights), inputs=inputs)
    seconds, nodes = time.perf_counter() - begin, len(model.nodes)
    LOG.info("read %s: %s, %d nodes, %.2f s", path, model.format, nodes, seconds)
    return model


def load_to_examine(path: ModelPath) -> SourceModel:
    """As `load`, also of a file for which that raises UnsupportedError.

    Raises ModelError for what cannot be read at all, as `load` does.
    """
    return _load(_files(path), is_examined=True)


def _files(path: ModelPath, weights: str | Path | None = None) -> Path | ModelFiles:
    if isinstance(path, ModelFiles):
        return path
    if not isinstance(path, str | PathLike):
        refuse("model", path, "a path, a module of PyTorch or what load returns")
    return Path(path) if weights is None else ModelFiles(Path(path), Path(weights))


def _load(
    files: Path | ModelFiles, is_examined: bool = False, inputs: Mapping[str, Any] | None = None
) -> SourceModel:
    if isinstance(files, ModelFiles):
        return _load_both(files, is_examined)
    path = files
    hint = "compare the file with its original, or export the model again"
    with reading_file(path, "model", hint=hint):
        if path.is_dir():
            raise ModelError(
                "a folder, not a model file", file=str(path), hint="name the file in it"
            )
        if not path.is_file():
            raise ModelError("no such file", file=str(path), hint="check the path")
        importer = importer_for(format_of(path))
        return importer.load_for(path, inputs) if inputs else importer.load(path, is_examined)


def _load_both(files: ModelFiles, is_examined: bool) -> SourceModel:
    for file in (files.path, files.weights):
        if not file.is_file():
            raise ModelError("no such file", file=str(file), hint="check the path")
    with reading_file(files.path, "model", hint="check which file is given for the weights"):
        importer = importer_for(format_of(files.path))
        return importer.load_both(files.path, files.weights, is_examined)


def to_top(
    model: SourceModel, dimensions: Mapping[str, int] | None = None
) -> tuple[ModuleOp, Weights]:
    """The model as a module of `top` operations and its weights.

    `dimensions` gives sizes to symbolic dimensions by name; others stay symbolic.
    """
    return importer_of(model).to_top(model, dimensions)


def open_program(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    has_deferred_nodes: bool = False,
) -> OpenedProgram:
    """As `to_top`, with the model as it is, and one rewrite for every node that leads from that
    to the program.

    has_deferred_nodes: nodes of which a run decides the form become operations that the run
    imports (`top.node`).
    """
    return importer_of(model).open_program(model, dimensions, has_deferred_nodes)


def program_inputs(
    model: SourceModel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The inputs as a program takes them whose symbolic dimensions have these sizes: strings as
    their code points, sequences as their tensors."""
    return importer_of(model).program_inputs(model, inputs, sizes)


def is_host_value(value: Any) -> bool:
    """Whether an input is a sequence, an empty optional, or holds strings: `program_inputs` makes
    tensors of it."""
    import numpy as np

    if value is None or isinstance(value, list | tuple):
        return True
    return np.asarray(value).dtype.kind in "OUS"


def examine(model: SourceModel, dimensions: Mapping[str, int] | None = None) -> ExaminedModel:
    """What of the model cannot be imported: all of it, with the reasons."""
    return importer_of(model).examine(model, dimensions)


def as_read(model: SourceModel) -> ModuleOp:
    """Every node of the file before anything is imported, with the types that the file says."""
    return importer_of(model).as_read(model)


def files_of(model: SourceModel) -> Iterable[str]:
    """Files that the model consists of beside its own, by their paths from its folder."""
    return importer_of(model).files_of(model)


def read_meanings(module: ModuleOp) -> None:
    """Lets the importers read what nodes of a run mean (`top.node`), in a module out of a text.

    ModelError for what no importer reads.
    """
    from explorer.ir.top.data_dependent import DataDependentNodeOp, MeaningAttr, UnreadMeaning

    for op in module.walk():
        if isinstance(op, DataDependentNodeOp) and isinstance(
            unread := op.meaning.data, UnreadMeaning
        ):
            known = [f for f in FORMATS if f.name == unread.format and f.importer is not None]
            if not known:
                raise ModelError(f"the text says of {unread.name} what no importer reads")
            meaning = importer_for(known[0]).read_meaning(unread.name, unread.content)
            op.properties["meaning"] = MeaningAttr(meaning)


def index_limits(model: SourceModel) -> Mapping[str, int]:
    """For integer inputs that are looked up in a table: its rows."""
    return importer_of(model).index_limits(model)


def compared_values(model: SourceModel) -> Mapping[str, tuple[int, ...]]:
    """For integer inputs of one element that the model compares with constants: these."""
    return importer_of(model).compared_values(model)


def host_values(model: SourceModel, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """A program's outputs as the values that the model declares: strings, sequences, maps."""
    return importer_of(model).host_values(model, outputs)


def host_arrays(model: SourceModel, outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """A program's outputs with strings in the place of their code points."""
    return importer_of(model).host_arrays(model, outputs)


__all__ = [
    "ExaminedModel",
    "OpenedProgram",
    "SourceModel",
    "SourceNode",
    "SourceValue",
    "as_read",
    "compared_values",
    "examine",
    "files_of",
    "host_arrays",
    "host_values",
    "index_limits",
    "is_host_value",
    "load",
    "load_to_examine",
    "open_program",
    "program_inputs",
    "to_top",
]
