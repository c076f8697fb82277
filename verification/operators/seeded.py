"""Seeded TFLite and Caffe models of one operator with hostile inputs, judged by their references.

    try_seeded("tflite", "ADD", seed=7, devices=("CPU",))
    -> {"operator": "ADD", "type": "int8", "status": "right", ...}

Models and limits are those of `explorer conformance --suite tflite`. Floats and quantized numbers
are replaced; whole numbers of 32 bits and more, which may be positions, stay as they were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from explorer.errors import ModelError
from explorer.files import write_file
from explorer.references.interface import reference_of
from explorer.runtime.child import Answer
from verification.conformance.seeded import ATTEMPTS, LegalCase, OtherNumbersError, run_case
from verification.conformance.suite import judge
from verification.operators.numbers import hostile, kinds
from verification.operators.pairs import Pair
from verification.operators.verdicts import (
    DEFECTS,
    DIFFERS,
    DOCUMENTED,
    FAILED,
    ILLEGAL,
    REFUSED,
    RIGHT,
    disagreements,
    entries_for,
    first_reason,
)

STATUSES = {
    "passed": RIGHT,
    "constant": RIGHT,
    "host": RIGHT,
    "wrong": DIFFERS,
    "refused": REFUSED,
    "not compiled": REFUSED,
    "failed": FAILED,
}
"""What the suites call an outcome, and what it is here: right numbers are right wherever they were
computed."""
FLUSHED = "tiny"
"""Numbers that OpenCV and LiteRT take for 0 on some processors."""
REGIONS = {"ROIPooling": ("x1",), "PSROIPooling": ("x1",), "Proposal": ("x0", "x2")}
"""Inputs with the number of an image, with its size, or with probabilities, of which OpenCV leaves
out negative ones: they stay as they were drawn."""
DrawCase = Callable[[str, int, int, int], LegalCase]


def operators_of(format_name: str) -> list[str]:
    return sorted(_suite(format_name)[0])


def _suite(format_name: str) -> tuple[Mapping[str, object], DrawCase]:
    """Each format needs an extra."""
    if format_name == "caffe":
        from verification.conformance.caffe.suite import DRAWS, draw_case
    else:
        from verification.conformance.tflite.suite import DRAWS, draw_case
    return DRAWS, cast(DrawCase, draw_case)


def try_seeded(
    format_name: str, operator: str, seed: int, devices: Sequence[str], folder: Path | None = None
) -> Answer:
    """The case of a seed on every device."""
    answer: Answer = {"operator": operator, "seed": seed, "format": format_name, "type": "none"}
    case, problem = _drawn(format_name, operator, seed)
    if case is None:
        return {**answer, "status": ILLEGAL, "reason": problem}
    case, kind = with_hostile_inputs(case, seed, REGIONS.get(operator, ()))
    first = next(iter(case.inputs.values()), np.zeros(0))
    answer |= {"type": first.dtype.name, "kind": kind, "devices": {}}
    pair = Pair(operator, answer["type"])
    for device in devices:
        answer["devices"][device] = _judged(format_name, pair, case, device)
    found = list(answer["devices"].items())
    name, (status, reason) = next((f for f in found if f[1][0] in DEFECTS), found[0])
    if folder is not None and status in DEFECTS:
        stem = folder / f"{operator}-{seed}"
        for suffix, content in case.files.items():
            write_file(stem.with_suffix(suffix), content)
        np.savez(stem.with_suffix(".npz"), **dict(case.inputs))  # pyright: ignore[reportArgumentType]
    return {**answer, "status": status, "reason": f"{name}: {reason}"}


def _judged(format_name: str, pair: Pair, case: LegalCase, device: str) -> list[str]:
    """Status and reason on a device; the table may explain other numbers."""
    others: list[OtherNumbersError] = []

    def run() -> tuple[str, str] | None:
        try:
            return run_case(case, device)
        except OtherNumbersError as error:
            others.append(error)
            raise

    status, reason = judge(run, device)
    for error in others:
        found, right = (list(r.values()) for r in (error.found, error.expected))
        entries = entries_for(pair, disagreements(), case.inputs, format_name)
        why = first_reason(entries, found, right, "float32")
        if why:
            return [DOCUMENTED, why]
    return [STATUSES[status], reason if status != "passed" else ""]


def _drawn(format_name: str, operator: str, seed: int) -> tuple[LegalCase | None, str]:
    draw, refusal = _suite(format_name)[1], ""
    for attempt in range(ATTEMPTS):
        try:
            return draw(operator, seed, 1, attempt), ""
        except ModelError as error:
            refusal = error.message
    return None, refusal


def with_hostile_inputs(
    case: LegalCase, seed: int, kept: Sequence[str] = ()
) -> tuple[LegalCase, str]:
    """The case with other inputs, but those that are kept, and its reference's answer to them, and
    the kind of numbers; the case itself where the reference refuses those."""
    random = np.random.default_rng(seed)
    floats = [a.dtype.name for a in case.inputs.values() if a.dtype.kind == "f"]
    among = [k for k in (kinds(floats[0]) if floats else kinds("int8")) if k != FLUSHED]
    kind = str(random.choice(among))
    inputs = {
        name: hostile(random, array.dtype.name, array.shape, kind)
        if (array.dtype.kind == "f" and name not in kept)
        or (array.dtype.itemsize < 4 and array.dtype.kind in "iu")
        else array
        for name, array in case.inputs.items()
    }
    names = [value.name for value in case.model.outputs]
    try:
        expected = dict(reference_of(case.model).tensors(case.model, inputs, names))
    except ModelError:
        return case, "as drawn"
    return replace(case, inputs=inputs, expected=expected), kind
