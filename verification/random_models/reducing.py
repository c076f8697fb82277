"""A random model with a defect, as small as it can be: `explorer fuzz --differential --reduce`.

    reduce_defect(Path("out"), seed=7, devices=["CPU"])      out/7.small.onnx, .npz and .md

A trial is what `differential` makes of a model and its inputs, in a child process with limits.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

from explorer.errors import ExplorerError
from explorer.importers.arrays import read_arrays
from explorer.reducing import Candidate, Outcome, reduce
from explorer.reducing.candidate import candidate_of_proto
from explorer.reducing.conditions import write_candidate
from explorer.reducing.files import write_reduced
from explorer.runtime.child import Child
from explorer.runtime.scratch import own_folder
from verification.random_models.differential import DEFECTS

SECONDS = 60.0
"""Of one trial."""


def reduce_defect(
    folder: Path, seed: int, devices: Sequence[str], child: Callable[[], Child]
) -> str:
    """Writes the small model; what it is, or why there is none."""
    model, arrays = folder / f"{seed}.onnx", folder / f"{seed}.npz"
    judge = child()

    def condition(candidate: Candidate) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="reduce-", dir=own_folder()) as name:
            files = write_candidate(candidate, Path(name))
            request = {"model": str(files[0]), "inputs": str(files[1])}
            answer = judge.ask({**request, "seed": seed, "devices": list(devices)}, SECONDS)
        status = str(answer["status"])
        return Outcome(status if status in DEFECTS else "", str(answer.get("reason", "")))

    try:
        candidate = candidate_of_proto(onnx.load(model), read_arrays(arrays))
        reduced = reduce(candidate, condition)
    except ExplorerError as error:
        return f"it is not reduced: {error.message}"
    finally:
        judge.close()
    output = folder / f"{seed}.small.onnx"
    target = "opencl" if devices == ["OPENCL"] else "cpu"
    write_reduced(reduced, output, "check", target)
    operators = ", ".join(node.op_type for node in reduced.candidate.model.graph.node)
    return f"{operators}, in {shlex.quote(str(output))}"
