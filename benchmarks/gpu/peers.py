"""Peers of a GPU benchmark, each in a child process with an interpreter that may be another one.

Peer("tinygrad-cl", "/usr/bin/python3").refusal      "" or why it cannot be asked
measure_peers([peer], model, inputs, 20, 60.0)       {"tinygrad-cl": PeerTime(1.2, "")}
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from explorer.cli.latency.reference import onnx_content
from explorer.importers import SourceModel
from explorer.runtime.vendors import vendor_variables

CHILD = Path(__file__).resolve().parent / "peer_child.py"
ENVIRONMENT = {"tinygrad-cl": {"DEV": "CL"}, "tinygrad-cuda": {"DEV": "CUDA"}}
PROBE_SECONDS = 60.0
MIN_SECONDS = 5.0


@dataclass(frozen=True)
class PeerTime:
    milliseconds: float
    """Median of a call, inputs on the device, its end waited for."""
    refusal: str = ""


@dataclass(frozen=True)
class Peer:
    name: str
    python: str

    @cached_property
    def refusal(self) -> str:
        """Why the peer cannot be asked here: not installed, or no device; tried once."""
        return str(self.ask(["probe", self.name], PROBE_SECONDS).get("refusal", ""))

    def ask(self, arguments: Sequence[str], seconds: float) -> dict[str, object]:
        """The child's answer; a child that fails or takes too long answers with a refusal."""
        with vendor_variables() as variables:
            environment = {**loader_variables(), **os.environ, **variables}
            environment |= ENVIRONMENT.get(self.name, {})
            command = [self.python, str(CHILD), *arguments]
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=seconds,
                    env=environment,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"refusal": f"it took longer than {seconds:.0f} s"}
            except OSError as error:
                return {"refusal": f"{self.python} cannot be started: {error}"}
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            words = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
            return {"refusal": words[0]}
        return json.loads(lines[-1])


def loader_variables() -> dict[str, str]:
    """Where tinygrad finds OpenCL's loader: the system's, or the one that pyopencl brings."""
    if find_library("OpenCL"):
        return {}
    package = importlib.util.find_spec("pyopencl")
    places = list(package.submodule_search_locations or ()) if package is not None else []
    found = [file for place in places for file in Path(place).glob(".libs/libOpenCL*")]
    return {"OPENCL_PATH": str(found[0])} if found else {}


def measure_peers(
    peers: Sequence[Peer],
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    repeats: int,
    seconds: float,
) -> dict[str, PeerTime]:
    """Every peer's time of a call for the model, or why it has none."""
    found: dict[str, PeerTime] = {}
    with tempfile.TemporaryDirectory() as folder:
        file, arrays = Path(folder, "model.onnx"), Path(folder, "inputs.npz")
        file.write_bytes(onnx_content(model).proto.SerializeToString())
        # Names of inputs may be what no member of an archive can be called.
        given = {f"input_{i}": array for i, array in enumerate(inputs.values())}
        np.savez(arrays, allow_pickle=False, **given)
        names = json.dumps(list(inputs))
        for peer in peers:
            answer = peer.ask(
                ["measure", peer.name, str(file), str(arrays), names, str(repeats)],
                max(MIN_SECONDS, seconds),
            )
            milliseconds = answer.get("milliseconds", float("nan"))
            assert isinstance(milliseconds, float)
            found[peer.name] = PeerTime(milliseconds, str(answer.get("refusal", "")))
    return found
