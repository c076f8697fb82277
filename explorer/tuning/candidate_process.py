"""A child process that opens and runs candidates, so that a fault of one costs only that one.

    python -m explorer.tuning.candidate_process REPLY_FD

    parent  ── {"do": "open", "backend": "opencl", "program": {...}, ...} ────────────▶  child
            ◀── {"status": "ready"} ───────────────────────────────────────────────────────
    parent  ── {"do": "run", "inputs": FILE, "outputs": FILE} ─────────────────────────▶  child
            ◀── {"status": "ran"} ──────────────────────────────────────────────────────────
    parent  ── {"do": "time", "inputs": FILE, "repeats": 20} ────────────────────────────▶  child
            ◀── {"status": "timed", "seconds": [...]} ──────────────────────────────────────

A refusal is {"status": "failed", "reason": ...}. One program is open at a time. Arrays travel in
NumPy's files, which hold nothing that is executed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

from explorer.backends import backend_named
from explorer.backends.records import Opening
from explorer.errors import ExplorerError
from explorer.ir.deferred import ArrayForm, Deferred
from explorer.kernels.program.build import BuiltProgram
from explorer.results import Program
from explorer.results.encoding import from_json
from explorer.runtime.cache import ProgramCache
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.executable import Executable

Message = dict[str, Any]  # JSON


class Server:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self._opened: Executable | None = None

    def answer(self, request: Message) -> Message:
        """What `explorer.tuning.candidate_child` asks for; a refusal is an answer, too."""
        try:
            if request["do"] == "open":
                return self._open(request)
            assert self._opened is not None, "a program is opened first"
            with np.load(request["inputs"], allow_pickle=False) as stored:
                inputs = {name: stored[name] for name in stored.files}
            if request["do"] == "time":
                return {"status": "timed", "seconds": self._opened.time(inputs, request["repeats"])}
            np.savez(request["outputs"], **self._opened.run(inputs))  # pyright: ignore[reportArgumentType]
            return {"status": "ran"}
        except ExplorerError as error:
            return {"status": "failed", "reason": str(error)}

    def _open(self, request: Message) -> Message:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        weights = np.load(request["weights"], allow_pickle=False)
        form = ArrayForm(weights.shape, weights.dtype)
        built = BuiltProgram(
            from_json(Program, request["program"]), Deferred(form, lambda: weights)
        )
        device = request["device"]
        self._opened = backend_named(request["backend"]).open(
            built,
            None if device is None else from_json(DeviceRecord, device),
            Opening(name="", cache=ProgramCache(None), threads=request["threads"], isolated=False),
        )
        return {"status": "ready"}


def main() -> None:
    server = Server()
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            replies.write(json.dumps(server.answer(json.loads(line))) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
