"""Data that a person gave for a model: read in the worker, under the names of the person's files.

data = read_values(("upload_1.npz", "upload_2.txt"), model)     AttachedData, or None
sizes_told(data, model)                                         {"sequence": 16}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.compilation.data.attached import AttachedData
    from explorer.importers import SourceModel


def read_values(
    files: Sequence[str], model: SourceModel, name: str = "", folder: Path | None = None
) -> AttachedData | None:
    """The data in the files; None where there are none. InputError names the file at fault.

    folder: where paths in a table of cases start.
    """
    from explorer.compilation.data.reading import attached_data

    if not files:
        return None
    return attached_data(model, [Path(file) for file in files], name=name, folder=folder)


def sizes_told(data: AttachedData | None, model: SourceModel) -> dict[str, int]:
    """Sizes of symbolic dimensions that the arrays have, without that of a batch."""
    from explorer.importers.model import sizes_of_examples

    return {} if data is None else sizes_of_examples(model, data.inputs)
