"""Accuracy on labelled data: the compiled program and onnxruntime on the very same inputs.

measure(Path("net.onnx"), "cpu", case, labels, folder)
    ->  {"images": 100, "ours": {"1": 88, "5": 99}, "oracle": {"1": 88, "5": 99}, "differ": 0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import explorer
from explorer.accuracy.oracle import reference
from explorer.cases.cases import Case, Labels
from explorer.cases.labels import read_examples
from explorer.cases.sources import read_all
from explorer.cases.steps import run_steps
from explorer.errors import ModelError
from explorer.importers.inputs import check_arrays
from verification.checks.examine import best


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
