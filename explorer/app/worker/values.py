"""Values that a person gave for a model's inputs, and labels: read, and cut to the compiled batch.

    values = Values.of(("inputs.npz", "labels.txt"))
    values.first(compilation)       arrays for one run
    values.labels                   array of N class numbers, or None

Labels are an array `labels` among the values, a file of NumPy's (.npy), or a text with one number
a line (.txt, .csv).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from explorer.errors import InputError
from explorer.files import reading_file

if TYPE_CHECKING:
    from explorer.compilation import Compilation

LABELS = "labels"
TEXTS = (".txt", ".csv")
MAX_LABEL_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Values:
    """Arrays by the names of inputs, and labels of their samples."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray | None

    @staticmethod
    def of(files: Sequence[str]) -> Values:
        """InputError says what is wrong with a file."""
        from explorer.importers.arrays import read_arrays

        inputs: dict[str, np.ndarray] = {}
        labels = None
        for file in map(Path, files):
            if file.suffix.lower() == ".npz":
                inputs |= read_arrays(file)
            else:
                labels = read_labels(file)
        return Values(inputs, inputs.pop(LABELS, None) if labels is None else labels)

    def first(self, compilation: Compilation) -> dict[str, np.ndarray] | None:
        """Arrays for one run, checked against the model; None where none were given."""
        from explorer.accuracy.task import samples_of
        from explorer.importers.inputs import check_arrays

        if not self.inputs:
            return None
        if self.labels is None:
            chosen = dict(self.inputs)
        else:
            chosen = samples_of(self.inputs, len(self.labels), 0, batch_of(compilation))
        check_arrays(compilation.model, chosen, compilation.settings.dimensions, Path("values"))
        # What a file leaves out is drawn as it is without any.
        return {**compilation.example_inputs(), **chosen}


def batch_of(compilation: Compilation) -> int:
    """Samples of one run: the first axis of the compiled inputs."""
    shapes = [array.shape for array in compilation.example_inputs().values()]
    return next((shape[0] for shape in shapes if shape), 1)


def read_labels(file: Path) -> np.ndarray:
    """Whole numbers in one row."""
    hint = "numpy.save(file, labels), or one whole number a line"
    if not file.is_file():
        raise InputError("no such file", file=str(file), hint="check the path")
    if file.stat().st_size > MAX_LABEL_BYTES:
        raise InputError("too many labels", file=str(file), hint="use fewer samples")
    with reading_file(file, "file of labels", hint=hint, kind=InputError):
        if file.suffix.lower() in TEXTS:
            words = file.read_text(encoding="utf-8").replace(",", "\n").split()
            return np.array([int(word) for word in words], np.int64)
        return np.load(file, allow_pickle=False)
