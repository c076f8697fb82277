"""One case on every device, judged.

try_case(Pair("Add", "int8"), seed=7, devices=("INTERPRETER", "CPU"), templates, open_here)
-> {"operator": "Add", "type": "int8", "seed": 7, "status": "right", "reason": "", ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import ModelError, UnsupportedError
from explorer.onnx_backend.backend import Opener, Representation
from explorer.runtime.child import Answer
from verification.operators.case_files import write_case
from verification.operators.chains import CHAIN
from verification.operators.comparing import same
from verification.operators.drawing import Case, NotPossible, draw
from verification.operators.judges import (
    ONNX,
    RUNTIME,
    NoOpinion,
    Opinions,
    ask,
    inner_operators,
    is_illegal,
    is_random,
    narrowest_float,
)
from verification.operators.nodes import by_nodes
from verification.operators.pairs import Pair
from verification.operators.templates import Template
from verification.operators.verdicts import (
    DEFECTS,
    FAILED,
    ILLEGAL,
    NOT_DRAWN,
    RANDOM,
    REFUSED,
    UNJUDGED,
    Disagreement,
    Verdict,
    disagreements,
    tolerated_type,
    verdict,
)

INTERPRETER = "INTERPRETER"
NEVER_LEGAL = (
    "the indexed axis is empty, but there are indices",
    "elements; one expected",
    "for 0 slices",
    "for the columns of",
)
"""What errors say of operands that no operator takes; onnxruntime does not look at some."""


def try_case(
    pair: Pair,
    seed: int,
    devices: Sequence[str],
    templates: Sequence[Template],
    open_program: Opener,
    folder: Path | None = None,
    table: Sequence[Disagreement] | None = None,
) -> Answer:
    """Draws the case of a seed and judges every device. A defect is written to `folder` as
    OPERATOR-TYPE-SEED.onnx and .npz."""
    try:
        case = draw(pair, seed, templates)
    except NotPossible as error:
        answer: Answer = {"operator": pair.operator, "type": pair.element_type, "seed": seed}
        return {**answer, "status": NOT_DRAWN, "reason": str(error)}
    return try_drawn(case, devices, open_program, folder, table)


def try_drawn(
    case: Case,
    devices: Sequence[str],
    open_program: Opener,
    folder: Path | None = None,
    table: Sequence[Disagreement] | None = None,
) -> Answer:
    """As `try_case`, of a case that is there."""
    pair = case.pair
    answer: Answer = {"operator": pair.operator, "type": pair.element_type, "seed": case.seed}
    written: list[Path] = []
    if folder is not None:  # before it is tried: it may end the process
        written = write_case(case, folder / f"{pair.operator}-{pair.element_type}-{case.seed}")
    answer |= judged(case, devices, open_program, disagreements() if table is None else table)
    if answer["status"] not in DEFECTS:
        for file in written:
            file.unlink()
    return answer


def judged(
    case: Case, devices: Sequence[str], open_program: Opener, table: Sequence[Disagreement]
) -> Answer:
    """Status and reason of a case, and of each device."""
    answer: Answer = {"kind": case.kind, "devices": {}}
    opinions = ask(case.model, case.inputs)
    runtime = opinions[RUNTIME]
    if isinstance(runtime, NoOpinion) and runtime.is_illegal:
        return {**answer, "status": ILLEGAL, "reason": runtime.reason}
    for device in devices:
        found = _device(case, device, open_program, opinions, table)
        answer["devices"][device] = [found.status, found.reason]
    verdicts = list(answer["devices"].items())
    worst = next((v for v in verdicts if v[1][0] in DEFECTS), verdicts[0])
    return {**answer, "status": worst[1][0], "reason": f"{worst[0]}: {worst[1][1]}"}


def _device(
    case: Case,
    device: str,
    open_program: Opener,
    opinions: Opinions,
    table: Sequence[Disagreement],
) -> Verdict:
    representation = Representation(case.model, device, open_program)
    try:
        with np.errstate(all="ignore"):
            found = list(representation.run(dict(case.inputs)))
    except UnsupportedError as error:
        return Verdict(REFUSED, _line("; ".join(error.problems) or error.message))
    except Exception as error:  # a defect is the result here
        if all(isinstance(opinion, NoOpinion) for opinion in opinions.values()):
            return Verdict(UNJUDGED, _line(f"{type(error).__name__}: {error}"))
        reference = opinions[ONNX]
        is_refused = isinstance(reference, NoOpinion) and (
            reference.is_illegal or (isinstance(error, ModelError) and reference.is_refusal)
        )
        is_refused |= isinstance(error, ModelError) and any(
            words in error.message for words in NEVER_LEGAL
        )
        has_no_runtime = isinstance(opinions[RUNTIME], NoOpinion) and isinstance(error, ModelError)
        if is_refused or (has_no_runtime and is_illegal(case.model, case.inputs)):
            return Verdict(ILLEGAL, _line(error))
        return Verdict(FAILED, _line(f"{type(error).__name__}: {error}"))
    finally:
        representation.close()
    if all(isinstance(opinion, NoOpinion) for opinion in opinions.values()):
        return Verdict(UNJUDGED, next(o.reason for o in opinions.values()))  # pyright: ignore
    if is_random(case.model):
        return Verdict(RANDOM)
    inner = [name for node in case.model.graph.node for name in inner_operators(node)]
    whole = verdict(
        case.pair, opinions, found, table, case.inputs, narrowest_float(case.model), inner
    )
    if whole.status not in DEFECTS or case.pair.operator != CHAIN:
        return whole
    if device != INTERPRETER:
        problem = _other_than_interpreted(case, found, open_program)
        if problem:
            return Verdict(whole.status, f"{whole.reason}; the interpreter: {problem}")
    return by_nodes(
        case,
        whole,
        lambda one: _device(one, INTERPRETER, open_program, ask(one.model, one.inputs), table),
    )


def _other_than_interpreted(case: Case, found: Sequence[Any], open_program: Opener) -> str:
    """What is not the same as in the interpreter; "" where nothing is."""
    representation = Representation(case.model, INTERPRETER, open_program)
    with np.errstate(all="ignore"):
        right = list(representation.run(dict(case.inputs)))
    return same(found, right, tolerated_type(case.pair))


def _line(error: object) -> str:
    return " ".join(str(error).split())[:300]
