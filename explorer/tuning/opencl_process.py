"""A child process that builds and runs OpenCL candidates, so that a driver's fault costs only one.

    python -m explorer.tuning.opencl_process REPLY_FD

    parent  ── {"do": "open", "program": {...}, "device": {...}, "weights": FILE, ...} ──▶  child
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

from explorer.errors import ExplorerError
from explorer.results import Program
from explorer.results.encoding import from_json
from explorer.runtime.cache import ProgramCache
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.opencl.program import OpenCLProgram

Message = dict[str, Any]  # JSON


class Server:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self._opened: OpenCLProgram | None = None

    def answer(self, request: Message) -> Message:
        """What `explorer.tuning.opencl_child` asks for; a refusal is an answer, too."""
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
        self._opened = OpenCLProgram(
            from_json(Program, request["program"]),
            np.load(request["weights"], allow_pickle=False),
            from_json(DeviceRecord, request["device"]),
            compute_units=request["compute_units"],
            cache=ProgramCache(None),
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
