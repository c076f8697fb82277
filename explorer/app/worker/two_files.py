"""The models of two branches on the same data, tensor by tensor, as the page draws it.

    two_files_json((float_model, int8_model), files, inputs, names, sizes)
        -> {"reference": 0, "verdict": ..., "outputs": [[name, decibels, largest]], "view": ...}

The model without quantized tensors is the reference, whichever branch it belongs to: an error is
that of the other one. Of two models of one kind the first is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.accuracy.two_models import GIVEN, compare_models, is_quantized
from explorer.results.model_comparison import ComparedModel, ModelComparison
from explorer.views.catalog.models import models, verdict
from explorer.views.payload.measures import number
from explorer.views.renderers.page import page_of

if TYPE_CHECKING:
    from explorer.importers import SourceModel


def two_files_json(
    pair: Sequence[SourceModel],
    files: Sequence[str],
    inputs: Sequence[Mapping[str, np.ndarray] | None],
    names: Sequence[str],
    dimensions: Mapping[str, int],
) -> dict[str, Any]:
    """pair: both models, of these files; inputs: one run of each one's data, None where it has
    none; names: of the data. The reference's data are used, else those of the other model.

    Raises:
        InputError: where one model's inputs cannot be made of the other's.
        ModelError: where a model's reference does not run it.
    """
    pair = [replace(model, name=file) for model, file in zip(pair, files, strict=True)]
    quantized = [is_quantized(model, dimensions) for model in pair]
    order = (1, 0) if quantized[0] and not quantized[1] else (0, 1)
    chosen = next((side for side in order if inputs[side] is not None), None)
    record = compare_models(
        pair[order[0]],
        pair[order[1]],
        None if chosen is None else inputs[chosen],
        dimensions=dimensions,
    )
    if chosen is not None:
        words = f"the first run of {names[chosen]}"
        record = replace(record, a=_named(record.a, words), b=_named(record.b, words))
    return {
        "reference": order[0],
        "verdict": verdict(record),
        "outputs": _outputs(record),
        "view": page_of(models(record, letters="AB" if order == (0, 1) else "BA")),
    }


def _named(model: ComparedModel, words: str) -> ComparedModel:
    return replace(model, inputs=words) if model.inputs == GIVEN else model


def _outputs(record: ModelComparison) -> list[list[Any]]:
    """[output, SQNR, largest relative error] of every pair of outputs."""
    found = {(match.tensor_a, match.tensor_b): match for match in record.matched}
    return [
        [pair[0], number(found[pair].sqnr_db), number(found[pair].max_relative)]
        for pair in record.outputs
    ]
