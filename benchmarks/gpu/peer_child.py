"""Runs one peer on one model; imports nothing of ours, so that any interpreter serves.

    python peer_child.py probe tinygrad-cl
    python peer_child.py measure torch-eager MODEL.onnx INPUTS.npz '["image"]' 20

The last line of the output is JSON: {"milliseconds": 1.2} or {"refusal": "..."}.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np


def main(arguments: list[str]) -> dict[str, object]:
    action, peer, *rest = arguments
    open_peer = {"tinygrad": tinygrad_call, "torch": torch_call}[peer.partition("-")[0]]
    if action == "probe":
        probe = {"tinygrad": probe_tinygrad, "torch": probe_torch}[peer.partition("-")[0]]
        return {"refusal": probe()}
    model, arrays, names, repeats = rest
    stored = np.load(arrays)
    inputs = {name: stored[f"input_{i}"] for i, name in enumerate(json.loads(names))}
    call = open_peer(peer, model, inputs)
    for _ in range(3):  # kernels are compiled, searched and captured in the first calls
        call()
    seconds = []
    for _ in range(int(repeats)):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return {"milliseconds": 1e3 * statistics.median(seconds)}


def probe_tinygrad() -> str:
    try:
        tensor = import_module("tinygrad").Tensor
    except ImportError as error:
        return f"not installed: {error}"
    found = (tensor([1.0, 2.0]) + 1).tolist()
    return "" if found == [2.0, 3.0] else f"a sum of two numbers gave {found}"


def tinygrad_call(peer: str, model: str, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
    """A captured graph of kernels (TinyJit) on the backend that the environment names."""
    tinygrad = import_module("tinygrad")
    device = tinygrad.Device
    runner = import_module("tinygrad.nn.onnx").OnnxRunner(model)
    given = {name: tinygrad.Tensor(array).realize() for name, array in inputs.items()}

    @tinygrad.TinyJit
    def run(**tensors: Any) -> list[Any]:
        return [value.realize() for value in runner(tensors).values()]

    def call() -> None:
        run(**given)
        device[device.DEFAULT].synchronize()

    return call


def probe_torch() -> str:
    for name in ("torch", "onnx2torch"):
        try:
            import_module(name)
        except ImportError as error:
            return f"not installed: {error}"
    torch = import_module("torch")
    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


def torch_call(peer: str, model: str, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
    """The model as torch modules in float32, TF32 off, eager or through torch.compile."""
    onnx2torch, torch = import_module("onnx2torch"), import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    module = onnx2torch.convert(model).eval().cuda()
    if peer == "torch-compile":
        module = torch.compile(module)
    given = [torch.from_numpy(array).cuda() for array in inputs.values()]

    def call() -> None:
        with torch.no_grad():
            module(*given)
        torch.cuda.synchronize()

    return call


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
