"""A child process that reads damaged files, one after another, within limits.

python -m verification.mutation.process REPLY_FD MODEL

{"file": "net.nnx", "seed": -1}                                     how long it takes undamaged
{"file": "net.nnx", "seed": 7, "seconds": 10, "folder": "out"}      what comes of a damaged copy
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from explorer.backends import backend_of
from explorer.cli.snapshots import weights_path
from explorer.importers.format import pairs
from explorer.runtime.child import Answer
from explorer.targets import load_target
from verification.mutation.damage import damage
from verification.mutation.mutants import DEFECTS, Watch, prepare_process, try_mutant
from verification.mutation.readers import Readers

FIRST = 20
"""Files with which all modules are loaded: these stay, and every collection would look at them."""


def answer(request: Answer, scratch: Path, watch: Watch, readers: Readers) -> Answer:
    """What happened, as plain data."""
    file = Path(request["file"])
    content = file.read_bytes()
    place = scratch / file.name
    for beside in _parts_of(file):
        if beside.is_file():  # what the file names stays whole
            shutil.copyfile(beside, scratch / beside.name)
    if request["seed"] < 0:
        return try_mutant(content, place, watch, readers.read, float("inf"))
    damaged = damage(file.suffix, content, np.random.default_rng(request["seed"]))
    suspect = None
    if request["folder"]:
        # In case this process does not live to say what happened.
        suspect = Path(request["folder"], f"{request['seed']}-{file.name}")
        suspect.write_bytes(damaged)
    found = try_mutant(damaged, place, watch, readers.read, request["seconds"])
    if suspect is not None and found["status"] not in DEFECTS:
        suspect.unlink()
    return found


def _parts_of(file: Path) -> list[Path]:
    """Other files without which a file says nothing."""
    if file.suffix == ".mlir":
        return [weights_path(file)]
    pair = next((pair for pair in pairs() if file.suffix in pair), ())
    return [file.with_suffix(suffix) for suffix in pair if suffix != file.suffix]


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    watch = Watch()
    readers = Readers(sys.argv[2])
    _ask_compiler()
    prepare_process()
    with (
        tempfile.TemporaryDirectory(prefix="explorer-fuzz-") as scratch,
        os.fdopen(int(sys.argv[1]), "w") as replies,
    ):
        for number, line in enumerate(sys.stdin):
            found = answer(json.loads(line), Path(scratch), watch, readers)
            replies.write(json.dumps(found) + "\n")
            replies.flush()
            if number < FIRST:
                gc.freeze()


def _ask_compiler() -> None:
    """What it may use of this processor it is asked once, in a process that no file starts."""
    target = load_target("cpu")
    backend_of(target).core(target)


if __name__ == "__main__":
    main()
