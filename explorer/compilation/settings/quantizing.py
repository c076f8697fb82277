"""The table with which a float model is quantized, as a person gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.quantization.observations import path_beside, read_observations
from explorer.quantization.precision import path_beside as precision_beside
from explorer.quantization.precision import read_precision
from explorer.quantization.table import ThresholdTable, read_modes, read_thresholds
from explorer.results.runs.sensitivity import MixedPrecision
from explorer.runtime.cache.digests import digest_of_file

DIGITS = 16
"""Of a model's digest in a table."""

TableChoice = ThresholdTable | str | Path | None
ModeName = Literal["INT8", "INT16", "F32"]
ModesChoice = Mapping[str, ModeName] | Mapping[str, str] | MixedPrecision | str | Path | None


def chosen_table(
    choice: TableChoice, model: SourceModel, modes: ModesChoice = None
) -> ThresholdTable | None:
    """The table, read where it is a file, with the modes of a quantization table, or of the point
    that a search for them chose.

    InputError for a file that is none, for modes without thresholds, and for the table of another
    model.
    """
    if choice is None:
        if modes is not None:
            raise InputError("modes without thresholds quantize nothing", hint="--quantize TABLE")
        return None
    table = choice if isinstance(choice, ThresholdTable) else read_table(Path(choice))
    if isinstance(modes, str | Path):
        found = read_precision(precision_beside(Path(modes)), model.name)
        read = read_modes(Path(modes))
        table = replace(table, modes=read, precision=found, modes_path=str(modes))
    elif isinstance(modes, MixedPrecision):
        table = replace(table, modes=dict(modes.points[modes.chosen].modes), precision=modes)
    elif modes is not None:
        table = replace(table, modes=dict(modes))
    own = digest_of_model(model)
    if table.model and own and table.model != own:
        raise InputError(
            f"the table was made for another file than that of {model.name}",
            file=table.path,
            hint="explorer calibrate makes one for this; without its line `# model` it is taken",
        )
    return table


def read_table(path: Path) -> ThresholdTable:
    """A table of thresholds with the histograms that lie beside it, if there are any."""
    table = read_thresholds(path)
    return replace(table, observations=read_observations(path_beside(path), table.model))


def digest_of_model(model: SourceModel) -> str:
    """Of the model's file; empty where there is none."""
    path = model.path
    return "" if path is None or not path.is_file() else digest_of_file(path)[:DIGITS]
