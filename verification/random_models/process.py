"""A child process that tries random models, one request after another.

{"seed": 7, "devices": ["CPU", "OPENCL"], "folder": "out"}     see differential.py
{..., "model": "small.onnx", "inputs": "small.npz"}            these, to judge as that seed's model
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any  # Any: a request is JSON

from explorer.runtime.child import Answer
from verification.conformance.suite import open_here
from verification.random_models.differential import compare_files, compare_seed


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            request = json.loads(line)
            found = answer(request)
            replies.write(json.dumps(found) + "\n")
            replies.flush()


def answer(request: dict[str, Any]) -> Answer:
    seed, devices = request["seed"], request["devices"]
    if "model" in request:
        files = Path(request["model"]), Path(request["inputs"])
        return compare_files(*files, seed, devices, open_here)
    folder = Path(request["folder"]) if request.get("folder") else None
    return compare_seed(seed, devices, open_here, folder)


if __name__ == "__main__":
    main()
