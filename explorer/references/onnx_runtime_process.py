"""onnxruntime, alone in a process of its own.

    {"do": "open", "model": ..., "folder": "", "is_optimized": false,
     "is_exact": false, "threads": 1, "sizes": {}}
        {"inputs": ["image"], "outputs": [["logits", "tensor(float)"]]}
    {"do": "run", "inputs": {"image": ...}, "outputs": ["logits"]}      {"values": [...]}
    {"do": "time", "inputs": {...}, "least": 3, "budget_seconds": 0.02}  {"seconds": [...]}
    {"do": "close"}                                                      {}

One model is open at a time. Inputs that are null are those of the request before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import onnxruntime
from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file
from serving import serve  # pyright: ignore[reportMissingImports]
from timing import time_calls  # pyright: ignore[reportMissingImports]

FATAL = 4
"""onnxruntime writes nothing below that: what it refuses is in its exceptions, too."""


class OnnxRuntime:
    """A session, where one is open, and its last inputs."""

    def __init__(self) -> None:
        self._session: Any = None  # onnxruntime has no types
        self._inputs: dict[str, Any] = {}

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return self._open(request, exchange)
            case "close":
                self._session, self._inputs = None, {}
                return {}
        if request["inputs"] is not None:
            self._inputs = {k: exchange.take(v) for k, v in request["inputs"].items()}
        if request["do"] == "time":
            call = partial(self._session.run, None, self._inputs)
            return {"seconds": time_calls(call, request["least"], request["budget_seconds"])}
        values = self._session.run(request["outputs"], self._inputs)
        exchange.clear()
        return {"values": [exchange.put(value) for value in values]}

    def _open(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        self._session, self._inputs = None, {}
        model = exchange.take(request["model"])
        exchange.clear()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = FATAL
        if not request["is_optimized"]:
            level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        if request["is_exact"]:
            options.add_session_config_entry("session.x64quantprecision", "1")
        for name, size in request["sizes"].items():
            options.add_free_dimension_override_by_name(name, size)
        if request["folder"]:
            key = "session.model_external_initializers_file_folder_path"
            options.add_session_config_entry(key, request["folder"])
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        return {
            "inputs": [value.name for value in self._session.get_inputs()],
            "outputs": [[value.name, value.type] for value in self._session.get_outputs()],
        }


if __name__ == "__main__":
    serve(OnnxRuntime())
