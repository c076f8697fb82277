"""Reducing from files to files: what the command and `explorer.reduce` do.

reduce_files(loaded, inputs, Path("small.onnx"), condition="check", target="cpu")
-> small.onnx, small.npz, small.md
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Any: values of decisions

import numpy as np

from explorer.compilation.converting import check_written, convert
from explorer.errors import InputError
from explorer.files import check_output, write_file
from explorer.importers.arrays import arrays_as_npz
from explorer.importers.model import SourceModel
from explorer.importers.onnx import from_proto
from explorer.reducing.candidate import candidate_of
from explorer.reducing.conditions import Command, Condition, InChild
from explorer.reducing.reducer import Reduced, reduce
from explorer.reducing.report import report_text
from explorer.reducing.trials import SUFFIX, Folder, Report
from explorer.targets.together import load_targets

KINDS = ("check", "crash")
SECONDS = 300.0


def reduce_files(
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    output: Path,
    *,
    condition: str | Condition = "check",
    target: str = "cpu",
    tolerance: float = 1e-4,
    decisions: Mapping[str, Any] | None = None,
    seconds: float = SECONDS,
    report: Report | None = None,
) -> Reduced:
    """Writes the smallest model that fails, its inputs and a page, beside each other.

    condition: `check`, `crash`, a command with {model} and {input}, or a function of a candidate.
    seconds: of each trial, not of a function's. After an exception, Ctrl-C among them, the same
    call goes on where it was.

    Raises:
        InputError: for what does not fail, hangs, or cannot be run; nothing is written then.
    """
    check_written(output)
    for path in (output.with_suffix(".npz"), output.with_suffix(".md")):
        check_output(path)
    name = condition if isinstance(condition, str) else getattr(condition, "__qualname__", "?")
    if condition in KINDS:
        load_targets(target)  # what is wrong with its name is no failure of the model
        condition = InChild(
            name, target=target, tolerance=tolerance, decisions=decisions, seconds=seconds
        )
    elif isinstance(condition, str):
        condition = Command(condition, seconds)
    candidate = candidate_of(_as_onnx(model, inputs), inputs)
    settings = {"target": target, "tolerance": tolerance, "decisions": dict(decisions or {})}
    origin = {
        "candidate": candidate.digest,
        "condition": name,
        "settings": hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
    }
    folder = Folder(output.with_name(output.name + SUFFIX), origin)
    try:
        reduced = reduce(candidate, condition, folder, report)
    finally:
        if isinstance(condition, InChild):
            condition.close()
    write_reduced(reduced, output, name, target)
    folder.remove()
    return reduced


def write_reduced(reduced: Reduced, output: Path, condition: str, target: str) -> None:
    """The three files. `condition`: as `reduce_files` takes it, or a function's name."""
    arrays, page = output.with_suffix(".npz"), output.with_suffix(".md")
    write_file(output, reduced.candidate.model.SerializeToString())
    write_file(arrays, arrays_as_npz(reduced.candidate.inputs))
    command = _command(output, arrays, condition, target)
    write_file(page, report_text(reduced, output.name, [command]))


def _command(model: Path, arrays: Path, condition: str, target: str) -> str:
    files = {"{model}": shlex.quote(model.name), "{input}": shlex.quote(arrays.name)}
    read = f"{files['{model}']} --input {files['{input}']} --target {shlex.quote(target)}"
    if condition == "check":
        return f"explorer check {read}"
    if condition == "crash":
        return f"explorer run {read} --output out.npz"
    for name, file in files.items():
        condition = condition.replace(name, file)
    return condition


def _as_onnx(model: SourceModel, inputs: Mapping[str, np.ndarray]) -> SourceModel:
    if model.format == "onnx":
        return model
    if model.states:
        raise InputError(f"a {model.format} model with states is not reduced")
    sizes: dict[str, int] = {}
    for value in model.inputs:
        if value.name in inputs:
            shape = zip(value.shape or (), inputs[value.name].shape, strict=False)
            sizes |= {name: size for name, size in shape if isinstance(name, str)}
    return from_proto(convert(model, sizes), model.name)
