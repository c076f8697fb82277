"""A child process that runs cases, so that a crash or an endless loop is one result more.

    python -m verification.conformance.case_process REPLY_FD [--sanitize]
    python -m verification.conformance.case_process REPLY_FD --suite tflite --seed 1 [--keep FOLDER]
    python -m verification.conformance.case_process REPLY_FD --pytorch decomposed

    parent  ── {"case": "test_add", "group": "node", "device": "CPU"} ──▶  child
            ◀── the `Outcome` as one line of JSON ──────────────────────

What the process writes elsewhere (a sanitizer's report, a driver's words) goes to its standard
error, which the parent keeps.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from verification.conformance.sanitizers import guarded_opener
from verification.conformance.suite import Outcome, Suite, open_here


class RunsCases(Protocol):
    """Runs a case by name, group and device."""

    def run(self, case: str, group: str, device: str) -> Outcome: ...


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("replies", type=int)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--suite", choices=("onnx", "tflite", "caffe"), default="onnx")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--pytorch", choices=("exported", "decomposed"))
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="explorer-cases-") as folder,
        os.fdopen(arguments.replies, "w") as replies,
    ):
        # onnx's runner puts the light models' inputs and outputs beside its cached models.
        os.environ["ONNX_MODELS"] = str(Path(folder, "models"))
        if arguments.sanitize:
            # For this process alone: a compiler that it starts needs no sanitizer.
            os.environ.pop("LD_PRELOAD", None)
        opener = guarded_opener(Path(folder)) if arguments.sanitize else open_here
        if arguments.pytorch is not None:
            suite: RunsCases = _exported(arguments)
        else:
            suite = Suite(opener) if arguments.suite == "onnx" else _seeded(arguments)
        for line in sys.stdin:
            request = json.loads(line)
            outcome = suite.run(request["case"], request["group"], request["device"])
            replies.write(json.dumps(asdict(outcome)) + "\n")
            replies.flush()


def _seeded(arguments: argparse.Namespace) -> RunsCases:
    # Each needs an extra.
    if arguments.suite == "caffe":
        from verification.conformance.caffe.suite import Suite as CaffeSuite

        return CaffeSuite(arguments.seed, arguments.keep)
    from verification.conformance.tflite.suite import Suite as TfliteSuite

    return TfliteSuite(arguments.seed, arguments.keep)


def _exported(arguments: argparse.Namespace) -> RunsCases:
    from verification.conformance.pytorch.suite import Suite as PytorchSuite  # needs torch

    return PytorchSuite(arguments.pytorch == "decomposed")


if __name__ == "__main__":
    main()
