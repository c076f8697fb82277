"""A child process that tries random models or damaged files, one request after another.

{"seed": 7, "devices": ["CPU", "OPENCL"], "folder": "out"}     a random model (differential.py)
{"seed": 7, "model": "net.onnx", "folder": "out"}              a damaged file (mutation.py)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from explorer.onnx_backend.differential import compare_seed
from explorer.onnx_backend.mutation import (
    DEFECTS,
    Compiled,
    Watch,
    mutate,
    prepare_process,
    try_mutant,
)
from explorer.onnx_backend.suite import open_here
from explorer.runtime.child import Answer


def answer(request: Answer, scratch: Path, watch: Watch, compiled: Compiled) -> Answer:
    """What happened, as plain data."""
    folder = Path(request["folder"]) if request.get("folder") else None
    if "model" not in request:
        return compare_seed(request["seed"], request["devices"], open_here, folder)
    content = Path(request["model"]).read_bytes()
    damaged = mutate(content, np.random.default_rng(request["seed"]))
    if folder is not None:
        # In case this process does not live to say what happened.
        suspect = folder / f"{request['seed']}-{Path(request['model']).name}"
        suspect.write_bytes(damaged)
    found = try_mutant(damaged, scratch, watch, compiled)
    if folder is not None and found["status"] not in DEFECTS:
        suspect.unlink()  # pyright: ignore[reportPossiblyUnboundVariable]
    return found


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    watch = Watch()
    compiled = Compiled()
    is_prepared = False
    with (
        tempfile.TemporaryDirectory(prefix="explorer-fuzz-") as scratch,
        os.fdopen(int(sys.argv[1]), "w") as replies,
    ):
        for line in sys.stdin:
            request = json.loads(line)
            if "model" in request and not is_prepared:
                prepare_process()
                is_prepared = True
            found = answer(request, Path(scratch), watch, compiled)
            replies.write(json.dumps(found) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
