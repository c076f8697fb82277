"""A child process that tries cases, one request after another.

    python -m verification.operators.process REPLY_FD TEMPLATES_FOLDER

{"operator": "Add", "type": "int8", "seed": 7, "devices": ["CPU"], "folder": "out"}   see trying.py
{..., "model": "small.onnx", "inputs": "small.npz"}                      these, judged the same way
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from explorer.runtime.child import Answer
from explorer.runtime.processes import limit_memory
from verification.conformance.suite import open_here
from verification.operators.case_files import case_of_files
from verification.operators.chains import CHAINS, draw_chain
from verification.operators.pairs import Pair
from verification.operators.templates import read
from verification.operators.trying import judged, try_case, try_drawn
from verification.operators.verdicts import disagreements

MAX_BYTES = 4 << 30
"""Of data that one process may have: a case that asks for more is refused or fails by itself."""


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    limit_memory(MAX_BYTES)
    templates = Path(sys.argv[2])
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            replies.write(json.dumps(answer(json.loads(line), templates)) + "\n")
            replies.flush()


def answer(request: Answer, templates: Path) -> Answer:
    """The case of a seed, or the files of a smaller one."""
    pair = Pair(request["operator"], request["type"])
    seed, devices = request["seed"], request["devices"]
    folder = Path(request["folder"]) if request.get("folder") else None
    match request.get("format", "onnx"):
        case "tflite" | "caffe":  # each of these needs an extra
            from verification.operators.seeded import try_seeded

            return try_seeded(request["format"], pair.operator, seed, devices, folder)
        case "pytorch":
            from verification.operators.eager import try_eager

            return try_eager(pair.operator, pair.element_type, seed, devices)
        case "sequences":
            from verification.operators.sequences.trying import try_sequence

            return try_sequence(pair.operator, seed, devices, folder)
    if "model" in request:
        files = Path(request["model"]), Path(request["inputs"])
        return judged(case_of_files(pair, seed, *files), devices, open_here, disagreements())
    if request.get("format") == CHAINS:
        return try_drawn(draw_chain(seed), devices, open_here, folder)
    return try_case(pair, seed, devices, read(templates, pair.operator), open_here, folder)


if __name__ == "__main__":
    main()
