"""Runs a model in OpenVINO, in an environment that has it; alone in a process of its own.

    PYTHON openvino_worker.py REPLY_FD

Each line of the standard input is a request, answered by one line of JSON:

    {"open": "net.onnx", "inputs": "inputs.npz", "threads": 2}    {"version": "2026.4.1"}
    {"time": 5, "budget_seconds": 0.02}                            {"seconds": [0.0011, ...]}
    {"outputs": "outputs.npz"}                                     {}

or by {"error": "..."}. Nothing of ours is imported but the timing loop, which the parent puts on
the path.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import openvino  # pyright: ignore[reportMissingImports]  in that environment only
from timing import time_calls  # pyright: ignore[reportMissingImports]  explorer/references


class Opened:
    """A compiled model with its inputs."""

    def __init__(self, path: str, inputs: str, threads: int) -> None:
        core: Any = openvino.Core()
        with np.load(inputs) as arrays:
            given = {name: arrays[name] for name in arrays.files}
        # Inputs that nothing uses are no inputs in OpenVINO.
        ports = core.read_model(path).inputs
        known = {name for port in ports for name in port.names}
        self.inputs = {name: array for name, array in given.items() if name in known}
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            # Processors with half precision would use it by default.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = self._compile(core, path, settings)
        self.names = [port.any_name for port in compiled.outputs]
        self.request = compiled.create_infer_request()

    def _compile(self, core: Any, path: str, settings: dict[str, Any]) -> Any:
        """With the sizes of the inputs, as it is fastest; with open ones where that fails."""
        model = core.read_model(path)
        try:
            model.reshape({name: list(array.shape) for name, array in self.inputs.items()})
            return core.compile_model(model, "CPU", settings)
        except RuntimeError:
            return core.compile_model(core.read_model(path), "CPU", settings)

    def run(self) -> Any:  # OpenVINO's dictionary: results of their own, inputs as they lie
        return self.request.infer(self.inputs, share_inputs=True)


def answer(request: dict[str, Any], opened: Opened | None) -> tuple[dict[str, Any], Opened | None]:
    if "open" in request:
        opened = Opened(request["open"], request["inputs"], request["threads"])
        opened.run()
        return {"version": openvino.__version__.split("-")[0]}, opened
    assert opened is not None, "open comes first"
    if "time" in request:
        seconds = time_calls(opened.run, request["time"], request["budget_seconds"])
        return {"seconds": seconds}, opened
    results = opened.run()
    arrays = {name: results[number] for number, name in enumerate(opened.names)}
    np.savez(request["outputs"], **arrays)
    return {}, opened


def main() -> None:
    opened: Opened | None = None
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            try:
                reply, opened = answer(json.loads(line), opened)
            except Exception as error:  # OpenVINO raises RuntimeError for all that is its own
                lines = [part for part in str(error).splitlines() if part.strip()]
                reply = {"error": f"{type(error).__name__}: {' '.join(lines[-1:])[:300]}"}
            replies.write(json.dumps(reply) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
