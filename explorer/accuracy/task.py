"""How many answers of a classifier are right: of the compiled program, and of the source model.

    task_accuracy(model, compilation.run, inputs, labels, batch=1)
        -> TaskAccuracy(output="scores", total=100, right=97, source_right=97)

An answer is the largest element along the last axis of the first output (top-1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from explorer.accuracy.oracle import reference
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.results.accuracy import TaskAccuracy

Arrays = Mapping[str, np.ndarray]


def task_accuracy(
    model: SourceModel,
    run: Callable[[Arrays], Arrays],
    inputs: Arrays,
    labels: np.ndarray,
    batch: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> TaskAccuracy:
    """Runs both on all samples, `batch` at a time; samples that fill no batch are left out.

    `labels`: integers of shape (N,). Inputs whose first axis has N elements are cut along it.
    InputError where labels and inputs do not fit.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"labels are whole numbers in one row, not {labels.dtype.name} of shape {labels.shape}",
            hint="one class number for each sample",
        )
    if not any(array.ndim and len(array) == len(labels) for array in inputs.values()):
        shapes = ", ".join(f"{name!r} {array.shape}" for name, array in inputs.items())
        raise InputError(
            f"there are {len(labels)} labels, and no input holds as many samples: {shapes}",
            hint="give one label for each element of the inputs' first axis",
        )
    output = model.outputs[0].name
    total = right = source_right = 0
    whole = len(labels) - len(labels) % batch
    for begin in range(0, whole, batch):
        if progress is not None:
            progress("comparing answers with labels", begin, whole)
        part = samples_of(inputs, len(labels), begin, batch)
        expected = labels[begin : begin + batch]
        right += count_right(run(part)[output], expected)
        source_right += count_right(reference(model, part, [output])[output], expected)
        total += batch
    return TaskAccuracy(output=output, total=total, right=right, source_right=source_right)


def samples_of(inputs: Arrays, count: int, begin: int, batch: int) -> dict[str, np.ndarray]:
    """`batch` samples of `count`, from `begin` on."""
    return {
        name: array[begin : begin + batch] if array.ndim and len(array) == count else array
        for name, array in inputs.items()
    }


def count_right(scores: np.ndarray, labels: np.ndarray) -> int:
    """Examples of which the largest element of the scores is the label.

    Raises:
        InputError: where there is no row of scores for each label, or no class of that number.
    """
    if scores.ndim < 2 or scores.size % len(labels):
        raise InputError(
            f"the output of shape {scores.shape} is no row of scores for each sample",
            hint="labels are for classifiers, whose output is one score for each class",
        )
    rows = scores.reshape(len(labels), -1)
    foreign = labels[(labels < 0) | (labels >= rows.shape[1])]
    if foreign.size:
        raise InputError(
            f"label {foreign[0]} is no class of the output, which has {rows.shape[1]} scores",
            hint="classes count from 0, in the order of the scores",
        )
    return int((rows.argmax(axis=1) == labels).sum())
