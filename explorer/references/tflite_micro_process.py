"""TFLite Micro, alone in a process of its own.

It answers as `lite_rt_process.py` does; "open" has `arena_bytes` instead of the kernels and the
threads: where all tensors of the model lie at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file
from serving import serve  # pyright: ignore[reportMissingImports]
from tflite_micro import runtime  # pyright: ignore[reportMissingImports]  of an extra
from timing import time_calls  # pyright: ignore[reportMissingImports]


class TfliteMicro:
    """An interpreter, where a model is open, and the places of its tensors."""

    def __init__(self) -> None:
        self._interpreter: Any = None  # it has no types
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, list[Any]] = {}

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return self._open(request, exchange)
            case "close":
                self._interpreter = None
                return {}
        if request["inputs"] is not None:
            for name, described in request["inputs"].items():
                self._interpreter.set_input(exchange.take(described), self._inputs[name])
        if request["do"] == "time":
            call = self._interpreter.invoke
            return {"seconds": time_calls(call, request["least"], request["budget_seconds"])}
        self._interpreter.invoke()
        exchange.clear()
        return {"values": [exchange.put(self._tensor(name)) for name in request["outputs"]]}

    def _tensor(self, name: str) -> np.ndarray:
        place, shape = self._outputs[name]
        return np.array(self._interpreter.GetTensor(place, 0)["tensor_data"]).reshape(shape)

    def _open(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        self._interpreter = None
        content = exchange.take(request["model"])
        exchange.clear()
        self._interpreter = runtime.Interpreter.from_bytes(
            content,
            arena_size=request["arena_bytes"],
            intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,  # as it is spelt
        )
        # Inputs are known by their order, other tensors by their place in the file.
        self._inputs = {name: place for place, name in enumerate(request["inputs"])}
        self._outputs = request["outputs"]
        return {"inputs": list(self._inputs), "outputs": [[n, "tensor"] for n in self._outputs]}


if __name__ == "__main__":
    serve(TfliteMicro())
