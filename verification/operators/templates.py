"""A first valid example of an operator: onnx's own node tests with one node.

templates = collect()                  {"Abs": [Template(...)], ...}
write(templates, folder)               what child processes read
read(folder, "Abs")
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: an input is a tensor, a list of tensors, or None

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

MAX_BYTES = 200_000
"""Of a model and its inputs: a case runs in a fraction of a second."""


@dataclass(frozen=True)
class Template:
    """A model of one node with inputs that fit it."""

    name: str
    model: ModelProto
    inputs: tuple[Any, ...]


def collect() -> dict[str, list[Template]]:
    """onnx's node tests by operator; those whose model has one node. Takes some 20 seconds."""
    from verification.conformance.onnx_cases import load_group  # it computes every test's results

    found: dict[str, list[Template]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_group("node")
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1 or not case.data_sets:
            continue
        inputs = [_array(value) for value in case.data_sets[0][0]]
        if case.model.ByteSize() + sum(map(_bytes, inputs)) <= MAX_BYTES:
            operator = case.model.graph.node[0].op_type
            template = Template(case.name, case.model, tuple(inputs))
            found.setdefault(operator, []).append(template)
    return found


def _array(value: Any) -> Any:
    """onnx gives types that NumPy lacks as messages."""
    if isinstance(value, list):
        return [_array(item) for item in value]
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_bytes, value))
    return 0 if value is None else np.asarray(value).nbytes


def write(templates: Mapping[str, Sequence[Template]], folder: Path) -> None:
    """One file for each operator. They are for child processes of the same run."""
    for operator, those in templates.items():
        plain = [(t.name, t.model.SerializeToString(), t.inputs) for t in those]
        (folder / f"{operator}.pickle").write_bytes(pickle.dumps(plain))


def read(folder: Path, operator: str) -> list[Template]:
    """Those of an operator; none where onnx tests it with no single node."""
    path = folder / f"{operator}.pickle"
    if not path.is_file():
        return []
    plain = pickle.loads(path.read_bytes())
    return [Template(name, ModelProto.FromString(m), inputs) for name, m, inputs in plain]
