"""Calibration as a lever of the page: no decision of a compilation, and so none of the library's.

A page that has data offers it with the levers of decibels and of weights:

    with_calibration(record)     the lever "quantize this model" has the values mse and best
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from explorer.app.decisions import METHODS
from explorer.results.levers import LeverOption, LeversRecord

if TYPE_CHECKING:
    from explorer.importers import SourceModel

ADDRESS = "quantize"
"""Where the page's settings have the method."""
WORDS = {"mse": "least squared error of each tensor, quick", "best": "judged by the outputs"}


def named_inputs(inputs: Mapping[str, np.ndarray], model: SourceModel) -> dict[str, np.ndarray]:
    """Arrays by the names of the model's inputs: the only array of the only input may have any
    name, as where the model is judged."""
    states = {state.input for state in model.states}
    names = [value.name for value in model.inputs if value.name not in states]
    if len(names) == len(inputs) == 1:
        return dict(zip(names, inputs.values(), strict=True))
    return dict(inputs)


def with_calibration(record: LeversRecord) -> LeversRecord:
    """The levers of calibration with what tries them."""
    levers = []
    for lever in record.levers:
        if lever.group == "calibration":
            change = lever.options[0].change if lever.options else None
            options = tuple(
                LeverOption(
                    value=method,
                    decisions=((ADDRESS, method),),
                    change=change,
                    also=WORDS[method],
                )
                for method in METHODS
            )
            lever = replace(lever, options=options, address=ADDRESS)
        levers.append(lever)
    return replace(record, levers=tuple(levers))
