"""A random model with a defect, as small as it can be: `explorer fuzz --differential --reduce`.

    reduce_defect(Path("out"), "7", {"seed": 7, "devices": ["CPU"]}, child)
                                                             out/7.small.onnx, .npz and .md

A trial is what `differential` makes of a model and its inputs, in a child process with limits.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import onnx

from explorer.errors import ExplorerError
from explorer.importers.arrays import read_arrays
from explorer.reducing import Candidate, Outcome, reduce
from explorer.reducing.candidate import candidate_of_proto
from explorer.reducing.conditions import write_candidate
from explorer.reducing.files import write_reduced
from explorer.runtime.child import Answer, Child
from explorer.runtime.scratch import own_folder
from verification.random_models.differential import DEFECTS

SECONDS = 60.0
"""Of one trial."""


def reduce_defect(
    folder: Path,
    name: str,
    request: Answer,
    child: Callable[[], Child],
    defects: Collection[str] = DEFECTS,
) -> str:
    """Writes the small model; what it is, or why there is none.

    `name`: of the files NAME.onnx and NAME.npz. `request`: what the child is asked, to which the
    files of a candidate are added. `defects`: statuses of which a small model has one.
    """
    model, arrays = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not model.is_file():
        return "it is not reduced: there is no ONNX model of it"
    judge = child()

    def condition(candidate: Candidate) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reduce-", dir=own_folder()) as place:
            files = write_candidate(candidate, Path(place))
            asked = {**request, "model": str(files[0]), "inputs": str(files[1])}
            answer = judge.ask(asked, SECONDS)
        status = str(answer["status"])
        return Outcome(status if status in defects else "", str(answer.get("reason", "")))

    try:
        candidate = candidate_of_proto(onnx.load(model), read_arrays(arrays))
        reduced = reduce(candidate, condition)
    except ExplorerError as error:
        return f"it is not reduced: {error.message}"
    finally:
        judge.close()
    output = folder / f"{name}.small.onnx"
    target = "opencl" if request["devices"] == ["OPENCL"] else "cpu"
    write_reduced(reduced, output, "check", target)
    operators = ", ".join(node.op_type for node in reduced.candidate.model.graph.node)
    return f"{operators}, in {shlex.quote(str(output))}"
