"""Accuracy on labelled data: the compiled program and onnxruntime on the very same inputs.

measure(Path("net.onnx"), "cpu", case, labels, folder)
    ->  {"images": 100, "ours": {"1": 88, "5": 99}, "oracle": {"1": 88, "5": 99}, "differ": 0}
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import explorer
from explorer.accuracy.oracle import reference
from explorer.errors import InputError, ModelError
from explorer.files import reading_file
from explorer.importers.arrays import read_arrays
from explorer.importers.inputs import check_arrays
from verification.checks.cases import Case, Labels, Source
from verification.checks.examine import best, read_all
from verification.checks.sources import file_in, read_source
from verification.checks.steps import run_steps

MOST_EXAMPLES = 2000


@dataclass
class Accuracy:
    """How many labels are among the k largest outputs, by k as text."""

    data: str
    note: str
    examples: int = 0
    ours: dict[str, int] = field(default_factory=dict)
    oracle: dict[str, int] = field(default_factory=dict)
    """Empty where onnxruntime does not load the model."""
    differ: int = 0
    """Examples whose largest output is another one than the oracle's."""


def measure(path: Path, target: str, case: Case, labels: Labels, folder: Path) -> dict:
    """Runs all examples; raises ExplorerError where model or data cannot be used."""
    model = explorer.load(path)
    name = labels.input or model.inputs[0].name
    others = {k: v for k, v in read_all(case.inputs, folder).items() if k != name}
    output = labels.output or model.outputs[0].name
    found = Accuracy(labels.file, labels.note)
    compilation = None
    try:
        for array, label in read_examples(labels, folder):
            inputs = {**others, name: run_steps(array, labels.steps)}
            if compilation is None:
                sizes = check_arrays(model, inputs, case.dimensions, Path(labels.file))
                compilation = explorer.compile(model, target, dimensions=sizes)
            ours = compilation.run(inputs)[output]
            oracle = _by_oracle(model, inputs, output, found)
            _count(found, ours, oracle, label, labels)
    finally:
        if compilation is not None:
            compilation.close()
    return asdict(found)


def _by_oracle(model, inputs: Mapping[str, np.ndarray], output: str, found: Accuracy):
    """The oracle's output, None where it does not load the model (asked once)."""
    if found.examples and not found.oracle:
        return None
    try:
        return reference(model, inputs, [output])[output]
    except ModelError:
        return None


def _count(
    found: Accuracy, ours: np.ndarray, oracle: np.ndarray | None, label: int, labels: Labels
) -> None:
    found.examples += 1
    for count in labels.top:
        key = str(count)
        found.ours[key] = found.ours.get(key, 0) + (label in best(ours, count))
        if oracle is not None:
            found.oracle[key] = found.oracle.get(key, 0) + (label in best(oracle, count))
    if oracle is not None and best(ours, 1) != best(oracle, 1):
        found.differ += 1


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
    if number >= MOST_EXAMPLES:
        raise InputError(f"more than {MOST_EXAMPLES} examples", file=str(path))
