"""OpenCV's dnn module, alone in a process of its own.

    {"do": "open", "model": ..., "text": "layer { ... }", "threads": 1, "is_exact": true,
     "inputs": ["data"], "outputs": {"conv1": ["conv1", "conv1", 0]}, "shown": ["prob1"]}
        {"inputs": ["data"], "outputs": [["prob1", "float32"]]}
    {"do": "run", "inputs": {"data": ...}, "outputs": ["conv1"]}          {"values": [...]}
    {"do": "time", "inputs": {...}, "least": 3, "budget_seconds": 0.02}   {"seconds": [...]}
    {"do": "close"}                                                       {}

Tensors are known by the layers that make them, their tops, and their places among a layer's
results: OpenCV calls layers by their names, but convolutions by their tops. One net is open at a
time; inputs that are null are those of the request before.
"""

from __future__ import annotations

from typing import Any

import cv2  # pyright: ignore[reportMissingImports]  of an extra
import numpy as np
from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file
from serving import serve  # pyright: ignore[reportMissingImports]
from timing import time_calls  # pyright: ignore[reportMissingImports]


class OpenCv:
    """A net, where one is open, and the places of its tensors."""

    def __init__(self) -> None:
        self._net: Any = None  # OpenCV has no types here
        self._outputs: dict[str, tuple[str, int]] = {}
        self._shown: list[str] = []

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return self._open(request, exchange)
            case "close":
                self._net = None
                return {}
        for name, described in (request["inputs"] or {}).items():
            self._net.setInput(exchange.take(described), name)
        if request["do"] == "time":
            layers = self._layers(self._shown)
            seconds = time_calls(
                lambda: self._net.forward(layers), request["least"], request["budget_seconds"]
            )
            return {"seconds": seconds}
        names = request["outputs"]
        layers = self._layers(names)
        found = dict(zip(layers, self._net.forwardAndRetrieve(layers), strict=True))
        exchange.clear()
        places = [self._outputs[name] for name in names]
        values = [np.asarray(found[layer][at]) for layer, at in places]
        return {"values": [exchange.put(value) for value in values]}

    def _layers(self, names: list[str]) -> list[str]:
        return list(dict.fromkeys(self._outputs[name][0] for name in names))

    def _open(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        self._net = None
        weights = exchange.take(request["model"])
        exchange.clear()
        cv2.setNumThreads(request["threads"])
        text = np.frombuffer(request["text"].encode(), np.uint8)
        given = [np.frombuffer(weights, np.uint8)] if weights else []
        net = cv2.dnn.readNetFromCaffe(text, *given)
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)
        if request["is_exact"]:
            net.enableFusion(False)
            net.enableWinograd(False)
        self._net, self._shown = net, request["shown"]
        known = set(net.getLayerNames())
        self._outputs = {
            name: (layer if layer in known else top, at)
            for name, (layer, top, at) in request["outputs"].items()
        }
        return {
            "inputs": request["inputs"],
            "outputs": [[name, "float32"] for name in self._shown],
        }


if __name__ == "__main__":
    serve(OpenCv())
