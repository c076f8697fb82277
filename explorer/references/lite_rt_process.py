"""LiteRT, alone in a process of its own.

    {"do": "open", "model": ..., "kernels": "reference", "threads": 1,
     "inputs": {"image": 0}, "states": {"cell": 7}, "outputs": {"logits": 41}}
        {"inputs": ["image"], "outputs": [["logits", "float32"]]}
    {"do": "run", "inputs": {"image": ...}, "outputs": ["logits"]}        {"values": [...]}
    {"do": "time", "inputs": {...}, "least": 3, "budget_seconds": 0.02}   {"seconds": [...]}
    {"do": "close"}                                                       {}

Tensors are known by their places in the file. One model is open at a time; inputs that are null
are those of the request before. To read a tensor that is no array of numbers would end the process:
who asks names none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]  of an extra
    Interpreter,
    OpResolverType,
)
from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file
from serving import serve  # pyright: ignore[reportMissingImports]
from timing import time_calls  # pyright: ignore[reportMissingImports]

RESOLVERS = {
    "reference": OpResolverType.BUILTIN_REF,
    "optimized": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnnpack": OpResolverType.BUILTIN,
}


class LiteRt:
    """An interpreter, where a model is open, and the places of its tensors."""

    def __init__(self) -> None:
        self._interpreter: Any = None  # LiteRT has no types
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._states: dict[str, int] = {}
        self._held: dict[str, np.ndarray] = {}
        self._given: list[tuple[int, np.ndarray]] = []
        self._results: list[int] = []
        """Places of the model's own outputs: states may have none that can be read."""

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return self._open(request, exchange)
            case "close":
                self._interpreter = None
                return {}
        if request["inputs"] is not None:
            self._set({name: exchange.take(v) for name, v in request["inputs"].items()})
        if request["do"] == "time":
            return {"seconds": time_calls(self._call, request["least"], request["budget_seconds"])}
        self._interpreter.reset_all_variables()
        for name, array in self._held.items():
            self._interpreter.set_tensor(self._states[name], array)
        self._interpreter.invoke()
        exchange.clear()
        read = self._interpreter.get_tensor
        return {"values": [exchange.put(read(self._outputs[n])) for n in request["outputs"]]}

    def _call(self) -> list[np.ndarray]:
        """Arrays in and new arrays out, as everyone is timed who is compared."""
        set_tensor, read = self._interpreter.set_tensor, self._interpreter.get_tensor
        for place, array in self._given:
            set_tensor(place, array)
        self._interpreter.invoke()
        return [read(place) for place in self._results]

    def _set(self, arrays: dict[str, np.ndarray]) -> None:
        """The inputs, in whose shapes the model runs."""
        details = {d["index"]: tuple(d["shape"]) for d in self._interpreter.get_input_details()}
        self._held = {name: a for name, a in arrays.items() if name in self._states}
        arrays = {name: a for name, a in arrays.items() if name in self._inputs}
        for name, array in arrays.items():
            if details[self._inputs[name]] != array.shape:
                self._interpreter.resize_tensor_input(self._inputs[name], array.shape)
        self._interpreter.allocate_tensors()
        self._given = [(self._inputs[name], array) for name, array in arrays.items()]
        for place, array in self._given:
            self._interpreter.set_tensor(place, array)

    def _open(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        self._interpreter = None
        content = exchange.take(request["model"])
        exchange.clear()
        kernels = request["kernels"]
        self._interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=RESOLVERS[kernels],
            experimental_preserve_all_tensors=kernels != "xnnpack",
            num_threads=request["threads"],
        )
        self._interpreter.allocate_tensors()
        self._inputs, self._outputs = request["inputs"], request["outputs"]
        self._states = request["states"]
        own = {detail["index"] for detail in self._interpreter.get_output_details()}
        self._results = [place for place in self._outputs.values() if place in own]
        details = self._interpreter.get_tensor_details()
        types = {d["index"]: np.dtype(d["dtype"]).name for d in details}
        return {
            "inputs": list(self._inputs),
            "outputs": [[name, types.get(i, "none")] for name, i in self._outputs.items()],
        }


if __name__ == "__main__":
    serve(LiteRt())
