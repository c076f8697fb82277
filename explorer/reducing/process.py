"""A child process that compiles candidates and compares what they compute, one after another.

{"do": "outputs" | "all" | "crash", "model": "model.onnx", "input": "input.npz",
 "expected": "expected.npz", "target": "cpu", "tolerance": 1e-4, "decisions": {}}
-> {"status": "answered", "kind": "differs", "reason": "y: at [0] expected 1.0, came 2.0"}
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any  # Any: requests and answers are JSON

from explorer.compilation import Compilation, compile_model
from explorer.errors import UnsupportedError
from explorer.importers import load
from explorer.importers.arrays import read_arrays
from explorer.importers.inputs import read_inputs
from explorer.reducing.conditions import DIFFERS, PASSES, Outcome, compared, outcome_of
from explorer.runtime.processes import limit_memory


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    limit_memory()
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            found = outcome(json.loads(line))
            answer = {"status": "answered", "kind": found.kind, "reason": found.reason}
            replies.write(json.dumps(answer) + "\n")
            replies.flush()


def outcome(request: dict[str, Any]) -> Outcome:
    try:
        model = load(request["model"])
        inputs, sizes = read_inputs(model, Path(request["input"]), {})
        compilation = compile_model(
            model, request["target"], dimensions=sizes, decisions=request["decisions"]
        )
        try:
            return _judged(compilation, inputs, request)
        finally:
            compilation.close()
    except UnsupportedError:
        return PASSES  # what is refused by name has no defect
    except Exception as error:
        return outcome_of(error)


def _judged(compilation: Compilation, inputs: dict[str, Any], request: dict[str, Any]) -> Outcome:
    if request["do"] == "all":
        accuracy = compilation.accuracy(inputs, request["tolerance"])
        if accuracy.passed:
            return PASSES
        fault = accuracy.bisect()
        return Outcome(DIFFERS, str(fault) if fault else accuracy.report.problem)
    found = compilation.run(inputs)
    if request["do"] == "crash":
        return PASSES
    return compared(found, read_arrays(Path(request["expected"])))


if __name__ == "__main__":
    main()
