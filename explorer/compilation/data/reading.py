"""What a person attaches, as `AttachedData`: arrays, one array, or files.

attached_data(model, {"image": array}, labels)      "the attached arrays"
attached_data(model, "eval.npz")                    "eval.npz", with its labels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from explorer.cases.data import read_data_files
from explorer.compilation.data.attached import AttachedData, check_labels
from explorer.errors import InputError
from explorer.importers import SourceModel

Attachable: TypeAlias = (
    AttachedData | Mapping[str, np.ndarray] | np.ndarray | str | Path | Sequence[str | Path]
)
ARRAYS = "the attached arrays"


def attached_data(
    model: SourceModel,
    inputs: Attachable,
    labels: Sequence[int] | np.ndarray | None = None,
    name: str = "",
    folder: Path | None = None,
) -> AttachedData:
    """The data of a model. InputError for what is none, or cannot be read.

    folder: where paths in a table of cases start, by default the table's own.
    """
    if isinstance(inputs, AttachedData):
        return inputs
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        return AttachedData(name or ARRAYS, _arrays(inputs), check_labels(labels))
    if isinstance(inputs, np.ndarray):
        if len(model.inputs) != 1:
            names = ", ".join(value.name for value in model.inputs)
            raise InputError("one array is for one input", hint=f"a mapping of {names}")
        return AttachedData(name or ARRAYS, {model.inputs[0].name: inputs}, check_labels(labels))
    if not isinstance(inputs, Sequence) or not all(isinstance(p, str | Path) for p in inputs):
        raise InputError(
            f"inputs are arrays by name or files, not {type(inputs).__name__}",
            hint="c.attach({'image': array}, labels)",
        )
    read = read_data_files([Path(path) for path in inputs], model, folder, name)
    given = check_labels(labels) if labels is not None else check_labels(read.labels)
    return AttachedData(read.name, read.arrays, given, read.notes)


def _arrays(inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    for name, array in inputs.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray | list | float | int):
            raise InputError(f"input {name!r}: {type(array).__name__} is no array")
    return {name: np.asarray(array) for name, array in inputs.items()}
