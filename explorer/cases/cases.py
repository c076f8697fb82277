"""What belongs to a model besides its file: sizes, inputs, golden tensors, labelled data.

    [models.byte_sb_bidi_lstm]
    inputs.input = {file = "data/byte_sb_bidi_lstm/io.npz", array = "input"}

    [[models.byte_sb_bidi_lstm.goldens]]
    outputs.output = {file = "data/byte_sb_bidi_lstm/io.npz", array = "Add_26"}

A model is known by its file's name without the suffix. Every path is relative to the folder of the
models. docs/checking-models.md describes all fields.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.errors import InputError
from explorer.files import reading_file
from explorer.results.encoding import from_json
from explorer.results.names import near_name

METRICS = {
    "max_relative": "the largest difference relative to the largest value, at most `tolerance`",
    "equal": "bit by bit",
    "argmax": "the position of the largest value",
    "top-5": "the positions of the five largest values, in any order",
    "cosine": "of both as vectors, at least 1 - `tolerance`",
}
KINDS = ("images", "rows", "arrays")
REFERENCES = ("onnxruntime", "golden", "imported")

Step = tuple[Any, ...]
"""A name of `steps.STEPS` and its arguments, as TOML has them."""


@dataclass(frozen=True)
class Source:
    """Where an array comes from: a file, or a value that stands here."""

    file: str = ""
    array: str = ""
    """Its name in a file of several; empty for the only one."""
    value: Any = None
    """A number or nested lists of numbers, instead of a file."""
    type: str = ""
    """NumPy's name of an element type, for a value."""
    steps: Sequence[Step] = ()


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Tensors that a run must reach. Without inputs of its own it takes the model's."""

    outputs: Mapping[str, Source]
    inputs: Mapping[str, Source] = field(default_factory=dict)
    metric: str = "max_relative"
    tolerance: float = 1e-4
    steps: Sequence[Step] = ()
    """Done to the output that was computed, before it is compared."""
    states: Mapping[str, str] = field(default_factory=dict)
    """For a model that is run frame by frame: inputs that take an output of the frame before. The
    golden's own inputs then have the frames as their first axis, and so has the output."""
    note: str = ""


@dataclass(frozen=True)
class Labels:
    """Labelled data: how often the largest output (or one of the k largest) is the label."""

    kind: str
    """images: a CSV file with a column of file names; rows: a CSV file whose lines are a label and
    numbers; arrays: a `.npz` file with an array of data and one of labels."""
    file: str
    data: str = ""
    """Column of file names, or array of data."""
    label: str = ""
    """Column, or array, of labels."""
    input: str = ""
    """The model's input; empty for the only one."""
    output: str = ""
    """The model's output; empty for the first."""
    steps: Sequence[Step] = ()
    top: Sequence[int] = (1,)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that is known of one model. Nothing is needed: inputs are seeded random numbers then."""

    dimensions: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Source] = field(default_factory=dict)
    goldens: Sequence[Golden] = ()
    labels: Sequence[Labels] = ()
    reference: str = "onnxruntime"
    """What every pass is compared with: `golden` (the first golden and `layers`) or `imported`
    where onnxruntime does not load the model."""
    layers: Mapping[str, Source] = field(default_factory=dict)
    """Golden tensors inside the model, by name, for reference = "golden"."""
    note: str = ""

    @property
    def digest(self) -> str:
        """Changes with whatever stands in the case."""
        text = json.dumps(self, default=vars, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_cases(path: Path) -> dict[str, Case]:
    """The cases of a TOML file by model. InputError names the file and the field at fault."""
    hint = "docs/checking-models.md has such a file"
    with reading_file(path, "TOML file of cases", kind=InputError, hint=hint):
        content = tomllib.loads(path.read_bytes().decode())
        if set(content) - {"models"}:
            raise InputError("a file of cases has the table `models` and nothing else")
        return {name: _case(name, table) for name, table in content.get("models", {}).items()}


def _case(name: str, table: object) -> Case:
    place = f"models.{name}"
    try:
        case = from_json(Case, table, place)
    except ValueError as error:
        raise InputError(str(error)) from error
    _is_one_of(case.reference, REFERENCES, f"{place}.reference")
    if case.reference == "golden" and not case.goldens:
        raise InputError(f"{place}: reference is golden, and there are no goldens")
    _check_sources({**case.inputs, **case.layers}, f"{place}.inputs")
    for golden in case.goldens:
        _is_one_of(golden.metric, METRICS, f"{place}.goldens.metric")
        _check_sources({**golden.outputs, **golden.inputs}, f"{place}.goldens")
        _check_steps(golden.steps, f"{place}.goldens")
    for labels in case.labels:
        _is_one_of(labels.kind, KINDS, f"{place}.labels.kind")
        _check_steps(labels.steps, f"{place}.labels")
    return case


def _check_sources(sources: Mapping[str, Source], place: str) -> None:
    for name, source in sources.items():
        if bool(source.file) == (source.value is not None):
            raise InputError(f"{place}.{name}: give either a file or a value")
        _check_steps(source.steps, f"{place}.{name}")


def _check_steps(steps: Sequence[Step], place: str) -> None:
    from explorer.cases.steps import STEPS

    for step in steps:
        if not step:
            raise InputError(f"{place}: a step is a list, its name first: []")
        _is_one_of(step[0], STEPS, f"{place}.steps")


def _is_one_of(name: object, known: Iterable[str], place: str) -> None:
    if not isinstance(name, str) or name not in known:
        raise InputError(f"{place}: {name!r} is unknown", hint=near_name(str(name), known))
