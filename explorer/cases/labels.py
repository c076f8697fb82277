"""Labelled examples of a model, one by one: from images, lines of numbers, or arrays.

for array, label in read_examples(case.labels[0], folder): ...
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from explorer.cases.cases import Labels, Source
from explorer.cases.sources import file_in, read_source
from explorer.errors import InputError
from explorer.files import reading_file
from explorer.importers.arrays import read_arrays

MAX_EXAMPLES = 2000


def read_examples(labels: Labels, folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Data before any step, and its label."""
    path = file_in(folder, labels.file)
    with reading_file(path, "file of labels", kind=InputError, hint="see docs/checking-models.md"):
        yield from _examples(labels, folder, path)


def _examples(labels: Labels, folder: Path, path: Path) -> Iterator[tuple[np.ndarray, int]]:
    if labels.kind == "arrays":
        arrays = read_arrays(path)
        for name in (labels.data, labels.label):
            if name not in arrays:
                raise InputError(f"there is no array {name!r}")
        pairs = zip(arrays[labels.data], arrays[labels.label].tolist(), strict=True)
        yield from ((data, int(label)) for data, label in pairs)
        return
    with path.open(newline="", encoding="utf-8") as file:
        if labels.kind == "rows":
            for number, row in enumerate(csv.reader(file)):
                _check_count(number, path)
                yield np.array(row[1:], dtype=np.float32), int(row[0])
            return
        for number, record in enumerate(csv.DictReader(file)):
            _check_count(number, path)
            if labels.data not in record or labels.label not in record:
                raise InputError(f"columns are {', '.join(record)}")
            image = str(Path(labels.file).parent / record[labels.data])
            yield read_source(Source(file=image), folder), int(record[labels.label])


def _check_count(number: int, path: Path) -> None:
    if number >= MAX_EXAMPLES:
        raise InputError(f"more than {MAX_EXAMPLES} examples", file=str(path))
